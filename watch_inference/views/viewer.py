"""Reports and keys come in, the lines that a person wants to see go out; touches nothing."""

from __future__ import annotations

from collections.abc import Sequence

from watch_inference.model import Report
from watch_inference.views.frame import frame
from watch_inference.views.looks import Line, Looks
from watch_inference.views.moves import Page, moved
from watch_inference.views.sentence import sentence
from watch_inference.views.steady import Held, steady

_MOST_SENTENCES = 10


class Viewer:
    """What is seen: the newest reports, or the ones at which a person paused, and which page."""

    def __init__(self, interval: float) -> None:
        self.page = Page(interval=interval)
        self._reports: Sequence[Report] = ()
        self._held: Held | None = None

    def show(self, reports: Sequence[Report]) -> None:
        """Take the newest reports."""
        self._reports = reports
        last = max(0, len(reports) - 1)
        self.page = self.page._replace(job=min(self.page.job, last))
        if not self.page.paused:
            self._hold()

    def press(self, key: str) -> None:
        """Do what a key asks for."""
        if self._held is None:
            return
        before = self.page
        self.page = moved(before, key, self._held.report, len(self._reports))
        if self.page.job != before.job or (before.paused and not self.page.paused):
            self._held = None
            self._hold()

    def _hold(self) -> None:
        if self._reports:
            self._held = steady(self._held, self._reports[self.page.job])

    def lines(self, width: int, height: int, looks: Looks) -> tuple[Line, ...] | None:
        """Draw what is seen; None while nothing has been reported."""
        if self._held is None:
            return None
        return frame(self._held.report, width, height, looks, self.page, len(self._reports))

    def farewell(self) -> str:
        """Say each job in one sentence, a line each, for the scroll-back."""
        return "\r\n".join(sentence(report) for report in self._reports[:_MOST_SENTENCES])
