"""Observed in, Forecast out: how long a job still takes, with an 80 % interval; touches nothing.

Some hypotheses of what a request costs are weighted by how little the datasets' speeds scatter
under each; the interval is what they leave open. While nothing comes, the time waited is added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from watch_inference.forecasting.clock import MOST, number
from watch_inference.forecasting.course import SHARE, change, order
from watch_inference.forecasting.hypotheses import COSTS, PRIORS, Answer, Piece, answer
from watch_inference.forecasting.lengths import lengths, spreads
from watch_inference.forecasting.work import Part, measure
from watch_inference.model import Forecast, Observed

EIGHTY = 1.2  # deviations either side that hold 80 %: a little under the normal's, as measured
TRUST = 0.82  # of the hypotheses' own deviation; they allow for one another's errors
LEAST, HORIZON, DRAIN = 0.06, 0.08, 0.5  # deviations: always, by a far end, of a drain
YOUNG = 0.6  # deviation downwards while a process may still be warming up


class Moment(NamedTuple):
    """The job's clock: seconds from its begin to the last request, and of silence since."""

    elapsed: float
    gap: float
    last: float  # when the last request came


def forecast(observed: Observed, *, guess: bool = False) -> Forecast:
    """Forecast the remaining seconds of a job and of each unfinished dataset.

    Unknown before the first request of this run has finished; `guess` asks for a number even then.
    """
    measured = measure(observed)
    parts = [part for part in measured if part is not None]
    over = not any(part.left > 0 for part in parts)
    known = len(parts) == len(measured)
    if not parts or not (guess or over or any(part.span is not None for part in parts)):
        return Forecast()
    result = Forecast(0.0, 0.0, 0.0)
    rests = [0.0] * len(parts)
    if not over:
        moment = _moment(observed, parts)
        pieces = _pieces(parts, moment)
        result, rests = _mixture(pieces, _answers(pieces, moment), moment)
    each = iter(rests)
    values = [None if part is None else next(each) for part in measured]
    datasets = tuple(
        (dataset.name, value)
        for dataset, value in zip(observed.datasets, values, strict=True)
        if dataset.status != "done"
    )
    return result._replace(datasets=datasets) if known else Forecast(datasets=datasets)


def _moment(observed: Observed, parts: Sequence[Part]) -> Moment:
    now = number(observed.now) or 0.0
    spans = [part.span for part in parts if part.span is not None]
    begins = [span.ended - span.seconds for span in spans]
    for time in (observed.process_started, *(d.started for d in observed.datasets)):
        known = number(time, high=now)
        begins += [] if known is None else [known]
    start = min(begins, default=now)
    moved = number(observed.moved_at, high=now)
    last = max((span.ended for span in spans), default=start)
    last = last if moved is None else max(last, moved)
    return Moment(max(last - start, 1.0), now - last, last)


# ------------------------------------------------------------------------- the datasets made ready


def _pieces(parts: Sequence[Part], moment: Moment) -> list[Piece]:
    spread, orders = spreads(parts), [order(part) for part in parts]
    expected = lengths(parts, spread, orders)
    pieces = []
    for part, length, width, sorted_ in zip(parts, expected, spread, orders, strict=True):
        age = 0.0
        if part.span is not None:
            age = max(0.0, moment.last - part.span.ended + part.span.seconds / 2) / moment.elapsed
        head, tail = part.batch * (1 - width) / 2, part.batch * (0.3 + 0.2 * width)
        tokens = math.exp(length.log)
        pieces.append(Piece(part, length, width, tokens, head, tail, sorted_, min(age, 1.0)))
    return _with_changes(pieces, moment)


def _with_changes(pieces: list[Piece], moment: Moment) -> list[Piece]:
    """Look for changes of speed, and say how far each is believed to last."""
    work = [p.tokens + SHARE * p.part.prompt for p in pieces]
    done = sum(w * p.part.finished for w, p in zip(work, pieces, strict=True) if p.part.span)
    left = sum(w * p.part.left for w, p in zip(work, pieces, strict=True))
    horizon = moment.elapsed * left / done if done else moment.elapsed
    result, first = list(pieces), True
    for i, piece in enumerate(pieces):
        span = piece.part.span
        found = None if span is None or piece.order is not None else change(piece.part)
        if span is None or found is None:
            continue
        warm = first and found.step > 0  # a warm-up is over, and will not come again
        first = False
        mine = span.seconds * piece.part.left / max(piece.part.finished, 1.0)
        trust = found.clear if warm else found.belief(horizon)
        own = found.clear if warm else found.belief(mine)
        step = trust * found.whole
        result[i] = result[i]._replace(
            step=step, faster=own * found.whole, doubt=result[i].doubt + (0.3 * step) ** 2
        )
        for j in range(i):  # what ran before it says less
            doubt = result[j].doubt + (trust * found.step) ** 2
            result[j] = result[j]._replace(doubt=doubt)
    return result


# ------------------------------------------------------------------------------- the mixture


def _answers(pieces: Sequence[Piece], moment: Moment) -> list[Answer]:
    """Ask every hypothesis; weights add up to one."""
    started = any(piece.part.span is not None for piece in pieces)
    answers = [
        answer(cost, prior, pieces, moment.gap, guess=not started)
        for cost, prior in zip(COSTS, PRIORS, strict=True)
        if started or cost is not None
    ]
    best = max(one.weight for one in answers)
    weights = [math.exp(one.weight - best) for one in answers]
    total = sum(weights)
    return [one._replace(weight=w / total) for one, w in zip(answers, weights, strict=True)]


def _mixture(
    pieces: Sequence[Piece], answers: Sequence[Answer], moment: Moment
) -> tuple[Forecast, list[float]]:
    """Mix the answers to one figure with its interval, and to a figure for each dataset."""
    log = sum(one.weight * one.log for one in answers)
    variance = sum(one.weight * (one.variance + (one.log - log) ** 2) for one in answers)
    seconds = min(MOST, max(1e-3, math.exp(log)))
    drain = min(1.0, sum(one.weight * one.drain for one in answers) / seconds)
    square = TRUST**2 * variance + LEAST**2 + (DRAIN * drain) ** 2
    square += HORIZON**2 * min(9.0, seconds / moment.elapsed)
    parts = [sum(one.weight * one.parts[i] for one in answers) for i in range(len(pieces))]
    scale = seconds / max(sum(parts), 1e-3)
    rests = [part * scale for part in parts]

    stall = 0.5 * max(0.0, moment.gap - _patience(pieces, answers))
    seconds += stall
    square += (0.9 * stall / seconds) ** 2
    running = [i for i, p in enumerate(pieces) if p.part.status == "running" and p.part.left > 0]
    for i in running:
        rests[i] = rests[i] * len(running) + stall  # they share the server
    seconds = max([seconds, *(rests[i] for i in running)])
    young = YOUNG * min(1.0, seconds / (15 * moment.elapsed))
    low = seconds * math.exp(-EIGHTY * math.sqrt(square + young**2))
    high = min(MOST, seconds * math.exp(EIGHTY * math.sqrt(min(square, 9.0))))
    return Forecast(seconds, low, max(seconds, high)), rests


def _patience(pieces: Sequence[Piece], answers: Sequence[Answer]) -> float:
    """Say how long to wait for a request before it is a stall."""
    each = sum(one.weight * one.each for one in answers)
    running = [p.part for p in pieces if p.part.status == "running" and p.part.left > 0]
    batch = max((part.batch for part in running), default=1.0)
    left = sum(part.left for part in running)
    usual = 8 * each + 20 if left > batch else 20 * each * batch / max(left, 1.0)
    if any(part.finished <= 0 for part in running):  # the first of a batch takes longest
        usual = max(usual, 2 * batch * each)
    return usual
