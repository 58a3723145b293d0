"""Progress in, what the forecast may look at out; touches nothing."""

from __future__ import annotations

from watch_inference.model import (
    DatasetProgress,
    Observed,
    ObservedDataset,
    Progress,
    State,
)

_STATUS = {State.FINISHED: "done", State.RUNNING: "running", State.STALLED: "running"}
# A start is known to one look: of what is not so many looks old, other clues tell more.
_LOOKS = 10


def observed(progress: Progress) -> Observed:
    """Translate progress for the forecast; clock times become times of the monotonic clock."""
    offset = progress.at - progress.wall
    beat = progress.rhythm
    return Observed(
        now=progress.at,
        datasets=tuple(
            _dataset(one, offset, progress.tick_s or 0.0) for one in progress.datasets if one.in_job
        ),
        process_started=_moved(progress.started, offset),
        points=progress.points,
        moved_at=beat.moved_at if beat.moved_at is not None else _moved(beat.moved, offset),
    )


def _dataset(one: DatasetProgress, offset: float, tick_s: float) -> ObservedDataset:
    finished = max(0, (one.done or 0) - one.resumed) + one.missing_errors
    entry = one.log
    started, ended = _moved(one.started, offset), _moved(one.ended, offset)
    modified = _moved(one.modified, offset)
    output_at = _finer(one.changed_at, modified, tick_s)
    if started is not None and (output_at is None or output_at - started < _LOOKS * tick_s):
        started = None
    return ObservedDataset(
        name=one.name,
        status=_STATUS.get(one.state, "queued"),
        prompts=one.total,
        prompts_bytes=one.prompts_bytes,
        prompt_bytes_deciles=one.prompt_bytes_deciles,
        resumed=one.resumed,
        finished=finished,
        output_at=output_at,
        completion_tokens=one.completion_tokens,
        remembered_tokens=one.remembered_tokens,
        remembered_rate=one.remembered_rate,
        concurrency=one.concurrency,
        max_tokens=None if entry is None else entry.max_tokens,
        started=started,
        ended=None if ended is None else _finer(ended, modified, tick_s),
        lines=() if entry is None else entry.lines,
    )


def _moved(wall: float | None, offset: float) -> float | None:
    return None if wall is None else wall + offset


def _finer(seen: float | None, modified: float | None, tick_s: float) -> float | None:
    """Prefer a file's own time to the look that saw it, where the two agree."""
    if seen is None or modified is None:
        return seen if modified is None else modified
    return modified if seen - 2 * tick_s <= modified <= seen else seen
