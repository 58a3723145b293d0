"""Disk, memory and time that are left: real file systems and groups, and made-up ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds import Clock
from watch_inference.model import Dataset, Job, OutputReading, ProcessReading, Resources
from watch_inference.probes import cgroup
from watch_inference.probes.cgroup import Memory
from watch_inference.probes.resources import Machine, _Disk
from watch_inference.probes.timelimit import duration, time_limit

MIB = 1 << 20


def job_in(*folders: Path | str) -> Job:
    datasets = tuple(Dataset(f"B{n}", str(folder)) for n, folder in enumerate(folders))
    return Job("synth", str(folders[0]), "target", datasets)


class Watcher:
    """The probe and a clock of its own."""

    def __init__(self, job: Job, proc: str = "/proc") -> None:
        self.clock = Clock()
        self.job = job
        self.machine = Machine(self.clock.now, proc)

    def look(
        self, seconds: float = 0.0, processes: tuple[ProcessReading, ...] = (), written: int = 0
    ) -> Resources:
        """Look when the disks have answered."""
        self.clock.wait(seconds)
        outputs = (OutputReading("B0", bytes=written),)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            at, wall = self.clock.now(), self.clock.wall()
            told = self.machine.read(at, wall, self.job, processes, outputs, 5.0)
            if all(one._flight.asked_at is None for one in self.machine._disks.values()):
                return told
            time.sleep(0.005)
        raise AssertionError("the disk never answered")


# ------------------------------------------------------------------------------------- disks


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=20m,nr_inodes=100", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("no file system may be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_the_free_space_is_that_of_the_outputs_file_system(small_disk: Path) -> None:
    told = Watcher(job_in(small_disk)).look()
    assert (told.disk_free, told.disk_full_s, told.disk) == (20 * MIB, None, str(small_disk))
    assert (told.disk_age_s, told.disk_error) == (0.0, None)


def test_a_disk_that_fills_is_foretold_by_its_growth(small_disk: Path) -> None:
    watcher = Watcher(job_in(small_disk))
    watcher.look()
    (small_disk / "rows").write_bytes(b"x" * 10 * MIB)
    told = watcher.look(10)
    assert told.disk_free == 10 * MIB
    assert told.disk_full_s == pytest.approx(10.0)


def test_what_an_output_grows_by_counts_where_the_disk_does_not_show_it(tmp_path: Path) -> None:
    watcher = Watcher(job_in(tmp_path))
    free = watcher.look(written=0).disk_free
    assert free is not None
    told = watcher.look(10, written=10**15)
    assert told.disk_full_s is not None
    assert told.disk_full_s <= free / 10**14 * 1.1


def test_of_several_file_systems_the_one_that_is_worst_is_shown(
    tmp_path: Path, small_disk: Path
) -> None:
    told = Watcher(job_in(tmp_path, small_disk)).look()
    assert told.disk == str(small_disk)


def test_inodes_that_run_out_are_seen(small_disk: Path) -> None:
    for number in range(200):
        try:
            (small_disk / str(number)).touch()
        except OSError:
            break
    assert Watcher(job_in(small_disk)).look().inodes_free == 0


def test_a_folder_that_is_gone_is_named_and_nothing_made_up(tmp_path: Path) -> None:
    told = Watcher(job_in(tmp_path / "gone")).look()
    assert (told.disk_free, told.disk_error) == (None, "No such file or directory")


def test_a_dead_mount_blocks_nothing_and_its_silence_has_an_age() -> None:
    clock = Clock()
    disk = _Disk("/dead", clock.now)
    disk._due_at = float("inf")
    disk._flight.ask(lambda: time.sleep(30))  # type: ignore[arg-type,return-value]
    began = time.monotonic()
    disk.turn(clock.now(), 0, 0.0)
    clock.wait(40)
    told = disk.told(clock.now())
    assert (told.disk_free, told.disk_error, told.disk_age_s) == (None, "no answer", 40.0)
    assert time.monotonic() - began < 1


# ------------------------------------------------------------------------------------ memory


def fake_proc(folder: Path, rows: str, *mounts: tuple[str, str, str]) -> str:
    """Make a folder like /proc, in which process 7 is in the groups of `rows`."""
    (folder / "proc" / "7").mkdir(parents=True)
    (folder / "proc" / "self").mkdir()
    (folder / "proc" / "7" / "cgroup").write_text(rows)
    lines = [f"30 25 0:{n} {root} {point} rw - {kind} x rw" for n, (root, point, kind) in
             enumerate(mounts)]  # fmt: skip
    (folder / "proc" / "self" / "mountinfo").write_text("\n".join(lines))
    return str(folder / "proc")


def v2(folder: Path, path: str = "/job", **files: str) -> str:
    """Make a version 2 tree with a group, and files in it; `top_` files lie above."""
    tree = folder / "cgroup"
    group = Path(f"{tree}{path}")
    group.mkdir(parents=True)
    (tree / "cgroup.procs").touch()
    for name, text in files.items():
        where = tree if name.startswith("top_") else group
        (where / name.removeprefix("top_").replace("_", ".", 1)).write_text(text)
    return fake_proc(folder, f"0::{path}\n", ("/", str(tree), "cgroup2"))


def memory(proc: str, host: int | None = None) -> Memory:
    group = cgroup.group_of(7, proc)
    return Memory() if group is None else cgroup.read(group, host)


EVENTS = "low 0\nhigh 0\nmax 12\noom 1\noom_kill 3\noom_group_kill 0\n"


def test_a_limit_and_its_use_without_the_cache_of_files(tmp_path: Path) -> None:
    proc = v2(
        tmp_path,
        memory_max="2147483648\n",
        memory_current="1000000\n",
        memory_stat="anon 5\ninactive_file 400000\n",
        memory_events=EVENTS,
    )
    assert memory(proc) == Memory(600000, 2147483648, 3)


def test_no_limit_in_the_leaf_and_one_above_is_the_one_above(tmp_path: Path) -> None:
    proc = v2(
        tmp_path,
        memory_max="max\n",
        memory_current="7\n",
        top_memory_max="2147483648\n",
        top_memory_current="900\n",
    )
    assert memory(proc) == Memory(900, 2147483648, None)


@pytest.mark.parametrize("limit", ["max\n", "", "abc\n", "-5\n", "9" * 30])
def test_no_limit_is_none_whatever_stands_there(limit: str, tmp_path: Path) -> None:
    proc = v2(tmp_path, memory_max=limit, memory_current="7\n", memory_events="low 0\n")
    assert memory(proc) == Memory(7, None, None)


def test_a_limit_beyond_the_machines_memory_is_none(tmp_path: Path) -> None:
    proc = v2(tmp_path, memory_max="9000\n", memory_current="7\n")
    assert memory(proc, host=8000) == Memory(7, None, None)


def v1(folder: Path, path: str, limit: int) -> str:
    tree = folder / "memory"
    group = Path(f"{tree}{path}")
    group.mkdir(parents=True)
    for where in {tree, group}:
        (where / "memory.limit_in_bytes").write_text("9223372036854771712\n")
        (where / "memory.usage_in_bytes").write_text("5000\n")
        (where / "memory.stat").write_text("total_inactive_file 1000\n")
        (where / "memory.oom_control").write_text("oom_kill_disable 0\noom_kill 2\n")
    (group / "memory.limit_in_bytes").write_text(f"{limit}\n")
    rows = f"4:memory:{path}\n1:cpu:/\n0::/\n"
    return fake_proc(folder, rows, ("/", str(tree), "cgroup"))


def test_version_1_is_read_and_its_unlimited_is_no_limit(tmp_path: Path) -> None:
    assert memory(v1(tmp_path / "a", "/job", 52428800)) == Memory(4000, 52428800, 2)
    assert memory(v1(tmp_path / "b", "/job", 9223372036854771712)) == Memory(4000, None, 2)


def test_the_use_of_the_whole_machine_is_not_taken_for_the_jobs(tmp_path: Path) -> None:
    assert memory(v1(tmp_path, "/", 9223372036854771712)) == Memory(None, None, 2)


def test_a_path_from_outside_a_namespace_falls_back_to_the_mounts_top(tmp_path: Path) -> None:
    proc = v2(tmp_path, "/", memory_max="5000\n", memory_current="7\n")
    Path(proc, "7", "cgroup").write_text("0::/../../elsewhere\n")
    assert memory(proc) == Memory(7, 5000, None)


def test_without_files_memory_is_unknown(tmp_path: Path) -> None:
    assert memory(fake_proc(tmp_path, "0::/\n")) == Memory()


def test_kills_are_those_since_the_watch_began_and_stay_when_the_group_is_gone(
    tmp_path: Path,
) -> None:
    proc = v2(tmp_path, memory_max="5000\n", memory_current="7\n", memory_events=EVENTS)
    watcher = Watcher(job_in(tmp_path), proc)
    alive = (ProcessReading(7, "running"),)
    assert watcher.look(processes=alive).oom_kills == 0
    events = tmp_path / "cgroup" / "job" / "memory.events"
    events.write_text(EVENTS.replace("oom_kill 3", "oom_kill 4"))
    gone = (ProcessReading(7, "gone"),)
    assert watcher.look(2, gone).oom_kills == 1
    events.unlink()
    assert watcher.look(2, gone).oom_kills == 1


def test_memory_that_grows_towards_its_limit_is_foretold(tmp_path: Path) -> None:
    proc = v2(tmp_path, memory_max="10000\n", memory_current="4000\n")
    watcher = Watcher(job_in(tmp_path), proc)
    alive = (ProcessReading(7, "running"),)
    assert watcher.look(processes=alive).memory_full_s is None
    (tmp_path / "cgroup" / "job" / "memory.current").write_text("6000\n")
    told = watcher.look(100, alive)
    assert (told.memory_used, told.memory_limit) == (6000, 10000)
    assert told.memory_full_s == pytest.approx(200.0)


def test_a_job_that_nobody_sees_has_no_memory_of_ours(tmp_path: Path) -> None:
    told = Watcher(job_in(tmp_path)).look()
    assert (told.memory_used, told.memory_limit, told.oom_kills) == (None, None, None)


@pytest.fixture
def small_group() -> Iterator[Path]:
    """Make a real group of 50 MiB, where that is possible."""
    rows = Path("/proc/self/cgroup").read_text().splitlines()
    mine = next((row.split(":", 2)[2] for row in rows if ":memory:" in row), None)
    folder = Path(f"/sys/fs/cgroup/memory{mine or ''}") / f"watch_inference_{os.getpid()}"
    try:
        folder.mkdir()
        (folder / "memory.limit_in_bytes").write_text(f"{50 * MIB}")
    except OSError:
        pytest.skip("no control group may be made here")
    yield folder
    for _ in range(100):
        try:
            folder.rmdir()
            return
        except OSError:
            time.sleep(0.05)


_EATER = """
import sys
input()
kept = bytearray(200 << 20)
for at in range(0, len(kept), 4096):
    kept[at] = 1
"""


def test_a_real_kill_for_memory_is_counted(small_group: Path, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _EATER], stdin=subprocess.PIPE) as process:
        try:
            (small_group / "cgroup.procs").write_text(f"{process.pid}")
            watcher = Watcher(job_in(tmp_path))
            alive = (ProcessReading(process.pid, "running"),)
            told = watcher.look(processes=alive)
            assert (told.memory_limit, told.oom_kills) == (50 * MIB, 0)
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert process.wait(20) == -signal.SIGKILL
            gone = (ProcessReading(process.pid, "gone"),)
            assert watcher.look(2, gone).oom_kills == 1
        finally:
            process.kill()


# -------------------------------------------------------------------------------------- time


@pytest.mark.parametrize(
    ("command", "seconds"),
    [
        ("timeout 90 python run.py", 90.0),
        ("/usr/bin/timeout -k 5 2h python run.py", 7200.0),
        ("timeout --signal=TERM 1.5d run", 129600.0),
        ("timeout -s KILL 30m run", 1800.0),
        ("timeout 0 run", None),
        ("python timeout 90", None),
        ("timeout", None),
    ],
)
def test_what_timeout_was_told_is_read(command: str, seconds: float | None) -> None:
    assert duration(tuple(command.split())) == seconds


def test_a_job_below_timeout_is_known_to_end_with_it() -> None:
    began = time.time()
    with subprocess.Popen(
        ["timeout", "50", "sh", "-c", "echo $$; read x; true"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        limit = time_limit(pid)
        assert limit is not None
        assert limit.rule == "timeout 50s"
        assert limit.ends == pytest.approx(began + 50, abs=5)
        process.kill()
        os.kill(pid, signal.SIGKILL)


def test_a_job_in_a_session_of_its_own_outlives_a_timeout_above_it() -> None:
    with subprocess.Popen(
        ["timeout", "50", "sh", "-c", "setsid -w sh -c 'echo $$; read x; true'; true"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        limit = time_limit(pid)
        assert limit is None or limit.rule != "timeout 50s"
        os.kill(pid, signal.SIGKILL)


def test_slurms_end_time_is_read_from_the_jobs_environment() -> None:
    environment = {"PATH": os.environ["PATH"], "SLURM_JOB_END_TIME": "1771930000"}
    with subprocess.Popen(
        [sys.executable, "-c", "print(1, flush=True); input()"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert time_limit(process.pid) == (1771930000.0, "Slurm's time limit")
        process.kill()


def test_a_job_without_a_limit_has_none() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        limit = time_limit(process.pid)
        process.kill()
    assert limit is None or limit.rule.startswith("timeout")
