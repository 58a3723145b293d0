"""Forecasts as they are made in, how good they have been out: the forecast's own score, pure.

Kept of a run are a few forecasts, ever farther apart: constant memory. Each is held against the end
that is expected now, and when the job is over against the end that came.
"""

from __future__ import annotations

from collections.abc import Sequence

from watch_inference import units
from watch_inference.model import Forecast, Said, Scores

_MOST = 32
_CLOSEST_S = 60.0
_APART = 0.25  # the next forecast is kept after this share of the run so far
_FELL = 0.01  # a share of the job that falls by more: another run, or a larger job
# Of what was said, show what was said after these shares of the run so far.
_SHOWN = (0.1, 0.25, 0.5)
_LATE = 0.8  # what was said after this share is no feat


def note(
    before: Scores | None,
    wall: float,
    begun: float | None,
    forecast: Forecast,
    fraction: float | None,
) -> Scores:
    """Keep a forecast, if it is far enough from the last one that was kept.

    `begun`: the run's begin, Unix time, None where not known; `fraction`: share of the job done.
    """
    scores = before
    if scores is None or _other_run(scores, begun, fraction):
        scores = Scores(wall if begun is None else begun)
    if fraction is not None:
        scores = scores._replace(fraction=fraction)
    remaining, low, high = forecast.remaining_s, forecast.low_s, forecast.high_s
    if not remaining or low is None or high is None or not _due(scores, wall):
        return scores
    said = (*scores.said, Said(wall, wall + remaining, wall + low, wall + high))
    if len(said) > _MOST:
        said = (said[0], *said[2:-1:2], said[-1])
    return scores._replace(said=said)


def words(scores: Scores | None, wall: float, remaining_s: float | None) -> tuple[str, ...]:
    """Say what was forecast when, against the end that came (nothing remains) or is expected now.

    `wall`: the end where the job is over, else now. Empty where nothing was forecast early enough.
    """
    if scores is None or remaining_s is None:
        return ()
    now = wall + remaining_s
    told = [one for one in scores.said if _early(scores, one, wall)]
    came = f"{'now' if remaining_s else 'took'} {_long(now - scores.begun)}"
    lines = [f"after {units.age(one.wall - scores.begun)} said {_range(scores, one)}: {came}"
             for one in _chosen(scores, told, wall)]  # fmt: skip
    if len(told) > 1:
        held = sum(one.low <= now <= one.high for one in told)
        what = "the end now expected" if remaining_s else "the end"
        lines.append(f"{held} of {len(told)} earlier forecasts held {what}")
    return tuple(lines)


def _other_run(scores: Scores, begun: float | None, fraction: float | None) -> bool:
    """Tell a run that what was said is not about: begun since, or with less of the job done."""
    if begun is not None and (not scores.said or begun > scores.said[-1].wall):
        return begun != scores.begun
    if scores.fraction is None or fraction is None:
        return False
    return fraction < scores.fraction - _FELL


def _due(scores: Scores, wall: float) -> bool:
    if not scores.said:
        return True
    last = scores.said[-1].wall
    return wall - last >= max(_CLOSEST_S, _APART * (last - scores.begun))


def _early(scores: Scores, one: Said, wall: float) -> bool:
    return one.wall - scores.begun <= _LATE * (wall - scores.begun)


def _chosen(scores: Scores, told: Sequence[Said], wall: float) -> list[Said]:
    """Choose a few that were said early, half-way and lately, oldest first."""
    marks = [scores.begun + share * (wall - scores.begun) for share in _SHOWN]
    found = {min(told, key=lambda one: abs(one.wall - mark)) for mark in marks if told}
    return sorted(found)


def _range(scores: Scores, one: Said) -> str:
    low, high = _long(one.low - scores.begun), _long(one.high - scores.begun)
    return low if low == high else f"{low} to {high}"


def _long(seconds: float) -> str:
    """Write the length of the whole run: 40 min, 9.5 h, 34 h."""
    return units.between(seconds, seconds).removeprefix("~")
