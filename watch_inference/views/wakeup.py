"""Signals come in, bytes in a pipe go out, so that one poll hears them with everything else."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Any


class Wakeup:
    """Catches some signals, and makes every signal that has a handler readable on `fd`."""

    def __init__(self, numbers: tuple[signal.Signals, ...]) -> None:
        self.fd = -1
        self._numbers = numbers
        self._before: dict[signal.Signals, Any] = {}
        self._writer = -1
        self._writer_before = -1

    def open(self) -> None:
        """Begin; only in the main thread. A signal that is ignored stays ignored."""
        self.fd, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._writer_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in self._numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, _nothing)

    def read(self) -> bytes:
        """Return the numbers of the signals that have come, each as one byte."""
        try:
            return os.read(self.fd, 4096)
        except BlockingIOError:
            return b""

    def stop(self) -> None:
        """Stop this process as Ctrl-Z would have; returns when it goes on."""
        if signal.SIGTSTP not in self._before:
            return
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, _nothing)
        self.read()  # of what came meanwhile only the going on matters, and that is known

    def close(self) -> None:
        """Put everything back as it was."""
        signal.set_wakeup_fd(self._writer_before)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        os.close(self.fd)
        os.close(self._writer)


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler must be there for the wake-up to be written; the loop does the work."""
