"""An open file and a Cursor come in, a Chunk of whole lines goes out; touches that file, read-only.

A file is known again by device, inode and a fingerprint of the bytes before the offset: an inode
may be reused, and a file may be truncated and outgrow the offset between two looks.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

BLOCK = 1 << 20  # one read: large, for what each costs beside its bytes; a few are held at a time
LINE_CAP = 64 * 1024  # of an unfinished line, no more than this is worth keeping
WINDOW = 4096  # bytes at each end that the fingerprint covers
_BOM = b"\xef\xbb\xbf"
_WORDS = {
    errno.ENOENT: "missing",
    errno.ENOTDIR: "missing",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EISDIR: "is a directory",
}

# A large block that is freed once teaches glibc to keep blocks of the size of a read, instead of
# giving them back to the kernel and faulting them in again: five times the speed.
bytes(4 << 20)


class Cursor(NamedTuple):
    """How far one file has been read, and what it takes to know it again."""

    device: int
    inode: int
    offset: int = 0
    fingerprint: int = 0  # of the bytes before the offset
    partial: bytes = b""  # the unfinished line
    after_return: bool = False  # a carriage return stands before the unfinished line
    skipping: bool = False  # the rest of an over-long line is still to be dropped


class Chunk(NamedTuple):
    """What one read gave: whole lines (or the head of an over-long one), and where it ended."""

    lines: bytes
    cursor: Cursor
    consumed: int = 0
    behind: int = 0  # bytes that are there and not read yet
    restarted: str | None = None  # rotated, truncated, replaced: the lines begin a file


class Budget:
    """How much one step may still read, in bytes and in seconds of `clock`."""

    def __init__(
        self, size: int | None, seconds: float = 0.25, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._left = size
        self._clock = clock
        self._deadline = clock() + seconds

    def left(self) -> int:
        """Say how many bytes may still be read; 0 when the time is up."""
        if self._left is None:
            return 1 << 62
        return 0 if self._clock() >= self._deadline else max(0, self._left)

    def spend(self, size: int) -> None:
        """Take bytes off."""
        if self._left is not None:
            self._left -= size


def why(error: OSError) -> str:
    """Say in a few words why a file could not be read."""
    number = error.errno or 0
    return _WORDS.get(number) or (os.strerror(number).lower() if number else str(error))


def stat_regular(path: str) -> os.stat_result:
    """Say what a regular file is like now; OSError for anything else."""
    status = os.stat(path)
    _refuse_unless_regular(status)
    return status


def open_regular(path: str) -> int:
    """Open a regular file for reading, without ever blocking; OSError for anything else."""
    # Asked before opening: to open a FIFO would wake up its writer.
    stat_regular(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        _refuse_unless_regular(os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_unless_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, "is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise OSError("not a regular file")


def fingerprint(descriptor: int, offset: int, block: bytes | memoryview = b"") -> int:
    """Hash the first and the last bytes before `offset`; `block`, in hand, ends at `offset`.

    What was read is hashed as it was read, so that a file rewritten in between cannot pass.
    """
    length = min(offset, WINDOW)
    known = offset - len(block)

    def at(position: int) -> bytes:
        missing = min(length, max(0, known - position))
        early = os.pread(descriptor, missing, position) if missing else b""
        start = max(0, position - known)
        return early + block[start : start + length - missing]

    return crc32(at(0)) << 32 | crc32(at(offset - length))


def beyond_hole(descriptor: int, offset: int, size: int) -> int:
    """Skip a hole: the next offset that holds data, `size` where none does."""
    try:
        return os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        return size if error.errno == errno.ENXIO else offset


def step(descriptor: int, cursor: Cursor, limit: int = BLOCK) -> Chunk:
    """Read on from the cursor, `limit` bytes at most; from 0 where the content is another one."""
    size = os.fstat(descriptor).st_size
    start = cursor.offset
    block = os.pread(descriptor, limit, start)
    if block.startswith(b"\0"):  # copy-truncate under a writer that does not append
        start = beyond_hole(descriptor, start, size)
        block = os.pread(descriptor, limit, start)
    end = start + len(block)
    seen = fingerprint(descriptor, end, block)
    # Asked after reading: whatever happened before this line is noticed.
    if cursor.offset and (
        size < cursor.offset or fingerprint(descriptor, cursor.offset) != cursor.fingerprint
    ):
        fresh = step(descriptor, Cursor(cursor.device, cursor.inode), limit)
        return fresh._replace(restarted="truncated")
    lines, after = _whole_lines(cursor, block)
    after = after._replace(offset=end, fingerprint=seen)
    return Chunk(lines, after, end - cursor.offset, max(0, size - end))


def _whole_lines(cursor: Cursor, block: bytes) -> tuple[bytes, Cursor]:
    if b"\0" in block:
        block = block.replace(b"\0", b"")
    if cursor.after_return and not cursor.partial and block.startswith(b"\n"):
        block = block[1:]  # the second half of a CRLF
        cursor = cursor._replace(after_return=False)
    if cursor.skipping:
        ends = [at for at in (block.find(b"\n"), block.find(b"\r")) if at >= 0]
        if not ends:
            return b"", cursor
        block = block[min(ends) :]  # its end still counts as the end of a line
        cursor = cursor._replace(skipping=False)
    if cursor.offset == len(cursor.partial):
        block = (cursor.partial + block).removeprefix(_BOM)
        cursor = cursor._replace(partial=b"")
    end = block.rfind(b"\n") + 1
    end = max(end, block.rfind(b"\r", end) + 1)
    if end:
        lines = b"".join((cursor.partial, memoryview(block)[:end]))  # one copy, not two
        return lines, cursor._replace(partial=block[end:], after_return=block[end - 1] == 13)
    text = cursor.partial + block
    if len(text) > LINE_CAP:
        return text[:LINE_CAP], cursor._replace(partial=b"", after_return=False, skipping=True)
    return b"", cursor._replace(partial=text)


class Follower:
    """One path, held open and followed through rotation, truncation and replacement."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.error: str | None = None
        self.notes: tuple[str, ...] = ()  # what happened to the file, each kind once
        self.restarts = 0  # truncations and replacements
        self.descriptor: int | None = None
        self.cursor: Cursor | None = None

    def look(self) -> os.stat_result | None:
        """Open the file if it is there, and say what it is like now."""
        self.error = None
        try:
            if self.descriptor is None:
                self._hold(open_regular(self.path))
            return os.fstat(self.descriptor or 0)
        except OSError as error:
            self._fail(error)
            return None

    def read(self, limit: int = BLOCK) -> Chunk | None:
        """Read on; None where nothing can be read, and `error` says why."""
        if self.look() is None or self.descriptor is None or self.cursor is None:
            return None
        try:
            chunk = step(self.descriptor, self.cursor, limit)
            if not chunk.consumed and not chunk.restarted:
                chunk = self._successor(chunk, limit)
        except OSError as error:
            self._fail(error)
            return None
        self.cursor = chunk.cursor
        if chunk.restarted:
            self.restarts += chunk.restarted != "rotated"
            self.notes = (*(n for n in self.notes if n != chunk.restarted), chunk.restarted)
        return chunk

    def close(self) -> None:
        """Let the file go."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def _hold(self, descriptor: int) -> None:
        self.close()
        status = os.fstat(descriptor)
        self.descriptor = descriptor
        self.cursor = Cursor(status.st_dev, status.st_ino)

    def _fail(self, error: OSError) -> None:
        self.error = why(error)
        if error.errno == errno.ESTALE:
            self.close()

    def _successor(self, chunk: Chunk, limit: int) -> Chunk:
        """At the end of the held file: switch to another one of the same name, once it has bytes.

        Until then the writer may still be on the old one (logrotate's `create`).
        """
        held = os.fstat(self.descriptor or 0)
        try:
            named = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return chunk  # unlinked, and perhaps still written
        if (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino) or not named.st_size:
            return chunk
        descriptor = open_regular(self.path)
        last = step(self.descriptor or 0, chunk.cursor, limit)
        if last.consumed:
            os.close(descriptor)
            return last
        self._hold(descriptor)
        happened = "rotated" if held.st_nlink else "replaced"
        return step(descriptor, self.cursor or chunk.cursor, limit)._replace(restarted=happened)
