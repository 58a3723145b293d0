"""The most important incidents again, with real processes and files, in real time."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.stage import Stage
from tests.stories import progress
from tests.worlds import FakeJob
from watch_inference import watch
from watch_inference.finding import discover
from watch_inference.judging.case import Limits
from watch_inference.model import Options, Progress, Report, State
from watch_inference.probes import Probes
from watch_inference.probes.gpu import Gpus

PROMPTS, ROW = 200, b'{"id": 1, "output_ids": [7, 8, 9]}\n'
PATIENCE_S = 20.0


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        stage.datasets("B1", "B2", prompts=PROMPTS)
        yield stage


class Watched:
    """A real job of two datasets, and the monitor that watches it from within this process."""

    def __init__(self, stage: Stage, stall_after: float | None = None) -> None:
        self.stage = stage
        self.output = stage.root / "B1" / "tokenized_data.jsonl"
        self.setting = watch.Setting(Limits(stall_after))
        self.memory: Progress | None = None
        self.probes: Probes | None = None
        self.done = 0

    def look(self) -> Report:
        """Look once, with the clocks of this machine."""
        if self.probes is None:
            options = Options(
                targets=(str(self.stage.root),), ask_server=False, ask_gpu=False, cache=False
            )
            job = discover.find(options, "/")[0]
            self.probes = Probes(job, options, Gpus(options, time.monotonic))
        sample = self.probes.take(time.monotonic(), time.time())
        self.memory, report = watch.look(self.memory, sample, self.setting)
        return report

    def until(self, wanted: Callable[[Report], bool]) -> Report:
        """Look ten times a second until what is wanted is seen."""
        deadline = time.monotonic() + PATIENCE_S
        while not wanted(report := self.look()):
            assert time.monotonic() < deadline, (report.state, report.reason, report.evidence)
            time.sleep(0.1)
        return report

    def state(self, state: State) -> Report:
        """Look until the job is in a state."""
        return self.until(lambda report: report.state is state)

    def says(self, words: str) -> Report:
        """Look until the reason or the evidence has these words."""
        return self.until(lambda r: any(words in said for said in (r.reason, *r.evidence)))

    def works(self, job: FakeJob, requests: int = 20) -> None:
        """Let requests finish, with a line in the log, and see it."""
        if not self.done:
            job.say(b"B1\n")
            self.look()
        job.write(self.output, ROW * requests)
        self.done += requests
        job.say(f"{progress(self.done, PROMPTS)}\n".encode())
        self.look()

    def close(self) -> None:
        if self.probes is not None:
            self.probes.close()


@pytest.fixture
def watched(stage: Stage) -> Iterator[Watched]:
    watched = Watched(stage)
    yield watched
    watched.close()


@pytest.fixture
def hasty(stage: Stage) -> Iterator[Watched]:
    """Give a monitor that calls a second of silence a stall."""
    watched = Watched(stage, stall_after=1.0)
    yield watched
    watched.close()


def test_a_job_that_hangs_is_stalled_and_its_recovery_is_kept(hasty: Watched) -> None:
    with FakeJob(hasty.stage.log) as job:
        hasty.works(job)
        hasty.works(job)
        report = hasty.state(State.STALLED)
        assert report.reason.startswith("no work has moved for 1 s, process ")
        hasty.works(job)
        report = hasty.look()
        assert report.state is State.RUNNING
        assert [one.kind for one in report.happened] == ["stall"]
        assert any(said.startswith("stalled once: ") for said in report.evidence)


def test_heartbeats_do_not_hide_that_it_hangs(hasty: Watched) -> None:
    with FakeJob(hasty.stage.log) as job:
        hasty.works(job)
        hasty.works(job)

        def beats(report: Report) -> bool:
            job.say(b"INFO heartbeat: alive\n")
            return report.state is State.STALLED

        hasty.until(beats)


def test_a_stopped_job_is_named_and_goes_on(watched: Watched) -> None:
    with FakeJob(watched.stage.log) as job:
        watched.works(job)
        job.stop()
        report = watched.state(State.STALLED)
        assert report.reason == f"process {job.pid} is stopped (state T)"
        assert report.advice.endswith(f"kill -CONT {job.pid} lets it go on")
        job.go_on()
        watched.works(job)
        assert watched.state(State.RUNNING).reason == ""


def test_a_killed_job_is_gone_and_the_log_names_no_error(watched: Watched) -> None:
    with FakeJob(watched.stage.log) as job:
        watched.works(job)
        job.kill()
        report = watched.state(State.FAILED)
        assert report.reason == "process gone at 5.0 %; the log names no error"


def test_an_exception_is_named_when_the_job_is_gone(watched: Watched) -> None:
    with FakeJob(watched.stage.log) as job:
        watched.works(job)
        job.say(b"Traceback (most recent call last):\n  x\nValueError: bad prompt\n")
        job.end(1)
        report = watched.state(State.FAILED)
        assert report.reason == (
            "process gone at 5.0 %; the log's last error: ValueError: bad prompt"
        )


def test_a_zombie_is_no_living_job(watched: Watched) -> None:
    with FakeJob(watched.stage.log) as job:
        watched.works(job)
        job.kill(reap=False)
        report = watched.state(State.FAILED)
        assert report.reason.startswith(f"process {job.pid} exited and is not reaped at 5.0 %")


def test_one_shard_that_dies_is_named_while_the_other_lives(watched: Watched) -> None:
    other_log = watched.stage.logs / "rank1.log"
    with FakeJob(watched.stage.log) as job, FakeJob(other_log) as other:
        watched.works(job)
        other.say(b"B2\n")
        other.write(watched.stage.root / "B2" / "tokenized_data.jsonl", ROW * 10)
        watched.until(lambda report: len(report.processes) == 2)
        other.kill()
        report = watched.says(f"process {other.pid} is gone")
        assert (report.state, report.reason.endswith("while 1 other lives")) == (
            State.RUNNING,
            True,
        )


def test_a_job_that_was_started_again_is_told_from_the_one_before(watched: Watched) -> None:
    with FakeJob(watched.stage.log) as job:
        watched.works(job)
        old = job.pid
        job.kill()
    with FakeJob(watched.stage.log) as job:
        job.say(b"B1: 180 left, 20 already done\n")
        report = watched.says("restarted ")
        assert f"process {job.pid} in the place of {old}" in report.evidence[0]
        assert (report.state, report.reason) == (State.STARTING, "no progress yet")
        watched.works(job)
        assert watched.state(State.RUNNING).figures.done == 40


def test_a_job_that_has_written_all_and_lives_is_running_and_then_finished(
    watched: Watched,
) -> None:
    (watched.stage.root / "B2" / "prompts.jsonl").unlink()
    with FakeJob(watched.stage.log) as job:
        watched.works(job, PROMPTS)
        report = watched.look()
        assert report.reason == f"all lines are written, process {job.pid} is still alive"
        job.end()
        assert watched.state(State.FINISHED).over


def test_lines_that_never_came_are_called_lost_when_the_job_is_gone(watched: Watched) -> None:
    with FakeJob(watched.stage.log) as job:
        watched.works(job)
        job.say(f"{progress(PROMPTS, PROMPTS)}\n".encode())
        watched.look()
        job.end()
        report = watched.state(State.FAILED)
        assert any("180 lines are lost" in said for said in report.evidence)


def test_more_lines_than_prompts_are_named(watched: Watched) -> None:
    with FakeJob(watched.stage.log) as job:
        watched.works(job)
        job.write(watched.output, ROW * PROMPTS)
        report = watched.says("220 lines for 200 prompts")
        assert report.figures.fraction is not None
        assert report.figures.fraction <= 1


def test_a_job_that_waits_for_its_disk_is_not_dead(watched: Watched) -> None:
    # A parent that waits for a vfork is in state D, as one whose mount does not answer.
    script = "import ctypes; l = ctypes.CDLL(None); l.vfork() or l.pause()"
    watched.stage.run([sys.executable, "-I", "-S", "-c", script], watched.stage.log)
    report = watched.until(lambda r: any(one.state == "disk-sleep" for one in r.processes))
    assert report.state is State.STARTING


# ------------------------------------------------------------------------------ a first look


def aged(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


@pytest.mark.parametrize(("age_s", "state"), [(300, State.RUNNING), (900, State.STALLED)])
def test_a_first_look_judges_a_silent_log_by_its_own_figures(
    watched: Watched, age_s: float, state: State
) -> None:
    with FakeJob(watched.stage.log) as job:
        lines = (progress(done, PROMPTS * 100, rate=0.7) for done in (150, 300, 450))
        job.say("".join(f"B1\n{line}\n" for line in lines).encode())
        aged(watched.stage.log, age_s)
        for name in ("B1", "B2"):
            (watched.stage.root / name / "prompts.jsonl").write_bytes(b"{}\n" * PROMPTS * 100)
        assert watched.look().state is state


def test_a_log_that_is_silent_while_outputs_grow_is_buffered(watched: Watched) -> None:
    with FakeJob(watched.stage.log) as job:
        watched.works(job)
        aged(watched.stage.log, 900)
        watched.memory = None
        watched.close()
        watched.probes = None
        job.write(watched.output, ROW)
        report = watched.look()
        assert report.state is State.RUNNING
        assert report.reason.startswith("the log is silent for 15 min while outputs grow")
        assert "python -u" in report.advice
