"""Takes in, reports out: the loop. Clock and wait are handed in; it touches nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from watch_inference.case import Case, Limits
from watch_inference.diagnosis import judge
from watch_inference.forecast import forecast
from watch_inference.model import Progress, Report, Sample
from watch_inference.observed import observed
from watch_inference.progress import advance
from watch_inference.rows import figures

Reports = tuple[Report, ...]
Take = Callable[[float, float], Sample]
Clock = Callable[[], float]
Wait = Callable[[float], None]

# A stream ends when its jobs are over and nothing has followed for so long.
GRACE_S = 5.0


class Setting(NamedTuple):
    """What stays the same from look to look: limits, how outputs are counted, whose host it is."""

    limits: Limits = Limits()
    counting: str = "lines"
    host: str = ""


_DEFAULT = Setting()


def reports(
    takes: Sequence[Take],
    clock: Clock,
    wall: Clock,
    wait: Wait,
    interval: float,
    setting: Setting = _DEFAULT,
) -> Iterator[Reports]:
    """Look at each job again and again, and yield what is to be said of them; never ends."""
    memory: list[Progress | None] = [None] * len(takes)
    while True:
        at = clock()
        said = []
        for number, take in enumerate(takes):
            memory[number], report = look(memory[number], take(at, wall()), setting)
            said.append(report)
        yield tuple(said)
        # Whatever a look took, the next one is not hurried after it.
        wait(max(0.0, interval - (clock() - at)))


def look(before: Progress | None, sample: Sample, setting: Setting) -> tuple[Progress, Report]:
    """Fold one sample into the progress, and judge it."""
    progress = advance(before, sample, setting.counting)
    case = Case(sample, progress, forecast(observed(progress)), setting.limits, setting.host)
    return progress, judge(case._replace(figures=figures(case)))


def due(looks: Iterable[Reports], interval: float) -> Iterator[Reports]:
    """Pass on all reports once an interval, and in between those whose state has changed."""
    states: list[object] = []
    spoken_at = float("-inf")
    for said in looks:
        now = [report.state for report in said]
        if said[0].at - spoken_at >= interval - 1e-3:
            spoken_at = said[0].at
            yield said
        elif now != states:
            yield tuple(one for one, old in zip(said, states, strict=True) if one.state != old)
        states = list(now)


def until_over(looks: Iterable[Reports]) -> Iterator[Reports]:
    """Pass reports on until every job is over and nothing has followed for GRACE_S."""
    over_at: float | None = None
    for said in looks:
        if not all(report.over for report in said):
            over_at = None
        elif over_at is None:
            over_at = said[0].at
        yield said
        if over_at is not None and said[0].at - over_at >= GRACE_S:
            return
