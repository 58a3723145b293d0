"""A case and how its job stands in, what its servers have to do with it out; pure.

Only a server that serves this job is evidence; tokens of a shared one may be anybody's.
"""

from __future__ import annotations

from watch_inference import units
from watch_inference.judging.case import Case
from watch_inference.judging.verdict import Rule, Standing, Verdict
from watch_inference.model import ServerReading, State

_PATIENCE_S = 60.0  # for less silence nobody is woken
_HINT_S = 30.0  # where the job stands, so much is worth a word
_FRESH_S = 90.0  # tokens that moved so lately move now
_NEWS_S = 3600.0
_WAITING = (State.STALLED, State.STARTING)
_IDLE_PERCENT = 5.0
_FULL, _ROOMY = 0.95, 0.5  # shares of the KV cache
_FEW, _MANY = 4, 64  # requests at once; requests left that are no dataset's last
_SLOW = 0.25  # of the usual speed
_LOG = "look at the server's own log"


def serving(case: Case) -> list[ServerReading]:
    """List the servers that serve this job."""
    return [one for one in case.sample.servers if one.evidence]


def silent(case: Case, standing: Standing) -> Verdict | None:
    """Say that no server answers, or not all."""
    ours = serving(case)
    gone = [one for one in ours if one.healthy is False and one.silent_s is not None]
    if not gone:
        return None
    one = max(gone, key=lambda server: server.silent_s or 0.0)
    why = f" ({one.error})" if one.error else ""
    since = units.age(one.silent_s)
    if len(gone) < len(ours):
        return Verdict(
            f"{len(gone)} of {len(ours)} servers: {one.url} does not answer{why} for {since}", _LOG
        )
    said = f"server does not answer{why} for {since}; {_process(case)}"
    advice = f"start the server at {one.url}, or look at its log"
    if standing.state is State.STARTING or _stands(case, standing):
        return Verdict(said, advice, cause=True, state=State.STALLED)
    return Verdict(said, advice, aside=_works(case, standing))


def generates_nothing(case: Case, standing: Standing) -> Verdict | None:
    """Say that a server answers, has requests, and no token comes."""
    ours = serving(case)
    stuck = [one for one in ours if one.silent_s is None and _is_still(one, standing)]
    if not stuck or len(stuck) < len([one for one in ours if one.running or one.queued]):
        return None
    one = max(stuck, key=lambda server: server.still_s or 0.0)
    said = (
        f"server answers but generates nothing for {units.age(one.still_s)}: "
        f"{_load(one)}, tokens still"
    )
    if standing.state is State.STARTING or _stands(case, standing):
        return Verdict(said, _LOG, cause=True, state=State.STALLED)
    return Verdict(said, _LOG, aside=_works(case, standing))


def client_hangs(case: Case, standing: Standing) -> Verdict | None:
    """Say that the servers wait for work which the job does not send."""
    ours = serving(case)
    idle = [one.idle_s for one in ours if one.healthy and one.idle_s is not None]
    if standing.state is not State.STALLED or not case.alive or case.complete:
        return None
    if not idle or len(idle) < len(ours) or min(idle) < _PATIENCE_S:
        return None
    if all(one.state == "stopped" for one in case.alive):
        return None
    return Verdict(
        f"server is idle for {units.age(min(idle))}, nothing runs or waits: the job itself hangs; "
        f"{_process(case)}",
        f"see where it waits: py-spy dump --pid {case.alive[0].pid}",
        cause=True,
    )


def tokens_move(case: Case, standing: Standing) -> Verdict | None:
    """Say that a job without lines works: the server generates for it."""
    lately = [
        one
        for one in serving(case)
        if one.moved_at is not None
        and case.sample.at - one.moved_at <= _FRESH_S
        and (one.idle_s or 0.0) < _HINT_S
    ]
    at_work = [one for one in case.alive if one.state != "stopped"]
    quiet = case.silence_s if case.begun else None
    # Where the job's own lines come as they should, there is nothing to say.
    lines_come = case.begun and (quiet is None or quiet <= case.limit_s)
    if standing.state not in (State.RUNNING, *_WAITING) or not lately or not at_work:
        return None
    if lines_come or case.complete:
        return None
    speed = [one.tokens_per_s for one in lately if one.tokens_per_s is not None]
    much = f": {units.rate(sum(speed))} tok/s" if speed else ""
    before = f"no line for {units.age(quiet)}, but " if quiet is not None else ""
    return Verdict(f"{before}the server generates for it{much}", state=State.RUNNING)


def slow(case: Case, standing: Standing) -> Verdict | None:
    """Say that a server generates far less than it did."""
    for one in serving(case):
        if _is_slow(one) and standing.state in (State.RUNNING, *_WAITING):
            return Verdict(
                f"server is slow: {units.rate(one.tokens_per_s)} tok/s, "
                f"usual {units.rate(one.usual_tokens_per_s)}; {_load(one)}",
                _LOG,
            )
    return None


def cache_full(case: Case, standing: Standing) -> Verdict | None:
    """Say that requests wait for room in the KV cache: slow, and why."""
    for one in serving(case):
        if one.healthy is False or one.kv_usage is None or not one.queued:
            continue
        if one.kv_usage >= _FULL and one.queued >= max(1, (one.running or 0) // 4):
            pushed = f", {one.preemptions:,} were pushed out" if one.preemptions else ""
            return Verdict(
                f"KV cache is {units.percent(one.kv_usage)} full and {one.queued:,} requests "
                f"wait{pushed}: slower, not stuck",
                "fewer requests at once may be faster",
                aside=standing.state is not State.RUNNING,
            )
    return None


def few_at_once(case: Case, standing: Standing) -> Verdict | None:
    """Say that the server could do more than the job asks of it: slow, not stuck."""
    ours = serving(case)
    running = sum(one.running or 0 for one in ours)
    known = all(one.running is not None and one.healthy for one in ours)
    if not ours or not known or not 0 < running <= _FEW or standing.state is not State.RUNNING:
        return None
    left = [one.unfinished for one in case.in_job if one.name == case.progress.current]
    drains = any(one is None or one <= _MANY for one in left) or not left
    roomy = all(one.queued == 0 and (one.kv_usage or 0.0) < _ROOMY for one in ours)
    if drains or not roomy or any(one.shared for one in ours):
        return None
    return Verdict(
        f"server runs only {running} at once, and none wait: slow, not stuck",
        "the job may send more requests at once",
        aside=True,
    )


def restarted(case: Case, standing: Standing) -> Verdict | None:
    """Say that a server was started anew while we watched."""
    for one in serving(case):
        if one.restarted_at is None:
            continue
        since = case.sample.at - one.restarted_at
        if since <= _NEWS_S:
            again = f", {one.restarts} times in all" if one.restarts > 1 else ""
            return Verdict(
                f"server was started anew {units.age(since)} ago{again}",
                "requests that ran then are lost: does the job send them again?",
                aside=standing.state is State.RUNNING,
            )
    return None


def _is_still(one: ServerReading, standing: Standing) -> bool:
    """Tell whether it generates nothing for too long; a job that stands shortens the patience."""
    if one.still_s is None or one.age_s is None or one.age_s > _FRESH_S:
        return False
    if one.healthy is False:
        return True
    # Counters that move only when a request ends say nothing so soon.
    return one.healthy is None and standing.state is State.STALLED and one.still_s >= _HINT_S


def _is_slow(one: ServerReading) -> bool:
    """Tell whether it is slow for what it has to do: fewer requests need fewer tokens."""
    speed, usual, each = one.tokens_per_s, one.usual_tokens_per_s, one.usual_per_request
    if not speed or not one.running or usual is None or each is None:
        return False
    return speed < _SLOW * usual and (bool(one.queued) or speed / one.running < _SLOW * each)


def _stands(case: Case, standing: Standing) -> bool:
    """Tell whether the job does nothing either: for a minute is enough, with such a cause."""
    if standing.state is State.STALLED:
        return True
    quiet = case.silence_s
    works = standing.state is State.RUNNING and not case.complete
    return works and bool(case.alive) and quiet is not None and quiet >= _PATIENCE_S


def _works(case: Case, standing: Standing) -> bool:
    """Tell whether the job goes on, whatever its server looks like."""
    quiet = case.silence_s
    return standing.state is State.RUNNING and quiet is not None and quiet < _HINT_S


def _load(one: ServerReading) -> str:
    parts = [f"{one.running:,} running"] if one.running is not None else []
    parts += [f"{one.queued:,} queued"] if one.queued else []
    parts += [f"KV {units.percent(one.kv_usage)}"] if one.kv_usage is not None else []
    return ", ".join(parts) or "requests run"


def _process(case: Case) -> str:
    if not case.alive:
        return "no process alive"
    known = [one.cpu_percent for one in case.alive if one.cpu_percent is not None]
    return "process alive" + (", idle" if known and sum(known) < _IDLE_PERCENT else "")


def total(servers: tuple[ServerReading, ...]) -> ServerReading | None:
    """Give the one server, or the sum of several: of those that serve this job, if any does."""
    some = [one for one in servers if one.evidence] or list(servers)
    if len(some) < 2:
        return some[0] if some else None
    health = [one.healthy for one in some]
    kinds = {one.kind for one in some}
    return ServerReading(
        url=some[0].url,
        kind=kinds.pop() if len(kinds) == 1 else None,
        healthy=False if False in health else None if None in health else True,
        shared=_any([one.shared for one in some]),
        age_s=max((one.age_s for one in some if one.age_s is not None), default=None),
        latency_s=max((one.latency_s for one in some if one.latency_s is not None), default=None),
        running=_sum([one.running for one in some]),
        queued=_sum([one.queued for one in some]),
        kv_usage=max((one.kv_usage for one in some if one.kv_usage is not None), default=None),
        tokens_per_s=_rate([one.tokens_per_s for one in some]),
        error=next((f"{one.url}: {one.error}" for one in some if one.error), None),
        evidence=some[0].evidence,
    )


def _any(values: list[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False


def _sum(values: list[int | None]) -> int | None:
    return None if None in values else sum(one or 0 for one in values)


def _rate(values: list[float | None]) -> float | None:
    return None if None in values else sum(one or 0.0 for one in values)


# Strongest first; a cause goes before the state's own words.
RULES: tuple[Rule, ...] = (
    silent,
    generates_nothing,
    client_hangs,
    tokens_move,
    slow,
    cache_full,
    restarted,
    few_at_once,
)
