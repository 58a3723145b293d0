"""A job's life told on a clock that is handed in: what each look sees, and what is said of it."""

from __future__ import annotations

from typing import Any

from watch_inference.folding.progress import advance
from watch_inference.judging.case import Case, Limits
from watch_inference.judging.diagnosis import judge
from watch_inference.judging.rows import figures
from watch_inference.logs.logbook import Book
from watch_inference.model import (
    Dataset,
    Forecast,
    Job,
    LogReading,
    OutputReading,
    ProcessReading,
    ProcessView,
    Progress,
    Report,
    Sample,
)
from watch_inference.watch import Setting, look

WALL = 1_770_000_000.0
SEEN = ProcessView(True)


class Story:
    """One job: say what happens, let time pass, and look."""

    def __init__(self, *, limits: Limits | None = None, **totals: int | None) -> None:
        self.at = 1000.0
        folders = {name: f"/synth/{name}" for name in totals}
        datasets = tuple(
            Dataset(name, folder, outputs=(f"{folder}/tokenized_data.jsonl",))
            for name, folder in folders.items()
        )
        self.job = Job("synth", "/synth", "target", datasets, ("/synth/run.log",))
        self.outputs = {
            name: OutputReading(name, total, has_prompts=total is not None, files=0)
            for name, total in totals.items()
        }
        self.book = Book(tuple(totals))
        self.log: LogReading | None = LogReading("/synth/run.log", size=0)
        self.processes: dict[int, ProcessReading] = {}
        self.view = SEEN
        self.progress: Progress | None = None
        self.setting = Setting(limits or Limits(), host="gpu-7")
        self.tick_s = 2.0
        self.quick = False  # without a forecast, which costs more than all the rest
        self.history: list[Report] = []
        self.broke_at: float | None = None
        self.before = 0  # looks before it broke

    @property
    def wall(self) -> float:
        return WALL + self.at

    def process(self, state: str = "sleeping", pid: int = 41, **more: Any) -> None:
        old = self.processes.get(pid, ProcessReading(pid, state, started=self.wall))
        since = self.at if state in ("gone", "zombie") else None
        self.processes[pid] = old._replace(state=state, since_at=since, **more)

    def logs(self, *lines: str, arriving: bool = True) -> None:
        assert self.log is not None
        self.book.feed("".join(f"{line}\n" for line in lines).encode(), self._when(arriving))
        self.log = self.log._replace(
            modified=self.wall, changed_at=self._when(arriving), size=1 + (self.log.size or 0)
        )

    def writes(self, name: str, lines: int, arriving: bool = True) -> None:
        """Let a dataset's output have so many lines in all."""
        self.outputs[name] = self.outputs[name]._replace(
            written=lines,
            bytes=lines * 8192,
            files=1,
            modified=self.wall,
            changed_at=self._when(arriving),
        )

    def _when(self, arriving: bool) -> float | None:
        return self.at if arriving and self.progress is not None else None

    def sample(self) -> Sample:
        logs = () if self.log is None else (self.book.fill(self.log),)
        return Sample(
            self.at,
            self.wall,
            self.job,
            tuple(self.outputs.values()),
            logs,
            tuple(self.processes.values()),
            self.view,
        )

    def look(self) -> Report:
        return self.look_at(self.sample())

    def look_at(self, sample: Sample) -> Report:
        """See a sample of another making."""
        watched = _look_without_forecast if self.quick else look
        self.progress, report = watched(self.progress, sample, self.setting)
        self.history.append(report)
        return report

    def breaks(self) -> None:
        """Mark the moment after which something is wrong."""
        self.broke_at, self.before = self.at, len(self.history)

    def passes(self, seconds: float) -> Report:
        """Let time pass in which nothing happens, looking as often as is due, and at its end."""
        self._until(self.at + seconds)
        return self.look()

    def works(
        self,
        name: str,
        requests: int,
        *,
        rate: float = 1.0,
        every: int = 50,
        total: int | None = None,
        eta: str | None = None,
    ) -> Report:
        """Let requests finish at a steady rate, a line each and a log line every so many."""
        done = self.outputs[name].written or 0
        whole = total or self.outputs[name].total or 0
        for number in range(done + 1, done + requests + 1):
            self._until(self.at + 1 / rate)
            self.writes(name, number)
            if number % every == 0 or number == whole:
                left = f"{(whole - number) / rate / 3600:.1f}h"
                self.logs(progress(number, whole, rate=rate, eta=eta or left))
        return self.look()

    def _until(self, end: float) -> None:
        """Let time go on to `end`, looking as often as is due."""
        looked = self.history[-1].at if self.history else self.at
        while looked + self.tick_s < end:
            looked += self.tick_s
            self.at = looked
            self.look()
        self.at = end


def _look_without_forecast(
    before: Progress | None, sample: Sample, setting: Setting
) -> tuple[Progress, Report]:
    now = advance(before, sample, setting.counting)
    case = Case(sample, now, Forecast(), setting.limits, setting.host)
    report = judge(case._replace(figures=figures(case)))
    return now._replace(happened=report.happened), report


def progress(done: int, total: int, errors: int = 0, rate: float = 1.0, eta: str = "1.0h") -> str:
    """Write the reference job's progress line."""
    return f"{done}/{total} ({errors} err) {rate:.1f} req/s avg_comp=788tok ETA={eta}"
