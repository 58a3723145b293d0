"""When the next frame may go out: told by answers, and by other means when they are lost."""

from __future__ import annotations

from watch_inference.views.pace import Pace


def test_the_next_frame_waits_for_the_answer_to_the_last() -> None:
    pace = Pace(answers=True)
    assert pace.ready_at(10.0, 1.0, None) <= 10.0
    assert pace.sent(10.0)
    assert pace.ready_at(11.0, 1.0, None) == 12.0
    pace.answered(11.5)
    assert pace.ready_at(11.5, 1.0, None) <= 11.5
    assert pace.last_s == 1.5


def test_a_slow_terminal_is_given_four_times_its_slowest_answer() -> None:
    pace = Pace(answers=True)
    pace.sent(0.0)
    pace.answered(3.0)
    pace.sent(10.0)
    assert pace.ready_at(11.0, 1.0, None) == 22.0


def test_a_key_waits_for_one_second_at_most() -> None:
    pace = Pace(answers=True)
    pace.sent(0.0)
    pace.answered(3.0)
    pace.sent(10.0)
    assert pace.ready_at(10.5, 1.0, 10.5) == 11.5


def test_a_lost_answer_does_not_freeze_the_screen() -> None:
    pace = Pace(answers=True)
    assert pace.sent(0.0)
    assert pace.ready_at(1.9, 1.0, None) == 2.0
    assert pace.ready_at(2.0, 1.0, None) == 2.0
    assert not pace.sent(2.0)
    assert pace.ready_at(2.1, 1.0, None) == 3.0
    assert not pace.sent(9.9)
    assert pace.sent(10.0)  # asked again
    assert pace.ready_at(10.1, 1.0, None) == 12.0
    pace.answered(10.2)
    assert pace.ready_at(10.2, 1.0, None) <= 10.2


def test_a_terminal_that_cannot_answer_is_paced_by_the_interval() -> None:
    pace = Pace(answers=False)
    assert not pace.sent(0.0)
    assert pace.ready_at(0.1, 2.0, None) == 2.0
    assert pace.ready_at(0.1, 2.0, 0.1) == 0.1
    assert pace.waits_since is None


def test_an_answer_to_nothing_is_harmless() -> None:
    pace = Pace(answers=True)
    pace.answered(1.0)
    assert pace.ready_at(1.0, 1.0, None) <= 1.0
