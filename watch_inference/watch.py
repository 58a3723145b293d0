"""Takes in, reports out: the loop. Clock and wait are handed in; it touches nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from watch_inference.folding.progress import advance
from watch_inference.forecasting.forecast import forecast
from watch_inference.forecasting.observed import observed
from watch_inference.forecasting.scorebook import note, words
from watch_inference.judging.case import Case, Limits
from watch_inference.judging.diagnosis import judge
from watch_inference.judging.rows import figures
from watch_inference.model import Forecast, Progress, Report, Sample, Spoken

Reports = tuple[Report, ...]
Take = Callable[[float, float], Sample]
Clock = Callable[[], float]
Wait = Callable[[float], None]

# A stream ends when its jobs are over and nothing has followed for so long.
GRACE_S = 5.0
# A forecast costs more than all else of a look, and its finish does not move from one to the next.
_FORECAST_S = 5.0


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
    spoken = _spoken(before, progress)
    said = _later(spoken.forecast, progress.at - spoken.at)
    progress = progress._replace(spoken=spoken)
    case = Case(sample, progress, said, setting.limits, setting.host)
    case = case._replace(figures=figures(case))
    report = judge(case)
    known = progress.scores if progress.scores is not None else sample.scores
    scores = note(known, sample.wall, progress.started, said, case.figures.fraction)
    end = sample.wall if report.ended is None else report.ended
    track = words(scores, end, report.figures.remaining_s)
    report = report._replace(track=track, scores=scores)
    return progress._replace(happened=report.happened, scores=scores), report


def _spoken(before: Progress | None, progress: Progress) -> Spoken:
    """Forecast anew where a few seconds have passed or another dataset begins, and not before."""
    last = before.spoken if before is not None else None
    subject = tuple((one.name, one.state) for one in progress.datasets)
    fresh = last is not None and progress.at - last.at < _FORECAST_S
    if last is not None and fresh and last.subject == subject and last.forecast.remaining_s:
        return last
    return Spoken(progress.at, subject, forecast(observed(progress)))


def _later(said: Forecast, seconds: float) -> Forecast:
    """Say the same finish some seconds later."""

    def less(value: float | None) -> float | None:
        return None if value is None else max(0.0, value - seconds)

    return Forecast(
        less(said.remaining_s), less(said.low_s), less(said.high_s),
        tuple((name, value) for name, value in said.datasets),
    )  # fmt: skip


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
