"""Each way to start a job, found with no argument and by each kind of target."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stage import Stage, Truth, stand_in
from tests.ways import WAYS, Way
from tests.worlds import needs
from watch_inference.finding import discover, folders
from watch_inference.finding.mounts import real
from watch_inference.model import Job, Options
from watch_inference.probes.process import Processes


@pytest.fixture(scope="module")
def own() -> Iterator[int]:
    with stand_in() as pid:
        yield pid


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_it_is_found_by_each_kind_of_target(way: Way, tmp_path: Path, own: int) -> None:
    needs(*way.needs)
    if {"unshare", "setpriv", "mount"} & set(way.needs) and os.geteuid() != 0:
        pytest.skip("takes root")
    options = Options(**way.options)
    with Stage(tmp_path) as stage:
        truth = way.start(stage)
        targets = [str(truth.root)]
        if truth.bound:
            targets += [*map(str, truth.logs[:1]), str(truth.pids[0])]
        found = {target: _named(options, target, own) for target in targets}
        found["no argument, elsewhere"] = _unnamed(options, "/", truth, own)
        found["no argument, in the root"] = _unnamed(options, str(truth.root), truth, own)
        for how, job in found.items():
            assert _facts(job, options, own) == _expected(truth), how


def _named(options: Options, target: str, own: int) -> Job:
    (job,) = discover.find(options._replace(targets=(target,)), "/", own=own)
    return job


def _unnamed(options: Options, cwd: str, truth: Truth, own: int) -> Job:
    """Look for the job among all that run on this machine."""
    found = discover.find(options, cwd, own=own)
    (job,) = [job for job in found if real(job.root) == real(str(truth.root))]
    return job


def _facts(job: Job, options: Options, own: int) -> dict[str, object]:
    processes, _ = Processes(options, own).read(1.0, 0.0, job)
    written = [path for one in job.datasets for path in one.outputs]
    files = [file for path in written for file in folders.expanded(path)]
    lines = (Path(file).read_bytes().count(b"\n") for file in files)
    return {
        "root": real(job.root),
        "logs": sorted(real(path) for path in job.logs),
        "datasets": tuple(one.name for one in job.datasets),
        "processes": sorted(one.pid for one in processes),
        "at work": all(one.state in ("running", "sleeping") for one in processes),
        "written": len(files) if options.counting == "files" else sum(lines),
    }


def _expected(truth: Truth) -> dict[str, object]:
    return {
        "root": real(str(truth.root)),
        "logs": sorted(real(str(log)) for log in truth.logs),
        "datasets": truth.datasets,
        "processes": sorted(truth.pids),
        "at work": True,
        "written": truth.written,
    }
