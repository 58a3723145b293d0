"""What each visit to a server brought in, what may be said of the server out; pure.

One bad answer says nothing: a state changes after three. Whether a server that answers also works
is told by its counters, and only by as much as those can tell.
"""

from __future__ import annotations

from typing import NamedTuple

from watch_inference import units
from watch_inference.probes.fetch import Fault
from watch_inference.probes.metrics import Figures, moved, restarted

METRICS, MODELS = "/metrics", "/v1/models"
FAILURES = 3
_STILL_S = 60.0  # no counter that moves at each step stands so long while requests run
_LINES_S = 180.0  # nor do a log's lines, if it has come with some
_ENDS_S = 1800.0  # one that moves when a request ends may stand for as long as one takes
_PAUSES = 3.0  # ... or for so many times the longest pause seen
_RECENT_S = 60.0  # the window of a speed, and how long a line of a log is news
_MOST_POINTS = 64


class Visit(NamedTuple):
    """What one question to a server brought: its answer, or why there was none."""

    at: float
    path: str = METRICS
    fault: Fault | None = None
    refusals: int = 1  # in a row, within this one visit
    latency_s: float | None = None
    peer: str = ""  # the address that answered
    kind: str | None = None
    note: str | None = None  # what is odd about the answer
    loading: bool = False  # it answers, but says that it is not ready, or elsewhere
    figures: Figures | None = None
    logged: Figures | None = None  # from the server's own log
    then: str | None = None  # what to ask next, where the answer says it


class Health(NamedTuple):
    """What is remembered of one server; times are on the monotonic clock."""

    kind: str | None = None
    path: str = METRICS  # what to ask next
    failures: int = 0  # in a row
    failed_at: float | None = None  # when that row began
    refused_at_once: bool = False
    fault: str | None = None
    answered_at: float | None = None
    answers: int = 0
    latency_s: float | None = None
    peer: str = ""
    note: str | None = None
    loading: bool = False
    figures: Figures | None = None
    figures_at: float | None = None
    first_at: float | None = None  # of the figures
    moved_at: float | None = None
    busy_at: float | None = None  # since when requests have run or waited
    idle_at: float | None = None
    line: str | None = None  # the log's newest line, and the newest in which tokens flow
    working: str | None = None
    news_at: float | None = None  # when such a line last came
    longest_s: float = 0.0  # pause between two moves with requests running
    points: tuple[tuple[float, float], ...] = ()  # time, tokens generated
    usual: float | None = None  # tokens/s with requests running, and of one of them
    usual_each: float | None = None
    restarts: int = 0
    restarted_at: float | None = None
    preempted: tuple[float, float] | None = None  # first and newest count


def fold(before: Health, visit: Visit) -> Health:
    """Fold one visit into what is remembered."""
    if visit.fault is not None:
        return _failed(before, visit)
    health = before._replace(
        kind=visit.kind or before.kind,
        path=_next_path(before, visit),
        failures=0,
        failed_at=None,
        fault=None,
        refused_at_once=False,
        answered_at=visit.at,
        answers=before.answers + 1,
        latency_s=visit.latency_s,
        peer=visit.peer,
        note=visit.note,
        loading=visit.loading,
    )
    if visit.figures is not None:
        health = _measured(health, visit.figures, visit.at)
    elif visit.path != MODELS and before.figures is not None and not before.figures.line:
        health = health._replace(figures=None, busy_at=None, idle_at=None)
    if visit.logged is not None:
        health = _read(health, visit.logged, visit.at)
    return health


def _failed(before: Health, visit: Visit) -> Health:
    fault = visit.fault
    if fault is None or fault.ours:
        return before
    return before._replace(
        path=METRICS,  # who comes next may be another
        failures=before.failures + 1,
        failed_at=visit.at if before.failed_at is None else before.failed_at,
        refused_at_once=fault.refused and visit.refusals > 1,
        fault=fault.reason,
    )


def _next_path(before: Health, visit: Visit) -> str:
    """Ask for metrics while there may be some; else for the list of models, which costs nothing."""
    if visit.then is not None:
        return visit.then
    if visit.figures is not None:
        return visit.path
    if visit.loading:
        return METRICS
    if visit.path == METRICS and visit.kind is None:
        return MODELS
    # A server that was started anew may have metrics now.
    return METRICS if visit.path == MODELS and before.answers % 20 == 19 else MODELS


def _measured(before: Health, now: Figures, at: float) -> Health:
    """Hold a server's figures against those before."""
    old = before.figures
    if old is None or old.line:  # the first, or the first after those of a log
        return _busy(before, now, at)._replace(
            points=_points((), now, at), first_at=at, preempted=_preempted(None, now)
        )
    if restarted(old, now):
        return _busy(before, now, at)._replace(
            points=_points((), now, at),
            first_at=at,
            busy_at=at if _at_work(now) else None,
            restarts=before.restarts + 1,
            restarted_at=at,
            preempted=_preempted(None, now),
        )
    health = _busy(before, now, at)._replace(
        points=_points(before.points, now, at), preempted=_preempted(before.preempted, now)
    )
    return _moved(health, at) if moved(old, now) else health


def _read(before: Health, now: Figures, at: float) -> Health:
    """Take what a log says: only a line that came while we watched is news."""
    fresh = before.line is not None and now.line != before.line
    works = before.working is not None and now.working != before.working
    health = before._replace(
        line=now.line, working=now.working, news_at=at if fresh else before.news_at
    )
    if before.figures is None or before.figures.line:  # else metrics say more
        named = before.kind if before.kind not in (None, "openai") else now.kind
        health = health._replace(kind=named)
        if fresh:
            health = _busy(health, now, at)
        elif health.news_at is None or at - health.news_at > _RECENT_S:
            health = health._replace(figures=None, busy_at=None, idle_at=None)
    return _moved(health, at) if works else health


def _busy(before: Health, now: Figures, at: float) -> Health:
    busy, idle = _at_work(now), now.running == 0 and not now.queued
    return before._replace(
        figures=now,
        figures_at=at,
        busy_at=(at if before.busy_at is None else before.busy_at) if busy else None,
        idle_at=(at if before.idle_at is None else before.idle_at) if idle else None,
    )


def _at_work(figures: Figures) -> bool:
    return bool(figures.running or figures.queued)


def _moved(health: Health, at: float) -> Health:
    since = health.moved_at
    if since is None or (health.busy_at is not None and health.busy_at > since):
        since = health.busy_at
    pause = 0.0 if since is None else at - since
    health = health._replace(moved_at=at, longest_s=max(health.longest_s, pause))
    speed = tokens_per_s(health, at)
    if speed is None or health.busy_at is None or health.figures is None:
        return health
    each = speed / max(1, health.figures.running or 0)
    return health._replace(
        usual=_drawn(health.usual, speed), usual_each=_drawn(health.usual_each, each)
    )


def _drawn(usual: float | None, now: float) -> float:
    """Draw what is usual after what is: it rises in minutes and falls in hours.

    So a server that slows down is noticed, however slowly it does.
    """
    if usual is None:
        return now
    return usual + (now - usual) * (0.05 if now > usual else 0.002)


def _points(
    before: tuple[tuple[float, float], ...], now: Figures, at: float
) -> tuple[tuple[float, float], ...]:
    if now.generated is None:
        return ()
    return (*before, (at, now.generated))[-_MOST_POINTS:]


def _preempted(before: tuple[float, float] | None, now: Figures) -> tuple[float, float] | None:
    if now.preemptions is None:
        return None
    return (now.preemptions if before is None else before[0], now.preemptions)


# --------------------------------------------------------------------------- what may be said


def tokens_per_s(health: Health, at: float) -> float | None:
    """Say how fast it generates: from counters; from its own gauge only while that changes."""
    figures = health.figures
    if figures is None:
        return None
    quiet = health.moved_at is None or at - health.moved_at > _RECENT_S
    if figures.speed is not None and not figures.steps:
        if figures.running == 0 and not figures.line:
            return 0.0
        return None if quiet else figures.speed
    window = [point for point in health.points if point[0] >= at - _RECENT_S - 1]
    if len(window) < 2 or window[-1][0] - window[0][0] < 0.5:
        return None
    return max(0.0, (window[-1][1] - window[0][1]) / (window[-1][0] - window[0][0]))


def still_s(health: Health) -> float | None:
    """Say for how long requests have run without a token, as its newest figures have it."""
    figures = health.figures
    if figures is None or health.busy_at is None or health.figures_at is None:
        return None
    if figures.line and figures.kind == "sglang":
        return None  # its lines end with its work: silence tells nothing
    return health.figures_at - max(health.busy_at, health.moved_at or health.busy_at)


def still_limit_s(health: Health) -> float:
    """Say how long requests may run without a token."""
    least = _ENDS_S
    if health.news_at is not None:
        least = _LINES_S
    if health.figures is not None and (health.figures.steps or health.figures.line):
        least = _STILL_S
    return max(least, _PAUSES * health.longest_s)


def is_stuck(health: Health) -> bool:
    """Tell whether it answers, but generates nothing with requests running."""
    still = still_s(health)
    return still is not None and still > still_limit_s(health)


def healthy(health: Health, overdue: int = 0) -> bool | None:
    """Tell whether it is well; None where that is not known. `overdue`: deadlines passed now."""
    if health.failures + overdue >= FAILURES or health.refused_at_once:
        return False
    if health.answered_at is None or health.loading:
        return None
    if is_stuck(health):
        return False
    figures = health.figures
    if figures is not None and figures.steps and _at_work(figures) and health.moved_at is None:
        # It has requests, and was not seen twice yet; or it stands, but not for too long.
        return None if health.first_at == health.figures_at else True
    return True


def trouble(health: Health, waiting_s: float, overdue: int) -> str | None:
    """Say what is wrong or odd with it, in a few words."""
    if overdue and (health.failures + overdue >= FAILURES or health.answered_at is None):
        return f"no answer for {units.age(waiting_s)}"
    if health.failures >= FAILURES or health.refused_at_once or health.answered_at is None:
        return health.fault
    if is_stuck(health):
        return f"requests run, no token for {units.age(still_s(health))}"
    return health.note


def wants_more(health: Health) -> bool:
    """Tell whether a second answer would say what the first could not."""
    if health.answered_at is None or health.loading:
        return False
    figures = health.figures
    unseen = figures is not None and _at_work(figures) and health.first_at == health.figures_at
    return unseen or (health.kind is None and health.path != METRICS and health.answers < 2)
