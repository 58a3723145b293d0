"""One look with all that is known of it: what the rules of diagnosis reason about."""

from __future__ import annotations

from typing import NamedTuple

from watch_inference.folding import rhythm
from watch_inference.model import (
    DatasetProgress,
    Figures,
    Forecast,
    LogReading,
    ProcessReading,
    Progress,
    Sample,
)

# How long a start may take without any use of CPU: loading, compiling and downloading use some.
_START_LIMIT_S = 1800.0
_AT_THIS_MOMENT_S = 5.0
# So much of a core is no polling and no heartbeat: the process computes.
_BUSY_PERCENT = 30.0
_FINAL = frozenset({"gone", "zombie"})


class Limits(NamedTuple):
    """What a person asked for that judges: --stall-after in seconds, --allow-missing in lines."""

    stall_after: float | None = None
    allow_missing: int = 0


class Case(NamedTuple):
    """Sample, progress, forecast and limits of one look; derived figures are properties."""

    sample: Sample
    progress: Progress
    forecast: Forecast
    limits: Limits = Limits()
    host: str = ""
    figures: Figures = Figures()

    @property
    def alive(self) -> list[ProcessReading]:
        """List the processes that may still work."""
        return [one for one in self.sample.processes if one.state not in _FINAL]

    @property
    def gone(self) -> list[ProcessReading]:
        """List the processes that were seen and have ended."""
        return [one for one in self.sample.processes if one.state in _FINAL]

    @property
    def in_job(self) -> list[DatasetProgress]:
        """List the datasets that count: all but those that are there already tokenised."""
        return [one for one in self.progress.datasets if one.in_job]

    @property
    def complete(self) -> bool:
        """Tell whether every line is there, errors accounted for, missing ones forgiven."""
        if not self.in_job or any(one.unfinished is None for one in self.in_job):
            return False
        return sum(self.missing(one) for one in self.in_job) <= self.limits.allow_missing

    def missing(self, one: DatasetProgress) -> int:
        """Count the lines that a dataset lacks.

        What its log alone counts may still be on its way to the disk; when nobody is left to bring
        it, an empty file has no lines, whatever the log says. A last line without its newline
        counts then, too: nobody will end it.
        """
        if self.alive:
            return one.unfinished or 0
        lost = one.done_from == "logged" and one.written == 0
        left = (one.total or 0) if lost else (one.unfinished or 0)
        files = (output for output in self.sample.datasets if output.name == one.name)
        return max(0, left - sum(output.unterminated for output in files))

    @property
    def begun(self) -> bool:
        """Tell whether this run has finished any request."""
        moved_at, run_at = self.progress.rhythm.moved_at, self.progress.run_at
        if run_at is not None:
            return moved_at is not None and moved_at > run_at
        for one in self.in_job:
            if one.log is not None and one.log.done > 0 and self._of_this_run(one):
                return True
            if (one.done or 0) - one.resumed > 0 and self._of_this_run(one):
                return True
        return moved_at is not None

    def _of_this_run(self, one: DatasetProgress) -> bool:
        started = self.progress.started
        changed = one.modified is None or started is None or one.modified >= started
        return changed or one.done_from == "logged"

    @property
    def silence_s(self) -> float | None:
        """Say for how long no work has moved; a sleep of the monitor's own is left out."""
        beat = self.progress.rhythm
        if beat.moved_at is not None:
            return max(0.0, self.sample.at - beat.moved_at - self.progress.asleep_s)
        if beat.moved is None:
            return None
        # A file's time may lie in the future: then only what we watched ourselves counts.
        watched = self.sample.at - self.progress.first_at - self.progress.asleep_s
        return max(0.0, watched) + (beat.file_age_s or 0.0)

    @property
    def limit_s(self) -> float:
        """Say how long work may stand still; a process that computes may prepare a dataset."""
        limit = rhythm.stall_limit(self.progress, self.limits.stall_after)
        if self.busy and self.limits.stall_after is None and self.phase == rhythm.OPENING:
            return max(limit, _START_LIMIT_S)
        return limit

    @property
    def busy(self) -> bool:
        """Tell whether the job's processes compute: more than polling and heartbeats take."""
        return sum(one.cpu_percent or 0.0 for one in self.alive) >= _BUSY_PERCENT

    @property
    def phase(self) -> str:
        """Say where in a dataset the job is: opening, steady or drain."""
        return rhythm.phase(self.progress)

    @property
    def current(self) -> DatasetProgress | None:
        """Pick the dataset at work."""
        return rhythm.current_dataset(self.progress)

    @property
    def start_limit_s(self) -> float:
        """Say how long a start may take without using CPU."""
        return self.limits.stall_after or _START_LIMIT_S

    @property
    def waited_s(self) -> float | None:
        """Say for how long a job that has no progress yet has used no CPU either."""
        if self.limits.stall_after is not None and self.progress.started is not None:
            return self.sample.wall - self.progress.started
        return self.progress.idle_s

    @property
    def newest_logs(self) -> list[LogReading]:
        """List the logs, the one that moved last first."""
        return sorted(self.sample.logs, key=lambda log: log.modified or 0.0, reverse=True)

    @property
    def log(self) -> LogReading | None:
        """Pick the log that moved last."""
        return next(iter(self.newest_logs), None)

    @property
    def log_age_s(self) -> float | None:
        """Say for how long the log has had no new bytes."""
        return (
            None if self.log is None else age(self.sample, self.log.changed_at, self.log.modified)
        )

    @property
    def output_age_s(self) -> float | None:
        """Say for how long no output has grown."""
        ages = [age(self.sample, one.changed_at, one.modified) for one in self.in_job]
        return min((one for one in ages if one is not None), default=None)

    @property
    def line_gap_s(self) -> float | None:
        """Say how far apart the log's progress lines usually are."""
        return rhythm.line_gap(self.progress)

    @property
    def own_eta_s(self) -> float | None:
        """Say the job's own remaining time, as it last printed it."""
        current = self.current
        return current.log.eta_s if current is not None and current.log is not None else None


def age(sample: Sample, changed_at: float | None, modified: float | None) -> float | None:
    """Say how old the last change is: as seen, else by the file's time unless that is to come."""
    if changed_at is not None:
        return max(0.0, sample.at - changed_at)
    # A file that is written at this very moment is younger than the look; a clock is not.
    if modified is None or modified > sample.wall + _AT_THIS_MOMENT_S:
        return None
    return max(0.0, sample.wall - modified)
