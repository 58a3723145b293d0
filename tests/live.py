"""A terminal for tests that waits for what is seen, not for time: a pty with an emulator behind."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pyte

from tests.terminal import picture
from tests.worlds import environment

QUERY, ANSWER = b"\x1b[5n", b"\x1b[0n"
JOB = (sys.executable, "-m", "tests.screen_job")
_ROOT = Path(__file__).parent.parent


class Live:
    """One command on one terminal, from `with` to its end; it is killed if it has not ended."""

    def __init__(
        self,
        command: Sequence[str] = JOB,
        rows: int = 24,
        cols: int = 80,
        answer: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.output = b""
        self.answer = answer  # whether the terminal answers status queries
        self.listening = True  # whether anybody reads what is sent to it
        self.emulator = pyte.Screen(cols or 80, rows or 24)
        self._stream = pyte.ByteStream(self.emulator)
        self._master, self._slave = pty.openpty()
        self.resize(rows, cols)
        self._modes = termios.tcgetattr(self._slave)
        self.child = subprocess.Popen(
            command,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            cwd=_ROOT,
            env=environment() if env is None else dict(env),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509, no threads
        )

    def __enter__(self) -> Live:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(10)
        os.close(self._slave)
        if self._master >= 0:
            os.close(self._master)

    @property
    def lines(self) -> tuple[str, ...]:
        """What the terminal shows now, without trailing blanks."""
        return tuple(line.rstrip() for line in self.emulator.display)

    @property
    def restored(self) -> bool:
        """Whether modes are as they were, the cursor is seen, and the first screen is back."""
        same = termios.tcgetattr(self._slave) == self._modes
        pairs = ((b"?25h", b"?25l"), (b"?1049l", b"?1049h"), (b"?2004l", b"?2004h"))
        return same and all(self.output.rfind(one) > self.output.rfind(two) for one, two in pairs)

    def type(self, keys: bytes) -> None:
        """Send what a person types, or a terminal answers."""
        os.write(self._master, keys)

    def resize(self, rows: int, cols: int) -> None:
        """Change the size of the terminal; the emulator follows when it is drawn anew."""
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("4H", rows, cols, 0, 0))
        self.emulator.resize(rows or 24, cols or 80)

    def hang_up(self) -> None:
        """Close the window."""
        os.close(self._master)
        self._master = -1

    def pump(self, seconds: float) -> None:
        """Read and answer for so long."""
        self.until(lambda: False, seconds, needed=False)

    def sees(self, text: str, seconds: float = 15.0) -> None:
        """Read on until the screen shows the text; fail if it never does."""
        self.until(lambda: any(text in line for line in self.lines), seconds)

    def until(self, done: Callable[[], bool], seconds: float = 15.0, needed: bool = True) -> None:
        """Read and answer until `done` says so; fail when it has not in so many seconds."""
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                assert not needed, "\n".join(("never seen; the screen shows:", *self.lines))
                return
            self._read(min(0.02, seconds))

    def ends(self, seconds: float = 15.0) -> int:
        """Read on until the command has ended, and return its exit status."""
        self.until(lambda: self.child.poll() is not None, seconds)
        self.listening = self._master >= 0
        self._read(0.05)
        return self.child.returncode

    def _read(self, wait: float) -> None:
        if self._master < 0 or not self.listening:
            time.sleep(wait)
            return
        while select.select([self._master], [], [], wait)[0]:
            chunk = os.read(self._master, 65536)
            self.output += chunk
            self._stream.feed(chunk)
            if self.answer and QUERY in chunk:
                self.type(ANSWER * chunk.count(QUERY))
            wait = 0.0


def last_picture(output: bytes, rows: int = 24, cols: int = 80) -> tuple[str, ...]:
    """Read back the screen as it stood before it was left."""
    return picture(output.rpartition(b"\x1b[m\x1b[?2004l")[0], rows, cols)
