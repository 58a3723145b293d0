"""The demo's job: what it plans, what it writes, and that it leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.worlds import environment, watch
from watch_inference import demo

PROGRESS = re.compile(r"\s*(\d+)/(\d+) \((\d+) err\) [\d.]+ req/s avg_comp=\d+tok ETA=[\d.]+[smhd]")


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def wait_until_gone(root: Path, pids: list[int]) -> None:
    deadline = time.monotonic() + 10
    while root.parent.exists() or any(alive(pid) for pid in pids):
        assert time.monotonic() < deadline, f"left behind: {root.parent}, {pids}"
        time.sleep(0.02)


def job_of(keeper: psutil.Process) -> psutil.Process:
    (job,) = keeper.children()
    return job


def test_the_same_seed_plans_the_same_job() -> None:
    assert demo.script(120, 1) == demo.script(120, 1)
    assert demo.script(120, 1) != demo.script(120, 2)


def test_the_planned_job_takes_its_time_and_is_in_order() -> None:
    times = [write.at for write in demo.script(120, 0)]
    assert times == sorted(times)
    assert 119 < times[-1] < 121


def test_nine_of_ten_lines_of_the_log_are_noise() -> None:
    log = [write.text for write in demo.script(120, 0) if write.dataset is None]
    progress = [text for text in log if PROGRESS.fullmatch(text)]
    assert 0.08 < len(progress) / len(log) < 0.12


def test_every_request_of_the_plan_ends_as_a_line_or_as_an_error() -> None:
    writes = demo.script(120, 0)
    lines = Counter(write.dataset for write in writes if write.dataset is not None)
    last: dict[str, tuple[int, ...]] = {}
    name = ""
    for write in writes:
        if heading := re.match(r"=== \[\d/4\] (\w+):", write.text):
            name = heading[1]
        elif progress := PROGRESS.fullmatch(write.text):
            last[name] = tuple(map(int, progress.groups()))
    assert {name: done for name, (done, _, _) in last.items()} == {
        "B1_glaive": 400,
        "B2_dolly": 600,
        "B3_longalign": 90,
        "B4_math": 480,
    }
    assert all(
        done == total == lines[name] + errors for name, (done, total, errors) in last.items()
    )
    assert sum(errors for _, _, errors in last.values()) > 0


def test_a_row_is_as_long_as_its_answer_was() -> None:
    rows = [write.text for write in demo.script(120, 0) if write.dataset is not None]
    sizes = sorted(len(row) for row in rows)
    assert sizes[0] > 200
    assert 1200 < sizes[-1] <= 2000


def test_the_job_writes_what_it_planned(tmp_path: Path) -> None:
    root = tmp_path / "job"
    command = [sys.executable, "-m", "watch_inference.demo", str(root), "--seconds", "1"]
    subprocess.run(command, check=True, timeout=30)
    planned = [write for write in demo.script(1, 0) if write.dataset is None]
    assert (root / demo.LOG).read_text().splitlines() == [write.text for write in planned]
    lines = {
        path.parent.name: path.read_bytes().count(b"\n")
        for path in root.glob("*/tokenized_data.jsonl")
    }
    by_plan = Counter(write.dataset for write in demo.script(1, 0))
    assert lines == {
        "A1_tokenised": 240,
        "B1_glaive": 240 + by_plan["B1_glaive"],
        "B2_dolly": by_plan["B2_dolly"],
        "B3_longalign": by_plan["B3_longalign"],
        "B4_math": by_plan["B4_math"],
    }


def test_the_end_of_the_job_is_seen_as_finished(tmp_path: Path) -> None:
    root = tmp_path / "job"
    command = [sys.executable, "-m", "watch_inference.demo", str(root), "--seconds", "1"]
    subprocess.run(command, check=True, timeout=30)
    seen = watch("--once", "--json", root)
    (report,) = seen.objects()
    errors = report["progress"]["errors"]
    assert (report["job"]["state"], seen.code) == ("finished", 0)
    assert report["progress"]["total"] == 640 + 600 + 90 + 480
    assert report["progress"]["done"] == 1810 - errors
    assert report["progress"]["resumed"] == 240


def test_a_closed_demo_leaves_no_process_and_no_folder() -> None:
    with demo.start(60) as running:
        root = Path(running.root)
        keeper = psutil.Process(running._keeper.pid)
        job = job_of(keeper)
        assert (root / "B3_longalign" / "prompts.jsonl").exists()
        assert os.getsid(job.pid) == job.pid
    assert not root.parent.exists()
    assert not keeper.is_running()
    assert not job.is_running()
    running.close()


def test_a_finished_demo_job_is_no_zombie_and_its_files_stay_until_the_end() -> None:
    with demo.start(0.2) as running:
        keeper = psutil.Process(running._keeper.pid)
        deadline = time.monotonic() + 10
        while keeper.children():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert (Path(running.root) / demo.LOG).stat().st_size > 1000
    assert not Path(running.root).parent.exists()


STARTER = """
import sys, time
from watch_inference import demo
running = demo.start(60)
print(running.root, running._keeper.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_demo_whose_monitor_is_killed_leaves_nothing_behind(by: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTER],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as monitor:
        assert monitor.stdout is not None
        root, pid = monitor.stdout.readline().split()
        job = job_of(psutil.Process(int(pid)))
        monitor.send_signal(by)
    wait_until_gone(Path(root), [int(pid), job.pid])


def test_a_demo_job_whose_keeper_is_killed_ends_and_clears_up() -> None:
    with demo.start(60) as running:
        job = job_of(psutil.Process(running._keeper.pid))
        running._keeper.kill()
        wait_until_gone(Path(running.root), [job.pid])


def test_the_demo_command_without_a_terminal_prints_the_report_and_ends_on_ctrl_c(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "watch_inference", "--demo"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(TMPDIR=str(tmp_path)),
        text=True,
    ) as monitor:
        assert monitor.stdout is not None
        assert monitor.stderr is not None
        assert monitor.stdout.readline().startswith("demo_job ")
        (folder,) = tmp_path.iterdir()
        (keeper,) = psutil.Process(monitor.pid).children()
        job = job_of(keeper)
        monitor.send_signal(signal.SIGINT)
        monitor.stdout.read()
        assert monitor.stderr.read() == ""
    assert monitor.returncode == 130
    wait_until_gone(folder / "demo_job", [keeper.pid, job.pid])
