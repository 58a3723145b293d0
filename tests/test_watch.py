"""The loop and what streams pass on: once an interval, at each change, until the job is over."""

from __future__ import annotations

from itertools import islice

from tests.stories import Story
from watch_inference import watch
from watch_inference.model import Report, State


def report(at: float, state: State = State.RUNNING, over: bool = False) -> Report:
    return Report(at, at, "h", "job", None, "target", state, over=over)


def test_a_look_is_taken_every_interval_whatever_it_took_itself() -> None:
    story = Story(B1=100)
    story.process()
    waited: list[float] = []

    def take(at: float, wall: float) -> object:
        story.at += 0.5  # the look itself takes half a second
        return story.sample()

    def wait(seconds: float) -> None:
        waited.append(seconds)
        story.at += seconds

    looks = watch.reports([take], lambda: story.at, lambda: story.wall, wait, 2.0)  # type: ignore[list-item]
    said = [reports[0].at for reports in islice(looks, 4)]
    assert waited == [1.5, 1.5, 1.5]
    assert [later - said[0] for later in said] == [0.0, 2.0, 4.0, 6.0]


def test_a_stream_speaks_once_an_interval_and_at_each_change_of_state() -> None:
    looks = [(report(at, State.STALLED if 20 <= at < 30 else State.RUNNING),) for at in range(62)]
    spoken = [said[0].at for said in watch.due(looks, 60.0)]
    assert spoken == [0, 20, 30, 60]


def test_at_a_change_only_the_job_that_changed_speaks() -> None:
    one, other = report(0), report(0)._replace(name="other")
    looks = [(one, other), (one, other._replace(state=State.FAILED))]
    assert [[each.name for each in said] for said in watch.due(looks, 60.0)] == [
        ["job", "other"],
        ["other"],
    ]


def test_a_stream_ends_five_seconds_after_the_last_job_is_over() -> None:
    looks = [(report(at, over=at >= 10),) for at in range(100)]
    assert [said[0].at for said in watch.until_over(looks)][-1] == 15


def test_a_job_that_is_followed_by_a_new_run_goes_on() -> None:
    looks = [(report(at, over=10 <= at < 13 or at >= 50),) for at in range(100)]
    assert [said[0].at for said in watch.until_over(looks)][-1] == 55
