"""A process in, when somebody will end it and who out: timeout(1), or Slurm; reads /proc.

Of a process's environment nothing but the one variable leaves this file.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from watch_inference.finding.proctable import Process, process, started_at

_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd]?)")
_WITH_VALUE = frozenset({"-k", "-s", "--kill-after", "--signal"})
_SLURM = b"SLURM_JOB_END_TIME="
_ABOVE = 32  # processes above one that are looked at
_LARGEST = 1 << 20


class TimeLimit(NamedTuple):
    """When a job will be ended, in Unix time, and by what."""

    ends: float
    rule: str


def time_limit(pid: int, proc: str = "/proc") -> TimeLimit | None:
    """Find the first end of a process that somebody has set."""
    found = [one for one in (_slurm(pid, proc), _timeout(pid, proc)) if one is not None]
    return min(found, default=None)


def _slurm(pid: int, proc: str) -> TimeLimit | None:
    try:
        with open(f"{proc}/{pid}/environ", "rb") as file:
            variables = file.read(_LARGEST).split(b"\0")
    except OSError:
        return None
    for one in variables:
        if one.startswith(_SLURM) and one[len(_SLURM) :].isdigit() and len(one) < 40:
            return TimeLimit(float(one[len(_SLURM) :]), "Slurm's time limit")
    return None


def _timeout(pid: int, proc: str) -> TimeLimit | None:
    """Look upwards for timeout(1): it ends its child, and all of its own process group.

    A job that setsid or nohup's shell has put into another group outlives it.
    """
    found = []
    group = _group(pid)
    first = below = pid
    for _ in range(_ABOVE):
        one = _process(pid, proc)
        if one is None or one.pid <= 1:
            break
        seconds = duration(one.command)
        began = started_at(one.started)
        ends_it = below == first or _group(one.pid) == group
        if seconds and began is not None and ends_it:
            found.append(TimeLimit(began + seconds, f"timeout {_words(seconds)}"))
        below, pid = pid, one.parent
    return min(found, default=None)


def _group(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def _process(pid: int, proc: str) -> Process | None:
    try:
        return process(pid, proc)
    except OSError:  # no descriptor left
        return None


def duration(command: tuple[str, ...]) -> float | None:
    """Read how many seconds timeout(1) was told; None for any other command, and for no limit."""
    if not command or os.path.basename(command[0]) != "timeout":
        return None
    words = list(command[1:])
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] in _WITH_VALUE else 1]
    match = _DURATION.fullmatch(words[0]) if words else None
    return None if match is None else float(match[1]) * _UNITS[match[2]] or None


def _words(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
