"""A clock in, the GPUs as nvidia-smi or amd-smi last told them out; asked in the background.

The tool runs in a session of its own with a deadline, never twice at once. One that cannot even
be killed is left alone, and nothing is asked until it has gone by itself.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from watch_inference.model import GpuReading, Options
from watch_inference.probes.background import Background, Clock, Timing
from watch_inference.probes.cards import AMD, NVIDIA, Cards, read_amd, read_nvidia
from watch_inference.units import age

_TOOLS: tuple[tuple[Sequence[str], Callable[[str, int], Cards]], ...] = (
    (NVIDIA, read_nvidia),
    (AMD, read_amd),
)
_NO_TOOL_S = 600.0  # a machine without GPUs is looked at again so seldom
_FAILED_S = (60.0, 600.0)  # after the first failure, and at most
_SLOWER = 10  # a tool that takes long is asked so many times less often
_MOST = 1 << 20  # bytes of output
_STEP_S = 0.02
_KILLED_S = 1.0


class Told(NamedTuple):
    """What one run of a tool brought; `tool`: there is one."""

    cards: Cards
    took_s: float = 0.0
    tool: bool = True


class Gpus:
    """The machine's GPUs, kept from look to look."""

    def __init__(
        self,
        options: Options,
        clock: Clock,
        timing: Timing = Timing(),  # noqa: B008 - a still value
    ) -> None:
        self._asks = options.ask_gpu
        self._timing = timing
        self._tool = _Tool(timing.deadline_s)
        self._flight: Background[Told] = Background(clock)
        self._due_at = float("-inf")
        self._reading = GpuReading()
        self._read_at: float | None = None
        self._failed = 0

    def read(self, at: float, wall: float, patience_s: float = 0.0) -> GpuReading:
        """Give the newest values with their age, and ask on; waits only so long for the first."""
        del wall
        if not self._asks:
            return GpuReading()
        if at >= self._due_at and self._flight.asked_at is None:
            if not self._flight.ask(self._tool.run):
                return self._reading._replace(error="no more threads may be started")
            self._due_at = at + self._timing.every_s
        self._flight.wait(patience_s)
        told = self._flight.take()
        if told is not None:
            self._fold(told, at)
        waiting = self._flight.waiting_s(at)
        error = self._reading.error
        if waiting > self._timing.deadline_s:
            error = f"no answer for {age(waiting)}"
        since = None if self._read_at is None else max(0.0, at - self._read_at)
        return self._reading._replace(age_s=since, error=error)

    def close(self) -> None:
        """End the tool, if it runs; nothing waits for it."""
        self._tool.end()

    def _fold(self, told: Told, at: float) -> None:
        cards = told.cards
        if cards.devices:
            self._reading = GpuReading(0.0, cards.error, cards.devices)
            self._read_at, self._failed = at, 0
            self._due_at = at + max(self._timing.every_s, _SLOWER * told.took_s)
            return
        # What was read before stays, with its age; an error of today does not undo it.
        self._reading = self._reading._replace(error=cards.error)
        self._failed += 1
        wait = min(_FAILED_S[1], _FAILED_S[0] * 2 ** (self._failed - 1))
        self._due_at = at + (wait if told.tool else _NO_TOOL_S)


class _Tool:
    """The child that asks the driver; there is one at most."""

    def __init__(self, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> Told:
        """Run the tool that is there to its end or to the deadline."""
        if self._child is not None and self._child.poll() is None:
            return Told(Cards((), "the tool hangs, and cannot be killed"))
        for command, reads in _TOOLS:
            path = which(command[0])
            if path is not None:
                return self._run([path, *command[1:]], command[0], reads)
        return Told(Cards((), "no nvidia-smi"), tool=False)

    def _run(self, command: list[str], name: str, reads: Callable[[str, int], Cards]) -> Told:
        began = time.monotonic()
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "not a program"
            return Told(Cards((), f"{name} cannot be started: {why}"))
        self._child = child
        output, ended, held = _output(child, began + self._deadline_s)
        if not ended or held:  # it hangs, or it leaves somebody behind
            self.end()
        try:
            code = child.wait(_KILLED_S)
        except subprocess.TimeoutExpired:
            code = None  # it sleeps in the driver
        if not ended:
            said = f"{name}: no answer in {self._deadline_s:g} s"
            return Told(Cards((), said), time.monotonic() - began)
        cards = reads(output.decode("utf-8", "replace"), code or 0)
        return Told(cards, time.monotonic() - began)

    def end(self) -> None:
        """Kill the child and all that it left in its session; while it is not reaped, it is it."""
        child = self._child
        if child is not None and child.returncode is None:
            try:
                os.killpg(child.pid, 9)
            except OSError:
                pass  # it has just gone


def _output(child: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bool, bool]:
    """Read what a child prints until it ends, and leave it to be reaped.

    Then: whether it has ended, and whether a child of its own still holds the pipe.
    """
    assert child.stdout is not None
    kept = b""
    with child.stdout as pipe:
        os.set_blocking(pipe.fileno(), False)
        while True:
            # Asked first: what it wrote before it ended is there then.
            ended = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            block: bytes | None = b"-"
            while block and len(kept) < _MOST:
                block = _block(pipe.fileno())
                kept += block or b""
            if ended is not None or time.monotonic() >= deadline:
                return kept, ended is not None, block is None
            time.sleep(_STEP_S)


def _block(descriptor: int) -> bytes | None:
    """Read what is there: nothing at the end, None where more may come."""
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return None


def which(name: str) -> str | None:
    """Find a program in the PATH."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder or ".", name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None
