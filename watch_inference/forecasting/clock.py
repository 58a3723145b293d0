"""One dataset's lines and times in, its active seconds out: the clock of the forecast, pure.

Watched, the seconds are our own. On a first look at a job that has run for hours they are hidden in
the log's rounded figures: `150 done at 0.7 req/s` means 200 to 231 s, and `ETA=4.0h` narrows it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from watch_inference.model import LogLine, ObservedDataset, Point

MANY = 2000  # looks; older ones say nothing of the running dataset
MOST = 1e12  # no count, size or time beyond this is believed
STEPS_RUNNING, STEPS_DONE = 50, 20  # so closely is a dataset's course looked at
ROUNDING = 0.1  # two figures of a log contradict each other only by more than this


class Mark(NamedTuple):
    """So many requests had finished after so many seconds, give or take `error`."""

    done: float
    seconds: float
    error: float = 0.0
    tokens: float | None = None  # mean completion tokens up to here


class Span(NamedTuple):
    """The seconds in which `counted` requests finished; `whole`: from the dataset's start."""

    seconds: float
    counted: float
    ended: float  # when the last request came
    whole: bool = True
    blur: float = 0.0  # how unsure the seconds are, as a share of them
    marks: tuple[Mark, ...] = ()


class Setting(NamedTuple):
    """What bounds a dataset's start: the clock, the process, and the dataset before."""

    now: float
    process_started: float | None = None
    earliest: float | None = None  # before this it cannot have begun
    wait: float = 0.0  # and it begins about so much later
    points: tuple[Point, ...] = ()  # the job's requests, as we saw them come
    others: float = 0.0  # so many of them were of other datasets

    @property
    def looks(self) -> list[tuple[float, float]]:
        """The dataset's own requests, as we saw them come: when, and how many."""
        known = ((number(p.at, high=self.now), number(p.done, 0.0)) for p in self.points[-MANY:])
        return [
            (at, done - self.others)
            for at, done in known
            if at is not None and done is not None and done >= self.others
        ]


def number(value: float | None, low: float = -MOST, high: float = MOST) -> float | None:
    """Believe a number from outside only where it is one, and within reason."""
    if value is None or value != value:
        return None
    return low if value < low else high if value > high else float(value)


def last_moved(dataset: ObservedDataset, setting: Setting) -> float | None:
    """Find when the dataset's last known request came."""
    times = [dataset.ended]
    if dataset.ended is None:
        times = [dataset.output_at, *(line.at for line in dataset.lines[-1:])]
    known = [at for time in times if (at := number(time, high=setting.now)) is not None]
    if not known:  # our looks are rarer than a file's changes
        known = [look.seconds for look in _moves(setting)]
    return max(known, default=None)


def span(dataset: ObservedDataset, finished: float, setting: Setting) -> Span | None:
    """Work out in how many seconds the dataset's requests finished; None where nothing tells."""
    end = last_moved(dataset, setting)
    end = setting.now if end is None else end
    first = bisect_left(dataset.lines, True, key=lambda line: line.at is not None)
    untimed, timed = dataset.lines[:first], dataset.lines[first:]
    before = _before(dataset)
    steps = STEPS_DONE if dataset.status == "done" else STEPS_RUNNING
    seen = _course(timed, steps, before, end)
    if len(seen) < 8:
        seen = _moves(setting)
    started, blur = number(dataset.started, high=end), 0.0
    if started is None:
        bounds = _bounds(untimed, timed, before, finished, end, setting)
        elapsed = _elapsed(bounds, end, setting)
        if elapsed is None:
            return _watched_only(seen, finished, end)
        started, blur = end - elapsed[0], min(1.0, elapsed[1] / elapsed[0])
    seconds = max(end - started, 1e-3)
    marks = [Mark(m.done, m.seconds - started, m.error, m.tokens) for m in seen]
    if not seen:
        marks = [mark for mark in (_told(line, before) for line in _few(untimed, steps)) if mark]
    tokens = number(dataset.lines[-1].completion_tokens, 0.0) if dataset.lines else None
    marks.append(Mark(finished, seconds, 0.0, tokens))
    return Span(seconds, finished, end, True, blur, tuple(marks))


def _before(dataset: ObservedDataset) -> float:
    """Tell what the lines' counts hold of earlier runs: some logs count all that is there."""
    whole = bool(dataset.lines) and dataset.lines[-1].total == dataset.prompts
    return (number(dataset.resumed, 0.0) or 0.0) if whole else 0.0


def _few(lines: tuple[LogLine, ...], steps: int) -> list[LogLine]:
    places = range(0, len(lines), -(-len(lines) // steps) or 1)
    return [lines[i] for i in dict.fromkeys(_settled(lines, i) for i in places)]


def _settled(lines: tuple[LogLine, ...], i: int) -> int:
    """Go on to the last line that was seen at the same look: the others had come before it."""
    at = lines[i].at
    while at is not None and i + 1 < len(lines) and lines[i + 1].at == at:
        i += 1
    return i


# ----------------------------------------------------------------------- seen with our own eyes


@lru_cache(64)  # of what is done the same is asked at every look
def _course(lines: tuple[LogLine, ...], steps: int, before: float, end: float) -> tuple[Mark, ...]:
    marks = (_seen(line, before, end) for line in _few(lines, steps))
    return tuple(mark for mark in marks if mark is not None)


def _seen(line: LogLine, before: float, end: float) -> Mark | None:
    """Keep when a line came; the seconds of these marks are times of the clock."""
    at, done = number(line.at, high=end), (number(line.done) or 0.0) - before
    if at is None or done <= 0:
        return None
    return Mark(done, at, 0.0, number(line.completion_tokens, 0.0))


def _moves(setting: Setting) -> tuple[Mark, ...]:
    moves = [new for old, new in pairwise(setting.looks) if new[1] > old[1]]
    few = moves[:: -(-len(moves) // STEPS_RUNNING) or 1]
    return tuple(Mark(done, at) for at, done in few if done)


def _watched_only(seen: Sequence[Mark], finished: float, end: float) -> Span | None:
    """Measure from the first thing that we saw ourselves: what was there before has no time."""
    if not seen or finished <= seen[0].done or end <= seen[0].seconds:
        return None
    first = seen[0]
    marks = [Mark(m.done - first.done, m.seconds - first.seconds) for m in seen[1:]]
    return Span(end - first.seconds, finished - first.done, end, False, 0.0, tuple(marks))


# ---------------------------------------------------------------------------- the log's own clock


def _bounds(
    untimed: tuple[LogLine, ...],
    timed: tuple[LogLine, ...],
    before: float,
    finished: float,
    end: float,
    setting: Setting,
) -> tuple[float, float]:
    """Bound the seconds up to `end` by what a few lines say."""
    low, high = 0.0, MOST
    places = {0, len(timed) // 2, len(timed) - 1} if timed else set()
    for line in (*untimed[-1:], *(timed[i] for i in {_settled(timed, i) for i in places})):
        told = _told(line, before)
        if told is None:
            continue
        at, share = number(line.at, high=end), 1.0
        if at is None:  # it was old when we came: the files were ahead of it by then
            first_at, first = next(iter(setting.looks), (end, 0.0))
            at = min(first_at, end) if first >= told.done else end
            share = (first if at != end else finished) / told.done
        more = end - (end if at is None else at)
        low = max(low, (told.seconds - told.error) * share + more)
        high = min(high, (told.seconds + told.error) * share + more)
    return low, high


def _elapsed(
    bounds: tuple[float, float], end: float, setting: Setting
) -> tuple[float, float] | None:
    """Settle the seconds up to `end`, and their error, within the bounds."""
    low, high = bounds
    if low > high * (1 + ROUNDING):
        return None  # the log's clock is not ours
    since = None if setting.earliest is None else max(0.0, end - setting.earliest)
    if high >= MOST:  # the log says nothing: from the dataset before, or the process's start
        if not since:
            return None
        wait = min(setting.wait, 0.5 * since)
        return max(since - wait, 1e-3), wait
    seconds = (low + high) / 2 if since is None else min(max(since - setting.wait, low), high)
    # More seconds than the process has lived: an earlier run's requests are in the count.
    if setting.process_started is not None:
        life = end - setting.process_started
        seconds = min(seconds, life) if low <= (1 + ROUNDING) * life else seconds
    return max(seconds, 1e-3), abs(high - low) / 4


@lru_cache(2048)  # the same lines are asked at every look
def _told(line: LogLine, before: float) -> Mark | None:
    """Say how many seconds the dataset had run at this line, by its rounded figures."""
    done, low, high = (number(line.done) or 0.0) - before, 0.0, MOST
    if done <= 0:
        return None
    rate, eta, total = number(line.rate), number(line.eta_s), number(line.total)
    if rate is not None and rate >= 0:
        half = 0.05 if _rounded(rate * 10) else 0.005
        low = done / (rate + half)
        high = done / (rate - half) if rate > half else MOST
    left = 0.0 if total is None else total - before - done
    if eta is not None and eta >= 0 and left > 0:
        half = 180.0 if _rounded(eta / 360) else 30.0 if _rounded(eta / 60) else 1.0
        least, most = max(0.0, eta - half) * done / left, (eta + half) * done / left
        if least <= high and most >= low:
            low, high = max(low, least), min(high, most)
    if high >= MOST:
        return None
    return Mark(done, (low + high) / 2, (high - low) / 2, number(line.completion_tokens, 0.0))


def _rounded(value: float) -> bool:
    return abs(value - round(value)) < 1e-6
