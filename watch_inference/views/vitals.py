"""A report comes in, the lines about log, output, process, server, GPU and disk go out.

A line whose subject is not known at all is not drawn; every value that can be old has its age.
"""

from __future__ import annotations

from collections.abc import Callable

from watch_inference import units
from watch_inference.model import Check, ProcessRow, Report, ServerReading
from watch_inference.views.looks import Line, Looks, Segment, fit, joined

_LABEL = 8
_OLD_S = 10.0  # a reading older than this carries its age
_ALIVE = ("running", "sleeping")  # a process changes between them all the time
_HARD_STATES = ("stopped", "zombie", "gone", "disk-sleep")

Parts = list[Line]


def vitals(report: Report, width: int, looks: Looks) -> list[Line]:
    """Draw one line for each thing watched, the most telling part first."""
    lines = []
    for label, parts in VITALS:
        found = parts(report, looks)
        if found:
            head: Line = (Segment(label.ljust(_LABEL), "dim"), Segment(" "))
            lines.append((*head, *joined(found, max(1, width - _LABEL - 1))))
    return [fit(line, width, looks) for line in lines]


def brief_vitals(report: Report, width: int, looks: Looks) -> list[Line]:
    """Draw the same in a few words on two lines, for a small place."""
    said: list[list[Line]] = [[], []]
    if report.log.age_s is not None:
        said[0].append((Segment(f"log {units.recent(report.log.age_s)}", _age_style(report)),))
    if report.output_age_s is not None:
        said[0].append((Segment(f"output {units.recent(report.output_age_s)}"),))
    said[0].append((Segment(f"check {report.figures.check.value}", _check(report).style),))
    server = report.server
    if server is not None and server.healthy is False:
        said[1].append((Segment("server silent", "bad"),))
    elif server is not None and server.running is not None:
        said[1].append((Segment(f"server {server.running:,} run {server.queued or 0:,} queue"),))
    if report.gpu.devices:
        said[1].append((Segment(f"gpu {_utilization(report, looks).partition(' (')[0]}"),))
    if report.process.pid is not None:
        said[1].append((Segment("process "), *_process(report, looks)[0][1:]))
    lines = [joined(parts, width, 2) for parts in said]
    return [fit(line, width, looks) for line in lines if line]


def _ago(age: float | None) -> str:
    """Write an age in a field of its own, so that what follows does not move with it."""
    return f"{'no age yet' if age is None else units.recent(age) + ' ago':<10}"


def _age_style(report: Report) -> str:
    """A log that has been still for three of its own rounds is old."""
    age, every = report.log.age_s, report.log_every_s
    return "warn" if age is not None and every and age > max(60.0, 3 * every) else ""


def _log(report: Report, looks: Looks) -> Parts:
    log = report.log
    if log.path is None:
        return []
    parts: Parts = [(Segment(_ago(log.age_s), _age_style(report)),)]
    if log.behind:
        parts.append((Segment(f"reading, {units.size(log.behind)} to go", "warn"),))
    if report.log_every_s:
        parts.append((Segment(f"every {units.roughly(report.log_every_s)}", "dim"),))
    if log.eta_s is not None:
        parts.append((Segment(f"job says {units.duration(log.eta_s)}", "dim"),))
    if log.restarts:
        parts.append((Segment(f"{log.restarts:,} restart{'' if log.restarts == 1 else 's'}"),))
    if len(report.logs) > 1:
        parts.append((Segment(f"newest of {len(report.logs)}", "dim"),))
    return parts


def _check(report: Report) -> Segment:
    check = report.figures.check
    style = "bad" if check in (Check.BEHIND, Check.AHEAD) else "dim"
    return Segment(f"check {check.value}{_lead(report)}", style)


def _lead(report: Report) -> str:
    """How many lines the files have more or fewer than the log says, for the current dataset."""
    for row in report.datasets:
        known = row.written is not None and row.accounted is not None
        if row.name == report.figures.dataset and known:
            lead = (row.written or 0) - (row.accounted or 0)
            if lead:
                return f", {abs(lead):,} {'ahead of' if lead > 0 else 'behind'} the log"
    return ""


def _output(report: Report, looks: Looks) -> Parts:
    if report.output_age_s is None and report.figures.done is None:
        return []
    parts: Parts = [(Segment(_ago(report.output_age_s)),)]
    parts.append((_check(report),))
    if report.figures.resumed:
        parts.append((Segment(f"{report.figures.resumed:,} resumed", "dim"),))
    if report.figures.errors:
        errors = report.figures.errors
        parts.append((Segment(f"{errors:,} error{'' if errors == 1 else 's'}", "warn"),))
    return parts


def _process(report: Report, looks: Looks) -> Parts:
    rows = report.processes or (report.process,)
    if rows[0].pid is None:
        return []
    states = ["alive" if row.state in _ALIVE else row.state or "unknown" for row in rows]
    hard = any(state in _HARD_STATES for state in states)
    counted = [f"{states.count(one)} {one}" for one in sorted(set(states))]
    said = states[0] if len(rows) == 1 else ", ".join(counted)
    who = f"{rows[0].pid} " if len(rows) == 1 else ""
    parts: Parts = [(Segment(who), Segment(said, "bad" if hard else ""))]
    cpu = _sum([row.cpu_percent for row in rows])
    if cpu is not None:
        parts.append((Segment(f"cpu {_coarse(cpu)} %"),))
    rss = _sum([row.rss for row in rows])
    if rss:
        parts.append((Segment(units.size(rss)),))
    if rows[0].command and len(rows) == 1:
        parts.append((Segment(_command(rows[0], 40, looks), "dim"),))
    return parts


def _command(row: ProcessRow, width: int, looks: Looks) -> str:
    """Write a command so that its script is seen: of the program its name is enough."""
    program, blank, rest = units.masked(units.clean(row.command or "")).partition(" ")
    return units.cut(program.rpartition("/")[2] + blank + rest, width, looks.ellipsis)


def _coarse(percent: float) -> str:
    """Round CPU use so that a steady job stands still: 5 % steps, 25 % steps above 200 %."""
    step = 5 if percent < 200 else 25
    return "<5" if percent < 2.5 else f"{round(percent / step) * step:,}"


def _sum(values: list[float | None] | list[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _known(server: ServerReading) -> bool:
    told = (server.kind, server.healthy, server.latency_s, server.running, server.error)
    return any(value is not None for value in told)


def _server(report: Report, looks: Looks) -> Parts:
    server = report.server
    if server is None or not _known(server):
        return []
    word = "silent" if server.healthy is False else server.kind or "answers"
    style = "bad" if server.healthy is False else ""
    latency = "" if server.latency_s is None else f" {_latency(server.latency_s)}"
    parts: Parts = [(Segment(f"{units.clean(word)}{latency}", style),)]
    if server.error:
        parts.append((Segment(units.cut(units.clean(server.error), 40, looks.ellipsis), "bad"),))
    if server.running is not None:
        queued = "" if server.queued is None else f"  {server.queued:,} queued"
        parts.append((Segment(f"{server.running:,} running{queued}"),))
    if server.kv_usage is not None:
        parts.append((Segment(f"KV {units.percent(server.kv_usage, 0)}"),))
    if server.tokens_per_s is not None:
        parts.append((Segment(f"{units.rate(server.tokens_per_s)} tok/s"),))
    return _aged(parts, server.age_s)


def _latency(seconds: float) -> str:
    """Round to 10 ms, so that a steady server stands still."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{max(10, round(seconds * 100) * 10)} ms"


def _aged(parts: Parts, age: float | None) -> Parts:
    """Dim what was read long ago, and say how long."""
    if age is None or age < _OLD_S:
        return parts
    old = [tuple(Segment(text, style or "dim") for text, style in part) for part in parts]
    return [(Segment(f"{units.age(age)} old:", "warn"),), *old]


def _gpu(report: Report, looks: Looks) -> Parts:
    devices = report.gpu.devices
    if not devices:
        error = units.clean(report.gpu.error or "")
        return [(Segment(error, "dim"),)] if error else []
    many = "" if len(devices) == 1 else f"{len(devices)}x  "
    parts: Parts = [(Segment(f"{many}{_utilization(report, looks)}"),)]
    used = _sum([one.memory_used for one in devices])
    total = _sum([one.memory_total for one in devices])
    if used is not None:
        parts.append((Segment(_of(used, total)),))
    power = _sum([one.power_w for one in devices])
    if power is not None:
        parts.append((Segment(f"{round(power / 10) * 10:,} W"),))
    hottest = max((one.temperature_c for one in devices if one.temperature_c), default=None)
    if hottest is not None:
        parts.append((Segment(f"{hottest:.0f} °C" if not looks.ascii else f"{hottest:.0f} C"),))
    return _aged(parts, report.gpu.age_s)


def _of(used: float, total: float | None) -> str:
    """Write 71 of 80 GiB, the unit once where it is the same."""
    first, last = units.size(used), units.size(total)
    if total is None:
        return first
    same = first.split()[-1] == last.split()[-1]
    return f"{first.split()[0] if same else first} of {last}"


def _utilization(report: Report, looks: Looks) -> str:
    known = [one.utilization for one in report.gpu.devices if one.utilization is not None]
    if not known:
        return "use unknown"
    low, high = round(min(known) * 100), round(max(known) * 100)
    around = f" ({low}{looks.dash}{high})" if low != high else ""
    return f"{sum(known) / len(known) * 100:.0f} %{around}"


def _disk(report: Report, looks: Looks) -> Parts:
    resources = report.resources
    parts: Parts = []
    if resources.oom_kills:
        parts.append((Segment(f"{resources.oom_kills:,} killed for memory", "bad"),))
    if resources.disk_free is not None:
        full = resources.disk_full_s
        soon = "" if full is None else f", full in {units.roughly(full)}"
        hurried = full is not None and full < (report.figures.remaining_high_s or 86400)
        parts.append(
            (Segment(f"{units.size(resources.disk_free)} free{soon}", "bad" if hurried else ""),)
        )
    if resources.memory_used is not None:
        used = _of(resources.memory_used, resources.memory_limit)
        parts.append((Segment(f"memory {used}"),))
    return parts


# From top to bottom. To show one more thing, write its parts above and give it a line here.
VITALS: tuple[tuple[str, Callable[[Report, Looks], Parts]], ...] = (
    ("log", _log),
    ("output", _output),
    ("process", _process),
    ("server", _server),
    ("gpu", _gpu),
    ("disk", _disk),
)
