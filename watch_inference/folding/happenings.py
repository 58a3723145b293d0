"""What is remembered and one look in, what has happened to the job out; touches nothing.

Kept while watching: stalls with their times, restarts, which process held which files, and since
when all of them wait for a disk. When each dataset began and ended stands in its own progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from watch_inference.model import DatasetProgress, Happening, Progress, Sample, State

_FINAL = ("gone", "zombie")
_KEPT = 50
# A new process and the run that it appends to the log are one restart.
_ONE_RESTART_S = 900.0
_IN_LOG = "a new run"


class Seen(NamedTuple):
    """What one look adds to the memory; the fields of Progress that have the same names."""

    blocked_at: float | None
    holders: tuple[tuple[int, tuple[str, ...]], ...]
    pids: tuple[int, ...]
    run_at: float | None  # when the processes were found to be others than before
    happened: tuple[Happening, ...]


def seen(before: Progress | None, sample: Sample, datasets: Sequence[DatasetProgress]) -> Seen:
    """Fold one look at the processes and the log's runs into what has happened."""
    alive = [one for one in sample.processes if one.state not in _FINAL]
    pids = tuple(one.pid for one in alive)
    blocked = bool(alive) and all(one.state == "disk-sleep" for one in alive)
    since = before.blocked_at if before is not None else None
    held = dict(before.holders) if before is not None else {}
    held |= {one.pid: one.holds for one in alive if one.holds}
    known = {one.pid for one in sample.processes}
    happened = before.happened if before is not None else ()
    run_at = before.run_at if before is not None else None
    if before is not None and (text := _restarted(before, pids, datasets)):
        run_at = sample.at if _others(before, pids) else run_at
        happened = _with_restart(
            happened, Happening("restart", sample.wall, sample.wall, None, text)
        )
    return Seen(
        blocked_at=(since if since is not None else sample.at) if blocked else None,
        holders=tuple((pid, holds) for pid, holds in held.items() if pid in known),
        pids=pids or (before.pids if before is not None else ()),
        run_at=run_at,
        happened=happened,
    )


def _restarted(before: Progress, pids: tuple[int, ...], datasets: Sequence[DatasetProgress]) -> str:
    """Say how the job was started again since the look before; "" if it was not."""
    if _others(before, pids):
        return f"process {pids[0]} in the place of {before.pids[0]}"
    runs = {one.name: one.log.runs for one in before.datasets if one.log is not None}
    for one in datasets:
        if one.log is not None and one.log.runs > runs.get(one.name, one.log.runs):
            return f"{_IN_LOG} of {one.name} in the log"
    return ""


def _others(before: Progress, pids: tuple[int, ...]) -> bool:
    """Tell whether all processes are others than those that worked at the look before."""
    # Before it has worked, a launcher gives way to its worker: that is no restart.
    moved, started = before.rhythm.moved, before.started
    of_this_run = moved is not None and started is not None and moved >= started
    worked = before.rhythm.moved_at is not None or of_this_run
    return worked and bool(pids and before.pids) and not set(pids) & set(before.pids)


def _with_restart(happened: tuple[Happening, ...], new: Happening) -> tuple[Happening, ...]:
    last = next((one for one in reversed(happened) if one.kind == "restart"), None)
    in_log = new.text.startswith(_IN_LOG)
    if in_log and last is not None and new.began - last.began < _ONE_RESTART_S:
        return happened
    return (*happened, new)[-_KEPT:]


def stalls(
    happened: tuple[Happening, ...], state: State, wall: float, quiet_s: float, dataset: str | None
) -> tuple[Happening, ...]:
    """Open a stall where one begins, with the time of the last work; close it where it ends."""
    unfinished = [one for one in happened if one.kind == "stall" and one.ended is None]
    if state is State.STALLED:
        new = Happening("stall", wall - quiet_s, None, dataset)
        return happened if unfinished else (*happened, new)[-_KEPT:]
    if not unfinished:
        return happened
    return tuple(one._replace(ended=wall) if one in unfinished else one for one in happened)
