"""A job in, its processes as they are now out, and how far the process table may be believed.

Reads /proc only, through psutil where it helps: sends no signal, reaps nothing.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import psutil

from watch_inference.finding import holders, proctable, visibility
from watch_inference.finding.folders import present
from watch_inference.finding.holders import Holder
from watch_inference.finding.logfiles import log_files
from watch_inference.finding.mounts import starved
from watch_inference.finding.openfiles import Files, files_of
from watch_inference.finding.programs import is_launcher
from watch_inference.model import Job, Options, ProcessReading, ProcessView
from watch_inference.units import clean, masked

_RESCAN_S = 10.0
_SOON_S = 2.0  # the same in the first minute after a loss: a job is often started again at once
_SOON_FOR_S = 60.0
_MOST_GONE = 64
_STATES = {
    "R": "running",
    "S": "sleeping",
    "D": "disk-sleep",
    "T": "stopped",
    "t": "stopped",
    "Z": "zombie",
    "X": "gone",
    "I": "sleeping",
}
_ENDED = ("zombie", "gone")


class _Known(NamedTuple):
    """A process of the job, and what was read of it last; known by pid and start ticks together."""

    holder: Holder
    handle: psutil.Process | None
    reading: ProcessReading
    at: float

    @property
    def alive(self) -> bool:
        return self.reading.state not in _ENDED

    @property
    def works(self) -> bool:
        return not is_launcher(self.holder.process)


class Processes:
    """The processes of one job, kept from look to look.

    `held` names the job's outputs being written, `opened` whatever files are.
    """

    def __init__(self, options: Options, own: int | None = None) -> None:
        self.held: frozenset[str] = frozenset()
        self.opened: frozenset[str] = frozenset()
        self._options = options
        self._own = os.getpid() if own is None else own
        self._known: tuple[_Known, ...] = ()
        self._files = files_of(())
        self._signs: frozenset[str] = frozenset()
        self._scanned_at: float | None = None
        self._idle_since: float | None = None  # since when nobody was seen at work
        self._idle_sizes: dict[str, int] | None = None
        self._grew = False
        self._view = ProcessView(False, "not looked at")

    @property
    def seen(self) -> tuple[Holder, ...]:
        """The living processes of the last look, with the files that they hold."""
        return tuple(one.holder for one in self._known if one.alive)

    def read(
        self, at: float, wall: float, job: Job
    ) -> tuple[tuple[ProcessReading, ...], ProcessView]:
        """Look at what is known; at the whole table only where something was lost or is new."""
        del wall
        alive = {one.reading.pid for one in self._known if one.alive}
        self._known = tuple(_look(one, at, self._files) for one in self._known)
        lost = any(one.reading.pid in alive and not one.alive for one in self._known)
        try:
            signs = _signs(job, self._options)
            grown = self._grown(job)
            if lost or grown or signs != self._signs or self._due(at):
                self._scan(at, job, grown)
                self._signs = signs  # only now: what failed is tried again at the next look
        except OSError as error:
            if not starved(error):
                raise
            self._view = ProcessView(False, "too few files may be open at once to look around")
        held = (path for one in self._known for path in one.reading.holds)
        self.held = frozenset(path for path in held if path not in job.logs)
        files = (file for one in self.seen for file in one.process.files or ())
        self.opened = frozenset(file.path for file in files if file.writes)
        return tuple(one.reading for one in self._known), self._view

    def _due(self, at: float) -> bool:
        """Tell whether it is time to look for a job, or for the next worker of a launcher."""
        if self._scanned_at is None:
            return True
        if any(one.alive and one.works for one in self._known):
            self._idle_since = None
            return False
        self._idle_since = at if self._idle_since is None else self._idle_since
        pause = _SOON_S if at - self._idle_since <= _SOON_FOR_S else _RESCAN_S
        return at - self._scanned_at >= pause

    def _grown(self, job: Job) -> bool:
        """Notice files that grow while nobody is seen: somebody new or out of sight writes them."""
        if any(one.alive for one in self._known):
            self._idle_sizes, self._grew = None, False
            return False
        paths = _written(job, self._options)
        before, now = self._idle_sizes, {file: _size(file) for file in paths}
        self._idle_sizes = now
        # Once somebody is known to be out of sight, more of the same is no news.
        return not self._grew and any(now.get(f, 0) > size for f, size in (before or {}).items())

    def _scan(self, at: float, job: Job, grown: bool) -> None:
        self._files = files_of(holders.paths_of(job))
        table = proctable.table()
        found = holders.of_job(table, job, self._options, self._own)
        if self._scanned_at is not None and any(one.rule in holders.BY_PID for one in found):
            # A pid that somebody named means the process that had it then, and no other.
            known = {_identity(one.holder) for one in self._known}
            found = tuple(one for one in found if _identity(one) in known)
        self._known = _merged(self._known, found, at, self._files)
        self._scanned_at = at
        seen = any(one.alive for one in self._known)
        self._grew = (self._grew or grown) and not seen
        self._idle_sizes = None if seen else self._idle_sizes
        self._view = _view(job, table, self._own, self._grew)


def _signs(job: Job, options: Options) -> frozenset[str]:
    """Name what may mean that a new worker has come: a new log or output file."""
    files = _written(job, options)
    return frozenset((*files, *(log_files(job.root) if job.root else ())))


def _written(job: Job, options: Options) -> tuple[str, ...]:
    """Name the files that are there of those that a job writes; not one for each request."""
    paths = job.logs if options.counting == "files" else holders.paths_of(job)
    return tuple(
        os.path.join(os.path.dirname(path), name) for path in paths for name in present(path)
    )


def _view(job: Job, table: tuple[proctable.Process, ...], own: int, grew: bool) -> ProcessView:
    if job.logs == ("-",):
        return ProcessView(False, "the log comes by standard input, from a process unknown")
    return visibility.view(holders.paths_of(job), visibility.world(), table, own, grew)


def _merged(
    known: tuple[_Known, ...], found: tuple[Holder, ...], at: float, files: Files
) -> tuple[_Known, ...]:
    """Take over what was found; keep what is gone, unless somebody took its place."""
    before = {_identity(one.holder): one for one in known}
    now = {_identity(one): one for one in found}
    new = [one for key, one in now.items() if key not in before]
    # Where nobody of the old is left, the new ones are a run of their own.
    left = any(one.alive and one.works for one in known)
    alive = [one for one in known if one.alive and not _relieved(one, now)]
    ended = [one for one in known if not one.alive]
    ended = [one for one in ended if not _replaced(one, new, found, left)]
    fresh = [_look(_first(one, at), at, files) for one in new]
    return (*alive, *fresh, *ended[-_MOST_GONE:])


def _relieved(launcher: _Known, now: dict[tuple[int, int], Holder]) -> bool:
    """Tell whether a launcher has a worker now, so that it is not the job any more."""
    return not launcher.works and bool(now) and _identity(launcher.holder) not in now


def _replaced(gone: _Known, new: list[Holder], found: tuple[Holder, ...], left: bool) -> bool:
    """Tell whether another process goes on with what a vanished one did."""
    if not gone.works:
        return bool(found)
    held = set(gone.holder.holds)
    workers = [one for one in new if not is_launcher(one.process)]
    return any(not left or not held or held & set(one.holds) for one in workers)


def _first(holder: Holder, at: float) -> _Known:
    try:
        handle = psutil.Process(holder.process.pid)
    except (psutil.Error, OSError):
        handle = None
    return _Known(holder, handle, ProcessReading(holder.process.pid, "unknown"), at)


def _look(known: _Known, at: float, files: Files) -> _Known:
    """Read one process again; what has ended stays as it was last seen."""
    before = known.reading
    try:
        now = proctable.process(before.pid)
    except OSError:  # we cannot look: that says nothing of the process
        return known._replace(reading=before._replace(state="unknown", cpu_percent=None))
    # psutil answers for a new process that has the old one's pid: the start decides.
    if now is None or now.started != known.holder.process.started:
        gone = before._replace(
            state="gone", since_at=_since(before, at), cpu_percent=None, rss=None, holds=()
        )
        return known._replace(reading=gone, at=at)
    holder = known.holder
    state = _state(now)
    if now.files is not None and state not in _ENDED:
        holder = holder._replace(process=now, holds=files.held_by(now))
    reading = before._replace(
        state=state,
        threads=now.threads,
        command=_command(now) if now.command else before.command or clean(now.name),
        since_at=_since(before, at) if state in _ENDED else None,
        holds=holder.holds if state not in _ENDED else (),
        tty=bool(holders.astray(holder)),
    )
    return known._replace(holder=holder, reading=_measured(reading, known, at - known.at), at=at)


def _since(before: ProcessReading, at: float) -> float:
    return at if before.since_at is None else before.since_at


def _state(process: proctable.Process) -> str:
    """Name a process's state; one whose main thread alone has ended is at work."""
    if process.state == "Z" and process.threads > 1:
        return "sleeping"
    return _STATES.get(process.state, "unknown")


def _measured(reading: ProcessReading, known: _Known, passed: float) -> ProcessReading:
    """Add what psutil measures; a zombie's memory is unknown, not 0."""
    if reading.state in _ENDED:
        return reading._replace(cpu_percent=None, rss=None)
    if known.handle is None:
        return reading
    try:
        with known.handle.oneshot():
            times = known.handle.cpu_times()
            cpu = times.user + times.system
            memory = known.handle.memory_info().rss
            started = reading.started or known.handle.create_time()
            owner = reading.owner or known.handle.username()
    except (psutil.Error, OSError):
        return reading._replace(cpu_percent=None)
    spent = None if reading.cpu_s is None else cpu - reading.cpu_s
    share = None if spent is None or passed <= 0 else max(0.0, 100 * spent / passed)
    return reading._replace(
        cpu_s=cpu, cpu_percent=share, rss=memory or None, started=started, owner=owner
    )


def _command(process: proctable.Process) -> str:
    return masked(clean(" ".join(process.command)))


def _identity(holder: Holder) -> tuple[int, int]:
    return holder.process.pid, holder.process.started


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
