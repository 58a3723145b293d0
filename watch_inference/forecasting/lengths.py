"""Measured datasets in, the completion tokens to expect of each out: pure.

Longer prompts tend to have longer answers, and datasets of one job are alike, but neither by much:
a regression on prompt length with wide priors, that says how sure it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from watch_inference.forecasting.course import Order
from watch_inference.forecasting.work import TYPICAL_PROMPT, Part

TYPICAL_TOKENS, MOST_TOKENS = math.log(700.0), math.log(1e6)
SLOPE, SLOPE_SPREAD = 0.15, 0.25  # exponent of answers against prompts
SCATTER, SCATTER_WEIGHT = 0.36, 2.0  # variance of datasets' log means, before the job taught it
SPREAD, SPREAD_WEIGHT = 0.7, 60.0  # (sd / mean)^2 within a dataset, before the job taught it
REMEMBERED = 0.12**2  # variance of an earlier run's log mean


class Length(NamedTuple):
    """Logarithm of mean completion tokens; its own variance, and that shared with the others."""

    log: float
    own: float
    shared: float = 0.0


class Line(NamedTuple):
    """Answers grow with prompts: y = level + slope x, with covariances and the scatter about it."""

    level: float
    slope: float
    covariance: tuple[float, float, float]  # level, both, slope
    scatter: float

    def at(self, x: float) -> float:
        """Read the line."""
        return self.level + self.slope * x

    def variance(self, x: float) -> float:
        """Say how unsure the line is there."""
        level, both, slope = self.covariance
        return max(0.0, level + 2 * x * both + x * x * slope)


class Seen(NamedTuple):
    """Mean completion tokens (a logarithm) that a dataset has shown, and their variance."""

    size: float
    log: float
    noise: float
    remembered: float | None


def spreads(parts: Sequence[Part]) -> list[float]:
    """Pool (sd / mean)^2 of completion tokens over the datasets, each leaning to its own."""
    weights = [0.0 if part.spread is None else _weight(part) for part in parts]
    sums = [w * (part.spread or 0.0) for w, part in zip(weights, parts, strict=True)]
    weight = SPREAD_WEIGHT + 0.3 * sum(weights)
    top = SPREAD_WEIGHT * SPREAD + 0.3 * sum(sums)
    return [(top + 0.7 * s) / (weight + 0.7 * w) for w, s in zip(weights, sums, strict=True)]


def _weight(part: Part) -> float:
    flight = 2 * part.batch if part.status == "running" else 0.0
    return min(400.0, part.finished) * part.finished / (part.finished + flight + 1e-9)


def lengths(
    parts: Sequence[Part], spread: Sequence[float], orders: Sequence[Order | None]
) -> list[Length]:
    """Expect a mean of completion tokens for every dataset."""
    seen = [_seen(*three) for three in zip(parts, spread, orders, strict=True)]
    known = [one for one in seen if one is not None]
    line = _fit(known)
    shifts = [one.log - one.remembered for one in known if one.remembered is not None]
    shift = sum(shifts) / (len(shifts) + 1)  # all answers may be longer than they were
    result = []
    for part, one in zip(parts, seen, strict=True):
        x = _size(part)
        if one is not None:
            result.append(_leaning(line, one))
        elif part.remembered is not None:
            result.append(Length(math.log(part.remembered) + shift, REMEMBERED))
        elif known:
            top = math.inf if part.ceiling is None else math.log(0.9 * part.ceiling)
            log = max(0.0, min(line.at(x), top, MOST_TOKENS))
            result.append(Length(log, line.scatter, line.variance(x)))
        else:  # no figure at all: what matters is how the others compare to those that have begun
            result.append(Length(line.at(x), SCATTER if part.span is None else 0.0))
    return result


def _seen(part: Part, spread: float, order: Order | None) -> Seen | None:
    if part.tokens is None or part.finished <= 0:
        return None
    # The first to finish are the short ones, and so are those of a file that begins with them.
    early = part.batch / (part.finished + part.batch) if part.status == "running" else 0.0
    done = 0.0 if order is None else math.log(order.tokens_done)
    noise = spread / part.finished + 0.09 * early + (0.25 * done) ** 2
    remembered = None if part.remembered is None else math.log(part.remembered)
    return Seen(_size(part), math.log(part.tokens * (1 + 0.5 * early)) - done, noise, remembered)


def _size(part: Part) -> float:
    return math.log(part.prompt / TYPICAL_PROMPT)


def _leaning(line: Line, seen: Seen) -> Length:
    """Weigh what the line says against what the dataset itself has shown."""
    prior = line.scatter + line.variance(seen.size)
    trust = prior / (prior + seen.noise)
    expected = line.at(seen.size)
    return Length(expected + trust * (seen.log - expected), (1 - trust) * prior)


def _fit(seen: Sequence[Seen]) -> Line:
    line = _solve(seen, SCATTER)
    if len(seen) < 2:
        return line
    squares = sum((one.log - line.at(one.size)) ** 2 for one in seen)
    weight = SCATTER_WEIGHT + len(seen) - 1
    return _solve(seen, (SCATTER_WEIGHT * SCATTER + squares) / weight)


def _solve(seen: Sequence[Seen], scatter: float) -> Line:
    """Solve the two normal equations; the priors keep them solvable."""
    mean = sum(one.log for one in seen) / len(seen) if seen else TYPICAL_TOKENS
    level = 1 / (1 + 0.5 * (mean - TYPICAL_TOKENS) ** 2)  # a far mean makes the prior give way
    a, b, c = level, 0.0, 1 / SLOPE_SPREAD**2
    p, q = level * TYPICAL_TOKENS, SLOPE / SLOPE_SPREAD**2
    for x, y, noise, _ in seen:
        weight = 1 / (scatter + noise)
        a, b, c = a + weight, b + weight * x, c + weight * x * x
        p, q = p + weight * y, q + weight * x * y
    size = a * c - b * b
    covariance = (c / size, -b / size, a / size)
    return Line((c * p - b * q) / size, (a * q - b * p) / size, covariance, scatter)
