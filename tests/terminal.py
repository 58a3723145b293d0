"""A terminal for tests: runs a command on a pty, plays keys and signals, reads the screen back."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pyte

from tests.worlds import environment

# What a terminal says when it is asked: cursor position, status, attributes.
ANSWERS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[5n": b"\x1b[0n", b"\x1b[c": b"\x1b[?62;22c"}

# An action at a time: keys to type, a signal to send, a new size, or None: the window closes.
Action = bytes | signal.Signals | tuple[int, int] | None


class Seen(NamedTuple):
    """What a command did on a terminal; `code` is None where it had to be killed."""

    output: bytes
    code: int | None
    restored: bool
    screen: tuple[str, ...]  # as it stands at the end, without trailing blanks
    seconds: float
    first_s: float | None  # until the first byte


def run_pty(
    command: Sequence[str],
    rows: int = 24,
    cols: int = 80,
    script: Sequence[tuple[float, Action]] = (),
    drain: float | None = None,
    answer: bool = True,
    seconds: float = 10.0,
    env: Mapping[str, str] | None = None,
) -> Seen:
    """Run a command on a pty for at most so many seconds; `drain` limits bytes per second."""
    master, slave = pty.openpty()
    _resize(slave, rows, cols)
    before = termios.tcgetattr(slave)
    child = subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment() if env is None else dict(env),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509, no threads here
    )
    played = _Played(child, master, slave, list(script), drain, answer)
    try:
        played.until(time.monotonic() + seconds)
        after = None if played.master is None else termios.tcgetattr(slave)
    finally:
        killed = child.poll() is None
        if killed:
            child.kill()
        child.wait(5)
        os.close(slave)
        if played.master is not None:
            os.close(played.master)
    output = b"".join(played.chunks)
    tidy = after is not None and after == before and _left_clean(output)
    shown = picture(output, *played.size(rows, cols))
    code = None if killed else child.returncode
    return Seen(output, code, tidy, shown, played.seconds, played.first_s)


def picture(output: bytes, rows: int, cols: int) -> tuple[str, ...]:
    """Read the screen that these bytes leave on a terminal of that size."""
    screen = pyte.Screen(cols or 80, rows or 24)
    pyte.ByteStream(screen).feed(output)
    return tuple(line.rstrip() for line in screen.display)


class _Played:
    def __init__(
        self,
        child: subprocess.Popen[bytes],
        master: int,
        slave: int,
        script: list[tuple[float, Action]],
        drain: float | None,
        answer: bool,
    ) -> None:
        self.child, self.slave = child, slave
        self.master: int | None = master
        self.script, self.drain, self.answer = script, drain, answer
        self.chunks: list[bytes] = []
        self.first_s: float | None = None
        self.began = time.monotonic()
        self.seconds = 0.0
        self.taken = 0
        self.resized: tuple[int, int] | None = None

    def until(self, deadline: float) -> None:
        """Read, answer and act until the command has ended or time is up."""
        while (now := time.monotonic()) < deadline:
            while self.script and self.script[0][0] <= now - self.began:
                self.act(self.script.pop(0)[1])
            ended = self.child.poll() is not None
            if not self.read(0.0 if ended else 0.02) and ended:
                break
        self.seconds = time.monotonic() - self.began

    def act(self, action: Action) -> None:
        if action is None:
            if self.master is not None:
                os.close(self.master)
            self.master = None
        elif isinstance(action, bytes):
            assert self.master is not None
            os.write(self.master, action)
        elif isinstance(action, tuple):
            _resize(self.slave, *action)
            self.resized = action
        else:
            self.child.send_signal(action)

    def read(self, wait: float) -> bool:
        """Take what has come, as fast as `drain` allows; say whether anything had."""
        room = 65536
        if self.drain is not None:
            room = int((time.monotonic() - self.began) * self.drain) - self.taken
        if self.master is None or room <= 0:
            time.sleep(wait)
            return False
        if not select.select([self.master], [], [], wait)[0]:
            return False
        chunk = os.read(self.master, min(room, 65536))
        if chunk and self.first_s is None:
            self.first_s = time.monotonic() - self.began
        self.taken += len(chunk)
        self.chunks.append(chunk)
        for question, reply in ANSWERS.items():
            if self.answer and question in chunk:
                os.write(self.master, reply * chunk.count(question))
        return bool(chunk)

    def size(self, rows: int, cols: int) -> tuple[int, int]:
        return self.resized or (rows, cols)


def _resize(descriptor: int, rows: int, cols: int) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))


def _left_clean(output: bytes) -> bool:
    # Each mode that was set was also reset, and in that order.
    pairs: list[tuple[bytes, bytes]] = [(b"\x1b[?25l", b"\x1b[?25h"), (b"\x1b7", b"\x1b8")]
    pairs += [(b"\x1b[?%dh" % mode, b"\x1b[?%dl" % mode) for mode in (1049, 1000, 1003, 1006, 2004)]
    last: Callable[[bytes], int] = output.rfind
    return all(last(begun) <= last(ended) for begun, ended in pairs)
