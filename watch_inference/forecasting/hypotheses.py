"""A job's datasets and one belief about the work of a request in, the remaining time out: pure.

The server works at one speed, shared by all datasets, and the work of a request is A + cost * P:
its completion tokens plus so much per prompt token. `cost` None: every request costs the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from watch_inference.forecasting.course import Order
from watch_inference.forecasting.lengths import TYPICAL_TOKENS, Length
from watch_inference.forecasting.work import Pace, Part

COSTS = (*(0.003 * 2 ** (1.1 * j) for j in range(8)), None)
USUAL_COST, COST_SPREAD, FLAT_WEIGHT = math.log(0.08), 0.8, 0.1
STREAM, STREAM_SPREAD = math.log(25.0), 1.2  # tokens a second of one request among many
SCATTER, SCATTER_WEIGHT = 0.15**2, 3.0  # variance of datasets about the one speed, untaught


OTHER_DAY = 0.3**2  # variance of all paces together: another server, other neighbours


class Piece(NamedTuple):
    """One dataset made ready for the hypotheses; `tokens` is the mean to expect of a request."""

    part: Part
    length: Length
    spread: float
    tokens: float
    head: float = 0.0  # requests' worth of decoding in flight that is not seen yet
    tail: float = 0.0  # the same that is idle while the dataset drains
    order: Order | None = None  # where its file is sorted by length
    age: float = 0.0  # how long ago it ran, in lives of the job
    step: float = 0.0  # believed change of speed since it ran (a logarithm)
    faster: float = 0.0  # the same, for the rest of the dataset itself
    doubt: float = 0.0  # variance that the change brings


class Speed(NamedTuple):
    """Logarithm of the server's speed, its variance, and the datasets' variance about it."""

    log: float
    variance: float
    scatter: float


class Shown(NamedTuple):
    """What a started dataset has shown: seconds a request in full swing, and their variance."""

    each: float
    variance: float
    unsure: float  # variance that not knowing its tokens adds to its speed


class Drift(NamedTuple):
    """Logarithm of how much slower all goes than in the runs that are remembered; its variance."""

    log: float
    variance: float


class Rest(NamedTuple):
    """What is left of one dataset: seconds, of them the drain, variances as in `Length`."""

    seconds: float = 0.0
    drain: float = 0.0
    own: float = 0.0
    shared: float = 0.0
    each: float = 0.0  # seconds a request, while it runs


class Answer(NamedTuple):
    """What one hypothesis says: its weight (a logarithm), and the seconds as a log-normal."""

    weight: float
    log: float
    variance: float
    parts: tuple[float, ...]
    drain: float
    each: float


def _prior(cost: float | None) -> float:
    if cost is None:
        return FLAT_WEIGHT * sum(_prior(other) for other in COSTS if other is not None)
    return math.exp(-0.5 * ((math.log(cost) - USUAL_COST) / COST_SPREAD) ** 2)


PRIORS = tuple(math.log(_prior(cost)) for cost in COSTS)


def answer(
    cost: float | None, prior: float, pieces: Sequence[Piece], gap: float, guess: bool
) -> Answer:
    """Say how long the job takes if a prompt token costs so much."""
    works = [1.0 if cost is None else p.tokens + cost * p.part.prompt for p in pieces]
    # The share of decoding: prompts in flight have been read before anything finishes.
    shares = [1.0 if cost is None else p.tokens / w for p, w in zip(pieces, works, strict=True)]
    shown = [_shown(p, k, cost) for p, k in zip(pieces, shares, strict=True)]
    speed, evidence = _speed(pieces, works, shown, cost is None)
    drift = _drift(pieces, shares, shown)
    rests = []
    for piece, work, k, seen in zip(pieces, works, shares, shown, strict=True):
        usual = work * math.exp(-speed.log)
        if piece.part.left <= 0:
            rests.append(Rest())
            continue
        if seen is None and guess and piece.part.status == "running":
            usual = max(usual, 1.3 * gap / piece.part.batch)  # nothing came so far: that we know
        rest = _expected(piece, k, usual, speed, drift, cost is None)
        if piece.part.status == "running":
            rest = _running(piece, k, rest, speed, seen, gap)
        rests.append(rest if piece.part.status == "running" else rest._replace(each=0.0))
    return _add_up(prior + evidence, rests, speed, any(p.part.status == "queued" for p in pieces))


def _shown(piece: Piece, k: float, cost: float | None) -> Shown | None:
    """Tell the seconds a request: what is in flight has been worked on, but is not counted."""
    part = piece.part
    if part.span is None:
        return None
    seconds, counted, batch = part.span.seconds, part.span.counted, part.batch
    requests, blur = counted, 0.3 * batch / (counted + batch)
    if not part.span.whole:
        blur *= 2
    elif part.status == "running":
        over = max(0.0, 1 - part.left / batch)  # how far it has drained
        head = piece.head * (counted / (counted + batch) if piece.head < 0 else 1.0)
        flight = (k * head + batch * (1 - k)) * (1 - over)
        requests = max(counted / 2, counted + flight + k * piece.tail * over)
        blur = 0.8 * batch / (counted + batch)
    else:
        requests += k * piece.tail
    variance = (0.3 + piece.spread) / counted + blur**2 + part.span.blur**2 + 1e-4
    if piece.order is not None:
        requests *= piece.order.seconds_done
        variance += (0.25 * math.log(piece.order.seconds_done)) ** 2
    known = cost is None or part.tokens is not None
    unsure = 0.0 if known else k * k * (piece.length.own + piece.length.shared)
    return Shown(seconds / requests, variance, unsure)


# ----------------------------------------------------------------------------- the one speed


def _speed(
    pieces: Sequence[Piece], works: Sequence[float], shown: Sequence[Shown | None], flat: bool
) -> tuple[Speed, float]:
    """Average the datasets' speeds; learn their scatter, and how well the hypothesis fits."""
    points = []
    for piece, work, seen in zip(pieces, works, shown, strict=True):
        if seen is not None:
            variance = seen.variance + seen.unsure + piece.doubt + 0.04 * piece.age
            points.append((math.log(work / seen.each) + piece.step, variance))
    batch = sum(piece.part.batch for piece in pieces) / len(pieces)
    usual = STREAM + math.log(batch) - (TYPICAL_TOKENS if flat else 0.0)
    blind = flat or not any(piece.part.tokens for piece in pieces)
    before = (usual, STREAM_SPREAD**2 + (1.0 if blind else 0.0))
    scatter = SCATTER
    for _ in range(2):
        log, variance = _mean([*points, before], scatter)
        squares = 0.0
        for y, v in points:
            r = scatter / (scatter + v)  # so much of a deviation is the dataset's own
            squares += (r * (y - log)) ** 2 + r * v
        scatter = (SCATTER_WEIGHT * SCATTER + squares) / (SCATTER_WEIGHT + len(points))
    log, variance = _mean([*points, before], scatter)
    evidence = math.log(variance) - SCATTER_WEIGHT * (math.log(scatter) + SCATTER / scatter)
    for y, v in points:
        evidence -= math.log(scatter + v) + (y - log) ** 2 / (scatter + v)
    return Speed(log, variance, scatter), evidence / 2


def _mean(points: Sequence[tuple[float, float]], scatter: float) -> tuple[float, float]:
    top = bottom = 0.0
    for y, variance in points:
        weight = 1 / (scatter + variance)
        top, bottom = top + weight * y, bottom + weight
    return top / bottom, 1 / bottom


# ------------------------------------------------------------------------ what is left of each


def _drift(
    pieces: Sequence[Piece], shares: Sequence[float], shown: Sequence[Shown | None]
) -> Drift:
    """Compare the datasets that have begun to what is remembered of them."""
    top, bottom = 0.0, 1 / OTHER_DAY
    for piece, k, seen in zip(pieces, shares, shown, strict=True):
        if seen is not None and piece.part.pace is not None:
            weight = 1 / (seen.variance + piece.part.pace.variance)
            top += weight * math.log(seen.each / _full_swing(piece, k, piece.part.pace))
            bottom += weight
    return Drift(top / bottom, 1 / bottom)


def _full_swing(piece: Piece, k: float, pace: Pace) -> float:
    """Take the drain at a dataset's end out of its pace."""
    total = max(1.0, piece.part.total)
    return pace.seconds * total / (total + k * min(piece.tail, total))


def _expected(piece: Piece, k: float, usual: float, speed: Speed, drift: Drift, flat: bool) -> Rest:
    """Expect of a dataset what the others and an earlier run let expect."""
    own, shared = 0.35**2, 0.0
    if not flat:
        own = k * k * piece.length.own + (0.25 * (1 - k)) ** 2
        shared = k * k * piece.length.shared
    own, left = own + speed.scatter, piece.part.left
    if piece.part.pace is not None:
        variance = own + shared + speed.variance
        trust = variance / (variance + piece.part.pace.variance + drift.variance)
        told = math.log(_full_swing(piece, k, piece.part.pace)) + drift.log
        usual *= math.exp(trust * (told - math.log(usual)))
        own = (1 - trust) ** 2 * own + trust**2 * piece.part.pace.variance
        shared = (1 - trust) ** 2 * shared + trust**2 * drift.variance
    return Rest(usual * (left + k * min(piece.tail, left)), 0.0, own, shared, usual)


def _running(
    piece: Piece,
    k: float,
    expected: Rest,
    speed: Speed,
    seen: Shown | None,
    gap: float,
) -> Rest:
    """Weigh that against what the dataset itself has shown, and add up full swing and drain."""
    variance, log = expected.own + expected.shared + speed.variance, math.log(expected.each)
    if seen is None:
        variance = max(variance, 0.81)
    else:
        both = 1 / (1 / variance + 1 / seen.variance)
        own = math.log(seen.each) - piece.faster
        log, variance = both * (log / variance + own / seen.variance), both
    each = math.exp(log)
    if piece.order is not None:
        each *= piece.order.seconds_ahead
        variance += (0.25 * math.log(piece.order.seconds_ahead)) ** 2
    left, batch = piece.part.left, piece.part.batch
    drain = (batch - piece.head + piece.tail) * k * each * math.sqrt(min(1.0, left / batch))
    seconds = max(0.0, left - batch) * each + drain
    # While we wait for the next one, what was waited is over; after that it is silence.
    seconds = max(0.3 * seconds, seconds - min(gap, each))
    return Rest(seconds, drain, variance, 0.0, each)


def _add_up(weight: float, rests: Sequence[Rest], speed: Speed, queued: bool) -> Answer:
    """Sum log-normals that share their errors: in the speed, and in the length of answers."""
    means = [rest.seconds * math.exp(min(3.0, rest.own + rest.shared) / 2) for rest in rests]
    total = max(sum(means), 1e-3)
    apart = along = 0.0
    for mean, rest in zip(means, rests, strict=True):
        apart += mean * mean * math.expm1(min(3.0, rest.own))
        along += mean * math.sqrt(math.expm1(min(3.0, rest.shared)))
    relative = (apart + along**2) / total**2 + speed.variance * (1.0 if queued else 0.1)
    spread = math.log1p(relative)
    drain, each = sum(rest.drain for rest in rests), max(rest.each for rest in rests)
    return Answer(weight, math.log(total) - spread / 2, spread, tuple(means), drain, each)
