"""A job's processes, real ones, in every state that a process can have."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.apart import as_nobody, from_namespace, open_to_all
from tests.stage import Stage
from tests.worlds import FakeJob, needs
from watch_inference.finding import discover, proctable
from watch_inference.model import Dataset, Job, Options, ProcessReading
from watch_inference.probes.process import Processes

AT_WORK = ("running", "sleeping")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        stage.datasets()
        yield stage


def job_of(stage: Stage, *logs: Path) -> Job:
    """Describe the stage's job as discover would."""
    names = ("B1_glaive", "B2_chat")
    datasets = tuple(
        Dataset(
            name,
            str(stage.root / name),
            (str(stage.root / name / "prompts.jsonl"),),
            (str(stage.root / name / "tokenized_data*.jsonl"),),
        )
        for name in names
    )
    logged = tuple(str(log) for log in logs or (stage.log,))
    return Job("synth_100k", str(stage.root), "target", datasets, logged)


def read(processes: Processes, at: float, job: Job) -> dict[int, ProcessReading]:
    return {one.pid: one for one in processes.read(at, 0.0, job)[0]}


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def root_only() -> None:
    if os.geteuid() != 0:
        pytest.skip("takes root")


# ------------------------------------------------------------------------------- what is told


def test_a_process_at_work_is_told_with_the_files_that_it_writes(stage: Stage) -> None:
    output = stage.root / "B1_glaive" / "tokenized_data.jsonl"
    with FakeJob(stage.log, [output], "--api-key", "sk-verysecret", "\x1b[2Jtidy") as fake:
        processes = Processes(Options())
        (one,) = read(processes, 10.0, job_of(stage)).values()
        assert (one.pid, one.threads) == (fake.pid, 1)
        assert one.state in AT_WORK
        assert one.holds == (str(stage.log), str(output))
        assert processes.held == {str(output)}
        assert one.started == pytest.approx(time.time(), abs=60)
        assert (one.rss or 0) > 1_000_000
        assert one.command is not None
        assert one.command.endswith("--api-key *** tidy")
        assert one.owner == psutil.Process().username()
        assert not one.tty


def test_its_cpu_share_takes_two_looks(stage: Stage) -> None:
    with FakeJob(stage.log) as fake:
        processes = Processes(Options())
        assert read(processes, 10.0, job_of(stage))[fake.pid].cpu_percent is None
        share = read(processes, 12.0, job_of(stage))[fake.pid].cpu_percent
        assert share is not None
        assert 0.0 <= share < 100.0


def test_a_stopped_process_is_stopped_until_it_goes_on(stage: Stage) -> None:
    with FakeJob(stage.log) as fake:
        processes = Processes(Options())
        fake.stop()
        assert read(processes, 1.0, job_of(stage))[fake.pid].state == "stopped"
        fake.go_on()
        until(lambda: read(processes, 2.0, job_of(stage))[fake.pid].state in AT_WORK)


def test_a_process_in_uninterruptible_sleep_is_not_dead(stage: Stage) -> None:
    script = "import ctypes; l = ctypes.CDLL(None); l.vfork() or l.pause()"
    stage.run([sys.executable, "-I", "-S", "-c", script], stage.log)
    processes = Processes(Options())
    until(lambda: "disk-sleep" in {r.state for r in read(processes, 1.0, job_of(stage)).values()})


def test_stdout_on_a_terminal_is_told(stage: Stage) -> None:
    needs("script")
    stage.run(["script", "-q", "-c", stage.line(), "/dev/null"])
    (pid,) = stage.wait()
    assert read(Processes(Options()), 1.0, job_of(stage))[pid].tty


def test_stdout_through_tee_is_not_lost(stage: Stage) -> None:
    needs("tee")
    stage.shell(f"{stage.line()} | tee {stage.log} > /dev/null")
    (pid,) = stage.wait()
    assert not read(Processes(Options()), 1.0, job_of(stage))[pid].tty


# ------------------------------------------------------------------------------------ how it ends


def test_a_killed_process_is_gone_since_it_was_first_missed(stage: Stage) -> None:
    with FakeJob(stage.log) as fake:
        processes = Processes(Options())
        read(processes, 1.0, job_of(stage))
        fake.kill()
        for at in (3.0, 5.0):
            one = read(processes, at, job_of(stage))[fake.pid]
            assert (one.state, one.since_at, one.rss, one.holds) == ("gone", 3.0, None, ())
        assert processes.held == frozenset()


def test_a_process_that_nobody_reaps_is_a_zombie_and_later_gone(stage: Stage) -> None:
    with FakeJob(stage.log) as fake:
        processes = Processes(Options())
        read(processes, 1.0, job_of(stage))
        fake.kill(reap=False)
        one = read(processes, 3.0, job_of(stage))[fake.pid]
        assert (one.state, one.since_at, one.rss) == ("zombie", 3.0, None)
        assert one.command is not None
        assert "fake_job.py" in one.command
        fake.process.wait(5)
        one = read(processes, 5.0, job_of(stage))[fake.pid]
        assert (one.state, one.since_at) == ("gone", 3.0)


def test_a_process_whose_main_thread_has_ended_is_alive(stage: Stage) -> None:
    stage.run(stage.job("--thread"), stage.log)
    (pid,) = stage.wait()
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    one = read(Processes(Options()), 1.0, job_of(stage))[pid]
    assert (one.state, one.since_at) == ("sleeping", None)
    assert len(one.holds) == 3


def test_a_pid_with_another_beginning_is_another_process(stage: Stage) -> None:
    root_only()
    processes = Processes(Options())
    with FakeJob(stage.log) as fake:
        read(processes, 1.0, job_of(stage))
        fake.kill()
        with _process_with_pid(fake.pid) as other:
            assert psutil.pid_exists(fake.pid)
            assert read(processes, 3.0, job_of(stage))[other.pid].state == "gone"


def _process_with_pid(pid: int) -> subprocess.Popen[bytes]:
    """Start a process that gets a pid that somebody had before."""
    last = Path("/proc/sys/kernel/ns_last_pid")
    for _ in range(50):
        try:
            last.write_text(str(pid - 1))
        except OSError:
            pytest.skip("the next pid cannot be chosen here")
        other = subprocess.Popen(["sleep", "60"])
        if other.pid == pid:
            # Popen's own `with` waits: the sleep must be ended first.
            other.kill()
            return other
        other.kill()
        other.wait()
    pytest.skip("others took the pid")


def test_one_rank_of_three_that_ends_is_gone_while_the_others_live(stage: Stage) -> None:
    logs = [stage.logs / f"rank{rank}.log" for rank in range(3)]
    for rank, log in enumerate(logs):
        stage.run(stage.job("--name", f"tokenized_data_rank{rank}.jsonl"), log)
    pids = stage.wait(3)
    processes, job = Processes(Options()), job_of(stage, *logs)
    assert set(read(processes, 1.0, job)) == set(pids)
    os.kill(pids[1], signal.SIGKILL)
    for process in stage.started:
        process.poll()
    until(lambda: read(processes, 3.0, job)[pids[1]].state == "gone" or stage.started[1].poll())
    at_work = {pid: one.state in AT_WORK for pid, one in read(processes, 40.0, job).items()}
    assert at_work == {pids[0]: True, pids[1]: False, pids[2]: True}


def test_a_launcher_that_ended_is_forgotten_once_its_worker_is_found(stage: Stage) -> None:
    gate = stage.folder / "gate"
    os.mkfifo(gate)
    launcher = stage.shell(f"exec > {stage.log} 2>&1; read -r _ < {gate}; {stage.line()} &")
    processes, job = Processes(Options()), job_of(stage)
    until(stage.log.exists)
    assert list(read(processes, 1.0, job)) == [launcher.pid]
    gate.write_text("go\n")
    (worker,) = stage.wait()
    launcher.wait(10)
    assert list(read(processes, 3.0, job)) == [worker]


def test_a_launcher_gives_way_to_its_worker_while_both_live(stage: Stage) -> None:
    gate = stage.folder / "gate"
    os.mkfifo(gate)
    launcher = stage.shell(f"exec > {stage.log} 2>&1; read -r _ < {gate}; {stage.line()}; :")
    processes, job = Processes(Options()), job_of(stage)
    until(stage.log.exists)
    assert list(read(processes, 1.0, job)) == [launcher.pid]
    gate.write_text("go\n")
    (worker,) = stage.wait()
    assert list(read(processes, 20.0, job)) == [worker]


def test_a_dead_worker_is_told_while_its_launcher_lives_and_until_the_next_one(
    stage: Stage,
) -> None:
    line = stage.line("--name", "tokenized_data_1.jsonl")
    gate = stage.folder / "gate"
    os.mkfifo(gate)
    script = f"exec > {stage.log} 2>&1; {stage.line()}; read -r _ < {gate}; {line}; :"
    launcher = stage.shell(script)
    processes, job = Processes(Options()), job_of(stage)
    (first,) = stage.wait()
    assert list(read(processes, 1.0, job)) == [first]
    os.kill(first, signal.SIGKILL)
    until(lambda: read(processes, 3.0, job)[first].state == "gone")
    assert set(read(processes, 5.0, job)) == {launcher.pid, first}
    gate.write_text("go\n")
    (second,) = set(stage.wait(2)) - {first}
    assert list(read(processes, 20.0, job)) == [second]


def test_a_second_run_takes_the_place_of_the_first(stage: Stage) -> None:
    processes = Processes(Options())
    with FakeJob(stage.log) as first:
        read(processes, 1.0, job_of(stage))
    with FakeJob(stage.logs / "second.log") as second:
        found = read(processes, 3.0, job_of(stage, stage.logs / "second.log"))
    assert list(found) == [second.pid]
    assert first.pid != second.pid


def test_a_process_named_by_its_pid_is_that_process_alone(stage: Stage) -> None:
    with FakeJob(None) as named, FakeJob(stage.log):
        processes = Processes(Options(pids=(named.pid,)))
        assert list(read(processes, 1.0, job_of(stage))) == [named.pid]
        named.kill()
        assert read(processes, 3.0, job_of(stage))[named.pid].state == "gone"


def test_processes_that_come_and_go_cost_nothing_but_themselves(stage: Stage) -> None:
    stage.shell("for i in $(seq 400); do /bin/true & [ $((i % 8)) = 0 ] && wait; done; touch over")
    while not (stage.folder / "over").exists():
        assert all(one.pid for one in proctable.table())
    assert proctable.process(1 << 30) is None


def test_without_a_free_descriptor_nobody_is_gone_and_all_is_seen_again_later(
    stage: Stage,
) -> None:
    processes, job = Processes(Options()), job_of(stage)
    with FakeJob(stage.log) as fake:
        read(processes, 1.0, job)
        stage.datasets("B3_new")
        with _no_free_descriptor():
            (one,), view = processes.read(3.0, 0.0, job)
            assert discover.refresh(job, Options(), processes.seen) == job
        assert (one.pid, one.state, one.since_at) == (fake.pid, "unknown", None)
        assert not view.complete
        assert read(processes, 5.0, job)[fake.pid].state in AT_WORK


@contextmanager
def _no_free_descriptor() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ------------------------------------------------------------------------ how much can be seen


def test_for_root_on_a_local_disk_the_view_is_complete(stage: Stage) -> None:
    root_only()
    with FakeJob(stage.log):
        view = Processes(Options()).read(1.0, 0.0, job_of(stage))[1]
    assert view == (True, "")


def test_another_user_sees_that_it_may_not_see(stage: Stage) -> None:
    root_only()
    open_to_all(stage.folder)
    with FakeJob(stage.log, [], str(stage.root)) as fake:
        readings, view = as_nobody(lambda: Processes(Options()).read(1.0, 0.0, job_of(stage)))
    (one,) = readings
    assert (one.pid, one.holds) == (fake.pid, ())
    assert one.state in AT_WORK
    assert view == (False, "processes of user root cannot be looked into")


def test_files_that_grow_with_nobody_at_them_are_written_out_of_sight(stage: Stage) -> None:
    root_only()
    processes = Processes(Options())
    stage.log.write_text("1\n")
    assert processes.read(0.0, 0.0, job_of(stage)) == ((), (True, ""))
    stage.log.write_text("1\n2\n")
    _, view = processes.read(20.0, 0.0, job_of(stage))
    assert view == (False, "files grow, and no process that is seen here holds them")
    assert not processes.read(40.0, 0.0, job_of(stage))[1].complete
    with FakeJob(stage.log):
        assert processes.read(60.0, 0.0, job_of(stage))[1].complete


def test_what_a_process_wrote_before_it_ended_was_not_written_out_of_sight(stage: Stage) -> None:
    root_only()
    processes = Processes(Options())
    with FakeJob(stage.log) as fake:
        processes.read(0.0, 0.0, job_of(stage))
        fake.say(b"the last words\n")
    assert processes.read(20.0, 0.0, job_of(stage))[1].complete


@pytest.mark.parametrize(
    ("unshare", "reason"),
    [
        (("-p", "-f", "--mount-proc"), "another PID namespace may hold the job"),
        (("-p", "-f"), "/proc shows another PID namespace"),
    ],
)
def test_from_another_pid_namespace_the_view_is_not_complete(
    stage: Stage, unshare: tuple[str, ...], reason: str
) -> None:
    needs("unshare")
    root_only()
    with FakeJob(stage.log):
        found = from_namespace(stage.root, *unshare)
    assert found == {"pids": [], "view": [False, reason]}


def test_without_cgroup_files_all_is_as_ever(stage: Stage) -> None:
    needs("unshare")
    root_only()
    with FakeJob(stage.log) as fake:
        assert from_namespace(stage.root, "-C") == {"pids": [fake.pid], "view": [True, ""]}
