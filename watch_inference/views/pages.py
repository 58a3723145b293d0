"""A report and a page come in, the lines of the help, the dataset and the log pages go out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from watch_inference import units
from watch_inference.model import DatasetRow, Report, State
from watch_inference.views.heading import STATE_STYLES
from watch_inference.views.looks import Line, Looks, Segment, bar, fit, joined, spark, wrapped

_HELP = (
    ("q", "quit; the job is not touched, and no key can harm it"),
    ("?", "this page, and back"),
    ("p", "pause: the picture stands still, the watching goes on"),
    ("+ -", "longer or shorter interval"),
    ("j k, arrows", "choose a dataset, or scroll a log"),
    ("PgUp, Home", "PgDn, End: the same in larger steps"),
    ("Enter Esc", "into a dataset and out of it"),
    ("l", "the log: cleaned, repeated noise folded"),
    ("e", "the log at its newest error"),
    ("Tab", "the next job"),
    ("Ctrl-L", "draw the screen anew"),
    ("Ctrl-Z", "suspend; fg comes back"),
)
_WORDS = (
    ("check ok", "log and output files agree, within what the rate explains"),
    ("behind", "fewer lines written than logged: lost, or still buffered"),
    ("ahead", "more lines written than the log can account for"),
    ("resumed", "a constant surplus that an earlier run wrote"),
    ("stalled", "alive, and no work has moved for longer than its own rhythm allows"),
)
_HELP_WIDTH = 13
_ERROR = re.compile(r"(?i)\b(\w*error|exception|traceback|fatal|critical|killed|panic)\b")
# What fills the logs of such jobs and says nothing: each request, and what tokenizers warn of.
_NOISE = re.compile(
    r"HTTP Request: \w+ \S+ .?HTTP/[\d.]+ 2\d\d|\bHTTP/[\d.]+\S? 2\d\d\b"
    r"|[Tt]oken indices sequence length|Running this sequence through the model"
    r"|`pad_token_id`|huggingface/tokenizers:|Disabling parallelism|TOKENIZERS_PARALLELISM"
    r"|Avoid using `tokenizers` before the fork|To disable this warning"
    r"|Special tokens have been added|(?:Prefill|Decode) batch"
)
_NUMBERS = re.compile(r"\d+(?:[.,:]\d+)*")


def help_page(width: int, looks: Looks) -> list[Line]:
    """Draw what the keys do and what the words mean."""
    lines: list[Line] = []
    for word, said in (*_HELP, ("", ""), *_WORDS):
        parts = wrapped(said, max(1, width - _HELP_WIDTH), 3, looks)
        head = Segment(f"{word:<{_HELP_WIDTH}}", "strong")
        lines.append((head, Segment(parts[0] if parts else "")))
        lines += [(Segment(" " * _HELP_WIDTH), Segment(part)) for part in parts[1:]]
    return lines


def dataset_page(report: Report, name: str | None, width: int, looks: Looks) -> list[Line]:
    """Draw all that is known of one dataset, then the log's last lines."""
    row = next((one for one in report.datasets if one.name == name), None)
    if row is None:
        return [(Segment("this dataset is gone", "warn"),)]
    share = None if row.done is None or not row.total else min(1.0, row.done / row.total)
    numbers = f"{units.number(row.done)} / {units.number(row.total)}   {units.percent(share)}"
    name_shown = units.cut_middle(units.clean(row.name), max(8, width - 12), looks.ellipsis)
    lines: list[Line] = [
        (
            Segment(name_shown, "strong"),
            Segment("  "),
            Segment(row.state.value, STATE_STYLES[row.state]),
        ),
        (*bar(share, max(1, width - len(numbers) - 2), looks), Segment(f"  {numbers}", "strong")),
        (),
    ]
    lines += [
        fit((Segment(label.ljust(11), "dim"), *joined(parts, width - 11)), width, looks)
        for label, parts in _facts(report, row, looks)
        if parts
    ]
    lines += _past(report, row.name, width, looks)
    tail = folded(report.log_tail[-40:])[-8:]
    if tail:
        lines += [(), (Segment("last lines of the log", "dim"),), *_log_lines(tail)]
    return lines


def _facts(report: Report, row: DatasetRow, looks: Looks) -> list[tuple[str, list[Line]]]:
    def said(*texts: str) -> list[Line]:
        return [(Segment(text),) for text in texts if text]

    rate = "" if row.requests_per_s is None else f"{units.rate(row.requests_per_s)} req/s"
    history = row.history or (report.history if row.name == report.figures.dataset else ())
    tokens = row.completion_tokens
    started = units.clock(row.started, report.wall)
    ended = units.clock(row.ended, report.wall)
    left = "" if row.remaining_s is None else f"{units.roughly(row.remaining_s)} left"
    took = row.started is not None and row.ended is not None and row.state is State.FINISHED
    return [
        ("started", said("" if started == "?" else started, left)),
        ("ended", said("" if ended == "?" else ended,
                       f"took {units.elapsed((row.ended or 0) - (row.started or 0))}" if took
                       else "")),
        ("rate", said(rate, spark(history, looks).strip())),
        ("tokens", said("" if tokens is None else f"{tokens:,.0f} a request",
                        "" if tokens is None or row.requests_per_s is None
                        else f"{units.rate(tokens * row.requests_per_s)} tok/s")),
        ("written", said("" if row.written is None else f"{row.written:,} lines",
                         "" if row.age_s is None else f"{units.recent(row.age_s)} ago")),
        ("logged", said("" if row.logged is None else f"{row.logged:,}",
                        "" if row.check is None else f"check {row.check.value}",
                        f"done counted from {row.done_from}" if row.done_from else "")),
        ("resumed", said(f"{row.resumed:,} from an earlier run" if row.resumed else "")),
        ("errors", said("" if row.errors is None else f"{row.errors:,}")),
        ("files", said(*(units.cut_middle(units.clean(one), 60, looks.ellipsis)
                         for one in row.files[:3]),
                       f"and {len(row.files) - 3} more" if len(row.files) > 3 else "")),
        ("at once", said("" if row.concurrency is None else f"{row.concurrency:,} requests")),
    ]  # fmt: skip


def _past(report: Report, name: str, width: int, looks: Looks) -> list[Line]:
    """Say what happened to a dataset, and how good the job's forecasts have been."""
    said = []
    for one in report.happened[-5:]:
        if one.dataset in (None, name):
            lasted = "" if one.ended is None else f" for {units.elapsed(one.ended - one.began)}"
            said.append(f"{units.clock(one.began, report.wall)} {one.kind}{lasted} {one.text}")
    parts = [("happened", text) for text in said] + [("forecast", one) for one in report.track]
    return [
        (Segment(label.ljust(11), "dim"), Segment(units.cut(units.clean(text), width - 11)))
        for label, text in parts
    ]


def log_page(
    report: Report, errors: bool, width: int, height: int, looks: Looks, offset: int
) -> list[Line]:
    """Draw the log's newest lines, or those around its newest error, `offset` lines back."""
    path = units.clean(report.log.path or "no log")
    what = "around the newest error in" if errors else "end of"
    lines: list[Line] = [
        (
            Segment(f"{what} ", "dim"),
            Segment(units.cut_middle(path, max(8, width - 28), looks.ellipsis)),
        )
    ]
    kept = report.error_tail if errors else report.log_tail
    shown = list(folded(kept))
    if not shown:
        return [*lines, (), (Segment("no error seen" if errors else "no lines seen yet", "dim"),)]
    room = max(1, height - 1)
    last = max(min(room, len(shown)), len(shown) - offset)
    return lines + _log_lines(shown[max(0, last - room) : last])


class Fold(NamedTuple):
    """One line of a log, or the newest of several that say the same."""

    text: str
    times: int
    noise: bool


def folded(lines: Sequence[str]) -> list[Fold]:
    """Fold known noise, and lines that differ in numbers only, into the newest of each run."""
    found: list[Fold] = []
    shape = ""
    for raw in lines:
        line = units.clean(raw).rstrip()
        noise = not line or _NOISE.search(line) is not None
        new = "noise" if noise else _NUMBERS.sub("0", line)
        if found and new == shape and (noise or not _ERROR.search(line)):
            found[-1] = Fold(line or found[-1].text, found[-1].times + 1, noise)
        else:
            found.append(Fold(line, 1, noise))
        shape = new
    return found


def _log_lines(lines: Sequence[Fold]) -> list[Line]:
    drawn: list[Line] = []
    for text, times, noise in lines:
        style = "dim" if noise else "bad" if _ERROR.search(text) else ""
        many = f"{times} like " if noise else f"{times}x "
        drawn.append((Segment(many if times > 1 else "", "dim"), Segment(text, style)))
    return drawn
