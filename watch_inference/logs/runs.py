"""The progress lines of one dataset's newest run in, what they say together out; pure."""

from __future__ import annotations

from typing import NamedTuple

from watch_inference.logs.scanning import Found
from watch_inference.model import LogEvent, LoggedDataset, LogLine

_KEPT_LINES = 60


class Told(NamedTuple):
    """What headings tell of a run: what an earlier one had done, and how this one asks."""

    resumed: int | None = None
    concurrency: int | None = None
    max_tokens: int | None = None

    def over(self, older: Told) -> Told:
        """Take from an older heading what this one does not tell."""
        pairs = zip(self, older, strict=True)
        return Told(*(mine if mine is not None else its for mine, its in pairs))


class Run:
    """The newest run of one dataset in the log, as it is being folded."""

    def __init__(self, name: str, found: Found, runs: int, earlier: int) -> None:
        self.name = name
        self.first = found.done or 0
        self.runs = runs
        self.epoch = 0  # how often the job had been started again at the newest line
        self.earlier = earlier
        self.last = found
        self.total = found.total
        self.errors: int | None = None
        self.step = 0
        self.told = Told()
        self.updated_at: float | None = None
        self.lines: list[tuple[Found, float | None]] = []

    @property
    def done(self) -> int:
        """The newest count."""
        return self.last.done or 0

    def add(self, found: Found, at: float | None) -> None:
        """Fold one line that goes on with this run."""
        done = found.done or 0
        self.step = max(self.step, done - self.done)
        self.last = found
        # An over-run bar loses its total: the last one known stands.
        self.total = found.total if found.total is not None else self.total
        if self.lines and self.lines[-1][0].done == done:
            return
        self.updated_at = at if at is not None else self.updated_at
        self.lines.append((found, at))
        if len(self.lines) > _KEPT_LINES:
            del self.lines[1:-1:2]

    def still(self, epoch: int) -> LoggedDataset:
        """Say what the log says of this dataset; `epoch`: how often the job was started again."""
        event = self.last.event
        self.errors = event.errors if event.errors is not None else self.errors
        return LoggedDataset(
            name=self.name,
            done=self.done,
            total=self.total,
            first=self.first,
            errors=self.errors,
            rate=event.rate,
            completion_tokens=event.completion_tokens,
            eta_s=event.eta_s,
            elapsed_s=event.elapsed_s,
            resumed=self.told.resumed,
            concurrency=self.told.concurrency,
            max_tokens=self.told.max_tokens,
            step=self.step,
            runs=self.runs,
            earlier=self.earlier,
            of_earlier_run=self.epoch < epoch,
            updated_at=self.updated_at,
            lines=tuple(_line(found.event, at) for found, at in self.lines),
        )


def _line(event: LogEvent, at: float | None) -> LogLine:
    return LogLine(
        event.done or 0,
        event.total,
        event.errors or 0,
        event.rate,
        event.completion_tokens,
        event.eta_s,
        at,
    )
