"""What is seen and a key come in, what is seen next goes out; touches nothing."""

from __future__ import annotations

from typing import NamedTuple

from watch_inference.model import Report

INTERVALS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 3600.0)

_STEPS = {
    "up": -1,
    "down": 1,
    "page_up": -10,
    "page_down": 10,
    "home": -1_000_000,
    "end": 1_000_000,
}
_PAGES = {"?": "help", "l": "log", "e": "errors", "enter": "dataset"}


class Page(NamedTuple):
    """What a person chose to see: which job, which page, which dataset, how far down."""

    name: str = "overview"  # overview, help, dataset, log, errors
    job: int = 0
    chosen: str | None = None  # a dataset
    offset: int = 0
    paused: bool = False
    interval: float = 2.0


def moved(page: Page, key: str, report: Report, jobs: int) -> Page:
    """Return what a key makes of the page; a key that means nothing here changes nothing."""
    if key == "p":
        return page._replace(paused=not page.paused)
    if key in "+-":
        return page._replace(interval=_stepped(page.interval, key))
    if key == "tab":
        return page._replace(job=(page.job + 1) % max(1, jobs), chosen=None, offset=0)
    if key == "escape":
        if page.name == "overview":
            return page._replace(chosen=None)
        return page._replace(name="overview", offset=0)
    if key in _PAGES:
        return _turned(page, _PAGES[key], report)
    if key in _STEPS:
        return _stepped_to(page, _STEPS[key], report)
    return page


def _stepped(interval: float, key: str) -> float:
    """Return the next longer interval (+) or the next shorter one (-)."""
    if key == "+":
        return next((one for one in INTERVALS if one > interval), INTERVALS[-1])
    return next((one for one in reversed(INTERVALS) if one < interval), INTERVALS[0])


def _turned(page: Page, name: str, report: Report) -> Page:
    if page.name == name:  # the same key again leads back
        return page._replace(name="overview", offset=0) if name != "dataset" else page
    if name == "dataset":
        if page.name != "overview" or not report.datasets:
            return page
        chosen = page.chosen or report.figures.dataset or report.datasets[0].name
        return page._replace(name=name, chosen=chosen, offset=0)
    return page._replace(name=name, offset=0)


def _stepped_to(page: Page, step: int, report: Report) -> Page:
    """Move the chosen dataset, or scroll; a log is scrolled from its end."""
    if page.name in ("log", "errors"):
        longest = len(report.log_tail if page.name == "log" else report.error_tail)
        return page._replace(offset=min(max(0, page.offset - step), longest))
    if page.name == "help":
        return page
    names = [row.name for row in report.datasets]
    if not names:
        return page
    start = page.chosen or report.figures.dataset
    at = names.index(start) if start in names else 0
    at = min(max(0, at + step), len(names) - 1)
    return page._replace(chosen=names[at])
