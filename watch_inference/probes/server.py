"""A job's processes in, how its inference servers are out; asked in the background, seldom.

One question to a server at a time, at most one a second, and one in ten seconds when all is well.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from watch_inference.model import Job, LogReading, Options, ProcessReading, ServerReading
from watch_inference.probes import health as judging
from watch_inference.probes.addresses import is_loopback, shown, split
from watch_inference.probes.background import Background, Clock, Timing
from watch_inference.probes.health import MODELS, Health, Visit
from watch_inference.probes.places import TYPED, Place, Places
from watch_inference.probes.sockets import Talk
from watch_inference.probes.visits import Question, ServerLog, visit

_SURVEY_S = 10.0
_GLANCE_S = 0.02  # what a look around usually takes
_LEAST_S = 1.0  # between two questions to one server
_ANSWER_S = 0.1  # what a second answer may take where somebody waits
_RETRY_S = (2.0, 5.0)  # after a failure, and once it counts as gone
_MODELS_S = 15.0
_STRANGER_S = 300.0  # what listens at a default port, and is no inference server
_SHARED_S = 60.0  # for so long others who were seen twice are taken to be there


class Servers:
    """The servers of one job, kept from look to look."""

    def __init__(
        self,
        options: Options,
        clock: Clock,
        timing: Timing = Timing(),  # noqa: B008 - a still value
        proc: str = "/proc",
    ) -> None:
        self._asks = options.ask_server
        self._clock = clock
        self._timing = timing
        self._places = Places(options.servers, proc)
        self._survey: Background[tuple[Place, ...]] = Background(clock)
        self._surveyed: tuple[float, tuple[int, ...]] | None = None
        self._servers: dict[str, _Server] = {}

    def read(
        self,
        at: float,
        wall: float,
        job: Job,
        processes: Sequence[ProcessReading],
        logs: Sequence[LogReading],
        patience_s: float = 0.0,
    ) -> tuple[ServerReading, ...]:
        """Give what is known of each server now, and ask on; waits for first answers only so long.

        Where patience is given, a refusal is asked again after 0.2 s, and then believed.
        """
        del wall, job
        if not self._asks:
            return ()
        until = time.monotonic() + patience_s
        self._look_around(at, processes, patience_s)
        lines = tuple(line for log in logs for line in log.tail)
        self._ask(at, lines, patience_s > 0, until)
        again_at = time.monotonic() + _LEAST_S
        more = any(judging.wants_more(one.health) for one in self._servers.values())
        if more and again_at + _ANSWER_S <= until:
            time.sleep(_LEAST_S)
            self._ask(self._clock(), lines, True, until)
        return tuple(r for one in self._servers.values() if (r := one.reading(at)) is not None)

    @property
    def waiting(self) -> bool:
        """Tell whether anything that was asked has not been answered yet."""
        return self._survey.asked_at is not None or any(
            one.waiting for one in self._servers.values()
        )

    def close(self) -> None:
        """Leave questions in flight behind."""
        self._servers.clear()

    def _look_around(self, at: float, processes: Sequence[ProcessReading], wait_s: float) -> None:
        """Find servers anew, where processes have changed or some time has passed."""
        pids = tuple(one.pid for one in processes)
        due = self._surveyed is None or at - self._surveyed[0] >= _SURVEY_S
        due = due or (self._surveyed is not None and self._surveyed[1] != pids)
        # Not while a question of ours is in flight: it would look like another client's.
        if due and not any(one.waiting for one in self._servers.values()):
            still = tuple(processes)
            peers = {url: one.health.peer for url, one in self._servers.items()}
            if self._survey.ask(lambda: self._places.find(still, peers)):
                self._surveyed = (at, pids)
        self._survey.wait(max(wait_s, _GLANCE_S))
        places = self._survey.take()
        if places is None:
            return
        before = self._servers
        self._servers = {
            place.url: before.get(place.url) or _Server(place, self._clock, self._timing)
            for place in places
        }
        for place in places:
            self._servers[place.url].found(place, at)

    def _ask(self, at: float, lines: tuple[str, ...], twice: bool, until: float) -> None:
        if self._survey.asked_at is not None:
            return
        alone = len(self._servers) == 1
        for one in self._servers.values():
            one.turn(at, lines if alone else (), twice)
        if twice:
            for one in self._servers.values():
                one.wait(until - time.monotonic())
                one.collect(at)


class _Server:
    """One server: what is known of it, and the question in flight."""

    def __init__(self, place: Place, clock: Clock, timing: Timing) -> None:
        self.health = Health()
        self._place = place
        self._clock = clock
        self._timing = timing
        self._flight: Background[Visit] = Background(clock)
        self._due_at = float("-inf")
        self._startless = False  # no thread was to be had
        self._others = 0  # surveys in a row that saw other clients
        self._shared_at = float("-inf")
        port = split(place.url)[2]
        self._log = ServerLog(port) if is_loopback(place.url) else None

    def found(self, place: Place, at: float) -> None:
        """Take over what a survey saw of who is connected."""
        self._place = place
        self._others = self._others + 1 if place.talk.others else 0
        if self._others >= 2:  # another monitor's glance is no client
            self._shared_at = at

    def turn(self, at: float, lines: tuple[str, ...], twice: bool) -> None:
        """Collect an answer that has come, and ask the next question if it is time."""
        self.collect(at)
        if at < self._due_at or self._flight.asked_at is not None or not self._place.reachable:
            return
        question = Question(self._place.url, self.health, self._timing.deadline_s, twice, lines)
        self._startless = not self._flight.ask(lambda: visit(question, self._log, self._clock))
        self._due_at = at + _LEAST_S

    @property
    def waiting(self) -> bool:
        """Tell whether a question is in flight."""
        return self._flight.asked_at is not None

    def wait(self, seconds: float) -> None:
        """Wait for the answer, at most so long."""
        self._flight.wait(seconds)

    def collect(self, at: float) -> None:
        """Fold the answer in, if it has come."""
        came = self._flight.take()
        if came is not None:
            self.health = judging.fold(self.health, came)
            self._due_at = at + _pause(self._place, self.health, came, self._timing)

    def reading(self, at: float) -> ServerReading | None:
        """Say how it is; nothing of what only listens where a server might."""
        if not _known(self._place, self.health):
            return None
        waiting_s = self._flight.waiting_s(at)
        overdue = int(waiting_s // self._timing.deadline_s)
        told = _reading(self._place, self.health, at, self._shared(at))
        error = judging.trouble(self.health, waiting_s, overdue)
        if not self._place.reachable:
            error = "in the job's own network, not to be reached from here"
        elif self._startless:
            error = "not asked: no more threads may be started"
        silent_s = told.silent_s
        if silent_s is None and self.health.failures + overdue >= judging.FAILURES:
            silent_s = waiting_s  # it hangs in the very question that would count as the third
        return told._replace(
            healthy=judging.healthy(self.health, overdue),
            error=error,
            silent_s=silent_s,
            moved_at=_moved_at(told, self.health, self._place.talk),
        )

    def _shared(self, at: float) -> bool | None:
        if at - self._shared_at <= _SHARED_S:
            return True
        return None if self._place.talk.others is None else False


def _known(place: Place, health: Health) -> bool:
    """Tell whether it is a server of the job's: by name, by what it speaks, or by use."""
    return place.named or health.kind is not None or bool(place.talk.mine)


def _pause(place: Place, health: Health, came: Visit, timing: Timing) -> float:
    """Say how long to leave a server alone: the longer, the better it is or the slower."""
    if not _known(place, health) and not judging.wants_more(health):
        return _STRANGER_S
    if came.fault is not None:
        return _RETRY_S[health.failures >= judging.FAILURES]
    latency = came.latency_s or 0.0
    slow = 10 * latency if latency > 1 else 0.0
    if judging.wants_more(health):
        return max(_LEAST_S, slow)
    return max(_MODELS_S if health.path == MODELS else timing.every_s, slow)


def _reading(place: Place, health: Health, at: float, shared: bool | None) -> ServerReading:
    figures, mine = health.figures, place.talk.mine
    # A URL in a command line that answers, and not as a server does, may be of anything else.
    speaks = health.kind is not None or health.answers == 0 or health.loading
    ours = place.named and (speaks or place.found == TYPED)
    silent = health.failures >= judging.FAILURES or health.refused_at_once
    preempted = health.preempted
    return ServerReading(
        url=shown(place.url),
        kind=health.kind,
        shared=shared,
        age_s=None if health.answered_at is None else max(0.0, at - health.answered_at),
        latency_s=health.latency_s,
        running=figures.running if figures is not None else None,
        queued=figures.queued if figures is not None else None,
        kv_usage=figures.kv_usage if figures is not None else None,
        tokens_per_s=judging.tokens_per_s(health, at),
        evidence=ours or bool(mine),
        found=place.found,
        silent_s=at - health.failed_at if silent and health.failed_at is not None else None,
        still_s=judging.still_s(health),
        idle_s=None if health.idle_at is None else max(0.0, at - health.idle_at),
        usual_tokens_per_s=health.usual,
        usual_per_request=health.usual_each,
        restarts=health.restarts,
        restarted_at=health.restarted_at,
        preemptions=None if preempted is None else round(preempted[1] - preempted[0]),
    )


def _moved_at(told: ServerReading, health: Health, talk: Talk) -> float | None:
    """Say when this job's tokens last moved: not others', nor those of a server out of use."""
    unused = talk.others is None and talk.mine == 0
    return health.moved_at if told.evidence and not told.shared and not unused else None
