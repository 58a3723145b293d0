"""Progress in, what the forecast may look at out; touches nothing."""

from __future__ import annotations

from watch_inference.model import (
    DatasetProgress,
    Observed,
    ObservedDataset,
    Progress,
    State,
)

_STATUS = {State.FINISHED: "done", State.RUNNING: "running"}


def observed(progress: Progress) -> Observed:
    """Translate progress for the forecast; clock times become times of the monotonic clock."""
    offset = progress.at - progress.wall
    beat = progress.rhythm
    return Observed(
        now=progress.at,
        datasets=tuple(_dataset(one, offset) for one in progress.datasets if one.in_job),
        process_started=_moved(progress.started, offset),
        points=progress.points,
        moved_at=beat.moved_at if beat.moved_at is not None else _moved(beat.moved, offset),
    )


def _dataset(one: DatasetProgress, offset: float) -> ObservedDataset:
    finished = max(0, (one.done or 0) - one.resumed) + one.missing_errors
    entry = one.log
    return ObservedDataset(
        name=one.name,
        status=_STATUS.get(one.state, "queued"),
        prompts=one.total,
        prompts_bytes=one.prompts_bytes,
        prompt_bytes_deciles=one.prompt_bytes_deciles,
        resumed=one.resumed,
        finished=finished,
        output_at=one.changed_at if one.changed_at is not None else _moved(one.modified, offset),
        completion_tokens=one.completion_tokens,
        remembered_tokens=one.remembered_tokens,
        concurrency=one.concurrency,
        started=_moved(one.started, offset),
        ended=_moved(one.ended, offset),
        lines=() if entry is None else entry.lines,
    )


def _moved(wall: float | None, offset: float) -> float | None:
    return None if wall is None else wall + offset
