"""A report comes in, one logfmt line goes out: the form for logs and for grep."""

from __future__ import annotations

import math
from collections.abc import Sequence

from watch_inference import units
from watch_inference.model import Report
from watch_inference.views.out import Out

_REASON_WIDTH = 500


class Plain:
    """Writes one line a report."""

    def __init__(self, out: Out) -> None:
        self._out = out

    def show(self, reports: Sequence[Report]) -> None:
        """Write the reports' lines at once; raises ReaderGone or CannotWrite."""
        self._out.write("".join(line(report) + "\n" for report in reports))


def line(report: Report) -> str:
    """Write the report as logfmt, without a newline; what is unknown is left out."""
    figures = report.figures
    pairs = (
        ("time", units.utc(report.wall)),
        ("job", report.name),
        ("state", report.state.value),
        ("dataset", figures.dataset),
        ("done", _whole(figures.done)),
        ("total", _whole(figures.total)),
        ("fraction", _share(figures.fraction)),
        ("errors", _whole(figures.errors)),
        ("requests_per_s", _rate(figures.requests_per_s)),
        ("tokens_per_s", _rate(figures.tokens_per_s)),
        ("remaining_s", _whole(figures.remaining_s)),
        ("remaining_low_s", _whole(figures.remaining_low_s)),
        ("remaining_high_s", _whole(figures.remaining_high_s)),
        ("finish", _time(figures.finish)),
        ("log_age_s", _whole(report.log.age_s)),
        ("output_age_s", _whole(report.output_age_s)),
        ("check", figures.check.value),
        ("server", _health(report)),
        ("gpu", _share(_utilization(report))),
        ("reason", units.cut(units.clean(report.reason), _REASON_WIDTH, "...")),
    )
    return " ".join(f"{key}={_quoted(value)}" for key, value in pairs if value)


def _quoted(value: str) -> str:
    value = units.clean(value)
    if not any(char in '="' or char.isspace() for char in value):
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _whole(value: float | None) -> str | None:
    return None if value is None or not math.isfinite(value) else f"{value:.0f}"


def _share(value: float | None) -> str | None:
    """Round to three digits, but never up to 1: 1 means all of it."""
    if value is None or not math.isfinite(value):
        return None
    return f"{value:.3f}".rstrip("0").rstrip(".") if not 0.9995 <= value < 1 else "0.999"


def _rate(value: float | None) -> str | None:
    if value is None or not math.isfinite(value):
        return None
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _time(wall: float | None) -> str | None:
    said = None if wall is None or not math.isfinite(wall) else units.utc(wall)
    return None if said == "?" else said


def _health(report: Report) -> str | None:
    healthy = None if report.server is None else report.server.healthy
    return None if healthy is None else ("ok" if healthy else "bad")


def _utilization(report: Report) -> float | None:
    known = [one.utilization for one in report.gpu.devices if one.utilization is not None]
    return sum(known) / len(known) if known else None
