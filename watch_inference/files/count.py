"""An open file and a Tally come in, a Tally with more lines goes out; touches that file, read-only.

Newline bytes are lines, as `wc -l` counts; nothing else is looked at.
"""

from __future__ import annotations

import errno
import os
from typing import NamedTuple

from watch_inference.files.tail import beyond_hole, fingerprint

BLOCK = 256 * 1024  # one read: large enough to be fast, small enough to stay in the CPU's cache
# Mean bytes of a line from which a way to count is the fastest; measured on Python 3.10 to 3.13.
_SHORT, _LONG = 40, 5000
_GLANCE = 8192
_NEWLINE = 10  # as a number: found a little faster than as bytes
_AHEAD = 4 << 20  # bytes that are asked for ahead, where they are not in the page cache
# A file system or kernel that cannot say what is in the page cache.
_CANNOT_TELL = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class Tally(NamedTuple):
    """How far one file has been counted, and what it takes to know it again."""

    device: int
    inode: int
    offset: int = 0
    lines: int = 0
    fingerprint: int = 0  # of the bytes before the offset
    terminated: bool = True  # the last byte counted is a newline, or there is none
    marks: tuple[tuple[int, int], ...] = ()  # offset and lines on the way, where they are kept


def newlines(block: bytearray, end: int, expected: int) -> int:
    """Count the newlines in `block[:end]`; `expected` chooses the fastest way to."""
    if expected * _LONG < end:
        found = 0
        place = block.find(_NEWLINE, 0, end)
        while place >= 0:
            found += 1
            place = block.find(_NEWLINE, place + 1, end)
        return found
    if expected * _SHORT > end:
        return block.count(b"\n", 0, end)
    part = block if end == len(block) else block[:end]
    return end - len(part.replace(b"\n", b""))


class Counter:
    """Counts in one small buffer, and leaves the page cache as it was."""

    def __init__(self) -> None:
        self._buffer = bytearray(BLOCK)
        self._view = memoryview(self._buffer)
        self._byte = bytearray(1)
        self._cold = True  # the block before was not in the page cache, as far as we know
        self._asked: set[int] = set()  # blocks on their way into the page cache, at our asking

    def advance(self, descriptor: int, tally: Tally, limit: int) -> tuple[Tally, bool]:
        """Count on, at most about `limit` bytes; True where the count began anew.

        Raises OSError where the file cannot be read; the tally then still holds.
        """
        size = os.fstat(descriptor).st_size
        if not tally.offset:
            limit = min(limit, BLOCK)  # the first block is in hand, head and end, when it is hashed
        after = self._scan(descriptor, tally, min(size, tally.offset + limit))
        # Asked after reading: whatever happened before this line is noticed.
        if tally.offset and (
            size < tally.offset or fingerprint(descriptor, tally.offset) != tally.fingerprint
        ):
            fresh = Tally(tally.device, tally.inode)
            return self._scan(descriptor, fresh, min(size, BLOCK)), True
        return after, False

    def _scan(self, descriptor: int, tally: Tally, end: int) -> Tally:
        offset, lines, terminated, got, found = tally.offset, tally.lines, tally.terminated, 0, 0
        # Without read-ahead, which would bring in more than we can let go again.
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        self._asked.clear()
        self._cold = True
        while offset < end:
            got = self._read(descriptor, offset, min(BLOCK - offset % BLOCK, end - offset), end)
            if not got:
                break
            if not lines:  # nothing is known of its lines yet: a glance at the first of them tells
                found = self._buffer.count(b"\n", 0, min(got, _GLANCE)) * got // _GLANCE
            found = newlines(self._buffer, got, found)
            lines += found
            terminated = self._buffer[got - 1] == _NEWLINE
            offset += got
            if not self._buffer[got - 1] and not self._buffer[0]:
                offset = max(offset, min(end, beyond_hole(descriptor, offset, end)))
                got = 0
        if offset == tally.offset:
            return tally
        seen = fingerprint(descriptor, offset, self._view[:got])
        return tally._replace(offset=offset, lines=lines, fingerprint=seen, terminated=terminated)

    def _read(self, descriptor: int, offset: int, length: int, end: int) -> int:
        """Fill the buffer; what this brings into the page cache is let go again."""
        view = self._view[:length]
        if offset not in self._asked and self._resident(descriptor, offset):
            return os.preadv(descriptor, [view], offset)
        self._asked.discard(offset)
        block = offset - offset % BLOCK
        for ahead in range(block + BLOCK, min(end, block + _AHEAD), BLOCK):
            if ahead not in self._asked and not self._resident(descriptor, ahead):
                self._asked.add(ahead)
                size = min(BLOCK, end - ahead)
                os.posix_fadvise(descriptor, ahead, size, os.POSIX_FADV_WILLNEED)
        got = os.preadv(descriptor, [view], offset)
        os.posix_fadvise(descriptor, offset, got, os.POSIX_FADV_DONTNEED)
        return got

    def _resident(self, descriptor: int, offset: int) -> bool:
        """Say whether a block was in the page cache, by some of its bytes; True if none can say."""
        first = offset - offset % BLOCK
        # Single bytes, not the block: the kernel answers by reading what is missing, and a fast
        # disk may have it there before we are told. So, after a block that was not there, more.
        step = BLOCK // 8 if self._cold else BLOCK
        try:
            for place in range(first, first + BLOCK, step):
                os.preadv(descriptor, [self._byte], max(offset, place), os.RWF_NOWAIT)
            self._cold = False
        except BlockingIOError:
            self._cold = True
        except OSError as error:
            if error.errno not in _CANNOT_TELL:
                raise
            self._cold = False
        return not self._cold
