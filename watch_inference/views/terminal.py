"""Bytes come in and go to a terminal that may be slow, stopped or gone; never waits for it.

The descriptor is opened anew and non-blocking: the flag must not be set on the one that the shell
shares. What the terminal does not take stays in `rest`.
"""

from __future__ import annotations

import fcntl
import os
import select
import struct
import termios
from typing import Any

from watch_inference.views import leaving
from watch_inference.views.out import ReaderGone

# Alternate screen, hidden cursor, pasted text in brackets. A terminal that does not know one of
# them ignores it.
_ENTER = b"\x1b[?1049h\x1b[?25l\x1b[?2004h"
_LEAVE = b"\x1b[m\x1b[?2004l\x1b[%dH\x1b[?25h\x1b[?1049l\r\x1b[K"
_AGAIN = b"\x1b[?1049l"  # entered twice, it would come back to a place on the wrong screen


class Terminal:
    """One terminal: its modes, bytes out and in. ReaderGone when it has hung up."""

    def __init__(self, fd: int = 1, stdin: int = 0) -> None:
        self.fd = _reopened(fd)
        # A descriptor that can block gets no more than a terminal's buffer surely has room for.
        self._bite = 256 if os.get_blocking(self.fd) else 4096
        self.keyboard = stdin if os.isatty(stdin) else None
        # Without a keyboard the answers still come, and must not be left to the shell.
        self.input = stdin if self.keyboard is not None else _opened("/dev/tty", os.O_RDWR)
        self.answers = self.input is not None and _same(self.keyboard, fd)
        self.entered = False  # whether the terminal is ours now
        self.rest = b""
        self._modes: list[Any] | None = None  # as they were before

    def enter(self) -> None:
        """Take the terminal: keys one by one and unechoed, the other screen."""
        again = _AGAIN if self._modes is not None else b""
        try:
            if self.input is not None:
                now = termios.tcgetattr(self.input)
                self._modes = self._modes or now
                termios.tcsetattr(self.input, termios.TCSANOW, _key_by_key(now))
            else:
                self._modes = []
        except termios.error:
            raise ReaderGone from None
        self.entered, self.rest = True, b""
        self.write(again + _ENTER)

    def abandon(self) -> None:
        """Take notice that the shell has used the terminal meanwhile: it is to be entered again."""
        self.entered, self.rest = False, b""

    def write(self, data: bytes = b"") -> None:
        """Send what the terminal takes now; the rest stays for the next call."""
        self.rest += data
        try:
            while self.rest and select.select([], [self.fd], [], 0)[1]:
                self.rest = self.rest[os.write(self.fd, self.rest[: self._bite]) :]
        except BlockingIOError:
            pass
        except OSError:
            raise ReaderGone from None

    def read(self) -> bytes:
        """Return what was typed or answered; ReaderGone when nobody is there any more."""
        if self.input is None:
            return b""
        try:
            data = os.read(self.input, 4096)
        except OSError:
            data = b""
        if not data:
            raise ReaderGone
        return data

    def leave(self, farewell: str, answer_by: float | None) -> None:
        """Give the terminal back within half a second, and say a last line.

        An answer under way is awaited until `answer_by`, so that the shell does not get it.
        """
        if self._modes is None:
            return
        modes, self._modes, self.entered, self.rest = self._modes, None, False, b""
        told = farewell.encode("utf-8", "replace") + b"\r\n" if farewell else b""
        leaving.leave(self.fd, self.input, modes, _LEAVE % size(self.fd)[1] + told, answer_by)


def size(fd: int) -> tuple[int, int]:
    """Return columns and rows as the terminal says them; 80x24 where it says nothing."""
    try:
        packed = fcntl.ioctl(fd, termios.TIOCGWINSZ, b"\0" * 8)
    except OSError:
        return 80, 24
    rows, columns = struct.unpack("HHHH", packed)[:2]
    return columns or 80, rows or 24


def in_foreground(fd: int) -> bool:
    """Tell whether the shell has given us the terminal; else it is not to be touched."""
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return True  # not our controlling terminal: no job control applies


def _same(keyboard: int | None, fd: int) -> bool:
    """Tell whether answers of the terminal behind `fd` come in where keys do."""
    return keyboard is None or os.fstat(keyboard).st_rdev == os.fstat(fd).st_rdev


def _reopened(fd: int) -> int:
    """Open the terminal behind `fd` once more, non-blocking; after su only /dev/tty can be."""
    flags = os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK
    try:
        return os.open(os.ttyname(fd), flags)
    except OSError:
        other = _opened("/dev/tty", flags)
        return os.dup(fd) if other is None else other


def _opened(path: str, flags: int) -> int | None:
    try:
        return os.open(path, flags | os.O_CLOEXEC)
    except OSError:
        return None


def _key_by_key(modes: list[Any]) -> list[Any]:
    """Return the modes with keys sent at once and not echoed; Ctrl-C and Ctrl-Z stay signals."""
    ours = [*modes]
    ours[3] = modes[3] & ~(termios.ICANON | termios.ECHO)
    ours[6] = [*modes[6]]
    ours[6][termios.VMIN], ours[6][termios.VTIME] = 1, 0
    return ours
