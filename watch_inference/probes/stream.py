"""A log piped to standard input comes in, a LogReading goes out at each read; never waits."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence

from watch_inference.logs.logbook import Book
from watch_inference.model import LogReading

_BLOCK = 1 << 16
_LONGEST = 1 << 16  # of an unfinished line
_MOST = 64 << 20  # bytes that one read may take


class Stream:
    """Folds what comes in on a descriptor; never waits for it."""

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._book = Book()
        self._partial = b""
        self._size = 0
        self._changed_at: float | None = None
        self._ended = False

    def read(self, at: float, wall: float, names: Sequence[str] = ()) -> LogReading:
        """Take in what has arrived, and say how the log stands at `at`."""
        if names:
            self._book.names = names
        taken = 0
        while taken < _MOST and not self._ended and self._ready():
            block = os.read(self._descriptor, _BLOCK)
            taken += len(block)
            self._ended = not block
            self._feed(block, at)
        if taken:
            self._size += taken
            self._changed_at = at
        reading = LogReading(
            path="-",
            size=self._size,
            changed_at=self._changed_at,
            error="end of input" if self._ended else None,
        )
        return self._book.fill(reading)

    def close(self) -> None:
        """Nothing is ours to close: whoever piped it to us has it."""

    def _ready(self) -> bool:
        return bool(select.select([self._descriptor], [], [], 0)[0])

    def _feed(self, block: bytes, at: float) -> None:
        data = self._partial + block
        end = len(data) if not block else max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if end:
            self._book.feed(data[:end], at)
        self._partial = data[end:][-_LONGEST:]
        if end and data[end - 1 : end] == b"\r":
            self._book.peek(self._partial, at)
