"""Blocks of log lines in, the last thing that went wrong out; touches nothing."""

from __future__ import annotations

import re

from watch_inference.units import clean, cut, masked

_TRACEBACK = b"Traceback (most recent call last)"
# An exception's last line: `ValueError: text`, `torch.cuda.OutOfMemoryError: text`.
_EXCEPTION = re.compile(
    rb"(?m)^[^\S\r\n]{0,4}(?:\[?\w{1,12}\]?:\s)?([A-Za-z_][\w.]{2,100}(?:: [^\r\n]{0,400})?)\r?$"
)
# How a shell, a scheduler or the kernel says that a job was ended.
_ENDED = re.compile(
    rb"(?m)^(slurmstepd: error: [^\r\n]{1,300}|(?:[^\r\n]{0,80}\s)?(?:Killed|Terminated|Aborted|"
    rb"Segmentation fault)(?: \(core dumped\))?(?:\s[^\r\n]{0,80})?)\s*$"
)
_LEVEL = re.compile(rb"(?m)^([^\r\n]{0,200}?\b(?:ERROR|CRITICAL|FATAL)\b[^\r\n]{0,300})$")


class Blame:
    """Keeps the strongest sign of trouble: an exception or an end over a line at level ERROR."""

    def __init__(self) -> None:
        self.text: str | None = None
        self.at: float | None = None
        self.around: tuple[str, ...] = ()  # the lines around it
        self._strength = 0

    def feed(self, block: bytes, at: float | None) -> None:
        """Look through a block of whole lines."""
        if b"slurmstepd" in block or b"Killed" in block or b"Terminated" in block:
            self._keep(2, _last(_ENDED, block), block, at)
        begins = block.rfind(_TRACEBACK)
        if begins >= 0:
            self._keep(2, _exception(block, begins), block, at)
        if self._strength < 2 and (b"ERROR" in block or b"CRITICAL" in block or b"FATAL" in block):
            self._keep(1, _last(_LEVEL, block), block, at)

    def _keep(self, strength: int, line: bytes | None, block: bytes, at: float | None) -> None:
        if line is not None and strength >= self._strength:
            self.around = _around(block, block.rfind(line))
            self.text = cut(masked(clean(line[:2000]).strip()), 300)
            self.at = at
            self._strength = strength


def _last(pattern: re.Pattern[bytes], block: bytes) -> bytes | None:
    found = None
    for match in pattern.finditer(block):
        found = match.group(1)
    return found


def _exception(block: bytes, begins: int) -> bytes | None:
    """Find the line that names the exception: the first after the traceback's indented ones."""
    end = block.find(b"\n", begins)
    while end >= 0:
        start = end + 1
        end = block.find(b"\n", start)
        line = block[start : end if end >= 0 else len(block)].rstrip(b"\r")
        if line and not line.startswith((b" ", b"\t")):
            match = _EXCEPTION.match(line)
            return match.group(1) if match else line[:400]
    return None


def _around(block: bytes, position: int) -> tuple[str, ...]:
    """Cut out the lines around a position: what led to it, and what came of it."""
    before = block[max(0, position - 4096) : position].splitlines()[-20:]
    behind = block[position : position + 8192].splitlines()[:40]
    joined = block[max(0, position - 1) : position] not in (b"", b"\n", b"\r")
    if joined and before and behind:
        behind[0] = before.pop() + behind[0]
    return tuple(cut(masked(clean(line[:2000])), 300) for line in (*before, *behind))
