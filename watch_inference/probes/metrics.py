"""A server's metrics page in, what it says of its work out; pure.

To teach it a server, or a new name for a known thing, add to the table SERVERS.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple


class Figures(NamedTuple):
    """What a server says of its work at one moment.

    `work` rises when it works: at each step, or (`steps` False) only when a request ends. `pulse`
    changes while it works. Gauges keep their last value when nothing moves them.
    """

    kind: str | None = None
    running: int | None = None
    queued: int | None = None
    kv_usage: float | None = None
    generated: float | None = None  # tokens so far
    work: tuple[tuple[str, float], ...] = ()
    steps: bool = False
    pulse: tuple[float | None, ...] = ()
    speed: float | None = None  # tokens/s, as the server's own gauge or log has it
    preemptions: float | None = None
    started: float | None = None  # Unix time
    line: str = ""  # of a log: the newest line of its kind
    working: str = ""  # of a log: the newest one in which tokens flow


class _Server(NamedTuple):
    """The names under which a kind of server publishes; `name[mode]` is one mode of a counter."""

    kind: str
    prefix: str
    running: str
    queued: str
    kv: str  # the largest of those that are there
    generated: str  # the first that is there
    steps: str  # counters that move at each step
    ends: str = ""  # counters that move when a request ends
    pulse: str = ""
    speed: str = ""
    preemptions: str = ""


SERVERS = (
    _Server(
        "vllm", "vllm_", "num_requests_running", "num_requests_waiting",
        kv="kv_cache_usage_perc gpu_cache_usage_perc",
        generated="generation_tokens",
        steps="generation_tokens prompt_tokens",
        ends="request_success",
        # A long prefill in chunks moves no counter, but it fills the cache.
        pulse="kv_cache_usage_perc gpu_cache_usage_perc",
        preemptions="num_preemptions",
    ),
    _Server(
        "sglang", "sglang_", "num_running_reqs", "num_queue_reqs",
        kv="token_usage full_token_usage swa_token_usage mamba_usage",
        generated="realtime_tokens[decode] generation_tokens",
        steps="realtime_tokens",
        ends="generation_tokens prompt_tokens num_requests",
        pulse="num_used_tokens token_usage full_token_usage decode_sum_seq_lens gen_throughput",
        speed="gen_throughput",
        preemptions="num_retracted_requests num_retracted_reqs",
    ),
    _Server(
        "llama.cpp", "llamacpp_", "requests_processing", "requests_deferred",
        kv="kv_cache_usage_ratio",
        generated="tokens_predicted",
        steps="n_decode",
        ends="tokens_predicted prompt_tokens",
        pulse="kv_cache_usage_ratio",
    ),
    _Server(
        "openai", "tgi_", "batch_current_size", "queue_size",
        kv="",
        generated="request_generated_tokens_sum",
        steps="",
        ends="request_generated_tokens_sum request_success",
        pulse="batch_current_max_tokens",
    ),
    _Server(
        "openai", "trtllm_", "num_active_requests", "num_queued_requests",
        kv="kv_cache_utilization",
        generated="generation_tokens",
        steps="",
        ends="generation_tokens request_success",
        pulse="kv_cache_utilization",
    ),
)  # fmt: skip

_SERIES = re.compile(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?(?:\s+#.*)?\s*")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
# Ranks of one engine repeat its figures.
_RANKS = frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "pid"})
_WANTED = (
    "process_start_time_seconds",
    *(server.prefix for server in SERVERS),
    *(f"{server.prefix[:-1]}:" for server in SERVERS),
)

Series = dict[str, list[tuple[dict[str, str], float]]]


def read_metrics(page: str) -> Figures | None:
    """Read a page of Prometheus text; None where no server that we know speaks in it."""
    series = _series(page)
    for server in SERVERS:
        mine = {
            name.removeprefix(server.prefix).removesuffix("_total"): rows
            for name, rows in series.items()
            if name.startswith(server.prefix)
        }
        if mine:
            began = series.get("process_start_time_seconds")
            return _figures(server, mine, began[0][1] if began else None)
    return None


def _figures(server: _Server, series: Series, started: float | None) -> Figures:
    steps = _counters(server.steps, series)
    ends = _counters(server.ends, series)
    generated = [value for _, value in _counters(server.generated, series)]
    preempted = [value for _, value in _counters(server.preemptions, series)]
    usage = [share(_folded(name, series, largest=True)) for name in server.kv.split()]
    return Figures(
        kind=server.kind,
        running=whole(_folded(server.running, series)),
        queued=whole(_folded(server.queued, series)),
        kv_usage=max((one for one in usage if one is not None), default=None),
        generated=generated[0] if generated else None,
        work=(*steps, *ends),
        steps=bool(steps),
        pulse=tuple(_folded(name, series) for name in server.pulse.split()),
        speed=_folded(server.speed, series),
        preemptions=preempted[0] if preempted else None,
        started=started if started is not None and math.isfinite(started) else None,
    )


def _series(page: str) -> Series:
    """Read the series that may be of use; Ray and some exporters write `_` for `:`."""
    found: Series = {}
    for line in page.splitlines():
        if not line.startswith(_WANTED):
            continue
        match = _SERIES.fullmatch(line)
        if match is None or match[1].endswith("_bucket"):
            continue
        labels = dict(_LABEL.findall(match[2] or ""))
        found.setdefault(match[1].replace(":", "_", 1), []).append((labels, number(match[3])))
    return found


def number(text: str) -> float:
    """Read a number; not a number where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan


def _folded(wanted: str, series: Series, largest: bool = False) -> float | None:
    """Fold one series over its label sets, each engine once; unknown if any of it is no number."""
    name, _, mode = wanted.rstrip("]").partition("[")
    rows = [row for row in series.get(name, ()) if not mode or row[0].get("mode") == mode]
    # Where there is a row for all priorities, those for each would count twice.
    if any(labels.get("priority") == "" for labels, _ in rows):
        rows = [row for row in rows if not row[0].get("priority")]
    engines: dict[frozenset[tuple[str, str]], float] = {}
    for labels, value in rows:
        if not (math.isfinite(value) and value >= 0):
            return None
        engine = frozenset(item for item in labels.items() if item[0] not in _RANKS)
        engines[engine] = max(value, engines.get(engine, 0.0))
    if not engines:
        return None
    return max(engines.values()) if largest else sum(engines.values())


def _counters(names: str, series: Series) -> tuple[tuple[str, float], ...]:
    sums = ((name, _folded(name, series)) for name in names.split())
    return tuple((name, value) for name, value in sums if value is not None)


def whole(value: float | None) -> int | None:
    """Take a count of requests; unknown where no server could have so many."""
    return round(value) if value is not None and value < 1e9 else None


def share(value: float | None) -> float | None:
    """Take a share as 0 to 1; some versions write per cent."""
    if value is None or value > 100:
        return None
    return value if value <= 1 else value / 100


def moved(before: Figures, now: Figures) -> bool:
    """Tell whether a server has worked between two readings of its metrics."""
    old = dict(before.work)
    risen = any(value > old.get(name, math.inf) for name, value in now.work)
    if now.steps:
        still = now.running == 0 or now.kind == "sglang"  # its gauges are older than its counters
        return risen or (not still and now.pulse != before.pulse)
    return risen or (bool(now.running) and now.pulse != before.pulse)


def restarted(before: Figures, now: Figures) -> bool:
    """Tell whether another process answers now: it began later, or its counters fell."""
    if before.started is not None and now.started is not None:
        return now.started > before.started + 1
    new = dict(now.work)
    return any(new.get(name, value) < value for name, value in before.work)
