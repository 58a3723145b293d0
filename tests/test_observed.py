"""What the forecast is told of the progress: times of our clock, the finest there are."""

from __future__ import annotations

import pytest

from watch_inference.forecasting.observed import observed
from watch_inference.model import (
    DatasetProgress,
    LoggedDataset,
    LogLine,
    ObservedDataset,
    Progress,
    State,
)

WALL = 1_770_000_000.0  # at 0 of our clock


def told(one: DatasetProgress, tick_s: float | None = 2.0) -> ObservedDataset:
    progress = Progress(0.0, 1000.0, WALL + 1000.0, (one,), tick_s=tick_s)
    (dataset,) = observed(progress).datasets
    return dataset


def test_clock_times_become_times_of_our_clock() -> None:
    one = DatasetProgress(
        "B1", State.FINISHED, 90, total=100, started=WALL - 50, ended=WALL + 900, missing_errors=10
    )
    dataset = told(one._replace(modified=WALL + 900))
    assert (dataset.started, dataset.output_at, dataset.ended) == (-50, 900, 900)
    assert (dataset.status, dataset.prompts, dataset.finished) == ("done", 100, 100)


def test_what_an_earlier_run_wrote_is_not_finished_by_this_one() -> None:
    dataset = told(DatasetProgress("B1", State.RUNNING, 60, total=100, resumed=40))
    assert (dataset.status, dataset.resumed, dataset.finished) == ("running", 40, 20)


def test_a_dataset_that_stands_still_is_still_the_one_that_runs() -> None:
    assert told(DatasetProgress("B1", State.STALLED)).status == "running"
    assert told(DatasetProgress("B1", State.QUEUED)).status == "queued"


def test_a_dataset_that_is_no_work_of_the_job_is_left_out() -> None:
    one = DatasetProgress("A1", State.FINISHED, 2400, in_job=False)
    assert observed(Progress(0.0, 0.0, WALL, (one,))).datasets == ()


@pytest.mark.parametrize(
    ("modified", "expected"),
    [
        (997.5, 997.5),  # between two looks: the file knows better when
        (1020.0, 998.0),  # a clock that is ahead of ours
        (400.0, 998.0),  # a clock that is behind
        (None, 998.0),
    ],
)
def test_a_files_own_time_is_finer_than_the_look_that_saw_it(
    modified: float | None, expected: float
) -> None:
    wall = None if modified is None else WALL + modified
    assert told(DatasetProgress("B1", changed_at=998.0, modified=wall)).output_at == expected


def test_a_start_that_is_known_to_one_look_only_counts_once_it_is_old() -> None:
    one = DatasetProgress("B1", State.RUNNING, 9, started=WALL + 900, changed_at=998.0)
    assert told(one, tick_s=2.0).started == 900
    assert told(one, tick_s=60.0).started is None


def test_what_the_log_says_is_passed_on() -> None:
    line = LogLine(50, 100, 1, 0.7, 788.0, 3600.0, None)
    entry = LoggedDataset("B1", 50, 100, 50, max_tokens=4096, lines=(line,))
    one = DatasetProgress("B1", log=entry, concurrency=150, completion_tokens=788.0)
    dataset = told(one._replace(remembered_tokens=800.0, remembered_rate=0.7))
    assert (dataset.remembered_tokens, dataset.remembered_rate) == (800.0, 0.7)
    assert (dataset.concurrency, dataset.max_tokens, dataset.lines) == (150, 4096, (line,))
    assert dataset.completion_tokens == 788.0
