"""Lines come in, and go to the terminal when it is ready for them: only what differs, once."""

from __future__ import annotations

import os
import time

from watch_inference.views.looks import Line, Looks
from watch_inference.views.pace import QUERY, Pace
from watch_inference.views.paint import Grid, grid, paint
from watch_inference.views.terminal import Terminal

_WHOLE_S = 900.0  # once in a while all is drawn anew, should the terminal have lost some
_ANSWER_S = 0.3  # how long to wait on leaving for an answer that is about to come ...
_ANSWER_AT_MOST_S = 1.0  # ... and on a slow link


class Canvas:
    """What the terminal shows, and when it may be shown something else."""

    def __init__(self, terminal: Terminal, looks: Looks) -> None:
        self.pace = Pace(answers=terminal.answers)
        self.stale = True  # what is shown is not the newest
        self._terminal = terminal
        self._looks = looks
        self._shown: Grid | None = None
        self._whole_at = 0.0
        self._not_before = 0.0
        self._key_at: float | None = None

    def spoil(self, not_before: float = 0.0) -> None:
        """Forget what is shown: all of it is to be drawn anew."""
        self._shown, self.stale, self._not_before = None, True, not_before

    def press(self, now: float) -> None:
        """Note that a key waits for its frame."""
        self.stale = True
        self._key_at = now if self._key_at is None else self._key_at

    def due_at(self, now: float, interval: float) -> float:
        """Return when the next frame may go out, if there is one."""
        if not self.stale or self._terminal.rest:
            return float("inf")
        return max(self._not_before, self.pace.ready_at(now, interval, self._key_at))

    def draw(self, lines: tuple[Line, ...], width: int, height: int, now: float) -> None:
        """Send what differs, and the query that tells when it has arrived."""
        wanted = grid(lines, width, height)
        if now - self._whole_at > _WHOLE_S and wanted != self._shown:
            self._shown = None
        if self._shown is None:
            self._whole_at = now
        said = paint(self._shown, wanted, self._looks)
        self._shown, self.stale, self._key_at = wanted, False, None
        if said:
            query = QUERY if self.pace.sent(now) else b""
            self._terminal.write(said.encode("utf-8", "replace") + query)

    def leave(self, farewell: str) -> None:
        """Give the terminal back, so that no answer under way is left to the shell."""
        now = time.monotonic()
        asked = self.pace.waits_since
        until = None
        # The leader of a session takes it along, as under `ssh -t`: nobody reads after it.
        if asked is not None and os.getsid(0) != os.getpid():
            slow = asked + 1.5 * self.pace.last_s
            until = min(now + _ANSWER_AT_MOST_S, max(now + _ANSWER_S, slow))
        self._terminal.leave(farewell, until)
