"""A job, its processes and outputs in; what is left of its disk, its memory and its time out.

File systems are asked in the background, each by itself: a dead mount holds up nothing else.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import psutil

from watch_inference.finding.mounts import mount_of, mounts
from watch_inference.model import Job, OutputReading, ProcessReading, Resources
from watch_inference.probes import cgroup
from watch_inference.probes.background import Background, Clock
from watch_inference.probes.timelimit import TimeLimit, time_limit

_EVERY_S = 10.0
_SILENT_S = 10.0  # a file system that has not answered for so long is named
_WINDOW_S = 600.0  # over which growth is measured
_LEAST_WINDOW_S = 5.0
_MEMORY_WINDOW_S = 60.0  # loading a model grows fast, and ends
_FAR_S = 365 * 86400.0  # nobody plans for longer
_ENDED = ("gone", "zombie")


class Space(NamedTuple):
    """What one file system has left."""

    free: int
    inodes_free: int | None
    error: str | None = None


class Machine:
    """The disk, the memory and the time of one job, kept from look to look."""

    def __init__(self, clock: Clock, proc: str = "/proc") -> None:
        self._clock = clock
        self._proc = proc
        self._disks: dict[str, _Disk] = {}
        self._mounted_at: float | None = None
        self._points: dict[str, str] = {}
        self._memory = _Memory(proc)
        self._limit: TimeLimit | None = None
        self._limit_of: tuple[int, ...] = ()

    def read(
        self,
        at: float,
        wall: float,
        job: Job,
        processes: Sequence[ProcessReading],
        outputs: Sequence[OutputReading],
        patience_s: float = 0.0,
    ) -> Resources:
        """Give what is left now; waits only so long for a first answer of the disks."""
        folders = _folders(job)
        self._sort(folders, at)
        written = sum(one.bytes for one in outputs)
        for disk in self._disks.values():
            disk.turn(at, written, patience_s if disk.space is None else 0.0)
        worst = min(self._disks.values(), key=lambda disk: disk.urgency(at), default=None)
        told = Resources() if worst is None else worst.told(at)
        alive = tuple(one.pid for one in processes if one.state not in _ENDED)
        self._look_for_limit(alive)
        return self._memory.add(told, at, alive)._replace(
            time_left_s=None if self._limit is None else self._limit.ends - wall,
            time_limit=None if self._limit is None else self._limit.rule,
        )

    def close(self) -> None:
        """Leave questions in flight behind."""
        self._disks.clear()

    def _sort(self, folders: tuple[str, ...], at: float) -> None:
        """Sort folders by the mount that they lie on: by name only, which never blocks."""
        if not all(folder in self._points for folder in folders):
            mounted = mounts(f"{self._proc}/self")
            found = {folder: mount_of(folder, mounted) for folder in folders}
            self._points = {f: m.point if m is not None else f for f, m in found.items()}
        for folder in folders:
            self._disks.setdefault(self._points[folder], _Disk(folder, self._clock))
        kept = {self._points[folder] for folder in folders}
        self._disks = {point: disk for point, disk in self._disks.items() if point in kept}

    def _look_for_limit(self, alive: tuple[int, ...]) -> None:
        if alive != self._limit_of:
            limits = (time_limit(pid, self._proc) for pid in alive[:8])
            self._limit = min((one for one in limits if one is not None), default=None)
            self._limit_of = alive


class _Disk:
    """One file system, asked in the background."""

    def __init__(self, folder: str, clock: Clock) -> None:
        self.space: Space | None = None
        self._folder = folder
        self._flight: Background[Space] = Background(clock)
        self._due_at = float("-inf")
        self._read_at: float | None = None
        self._free = Growth()
        self._written = Growth()

    def turn(self, at: float, written: int, patience_s: float) -> None:
        """Take an answer that has come, and ask again if it is time."""
        if at >= self._due_at and self._flight.asked_at is None:
            self._flight.ask(lambda: space(self._folder))
            self._due_at = at + _EVERY_S
        self._flight.wait(patience_s)
        came = self._flight.take()
        if came is None:
            return
        self.space = came
        if came.error is None:
            self._read_at = at
            self._free.add(at, -came.free)
            self._written.add(at, written)
            if came.free < 60 * max(self._free.per_s(), self._written.per_s()):
                self._due_at = at + 1.0  # it is nearly full: look closer

    def full_s(self) -> float | None:
        """Say when it is full at this growth: of all that is on it, or of the job's alone."""
        growth = max(self._free.per_s(), self._written.per_s())
        if self.space is None or self.space.error is not None or growth <= 0:
            return None
        seconds = self.space.free / growth
        return seconds if seconds < _FAR_S else None

    def urgency(self, at: float) -> tuple[float, float]:
        """Order disks: what does not answer, then what is full first, or has least space."""
        if self._flight.waiting_s(at) >= _SILENT_S:
            return (-1.0, 0.0)
        if self.space is None or self.space.error is not None:
            return (2 * _FAR_S, 0.0)
        full = self.full_s()
        return (_FAR_S if full is None else full, self.space.free)

    def told(self, at: float) -> Resources:
        """Say what is left of it, and how old that is."""
        waiting = self._flight.waiting_s(at)
        known = self.space
        error = known.error if known is not None else None
        if waiting >= _SILENT_S:
            error = "no answer"
        if known is None or self._read_at is None:
            since = waiting if waiting >= _SILENT_S else None
            return Resources(disk=self._folder, disk_age_s=since, disk_error=error)
        return Resources(
            disk_free=known.free,
            disk_full_s=self.full_s(),
            disk=self._folder,
            disk_age_s=max(0.0, at - self._read_at),
            disk_error=error,
            inodes_free=known.inodes_free,
        )


def _folders(job: Job) -> tuple[str, ...]:
    """Name the folders that a job writes its outputs into."""
    found = []
    for one in job.datasets:
        there = {os.path.dirname(path) for path in one.outputs if path.startswith("/")}
        found += [path for path in sorted(there) if not any(c in path for c in "*?[")]
        found += [] if there else [one.folder]
    return tuple(dict.fromkeys(found)) or ((job.root,) if job.root else ())


def space(folder: str) -> Space:
    """Ask a folder's file system what it has left for whoever is not root; may hang for ever."""
    try:
        told = os.statvfs(folder)
    except OSError as error:
        return Space(0, None, error.strerror or "cannot be read")
    return Space(told.f_bavail * told.f_frsize, told.f_favail if told.f_files else None)


class Growth:
    """How fast a size grows over the last minutes."""

    def __init__(self, least_s: float = _LEAST_WINDOW_S) -> None:
        self._least_s = least_s
        self._points: deque[tuple[float, float]] = deque()

    def add(self, at: float, size: float) -> None:
        """Take one more size."""
        self._points.append((at, size))
        while self._points[0][0] < at - _WINDOW_S:
            self._points.popleft()

    def per_s(self) -> float:
        """Say how much it has grown a second; 0 where nothing tells, or it has shrunk."""
        if len(self._points) < 2:
            return 0.0
        (first, before), (last, now) = self._points[0], self._points[-1]
        return max(0.0, (now - before) / (last - first)) if last - first >= self._least_s else 0.0


class _Memory:
    """The control group of the job's memory, remembered when its processes are gone."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._group: cgroup.Group | None = None
        self._pids: tuple[int, ...] = ()
        self._first_kills: int | None = None
        self._kills: int | None = None
        self._used = Growth(_MEMORY_WINDOW_S)
        self._host = psutil.virtual_memory().total

    def add(self, told: Resources, at: float, alive: tuple[int, ...]) -> Resources:
        """Add memory to what is known of the disk."""
        if alive and alive != self._pids:
            found = cgroup.group_of(alive[0], self._proc)
            if found != self._group:
                self._group, self._first_kills, self._used = found, None, Growth(_MEMORY_WINDOW_S)
            self._pids = alive
        if self._group is None:
            return told
        now = cgroup.read(self._group, self._host)
        if self._first_kills is None:
            self._first_kills = now.oom_kills
        if now.oom_kills is not None:  # its files vanish with the group: what was seen stays
            self._kills = now.oom_kills
        killed = None
        if self._kills is not None and self._first_kills is not None:
            killed = max(0, self._kills - self._first_kills)
        if now.used is not None:
            self._used.add(at, now.used)
        return told._replace(
            memory_used=now.used,
            memory_limit=now.limit,
            oom_kills=killed,
            memory_full_s=self._full_s(now),
        )

    def _full_s(self, now: cgroup.Memory) -> float | None:
        growth = self._used.per_s()
        if now.limit is None or now.used is None or growth <= 0:
            return None
        seconds = (now.limit - now.used) / growth
        return max(0.0, seconds) if seconds < _FAR_S else None
