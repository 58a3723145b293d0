"""Blocks of log lines in, what the log says of each dataset out; touches nothing.

A Book is a fold: feed it the log's bytes in order and ask at any time what they say so far. It
keeps a bounded amount a dataset, whatever the size of the log.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from watch_inference.logs import formats, scanning
from watch_inference.logs.blame import Blame
from watch_inference.logs.newest import Newest
from watch_inference.logs.runs import Run, Told
from watch_inference.logs.scanning import Found
from watch_inference.model import LogReading
from watch_inference.units import clean, cut, masked

_PENDING = 256 * 1024
_BLAMED = 256 * 1024
_COUNTED = 64 << 20  # bytes of history whose lines are counted
_LARGE = 64 * 1024  # a block beyond this is history, to be read fast
_SHOWN_LINES = 200
_SHOWN = 64 * 1024
# "4223 already done", "resuming from 4223", "skipping first 4158": what an earlier run had done.
_RESUMED = re.compile(
    rb"(?i)(?:(?<![\w.])(\d{1,12}) (?:\w+ ){0,3}?(?:already|existing|resumed|skipped)\b"
    rb"|\b(?:resum(?:e|ed|ing)|skip(?:ped|ping)?)(?: (?:from|at|the|first|line|row|sample)){0,3}:? "
    rb"(\d{1,12})(?![\w.]))"
)
# "concurrency=150 max_tokens=10240": how a run asks, as far as a heading says it.
_AT_ONCE = re.compile(rb"""(?i)\bconcurrency[=:'" ]{1,4}(\d{1,9})(?![\w.])""")
_MOST_TOKENS = re.compile(
    rb"""(?i)\bmax_(?:new_|completion_)?tokens[=:'" ]{1,4}(\d{1,9})(?![\w.])"""
)
# Words in brackets before a progress line that are never a dataset's name.
_BRACKETED = re.compile(rb"\[([A-Za-z][\w.\-]{1,63})\]")
_NOT_A_NAME = re.compile(
    r"(?i)(info|warn(ing)?|error|debug|critical|stdout|stderr|(default|rank|worker|node|tp|dp)_?\d*)$"
)


class Book:
    """Folds a log's lines into what they say of each dataset; `names` are the known datasets."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = names
        self._runs: dict[tuple[str, int | None], Run] = {}
        self._current: Run | None = None
        self._pending = Newest(_PENDING)  # since the last progress line, for its headings
        self._blame = Blame()
        self._unblamed = Newest(_BLAMED)  # what was not looked through for trouble yet
        self._blamed_at: float | None = None
        self._shown = Newest(_SHOWN)
        self._unparsed: int | None = 0  # None: of a history too long to count
        self._history = 0
        self._epoch = 0
        self._format: str | None = None
        self._recent: tuple[formats.Format, ...] = formats.FORMATS
        self._searched: tuple[bytes, str | None] = (b"", None)
        self._cleaned: tuple[bytes, tuple[str, ...]] = (b"", ())

    def feed(self, block: bytes, at: float | None) -> None:
        """Fold whole lines, in order; `at`: when they were seen arriving, None for history."""
        self._unblamed.add(block)
        self._blamed_at = at
        self._shown.add(block)
        position, ended = self._skim(block, at) if len(block) > _LARGE else (0, 0)
        for found in self._scan(block, position):
            if self._goes_on(found) or self._fold(found, at, block, position):
                assert self._current is not None
                self._current.add(found, at)
                self._pending.clear()
                position = found.end + 1
                ended += block[found.end : found.end + 1] == b"\n"
        self._pending.add(block[position:])
        self._count(block, ended, at)

    def _count(self, block: bytes, progress: int, at: float | None) -> None:
        """Count the lines that say nothing of progress; those of a long history are passed over."""
        self._history += len(block) if at is None else 0
        if self._unparsed is None or self._history > _COUNTED:
            self._unparsed = None
            return
        lines = len(block) - len(block.replace(b"\n", b""))
        self._unparsed += max(0, lines - progress)

    def _skim(self, block: bytes, at: float | None) -> tuple[int, int]:
        """Run over the lines of a large block for as long as they go on as the last one did.

        Gives where it stopped, and how many lines it passed. A few are kept, read like any other.
        """
        run = self._current
        if run is None or len(self._recent) != 1 or run.last.format is not self._recent[0]:
            return 0, 0
        stride = scanning.stride(block, run.last)
        run.step = max(run.step, stride.step)
        for found in stride.kept:
            run.add(found, at)
        if stride.lines:
            self._pending.clear()
        return stride.end, stride.lines

    def peek(self, partial: bytes, at: float | None) -> None:
        """Fold a frame that has no terminator yet, if it says that it is whole."""
        found = scanning.unfinished(partial)
        if found is not None and self._fold(found, at, b"", 0):
            assert self._current is not None
            self._current.add(found, at)

    def fill(self, reading: LogReading) -> LogReading:
        """Put what the log says so far into a reading."""
        self._blame.feed(self._unblamed.data, self._blamed_at)
        self._unblamed.clear()
        runs = [run.still(self._epoch) for run in self._runs.values()]
        return reading._replace(
            format=self._format,
            unparsed=self._unparsed,
            restarts=reading.restarts + self._epoch,
            datasets=tuple(runs),
            current=self._heading() or (self._current.name if self._current else None),
            last_error=self._blame.text,
            last_error_at=self._blame.at,
            tail=self._tail(),
            error_tail=self._blame.around,
        )

    def _tail(self) -> tuple[str, ...]:
        """Give the newest lines, cleaned; worked out anew only when there are some."""
        shown = self._shown.data
        if self._cleaned[0] is not shown:
            lines = shown.replace(b"\r", b"\n").split(b"\n")
            texts = (_printable(line) for line in lines[-_SHOWN_LINES:])
            self._cleaned = (shown, tuple(text for text in texts if text))
        return self._cleaned[1]

    def _scan(self, block: bytes, position: int) -> list[Found]:
        """Look for the formats that the block before had; for all of them where that finds none."""
        found = scanning.scan(block, self._recent, position)
        if position:
            return found  # the lines passed over were of the format that is looked for
        if not found and self._recent is not formats.FORMATS:
            found = scanning.scan(block)
        kinds = {one.format.literals: one.format for one in found}
        self._recent = tuple(kinds.values()) if len(block) > _LARGE and kinds else formats.FORMATS
        return found

    def _goes_on(self, found: Found) -> bool:
        """Tell a line that counts on as the one before it did: most are, and need no more thought.

        Only where something may begin is it worth reading what stands between two lines.
        """
        run = self._current
        return (
            run is not None
            and run.last.format is found.format
            and run.last.prefix == found.prefix
            and run.total == found.total
            and run.done <= (found.done or 0)
        )

    def _fold(self, found: Found, at: float | None, block: bytes, position: int) -> bool:
        """Choose the run of a line; False if it is no work of the job."""
        name = self._named(found)
        if name is None:
            return False
        run = self._current
        steady = (
            run is not None
            and name in ("", run.name)
            and run.total == found.total
            and run.done <= (found.done or 0)
        )
        if not steady:
            between = self._pending.data + block[position : found.start]
            heading, told = _last_heading(between[-_PENDING:], self._pattern())
            run = self._open(name or heading or self._continued(found), found)
            run.told = told.over(run.told)
        assert run is not None
        self._epoch = max(self._epoch, run.runs - 1)
        run.epoch = self._epoch
        self._current = run
        self._format = found.format.name
        return True

    def _named(self, found: Found) -> str | None:
        """Name the dataset that the line itself names; "" for none, None for no work of the job."""
        description = found.event.dataset if found.format.described else None
        if self._format == "reference" and found.format.name != "reference":
            return None  # a bar beside the job's own progress lines: loading, mapping, a batch
        matches = self._pattern().findall(found.prefix) if self.names else []
        if matches:
            return _text(matches[-1])
        if description is not None and re.search(formats.NOT_WORK, description):
            return None
        if self.names:
            return ""
        if description is not None:
            return description
        bracketed = [_text(word) for word in _BRACKETED.findall(found.prefix)]
        return next((word for word in reversed(bracketed) if not _NOT_A_NAME.match(word)), "")

    def _continued(self, found: Found) -> str:
        """Name the dataset of a line without any name: the current one, if it may be the same."""
        run = self._current
        if run is None or run.name == "":
            return ""
        same = found.total is None or found.total == run.total or (found.done or 0) >= run.done
        return run.name if same else ""

    def _open(self, name: str, found: Found) -> Run:
        """Give the run that a line belongs to: the one it goes on with, or a new one."""
        done = found.done or 0
        run = self._runs.get((name, None))
        if name == "":
            # Lines without a name are told apart by their totals, unless the total just grew.
            last = self._current
            if last is not None and last.name == "" and done >= last.done:
                return last
            run = self._runs.get((name, found.total))
        if run is not None and done >= run.done:
            return run
        if run is not None and run.total == found.total and _jitter(done, run.done):
            return run
        runs, earlier = (run.runs + 1, run.done) if run else (1, 0)
        run = Run(name, found, runs, earlier)
        self._runs[(name, found.total if name == "" else None)] = run
        return run

    def _heading(self) -> str | None:
        """Name the dataset that a heading since the last progress line named."""
        pending = self._pending.data
        if self._searched[0] is not pending:
            self._searched = (pending, _last_heading(pending, self._pattern())[0])
        return self._searched[1]

    def _pattern(self) -> re.Pattern[bytes]:
        """Match any of the known datasets' names as a whole word."""
        names = sorted(
            (name.encode("utf-8", "surrogateescape") for name in self.names), key=len, reverse=True
        )
        either = b"|".join(re.escape(name) for name in names) or rb"(?!)"
        return re.compile(rb"(?<![\w.\-])(?:" + either + rb")(?![\w\-])")


@lru_cache(2 * _SHOWN_LINES)
def _printable(line: bytes) -> str:
    """Clean a line to be shown; most of them were there at the look before."""
    return cut(masked(clean(line[:2000]).rstrip()), 300)


def _last_heading(block: bytes, pattern: re.Pattern[bytes]) -> tuple[str | None, Told]:
    """Find the last line that names exactly one dataset, and what it or a later one tells."""
    for match in reversed(list(pattern.finditer(block))):
        start = max(block.rfind(b"\n", 0, match.start()), block.rfind(b"\r", 0, match.start())) + 1
        end = block.find(b"\n", match.end())
        line = block[start : end if end >= 0 else len(block)]
        if len(set(pattern.findall(line))) == 1:
            return _text(match.group()), _told(pattern.sub(b"", block[start:][:8192]))
    return None, _told(block[-8192:])


def _told(block: bytes) -> Told:
    return Told(*(_number(kind, block) for kind in (_RESUMED, _AT_ONCE, _MOST_TOKENS)))


def _number(kind: re.Pattern[bytes], block: bytes) -> int | None:
    """Find the last number of a kind."""
    said = None
    for match in kind.finditer(block):
        said = int(next(group for group in match.groups() if group))
    return said


def _jitter(done: int, before: int) -> bool:
    """Tell a count that came out of order from a new run: it fell by a hundredth at most."""
    return before - done <= max(1, before // 100)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
