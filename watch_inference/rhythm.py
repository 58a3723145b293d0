"""How often work moves in, how long a silence may last out; touches nothing.

One notion of a gap for all: the stall limit here, the forecast's silence, the views' line gap.
"""

from __future__ import annotations

from watch_inference.model import DatasetProgress, Progress, Rhythm

# No limit is shorter: a person is not woken for less.
_LEAST_S = 60.0
# Before anything is known of the rhythm: a long answer of a slow model may take so long.
_UNKNOWN_S = 600.0
# A request takes (requests in flight / rate); the longest answers many times the mean.
_IN_FLIGHT = 64
_LONGEST = 15.0


def beat(before: Rhythm | None, moved: bool, at: float, wall_moved: float | None) -> Rhythm:
    """Fold one look into the rhythm: `moved` says whether work advanced since the look before."""
    if before is None:
        return Rhythm(moved=wall_moved)
    if not moved:
        return before
    if before.moved_at is None:
        return before._replace(moved_at=at, moved=wall_moved, moves=1)
    gap = at - before.moved_at
    mean = gap if before.expected is None else before.expected + 0.1 * (gap - before.expected)
    return Rhythm(
        expected=mean,
        longest=max(gap, before.longest or 0.0),
        moved_at=at,
        moved=wall_moved,
        moves=before.moves + 1,
    )


def expected_gap(progress: Progress) -> float | None:
    """Say how far apart two moves of this job usually are, in seconds; None if nothing tells."""
    if progress.rhythm.moves >= 3 and progress.rhythm.expected is not None:
        return progress.rhythm.expected
    current = _current(progress)
    if current is None:
        return None
    entry = current.log
    if entry is None or not entry.rate:
        return None
    # Outputs move with each request, a log alone with each line.
    return (1.0 if current.done_from != "logged" else float(max(entry.step, 1))) / entry.rate


def line_gap(progress: Progress) -> float | None:
    """Say how far apart the log's progress lines usually are, in seconds."""
    current = _current(progress)
    entry = current.log if current is not None else None
    if entry is None or not entry.rate or not entry.step:
        return None
    return entry.step / entry.rate


def stall_limit(progress: Progress, stall_after: float | None) -> float:
    """Say how long work may stand still, in seconds, before the job counts as stalled."""
    if stall_after is not None:
        return stall_after
    expected = expected_gap(progress)
    if expected is None:
        return _UNKNOWN_S
    limit = max(_LEAST_S, 8 * expected, 2 * (progress.rhythm.longest or 0.0))
    current = _current(progress)
    rate = current.requests_per_s if current is not None else None
    if current is None or rate is None or rate <= 0:
        return limit
    left = current.unfinished
    if left is not None and current.total and left <= max(2 * _IN_FLIGHT, current.total // 50):
        # The last long answers of a dataset: nothing new starts, and the longest come last.
        limit = max(limit, _LONGEST * min(_IN_FLIGHT, current.total) / rate)
    return limit


def _current(progress: Progress) -> DatasetProgress | None:
    return next((one for one in progress.datasets if one.name == progress.current), None)
