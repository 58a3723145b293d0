"""The kernel's table of TCP connections and processes' sockets in; who talks with a server, out.

Reads /proc only; sends nothing.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Collection, Iterable
from typing import NamedTuple

_ESTABLISHED, _LISTEN = "01", "0A"
_MAPPED = bytes(10) + b"\xff\xff"
_MOST = 64  # processes below one that are looked at

Endpoint = tuple[bytes, int]


class Connection(NamedTuple):
    """One row of the table: a connection, or a place where somebody listens."""

    local: Endpoint
    remote: Endpoint
    state: str
    inode: int


class Talk(NamedTuple):
    """Who talks with a server: this job's connections, and others'; None where we cannot see."""

    mine: int | None
    others: int | None


def connections(base: str = "/proc/self") -> tuple[Connection, ...]:
    """Read the connections of a process's network; none where that is closed to us."""
    found = []
    for name in ("tcp", "tcp6"):
        try:
            with open(f"{base}/net/{name}", encoding="ascii", errors="replace") as file:
                rows = file.read().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            words = row.split()
            try:
                if words[3] in (_ESTABLISHED, _LISTEN):
                    ends = _endpoint(words[1]), _endpoint(words[2])
                    found.append(Connection(*ends, words[3], int(words[9])))
            except (IndexError, ValueError):
                continue
    return tuple(found)


def _endpoint(text: str) -> Endpoint:
    """Read 0100007F:1F90: each word of the address is in the machine's own byte order."""
    address, _, port = text.partition(":")
    data = bytes.fromhex(address)
    plain = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    return plain.removeprefix(_MAPPED), int(port, 16)


def listens(table: Iterable[Connection], port: int) -> bool:
    """Tell whether somebody listens at a port of the machine itself."""
    return any(one.state == _LISTEN and one.local[1] == port for one in table)


def listener(table: Iterable[Connection], port: int) -> int | None:
    """Find the socket that listens at a port."""
    found = (one.inode for one in table if one.state == _LISTEN and one.local[1] == port)
    return next(found, None)


def addresses(host: str) -> frozenset[bytes]:
    """Read a host's addresses without asking anybody: none of a name but the machine's own."""
    names = ("127.0.0.1", "::1") if host == "localhost" else (host,)
    found = set()
    for name in names:
        for kind in (socket.AF_INET, socket.AF_INET6):
            try:
                found.add(socket.inet_pton(kind, name).removeprefix(_MAPPED))
            except (OSError, ValueError):
                continue
    return frozenset(found)


def talk(
    table: Iterable[Connection],
    server: Collection[bytes],
    port: int,
    job: Collection[int] | None,
    own: Collection[int],
) -> Talk:
    """Count who is connected with a server: `job` and `own` are inodes of sockets."""
    rows = [one for one in table if one.state == _ESTABLISHED]
    to_it = [one for one in rows if one.remote[1] == port and one.remote[0] in server]
    mine = None if job is None else sum(one.inode in job for one in to_it)
    if not listens(table, port) or not _is_here(rows, server):
        return Talk(mine, None)  # its other clients are out of sight
    known = {one.local for one in to_it if one.inode in own or one.inode in (job or ())}
    clients = [one.remote for one in rows if one.local[1] == port]
    return Talk(mine, sum(client not in known for client in clients))


def _is_here(rows: Iterable[Connection], server: Collection[bytes]) -> bool:
    """Tell whether an address is one of this machine's, as far as its connections show."""
    local = {one.local[0] for one in rows}
    return any(one in local or one[:1] == b"\x7f" or one == bytes(15) + b"\1" for one in server)


def inodes(pids: Iterable[int], proc: str = "/proc") -> frozenset[int] | None:
    """Name the sockets of processes; None where we may look into none of them."""
    found: set[int] = set()
    seen = False
    for pid in pids:
        try:
            names = os.listdir(f"{proc}/{pid}/fd")
        except OSError:
            continue
        seen = True
        for name in names:
            try:
                target = os.readlink(f"{proc}/{pid}/fd/{name}")
            except OSError:
                continue
            if target.startswith("socket:["):
                found.add(int(target[8:-1]))
    return frozenset(found) if seen else None


def family(pids: Iterable[int], proc: str = "/proc") -> tuple[int, ...]:
    """Name processes and all below them."""
    found: dict[int, None] = {}
    ahead = list(pids)
    while ahead and len(found) < _MOST:
        pid = ahead.pop(0)
        if pid in found:
            continue
        found[pid] = None
        ahead += _children(pid, proc)
    return tuple(found)


def _children(pid: int, proc: str) -> list[int]:
    try:
        tasks = os.listdir(f"{proc}/{pid}/task")
        texts = []
        for task in tasks:
            with open(f"{proc}/{pid}/task/{task}/children", encoding="ascii") as file:
                texts.append(file.read())
        return [int(word) for text in texts for word in text.split()]
    except (OSError, ValueError):
        return []


def network(pid: int | str, proc: str = "/proc") -> str | None:
    """Name the network namespace of a process; None where we may not look."""
    try:
        return os.readlink(f"{proc}/{pid}/ns/net")
    except OSError:
        return None
