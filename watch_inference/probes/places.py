"""A job's processes in, the servers that it may use out, each with the rule that chose it.

Reads /proc; sends nothing, and asks no resolver.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from watch_inference.model import ProcessReading
from watch_inference.probes import sockets
from watch_inference.probes.addresses import is_loopback, split, urls_in
from watch_inference.probes.sockets import Talk

# vLLM's and llama.cpp's own default is the first or near it; SGLang's is the second.
DEFAULT_PORTS = (8000, 30000)
TYPED = "--server"  # the rule that needs no other
_ENDED = ("gone", "zombie")


class Place(NamedTuple):
    """Where a server may be. `named`: somebody said so, the port alone did not."""

    url: str
    found: str
    named: bool = True
    talk: Talk = Talk(None, None)
    reachable: bool = True


class Places:
    """Where a job's servers are; looked up again and again, since connections come and go."""

    def __init__(self, named: Sequence[str], proc: str = "/proc") -> None:
        self._named = named
        self._proc = proc
        self._last: list[Place] = []

    def find(
        self, processes: Sequence[ProcessReading], peers: Mapping[str, str]
    ) -> tuple[Place, ...]:
        """List the servers: named, else in a command line, else at a port of their own.

        `peers` are the addresses at which servers have answered, by URL.
        """
        alive = [one for one in processes if one.state not in _ENDED]
        ours = sockets.network("self", self._proc)
        away = [
            one.pid for one in alive if sockets.network(one.pid, self._proc) not in (None, ours)
        ]
        base = f"{self._proc}/{away[0] if away else 'self'}"
        pids = sockets.family((one.pid for one in alive), self._proc)
        # Whose a connection is must be known at the time of the table: so before it and after it.
        job, own = self._sockets(pids), self._sockets((os.getpid(),))
        table = sockets.connections(base)
        job, own = _both(job, self._sockets(pids)), _both(own, self._sockets((os.getpid(),)))
        found = []
        if alive or not self._last:  # a job that is over keeps the servers that it had
            self._last = self._candidates(alive, away)
        for place in self._last:
            _, host, port = split(place.url)
            server = sockets.addresses(peers.get(place.url) or host)
            talk = sockets.talk(table, server, port, job, own or ())
            found.append(place._replace(talk=talk))
        return tuple(found)

    def _candidates(self, alive: list[ProcessReading], away: list[int]) -> list[Place]:
        if self._named:
            return [Place(url, TYPED) for url in dict.fromkeys(self._named)]
        said: dict[str, Place] = {}
        for one in alive:
            for url in urls_in(one.command or ""):
                reachable = not (is_loopback(url) and one.pid in away)
                rule = f"in the command line of process {one.pid}"
                said.setdefault(url, Place(url, rule, reachable=reachable))
        if said:
            return list(said.values())
        table = sockets.connections(f"{self._proc}/self")
        return [
            Place(f"http://127.0.0.1:{port}", f"something listens at port {port}", named=False)
            for port in DEFAULT_PORTS
            if sockets.listens(table, port)
        ]

    def _sockets(self, pids: Sequence[int]) -> frozenset[int] | None:
        return sockets.inodes(pids, self._proc)


def _both(one: frozenset[int] | None, other: frozenset[int] | None) -> frozenset[int] | None:
    return other if one is None else one if other is None else one | other
