"""A job's life told on a clock that is handed in: what each look sees, and what is said of it."""

from __future__ import annotations

from watch_inference.case import Limits
from watch_inference.logbook import Book
from watch_inference.model import (
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
        self.job = Job("synth", "/synth", "target", logs=("/synth/run.log",))
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

    @property
    def wall(self) -> float:
        return WALL + self.at

    def process(self, state: str = "sleeping", pid: int = 41, **more: object) -> None:
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
        self.progress, report = look(self.progress, self.sample(), self.setting)
        return report

    def passes(self, seconds: float) -> Report:
        """Let time pass in which nothing happens, looking every two seconds."""
        end = self.at + seconds
        while self.at + self.tick_s <= end:
            self.at += self.tick_s
            report = self.look()
        self.at = end
        return report if seconds < self.tick_s else self.look()

    def works(
        self,
        name: str,
        requests: int,
        *,
        rate: float = 1.0,
        every: int = 50,
        total: int | None = None,
    ) -> Report:
        """Let requests finish at a steady rate, a line each and a log line every so many."""
        # Looking at every fifth request only is faster, and as much as a look every few seconds.
        done = self.outputs[name].written or 0
        whole = total or self.outputs[name].total or 0
        for number in range(done + 1, done + requests + 1):
            self.at += 1 / rate
            self.writes(name, number)
            if number % every == 0 or number == whole:
                self.logs(progress(number, whole, rate=rate))
            if number % 5 == 0:
                self.look()
        return self.look()


def progress(done: int, total: int, errors: int = 0, rate: float = 1.0, eta: str = "1.0h") -> str:
    """Write the reference job's progress line."""
    return f"{done}/{total} ({errors} err) {rate:.1f} req/s avg_comp=788tok ETA={eta}"
