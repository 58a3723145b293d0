"""A process in, its control group's memory limit, use and kills out; version 1 and 2.

Reads /proc and the cgroup file systems; what is not there is unknown.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from watch_inference.finding.mounts import Mount, is_inside, mounts

_UNLIMITED = 1 << 60  # version 1 writes a number near 2**63 for no limit
_LARGEST = 1 << 16  # bytes of such a file


class Group(NamedTuple):
    """The control group of a process's memory: where it is, and up to where a limit may stand."""

    folder: str
    top: str
    version: int


class Memory(NamedTuple):
    """Bytes used and allowed where the limit is tightest; kills are those since the group began."""

    used: int | None = None
    limit: int | None = None
    oom_kills: int | None = None


def group_of(pid: int, proc: str = "/proc") -> Group | None:
    """Find the group that bounds a process's memory; None where nothing tells."""
    rows = [line.split(":", 2) for line in _text(f"{proc}/{pid}/cgroup").splitlines()]
    rows = [row for row in rows if len(row) == 3]
    mounted = mounts(f"{proc}/self")
    for row in rows:
        if "memory" in row[1].split(","):
            found = _group(row[2], mounted, "cgroup", "memory.limit_in_bytes", 1)
            if found is not None:
                return found
    for row in rows:
        if row[0] == "0" and not row[1]:
            return _group(row[2], mounted, "cgroup2", "cgroup.procs", 2)
    return None


def _group(
    path: str, mounted: tuple[Mount, ...], kind: str, mark: str, version: int
) -> Group | None:
    for mount in mounted:
        if mount.kind != kind or not os.path.exists(f"{mount.point}/{mark}"):
            continue
        root = mount.root.rstrip("/")
        inner = path[len(root) :] if is_inside(path, mount.root) else ""
        folder = f"{mount.point}{inner}".rstrip("/")
        if ".." in inner.split("/") or not os.path.isdir(folder):
            folder = mount.point  # seen from inside another namespace
        return Group(folder, mount.point, version)
    return None


def read(group: Group, host_bytes: int | None = None) -> Memory:
    """Read a group: the tightest limit of it and of those above, and the use where that stands."""
    tight, limit = group.folder, host_bytes
    found = None
    for folder in _upwards(group):
        name = "memory.max" if group.version == 2 else "memory.limit_in_bytes"
        said = _number(f"{folder}/{name}")
        if said is not None and said < _UNLIMITED and (limit is None or said < limit):
            tight, limit, found = folder, said, said
    host_wide = found is None and group.folder == group.top
    return Memory(None if host_wide else _used(tight, group.version), found, _kills(group))


def _upwards(group: Group) -> list[str]:
    folders = [group.folder]
    while is_inside(folders[-1], group.top) and folders[-1] != group.top:
        folders.append(os.path.dirname(folders[-1]))
    return folders


def _used(folder: str, version: int) -> int | None:
    """Read the use without the cache of files, which a limit pushes out again."""
    name = "memory.current" if version == 2 else "memory.usage_in_bytes"
    used = _number(f"{folder}/{name}")
    stat = _fields(f"{folder}/memory.stat")
    cached = stat.get("inactive_file" if version == 2 else "total_inactive_file", 0)
    return None if used is None else max(0, used - cached)


def _kills(group: Group) -> int | None:
    name = "memory.events" if group.version == 2 else "memory.oom_control"
    return _fields(f"{group.folder}/{name}").get("oom_kill")


def _fields(path: str) -> dict[str, int]:
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdecimal()}


def _number(path: str) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_LARGEST)
    except OSError:
        return ""
