"""Blocks of log lines in, the progress lines found in them out, by the table of formats.

Touches nothing. The rarest literal of a format is looked for before any regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from watch_inference.logs.formats import FORMATS, Format
from watch_inference.model import LogEvent

# A candidate line is looked at from this far before its literal to this far behind it.
_BEFORE = 2048
_BEHIND = 512

_ESCAPES = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[()][0-9A-B]"
)
_SCALES = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21, "Y": 1e24}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(d|h|min|m|s)")
_DURATION_S = {"d": 86400.0, "h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0}


@cache
def compiled(pattern: bytes) -> re.Pattern[bytes]:
    """Compile a format's pattern when its first candidate line comes: most never come."""
    return re.compile(pattern)


class Found:
    """A progress line found in a block; what else it says is read only when somebody asks."""

    __slots__ = ("_event", "_groups", "done", "end", "format", "line", "prefix", "start", "total")

    def __init__(self, start: int, end: int, line: bytes, match: re.Match[bytes], form: Format):
        groups = match.groupdict()
        self.start = start
        self.end = end  # where its terminator stands
        self.line = line
        self.prefix = line[: match.start()]
        self.format = form
        self.done = _count(groups["done"])
        self.total = _count(groups.get("total"))
        self._groups = (groups, match.end())
        self._event: LogEvent | None = None

    @property
    def tail(self) -> bytes:
        """Give what stands right behind the count, from the slash to behind the total."""
        groups, _ = self._groups
        total = groups.get("total")
        behind = b"/" + total if total is not None else b""
        begins = self.line.find(groups["done"] + behind, len(self.prefix))
        end = begins + len(groups["done"]) + len(behind)
        return behind + self.line[end : end + 1] if behind and begins == len(self.prefix) else b""

    @property
    def event(self) -> LogEvent:
        """Read all that the line says."""
        if self._event is None:
            groups, behind = self._groups
            for extra in self.format.extras:
                more = compiled(extra).search(self.line, behind)
                groups.update(more.groupdict() if more else {})
            if self.format.described:
                groups["dataset"] = self.prefix[-300:]
            words = {key: _text(value) for key, value in groups.items()}
            self._event = _event(words, self.done or 0, self.total)
        return self._event


class Stride(NamedTuple):
    """Lines that count on one after another: a few of them, how many, the largest step, the end."""

    kept: tuple[Found, ...] = ()
    lines: int = 0
    step: int = 0
    end: int = 0  # behind the last one


_KEPT_OF_A_STRIDE = 64


def stride(block: bytes, last: Found) -> Stride:
    """Pass over the lines that differ from `last` in their count alone, and count on from it.

    This is what makes a gigabyte of history cheap: each line is held against the last one, but
    few are read. What else stands in the block, another dataset's line, say, ends the stride.
    """
    before, head, tail = last.done or 0, last.prefix, last.tail
    step = lines = end = 0
    width = len(head)
    ats: list[int] = []
    for literal in last.format.literals[: 1 if tail else 0]:
        at = block.find(literal)
        while at >= 0:
            start = block.rfind(b"\n", end, at) + 1 or end
            digits = block[start + width : block.find(tail, start, at)]
            if not digits.isdigit() or not block.startswith(head, start):
                break
            done = int(digits)
            if done < before:
                break
            if done - before > step:
                step = done - before
            before = done
            if not lines % _KEPT_OF_A_STRIDE:
                ats.append(at)
            lines += 1
            newest, end = at, at + len(literal)
            at = block.find(literal, end)
    if not lines:
        return Stride()
    read = [_line_at(block, at, last.format) for at in (*ats, newest)]
    return Stride(tuple(one for _, one in read if one is not None), lines, step, read[-1][0])


def scan(block: bytes, formats: Iterable[Format] = FORMATS, position: int = 0) -> list[Found]:
    """Find the progress lines of a block of whole lines, in the order in which they stand."""
    by_start: dict[int, Found] = {}
    for form in formats:
        for literal in form.literals:
            at = block.find(literal, position)
            while at >= 0:
                end, found = _line_at(block, at, form)
                # The first entry of the table that knows a line has it.
                if found is not None:
                    by_start.setdefault(found.start, found)
                # One look has covered the line: this keeps a megabyte of bait linear.
                at = block.find(literal, end)
    return [by_start[start] for start in sorted(by_start)]


def unfinished(partial: bytes, formats: Iterable[Format] = FORMATS) -> Found | None:
    """Read a frame that has no terminator yet, if its closing token has come."""
    for form in formats:
        if form.closing is None or form.closing not in partial:
            continue
        for literal in form.literals:
            at = partial.rfind(literal)
            found = _line_at(partial, at, form)[1] if at >= 0 else None
            if found is not None:
                return found
    return None


def _line_at(block: bytes, at: int, form: Format) -> tuple[int, Found | None]:
    """Read the line around a literal; also say where it ends, or where the look at it ends."""
    low = at - _BEFORE if at > _BEFORE else 0
    start = block.rfind(b"\n", low, at) + 1 or low
    end = block.find(b"\n", at, at + _BEHIND)
    if end < 0:
        end = min(at + _BEHIND, len(block))
    line = block[start:end]
    if b"\r" in line:
        start = block.rfind(b"\r", start, at) + 1 or start
        returned = block.find(b"\r", at, end)
        end = returned if returned >= 0 else end
        line = block[start:end]
    if b"\x1b" in line:
        line = _ESCAPES.sub(b"", line)
    match = compiled(form.pattern).search(line)
    if match is None:
        return end, None
    found = Found(start, end, line, match, form)
    return end, None if found.done is None else found


def _event(groups: dict[str, str | None], done: int, total: int | None) -> LogEvent:
    unit = groups.get("unit") or ""
    rate = _real(groups.get("rate"))
    if rate is not None and unit.startswith("s/"):
        rate = 1 / rate if rate > 0 else None
    name = (groups.get("dataset") or "").strip().rstrip(":").strip()
    return LogEvent(
        kind="progress",
        dataset=name or None,
        done=done,
        total=total,
        errors=_amount(groups.get("errors")),
        rate=rate,
        completion_tokens=_real(groups.get("tokens")),
        eta_s=seconds(groups.get("eta")),
        elapsed_s=seconds(groups.get("elapsed")),
    )


def _count(digits: bytes | None) -> int | None:
    """Read a count; most are plain digits."""
    if digits is not None and digits.isdigit():
        return int(digits)
    return _amount(_text(digits))


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")


def _real(text: str | None) -> float | None:
    """Read 1.23, 4.5k; None for `?` and for what is below 0, which tqdm prints for "unknown"."""
    if not text or text == "?":
        return None
    scale = _SCALES.get(text[-1], 1.0)
    try:
        value = float(text[:-1] if scale != 1.0 else text) * scale
    except ValueError:
        return None
    return value if value >= 0 else None


def _amount(text: str | None) -> int | None:
    value = _real(text)
    return None if value is None else round(value)


def seconds(text: str | None) -> float | None:
    """Read a length of time: 4.0h, 1h05m, 90s, 3:54:32; None where it says nothing."""
    if not text or text.startswith(("-", "?")):
        return None
    if ":" in text:
        total = 0.0
        for part in text.split(":"):
            if not part.isdigit() or len(part) > 9:
                return None
            total = total * 60 + int(part)
        return total
    parts = _DURATION.findall(text)
    if not parts:
        return None
    return sum(float(value) * _DURATION_S[unit] for value, unit in parts)
