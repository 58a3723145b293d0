"""Jobs whose files have other names than usual: what their processes write teaches the names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.stage import PROMPT, Stage, stand_in
from tests.worlds import FakeJob
from watch_inference.finding import discover
from watch_inference.model import Job, Options
from watch_inference.probes import Probes
from watch_inference.probes.gpu import Gpus
from watch_inference.probes.process import Processes

LINE = b"%d/%d (0 err) 0.7 req/s avg_comp=788tok ETA=4.0h\n"


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        stage.logs.rmdir()
        stage.root.rmdir()
        stage.root = stage.folder / "j1"
        stage.root.mkdir()
        stage.log = stage.root / "run.log"
        yield stage


@pytest.fixture(scope="module")
def own() -> Iterator[int]:
    with stand_in() as pid:
        yield pid


def find(
    *targets: object, cwd: object = "/", last: str | None = None, own: int | None = None
) -> tuple[Job, ...]:
    wanted = Options(targets=tuple(map(str, targets)))
    return discover.find(wanted, str(cwd), last, own)


def one(
    *targets: object, cwd: object = "/", last: str | None = None, own: int | None = None
) -> Job:
    (job,) = find(*targets, cwd=cwd, last=last, own=own)
    return job


def shape(job: Job) -> dict[str, list[str]]:
    """Write a job's datasets as name -> outputs, relative to its root."""
    return {
        one.name: [os.path.relpath(path, job.root) for path in one.outputs] for one in job.datasets
    }


def questions(stage: Stage, *names: str) -> None:
    for name in names:
        (stage.root / "results" / name).mkdir(parents=True)
        (stage.root / "results" / name / "questions.jsonl").write_bytes(PROMPT * 9)


def heading(name: str, number: int, total: int) -> bytes:
    return b"=== [%d/2] %s: %d prompts, 0 already done ===\n" % (number, name.encode(), total)


def later(job: Job, processes: Processes, at: float) -> Job:
    """Look twice more, as the monitor does."""
    for step in (0.0, 1.0):
        processes.read(at + step, 0.0, job)
        job = discover.refresh(job, Options(), processes.seen)
    return job


def quiet(stage: Stage) -> int:
    """Start a job in its folder that writes results/qa/answers.jsonl, and nothing into its log."""
    questions(stage, "qa", "math", "code", "law")
    words = ("--datasets", "qa", "--name", "answers.jsonl", "--quiet")
    stage.run(stage.job(*words, root="results"), stage.log, cwd=stage.root)
    return stage.wait()[0]


# --------------------------------------------------------------------- one job, however it is named


def test_a_job_has_one_root_and_its_datasets_whatever_leads_to_it(stage: Stage, own: int) -> None:
    questions(stage, "qa", "math", "code", "law")
    words = ("--datasets", "qa", "--name", "answers.jsonl")
    stage.run(stage.job(*words, root="results"), stage.log, cwd=stage.root)
    (pid,) = stage.wait()
    ways: dict[str, Callable[[], Job]] = {
        "folder": lambda: one(stage.root, own=own),
        "folder of results": lambda: one(stage.root / "results", own=own),
        "log": lambda: one(stage.log, own=own),
        "pid": lambda: one(pid, own=own),
        "in it": lambda: one(cwd=stage.root, own=own),
        "below": lambda: one(cwd=stage.root / "results" / "math", own=own),
        "dot": lambda: one(".", cwd=stage.root, own=own),
    }
    for how, look in ways.items():
        job = look()
        assert (job.name, job.root) == ("j1", str(stage.root)), how
        assert shape(job) == {"qa": ["results/qa/answers.jsonl"]}, how
        assert (job.pids, job.logs) == ((pid,), (str(stage.log),)), how
        assert job.found == ("cwd" if how in ("in it", "below") else "target"), how


def test_a_job_that_says_nothing_is_found_by_what_it_writes(stage: Stage, own: int) -> None:
    pid = quiet(stage)
    for job in (one(stage.root, own=own), one(pid, own=own), one(cwd=stage.root, own=own)):
        assert (job.root, job.pids) == (str(stage.root), (pid,))
        assert shape(job) == {"qa": ["results/qa/answers.jsonl"]}


def test_a_dataset_that_is_named_is_watched_alone(stage: Stage, own: int) -> None:
    pid = quiet(stage)
    job = one(stage.root / "results" / "qa", own=own)
    assert (job.root, job.pids) == (str(stage.root / "results" / "qa"), (pid,))
    assert f"for all of {stage.root} name that" in job.why[0]
    done = stage.root / "results" / "math" / "answers.jsonl"
    done.write_bytes(PROMPT)
    job = one(done.parent, own=own)
    assert (shape(job), job.pids) == ({"math": ["answers.jsonl"]}, (pid,))


def test_a_folder_of_any_name_that_holds_the_datasets_is_the_root(stage: Stage, own: int) -> None:
    outputs = [stage.root / "gen2024" / name / "answers.jsonl" for name in ("qa", "math")]
    for output in outputs:
        output.parent.mkdir(parents=True)
    with FakeJob(stage.log, outputs) as fake:
        fake.say(LINE % (1, 9))
        for job in (one(stage.root, own=own), one(stage.log, own=own), one(fake.pid, own=own)):
            assert job.root == str(stage.root / "gen2024")
            assert shape(job) == {"math": ["math/answers.jsonl"], "qa": ["qa/answers.jsonl"]}
            assert job.logs == (str(stage.log),)


def test_ranks_with_files_of_their_own_are_summed(stage: Stage) -> None:
    for rank in range(3):
        words = ("--datasets", "qa", "--name", f"answers_rank{rank}.jsonl", "--quiet")
        stage.run(stage.job(*words, root="results"), cwd=stage.root)
    pids = stage.wait(3)
    job = one(pids[0])
    assert shape(job) == {"qa": ["results/qa/answers_rank*.jsonl"]}
    assert job.pids == pids


def test_two_jobs_beside_each_other_stay_two(stage: Stage, own: int) -> None:
    logs = stage.folder / "elsewhere"
    logs.mkdir()
    cats, dogs = (stage.root / name / "answers.jsonl" for name in ("cats", "dogs"))
    for output in (cats, dogs):
        output.parent.mkdir()
    with (
        FakeJob(logs / "a.log", [cats], "cats") as first,
        FakeJob(logs / "b.log", [dogs], "dogs") as second,
    ):
        jobs = {os.path.basename(job.root): job for job in find(stage.root, own=own)}
    assert sorted(jobs) == ["cats", "dogs"]
    assert jobs["cats"].pids == (first.pid,)
    assert jobs["dogs"].pids == (second.pid,)


# ------------------------------------------------------------------------------ while it is watched


def test_the_next_dataset_is_taken_up_and_the_last_one_stays(stage: Stage) -> None:
    first, second = (stage.root / "results" / name / "answers.jsonl" for name in ("qa", "math"))
    questions(stage, "qa", "math")
    with FakeJob(stage.log, [first]) as fake:
        fake.say(heading("qa", 1, 9) + LINE % (9, 9))
        job, processes = one(fake.pid), Processes(Options())
        second.touch()  # whoever opened it: it has the name
        job = later(job, processes, 1.0)
        assert shape(job) == {
            "math": ["results/math/answers.jsonl"],
            "qa": ["results/qa/answers.jsonl"],
        }
    assert discover.refresh(job, Options()).datasets == job.datasets


def test_a_dataset_that_begins_is_taken_up_at_the_very_next_look(stage: Stage) -> None:
    first, second = (stage.root / "results" / name / "answers.jsonl" for name in ("qa", "math"))
    questions(stage, "qa", "math")
    for folder in (stage.root, *stage.root.rglob("*")):
        os.utime(folder, (1000, 1000))
    with FakeJob(stage.log, [first]) as fake:
        fake.say(heading("qa", 1, 9) + LINE % (9, 9))
        options = Options(ask_server=False, ask_gpu=False)
        probes = Probes(one(fake.pid), options, Gpus(options, lambda: 1.0))
        assert [one.name for one in probes.take(1.0, 0.0).datasets] == ["qa"]
        fake.write(second, PROMPT)
        assert [one.name for one in probes.take(2.0, 1.0).datasets] == ["math", "qa"]
        probes.close()


def test_a_file_of_the_same_name_elsewhere_is_taken_up(stage: Stage) -> None:
    questions(stage, "qa")
    far = stage.root / "more" / "deep" / "law" / "answers.jsonl"
    far.parent.mkdir(parents=True)
    with FakeJob(stage.log, [stage.root / "results" / "qa" / "answers.jsonl"]) as fake:
        fake.say(LINE % (1, 9))
        job, processes = one(fake.pid), Processes(Options())
        fake.write(far, PROMPT)
        fake.write(stage.root / "usage.jsonl", PROMPT)  # beside the results: another name
        job = later(job, processes, 1.0)
    assert shape(job) == {
        "law": ["more/deep/law/answers.jsonl"],
        "qa": ["results/qa/answers.jsonl"],
    }
    assert shape(discover.refresh(job, Options())) == shape(job)


def test_files_side_by_side_are_a_dataset_each_where_the_log_says_so(stage: Stage) -> None:
    folder = stage.root / "results"
    folder.mkdir()
    (folder / "qa.jsonl").write_bytes(PROMPT * 9)
    with FakeJob(stage.log, [folder / "math.jsonl"]) as fake:
        fake.say(heading("qa", 1, 9) + LINE % (9, 9) + heading("math", 2, 5) + LINE % (2, 5))
        job = one(fake.pid)
        assert job.root == str(stage.root)
        both = {"math": ["results/math.jsonl"], "qa": ["results/qa.jsonl"]}
        assert shape(job) == both
        assert shape(later(job, Processes(Options()), 1.0)) == both


def test_a_second_file_beside_the_first_makes_a_dataset_of_each(stage: Stage) -> None:
    folder = stage.root / "results"
    folder.mkdir()
    with FakeJob(stage.log, [folder / "a.jsonl"]) as fake:
        fake.say(LINE % (1, 9))
        job = one(fake.pid)
        assert shape(job) == {"results": ["results/a.jsonl"]}
    with FakeJob(stage.log, [folder / "b.jsonl"]):
        job = later(job, Processes(Options()), 1.0)
    assert shape(job) == {"a": ["results/a.jsonl"], "b": ["results/b.jsonl"]}


def test_an_output_beside_its_log_is_named_after_itself_and_so_is_the_next(stage: Stage) -> None:
    with FakeJob(stage.log, [stage.root / "qa.jsonl"]) as fake:
        fake.say(LINE % (1, 9))
        job = one(fake.pid)
        assert (job.root, shape(job)) == (str(stage.root), {"qa": ["qa.jsonl"]})
    with FakeJob(stage.log, [stage.root / "math.jsonl"]):
        job = later(job, Processes(Options()), 1.0)
    assert shape(job) == {"math": ["math.jsonl"], "qa": ["qa.jsonl"]}


def test_outputs_that_are_closed_are_found_in_folders_that_the_log_names(stage: Stage) -> None:
    questions(stage, "qa", "math")
    stage.log.write_bytes(heading("qa", 1, 9) + LINE % (9, 9) + heading("math", 2, 5))
    (stage.root / "results" / "qa" / "answers.jsonl").write_bytes(PROMPT * 9)
    assert shape(one(stage.root)) == {"qa": ["results/qa/answers.jsonl"]}
    job = one(stage.log)
    assert (job.root, shape(job)) == (str(stage.root), {"qa": ["results/qa/answers.jsonl"]})
    (stage.root / "results" / "math" / "answers.jsonl").write_bytes(PROMPT)
    assert list(shape(discover.refresh(job, Options()))) == ["math", "qa"]


def test_old_files_in_a_folder_that_the_log_names_are_no_outputs(stage: Stage) -> None:
    (stage.root / "qa").mkdir()
    old = stage.root / "qa" / "samples.jsonl"
    old.write_bytes(PROMPT * 9)
    os.utime(old, (1000, 1000))
    stage.log.write_bytes(heading("qa", 1, 9) + LINE % (9, 9))
    assert shape(one(stage.root)) == {}


def test_what_is_no_result_teaches_nothing(stage: Stage) -> None:
    stage.datasets("B1_glaive")
    usual = stage.root / "B1_glaive" / "tokenized_data.jsonl"
    others = [stage.root / name for name in ("requests.jsonl", "errors.jsonl", "metrics.csv")]
    with FakeJob(stage.log, [*others, usual]):
        assert list(shape(one(stage.root))) == ["B1_glaive"]
    usual.unlink()
    with FakeJob(stage.log, others):
        assert shape(one(stage.root)) == {"B1_glaive": ["B1_glaive/tokenized_data.jsonl"]}


# --------------------------------------------------------------------------- nothing is named


def test_the_running_job_of_the_current_folder_comes_before_all_others(
    stage: Stage, own: int
) -> None:
    other = stage.folder / "other"
    stage.datasets(at=other)
    stage.run(stage.job(root=other), other / "all.log")
    stage.wait()
    outside = stage.folder / "disk2" / "qa" / "answers.jsonl"
    outside.parent.mkdir(parents=True)
    with FakeJob(stage.log, [outside]) as fake:
        fake.say(LINE % (1, 9))
        job = one(cwd=stage.root, own=own)
        assert (job.pids, job.found) == ((fake.pid,), "cwd")


def test_an_ended_job_of_the_current_folder_comes_before_strangers(stage: Stage, own: int) -> None:
    other = stage.folder / "other"
    stage.datasets(at=other)
    stage.run(stage.job(root=other), other / "all.log")
    stage.wait()
    stage.log.write_bytes(LINE % (9, 9))
    job = one(cwd=stage.root, own=own)
    assert (job.root, job.logs, job.found) == (str(stage.root), (str(stage.log),), "cwd")


def test_the_last_one_watched_is_meant_in_its_folder(stage: Stage, own: int) -> None:
    other = stage.folder / "other"
    stage.datasets(at=other)
    stage.run(stage.job(root=other), other / "all.log")
    stage.wait()
    root = stage.root / "mine"
    stage.datasets(at=root)
    job = one(cwd=stage.root, last=str(root), own=own)
    assert (job.root, job.found) == (str(root), "cwd")


def test_a_home_folder_is_not_where_everything_belongs(
    stage: Stage, own: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(stage.root))
    with FakeJob(stage.log, [stage.root / "qa.jsonl"]) as fake:
        fake.say(LINE % (1, 9))
        jobs = find(cwd=stage.root, own=own)
        (job,) = (job for job in jobs if fake.pid in job.pids)
    assert job.found == "running"


# --------------------------------------------------------------- what is there, where nothing fits


def test_a_folder_without_a_job_says_what_may_be_meant(stage: Stage) -> None:
    questions(stage, "qa")
    (stage.root / "results" / "qa" / "answers.jsonl").write_bytes(PROMPT)
    job = one(stage.root)
    assert job.waiting_for == str(stage.root)
    assert job.why == (
        f"{stage.root} is there, but no file named tokenized_data.jsonl or prompts.jsonl in it,"
        " no log with progress lines, and no process works in it;"
        " results/qa/answers.jsonl: try --outputs answers.jsonl",
    )


def test_names_that_nothing_has_are_told(stage: Stage) -> None:
    for name in ("part-1.jsonl", "part-2.jsonl"):
        (stage.root / name).write_bytes(PROMPT)
    stage.log.write_bytes(LINE % (1, 9))
    options = Options(targets=(str(stage.root),), outputs=("nope-*.jsonl",))
    (job,) = discover.find(options, "/")
    assert job.logs == (str(stage.log),)
    (warning,) = job.warnings
    assert warning.startswith(f"no file named nope-*.jsonl or prompts.jsonl in {stage.root}; part-")
    assert warning.endswith(".jsonl: try --outputs 'part-*.jsonl'")


# -------------------------------------------------------------------------------------- totals


def test_a_total_of_a_dataset_that_is_not_there_is_warned_of_until_it_is(stage: Stage) -> None:
    stage.datasets()
    options = Options(targets=(str(stage.root),), totals=(("B3_late", 50), ("B2_chat", 7)))
    (job,) = discover.find(options, "/")
    assert job.warnings == (
        "--total B3_late=50: no dataset has this name; there are: B1_glaive, B2_chat",
    )
    assert [one.total for one in job.datasets] == [None, 7]
    stage.datasets("B3_late")
    later = discover.refresh(job, options)
    assert (later.warnings, [one.total for one in later.datasets]) == ((), [None, 7, 50])


def test_a_total_without_a_name_needs_a_single_dataset(stage: Stage) -> None:
    stage.datasets()
    (job,) = discover.find(Options(targets=(str(stage.root),), totals=((None, 50),)), "/")
    assert job.warnings == (
        "--total 50: say of which dataset, as NAME=50; there are: B1_glaive, B2_chat",
    )


def test_a_log_alone_takes_a_total(stage: Stage) -> None:
    stage.log.write_bytes(LINE % (3, 9))
    options = Options(targets=(str(stage.log),), totals=((None, 50),))
    (job,) = discover.find(options, "/")
    assert [(one.name, one.total, one.outputs) for one in job.datasets] == [("run", 50, ())]
    assert job.warnings == ()
    assert discover.refresh(job, options).datasets == job.datasets


def test_a_learned_dataset_takes_its_total(stage: Stage) -> None:
    questions(stage, "qa")
    output = stage.root / "results" / "qa" / "answers.jsonl"
    with FakeJob(stage.log, [output]) as fake:
        fake.say(LINE % (1, 9))
        options = Options(targets=(str(fake.pid),), totals=(("qa", 50),))
        (job,) = discover.find(options, "/")
    assert [(one.name, one.total) for one in job.datasets] == [("qa", 50)]


# --------------------------------------------------------------------------------- started again


def test_a_job_that_is_started_again_is_found_within_two_seconds(stage: Stage) -> None:
    processes = Processes(Options())
    with FakeJob(stage.log) as first:
        first.say(LINE % (1, 9))
        job = one(first.pid)
        processes.read(0.0, 0.0, job)
    assert processes.read(1.0, 0.0, job)[0][0].state == "gone"
    with FakeJob(stage.log) as second:
        assert processes.read(2.0, 0.0, job)[0][0].state == "gone"
        (reading,) = processes.read(3.0, 0.0, job)[0]
        assert reading.pid == second.pid


def test_a_job_that_was_gone_for_long_is_found_at_once_when_its_log_grows(stage: Stage) -> None:
    processes = Processes(Options())
    with FakeJob(stage.log) as first:
        first.say(LINE % (1, 9))
        job = one(first.pid)
        processes.read(0.0, 0.0, job)
    for at in (1.0, 100.0, 105.0):
        processes.read(at, 0.0, job)
    with FakeJob(stage.log) as second:
        assert processes.read(106.0, 0.0, job)[0][0].state == "gone"
        second.say(LINE % (1, 9))
        (reading,) = processes.read(107.0, 0.0, job)[0]
        assert reading.pid == second.pid
