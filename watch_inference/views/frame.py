"""A report and a size come in, styled lines without escape codes go out; touches nothing.

Facts first: what state, how far, when done, is it still moving; then the datasets; then what was
probed; then what was warned of; then keys. What does not fit is dropped from the end.
"""

from __future__ import annotations

from watch_inference import units
from watch_inference.model import Report
from watch_inference.views.heading import (
    STATE_STYLES,
    TROUBLE,
    counts,
    end,
    heading,
    remaining,
    title,
)
from watch_inference.views.looks import Line, Looks, Segment, bar, fit, joined, wrapped
from watch_inference.views.moves import Page
from watch_inference.views.pages import dataset_page, help_page, log_page
from watch_inference.views.sentence import sentence
from watch_inference.views.table import table
from watch_inference.views.vitals import brief_vitals, vitals

_FULL_HEIGHT = 16  # from here on: a table heading, all probe lines, the keys
_KEYS = (
    ("q", "quit"),
    ("?", "help"),
    ("p", "pause"),
    ("enter", "dataset"),
    ("l", "log"),
    ("e", "errors"),
)
_MORE_KEYS = (("tab", "job"),)
_PAGE_KEYS = (("q", "quit"), ("esc", "back"), ("arrows", "move"), ("l", "log"), ("e", "errors"))


def frame(
    report: Report, width: int, height: int, looks: Looks, page: Page | None = None, jobs: int = 1
) -> tuple[Line, ...]:
    """Draw what `page` shows of the report, at most `height` lines of at most `width` columns."""
    page = page or Page()
    if width < 24 or (height == 1 and width < 40):
        lines = _tiny(report, width, height, looks)
    elif height == 1:
        lines = [(Segment(sentence(report, width)),)]
    elif height < 4:
        lines = heading(report, width, looks, _note(page, jobs))
    elif page.name == "overview":
        lines = _overview(report, width, height, looks, page, jobs)
    else:
        lines = _page(report, width, height, looks, page, jobs)
    return tuple(fit(line, width, looks) for line in lines[:height])


def _page(
    report: Report, width: int, height: int, looks: Looks, page: Page, jobs: int
) -> list[Line]:
    """Draw a page other than the overview below the title that always stands."""
    room = height - 2
    if page.name == "help":
        body = help_page(width, looks)
    elif page.name == "dataset":
        body = dataset_page(report, page.chosen, width, looks)
    else:
        body = log_page(report, page.name == "errors", width, room, looks, page.offset)
    body = [*body[:room], *[()] * (room - len(body))]
    return [title(report, width, looks, _note(page, jobs)), *body, keys(width, _PAGE_KEYS)]


def _note(page: Page, jobs: int) -> str:
    many = f"job {page.job + 1} of {jobs}" if jobs > 1 else ""
    return "  ".join(part for part in ("paused" if page.paused else "", many) if part)


def _overview(
    report: Report, width: int, height: int, looks: Looks, page: Page, jobs: int
) -> list[Line]:
    head = heading(report, width, looks, _note(page, jobs))[: height - 1]
    room = height - len(head)
    noted = notes(report, width, looks)
    if height < _FULL_HEIGHT:
        return head + _small(report, width, room, looks, page)
    room -= 1
    probed = vitals(report, width, looks)[: max(0, room - 4)]
    kept = min(len(noted), 4 if report.state in TROUBLE else 2 * bool(report.warnings))
    rows = min(len(report.datasets) + 1, max(4, room - len(probed) - kept))
    drawn = table(report.datasets, width, rows, looks, page.chosen, report.figures.dataset)
    spare = room - len(drawn) - len(probed) - len(noted)
    first, second = [()] * (spare > 1), [()] * (spare > 0)
    body = [*first, *drawn, *second, *probed, *noted][:room]
    known = (*_KEYS, ("+-", f"every {page.interval:g} s"), *_MORE_KEYS * (jobs > 1))
    return [*head, *body, *[()] * (room - len(body)), keys(width, known)]


def _small(report: Report, width: int, room: int, looks: Looks, page: Page) -> list[Line]:
    probed = brief_vitals(report, width, looks)
    noted = notes(report, width, looks)[:2]
    rows = max(1, room - len(probed) - len(noted))
    current = report.figures.dataset
    body = table(report.datasets, width, min(rows, room), looks, page.chosen, current)
    return [*body, *probed, *noted][:room]


def _tiny(report: Report, width: int, height: int, looks: Looks) -> list[Line]:
    """State, percentage, end, in this order of worth, on one to three lines or 23 columns."""
    style = STATE_STYLES[report.state]
    share = report.figures.fraction
    percent = "" if share is None else units.percent(share, 0 if height == 1 else 1)
    left = remaining(report, looks)
    word = report.state.value
    if height == 1:
        return [_one_line(word, style, percent, left, width)]
    room = width - len(word) - 1
    name = units.cut_middle(units.clean(report.name), room, looks.ellipsis) if room > 3 else ""
    first = (Segment(name, "strong"), Segment(" " if name else ""), Segment(word, style))
    drawn = bar(share, width - len(percent) - 1, looks) if width - len(percent) >= 8 else ()
    second = (*drawn, Segment(" " if drawn else ""), Segment(percent, "strong"))
    when = next((one for one in (end(report, looks), left) if 0 < units.cells(one) <= width), left)
    lines: list[Line] = [first, second, (Segment(when),), (Segment(counts(report)),)]
    lines += brief_vitals(report, width, looks)
    if report.state.value in ("stalled", "failed"):
        lines[2:2] = [
            (Segment(part, style),) for part in wrapped(units.clean(report.reason), width, 2, looks)
        ]
    return [line for line in lines if any(one.text for one in line)]


def _one_line(word: str, style: str, percent: str, left: str, width: int) -> Line:
    percent, left = percent.replace(" ", ""), left.replace(" ", "")
    for parts in ((percent, left, word), (percent, word), (word,)):
        kept = [part for part in parts if part]
        if len(" ".join(kept)) <= width:
            break
    return joined([(Segment(part, style if part == word else ""),) for part in kept], width, 1)


def notes(report: Report, width: int, looks: Looks) -> list[Line]:
    """Draw warnings, then the evidence for a state of trouble, then the log's newest error."""
    lines: list[Line] = []
    for warning in report.warnings:
        parts = wrapped(units.clean(warning), max(1, width - 2), 2, looks)
        lines += [
            (Segment("! " if n == 0 else "  ", "warn"), Segment(part, "warn"))
            for n, part in enumerate(parts)
        ]
    for said in report.evidence if report.state in TROUBLE else ():
        lines.append((Segment(f"- {units.clean(said)}", "dim"),))
    if report.log.last_error:
        lines.append((Segment("error    ", "dim"), Segment(units.clean(report.log.last_error))))
    return [fit(line, width, looks) for line in lines]


def keys(width: int, table: tuple[tuple[str, str], ...]) -> Line:
    """Draw the keys that work here, as many as fit."""
    parts: list[Line] = [
        (Segment(key, "strong"), Segment(f" {word}", "dim")) for key, word in table
    ]
    return joined(parts, max(1, width - 1), 2)
