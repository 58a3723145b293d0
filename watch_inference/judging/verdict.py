"""What a rule of diagnosis takes and says; touches nothing.

A rule is a function `(Case, Standing) -> Verdict | None`, placed in the table of `diagnosis` by its
strength: the first that speaks wins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from watch_inference.judging.case import Case
from watch_inference.model import State


class Standing(NamedTuple):
    """The state that the counts, the processes and the rhythm put the job in, and why."""

    state: State
    reason: str = ""
    advice: str = ""


class Verdict(NamedTuple):
    """One thing that a rule has to say: a sentence with its age, and what to do about it."""

    reason: str
    advice: str = ""
    cause: bool = False  # explains the state: it goes before the state's own words
    aside: bool = False  # worth knowing, but never the reason
    state: State | None = None  # evidence enough for another state (a server refuses: stalled)


Rule = Callable[[Case, Standing], "Verdict | None"]
