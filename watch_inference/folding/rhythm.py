"""How often work moves in, how long a silence may last out; touches nothing.

One notion of a gap for all: the stall limit is twice the expected gap, and what is expected depends
on the phase. A gap is taken from what the job did; before it has done anything while we watched,
from the log's own figures: 150 requests at 0.7 a second make a line every 3.5 min.
"""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

from watch_inference.model import DatasetProgress, Pause, Progress, Rhythm

OPENING, STEADY, DRAIN = "opening", "steady", "drain"

# No limit is shorter: a person is not woken for less.
_LEAST_S = 60.0
# A distance of two looks beyond this, and ten times the usual, is time the monitor slept.
_SLEPT_S = 30.0
# Before anything is known of the rhythm: a long answer of a slow model may take so long.
_UNKNOWN_S = 300.0
# Before a dataset's first request: load, tokenise, connect, and wait for the first long answer.
_OPENING_S = 300.0
# A rhythm that was seen so often is believed alone; before, what the log says holds too.
_SEEN, _SURE, _YOUNG_LINES = 4, 10, 2
_COARSE = 0.3  # requests a second, below which one decimal is no figure
# Gaps of independent requests spread as much as their mean: five deviations are seldom passed.
_DEVIATIONS = 5.0
# A gap of so many usual ones, and so long, is no part of the rhythm but a pause in it.
_PAUSE, _PAUSE_S, _KEPT_PAUSES = 8.0, 30.0, 6
_FADING = 0.9995  # of the longest gap, each time that work moves
# A request takes (requests in flight / rate); the longest answers many times the mean.
_IN_FLIGHT, _LONGEST, _FEW, _MOST_TOKENS = 64.0, 15.0, 12.0, 65536.0
_RATED_S = 20.0  # what was watched for so long has a rate


def beat(
    before: Progress | None, moved: bool, at: float, wall_moved: float | None, age_s: float | None
) -> Rhythm:
    """Fold one look into the rhythm: `moved` says whether work advanced since the look before.

    `wall_moved`: when it did, Unix time; `age_s`: how old the files were at the first look.
    """
    if before is None:
        return Rhythm(moved=wall_moved, file_age_s=age_s)
    old = before.rhythm
    if not moved:
        return old
    now = old._replace(moved_at=at, moved=wall_moved, moves=old.moves + 1)
    # Where the monitor itself slept, the gap is not known.
    if old.moved_at is None or before.asleep_s > 0 or slept(before, at):
        return now
    gap, when = at - old.moved_at, phase(before)
    if when == OPENING:
        return now._replace(opening=max(old.opening, gap))
    if when == DRAIN and gap > (old.expected or 0.0):
        return now  # the last answers come slowly: that says nothing of the next dataset
    if _is_pause(old, gap):
        return now._replace(pauses=(*old.pauses, Pause(at, gap))[-_KEPT_PAUSES:])
    return _learnt(now, gap)


def slept(before: Progress, at: float) -> bool:
    """Tell whether the monitor itself did not run since the look before."""
    usual = before.tick_s
    return usual is not None and at - before.at > max(_SLEPT_S, 10 * usual)


def _is_pause(old: Rhythm, gap: float) -> bool:
    """Tell a pause from a rhythm that has changed: then the gap before was as long."""
    if old.expected is None or gap < max(_PAUSE_S, _PAUSE * old.expected):
        return False
    return not (old.pauses and old.pauses[-1].at == old.moved_at)


def _learnt(now: Rhythm, gap: float) -> Rhythm:
    if now.expected is None:
        return now._replace(expected=gap, longest=gap)
    weight = max(0.05, 1 / now.moves)
    off = gap - now.expected
    variance = (1 - weight) * (now.spread**2 + weight * off * off)
    return now._replace(
        expected=now.expected + weight * off,
        spread=sqrt(variance),
        longest=max(gap, _FADING * (now.longest or 0.0)),
    )


# ----------------------------------------------------------------------------- what is expected


def stall_limit(progress: Progress, stall_after: float | None) -> float:
    """Say how long work may stand still, in seconds, before the job counts as stalled."""
    if stall_after is not None:
        return stall_after
    return max(_LEAST_S, 2 * expected_gap(progress))


def expected_gap(progress: Progress) -> float:
    """Say how long a silence may be now and be nothing to speak of, in seconds."""
    current, when = current_dataset(progress), phase(progress)
    gap = max(_usual(progress, current), 0.8 * _pause(progress.rhythm, progress.at))
    if when == OPENING:
        return max(gap, _OPENING_S, progress.rhythm.opening, _first_line(progress, current))
    if current is None:
        return gap
    return max(gap, _drain(current, progress.tick_s or 0.0))


def phase(progress: Progress) -> str:
    """Say where in a dataset the job is: before its first request, at its last ones, or between."""
    current = current_dataset(progress)
    if current is None:
        return STEADY
    finished = (current.done or 0) - current.resumed + current.missing_errors
    if finished <= 0 or current.unfinished == 0:
        return OPENING
    left = current.unfinished
    return DRAIN if left is not None and left <= 2 * _in_flight(current) else STEADY


def line_gap(progress: Progress) -> float | None:
    """Say how far apart the log's progress lines usually are, in seconds."""
    current = current_dataset(progress)
    entry = current.log if current is not None else None
    if entry is None or not entry.rate or not entry.step:
        return None
    return entry.step / entry.rate


def current_dataset(progress: Progress) -> DatasetProgress | None:
    """Pick the dataset at work."""
    return next((one for one in progress.datasets if one.name == progress.current), None)


def log_alone(progress: Progress) -> bool:
    """Tell whether work shows in the log only: then it moves a line at a time."""
    return any(one.done_from == "logged" for one in progress.datasets if one.in_job)


def _usual(progress: Progress, current: DatasetProgress | None) -> float:
    """Say the expected gap in the middle of a dataset: as seen, else as the log's figures say."""
    beat, told = progress.rhythm, _told(current)
    if beat.moves < _SEEN or beat.expected is None:
        return told or _from_files(progress, current) or _UNKNOWN_S
    seen = max(beat.longest or 0.0, beat.expected + _DEVIATIONS * beat.spread)
    if log_alone(progress) and current is not None and current.log is not None:
        # Short answers come first: the first lines of a dataset promise more than it keeps.
        young = len(current.log.lines) <= _YOUNG_LINES
        return max(seen, (1.5 if young else 1.0) * (told or 0.0))
    return max(seen, told or 0.0) if beat.moves < _SURE else seen


def _told(current: DatasetProgress | None) -> float | None:
    """Say how far apart the log's own figures put its lines, in seconds; None if they do not."""
    entry = current.log if current is not None else None
    if entry is None or entry.of_earlier_run:
        return None
    step = entry.step or entry.first or 1
    by_end = None
    if entry.eta_s and entry.total is not None and entry.total > entry.done:
        by_end = (entry.total - entry.done) / entry.eta_s
    if not entry.rate:
        return step / by_end if by_end else None
    # One decimal is printed: 0.1 may be 0.05, and what is left by its end time tells better.
    if by_end is not None and entry.rate < _COARSE and abs(by_end - entry.rate) <= 0.06:
        return step / by_end
    return step / max(entry.rate - 0.03, entry.rate / 2)


def _from_files(progress: Progress, current: DatasetProgress | None) -> float | None:
    """Say from the files' times alone how far apart moves may be: nobody knows their bursts."""
    if current is None or current.modified is None or progress.started is None:
        return None
    finished = (current.done or 0) - current.resumed
    seconds = current.modified - (current.started or progress.started)
    return max(_UNKNOWN_S / 2, 2 * seconds / finished) if finished > 0 and seconds > 0 else None


def _first_line(progress: Progress, current: DatasetProgress | None) -> float:
    """Say how long a log alone may be silent about a new dataset, whose prompts may be longer."""
    usual = progress.rhythm.expected
    if usual is None or not log_alone(progress):
        return 0.0
    ended = [one for one in progress.datasets if one.in_job and one.ended is not None]
    before, now = _prompt_bytes(ended[-1] if ended else None), _prompt_bytes(current)
    # Longer prompts cost more, but far from as much as they are longer.
    longer = sqrt(now / before) if before and now else 2.0
    return usual * min(8.0, max(2.0, longer))


def _prompt_bytes(one: DatasetProgress | None) -> float | None:
    return one.prompts_bytes / one.total if one and one.prompts_bytes and one.total else None


def _drain(current: DatasetProgress, tick_s: float) -> float:
    """Say how long the next answer may take, with so few left: the longest come last.

    At 0.7 requests a second with 64 in flight a request takes 91 s, and the longest of all many
    times that; with 64 still to come the next one is soon there, with one left it is that one.
    """
    rate, left = _rate(current), current.unfinished
    if not rate or left is None or not current.total:
        return 0.0
    if current.done_from == "logged" and current.log is not None:
        left = max(0, left - max(current.log.step, 1))  # the next line is a whole step away
    else:
        # What comes between two looks at its usual rate is no batch.
        left = max(0, left - max(0, current.largest_write - int(3 * rate * tick_s)))
    tokens = current.completion_tokens or 0.0
    longest = min(_LONGEST, max(3.0, _MOST_TOKENS / tokens)) if tokens else _LONGEST
    return longest * _in_flight(current) / rate / (1 + left / _FEW) / 2


def _rate(current: DatasetProgress) -> float | None:
    """Say how many requests a second came up to the newest one, not since: waiting is no news."""
    points = current.points
    moved = next((one for one in points if one.done == points[-1].done), None)
    if moved is not None and moved.at - points[0].at >= _RATED_S:
        return (moved.done - points[0].done) / (moved.at - points[0].at)
    return current.log.rate if current.log is not None else current.requests_per_s


def _in_flight(current: DatasetProgress) -> float:
    """Guess how many requests the server works on at once."""
    total = float(current.total or 2 * _IN_FLIGHT)
    return min(float(current.concurrency or _IN_FLIGHT), _IN_FLIGHT, max(1.0, total / 2))


def _pause(beat: Rhythm, at: float) -> float:
    """Say how long a pause is that has come more than once; one alone may have been a stall."""
    pauses = beat.pauses
    if len(pauses) < 2:
        return 0.0
    apart = (pauses[-1].at - pauses[0].at) / (len(pauses) - 1)
    if at - pauses[-1].at > 600.0 + 3 * apart:
        return 0.0
    lengths = sorted((one.seconds for one in pauses), reverse=True)
    again = (long for long, next_ in pairwise(lengths) if next_ >= long / 2)
    return next(again, 0.0)
