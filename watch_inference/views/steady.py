"""The report shown and the newest come in, the one to show goes out: nothing ticks without news.

Rates move at most every ten seconds. The end moves when the newest estimate leaves the range that
is shown, or after a minute: a figure that dances claims to know more than it does.
"""

from __future__ import annotations

from typing import NamedTuple

from watch_inference.model import DatasetRow, Figures, Report

_RATES_S = 10.0
_HISTORY_AT_REST_S = 60.0
_END_S = 60.0


class Held(NamedTuple):
    """The report as it is shown, and since when its rates, its history and its end stand."""

    report: Report
    rates_at: float
    history_at: float
    end_at: float


def steady(held: Held | None, report: Report) -> Held:
    """Take the newest report, but keep what is shown of it while that is still good."""
    if held is None or held.report.state is not report.state or held.report.name != report.name:
        return Held(report, report.at, report.at, report.at)
    shown, rates_at, history_at, end_at = held
    if 0 <= report.at - rates_at < _RATES_S and shown.figures.requests_per_s is not None:
        report = _with_rates_of(shown, report)
    else:
        rates_at = report.at
    if 0 <= report.at - history_at < _history_s(report) and shown.history:
        report = report._replace(history=shown.history)
    else:
        history_at = report.at
    if 0 <= report.at - end_at < _END_S and _within(shown.figures, report.figures.finish):
        report = report._replace(figures=_with_end_of(shown.figures, report.figures))
    else:
        end_at = report.at
    return Held(report, rates_at, history_at, end_at)


def _history_s(report: Report) -> float:
    """How long a history stands: at rest it would only ever grow by nothing."""
    return _RATES_S if report.history and report.history[-1] else _HISTORY_AT_REST_S


def _with_rates_of(shown: Report, report: Report) -> Report:
    figures = report.figures._replace(
        requests_per_s=shown.figures.requests_per_s, tokens_per_s=shown.figures.tokens_per_s
    )
    before = {row.name: row for row in shown.datasets}
    rows = tuple(_steady_row(before.get(row.name), row) for row in report.datasets)
    return report._replace(figures=figures, datasets=rows)


def _steady_row(before: DatasetRow | None, row: DatasetRow) -> DatasetRow:
    if before is None or before.state is not row.state:
        return row
    return row._replace(
        requests_per_s=before.requests_per_s,
        completion_tokens=before.completion_tokens,
        remaining_s=before.remaining_s,
    )


def _within(shown: Figures, finish: float | None) -> bool:
    low, high = shown.finish_low, shown.finish_high
    if low is None or high is None or finish is None:
        return False
    return low <= finish <= high


def _with_end_of(shown: Figures, now: Figures) -> Figures:
    return now._replace(
        finish=shown.finish,
        finish_low=shown.finish_low,
        finish_high=shown.finish_high,
        remaining_s=shown.remaining_s,
        remaining_low_s=shown.remaining_low_s,
        remaining_high_s=shown.remaining_high_s,
    )
