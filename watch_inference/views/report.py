"""A report comes in, the screen's content as plain text goes out, once: for pipes and people."""

from __future__ import annotations

from collections.abc import Sequence

from watch_inference.model import Report
from watch_inference.views.frame import notes
from watch_inference.views.heading import heading
from watch_inference.views.looks import Line, Looks, Segment, fit, sgr
from watch_inference.views.out import Out
from watch_inference.views.sentence import sentence
from watch_inference.views.table import table
from watch_inference.views.vitals import vitals

__all__ = ["Text", "sentence", "text"]


class Text:
    """Writes the report of each job as text."""

    def __init__(self, out: Out, width: int = 80, looks: Looks | None = None) -> None:
        self._out = out
        self._width = width
        self._looks = looks or Looks(ascii=out.encoding == "ascii")

    def show(self, reports: Sequence[Report]) -> None:
        """Write the reports at once, a blank line between; raises ReaderGone or CannotWrite."""
        self._out.write("\n".join(text(one, self._width, self._looks) for one in reports))


def text(report: Report, width: int, looks: Looks) -> str:
    """Write the report as lines of at most `width` columns: a sentence, then the screen's content.

    The only escape sequences are SGR, and only where `looks.colors` asks for them.
    """
    width = max(20, width)
    lines = heading(report, width, looks)
    lines += table(
        report.datasets, width, len(report.datasets) + 1, looks, None, report.figures.dataset
    )
    lines += vitals(report, width, looks) + notes(report, width, looks)
    lines.insert(0, (Segment(sentence(report, min(100, width))),))
    written = [_written(fit(line, width, looks), looks) for line in lines]
    return "\n".join(written) + "\n"


def _written(line: Line, looks: Looks) -> str:
    """Write one line, blanks at its end cut off before any colour is set."""
    plain = "".join(segment.text for segment in line)
    room = len(plain.rstrip())
    said = ""
    for segment in line:
        part = segment.text[:room]
        room -= len(part)
        codes = sgr(segment.style, looks)
        said += f"\x1b[{codes}m{part}\x1b[0m" if codes and part.strip() else part
    return said
