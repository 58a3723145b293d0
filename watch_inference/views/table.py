"""Datasets come in, the lines of their table go out: as many columns and rows as there is room."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from watch_inference import units
from watch_inference.model import DatasetRow, State
from watch_inference.views.looks import Line, Looks, Segment, thin_bar

_MARKS = {
    State.FINISHED: ("✓", "*"),
    State.RUNNING: ("▸", ">"),
    State.STARTING: ("▸", ">"),
    State.STALLED: ("!", "!"),
    State.FAILED: ("✗", "x"),
    State.UNKNOWN: ("?", "?"),
    State.QUEUED: ("·", "."),
}
_ROW_STYLES = {State.QUEUED: "dim", State.STALLED: "bad", State.FAILED: "bad"}
_BAR_STYLES = {State.FINISHED: "good", State.STALLED: "warn", State.FAILED: "bad"}
_NAME_AT_LEAST, _NAME_WELL = 8, 20
_BAR_AT_LEAST, _BAR_AT_MOST = 8, 60
_GAP = 2

Rows = Sequence[DatasetRow]


class Column(NamedTuple):
    """One column: its heading, its cells, and its rank: the highest is the first to go."""

    title: str
    cells: Callable[[Rows], list[str]]
    rank: int


def _each(cell: Callable[[DatasetRow], str]) -> Callable[[Rows], list[str]]:
    return lambda rows: [cell(row) for row in rows]


def _amounts(rows: Rows) -> list[str]:
    """Write done / total, the strokes below each other."""
    done = ["?" if row.done is None else f"{row.done:,}" for row in rows]
    total = ["" if row.total is None else f"{row.total:,}" for row in rows]
    left, right = (max(map(len, column), default=0) for column in (done, total))
    left = max(left, right)
    return [
        f"{one:>{left}} / {all_:>{right}}" if all_ else f"{one:>{left}}" + " " * (right + 3)
        for one, all_ in zip(done, total, strict=True)
    ]


def _percent(row: DatasetRow) -> str:
    share = _share(row)
    return "" if share is None else units.percent(share, 0)


def _rate(row: DatasetRow) -> str:
    return "" if row.requests_per_s is None else units.rate(row.requests_per_s)


def _tokens(row: DatasetRow) -> str:
    return "" if row.completion_tokens is None else f"{row.completion_tokens:,.0f}"


def _errors(row: DatasetRow) -> str:
    quiet = row.state is State.QUEUED and not row.errors
    return "" if row.errors is None or quiet else f"{row.errors:,}"


def _time(row: DatasetRow) -> str:
    """How long it took, or about how long it will take still."""
    if row.state is State.FINISHED:
        known = row.started is not None and row.ended is not None
        return units.elapsed((row.ended or 0) - (row.started or 0)) if known else ""
    if row.remaining_s is None:
        return ""
    return units.roughly(row.remaining_s)


def _check(row: DatasetRow) -> str:
    return "" if row.check is None or row.state is State.QUEUED else row.check.value


def _resumed(row: DatasetRow) -> str:
    return f"{row.resumed:,}" if row.resumed else ""


def _concurrency(row: DatasetRow) -> str:
    return "" if row.concurrency is None else f"{row.concurrency:,}"


# From left to right; the bar stands after the first. To add a column, write its cell above and
# give it a line here.
COLUMNS = (
    Column("done / total", _amounts, 0),
    Column("req/s", _each(_rate), 4),
    Column("tok/req", _each(_tokens), 5),
    Column("at once", _each(_concurrency), 7),
    Column("resumed", _each(_resumed), 8),
    Column("check", _each(_check), 6),
    Column("errors", _each(_errors), 2),
    Column("time", _each(_time), 1),
)
_PERCENT = Column("", _each(_percent), 0)
_BAR_RANK = 3


def _share(row: DatasetRow) -> float | None:
    if row.done is None or not row.total:
        return None
    return min(1.0, max(0.0, row.done / row.total))


class _Plan(NamedTuple):
    """What fits: the columns with their cells and widths, and what name and bar may take."""

    columns: tuple[tuple[str, list[str], int], ...]
    name: int
    bar: int
    percent: list[str] | None


def table(
    rows: Rows,
    width: int,
    height: int,
    looks: Looks,
    chosen: str | None = None,
    current: str | None = None,
) -> list[Line]:
    """Draw at most `height` lines: a heading where there is room, then a window of the rows."""
    if not rows or height < 1:
        return []
    headed = height > 4 or height > len(rows)
    first, last = _window(rows, height - headed, chosen or current)
    shown = "" if last - first == len(rows) else f" {first + 1}{looks.dash}{last} of {len(rows)}"
    plan = _plan(rows, width, len("dataset" + shown.partition(" of ")[0]) if headed else 0)
    lines = [_row(rows[at], at, plan, looks, rows[at].name == chosen) for at in range(first, last)]
    return [_head(f"dataset{shown}", plan), *lines] if headed else lines


def _window(rows: Rows, height: int, center: str | None) -> tuple[int, int]:
    """Choose which rows are seen: all, or `height` of them around the one of that name."""
    if len(rows) <= height:
        return 0, len(rows)
    at = next((n for n, row in enumerate(rows) if row.name == center), 0)
    first = min(max(0, at - height // 3), len(rows) - height)
    return first, first + height


def _plan(rows: Rows, width: int, label: int) -> _Plan:
    """Drop columns, the highest rank first, until the rest stands beside a readable name."""
    name = max(label, *(units.cells(units.clean(row.name)) for row in rows))
    well = max(_NAME_AT_LEAST, min(name, _NAME_WELL))
    found = [(column, column.cells(rows)) for column in COLUMNS]
    kept = [
        (column.rank, column.title, cells, max(len(column.title), *map(len, cells)))
        for column, cells in found
        if any(cell.strip() for cell in cells)
    ]
    bar_width = _BAR_AT_LEAST if any(_share(row) is not None for row in rows) else 0

    def taken() -> int:
        bars = bar_width + _GAP if bar_width else 0
        return 2 + sum(size + _GAP for _, _, _, size in kept) + bars

    while kept and taken() + well > width:
        highest = max(kept)
        if bar_width and highest[0] < _BAR_RANK:
            bar_width = 0
        elif highest[0] == 0 and taken() + _NAME_AT_LEAST <= width:
            break
        else:
            kept.remove(highest)
    room = width - taken()
    name = max(1, min(name, room))
    if bar_width:
        bar_width = min(_BAR_AT_MOST, bar_width + room - name)
    percent = _PERCENT.cells(rows) if not bar_width and room - name >= 7 else None
    columns = tuple((title, cells, size) for _, title, cells, size in kept)
    return _Plan(columns, name, bar_width, percent)


def _row(row: DatasetRow, at: int, plan: _Plan, looks: Looks, chosen: bool) -> Line:
    style = "chosen" if chosen else _ROW_STYLES.get(row.state, "")
    mark = _MARKS[row.state][looks.ascii]
    name = units.cut_middle(units.clean(row.name), plan.name, looks.ellipsis)
    line = [
        Segment(mark, style or ("good" if row.state in (State.FINISHED, State.RUNNING) else "")),
        Segment(f" {name}" + " " * (plan.name - units.cells(name)), style),
    ]
    for number, (title, cells, size) in enumerate(plan.columns):
        cell_style = "warn" if title == "errors" and row.errors and not style else style
        line.append(Segment(" " * _GAP + f"{cells[at]:>{size}}", cell_style))
        if number == 0 and plan.bar:
            line.append(Segment(" " * _GAP, style))
            line += _bar(row, plan.bar, looks, chosen)
    if plan.percent:
        line.append(Segment(f"{plan.percent[at]:>7}", style))
    return tuple(line)


def _bar(row: DatasetRow, width: int, looks: Looks, chosen: bool) -> Line:
    share = _share(row)
    if share is None or (row.state is State.QUEUED and not row.done):
        return (Segment(" " * width, "chosen" if chosen else ""),)
    drawn = thin_bar(share, width, looks, _BAR_STYLES.get(row.state, "bar"))
    return tuple(Segment(text, "chosen") for text, _ in drawn) if chosen else drawn


def _head(label: str, plan: _Plan) -> Line:
    titles = " " * plan.name
    for number, (title, _, size) in enumerate(plan.columns):
        titles += " " * _GAP + title.rjust(size)
        if number == 0 and plan.bar:
            titles += " " * (_GAP + plan.bar)
    # The label may reach over the name column as far as the first heading leaves room.
    room = max(len(titles) - len(titles.lstrip()) - _GAP, 0) if titles.strip() else len(titles)
    if len(label) > room:
        label = label.partition(" of ")[0][:room]
    return (Segment("  " + label + titles[len(label) :].rstrip(), "dim"),)
