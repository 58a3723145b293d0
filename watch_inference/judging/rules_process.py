"""A case in, what its processes say of it out: rules of diagnosis; touches nothing."""

from __future__ import annotations

from watch_inference import units
from watch_inference.judging.case import Case
from watch_inference.judging.verdict import Standing, Verdict
from watch_inference.model import ProcessReading, State

# Every process waits for a disk now and then; none for so long.
_BLOCKED_S = 20.0
# What happened so long ago is no news.
_NEWS_S = 1800.0


def dead_disk(case: Case, standing: Standing) -> Verdict | None:
    """Name a disk or mount that does not answer: all processes hang in it."""
    since = case.progress.blocked_at
    if since is None or case.sample.at - since < _BLOCKED_S or not case.alive:
        return None
    waited = units.age(case.sample.at - since)
    return Verdict(
        f"process {case.alive[0].pid} has waited for its disk for {waited} (state D)",
        "look at its mounts: does ls on the job's folder answer, what does dmesg say?",
        cause=True,
    )


def some_stopped(case: Case, standing: Standing) -> Verdict | None:
    """Name the processes that were stopped while others go on."""
    stopped = [one for one in case.alive if one.state == "stopped"]
    others = len(case.alive) - len(stopped)
    if not stopped or not others:
        return None
    pid = stopped[0].pid
    return Verdict(
        f"process {pid} is stopped (state T), {others} of {len(case.alive)} go on",
        f"someone stopped it: kill -CONT {pid} lets it go on",
        cause=True,
    )


def shard_gone(case: Case, standing: Standing) -> Verdict | None:
    """Name a process that ended before its part was done, while others live."""
    if not case.alive or standing.state is State.FINISHED or case.complete:
        return None
    lost = [one for one in case.gone if not _was_done(case, one)]
    if not lost:
        return None
    one = lost[-1]
    how = "exited and is not reaped" if one.state == "zombie" else "is gone"
    since = "" if one.since_at is None else f" for {units.age(case.sample.at - one.since_at)}"
    living = len(case.alive)
    live = "1 other lives" if living == 1 else f"{living} others live"
    return Verdict(
        f"process {one.pid} {how}{since} while {live}",
        "its part will be missing: read its log's end, and start that part again",
        cause=True,
    )


def _was_done(case: Case, one: ProcessReading) -> bool:
    """Tell a shard that came to its end from one that died: by its own log or its outputs."""
    held = dict(case.progress.holders).get(one.pid, ())
    if not held:
        return True  # a child that held nothing: whatever it did, no line is missed by it
    for log in case.sample.logs:
        if log.path in held and log.datasets and log.last_error is None:
            newest = next((d for d in log.datasets if d.name == log.current), log.datasets[-1])
            shared = any(log.path in other.holds for other in case.alive)
            if not shared:
                return newest.total is not None and newest.done >= newest.total
    folders = {dataset.name: dataset.folder for dataset in case.sample.job.datasets}
    written = [
        dataset
        for dataset in case.in_job
        if (folder := folders.get(dataset.name))
        and any(path.startswith(folder + "/") for path in held)
    ]
    others = {path for other in case.alive for path in other.holds}
    return bool(set(held) <= others) or all(dataset.unfinished == 0 for dataset in written)


def no_log(case: Case, standing: Standing) -> Verdict | None:
    """Say why there is nothing to read."""
    if case.sample.logs or not any(one.tty for one in case.alive):
        return None
    return Verdict(
        "the job's output goes to a terminal or a pipe: there is no log to read",
        "start it with > logs/run.log 2>&1",
    )


def restarted(case: Case, standing: Standing) -> Verdict | None:
    """Say that the job was started again: as seen, else as its log shows it."""
    seen = [one for one in case.progress.happened if one.kind == "restart"]
    if seen:
        ago = case.sample.wall - seen[-1].began
        often = f"{len(seen)} times, last " if len(seen) > 1 else ""
        said = f"restarted {often}{units.age(ago)} ago: {seen[-1].text}"
        return Verdict(said, aside=ago > _NEWS_S or standing.state is not State.STARTING)
    count = case.progress.restarts
    if not count:
        return None
    return Verdict(f"the log shows {count} restart{'s' if count > 1 else ''}", aside=True)
