"""The forecast of a job's real files, read by the real probes, against the same job told directly.

The job: B1 is done (400 requests, one every 2 s), B2 (1,000) runs at one every 4 s with answers
twice as long, B3 (500) waits. It begins when its process does, and B2 20 s after B1 ended.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from watch_inference import watch
from watch_inference.files.checkpoint import Memory
from watch_inference.files.scorekeeping import keep_scores
from watch_inference.finding import discover
from watch_inference.forecasting.forecast import forecast
from watch_inference.model import (
    Forecast,
    LogLine,
    Observed,
    ObservedDataset,
    Options,
    ProcessReading,
    ProcessView,
    Report,
    Sample,
)
from watch_inference.probes import Probes
from watch_inference.probes.gpu import Gpus

BEGUN = 1_770_000_000.0
PROMPT = b'{"prompt": "%s"}\n' % (b"x" * 1985)
ROW = b'{"output_ids": [1, 2, 3]}\n'
B2_AT = 820.0  # seconds into the run
EVERY = 25  # requests between two progress lines


class Truth:
    """The job as it stands so many seconds into its run."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.b1 = min(400, int(seconds // 2))
        self.b2 = max(0, int((seconds - B2_AT) // 4))

    def log(self) -> bytes:
        asked = "0 already done, concurrency=8 max_tokens=4096 ==="
        text = f"=== [1/3] B1: 400 prompts, {asked}\n"
        text += "".join(line(n, 400, 2.0, 300) for n in range(EVERY, self.b1 + 1, EVERY))
        if self.seconds >= B2_AT:
            text += f"=== [2/3] B2: 1000 prompts, {asked}\n"
            text += "".join(line(n, 1000, 4.0, 600) for n in range(EVERY, self.b2 + 1, EVERY))
        return text.encode()

    def write(self, root: Path) -> None:
        """Let the files be as the job has left them, their times too."""
        for name, prompts in (("B1", 400), ("B2", 1000), ("B3", 500)):
            if not (root / name).is_dir():
                (root / name).mkdir(parents=True)
                (root / name / "prompts.jsonl").write_bytes(PROMPT * prompts)
        put(root / "B1" / "tokenized_data.jsonl", ROW * self.b1, 2.0 * self.b1)
        put(root / "B2" / "tokenized_data.jsonl", ROW * self.b2, B2_AT + 4.0 * self.b2)
        put(root / "run.log", self.log(), self.seconds)

    def told(self, watched: bool) -> Observed:
        """Tell the forecast directly what the files show."""

        def told(name: str, prompts: int, done: int, begun: float, each: float) -> ObservedDataset:
            ended, tokens = done == prompts, 150 * each
            lines = tuple(
                LogLine(n, prompts, 0, rate(each), tokens, eta(n, prompts, each), at)
                for n in range(EVERY, done + 1, EVERY)
                for at in (begun + each * n if watched else None,)
            )
            return ObservedDataset(
                name=name,
                status="done" if ended else "running" if done else "queued",
                prompts=prompts,
                prompts_bytes=len(PROMPT) * prompts,
                finished=done,
                output_at=begun + each * done if done else None,
                completion_tokens=tokens if lines else None,
                concurrency=8 if done else None,
                max_tokens=4096 if done else None,
                started=begun if watched and done else None,
                ended=begun + each * done if ended else None,
                lines=lines,
            )

        b1, b2 = told("B1", 400, self.b1, 0.0, 2.0), told("B2", 1000, self.b2, B2_AT, 4.0)
        return Observed(self.seconds, (b1, b2, told("B3", 500, 0, 0.0, 1.0)), 0.0)


def put(path: Path, content: bytes, seconds: float) -> None:
    """Append what is new of the content: a file that grows, last so many seconds into the run."""
    there = path.stat().st_size if path.exists() else 0
    if len(content) > there:
        with path.open("ab") as file:
            file.write(content[there:])
        os.utime(path, (BEGUN + seconds, BEGUN + seconds))


def rate(each: float) -> float:
    return round(1 / each, 1)


def eta(done: int, total: int, each: float) -> float:
    return round((total - done) * each / 3600, 1) * 3600


def line(done: int, total: int, each: float, tokens: int) -> str:
    hours = eta(done, total, each) / 3600
    return f"{done}/{total} (0 err) {rate(each)} req/s avg_comp={tokens}tok ETA={hours:.1f}h\n"


def reported(root: Path, times: list[float], memory: Memory | None = None) -> Report:
    """Look at the files at each of the times through the loop, clock and process handed in."""
    now = times[0]
    Truth(now).write(root)
    options = Options(targets=(str(root),), cache=False, ask_server=False, ask_gpu=False)
    gpus = Gpus(options, lambda: now)
    probes = Probes(discover.find(options, str(root))[0], options, gpus, memory)
    process = ProcessReading(41, "sleeping", started=BEGUN)

    def take(at: float, wall: float) -> Sample:
        Truth(at).write(root)
        seen = probes.take(at, wall, whole=True)
        return seen._replace(processes=(process,), view=ProcessView(True))

    looks = watch.reports([take], lambda: now, lambda: BEGUN + now, lambda seconds: None, 2.0)
    for now in times:  # noqa: B007
        (report,) = next(looks)
    probes.close()
    return report


def same(report: Report, told: Forecast) -> None:
    figures = report.figures
    read = (figures.remaining_s, figures.remaining_low_s, figures.remaining_high_s)
    assert read == pytest.approx((told.remaining_s, told.low_s, told.high_s), rel=0.02)
    rests = {row.name: row.remaining_s for row in report.datasets}
    assert rests == pytest.approx({"B1": 0.0, **dict(told.datasets)}, rel=0.02)


@pytest.mark.parametrize("seconds", [400.0, 1820.0])
def test_a_first_look_at_files_forecasts_as_the_job_told_directly(
    tmp_path: Path, seconds: float
) -> None:
    report = reported(tmp_path / "job", [seconds])
    told = forecast(Truth(seconds).told(watched=False))
    same(report, told)


def test_files_that_grow_are_forecast_as_the_job_told_directly(tmp_path: Path) -> None:
    report = reported(tmp_path / "job", [10.0 * look for look in range(183)])
    told = forecast(Truth(1820.0).told(watched=True))
    same(report, told)
    assert report.track[-1].endswith("earlier forecasts held the end now expected")
    assert [row.concurrency for row in report.datasets] == [8, 8, None]


def test_a_later_visit_knows_what_an_earlier_one_forecast(tmp_path: Path) -> None:
    memory = Memory({"HOME": str(tmp_path)})
    first = reported(tmp_path / "job", [400.0], memory)
    assert first.scores is not None
    keep_scores(memory, str(first.root), first.name, first.scores)
    later = reported(tmp_path / "job", [1820.0], Memory({"HOME": str(tmp_path)}))
    assert first.track == ()
    assert len(later.track) == 1
    assert later.track[0].startswith("after 5 min said ")
