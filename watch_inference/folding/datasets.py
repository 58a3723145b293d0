"""One dataset's readings and what was known of it in, what is known of it now out; pure."""

from __future__ import annotations

from typing import NamedTuple

from watch_inference.folding.attribution import Attribution
from watch_inference.folding.ledger import Moment, account
from watch_inference.folding.pacing import pace, rated
from watch_inference.model import Check, DatasetProgress, OutputReading, Point, Sample, State

# An output without prompts is work for so long after it grew, a dataset beside the current one too.
_LATELY_S = 300.0


class Scene(NamedTuple):
    """What is the same for all datasets of one look.

    `started`: when the present run was started; `free`: since when the job has been free for its
    next dataset, as far as we saw; both Unix time.
    """

    sample: Sample
    whose: Attribution
    started: float | None
    counting: str
    free: float | None = None


def fold(before: DatasetProgress | None, output: OutputReading, scene: Scene) -> DatasetProgress:
    """Draw up a dataset's account and fold it into what was known of it."""
    sample = scene.sample
    entry = scene.whose.entries.get(output.name)
    old = None not in (scene.started, output.modified) and (
        (output.modified or 0.0) < (scene.started or 0.0)
    )
    silent = _silence(sample, None if entry is None else entry.updated_at)
    ago = _ago(output, sample)
    files = sample.job.datasets
    expected = bool(sample.datasets) and (not files or any(one.outputs for one in files))
    moment = Moment(sample.at, silent, ago, old, expected, scene.counting)
    books = account(entry, output, before, moment)
    last = before.written if before is not None else None
    grown = (output.written or 0) - last if last is not None else 0
    points = before.points if before is not None and grown >= 0 else ()
    if books.done is not None:
        points = pace(points, Point(sample.at, books.done - books.resumed + books.missing_errors))
    in_job = entry is not None or _is_work(output, sample)
    unclear = in_job and entry is None and output.bytes > 0 and books.unfinished != 0
    same = books._asdict()
    if unclear and scene.whose.ambiguous:
        same["check"] = Check.UNKNOWN
    return DatasetProgress(
        name=output.name,
        written=_written(output, sample),
        logged=None if entry is None else entry.done,
        in_job=in_job,
        completion_tokens=None if entry is None else entry.completion_tokens,
        concurrency=None if entry is None else entry.concurrency,
        changed_at=output.changed_at,
        modified=output.modified,
        points=points,
        largest_write=max(grown, before.largest_write if before is not None else 0),
        prompts_bytes=output.prompts_bytes,
        prompt_bytes_deciles=output.prompt_bytes_deciles,
        remembered_tokens=output.remembered_tokens,
        remembered_rate=output.remembered_rate,
        log=entry,
        **same,
    )


def place(
    one: DatasetProgress, before: DatasetProgress | None, current: str | None, scene: Scene
) -> DatasetProgress:
    """Say whether a dataset waits, runs or is finished, since when, and how fast it is."""
    sample = scene.sample
    complete = one.unfinished == 0 and one.done is not None and one.total is not None
    moving = has_moved(before, one) or (before is not None and before.state is State.RUNNING)
    ended, started = (before.ended, before.started) if before is not None else (None, None)
    if complete or not one.in_job:
        state = State.FINISHED
        ended = ended if ended is not None else (sample.wall if moving else one.modified)
    elif one.name == current or (moving and _lately(one.changed_at, sample)):
        state, ended = State.RUNNING, None
    else:
        state, ended = State.QUEUED, None
    if started is None and before is not None and not (before.done or 0) - one.resumed:
        named = any(log.current == one.name for log in sample.logs)
        # Its first request took a while: it began with its heading, or when the last one ended.
        started = sample.wall if named else (scene.free if moving else None)
    if state is State.QUEUED and not (one.done or 0) - one.resumed:
        started = None  # a list of all datasets named it: that was no heading of its own
    silent = _silence(sample, None if one.log is None else one.log.updated_at)
    return rated(one._replace(state=state, started=started, ended=ended), silent)


def has_moved(before: DatasetProgress | None, now: DatasetProgress) -> bool:
    """Tell work from a look without any: new lines, or a log that counts on."""
    if before is None:
        return False
    if (now.written or 0) > (before.written or 0) and before.written is not None:
        return True
    if now.log is None or before.log is None:
        return now.log is not None and now.log.updated_at is not None
    return (now.log.done, now.log.runs, now.log.errors) != (
        before.log.done,
        before.log.runs,
        before.log.errors,
    )


def _is_work(output: OutputReading, sample: Sample) -> bool:
    """Tell an output without prompts that is only there, already tokenised, from work."""
    given = output.has_prompts or output.user_total or output.bytes == 0
    return given or output.held or _lately(output.changed_at, sample)


def _lately(changed_at: float | None, sample: Sample) -> bool:
    return changed_at is not None and sample.at - changed_at < _LATELY_S


def _written(output: OutputReading, sample: Sample) -> int | None:
    """Count an output that is not there yet as 0; where none is expected, nothing is known."""
    if output.files or output.error is not None:
        return output.written
    return 0 if sample.datasets else None


def _ago(output: OutputReading, sample: Sample) -> float | None:
    """Say how long ago an output was written, in seconds: as seen, else by its file's time."""
    if output.changed_at is not None:
        return sample.at - output.changed_at
    return None if output.modified is None else max(0.0, sample.wall - output.modified)


def _silence(sample: Sample, updated_at: float | None) -> float:
    """Say for how long at least the log has had no line of a dataset, in seconds.

    Where none was seen arriving, the file's own time tells: noise makes it younger, never older.
    """
    if updated_at is not None:
        return sample.at - updated_at
    newest = max((log.modified for log in sample.logs if log.modified is not None), default=None)
    return max(0.0, sample.wall - newest) if newest is not None else 0.0
