"""The reference job in every state of its life: the command gives the counts that are true."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reference import (
    EVERY,
    NOISE,
    ROW,
    SCENES,
    TOKENISED,
    TOTAL,
    ReferenceJob,
    Scene,
    Truth,
    progress_line,
)
from tests.worlds import FakeJob, watch


@contextlib.contextmanager
def living(job: ReferenceJob, scene: Scene) -> Iterator[FakeJob | None]:
    """Let a real process hold the log and one output, where the scene has one.

    The last row of that output is the process's own: its work is younger than itself.
    """
    if scene.held is None:
        yield None
        return
    output = job.output(scene.held)
    rows = output.stat().st_size // len(ROW)
    os.truncate(output, max(0, rows - 1) * len(ROW))
    with FakeJob(job.log, [output]) as process:
        process.write(output, ROW * min(rows, 1))
        time.sleep(scene.silent_s)
        yield process


def look(root: Path, *options: str) -> tuple[dict[str, Any], int]:
    seen = watch("--once", "--json", *options, root)
    assert seen.err == ""
    (report,) = seen.objects()
    return report, seen.code


def counts(report: dict[str, Any]) -> dict[str, Any]:
    keys = ("done", "total", "written", "logged", "resumed")
    return {
        row["name"]: {**{key: row[key] for key in keys}, "errors": row["errors"] or 0}
        for row in report["datasets"]
        if row["name"] not in TOKENISED
    }


def true_counts(truth: Truth) -> dict[str, Any]:
    return {
        one.name: {
            "done": one.written,
            "total": one.total,
            "written": one.written,
            "logged": one.logged,
            "errors": one.errors,
            "resumed": one.resumed,
        }
        for one in truth.datasets
    }


@pytest.mark.parametrize("scene", SCENES)
def test_the_counts_and_the_state_are_what_the_maker_of_the_job_knows(
    scene: str, tmp_path: Path
) -> None:
    job = ReferenceJob(tmp_path / "synth_100k")
    truth = SCENES[scene].make(job)
    limit = SCENES[scene].silent_s / 2
    with living(job, SCENES[scene]):
        report, code = look(job.root, *([f"--stall-after={limit}s"] if limit else []))
    assert (report["job"]["state"], code) == (truth.state, truth.code), report["job"]
    assert counts(report) == true_counts(truth)
    progress = report["progress"]
    assert (progress["done"], progress["total"]) == (truth.done, TOTAL)
    assert (progress["errors"] or 0) == sum(one.errors for one in truth.datasets)
    assert progress["resumed"] == sum(one.resumed for one in truth.datasets)
    tokenised = {row["name"]: row for row in report["datasets"] if row["name"] in TOKENISED}
    assert {name: row["written"] for name, row in tokenised.items()} == TOKENISED
    assert {row["state"] for row in tokenised.values()} == {"finished"}
    assert {row["total"] for row in tokenised.values()} == {None}


def test_the_shape_is_that_of_the_reference_job(tmp_path: Path) -> None:
    job = ReferenceJob(tmp_path / "synth_100k")
    job.run()
    prompts = sum(path.read_bytes().count(b"\n") for path in job.root.glob("*/prompts.jsonl"))
    log = job.log.read_bytes()
    assert prompts == TOTAL == 83_288
    assert prompts + sum(TOKENISED.values()) == 88_088
    assert 0.89 < 1 - log.count(b" req/s") / log.count(b"\n") < 0.91


def test_what_a_live_job_appends_is_counted_at_the_next_look(tmp_path: Path) -> None:
    job = ReferenceJob(tmp_path / "synth_100k")
    job.run("B3_math", 6193)
    with FakeJob(job.log, [job.output("B3_math")]) as process:
        before, _ = look(job.root)
        process.write(job.output("B3_math"), ROW * 57)
        process.say(NOISE + progress_line("B3_math", 6250, 15000))
        process.write(job.output("B3_math"), ROW[:9])
        process.say(progress_line("B3_math", 6300, 15000)[:25])
        after, code = look(job.root)
    assert (after["job"]["state"], code) == ("running", 0)
    assert after["process"]["pid"] == process.pid
    assert after["progress"]["done"] == before["progress"]["done"] + 57
    assert counts(after)["B3_math"] == {
        "done": 6245,
        "total": 15000,
        "written": 6245,
        "logged": 6250,
        "errors": 5,
        "resumed": 0,
    }


def test_the_rate_of_the_log_explains_why_the_file_is_ahead(tmp_path: Path) -> None:
    job = ReferenceJob(tmp_path / "synth_100k")
    SCENES["in the middle of B3"].make(job)
    with living(job, SCENES["in the middle of B3"]):
        report, _ = look(job.root)
    rows = {row["name"]: row for row in report["datasets"]}
    assert rows["B3_math"]["written"] - rows["B3_math"]["logged"] in range(EVERY)
    assert report["progress"]["dataset"] == "B3_math"
    assert report["progress"]["check"] == "ok"
    assert rows["B3_math"]["state"] == "running"
    assert {rows[name]["state"] for name in ("B1_glaive", "B2_chat")} == {"finished"}
    assert {rows[name]["state"] for name in ("B4_code", "B8_sweagent")} == {"queued"}


@pytest.mark.parametrize("scene", ["after a resume", "after a second run"])
def test_a_constant_surplus_at_the_start_is_named_resumed(scene: str, tmp_path: Path) -> None:
    job = ReferenceJob(tmp_path / "synth_100k")
    SCENES[scene].make(job)
    with living(job, SCENES[scene]):
        report, _ = look(job.root)
    rows = {row["name"]: row for row in report["datasets"]}
    assert rows["B3_math"]["check"] == "resumed"
    assert rows["B4_code"]["check"] == "ok"
    assert report["log"]["restarts"] == (1 if scene == "after a second run" else 0)


def test_the_files_alone_count_where_the_log_is_gone(tmp_path: Path) -> None:
    job = ReferenceJob(tmp_path / "synth_100k")
    truth = SCENES["at the end"].make(job)
    job.log.unlink()
    report, _ = look(job.root)
    assert report["progress"]["done"] == truth.done
    assert {row["logged"] for row in report["datasets"]} == {None}
    assert report["log"]["path"] is None
