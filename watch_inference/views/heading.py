"""A report comes in, the first lines of a screen go out: what state, how far, when done."""

from __future__ import annotations

from watch_inference import units
from watch_inference.model import DatasetRow, Report, State
from watch_inference.views.looks import (
    Line,
    Looks,
    Segment,
    bar,
    fit,
    joined,
    spark,
    spread,
    width_of,
    wrapped,
)

# The style of each state; stalled and failed are said in capitals too.
STATE_STYLES = {
    State.STARTING: "strong",
    State.RUNNING: "good",
    State.STALLED: "bad",
    State.FINISHED: "good",
    State.FAILED: "bad",
    State.UNKNOWN: "warn",
    State.QUEUED: "dim",
}
_BAR_STYLES = {State.STALLED: "warn", State.FAILED: "bad", State.FINISHED: "good"}
TROUBLE = (State.STALLED, State.FAILED, State.UNKNOWN)


def heading(report: Report, width: int, looks: Looks, note: str = "") -> list[Line]:
    """Draw title, bar, and when it ends or why it does not; `note` stands at the title's end."""
    lines = [title(report, width, looks, note), *bar_lines(report, width, looks)]
    if report.state in TROUBLE:
        return lines + _trouble(report, width, looks)
    lines += _course(report, width, looks)
    if report.reason:
        lines.append((Segment(_cut(report.reason, width, looks), "warn"),))
    return lines


def title(report: Report, width: int, looks: Looks, note: str = "") -> Line:
    """Draw the name, the state and since when, the current dataset; host and time at the right."""
    state = _state(report)
    room = max(8, width - units.cells(state.text) - 2)
    name = units.cut_middle(units.clean(report.name), min(room, max(8, width // 3)), looks.ellipsis)
    parts: list[Line] = [(Segment(name, "strong"),), (state,)]
    if note:
        parts.append((Segment(note, "warn"),))
    current = _current(report)
    if current and report.state is not State.FINISHED:
        since = units.clock(current.started, report.wall, with_zone=False)
        said = units.cut_middle(units.clean(current.name), 24, looks.ellipsis)
        parts.append((Segment(said + (f" since {since}" if since != "?" else "")),))
    left = joined(parts, width, 2)
    if width_of(left) < width_of((parts[0][0], parts[1][0])) + 2:
        left = fit((parts[0][0], Segment(" "), state), width, looks)
    return spread(left, _where(report, width - width_of(left), looks), width)


def _state(report: Report) -> Segment:
    word = report.state.value
    if report.state in (State.STALLED, State.FAILED):
        word = word.upper()
    quiet = units.elapsed(report.quiet_s)
    if report.state is State.STALLED and quiet != "?":
        word += f" {quiet}"
    return Segment(word, STATE_STYLES[report.state])


def _where(report: Report, room: int, looks: Looks) -> Line:
    host = units.cut_middle(units.clean(report.host), 24, looks.ellipsis)
    up = "" if report.elapsed_s is None else f"up {units.elapsed(report.elapsed_s)}"
    for text in (f"{host}  {up}".strip(), up):
        if text and units.cells(text) + 2 <= room:
            return (Segment(text, "dim"),)
    return ()


def _current(report: Report) -> DatasetRow | None:
    for row in report.datasets:
        if row.name == report.figures.dataset:
            return row
    return None


def counts(report: Report) -> str:
    """Write done and total: 31,204 / 83,288."""
    figures = report.figures
    if figures.done is None and figures.total is None:
        return "nothing counted yet"
    if figures.total is None:
        return f"{units.number(figures.done)} done, total unknown"
    return f"{units.number(figures.done)} / {units.number(figures.total)}"


def bar_lines(report: Report, width: int, looks: Looks) -> list[Line]:
    """Draw the bar with its numbers at the right; in a narrow place the count stands below."""
    share = report.figures.fraction
    percent = "" if share is None else units.percent(share)
    style = _BAR_STYLES.get(report.state, "bar")
    numbers = f"{counts(report)}   {percent}".rstrip()
    if width >= 56:
        drawn = bar(share, width - units.cells(numbers) - 2, looks, style)
        return [(*drawn, Segment("  "), Segment(numbers, "strong"))]
    if width >= 30:
        drawn = bar(share, width - units.cells(numbers) - 1, looks, style)
        if width_of(drawn) >= 6:
            return [(*drawn, Segment(" "), Segment(numbers, "strong"))]
    drawn = bar(share, max(0, width - units.cells(percent) - 1), looks, style)
    first = (*drawn, Segment(" "), Segment(percent, "strong")) if percent else ()
    return [line for line in (first, (Segment(counts(report)),)) if line]


def end(report: Report, looks: Looks) -> str:
    """Write when it ends, as a range: Thu 09:10–16:20 UTC; "" while there is no evidence."""
    figures = report.figures
    if figures.finish_low is not None and figures.finish_high is not None:
        said = units.span(figures.finish_low, figures.finish_high, report.wall, looks.dash)
    else:
        said = units.clock(figures.finish, report.wall)
    return "" if said == "?" else said


def remaining(report: Report, looks: Looks) -> str:
    """Write how long it will take still, as a range: 19–26 h; "" while there is no evidence."""
    figures = report.figures
    said = units.between(figures.remaining_low_s, figures.remaining_high_s, looks.dash)
    return "" if said == "?" else said


def _course(report: Report, width: int, looks: Looks) -> list[Line]:
    """When it ends or ended, and how fast it goes: one line, or two where it is narrow."""
    rates: list[Line] = []
    if report.state is not State.FINISHED:
        rates = [*_rates(report), *_spark(report, looks)]
    when = _when(report, looks)
    whole = joined([when, *rates], width)
    if width_of(whole) == width_of(joined([when, *rates], 10_000)):
        return [spread(when, joined(rates, width), width)]
    if units.cells(end(report, looks)) <= width < width_of(when):
        when = (Segment(end(report, looks), "strong"),)
    return [fit(when, width, looks), *([joined(rates, width, 2)] if rates else [])]


def _when(report: Report, looks: Looks) -> Line:
    if report.state is State.FINISHED:
        ended = units.clock(report.ended, report.wall)
        took = units.elapsed(report.elapsed_s)
        return (
            Segment("finished" if ended == "?" else f"finished {ended}", "strong"),
            Segment("" if took == "?" else f", took {took}"),
        )
    when, left = end(report, looks), remaining(report, looks)
    if not when:
        return (Segment("end not known yet", "dim"),)
    return (Segment("ends "), Segment(when, "strong"), Segment(f" (in {left})" if left else ""))


def _rates(report: Report) -> list[Line]:
    figures = report.figures
    found: list[Line] = []
    if figures.requests_per_s is not None:
        found.append((Segment(f"{units.rate(figures.requests_per_s)} req/s"),))
    if figures.tokens_per_s is not None:
        found.append((Segment(f"{units.rate(figures.tokens_per_s)} tok/s"),))
    return found


def _spark(report: Report, looks: Looks) -> list[Line]:
    drawn = spark(report.history, looks)
    return [(Segment(drawn, "bar"),)] if drawn.strip() else []


def _trouble(report: Report, width: int, looks: Looks) -> list[Line]:
    """The cause where the end time stood, then what to do next and what the end is now."""
    reason = units.clean(report.reason) or "no reason was found"
    lines: list[Line] = [
        (Segment(part, STATE_STYLES[report.state]),) for part in wrapped(reason, width, 2, looks)
    ]
    when = end(report, looks)
    last: Line = (Segment(f"ends {when}" if when else "end unknown", "dim"),)
    if report.state is State.FAILED:
        last = ()
    if report.advice:
        advice = f"{looks.arrow} {units.clean(report.advice)}"
        return [*lines, spread((Segment(_cut(advice, width, looks), "strong"),), last, width)]
    return [*lines, last] if last else lines


def _cut(text: str, width: int, looks: Looks) -> str:
    return units.cut(units.clean(text), width, looks.ellipsis)
