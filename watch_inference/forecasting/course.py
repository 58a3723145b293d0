"""One dataset's course in, its change of speed and the order of its prompts out: pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from watch_inference.forecasting.clock import Mark
from watch_inference.forecasting.work import Part

SHARE = 0.08  # work of a prompt token in completion tokens, where one figure must do
CLEAR = (4.0, 7.0)  # so many deviations make a change of speed: from possible to certain
TOKENS = (0.7, 0.4, 1.3)  # how tokens grow with a prompt's size: usual exponent, +-, most
SECONDS = (0.75, 0.4, 2.5)  # the same for seconds: long contexts cost more than their tokens


# ------------------------------------------------------------------------- a change of speed


class Change(NamedTuple):
    """The speed stepped by `step` (a logarithm) `since` seconds ago."""

    step: float
    whole: float  # the newer speed against that of the whole dataset
    since: float
    before: float  # seconds that the older speed held
    clear: float  # 0 to 1: how far it stands out of the noise

    def belief(self, horizon: float) -> float:
        """Say how much of the change to expect for the `horizon`: what is young may pass."""
        return self.clear * self.since / (self.since + 0.5 * min(self.before, horizon) + 1e-9)


class Step(NamedTuple):
    """A piece of the course: logarithm of its speed, its work and its seconds."""

    level: float
    work: float
    seconds: float


@lru_cache(64)  # what is done does not change any more
def change(part: Part) -> Change | None:
    """Find the one clear step in a dataset's speed."""
    steps = _steps(part)
    if len(steps) < 6:
        return None
    levels = [step.level for step in steps]
    noise = [abs(b - a) for a, b in pairwise(levels)]
    deviation = 1.25 * max(0.03, _median(noise) / 0.954)
    split = _split(levels)
    rest = len(levels) - split
    difference = _median(levels[split:]) - _median(levels[:split])
    certain = abs(difference) / (deviation * math.sqrt(1 / split + 1 / rest))
    clear = (certain - CLEAR[0]) / (CLEAR[1] - CLEAR[0])
    clear = min(1.0, clear, (abs(difference) - 0.1) / 0.1)
    if clear <= 0:
        return None
    since, seconds = sum(s.seconds for s in steps[split:]), sum(s.seconds for s in steps)
    whole = _median(levels[split:]) - math.log(sum(s.work for s in steps) / seconds)
    return Change(difference, whole, since, seconds - since, clear)


def _split(levels: Sequence[float]) -> int:
    """Choose where the two sides differ most; medians of three keep single pauses out."""
    padded = [levels[0], *levels, levels[-1]]
    smooth = [sorted(padded[i : i + 3])[1] for i in range(len(levels))]
    total, left, best, strength = sum(smooth), sum(smooth[:2]), 3, -1.0
    for i in range(3, len(levels) - 2):
        left += smooth[i - 1]
        rest = len(levels) - i
        found = abs((total - left) / rest - left / i) / math.sqrt(1 / i + 1 / rest)
        if found > strength:
            best, strength = i, found
    return best


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def _steps(part: Part) -> list[Step]:
    """Cut the course into steps of enough requests, without its first and last, which are few."""
    width = max(part.finished / 30, 2 * math.sqrt(part.batch))
    known = all(mark.tokens is not None for mark in part.marks)
    prompt = SHARE * part.prompt
    result: list[Step] = []
    old: Mark | None = None
    for mark in part.marks:
        if old is None:
            old = mark if mark.done >= min(part.batch, width) else None
            continue
        if mark.done > part.total - part.batch:
            break
        work, seconds = mark.done - old.done, mark.seconds - old.seconds
        if work < width or seconds <= 0 or mark.error + old.error > 0.3 * seconds:
            continue
        if known:
            tokens = mark.done * (mark.tokens or 0.0) - old.done * (old.tokens or 0.0)
            work = max(work, tokens + prompt * work)
        result.append(Step(math.log(work / seconds), work, seconds))
        old = mark
    return result


# -------------------------------------------------------------------- a file sorted by length


class Order(NamedTuple):
    """The done and the coming part of a sorted file, each against the mean of the whole."""

    tokens_done: float
    seconds_done: float
    seconds_ahead: float


class Sight(NamedTuple):
    """A piece of the course: logarithms of size, tokens and seconds of a request; their noise."""

    size: float
    tokens: float | None
    seconds: float
    noise: float


def order(part: Part) -> Order | None:
    """Describe the rest of a running dataset, if its file is sorted."""
    sizes, begin = part.deciles, part.begin
    if part.status != "running" or not part.finished or not part.left or not _sorted(sizes):
        return None
    here = begin + (1 - begin) * part.finished / part.total
    sights = _sights(part)
    tokens = _grown(sizes, [(s.size, s.tokens, s.noise) for s in sights], TOKENS)
    seconds = _grown(sizes, [(s.size, s.seconds, s.noise) for s in sights], SECONDS)
    return Order(
        _mean(tokens, begin, here) / _mean(tokens, 0.0, 1.0),
        _mean(seconds, begin, here) / _mean(seconds, begin, 1.0),
        _mean(seconds, here, 1.0) / _mean(seconds, begin, 1.0),
    )


def _sorted(sizes: Sequence[float]) -> bool:
    if len(sizes) < 5 or min(sizes) < 1 or max(sizes) < 1.4 * min(sizes):
        return False
    return list(sizes) in (sorted(sizes), sorted(sizes, reverse=True))


def _mean(values: Sequence[float], start: float, end: float) -> float:
    """Average a step function over a share of the file."""
    count = len(values)
    start = min(start, 1 - 1e-6)
    end = min(1.0, max(end, start + 1e-6))
    pieces = (max(0.0, min(end, (i + 1) / count) - max(start, i / count)) for i in range(count))
    return sum(v * piece for v, piece in zip(values, pieces, strict=True)) / (end - start)


def _sights(part: Part) -> list[Sight]:
    width, share = max(part.finished / 12, 10.0), (1 - part.begin) / part.total
    result: list[Sight] = []
    old: Mark | None = None
    for mark in part.marks:
        if mark.done < 2 * part.batch:  # the first to finish are the short ones
            continue
        if old is None:
            old = mark
            continue
        requests, seconds = mark.done - old.done, mark.seconds - old.seconds
        error = mark.error + old.error
        if requests < width or seconds <= 0 or error > 0.5 * seconds:
            continue
        start, end = part.begin + share * old.done, part.begin + share * mark.done
        tokens = None
        if mark.tokens is not None and old.tokens is not None:
            mean = (mark.done * mark.tokens - old.done * old.tokens) / requests
            tokens = math.log(max(1.0, mean))
        size, noise = _mean(part.deciles, start, end), 0.02 + 1 / requests + (error / seconds) ** 2
        result.append(Sight(math.log(size), tokens, math.log(seconds / requests), noise))
        old = mark
    return result


def _grown(
    sizes: Sequence[float],
    points: Sequence[tuple[float, float | None, float]],
    expected: tuple[float, float, float],
) -> list[float]:
    """Fit y = size ** exponent around what is usual, and say it for each tenth of the file."""
    usual, spread, most = expected
    top, bottom = usual / spread**2, 1 / spread**2
    known = [(x, y, 1 / noise) for x, y, noise in points if y is not None]
    if known:
        total = sum(w for _, _, w in known)
        x0, y0 = sum(w * x for x, _, w in known) / total, sum(w * y for _, y, w in known) / total
        top += sum(w * (x - x0) * (y - y0) for x, y, w in known)
        bottom += sum(w * (x - x0) ** 2 for x, _, w in known)
    exponent = min(most, max(0.0, top / bottom))
    return [(size / max(sizes)) ** exponent for size in sizes]
