"""Text comes in, bytes go out on standard output at once: the one place that writes there."""

from __future__ import annotations

import errno
import os
import select
import stat
import sys

# What a write says when whoever read has gone: pipe, socket, hung-up terminal (EIO, below).
_GONE = {errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN, errno.ESHUTDOWN}


class ReaderGone(Exception):
    """Nobody reads any more: the end of the program, and no error."""


class CannotWrite(Exception):
    """The bytes cannot be written (disk full, descriptor closed); the message says why."""


class Out:
    """Standard output as a stream of whole texts, encoded here and handed on at once."""

    def __init__(self, fd: int = 1, encoding: str | None = None) -> None:
        self._fd = fd
        self.encoding = _encoding(encoding)
        # Closed at the start, the number is given to the next file opened: never write to that.
        self._kind = _kind(fd)

    def write(self, text: str) -> None:
        """Write all of `text` now; raises ReaderGone or CannotWrite."""
        rest = memoryview(text.encode(self.encoding, "replace"))
        if self._kind is None:
            raise CannotWrite(os.strerror(errno.EBADF))
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:  # somebody made the shared descriptor non-blocking
                select.select([], [self._fd], [])
            except OSError as error:
                hung_up = error.errno == errno.EIO and stat.S_ISCHR(self._kind)
                if hung_up or error.errno in _GONE:
                    raise ReaderGone from None
                raise CannotWrite(error.strerror) from None

    def alive(self) -> bool:
        """Tell whether the reader is still there, without writing and without waiting."""
        if self._kind is None or stat.S_ISREG(self._kind):
            return True  # a write will tell
        poll = select.poll()
        poll.register(self._fd, 0)
        return not any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _kind(fd: int) -> int | None:
    if fd == 1 and sys.__stdout__ is None:
        return None
    try:
        return os.fstat(fd).st_mode
    except OSError:
        return None


def _encoding(wanted: str | None) -> str:
    """Choose UTF-8, or ASCII for any other: a stateful encoding would bring escape sequences."""
    name = wanted or getattr(sys.__stdout__, "encoding", None) or "utf-8"
    return "utf-8" if name.lower().replace("_", "-") in ("utf-8", "utf8") else "ascii"
