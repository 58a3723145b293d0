"""When frames went out and answers came back comes in; when the next may go out goes out; pure.

At most one frame is under way: the next waits for the terminal's answer to the last one's status
query, so that a slow link shows the newest state and never a queue of old ones. An answer can be
lost; then the bytes that the descriptor takes set the pace, and the question is asked anew.
"""

from __future__ import annotations

QUERY = b"\x1b[5n"

_PATIENCE_S = 2.0
_PATIENCE_FACTOR = 4.0
_ASK_AGAIN_S = 10.0
_KEY_WAITS_S = 1.0


class Pace:
    """The flow of frames to one terminal; all times are seconds of one monotonic clock."""

    def __init__(self, answers: bool) -> None:
        self._answers = answers  # whether answers can be read at all
        self._asked: float | None = None  # the query that is not answered yet
        self._sent = float("-inf")
        self._slowest = 0.0
        self.last_s = 0.0  # how long the newest answer took

    def sent(self, now: float) -> bool:
        """Note that a frame goes out; tell whether the query is to go with it."""
        self._sent = now
        if not self._answers:
            return False
        again = self._asked is not None and now - self._asked >= _ASK_AGAIN_S
        if self._asked is None or again:
            self._asked = now
            return True
        return False

    def answered(self, now: float) -> None:
        """Note that the terminal answered: it has drawn all that was sent before."""
        if self._asked is not None:
            self.last_s = now - self._asked
            self._slowest = max(self._slowest, self.last_s)
        self._asked = None

    def ready_at(self, now: float, interval: float, key_at: float | None) -> float:
        """Return when the next frame may go out; `key_at`: a key waits for it since then."""
        if self._asked is None:
            return now if self._answers or key_at is not None else self._sent + interval
        lost_at = self._asked + max(_PATIENCE_S, _PATIENCE_FACTOR * self._slowest)
        ready = lost_at if now < lost_at else max(lost_at, self._sent + interval)
        return ready if key_at is None else min(ready, key_at + _KEY_WAITS_S)

    @property
    def waits_since(self) -> float | None:
        """When the query was sent that is not answered yet."""
        return self._asked
