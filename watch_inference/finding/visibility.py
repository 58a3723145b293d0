"""A job's files in; out whether whoever writes them would be seen here. Reads /proc.

Only a complete view may say that nobody works on the files any more.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable
from typing import NamedTuple

from watch_inference.finding.mounts import Mount, is_network, mount_of, mounts
from watch_inference.finding.proctable import Process, ancestors, genuine, process, started_at
from watch_inference.model import ProcessView

_FIRST_NAMESPACE = "pid:[4026531836]"  # the kernel's own number for the initial PID namespace
_ALL_USERS = ["0", "0", "4294967295"]


class World(NamedTuple):
    """What there is to know of our own place: seen once in a while, not at each look."""

    mounts: tuple[Mount, ...]
    genuine: bool
    namespace: str | None
    namespace_since: float | None  # Unix time at which our PID namespace began
    all_seeing: bool  # root, and not only within a user namespace
    user: int


def world(proc: str = "/proc") -> World:
    """Look at the namespaces, mounts and rights that this process has."""
    first = process(1, proc)
    return World(
        mounts=mounts(f"{proc}/self"),
        genuine=genuine(proc),
        namespace=_link(f"{proc}/self/ns/pid"),
        namespace_since=None if first is None else started_at(first.started),
        all_seeing=os.geteuid() == 0 and _text(f"{proc}/self/uid_map").split() == _ALL_USERS,
        user=os.geteuid(),
    )


def view(
    paths: Iterable[str], here: World, table: tuple[Process, ...], own: int, grew: bool = False
) -> ProcessView:
    """Tell whether the writer of these files would be among the processes of the table.

    `own` is the monitor's pid; `grew`: a file grew, and no process that we see held it.
    """
    if not here.genuine:
        return ProcessView(False, "/proc shows another PID namespace")
    if grew:
        return ProcessView(False, "files grow, and no process that is seen here holds them")
    closed = frozenset(one.owner for one in table if one.files is None)
    above = ancestors(table, own)
    alone = all(one.pid in above or own in ancestors(table, one.pid) for one in table)
    for path in dict.fromkeys(map(_existing, paths)):
        reason = _hidden_writer(path, here, closed, alone)
        if reason:
            return ProcessView(False, reason)
    return ProcessView(True)


def _hidden_writer(path: str, here: World, closed: frozenset[int], alone: bool) -> str:
    """Say why the writer of a file may be out of sight; nothing if it may not."""
    try:
        status = os.stat(path)
    except OSError as error:
        return f"{path}: {(error.strerror or 'cannot be read').lower()}"
    mount = mount_of(os.path.realpath(path), here.mounts)
    if mount is not None and is_network(mount.kind):
        return f"files on {mount.kind}: the job may run on another node"
    stranger = not here.all_seeing and status.st_uid != here.user
    if stranger or status.st_uid in closed:
        return f"processes of user {_user(status.st_uid)} cannot be looked into"
    if here.namespace == _FIRST_NAMESPACE:
        return ""
    shared = mount is not None and mount.root != "/"
    older = here.namespace_since is not None and here.namespace_since < status.st_mtime
    return "another PID namespace may hold the job" if shared or alone or not older else ""


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _existing(path: str) -> str:
    """Go up from a file that is not there yet to the folder that is."""
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    return path


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
