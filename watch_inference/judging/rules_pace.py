"""A case in, what its speed, its errors and its answers say out: rules of diagnosis; pure."""

from __future__ import annotations

import re
from itertools import pairwise
from math import log
from typing import NamedTuple

from watch_inference import units
from watch_inference.folding import rhythm
from watch_inference.judging.case import Case
from watch_inference.judging.verdict import Standing, Verdict
from watch_inference.model import DatasetProgress, LogLine, Point, State

# A fall is named when it is this deep, has lasted so long, and chance does not explain it.
_HALF, _LASTED_S, _LEAST_BEFORE, _CLEAR = 0.5, 120.0, 20, 10.0
# Errors are named from so many, at such a share of the newest requests.
_FEW_ERRORS, _SHARE, _TIMES = 10, 0.05, 3.0
_WHOLE_SHARE = 0.2
# Of the newest answers: so long is near the end of the room, so short is nothing.
_NEAR_MOST, _NEAR_NONE = 0.9, 3.0
_MAX_TOKENS = re.compile(r"(?i)\bmax[-_](?:new[-_]|completion[-_])?tokens[= ]+(\d{1,7})\b")
_LAST_ANSWERS_S = 30.0


class Fall(NamedTuple):
    """Throughput before and after a time, requests a second."""

    before: float
    after: float
    at: float


def fell(case: Case, standing: Standing) -> Verdict | None:
    """Say that the throughput is less than half of what it was, from when to when."""
    one = case.current
    if standing.state is not State.RUNNING or one is None or case.phase != rhythm.STEADY:
        return None
    fall = _fall(one.points, case.sample.at, _at_once(one))
    if fall is None:
        return None
    now, ago = case.sample.wall, case.sample.at - fall.at
    return Verdict(
        f"throughput fell from {units.rate(fall.before)} to {units.rate(fall.after)} req/s "
        f"{units.age(ago)} ago ({units.clock(now - ago, now)})",
        "slow, not stuck: longer prompts, or another client on its server?",
    )


def _at_once(one: DatasetProgress) -> float:
    """Say how many requests come together: a line or a write of so many is one piece of news."""
    if one.done_from == "logged" and one.log is not None:
        return float(max(one.log.step, 1))
    return float(max(1, min(one.largest_write, 1000)))


def _fall(points: tuple[Point, ...], now: float, at_once: float) -> Fall | None:
    """Find the time that splits the course best into a faster and a slower part."""
    if len(points) < 8 or now - points[0].at < 3 * _LASTED_S:
        return None
    first, last = points[0], points[-1]
    found, best = None, _CLEAR
    whole = _likelihood(last.done - first.done, now - first.at, at_once)
    for point in points[2:-1]:
        early, late = point.done - first.done, last.done - point.done
        before, after = point.at - first.at, now - point.at
        if after < _LASTED_S or before < _LASTED_S or early < _LEAST_BEFORE:
            continue
        if late >= _HALF * early / before * after:
            continue
        awake = after - _longest_gap([one for one in points if one.at >= point.at], now)
        if late >= _HALF * early / before * awake:
            continue  # one pause, however long, is no slower pace
        gain = _likelihood(early, before, at_once) + _likelihood(late, after, at_once) - whole
        if gain > best:
            found, best = Fall(early / before, late / after, point.at), gain
    return found


def _longest_gap(points: list[Point], now: float) -> float:
    """Find the longest time without a request."""
    moves = [new.at for old, new in pairwise(points) if new.done > old.done]
    return max(new - old for old, new in pairwise([points[0].at, *moves, now]))


def _likelihood(requests: int, seconds: float, at_once: float) -> float:
    """Take the logarithm of how likely arrivals at one steady rate would be (Poisson)."""
    pieces = requests / at_once
    return pieces * log(pieces / seconds) if pieces > 0 and seconds > 0 else 0.0


def errors_rise(case: Case, standing: Standing) -> Verdict | None:
    """Say that a larger share of the newest requests fails."""
    one = case.current
    newest = _newest(one, 0.2)
    if one is None or one.log is None or newest is None:
        return None
    old, new = newest
    failed, requests = new.errors - old.errors, new.done - old.done
    if failed < _FEW_ERRORS:
        return None
    share, before = _share(failed, requests), _share(old.errors, old.done)
    advice = "look at the log at its newest error (e), and at the server's log"
    if requests <= 0 or (failed >= requests and share > 0.95):
        return Verdict(f"nothing but errors: the last {failed:,} requests of {one.name}", advice)
    if share < _SHARE or (share < _TIMES * before and share < _WHOLE_SHARE):
        return None
    return Verdict(
        f"{one.name}: {units.percent(share, 0)} of the last {max(requests, failed):,} requests "
        f"failed, {units.percent(before, 0)} before",
        advice,
    )


def _share(failed: int, requests: int) -> float:
    # Some logs count the failed ones as done, some do not.
    return failed / max(requests, failed, 1)


def _newest(one: DatasetProgress | None, share: float) -> tuple[LogLine, LogLine] | None:
    """Pick two lines between which the newest requests lie: at least such a share of all."""
    lines = one.log.lines if one is not None and one.log is not None else ()
    if len(lines) < 2:
        return None
    new = lines[-1]
    older = [line for line in lines[:-1] if line.done <= (1 - share) * new.done]
    return (older[-1] if older else lines[0]), new


def odd_answers(case: Case, standing: Standing) -> Verdict | None:
    """Say that the newest answers are as long as allowed, or hold next to nothing."""
    one, newest = case.current, _newest(case.current, 0.3)
    if one is None or newest is None:
        return None
    tokens = _tokens(*newest)
    if tokens is None:
        return None
    # Each mean is rounded to a token: what is left of it between two lines is not exact.
    blur = 0.5 * (newest[0].done + newest[1].done) / max(1, newest[1].done - newest[0].done)
    if tokens + blur <= 10.0 and tokens <= _NEAR_NONE + blur:
        return Verdict(
            f"{one.name}: the newest answers have {max(0.0, tokens):.0f} tokens each: "
            "next to nothing",
            "look at the newest output lines: empty answers, a refused prompt, a wrong template?",
        )
    most = _max_tokens(case)
    if most is not None and tokens >= _NEAR_MOST * most:
        return Verdict(
            f"{one.name}: the newest answers have {tokens:,.0f} tokens each, "
            f"as many as allowed ({most:,})",
            "they are cut off or loop: look at the newest output lines and at finish_reason",
        )
    return None


def _tokens(old: LogLine, new: LogLine) -> float | None:
    """Work out the mean tokens of the requests between two lines from the means up to each."""
    if new.completion_tokens is None:
        return None
    if old.completion_tokens is None or new.done <= old.done:
        return new.completion_tokens
    sums = new.completion_tokens * new.done - old.completion_tokens * old.done
    return sums / (new.done - old.done)


def _max_tokens(case: Case) -> int | None:
    """Find the most tokens an answer may have: in a command line, or the log's newest lines."""
    for one in case.alive:
        if one.command and (found := _MAX_TOKENS.search(one.command)):
            return int(found[1])
    lines = case.log.tail if case.log is not None else ()
    said = [found for line in lines if (found := _MAX_TOKENS.search(line))]
    return int(said[-1][1]) if said else None


def last_answers(case: Case, standing: Standing) -> Verdict | None:
    """Say that a dataset's last answers are waited for: the longest come last."""
    one, silence = case.current, case.silence_s
    if standing.state is not State.RUNNING or one is None or case.phase != rhythm.DRAIN:
        return None
    if silence is None or silence < _LAST_ANSWERS_S or not one.unfinished:
        return None
    left = one.unfinished
    which = "the last answer" if left == 1 else f"the last {left:,} answers"
    return Verdict(
        f"{one.name}: {which} to come, none for {units.age(silence)}: "
        "the longest of a dataset come last"
    )


def own_eta(case: Case, standing: Standing) -> Verdict | None:
    """Name the job's own printed figure, where it is far from ours."""
    said, one = case.own_eta_s, case.current
    if said is None or one is None or standing.state is not State.RUNNING:
        return None
    line_age = 0.0
    if one.log is not None and one.log.updated_at is not None:
        line_age = case.sample.at - one.log.updated_at
    own = max(0.0, said - line_age)
    # A job prints what is left of the dataset, or of all: it is right if either is near.
    whose = (dict(case.forecast.datasets).get(one.name), case.forecast.remaining_s)
    ours = [seconds for seconds in whose if seconds is not None]
    if not ours or any(_near(own, seconds) for seconds in ours):
        return None
    return Verdict(
        f"the job's own ETA was {units.duration(said)}, we expect {units.duration(ours[0])} "
        f"for {one.name}",
        aside=True,
    )


def _near(own: float, ours: float) -> bool:
    return abs(ours - own) <= max(own, ours) / 3 or max(own, ours) < 60
