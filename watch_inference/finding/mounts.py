"""Paths and processes in; what is mounted there, and how we reach what another process sees, out.

Reads mountinfo and file identities.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

_NETWORK = (
    "nfs cifs smb lustre gpfs beegfs ceph 9p virtiofs afs fuse. pvfs orangefs gluster wekafs panfs"
    " gfs2 ocfs2"
)
_INTO = re.compile(r"/proc/[0-9]+/root/")
_ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))


class Mount(NamedTuple):
    """One line of mountinfo: what is mounted where, from which folder of its file system."""

    device: str
    root: str
    point: str
    kind: str


def mounts(base: str = "/proc/self") -> tuple[Mount, ...]:
    """Read what is mounted for a process, by its folder in /proc; nothing where it is closed.

    Raises OSError where we have no descriptor left, as whatever reads here does.
    """
    try:
        with open(f"{base}/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError as error:
        if starved(error):
            raise
        return ()
    found = []
    for line in lines:
        words = line.split(" ")
        try:
            kind = words[words.index("-") + 1]
            found.append(Mount(words[2], _plain(words[3]), _plain(words[4]), kind))
        except (ValueError, IndexError):
            continue
    return tuple(found)


def _plain(text: str) -> str:
    """Undo mountinfo's octal escapes of blanks and the like."""
    for code, char in _ESCAPES:
        text = text.replace(code, char)
    return text


def mount_of(path: str, mounted: Iterable[Mount]) -> Mount | None:
    """Find the mount that a real path lies on: the deepest, and the last of those at one place."""
    found = None
    for one in mounted:
        if is_inside(path, one.point) and (found is None or len(one.point) >= len(found.point)):
            found = one
    return found


def is_inside(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or lies in it."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def is_network(kind: str) -> bool:
    """Tell whether other computers may write to a file system of this kind."""
    return kind.startswith(tuple(_NETWORK.split()))


def here(base: str, path: str, link: str | None = None) -> str:
    """Name the path by which we reach what a process sees as `path`.

    `base` is the process's folder in /proc, `link` a way through it to the very file. In another
    container the same file has another name here, or none: then the way through /proc is left.
    """
    if not elsewhere(base):
        root = "" if link else (_link(f"{base}/root") or "/").rstrip("/")
        return root + path
    through = link or f"{base}/root{path}"
    wanted = identity(through)
    if wanted is None or wanted == identity(path):
        return path
    for candidate in _candidates(path, mounts(base), mounts()):
        if identity(candidate) == wanted:
            return candidate
    return f"{base}/root{path}"


def elsewhere(base: str) -> bool:
    """Tell whether a process has mounts of its own, as far as we may know."""
    return _link(f"{base}/ns/mnt") not in (None, _our_mounts())


@lru_cache(maxsize=1)
def _our_mounts() -> str | None:
    return _link("/proc/self/ns/mnt")


def _candidates(path: str, theirs: tuple[Mount, ...], ours: tuple[Mount, ...]) -> list[str]:
    """Name the places where we may have mounted what a process has at a path."""
    mount = mount_of(path, theirs)
    if mount is None:
        return []
    inner = os.path.normpath(f"{mount.root}/{path[len(mount.point.rstrip('/')) :]}")
    return [
        os.path.normpath(f"{one.point}/{inner[len(one.root.rstrip('/')) :]}")
        for one in ours
        if one.device == mount.device and is_inside(inner, one.root)
    ]


def real(path: str) -> str:
    """Follow the links in a path; the way into another container, through /proc, stays as it is."""
    return os.path.normpath(path) if is_way_into(path) else os.path.realpath(path)


def is_way_into(path: str) -> bool:
    """Tell whether a path leads through /proc to what only another container has."""
    return _INTO.match(path) is not None


def starved(error: OSError) -> bool:
    """Tell whether we have no descriptor left: that says nothing about what was to be read."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def identity(path: str) -> tuple[int, int] | None:
    """Tell which file a path leads to; None where it leads to none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
