"""What is folded from look to look: attribution, the current dataset, rates, sleep."""

from __future__ import annotations

from tests.stories import Story, progress
from watch_inference.model import Check, Report, State


def states(report: Report) -> dict[str, str]:
    return {one.name: one.state.value for one in report.datasets}


def test_datasets_one_after_another_are_finished_running_queued() -> None:
    story = Story(A1=None, B1=100, B2=200, B3=100)
    story.process()
    story.writes("A1", 500)
    story.writes("B1", 100)
    story.logs("B1", progress(100, 100), "B2", progress(50, 200))
    story.writes("B2", 70)
    report = story.look()
    assert states(report) == {
        "A1": "finished",
        "B1": "finished",
        "B2": "running",
        "B3": "queued",
    }
    assert report.figures.dataset == "B2"
    # What is already tokenised is outside the job's sums.
    assert (report.figures.done, report.figures.total) == (170, 400)


def test_an_output_without_prompts_that_grows_is_work_of_unknown_total() -> None:
    story = Story(A1=None, B1=100)
    story.process()
    story.writes("A1", 500)
    story.look()
    story.at += 5
    story.writes("A1", 501)
    report = story.look()
    assert states(report)["A1"] == "running"
    assert (report.figures.total, report.figures.fraction) == (None, None)


def test_a_line_that_nobody_names_is_the_datasets_of_the_same_total() -> None:
    story = Story(B1=100, B2=200)
    story.process()
    story.writes("B1", 100)
    story.writes("B2", 60)
    story.logs(progress(50, 200))
    report = story.look()
    assert [one.logged for one in report.datasets] == [None, 50]


def test_a_line_that_fits_two_datasets_is_given_to_none_and_that_is_said() -> None:
    story = Story(B1=200, B2=200)
    story.process()
    story.writes("B1", 60)
    story.writes("B2", 60)
    story.logs(progress(50, 200))
    report = story.look()
    assert [one.logged for one in report.datasets] == [None, None]
    assert report.figures.check is Check.UNKNOWN
    assert "some of the log's lines fit more than one dataset" in report.warnings


def test_of_two_datasets_with_the_same_total_the_growing_one_has_the_lines() -> None:
    story = Story(B1=200, B2=200)
    story.process()
    story.writes("B1", 60)
    story.writes("B2", 60)
    story.logs(progress(50, 200))
    story.look()
    story.at += 5
    story.writes("B2", 61)
    assert {one.name: one.logged for one in story.look().datasets} == {"B1": None, "B2": 50}


def test_a_list_of_headings_at_the_start_does_not_mislead() -> None:
    story = Story(B1=1000, B2=200)
    story.process()
    story.writes("B1", 60)
    story.logs("B1", "B2", "start", progress(50, 1000))
    assert [one.logged for one in story.look().datasets] == [50, None]


def test_the_datasets_that_the_log_shows_stand_in_its_order_before_those_to_come() -> None:
    story = Story(A1=None, B1=100, B2=200, B3=300)
    story.writes("A1", 10)
    story.process()
    story.writes("B3", 300)
    story.writes("B1", 20)
    story.logs("B3", progress(300, 300), "B1", progress(10, 100))
    assert [one.name for one in story.look().datasets] == ["A1", "B3", "B1", "B2"]


def test_the_rate_is_that_of_the_recent_steady_window() -> None:
    story = Story(B1=10000)
    story.process()
    story.look()
    story.works("B1", 300, rate=5.0)
    report = story.works("B1", 300, rate=1.0)
    rate = report.figures.requests_per_s
    assert rate is not None
    assert 0.95 <= rate <= 1.05


def test_what_an_earlier_run_had_done_never_enters_the_rate() -> None:
    story = Story(B1=10000)
    story.process()
    story.writes("B1", 4200)
    story.logs("B1: 10000 prompts, 4200 already done")
    story.look()
    for number in range(4201, 4261):
        story.at += 1.4
        story.writes("B1", number)
        report = story.look()
    rate = report.figures.requests_per_s
    assert rate is not None
    assert 0.68 <= rate <= 0.75


def test_on_a_first_look_the_rate_is_the_logs_own_while_it_is_fresh() -> None:
    story = Story(B1=10000)
    story.process()
    story.writes("B1", 120)
    story.logs("B1", progress(50, 10000, rate=0.7), progress(100, 10000, rate=0.7))
    assert story.look().figures.requests_per_s == 0.7
    stale = Story(B1=10000)
    stale.process()
    stale.writes("B1", 120)
    stale.logs("B1", progress(50, 10000, rate=0.7), progress(100, 10000, rate=0.7))
    stale.at += 7200
    assert stale.look().figures.requests_per_s is None


def test_a_file_that_was_cut_back_counts_down_openly_and_gives_no_negative_rate() -> None:
    story = Story(B1=1000)
    story.process()
    story.look()
    story.works("B1", 200, rate=2.0)
    story.at += 5
    story.writes("B1", 120)
    report = story.look()
    assert report.figures.done == 120
    assert report.figures.requests_per_s is None or report.figures.requests_per_s >= 0
    assert all(value is None or value >= 0 for value in report.history)


def test_time_in_which_the_monitor_slept_is_no_silence_of_the_job() -> None:
    story = Story(B1=1000)
    story.process()
    story.look()
    story.works("B1", 100)
    story.passes(10)
    story.at += 7200
    report = story.look()
    assert report.state is State.RUNNING
    assert story.passes(300).state is State.STALLED


def test_a_sleep_in_which_work_moved_is_one_long_interval() -> None:
    story = Story(B1=10000)
    story.process()
    story.look()
    story.works("B1", 100)
    story.at += 1200
    story.writes("B1", 700)
    rate = story.look().figures.requests_per_s
    assert rate is not None
    assert 0.4 <= rate <= 1.0


def test_a_log_alone_is_one_dataset_named_after_the_job() -> None:
    story = Story()
    story.process()
    story.logs("Processing:  50%|#####     | 50/100 [00:10<00:10,  5.00it/s]")
    report = story.look()
    assert [(one.name, one.done, one.total) for one in report.datasets] == [("run", 50, 100)]
