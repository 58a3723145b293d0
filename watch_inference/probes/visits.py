"""A server and what is known of it in, what one question brought out: one GET, and its own log.

Only pages that cost a server nothing are asked for; none that makes it generate, ever.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from watch_inference.files.tail import open_regular
from watch_inference.probes.fetch import MOST, Fault, Page, fetch
from watch_inference.probes.health import METRICS, MODELS, Health, Visit
from watch_inference.probes.metrics import read_metrics
from watch_inference.probes.serverlines import read_log, trouble
from watch_inference.probes.sockets import connections, listener
from watch_inference.units import clean, cut

_PROMETHEUS = "/prometheus/metrics"  # TensorRT-LLM's; its /metrics is JSON
_REFUSALS_APART_S = 0.2
_TAIL = 64 << 10  # bytes of a server's log
_FIND_LOG_S = 60.0
_FLAGS = {"sglang": "--enable-metrics", "llama.cpp": "--metrics"}
_OWNERS = {"sglang": "sglang", "vllm": "vllm", "llamacpp": "llama.cpp"}
_OFF = "metrics not available"


class Question(NamedTuple):
    """What to ask of which server; `twice`: a refusal is asked again, to be sure at once."""

    url: str
    health: Health
    within_s: float
    twice: bool = False
    lines: tuple[str, ...] = ()  # of the job's own log


def visit(question: Question, log: ServerLog | None, clock: Callable[[], float]) -> Visit:
    """Ask one question; `log` is looked into where metrics do not tell whether it works."""
    health = question.health
    answer = fetch(question.url, health.path, question.within_s)
    refusals = 1
    if question.twice and isinstance(answer, Fault) and answer.refused:
        time.sleep(_REFUSALS_APART_S)
        answer = fetch(question.url, health.path, question.within_s)
        refusals = 2
    came = told(answer, health)._replace(at=clock(), refusals=refusals)
    if came.fault is not None or (came.figures is not None and came.figures.steps):
        return came
    lines = (log.lines(clock()) if log is not None else ()) or question.lines
    ailing = trouble(lines)
    return came._replace(
        logged=read_log(lines),
        note=f"its log: {cut(ailing, 120)}" if ailing is not None else came.note,
    )


def told(answer: Page | Fault, health: Health) -> Visit:
    """Say what an answer means; touches nothing."""
    if isinstance(answer, Fault):
        return Visit(0.0, health.path, fault=answer)
    status = answer.status
    came = Visit(0.0, health.path, latency_s=answer.latency_s, peer=answer.peer)
    if status in (401, 403):
        return came._replace(note=f"answers {status}: it wants a key", then=health.path)
    if status == 503:
        return came._replace(note="answers 503: not ready", loading=True)
    if 300 <= status < 400:
        return came._replace(note=f"redirects ({status}), not followed", loading=True)
    if status >= 500:
        return came._replace(fault=Fault(f"answers {status}"))
    if health.path == MODELS:
        return _models(answer, came, health)
    if status >= 400:
        return came._replace(note=_off(status, health.kind))
    return _metrics(answer, came)


def _metrics(answer: Page, came: Visit) -> Visit:
    if not answer.body.strip():
        return came._replace(fault=Fault("broken answer (empty)"))
    # The last line of a page that was read in part is half a line.
    body = answer.body.rpartition(b"\n")[0] if answer.cut else answer.body
    figures = read_metrics(body.decode("utf-8", "replace"))
    if figures is not None:
        cut_off = f"metrics longer than {MOST >> 20} MiB, read in part" if answer.cut else None
        return came._replace(kind=figures.kind, figures=figures, note=cut_off)
    listed = answer.body.lstrip()[:1] == b"[" and came.path == METRICS
    return came._replace(
        note=f"{_OFF} (no figures that we know)", then=_PROMETHEUS if listed else MODELS
    )


def _models(answer: Page, came: Visit, health: Health) -> Visit:
    """Tell the kind of server by its list of models."""
    kind, note = health.kind, health.note or ""
    try:
        listed = json.loads(answer.body)["data"]
        owner = str(listed[0].get("owned_by")) if listed else ""
        kind = _OWNERS.get(owner, kind or "openai")
    except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        pass  # it answers, and that is all we know
    flag = _FLAGS.get(kind or "", "")
    if note.startswith(_OFF) and flag and flag not in note:
        note = f"{note}: {flag}"
    return came._replace(kind=kind, note=note or None)


def _off(status: int, kind: str | None) -> str:
    flag = _FLAGS.get(kind or "")
    return f"{_OFF} ({status})" + (f": {flag}" if flag else "")


class ServerLog:
    """The log that the process behind a local port writes, found by its socket."""

    def __init__(self, port: int, proc: str = "/proc") -> None:
        self._port = port
        self._proc = proc
        self._path: str | None = None
        self._looked_at: float | None = None

    def lines(self, at: float) -> tuple[str, ...]:
        """Read the log's last lines, cleaned; none where there is no log to be seen."""
        if self._looked_at is None or at - self._looked_at >= _FIND_LOG_S:
            self._path, self._looked_at = self._find(), at
        return last_lines(self._path) if self._path is not None else ()

    def _find(self) -> str | None:
        inode = listener(connections(), self._port)
        if not inode:
            return None
        try:
            pids = [name for name in os.listdir(self._proc) if name.isdecimal()]
        except OSError:
            return None
        wanted = f"socket:[{inode}]"
        for pid in pids:
            folder = f"{self._proc}/{pid}/fd"
            if _has(folder, wanted):
                streams = (f"{folder}/{number}" for number in (1, 2))
                return next((path for path in streams if last_lines(path)), None)
        return None


def _has(folder: str, wanted: str) -> bool:
    """Tell whether a process has a socket."""
    try:
        numbers: Sequence[str] = os.listdir(folder)
    except OSError:
        return False
    for number in numbers:
        try:
            if os.readlink(f"{folder}/{number}") == wanted:
                return True
        except OSError:
            continue
    return False


def last_lines(path: str) -> tuple[str, ...]:
    """Read the last whole lines of a regular file, cleaned; none of anything else."""
    try:
        descriptor = open_regular(path)
    except OSError:
        return ()
    try:
        size = os.fstat(descriptor).st_size
        data = os.pread(descriptor, _TAIL, max(0, size - _TAIL))
    except OSError:
        return ()
    finally:
        os.close(descriptor)
    lines = data[: data.rfind(b"\n") + 1].splitlines()
    return tuple(clean(line) for line in lines[1 if size > _TAIL else 0 :])
