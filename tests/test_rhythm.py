"""How long a silence may last: what is learnt, what the log's figures say, and what is a pause."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.incidents import at_work, log_alone, speaks
from tests.stories import Story, progress
from watch_inference.folding import rhythm
from watch_inference.model import State


def limit(story: Story) -> float:
    assert story.progress is not None
    return rhythm.stall_limit(story.progress, None)


def test_a_first_look_takes_the_gap_from_the_logs_own_figures() -> None:
    story = Story(B1=10000)
    story.process()
    story.logs(progress(150, 10000, rate=0.7), progress(300, 10000, rate=0.7), arriving=False)
    story.look()
    # 150 requests at 0.7 a second: a line every 3.5 min.
    assert limit(story) == pytest.approx(2 * 150 / 0.67)


def test_a_rate_that_was_rounded_to_nothing_is_taken_from_the_end_time() -> None:
    story = Story(B1=1000)
    story.process()
    lines = [progress(done, 1000, rate=0.0, eta="5.0h") for done in (50, 100)]
    story.logs(*lines, arriving=False)
    story.look()
    assert limit(story) == pytest.approx(2 * 50 * 18000 / 900)


def test_a_job_of_which_nothing_is_known_may_be_silent_for_ten_minutes() -> None:
    story = Story(B1=1000)
    story.process()
    story.writes("B1", 10, arriving=False)
    story.look()
    assert limit(story) == 600


def test_a_fast_job_may_be_silent_for_a_minute_and_a_slow_steady_one_for_two_gaps() -> None:
    assert limit(at_work()) == 60
    slow = at_work(0)
    slow.works("B1", 15, rate=1 / 40, every=5)
    assert limit(slow) == pytest.approx(80, abs=4)
    assert limit(log_alone(every=50)) == pytest.approx(2 * 50 / 0.97)


def test_one_long_silence_is_no_rhythm_and_two_alike_are() -> None:
    story = at_work()
    story.passes(90)
    story.works("B1", 60)
    assert limit(story) == 60
    story.passes(90)
    story.works("B1", 60)
    assert limit(story) == pytest.approx(1.6 * 90, abs=16)


def test_pauses_that_came_no_more_are_forgotten() -> None:
    story = at_work()
    for _ in range(2):
        story.passes(90)
        story.works("B1", 60)
    story.works("B1", 1500)
    assert limit(story) == 60


def test_a_slower_rhythm_is_learnt_after_two_gaps() -> None:
    story = at_work()
    story.works("B1", 6, rate=1 / 45)
    assert limit(story) >= 90


def test_time_in_which_the_monitor_slept_is_not_learnt() -> None:
    story = at_work()
    story.at += 900
    story.look()
    story.works("B1", 20)
    assert story.progress is not None
    assert story.progress.rhythm.pauses == ()
    assert limit(story) == 60


def test_a_gap_of_the_monitors_own_in_which_work_moved_is_no_pause() -> None:
    story = at_work()
    story.at += 120
    story.writes("B1", 240)
    story.look()
    assert story.progress is not None
    assert story.progress.rhythm.pauses == ()


def test_the_limit_of_the_last_answers_does_not_grow_while_they_are_waited_for() -> None:
    story = at_work(0, B1=1000, B2=1000)
    story.works("B1", 990)
    before = limit(story)
    story.passes(200)
    assert limit(story) == pytest.approx(before)


def test_heartbeats_are_no_moves() -> None:
    story = at_work()
    assert story.progress is not None
    moves = story.progress.rhythm.moves
    for _ in range(5):
        story.passes(5)
        story.logs("heartbeat: alive")
    assert story.progress.rhythm.moves == moves


def test_a_long_dataset_after_short_ones_has_time_for_its_first_line() -> None:
    story = log_alone(6, every=100)
    for name, size in (("B1", 4e6), ("B2", 64e6)):
        story.outputs[name] = story.outputs[name]._replace(prompts_bytes=int(size))
    story.look()
    story.logs(progress(10000, 10000), "B2")
    story.look()
    assert limit(story) > 650
    speaks(story, "B2", 1, 600)
    assert story.history[-1].state is State.RUNNING


# ------------------------------------------------------------------- days of innocent jobs


def finishes(rng: random.Random, requests: int, at_once: int) -> Iterator[float]:
    """Say when requests finish that a server works on `at_once`: heavy tails, retries, a drain."""
    slots = [0.0] * at_once
    for _ in range(requests):
        slot = min(range(at_once), key=slots.__getitem__)
        answer = min(1500.0, 40.0 * rng.lognormvariate(0.0, 1.1))
        while rng.random() < 0.05:
            answer += 60.0 * rng.random()  # tried again
        slots[slot] += answer
        yield slots[slot]


@pytest.mark.parametrize("seed", range(4))
def test_no_stall_is_reported_in_a_day_of_heavy_tails_drains_retries_and_pauses(seed: int) -> None:
    rng = random.Random(seed)
    sizes = {f"B{number}": rng.choice((120, 300, 600)) for number in range(1, 5)}
    story = at_work(0, **sizes)
    story.tick_s = 20.0
    begin = story.at
    for name, size in sizes.items():
        story.logs(f"=== {name}: {size} prompts, 0 already done ===")
        times = sorted(finishes(rng, size, rng.choice((6, 16, 48))))
        pause, often = (45.0, 1800.0) if seed % 2 else (0.0, 1800.0)
        for number, time in enumerate(times, 1):
            story.passes(max(0.0, begin + time + pause * (time // often) - story.at))
            story.writes(name, number)
            if number % 50 == 0 or number == size:
                rate = number / max(1.0, story.at - begin)
                left = f"{(size - number) / rate / 3600:.1f}h"
                story.logs(progress(number, size, rate=rate, eta=left))
        begin = story.at + rng.uniform(5, 90)
    stalled = [one for one in story.history if one.state is State.STALLED]
    assert [(one.at, one.reason) for one in stalled[:1]] == []
