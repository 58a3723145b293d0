"""Lines of a server's own log in, what they say of its work out; pure.

Read by key, not by place: keys come and go from version to version.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from watch_inference.probes.metrics import Figures, number, share, whole

_SGLANG = re.compile(r"\b(Prefill|Decode) batch\b")
_DP = re.compile(r"\bDP(\d+)\b")
_ENGINE = re.compile(r"\bEngine (\d+):")
_VALUE = r"[:=] *([0-9.]+)"
_KEYS = {
    "running": re.compile(r"#running-req" + _VALUE),
    "queued": re.compile(r"#queue-req" + _VALUE),
    "usage": re.compile(r"\b(?:[a-z]+ token|token|mamba) usage" + _VALUE),
    "speed": re.compile(r"\bgen throughput \(token/s\)" + _VALUE),
    "reqs": re.compile(r"\bRunning: (\d+) reqs"),
    "waiting": re.compile(r"\b(?:Waiting|Pending): (\d+) reqs"),
    "cache": re.compile(r"\b(?:GPU )?KV cache usage: ([0-9.]+)%"),
    "generation": re.compile(r"\bAvg generation throughput: ([0-9.]+) tokens/s"),
    "prompt": re.compile(r"\bAvg prompt throughput: ([0-9.]+) tokens/s"),
}


def read_log(lines: Iterable[str]) -> Figures | None:
    """Read a server's own lines, oldest first, by key: the newest of each rank."""
    newest: dict[tuple[str, str], Figures] = {}
    last: Figures | None = None
    working = ""
    for line in lines:
        found = _sglang(line) or _vllm(line)
        if found is None:
            continue
        rank, last = found
        working = last.working or working
        newest[last.kind or "", rank] = last._replace(
            speed=last.speed if last.speed is not None else _speed(newest, last, rank)
        )
    if last is None:
        return None
    ranks = [figures for (kind, _), figures in newest.items() if kind == last.kind]
    return last._replace(
        running=whole(_all([one.running for one in ranks])),
        queued=whole(_all([one.queued for one in ranks])),
        kv_usage=max((one.kv_usage for one in ranks if one.kv_usage is not None), default=None),
        speed=_all([one.speed for one in ranks]),
        working=working,
    )


def _speed(newest: dict[tuple[str, str], Figures], last: Figures, rank: str) -> float | None:
    """A prefill line has no generation speed of its own: the last decode line's stands."""
    before = newest.get((last.kind or "", rank))
    return before.speed if before is not None else None


def _all(values: list[float | None] | list[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _sglang(line: str) -> tuple[str, Figures] | None:
    if _SGLANG.search(line) is None:
        return None
    rank = _DP.search(line)
    usages = [share(number(text)) for text in _KEYS["usage"].findall(line)]
    return rank[1] if rank else "", Figures(
        kind="sglang",
        running=whole(_key("running", line)),
        queued=whole(_key("queued", line)),
        kv_usage=max((one for one in usages if one is not None), default=None),
        speed=_key("speed", line),
        line=line,
        working=line,  # it is written after so many steps, never by a clock
    )


def _vllm(line: str) -> tuple[str, Figures] | None:
    speed = _key("generation", line)
    if speed is None:
        return None
    engine = _ENGINE.search(line)
    cache = _key("cache", line)
    return engine[1] if engine else "", Figures(
        kind="vllm",
        running=whole(_key("reqs", line)),
        queued=whole(_key("waiting", line)),
        kv_usage=None if cache is None else share(cache / 100),
        speed=speed,
        line=line,
        working=line if speed or _key("prompt", line) else "",
    )


def _key(name: str, line: str) -> float | None:
    match = _KEYS[name].search(line)
    value = math.nan if match is None else number(match[1].rstrip("."))
    return value if math.isfinite(value) else None


_TROUBLE = re.compile(
    r"Watchdog timeout|Scheduler hit an exception|Health check failed|EngineDeadError"
    r"|EngineCore (?:encountered|died)|CUDA (?:out of memory|error)|KV cache pool is full"
    r"|Received sigquit"
)


def trouble(lines: Iterable[str]) -> str | None:
    """Find the newest line in which a server says what ails it, if it has not worked since."""
    found = None
    for line in lines:
        if _TROUBLE.search(line):
            found = line
        elif _SGLANG.search(line) or _KEYS["generation"].search(line):
            found = None
    return found
