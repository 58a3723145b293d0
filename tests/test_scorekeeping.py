"""What was forecast of a job, kept from one visit to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from watch_inference.files.checkpoint import Memory
from watch_inference.files.scorekeeping import keep_scores, recall_scores
from watch_inference.model import Said, Scores

SCORES = Scores(1_770_000_000.0, 0.25, (Said(1_770_003_600.0, 1.77001e9, 1.770009e9, 1.770012e9),))


def memory(home: Path) -> Memory:
    return Memory({"HOME": str(home)})


def test_what_was_forecast_is_known_to_a_later_visit(tmp_path: Path) -> None:
    keep_scores(memory(tmp_path), "/data/synth", "synth", SCORES)
    assert recall_scores(memory(tmp_path), "/data/synth", "synth") == SCORES


def test_of_another_job_nothing_is_known(tmp_path: Path) -> None:
    keep_scores(memory(tmp_path), "/data/synth", "synth", SCORES)
    assert recall_scores(memory(tmp_path), "/data/other", "synth") is None
    assert recall_scores(memory(tmp_path), "/data/synth", "synth (41)") is None


def test_only_the_newest_fifty_jobs_are_kept(tmp_path: Path) -> None:
    here = memory(tmp_path)
    for number in range(60):
        keep_scores(here, f"/data/{number}", "job", SCORES)
    known = [number for number in range(60) if recall_scores(here, f"/data/{number}", "job")]
    assert known == list(range(10, 60))
    assert here.warnings == ()


@pytest.mark.parametrize(
    "nonsense",
    [
        [],
        [None, 0.5, []],
        [1.0, 0.5, [[1.0, 2.0, 3.0]]],
        [1.0, 0.5, [[1.0, 2.0, 3.0, "4"]]],
        [True, 0.5, []],
        [1.0, 0.5, [[1.0, 2.0, 3.0, 4.0]] * 33],
        [1e300, 0.5, []],
        "scores",
    ],
)
def test_what_makes_no_sense_is_not_believed(tmp_path: Path, nonsense: object) -> None:
    here = memory(tmp_path)
    keep_scores(here, "/data/synth", "synth", SCORES)
    (key,) = here.read("scores").keys() - {"version"}
    here.write("scores", {key: nonsense})
    assert recall_scores(here, "/data/synth", "synth") is None
