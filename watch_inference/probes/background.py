"""A question that may hang in, its newest answer and when it came out; asked in a thread.

One is in flight at a time. A thread that hangs is left behind when the program ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
Clock = Callable[[], float]


class Background(Generic[T]):
    """One thing that is asked again and again, each time in a thread of its own."""

    def __init__(self, clock: Clock) -> None:
        self.asked_at: float | None = None  # when the question in flight was asked
        self._clock = clock
        self._flight: _Flight[T] | None = None

    def ask(self, question: Callable[[], T]) -> bool:
        """Ask, unless one is in flight; False where no thread is to be had."""
        if self._flight is not None:
            return True
        flight = _Flight(question)
        try:
            threading.Thread(target=flight.run, daemon=True).start()
        except RuntimeError:  # no more threads: the limit of processes is reached
            return False
        self.asked_at, self._flight = self._clock(), flight
        return True

    def take(self) -> T | None:
        """Take the answer if it has come; raises what asking raised: that is a bug of ours."""
        flight = self._flight
        if flight is None or not flight.over.is_set():
            return None
        self.asked_at, self._flight = None, None
        if flight.error is not None:
            raise flight.error
        return flight.answer

    def wait(self, seconds: float) -> None:
        """Wait until the answer has come, at most so long."""
        if self._flight is not None and seconds > 0:
            self._flight.over.wait(seconds)

    def waiting_s(self, at: float) -> float:
        """Say for how long the question in flight has been without an answer."""
        return 0.0 if self.asked_at is None else max(0.0, at - self.asked_at)


class _Flight(Generic[T]):
    """One question on its way."""

    def __init__(self, question: Callable[[], T]) -> None:
        self.over = threading.Event()
        self.answer: T | None = None
        self.error: BaseException | None = None
        self._question = question

    def run(self) -> None:
        try:
            self.answer = self._question()
        except BaseException as error:  # carried over to the thread that asked
            self.error = error
        self.over.set()


class Timing(NamedTuple):
    """How long one question may take, and how far apart two are when all is well; seconds."""

    deadline_s: float = 10.0
    every_s: float = 10.0
