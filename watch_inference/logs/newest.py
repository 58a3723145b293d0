"""Blocks of bytes in, the newest so many bytes out; touches nothing."""

from __future__ import annotations

from collections import deque


class Newest:
    """The end of a stream of blocks: adding one costs no copy, `data` joins them when asked."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._blocks: deque[bytes] = deque()
        self._size = 0
        self._joined: bytes | None = b""

    def add(self, block: bytes) -> None:
        """Add a block; what lies wholly before the limit is let go."""
        if not block:
            return
        self._blocks.append(block)
        self._size += len(block)
        self._joined = None
        while self._size - len(self._blocks[0]) >= self._limit:
            self._size -= len(self._blocks.popleft())

    def clear(self) -> None:
        """Forget everything."""
        if self._size:
            self._blocks.clear()
            self._size = 0
            self._joined = b""

    @property
    def data(self) -> bytes:
        """Give the newest bytes; the same object for as long as nothing is added."""
        if self._joined is None:
            self._joined = b"".join(self._blocks)[-self._limit :]
        return self._joined
