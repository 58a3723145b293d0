"""The forecast's own score: what was said when, against what came."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stories import Story
from watch_inference.forecasting.scorebook import note, words
from watch_inference.model import Forecast, Said, Scores, State

HOUR = 3600.0
BEGUN = 1_770_000_000.0


def said(hours: float, low: float, finish: float, high: float) -> Said:
    """What was said so many hours into the run, of the hours that the whole run takes."""
    at, end, first, last = (BEGUN + HOUR * one for one in (hours, finish, low, high))
    return Said(at, end, first, last)


def kept(*forecasts: Said) -> Scores:
    return Scores(BEGUN, 0.5, forecasts)


def promise(hours: float) -> Forecast:
    return Forecast(hours * HOUR, 0.9 * hours * HOUR, 1.2 * hours * HOUR)


# ---------------------------------------------------------------------------- what is told


def test_what_was_said_is_held_against_what_is_expected_now() -> None:
    told = words(kept(said(2, 31, 35, 38)), BEGUN + 20 * HOUR, 14.3 * HOUR)
    assert told == ("after 2 h said 31 h to 38 h: now 34 h",)


def test_when_the_job_is_over_what_was_said_is_held_against_what_came() -> None:
    scores = kept(said(2, 31, 35, 38), said(10, 31, 32, 33.5))
    assert words(scores, BEGUN + 34 * HOUR, 0.0) == (
        "after 2 h said 31 h to 38 h: took 34 h",
        "after 10 h said 31 h to 34 h: took 34 h",
        "1 of 2 earlier forecasts held the end",
    )


def test_a_short_job_is_told_in_minutes() -> None:
    scores = kept(said(1 / 60, 0.4, 0.5, 0.7))
    assert words(scores, BEGUN + 0.3 * HOUR, 0.2 * HOUR) == (
        "after 1 min said 25 min to 40 min: now 30 min",
    )


def test_of_many_only_a_few_are_told_the_early_the_middle_and_the_late() -> None:
    many = kept(*(said(hour, 30, 34, 40) for hour in range(1, 30)))
    assert words(many, BEGUN + 30 * HOUR, 4 * HOUR) == (
        "after 3 h said 30 h to 40 h: now 34 h",
        "after 7 h said 30 h to 40 h: now 34 h",
        "after 15 h said 30 h to 40 h: now 34 h",
        "24 of 24 earlier forecasts held the end now expected",
    )


def test_what_was_said_just_now_is_no_feat() -> None:
    assert words(kept(said(9, 19, 20, 21)), BEGUN + 10 * HOUR, 10 * HOUR) == ()


def test_nothing_is_told_before_a_forecast_or_of_a_job_without_an_end() -> None:
    assert words(None, BEGUN, 60.0) == ()
    assert words(kept(), BEGUN + HOUR, 60.0) == ()
    assert words(kept(said(2, 31, 35, 38)), BEGUN + 20 * HOUR, None) == ()


# ---------------------------------------------------------------------------- what is kept


def test_forecasts_are_kept_ever_farther_apart() -> None:
    scores = None
    for minute in range(1, 241):
        scores = note(scores, BEGUN + 60 * minute, BEGUN, promise(4 - minute / 60), minute / 240)
    assert scores is not None
    gaps = [int(one.wall - BEGUN) // 60 for one in scores.said]
    assert gaps[:8] == [1, 2, 3, 4, 5, 7, 9, 12]
    assert gaps[-2:] == [185, 232]


def test_an_unknown_end_is_not_kept_and_neither_is_none_to_come() -> None:
    scores = note(None, BEGUN + 60, BEGUN, Forecast(), None)
    scores = note(scores, BEGUN + 600, BEGUN, Forecast(0.0, 0.0, 0.0), 1.0)
    assert scores == Scores(BEGUN, 1.0, ())


def test_another_run_begins_a_new_page() -> None:
    scores = note(None, BEGUN + HOUR, BEGUN, promise(3), 0.25)
    assert len(scores.said) == 1
    again = note(scores, BEGUN + 3 * HOUR, BEGUN + 2 * HOUR, Forecast(), 0.4)
    assert again == Scores(BEGUN + 2 * HOUR, 0.4, ())


def test_a_job_that_was_begun_anew_unseen_begins_a_new_page() -> None:
    scores = note(None, BEGUN + HOUR, None, promise(3), 0.25)
    assert scores.begun == BEGUN + HOUR
    assert note(scores, BEGUN + 2 * HOUR, None, Forecast(), 0.01).said == ()


def test_one_of_several_processes_that_ends_does_not() -> None:
    scores = note(None, BEGUN + HOUR, BEGUN, promise(3), 0.25)
    younger = note(scores, BEGUN + 2 * HOUR, BEGUN + 60, promise(2), 0.5)
    assert (younger.begun, len(younger.said)) == (BEGUN, 2)


looks = st.lists(
    st.tuples(
        st.floats(-10, 1e6),
        st.one_of(st.none(), st.floats(0, 1e6)),
        st.one_of(st.none(), st.floats(0, 1)),
    ),
    max_size=200,
)


@settings(max_examples=100, deadline=None)
@given(looks, st.booleans())
def test_whatever_comes_the_book_stays_small(
    steps: list[tuple[float, float | None, float | None]], seen: bool
) -> None:
    scores, wall = None, BEGUN
    for seconds, remaining, fraction in steps:
        wall += seconds
        forecast = Forecast(remaining, remaining, remaining)
        scores = note(scores, wall, BEGUN if seen else None, forecast, fraction)
        assert len(scores.said) <= 32
        assert len(words(scores, wall, remaining)) <= 4


# ----------------------------------------------------------------------------- in the loop


def test_the_reports_of_a_watched_job_tell_how_good_its_forecasts_were() -> None:
    story = Story(B1=600)
    story.process()
    assert story.look().track == ()
    report = story.works("B1", 450)
    assert report.track[0].startswith("after ")
    assert report.track[0].endswith(": now 10 min")
    assert report.track[-1].endswith("earlier forecasts held the end now expected")
    story.works("B1", 150)
    story.at += 2
    story.process("gone")
    report = story.look()
    assert report.state is State.FINISHED
    assert report.track[0].endswith(": took 10 min")


def test_of_a_job_that_failed_nothing_is_told() -> None:
    story = Story(B1=600)
    story.process()
    story.works("B1", 450)
    story.at += 2
    story.process("gone")
    report = story.look()
    assert report.state is State.FAILED
    assert report.track == ()
