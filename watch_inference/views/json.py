"""A report comes in, one JSON object on one line goes out: the form for programs.

Every key is always there, a section is always an object or a list, and unknown is null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from enum import Enum
from typing import Any

from watch_inference import __version__, units
from watch_inference.model import Report, ServerReading
from watch_inference.views.out import Out

SCHEMA = 1

# The keys of each section, in their order. Later versions add; none is renamed or dropped.
JOB = "name root found state reason evidence started ended elapsed_s"
PROGRESS = (
    "dataset done total resumed errors fraction check requests_per_s tokens_per_s"
    " remaining_s remaining_low_s remaining_high_s finish finish_low finish_high"
)
DATASET = (
    "name state done done_from total written logged resumed errors check requests_per_s"
    " completion_tokens concurrency remaining_s age_s started ended"
)
LOG = "path format size age_s behind unparsed restarts last_error eta_s"
PROCESS = "pid state started cpu_percent rss threads command"
SERVER = "url kind healthy shared age_s latency_s running queued kv_usage tokens_per_s error"
DEVICE = "number name utilization memory_used memory_total power_w temperature_c"
RESOURCES = "disk_free disk_full_s memory_used memory_limit oom_kills"

# What a NamedTuple cannot call by its own name (`index` is a method of every tuple).
_RENAMED = {"number": "index"}
_NO_SERVER = dict.fromkeys(SERVER.split())


class Json:
    """Writes one object a report."""

    def __init__(self, out: Out) -> None:
        self._out = out

    def show(self, reports: Sequence[Report]) -> None:
        """Write the reports' lines at once; raises ReaderGone or CannotWrite."""
        self._out.write("".join(line(report) + "\n" for report in reports))


def line(report: Report) -> str:
    """Write the report as one line of strict JSON in ASCII, without a newline."""
    return json.dumps(document(report), allow_nan=False, separators=(", ", ": "))


def document(report: Report) -> dict[str, Any]:
    """Arrange the report as the object that the interface promises, of plain values only."""
    return {
        "schema": SCHEMA,
        "version": __version__,
        "host": _value(report.host),
        "time": _value(report.wall),
        "job": _job(report),
        "progress": _section(report.figures, PROGRESS),
        "datasets": [_section(one, DATASET) for one in report.datasets],
        "log": _section(report.log, LOG),
        "logs": [_section(one, LOG) for one in report.logs],
        "process": _section(report.process, PROCESS),
        "processes": [_section(one, PROCESS) for one in report.processes],
        "server": _server(report.server),
        "servers": [_server(one) for one in report.servers],
        "gpu": {
            "age_s": _value(report.gpu.age_s),
            "error": _value(report.gpu.error),
            "devices": [_section(one, DEVICE) for one in report.gpu.devices],
        },
        "resources": _section(report.resources, RESOURCES),
        "warnings": _value(report.warnings),
    }


def _job(report: Report) -> dict[str, Any]:
    job = _section(report, JOB)
    return {
        **job,
        "reason": job["reason"] or None,
        "evidence": _value(report.evidence + report.facts),
    }


def _section(values: object, names: str) -> dict[str, Any]:
    return {_RENAMED.get(name, name): _value(getattr(values, name)) for name in names.split()}


def _server(reading: ServerReading | None) -> dict[str, Any]:
    return dict(_NO_SERVER) if reading is None else _section(reading, SERVER)


def _value(value: Any) -> Any:
    """Turn one field into what JSON can say: clean text, finite numbers, lists, null."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return units.clean(value)
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else None
    if isinstance(value, tuple):
        return [_value(one) for one in value]
    return value
