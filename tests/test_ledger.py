"""The account of one dataset: what is done, where that is known from, and do the sources agree."""

from __future__ import annotations

from tests.stories import Story, progress
from watch_inference.model import Check, DatasetRow


def row(story: Story, name: str = "B1") -> DatasetRow:
    return next(one for one in story.look().datasets if one.name == name)


def told(total: int, written: int | None, *lines: str) -> Story:
    story = Story(B1=total)
    story.process()
    story.logs(*lines)
    if written is not None:
        story.writes("B1", written)
    return story


def test_a_file_that_is_ahead_by_less_than_a_line_of_the_log_is_ok() -> None:
    assert row(told(1000, 143, "B1", progress(50, 1000), progress(100, 1000))).check is Check.OK


def test_a_file_that_is_ahead_by_what_the_rate_since_the_last_line_explains_is_ok() -> None:
    story = told(10000, 100, "B1", progress(50, 10000), progress(100, 10000))
    story.look()
    story.at += 600
    story.writes("B1", 700)
    assert row(story).check is Check.OK


def test_a_file_far_ahead_of_the_log_is_ahead() -> None:
    assert row(told(10000, 4300, "B1", progress(50, 10000), progress(100, 10000))).check is (
        Check.AHEAD
    )


def test_a_surplus_that_stays_constant_is_resumed_and_out_of_the_rate() -> None:
    story = told(10000, 4300, "B1", progress(50, 10000), progress(100, 10000))
    story.look()
    for number in range(1, 5):
        story.at += 50
        story.writes("B1", 4300 + 50 * number)
        story.logs(progress(100 + 50 * number, 10000))
        one = row(story)
    assert (one.check, one.resumed, one.done) == (Check.RESUMED, 4200, 4500)
    assert one.requests_per_s == 1.0


def test_a_log_that_counts_the_rest_only_tells_what_was_resumed() -> None:
    one = row(told(10000, 4323, "B1", progress(50, 5777), progress(100, 5777)))
    assert (one.resumed, one.done, one.total, one.check) == (4223, 4323, 10000, Check.RESUMED)


def test_a_log_whose_first_count_is_large_includes_what_was_resumed() -> None:
    one = row(told(10000, 4300, "B1", progress(4250, 10000), progress(4300, 10000)))
    assert (one.resumed, one.done, one.check) == (4200, 4300, Check.RESUMED)


def test_a_limited_run_is_not_taken_for_a_resumed_one() -> None:
    story = told(10000, 60, "B1", progress(25, 100), progress(50, 100))
    one = row(story)
    assert (one.resumed, one.done, one.total) == (0, 60, 10000)
    assert any("the log counts to 100" in text for text in story.look().warnings)


def test_a_file_with_fewer_lines_than_the_log_counts_is_behind() -> None:
    assert row(told(10000, 3000, "B1", progress(4950, 10000), progress(5000, 10000))).check is (
        Check.BEHIND
    )


def test_a_lag_that_just_came_up_is_not_called_behind_before_ten_seconds() -> None:
    story = told(10000, 100, "B1", progress(50, 10000), progress(100, 10000))
    story.look()
    story.at += 50
    story.logs(progress(400, 10000))
    assert row(story).check is Check.OK
    story.at += 11
    assert row(story).check is Check.BEHIND
    story.writes("B1", 400)
    assert row(story).check is Check.OK


def test_a_first_look_at_a_writer_of_batches_is_not_behind() -> None:
    story = told(10000, 100, "B1", progress(50, 10000), progress(100, 10000))
    story.at += 70
    story.logs(progress(150, 10000), arriving=False)
    assert row(story).check is Check.OK


def test_a_writer_that_appends_in_batches_is_not_behind() -> None:
    story = told(10000, 0, "B1")
    story.look()
    for number in range(1, 6):
        story.at += 60
        story.writes("B1", 100 * number)
        story.logs(progress(100 * number, 10000))
        story.look()
        story.at += 40
        story.logs(progress(100 * number + 80, 10000))
        story.look()
        story.at += 15
        assert row(story).check is Check.OK


def test_errors_without_a_line_are_counted_once_and_complete_a_dataset() -> None:
    story = told(1000, 987, "B1", progress(950, 1000, 12), progress(1000, 1000, 13))
    report = story.look()
    assert report.figures.fraction == 1.0
    assert (report.figures.done, report.figures.errors) == (987, 13)
    assert report.reason == "all lines are written, process 41 is still alive"


def test_errors_that_have_lines_are_not_counted_twice() -> None:
    story = told(1000, 995, "B1", progress(900, 1000, 12), progress(950, 1000, 13))
    assert story.look().figures.fraction == 0.995


def test_lines_without_results_on_disk_count_as_logged_with_a_warning() -> None:
    story = told(1000, 0, "B1", progress(50, 1000), progress(100, 1000))
    one = row(story)
    assert (one.done, one.done_from, one.check) == (100, "logged", Check.UNKNOWN)
    assert story.look().warnings == ("B1: results are not on disk yet, the log counts 100",)


def test_more_lines_than_prompts_are_shown_as_they_are_with_a_warning() -> None:
    story = told(2, 4)
    report = story.look()
    assert (report.figures.done, report.figures.fraction) == (4, 1.0)
    assert "B1: 4 lines for 2 prompts: an earlier run too?" in report.warnings


def test_a_log_that_counts_four_variants_a_prompt_is_read_as_prompts() -> None:
    one = row(told(25, 12, "B1", *(progress(n, 100) for n in range(4, 49, 4))))
    assert (one.logged, one.total, one.check) == (12, 25, Check.OK)


def test_a_total_of_a_log_alone_includes_what_was_resumed() -> None:
    story = Story(B1=None)
    story.process()
    story.writes("B1", 4323)
    story.logs("B1: 5777 prompts, 4223 already done", progress(50, 5777), progress(100, 5777))
    one = row(story)
    assert (one.total, one.resumed) == (10000, 4223)
