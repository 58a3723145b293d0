"""A case and how its job stands in, what disk, memory and time have to do with it out; pure."""

from __future__ import annotations

from watch_inference import units
from watch_inference.judging.case import Case
from watch_inference.judging.verdict import Rule, Standing, Verdict
from watch_inference.model import State

_FULL_BYTES = 1 << 20  # less is no room for a row
_SOON_S = 3600.0  # where the end is not known
_HALF, _NEARLY = 0.5, 0.95  # shares of the memory limit
_OVER = (State.FINISHED, State.FAILED)


def killed_for_memory(case: Case, standing: Standing) -> Verdict | None:
    """Say that the kernel killed for memory in the job's control group."""
    kills = case.sample.resources.oom_kills
    if not kills or standing.state is State.FINISHED:
        return None
    limit = case.sample.resources.memory_limit
    of = f", limit {units.size(limit)}" if limit is not None else ""
    times = "" if kills == 1 else f" {kills:,} times"
    return Verdict(
        f"the kernel killed a process of the job for memory{times} (OOM){of}",
        "give it more memory, or let it hold less at once",
        cause=bool(case.gone) or standing.state in (State.FAILED, State.STALLED),
    )


def disk_full(case: Case, standing: Standing) -> Verdict | None:
    """Say that there is no room for another row."""
    told = case.sample.resources
    if told.disk_free is None or standing.state is State.FINISHED:
        return None
    no_inodes = told.inodes_free == 0
    if told.disk_free >= _FULL_BYTES and not no_inodes:
        return None
    what = "no inode is free" if no_inodes else f"{units.size(told.disk_free)} free"
    return Verdict(
        f"disk is full: {what} at {told.disk or 'the outputs'}",
        "make room; what was not written is lost, or waits in the job",
        cause=standing.state is not State.RUNNING,
    )


def disk_silent(case: Case, standing: Standing) -> Verdict | None:
    """Say that the outputs' file system does not answer."""
    told = case.sample.resources
    if told.disk_error is None or standing.state in _OVER:
        return None
    if told.disk_error != "no answer":
        return Verdict(f"disk: {told.disk_error} at {told.disk}", aside=True)
    return Verdict(
        f"disk: no answer for {units.age(told.disk_age_s)} at {told.disk}",
        "is the file server reachable?",
        cause=standing.state is State.STALLED,
    )


def disk_before_end(case: Case, standing: Standing) -> Verdict | None:
    """Say that the disk will be full before the job is done."""
    told = case.sample.resources
    if told.disk_full_s is None or (told.disk_free or 0) < _FULL_BYTES:
        return None
    if standing.state is not State.RUNNING or not _before_end(case, told.disk_full_s):
        return None
    return Verdict(
        f"disk will be full in {units.roughly(told.disk_full_s)} at this growth"
        f"{_end(case)}; {units.size(told.disk_free)} free",
        "make room before then",
    )


def memory_before_end(case: Case, standing: Standing) -> Verdict | None:
    """Say that the job grows towards its memory limit, or has reached it."""
    told = case.sample.resources
    used, limit = told.memory_used, told.memory_limit
    if used is None or not limit or standing.state in _OVER:
        return None
    of = f"{units.size(used)} of {units.size(limit)}"
    if used >= _NEARLY * limit:
        return Verdict(f"memory is nearly used up: {of}", "at the limit the kernel kills it")
    left = told.memory_full_s
    if left is None or used < _HALF * limit or not _before_end(case, left):
        return None
    return Verdict(
        f"memory will reach its limit in {units.roughly(left)} at this growth{_end(case)}; {of}",
        "at the limit the kernel kills it",
    )


def time_before_end(case: Case, standing: Standing) -> Verdict | None:
    """Say that the job's own time limit ends it before it is done."""
    told = case.sample.resources
    left = told.time_left_s
    if left is None or left < 0 or standing.state in _OVER or case.complete:
        return None
    remaining = case.forecast.remaining_s
    if remaining is None or left >= remaining:
        return None
    return Verdict(
        f"{told.time_limit} ends it in {units.roughly(left)}{_end(case)}",
        "ask for more time, or plan to resume it",
    )


def _before_end(case: Case, seconds: float) -> bool:
    remaining = case.forecast.remaining_s
    return seconds < (_SOON_S if remaining is None else remaining)


def _end(case: Case) -> str:
    remaining = case.forecast.remaining_s
    return "" if remaining is None else f", before it is done ({units.roughly(remaining)})"


# Strongest first; a cause goes before the state's own words.
RULES: tuple[Rule, ...] = (
    killed_for_memory,
    disk_full,
    disk_silent,
    disk_before_end,
    memory_before_end,
    time_before_end,
)
