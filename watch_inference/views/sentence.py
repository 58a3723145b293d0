"""A report comes in, one sentence of at most 100 characters goes out: for head -1 and for chats."""

from __future__ import annotations

from watch_inference import units
from watch_inference.model import Report, State

_NAME_WIDTH = 40


def sentence(report: Report, width: int = 100) -> str:
    """Say the report in one line: state, how far, when done, what is wrong."""
    name = units.cut_middle(units.clean(report.name), min(_NAME_WIDTH, width // 2), "...")
    said = f"{name} {report.state.value}{_since(report)}"
    for part in _parts(report):
        room = width - units.cells(said) - 2
        if part and room >= min(12, len(part)):
            said += ", " + _cut(part, room)
    return units.cut(said, width, "").strip()


def _cut(text: str, width: int) -> str:
    """Cut between two words, where that leaves enough."""
    short = units.cut(text, width, "...")
    at = short.rfind(" ", width // 2)
    return short if short == text or at < 0 else short[:at] + "..."


def _since(report: Report) -> str:
    """What belongs to the state word without a comma: how far, how long, when."""
    if report.state is State.STALLED:
        quiet = units.elapsed(report.quiet_s)
        return "" if quiet == "?" else f" {quiet}"
    if report.state is State.FINISHED:
        ended = units.clock(report.ended, report.wall)
        return "" if ended == "?" else f" {ended}"
    share = report.figures.fraction
    return "" if share is None else f" {units.percent(share)}"


def _parts(report: Report) -> tuple[str, ...]:
    reason = units.clean(report.reason)
    if report.state in (State.STALLED, State.FAILED, State.UNKNOWN):
        return (_count(report, True), reason, _errors(report))
    if report.state is State.FINISHED:
        took = "" if report.elapsed_s is None else f"took {units.duration(report.elapsed_s)}"
        return (_count(report), took, _errors(report), reason)
    if report.state is State.STARTING:
        return (_count(report), reason)
    return (_count(report), _end(report), _errors(report), reason)


def _count(report: Report, share_too: bool = False) -> str:
    figures = report.figures
    if figures.done is None:
        return "" if figures.total is None else f"total {figures.total:,}"
    if figures.total is None:
        return f"{figures.done:,} done"
    share = ""
    if share_too and figures.fraction is not None and report.state is State.STALLED:
        share = f" ({units.percent(figures.fraction)})"
    return f"{figures.done:,}/{figures.total:,}{share}"


def _end(report: Report) -> str:
    figures = report.figures
    if figures.finish_low is None or figures.finish_high is None:
        end = units.clock(figures.finish, report.wall)
        return "end not known yet" if end == "?" else f"ends about {end}"
    end = units.span(figures.finish_low, figures.finish_high, report.wall)
    return "end not known yet" if end == "?" else f"ends {end}"


def _errors(report: Report) -> str:
    errors = report.figures.errors
    return f"{errors:,} error{'' if errors == 1 else 's'}" if errors else ""
