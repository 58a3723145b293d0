"""What a person names, or nothing: which jobs are meant, and what is no job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apart import as_nobody, open_to_all
from tests.stage import PROMPT, Stage, stand_in
from tests.worlds import FakeJob, needs
from watch_inference.finding import discover
from watch_inference.model import Job, Options
from watch_inference.probes.process import Processes

PROGRESS = "150/10000 (0 err) 0.7 req/s avg_comp=788tok ETA=4.0h\n"
NOBODY_HAS_IT = 2**22 + 1  # beyond the largest pid that Linux gives


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage


@pytest.fixture(scope="module")
def own() -> Iterator[int]:
    with stand_in() as pid:
        yield pid


def find(*targets: object, cwd: object = "/", last: str | None = None, **options: object) -> Job:
    (job,) = find_all(*targets, cwd=cwd, last=last, **options)
    return job


def find_all(
    *targets: object, cwd: object = "/", last: str | None = None, **options: object
) -> tuple[Job, ...]:
    wanted = Options(targets=tuple(map(str, targets)))._replace(**options)  # type: ignore[arg-type]
    return discover.find(wanted, str(cwd), last)


def running(stage: Stage, own: int) -> list[str]:
    """Name the roots below the stage in which a job is found with no argument."""
    try:
        jobs = discover.find(Options(), "/", own=own)
    except discover.NotFound:
        return []
    here = str(stage.folder)
    return sorted(os.path.relpath(job.root, here) for job in jobs if job.root.startswith(here))


# ------------------------------------------------------------------------------- what is named


@pytest.mark.parametrize("target", ["", "0", "-1", "-0", str(2**31), "9" * 19])
def test_nonsense_is_refused(target: str) -> None:
    with pytest.raises(discover.Wrong):
        find(target)


def test_the_monitor_itself_is_no_job() -> None:
    with pytest.raises(discover.Wrong, match="this monitor itself"):
        find(os.getpid())
    with pytest.raises(discover.Wrong, match="this monitor itself"):
        find(pids=(os.getpid(),))


def test_the_first_process_of_the_system_is_no_job() -> None:
    if os.geteuid() != 0:
        pytest.skip("takes root")
    with pytest.raises(discover.Wrong, match="first process"):
        find(1)


def test_a_pid_that_nobody_has_is_not_found() -> None:
    with pytest.raises(discover.NotFound, match="no process 4194305"):
        find(NOBODY_HAS_IT)


def test_a_path_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    job = find("later/all.log", cwd=tmp_path)
    assert (job.waiting_for, job.found) == (str(tmp_path / "later/all.log"), "target")


def test_a_folder_with_nothing_in_it_is_waited_for(tmp_path: Path) -> None:
    job = find(tmp_path)
    assert job.waiting_for == str(tmp_path)
    assert job.why == (
        f"{tmp_path} is there, but no file named tokenized_data.jsonl or prompts.jsonl in it,"
        " no log with progress lines, and no process works in it",
    )


def test_an_existing_path_comes_before_a_pid(stage: Stage) -> None:
    stage.datasets("1/B1_glaive", at=stage.folder)
    assert find("1", cwd=stage.folder).root == str(stage.folder / "1")


def test_standard_input_is_a_log() -> None:
    assert find("-").logs == ("-",)


def test_a_log_that_is_a_folder_a_pipe_or_closed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(discover.Wrong, match="is a folder"):
        find(logs=(str(tmp_path),))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(discover.Wrong, match="no regular file"):
        find(tmp_path / "pipe")
    if os.geteuid() == 0:
        open_to_all(tmp_path)
        (tmp_path / "closed.log").write_text(PROGRESS)
        (tmp_path / "closed.log").chmod(0o600)
        assert "permission denied" in as_nobody(lambda: _refusal(tmp_path / "closed.log"))


def _refusal(target: Path) -> str:
    try:
        find(target)
    except discover.Wrong as error:
        return str(error)
    return "not refused"


def test_a_match_that_is_no_expression_is_refused() -> None:
    with pytest.raises(discover.Wrong, match="--match"):
        find(match="[")


def test_a_glob_of_logs_that_fits_nothing_is_waited_for_and_then_found(tmp_path: Path) -> None:
    assert find(logs=("*.log",), cwd=tmp_path).waiting_for == str(tmp_path / "*.log")
    (tmp_path / "b10.log").write_text(PROGRESS)
    (tmp_path / "b2.log").write_text(PROGRESS)
    job = find(logs=("*.log",), cwd=tmp_path)
    assert job.logs == (str(tmp_path / "b2.log"), str(tmp_path / "b10.log"))


def test_a_log_given_beside_the_root_is_the_only_one(stage: Stage) -> None:
    stage.datasets()
    stage.log.write_text(PROGRESS)
    (stage.root / "mine.txt").write_text("no progress yet\n")
    assert find(stage.root, logs=("mine.txt",)).logs == (str(stage.root / "mine.txt"),)


def test_a_log_leads_to_the_root_that_it_lies_in(stage: Stage) -> None:
    stage.datasets()
    stage.log.write_text(PROGRESS)
    job = find(stage.log)
    assert (job.root, job.logs, job.name) == (str(stage.root), (str(stage.log),), "synth_100k")
    assert [one.name for one in job.datasets] == ["B1_glaive", "B2_chat"]


def test_an_output_leads_to_its_root(stage: Stage) -> None:
    stage.datasets()
    assert find(stage.root / "B1_glaive" / "prompts.jsonl").root == str(stage.root)


def test_an_output_of_another_name_can_be_named(stage: Stage) -> None:
    stage.datasets()
    answers = stage.root / "B1_glaive" / "answers.jsonl"
    answers.write_bytes(PROMPT)
    job = find(answers)
    assert (job.root, job.datasets[0].outputs) == (str(stage.root), (str(answers),))
    alone = stage.folder / "somewhere" / "results.jsonl"
    alone.parent.mkdir()
    alone.write_bytes(PROMPT)
    (dataset,) = find(alone).datasets
    assert (dataset.name, dataset.prompts, dataset.outputs) == ("results", (), (str(alone),))


def test_a_log_alone_is_a_job_without_datasets(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("starting\n")
    job = find("train.txt", cwd=tmp_path)
    assert (job.root, job.datasets) == (str(tmp_path), ())
    assert job.logs == (str(tmp_path / "train.txt"),)


def test_a_dataset_that_is_named_is_watched_alone_and_says_so(stage: Stage) -> None:
    stage.datasets()
    stage.log.write_text(PROGRESS)
    job = find(stage.root / "B1_glaive")
    assert [one.name for one in job.datasets] == ["B1_glaive"]
    assert f"for all of {stage.root} name that" in job.why[0]


def test_a_folder_of_roots_gives_the_newest_where_none_is_at_work(stage: Stage) -> None:
    for age, name in enumerate(("old", "new")):
        stage.datasets(at=stage.folder / "runs" / name)
        output = stage.folder / "runs" / name / "B1_glaive" / "tokenized_data.jsonl"
        output.write_bytes(PROMPT)
        os.utime(output, (1000 + age, 1000 + age))
    assert find(stage.folder / "runs").name == "new"


def test_targets_with_the_same_root_are_one_job(stage: Stage) -> None:
    stage.datasets()
    logs = [stage.logs / f"rank{rank}.log" for rank in range(3)]
    for log in logs:
        log.write_text(PROGRESS)
    job = find(*logs)
    assert (job.root, job.logs) == (str(stage.root), tuple(map(str, logs)))


def test_names_from_outside_are_harmless_in_words(stage: Stage) -> None:
    root = stage.folder / "evil\x1b]0;owned\x07\x1b[2J"
    stage.datasets(at=root)
    job = find(root)
    assert job.name == "evil"
    assert all("\x1b" not in line for line in (*job.why, *discover.explain(job)))


def test_a_process_that_writes_nothing_is_watched_all_the_same(tmp_path: Path) -> None:
    nowhere = subprocess.DEVNULL
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path, stdout=nowhere, stderr=nowhere) as process:
        job = find(process.pid)
        readings, _ = Processes(Options()).read(1.0, 0.0, job)
        process.kill()
    assert (job.pids, job.datasets, job.logs) == ((process.pid,), (), ())
    assert [one.pid for one in readings] == [process.pid]
    assert "no output that can be seen" in job.why[0]


# ---------------------------------------------------------------------------- nothing is named


def test_the_root_that_the_current_folder_lies_in_comes_first(stage: Stage) -> None:
    stage.datasets()
    stage.log.write_text(PROGRESS)
    for below in ("", "logs", "B1_glaive"):
        job = find(cwd=stage.root / below)
        assert (job.root, job.found) == (str(stage.root), "cwd")


def test_the_last_one_watched_comes_last(stage: Stage) -> None:
    stage.datasets()
    jobs = find_all(cwd=stage.folder / "logs", last=str(stage.root))
    assert jobs[0].found in ("last", "running")  # others may run on this machine
    if jobs[0].found == "last":
        assert jobs[0].root == str(stage.root)


def test_two_unlike_jobs_and_three_decoys_are_two_jobs(stage: Stage, own: int) -> None:
    needs("tail", "grep")
    stage.datasets()
    stage.run(stage.job(), stage.log)
    other = stage.folder / "other"
    stage.datasets("C1", "C2", at=other)
    (other / "run.log").touch()
    words = ("--datasets", "C1", "--mode", "append")
    stage.shell(f"{stage.line(*words, root='other')} 2>&1 | tee other/run.log > /dev/null")
    pids = stage.wait(2)
    stage.run(["tail", "-f", str(stage.log)], stage.folder / "tail.txt")
    stage.shell(f"tail -f {stage.log} | grep --line-buffered req > {stage.logs}/found.log")
    vim = stage.program("vim", "#!/bin/sh\nwhile :; do sleep 1; done\n")
    stage.run([str(vim), str(other / "C1" / "prompts.jsonl")])
    time.sleep(0.2)
    assert running(stage, own) == ["other", "synth_100k"]
    (one,) = discover.find(Options(targets=(str(other),)), "/", own=own)
    assert one.logs == (str(other / "run.log"),)
    first = find(stage.root)
    assert first.logs == (str(stage.log),)
    assert sorted(first.pids + one.pids) == list(pids)


def test_what_merely_names_or_reads_the_files_is_no_job(stage: Stage, own: int) -> None:
    needs("tail")
    stage.datasets()
    stage.log.write_text(PROGRESS)
    stage.run(["bash", "-c", f"exec -a 'tail {stage.log}' sleep 60"])
    stage.run(["tail", "-f", str(stage.log)])
    stage.shell(f": {stage.root}; exec 3< {stage.log}; while :; do sleep 1; done")
    time.sleep(0.2)
    assert running(stage, own) == []
    assert find(stage.root).pids == ()


def test_a_server_that_logs_into_the_root_is_not_the_job(stage: Stage, own: int) -> None:
    stage.datasets()
    server = stage.program("sglang.launch_server", "import time\ntime.sleep(60)\n")
    stage.run([sys.executable, str(server), "--root", str(stage.root)], stage.logs / "server.log")
    time.sleep(0.2)
    assert find(stage.root).pids == ()
    assert running(stage, own) == []


def test_other_monitors_and_what_they_write_are_no_job(stage: Stage, own: int) -> None:
    stage.datasets()
    monitor = stage.program("watch_inference", f"import time\nprint({PROGRESS!r}, flush=True)\n")
    monitor.write_text(monitor.read_text() + "time.sleep(60)\n")
    stage.run([sys.executable, str(monitor), str(stage.root)], stage.logs / "watch.log")
    log = stage.logs / "watch.log"
    for _ in range(200):
        if log.stat().st_size:
            break
        time.sleep(0.02)
    job = find(stage.root)
    assert (job.pids, job.logs) == ((), ())
    assert running(stage, own) == []


def test_a_recorder_that_was_there_before_the_job_ended_is_not_the_job(stage: Stage) -> None:
    stage.datasets()
    stage.run([sys.executable, "-c", "import time; time.sleep(60)"], stage.logs / "gpu.log")
    time.sleep(0.2)
    assert len(find(stage.root).pids) == 1  # it may be a job that has not said anything yet
    stage.log.write_text(PROGRESS)
    os.utime(stage.log, (time.time() + 30, time.time() + 30))
    assert find(stage.root).pids == ()


def test_jobs_of_the_same_name_are_told_apart_by_their_pid(stage: Stage) -> None:
    for place in ("a", "b"):
        root = stage.folder / place / "synth"
        stage.datasets(at=root)
        stage.run(stage.job(root=root), root / "all.log")
    stage.wait(2)
    jobs = find_all(stage.folder / "a" / "synth", stage.folder / "b" / "synth")
    assert [job.name for job in jobs] == [f"synth ({job.pids[0]})" for job in jobs]


def test_a_command_line_can_be_matched(stage: Stage) -> None:
    stage.datasets()
    stage.run(stage.job("--pretend=banana"), stage.log)
    (pid,) = stage.wait()
    job = find(match=f"pretend=banana|{stage.folder}/nothing")
    assert (job.root, job.pids) == (str(stage.root), (pid,))
    with pytest.raises(discover.NotFound):
        find(match="no such command line [0]")


def test_several_processes_that_only_name_the_root_are_said_to_be_several(
    stage: Stage, own: int
) -> None:
    stage.datasets()
    for _ in range(2):
        stage.run(stage.job("--mode", "append", "--quiet"))
    pids = stage.wait(2)
    (job,) = discover.find(Options(targets=(str(stage.root),)), "/", own=own)
    assert job.pids == pids
    assert job.warnings[-1].endswith(f"{pids[0]}, {pids[1]}; say which with --pid")


def test_a_terminal_as_stdout_is_warned_of(stage: Stage) -> None:
    needs("script")
    stage.datasets()
    stage.run(["script", "-q", "-c", stage.line(), "/dev/null"])
    (pid,) = stage.wait()
    (warning,) = find(stage.root).warnings
    assert warning.startswith(f"stdout of process {pid} goes to a terminal: start the job as")


def test_another_users_job_is_found_by_its_command_line(stage: Stage) -> None:
    if os.geteuid() != 0:
        pytest.skip("takes root")
    stage.datasets()
    stage.run(stage.job(), stage.log)
    (pid,) = stage.wait()
    open_to_all(stage.folder)
    job = as_nobody(lambda: find(stage.root))
    assert (job.pids, job.logs) == ((pid,), (str(stage.log),))


# --------------------------------------------------------------------------- while it is watched


def test_new_folders_and_outputs_are_taken_over(stage: Stage) -> None:
    stage.datasets()
    job = find(stage.root)
    stage.datasets("B10_late", "B9_late")
    (stage.root / "B1_glaive" / "tokenized_data_rank0.jsonl").touch()
    later = discover.refresh(job, Options())
    names = [one.name for one in later.datasets]
    assert names == ["B1_glaive", "B2_chat", "B9_late", "B10_late"]
    assert later.datasets[0].outputs[0].endswith("tokenized_data[-_.]*[0-9].jsonl")
    assert later.root == job.root


def test_a_root_that_vanishes_keeps_what_was_known(stage: Stage) -> None:
    stage.datasets()
    job = find(stage.root)
    subprocess.run(["rm", "-r", str(stage.root)], check=True)
    assert discover.refresh(job, Options()) == job


def test_a_new_run_with_a_new_log_is_followed(stage: Stage) -> None:
    stage.datasets()
    processes = Processes(Options())
    with FakeJob(stage.log) as first:
        job = find(stage.root)
        processes.read(1.0, 0.0, job)
    second_log = stage.logs / "second.log"
    with FakeJob(second_log) as second:
        second.say(b"loading\n")
        processes.read(3.0, 0.0, job)
        job = discover.refresh(job, Options(), processes.seen)
        assert (job.logs, job.pids) == ((str(second_log),), (second.pid,))
        assert first.pid != second.pid


def test_a_newer_log_with_progress_is_followed_where_no_process_is_seen(stage: Stage) -> None:
    stage.datasets()
    stage.log.write_text(PROGRESS)
    os.utime(stage.log, (1000, 1000))
    job = find(stage.root)
    noise = stage.logs / "noise.log"
    noise.write_text("hello\n")
    assert discover.refresh(job, Options()).logs == (str(stage.log),)
    (stage.logs / "second.log").write_text(PROGRESS)
    assert discover.refresh(job, Options()).logs == (str(stage.logs / "second.log"),)


def test_named_logs_stay_whatever_else_comes(stage: Stage) -> None:
    stage.datasets()
    stage.log.write_text(PROGRESS)
    options = Options(targets=(str(stage.root),), logs=(str(stage.log),))
    (job,) = discover.find(options, "/")
    (stage.logs / "second.log").write_text(PROGRESS)
    assert discover.refresh(job, options).logs == (str(stage.log),)


def test_an_output_of_another_name_is_kept_when_its_process_is_gone(stage: Stage) -> None:
    stage.datasets("B1_glaive")
    stage.run(stage.job("--datasets", "B1_glaive", "--name", "answers.jsonl"), stage.log)
    (pid,) = stage.wait()
    job = find(stage.root)
    assert job.datasets[0].outputs == (str(stage.root / "B1_glaive" / "answers.jsonl"),)
    os.kill(pid, signal.SIGKILL)
    assert discover.refresh(job, Options()).datasets == job.datasets


# ------------------------------------------------------------------------------------ explained


def test_what_was_chosen_and_what_was_passed_over_is_explained(stage: Stage) -> None:
    needs("tee", "tail")
    stage.datasets()
    (stage.root / "scripts").mkdir()
    (stage.logs / "old.log").write_text(PROGRESS)
    stage.shell(f"{stage.line()} 2>&1 | tee {stage.log} > /dev/null")
    (pid,) = stage.wait()
    tail = stage.run(["tail", "-f", str(stage.log)])
    time.sleep(0.2)
    job = find(stage.root, form="explain")
    processes, view = Processes(Options()).read(1.0, 0.0, job)
    told = discover.explain(job, (), processes, view)
    assert told[:4] == (
        "job synth_100k: found by what was named",
        f"  root {stage.root}: named, it holds 2 dataset folders",
        f"  log {stage.log}: process {pid} writes it through a pipe",
        f"  process {pid}: writes its files",
    )
    over = [line for line in told if "passed over" in line]
    assert f"  passed over: log {stage.logs}/old.log: not the newest, and not written" in over
    assert "  passed over: folder scripts: no prompts and no output in it" in over
    assert any(f"process {tail.pid} (tail -f" in line for line in over)
    assert any(line.endswith("passes the job's output on") for line in over)
    assert "  dataset B1_glaive: prompts prompts.jsonl; outputs tokenized_data.jsonl" in told
