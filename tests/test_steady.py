"""Figures that are shown stand still until there is news."""

from __future__ import annotations

from typing import Any

from tests.made import FIGURES, datasets, report
from watch_inference.model import Report, State
from watch_inference.views.steady import steady


def later(seconds: float, rate: float, finish: float = 0.0, **fields: Any) -> Report:
    figures = FIGURES._replace(
        requests_per_s=rate,
        finish=(FIGURES.finish or 0) + finish,
        finish_low=(FIGURES.finish_low or 0) + finish,
        finish_high=(FIGURES.finish_high or 0) + finish,
    )
    return report(at=1000.0 + seconds, figures=figures, **fields)


def test_rates_move_every_ten_seconds_and_counts_at_once() -> None:
    held = steady(None, report())
    rows = tuple(row._replace(done=7, requests_per_s=0.8) for row in datasets())
    held = steady(held, later(9.0, 0.74, datasets=rows, history=(9.0,)))
    assert held.report.figures.requests_per_s == 0.71
    assert held.report.datasets[4].requests_per_s == 0.71
    assert held.report.datasets[4].done == 7
    assert held.report.history == report().history
    held = steady(held, later(10.0, 0.75, history=(9.0,)))
    assert held.report.figures.requests_per_s == 0.75
    assert held.report.history == (9.0,)


def test_at_rest_the_history_moves_once_a_minute() -> None:
    held = steady(None, report())
    held = steady(held, later(59.0, 0.7, history=(*report().history[1:], 0.0)))
    assert held.report.history == report().history
    held = steady(held, later(60.0, 0.7, history=(0.0,)))
    assert held.report.history == (0.0,)


def test_a_rate_that_was_unknown_is_shown_at_once() -> None:
    held = steady(None, report(figures=FIGURES._replace(requests_per_s=None)))
    held = steady(held, later(1.0, 0.74))
    assert held.report.figures.requests_per_s == 0.74


def test_the_end_stands_while_the_newest_lies_within_it_and_for_a_minute() -> None:
    held = steady(None, report())
    held = steady(held, later(30.0, 0.7, finish=3000.0))
    assert held.report.figures.finish_low == FIGURES.finish_low
    held = steady(held, later(61.0, 0.7, finish=3000.0))
    assert held.report.figures.finish_low == (FIGURES.finish_low or 0) + 3000


def test_an_end_outside_of_the_shown_range_is_news() -> None:
    held = steady(None, report())
    held = steady(held, later(1.0, 0.7, finish=20000.0))
    assert held.report.figures.finish_low == (FIGURES.finish_low or 0) + 20000


def test_a_new_state_or_another_job_is_shown_whole() -> None:
    held = steady(None, report())
    assert steady(held, later(1.0, 0.9, state=State.STALLED)).report.figures.requests_per_s == 0.9
    assert steady(held, later(1.0, 0.9, name="other")).report.figures.requests_per_s == 0.9
