"""The progress before and one sample in, the progress now out; touches nothing.

This is the only memory between two looks: what each dataset's account is, how fast it moves, and
how often work moves at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from watch_inference.folding import happenings, rhythm
from watch_inference.folding.attribution import attribute
from watch_inference.folding.datasets import Scene, fold, has_moved, place
from watch_inference.folding.pacing import pace
from watch_inference.model import (
    DatasetProgress,
    LogReading,
    OutputReading,
    Point,
    Progress,
    Sample,
)

ALIVE = frozenset({"running", "sleeping", "disk-sleep", "stopped", "unknown"})


def advance(before: Progress | None, sample: Sample, counting: str = "lines") -> Progress:
    """Fold one sample into the progress."""
    whose = attribute(sample.logs, sample.datasets, _stem(sample))
    outputs = sample.datasets or tuple(OutputReading(name) for name in whose.entries)
    started = _started(before, sample)
    known = {one.name: one for one in before.datasets} if before is not None else {}
    scene = Scene(sample, whose, started, counting, _free(before, started))
    accounts = tuple(
        fold(known.get(one.name), one, scene) for one in _ordered(outputs, whose.named)
    )
    current = _current(before, accounts, sample)
    datasets = tuple(place(one, known.get(one.name), current, scene) for one in accounts)
    moved = before is not None and any(has_moved(known.get(one.name), one) for one in datasets)
    done = sum(_this_run(one) for one in datasets if one.in_job)
    files_moved = _files_moved(sample)
    beat = rhythm.beat(
        before,
        moved,
        sample.at,
        sample.wall if moved else files_moved,
        _file_age(sample, files_moved),
    )
    fresh = Progress(sample.at, sample.at, sample.wall) if before is None else before
    return _slept(before, sample, moved)._replace(
        first_at=fresh.first_at,
        at=sample.at,
        wall=sample.wall,
        datasets=datasets,
        current=current,
        rhythm=beat,
        points=pace(fresh.points, Point(sample.at, done)),
        started=started,
        seen_alive=fresh.seen_alive or any(one.state in ALIVE for one in sample.processes),
        restarts=max((log.restarts for log in sample.logs), default=0),
        ambiguous=whose.ambiguous,
        idle_s=_idle(before, sample),
        cpu_s=sum(one.cpu_s or 0.0 for one in sample.processes),
        **happenings.seen(before, sample, datasets)._asdict(),
    )


def _idle(before: Progress | None, sample: Sample) -> float | None:
    """Say for how long the processes have used no CPU time to speak of, in seconds."""
    times = [one.cpu_s for one in sample.processes if one.cpu_s is not None]
    if before is None or before.cpu_s is None or not times:
        return None
    gap = sample.at - before.at
    # A process that only sleeps and polls uses some too: a hundredth of a core is no work.
    if sum(times) - before.cpu_s > 0.01 * gap:
        return 0.0
    return (before.idle_s or 0.0) + gap


def _stem(sample: Sample) -> str:
    """Name the one dataset of a job that is a log alone: after the file."""
    logs = [path for path in sample.job.logs if path != "-"]
    path = logs[0] if logs else sample.job.name
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name


def _free(before: Progress | None, started: float | None) -> float | None:
    """Say since when the job has been free for its next dataset, Unix time."""
    if before is None:
        return None
    watched = before.wall - (before.at - before.first_at)
    ends = [one.ended for one in before.datasets if one.ended is not None and one.ended >= watched]
    return max(ends, default=max(started or watched, watched))


def _slept(before: Progress | None, sample: Sample, moved: bool) -> Progress:
    """Account for time in which the monitor itself did not run: left out unless work moved."""
    if before is None:
        return Progress(sample.at, sample.at, sample.wall)
    gap = sample.at - before.at
    usual = before.tick_s
    slept = rhythm.slept(before, sample.at)
    asleep = 0.0 if moved else before.asleep_s + (gap if slept else 0.0)
    tick = usual if slept else (gap if usual is None else usual + 0.2 * (gap - usual))
    return before._replace(asleep_s=asleep, tick_s=tick)


def _this_run(one: DatasetProgress) -> int:
    return max(0, (one.done or 0) - one.resumed) + one.missing_errors


def _current(
    before: Progress | None, datasets: Sequence[DatasetProgress], sample: Sample
) -> str | None:
    """Name the dataset at work: the one that grows, else the log's, else the last that moved."""
    open_ = {one.name: one for one in datasets if one.in_job and one.unfinished != 0}
    growing = [one for one in open_.values() if one.changed_at is not None]
    if growing:
        return max(growing, key=lambda one: one.changed_at or 0.0).name
    newest = max(sample.logs, key=lambda log: log.modified or 0.0, default=None)
    named = newest.current if newest is not None else None
    if named in open_:
        return named
    logged = [one for one in open_.values() if one.log is not None and one.logged]
    if logged:
        return logged[-1].name
    begun = [one for one in open_.values() if (one.done or 0) > 0]
    if begun:
        return max(begun, key=lambda one: one.modified or 0.0).name
    if before is not None and before.current is not None:
        return before.current
    ended = [one for one in datasets if one.in_job and one.modified is not None]
    return max(ended, key=lambda one: one.modified or 0.0).name if ended else None


def _ordered(outputs: Sequence[OutputReading], named: Sequence[str]) -> tuple[OutputReading, ...]:
    """Let what was there before stand first, then what the log shows, in its order, then the rest.

    Within each the order is the natural one, which usually is the whole order too.
    """
    by_name = {one.name: one for one in outputs}
    shown = [by_name[name] for name in named if name in by_name]
    rest = [one for one in outputs if one not in shown]
    there = [one for one in rest if one.bytes and (not one.has_prompts or _is_full(one))]
    return (*there, *shown, *(one for one in rest if one not in there))


def _is_full(one: OutputReading) -> bool:
    return one.total is not None and (one.written or 0) >= one.total


def _started(before: Progress | None, sample: Sample) -> float | None:
    """Say when the present run's first living process was started, Unix time."""
    starts = [
        one.started for one in sample.processes if one.started is not None and one.state in ALIVE
    ]
    return min(starts) if starts else (before.started if before is not None else None)


def _files_moved(sample: Sample) -> float | None:
    """Say when the files last moved, Unix time: the outputs, or the log where there are none.

    A log whose newest line is a progress line moved with it; else its time may be that of noise.
    """
    outputs = [
        one.modified
        for one in sample.datasets
        if one.files and one.modified is not None and (one.has_prompts or one.held)
    ]
    times = [
        log.modified
        for log in sample.logs
        if log.modified is not None and log.datasets and (not outputs or _ends_with_progress(log))
    ]
    return max((*outputs, *times), default=None)


def _ends_with_progress(log: LogReading) -> bool:
    """Tell whether the newest line is one that the counts come from."""
    newest = log.tail[-1] if log.tail else ""
    return any(one.name == log.current and str(one.done) in newest for one in log.datasets)


def _file_age(sample: Sample, moved: float | None) -> float | None:
    """Say how old the files are; a time that lies in the future tells nothing."""
    return None if moved is None or moved > sample.wall + 5.0 else max(0.0, sample.wall - moved)
