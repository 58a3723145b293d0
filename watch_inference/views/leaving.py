"""A terminal and its modes of before come in; within half a second it is as it was.

It may be stopped by Ctrl-S, its buffer may be full because nobody reads, it may have hung up, and
a second signal may come: none of it may leave a person with a broken terminal.
"""

from __future__ import annotations

import os
import select
import signal
import termios
import time
from typing import Any

_SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGTTOU}
_GIVE_UP_S = 0.5
_START_S = 0.15  # then a terminal stopped by Ctrl-S is started, or it could not be restored
_DROP_S = 0.3  # and then what nobody has read is dropped, to make room


def leave(
    fd: int, keyboard: int | None, modes: list[Any], farewell: bytes, answer_by: float | None
) -> None:
    """Send `farewell`, await an answer under way until `answer_by`, and restore the modes."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        taken = _insist(fd, farewell)
        if keyboard is not None and taken and answer_by is not None:
            _await_answer(keyboard, answer_by)
        if keyboard is not None and modes:
            termios.tcflush(keyboard, termios.TCIFLUSH)
            termios.tcsetattr(keyboard, termios.TCSANOW, modes)
    except (OSError, termios.error):
        pass  # hung up: nothing is left to restore
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _insist(fd: int, data: bytes) -> bool:
    """Send the bytes by harder and harder means; tell whether all that was before got out too."""
    start = time.monotonic()
    rest, dropped = data, False
    while rest and (waited := time.monotonic() - start) < _GIVE_UP_S:
        if select.select([], [fd], [], 0.02)[1]:
            try:
                rest = rest[os.write(fd, rest[:256]) :]
                continue
            except BlockingIOError:
                pass
        if waited > _START_S:
            # TCOON starts only what TCOOFF has stopped: for Ctrl-S it takes both.
            termios.tcflow(fd, termios.TCOOFF)
            termios.tcflow(fd, termios.TCOON)
        if waited > _DROP_S and not dropped:
            termios.tcflush(fd, termios.TCOFLUSH)
            rest, dropped = data, True
    return not rest and not dropped


def _await_answer(keyboard: int, until: float) -> None:
    while (left := until - time.monotonic()) > 0:
        if not select.select([keyboard], [], [], left)[0] or b"n" in os.read(keyboard, 4096):
            return
