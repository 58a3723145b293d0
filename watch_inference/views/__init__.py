"""The table of views: a name comes in, the class that shows reports in that form goes out.

Only the chosen view is imported, so that a stream of lines never pays for a screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

from watch_inference.model import Report


class View(Protocol):
    """What every view is: something that shows reports."""

    def show(self, reports: Sequence[Report]) -> None:
        """Show what was judged of each job."""


# To add a form, write one file with a class that has show(reports), and add one line here.
VIEWS = {
    "plain": "watch_inference.views.plain:Plain",
    "json": "watch_inference.views.json:Json",
    "report": "watch_inference.views.report:Text",
    "screen": "watch_inference.views.screen:Screen",
}


def module(name: str) -> Any:
    """Import the module of the view of that name; KeyError for a name not in VIEWS."""
    return import_module(VIEWS[name].partition(":")[0])


def load(name: str) -> Any:
    """Import the view of that name and return its class; KeyError for a name not in VIEWS."""
    return getattr(module(name), VIEWS[name].partition(":")[2])
