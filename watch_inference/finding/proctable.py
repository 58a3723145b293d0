"""The process table to `Process` values, straight from /proc; reads there, and nowhere else."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from typing import NamedTuple

from watch_inference.finding.mounts import starved

_KERNEL_THREAD = 0x00200000  # PF_KTHREAD
_TERMINALS = ("/dev/pts/", "/dev/tty", "/dev/console")
_NOT_FILES = ("/dev/", "/proc/", "/sys/", "/memfd:", "/usr/", "/etc/")
_IN_MEMORY = "/dev/shm/"
_STANDARD = frozenset("012")
_STREAMS = ("pipe:", "socket:", *_TERMINALS)
_MOST = 1 << 17


class OpenFile(NamedTuple):
    """A regular file, pipe or terminal that a process has open; `path` as that process sees it."""

    number: int
    path: str
    writes: bool


class Process(NamedTuple):
    """One process. `files` is None where we may not look; `base` is its folder in /proc."""

    pid: int
    parent: int
    started: int  # clock ticks since boot
    name: str
    state: str  # the kernel's letter
    threads: int
    owner: int
    command: tuple[str, ...]
    files: tuple[OpenFile, ...] | None
    base: str


def table(proc: str = "/proc") -> tuple[Process, ...]:
    """Read all processes but the kernel's own threads; none where /proc is not our namespace's.

    Raises OSError where we have no descriptor left: nobody is gone only because we cannot look.
    """
    if not genuine(proc):
        return ()
    pids = sorted(int(name) for name in os.listdir(proc) if name.isdecimal())
    found = (process(pid, proc) for pid in pids)
    return tuple(one for one in found if one is not None)


def genuine(proc: str = "/proc") -> bool:
    """Tell whether the pids in /proc are those of our own PID namespace."""
    try:
        return os.readlink(f"{proc}/self") == str(os.getpid())
    except OSError:
        return False


def process(pid: int, proc: str = "/proc") -> Process | None:
    """Read one process; None if it is gone, hidden or a kernel thread."""
    base = f"{proc}/{pid}"
    try:
        stat, owner = _content(f"{base}/stat")
        # The name may hold blanks and parentheses: the fields begin after the last one.
        head, _, rest = stat.rpartition(b")")
        fields = rest.split()
        state, threads = fields[0].decode(), int(fields[17])
        if int(fields[6]) & _KERNEL_THREAD:
            return None
        if state == "Z" and threads > 1:
            base = _living_thread(base) or base
        command = _content(f"{base}/cmdline")[0].rstrip(b"\0")
    except (OSError, ValueError, IndexError) as error:
        if isinstance(error, OSError) and starved(error):
            raise
        return None
    return Process(
        pid,
        parent=int(fields[1]),
        started=int(fields[19]),
        name=os.fsdecode(head.partition(b"(")[2]),
        state=state,
        threads=threads,
        owner=owner,
        command=tuple(os.fsdecode(command).split("\0")) if command else (),
        files=open_files(base),
        base=base,
    )


def open_files(base: str) -> tuple[OpenFile, ...] | None:
    """List what a process has open: files, and pipes and terminals as its standard streams."""
    folder = f"{base}/fd/"
    try:
        names = os.listdir(folder)
    except OSError as error:
        if starved(error):
            raise
        return None
    opened = []
    for name in names:
        try:
            path = os.readlink(folder + name)
            kept = path.startswith("/") and not path.startswith(_NOT_FILES)
            kept = kept or path.startswith(_IN_MEMORY)
            if kept or (name in _STANDARD and path.startswith(_STREAMS)):
                # The link's own permission bits say how the file was opened.
                writes = bool(os.lstat(folder + name).st_mode & 0o200)
                opened.append(OpenFile(int(name), path, writes))
        except OSError:
            continue
    opened.sort()
    return tuple(opened)


def is_terminal(path: str) -> bool:
    """Tell whether an open file is a terminal."""
    return path.startswith(_TERMINALS)


def working_folder(process: Process) -> str | None:
    """Read the folder that a process works in, as it sees it; None where we may not."""
    try:
        return os.readlink(f"{process.base}/cwd").removesuffix(" (deleted)")
    except OSError:
        return None


def started_at(ticks: int) -> float | None:
    """Turn clock ticks since boot into Unix time."""
    try:
        awake = time.clock_gettime(time.CLOCK_BOOTTIME)
        return time.time() - awake + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None


def ancestors(processes: Iterable[Process], pid: int) -> frozenset[int]:
    """Name a process and all above it."""
    parents = {one.pid: one.parent for one in processes}
    found: set[int] = set()
    while pid and pid not in found:
        found.add(pid)
        pid = parents.get(pid, 0)
    return frozenset(found)


def descendants(processes: Iterable[Process], pid: int) -> frozenset[int]:
    """Name all below a process."""
    children: dict[int, list[int]] = {}
    for one in processes:
        children.setdefault(one.parent, []).append(one.pid)
    found: set[int] = set()
    ahead = list(children.get(pid, ()))
    while ahead:
        child = ahead.pop()
        if child not in found:
            found.add(child)
            ahead.extend(children.get(child, ()))
    return frozenset(found)


def _living_thread(base: str) -> str | None:
    """Find a thread that outlived the main one: only there are files and command to be seen."""
    for name in sorted(os.listdir(f"{base}/task"), key=int):
        folder = f"{base}/task/{name}"
        try:
            if _content(f"{folder}/stat")[0].rpartition(b")")[2].split()[0] != b"Z":
                return folder
        except (OSError, IndexError):
            continue
    return None


def _content(path: str) -> tuple[bytes, int]:
    """Read a small file and its owner, which is root where a process hides its memory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, _MOST), os.fstat(descriptor).st_uid
    finally:
        os.close(descriptor)
