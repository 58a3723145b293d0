"""Observed in, every dataset's work and seconds out: the measuring half of the forecast, pure."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from watch_inference.forecasting.clock import MOST, Mark, Setting, Span, last_moved, number, span
from watch_inference.model import Observed, ObservedDataset

TYPICAL_PROMPT = 700.0  # tokens, where sizes are not known
REPEATED = 0.1**2  # variance of a dataset's log pace from run to run, on the same server


class Pace(NamedTuple):
    """Seconds a request over the whole of a dataset, and the variance of their logarithm."""

    seconds: float
    variance: float


class Part(NamedTuple):
    """One dataset as the forecast sees it; `prompt` and `tokens` are means of a request."""

    name: str
    status: str  # queued, running, done
    total: float  # requests of this run
    finished: float
    batch: float  # requests in flight at once
    prompt: float  # tokens
    tokens: float | None = None  # completion tokens, so far
    spread: float | None = None  # (sd / mean)^2 of completion tokens
    remembered: float | None = None  # completion tokens of an earlier run
    pace: Pace | None = None  # of an earlier run
    ceiling: float | None = None  # the most completion tokens that a request may have
    span: Span | None = None
    deciles: tuple[float, ...] = ()
    begin: float = 0.0  # share of the file that earlier runs did

    @property
    def left(self) -> float:
        """Requests still to come."""
        return 0.0 if self.status == "done" else max(0.0, self.total - self.finished)

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The course of the dataset, as far as it is known."""
        return () if self.span is None else self.span.marks


def measure(observed: Observed) -> tuple[Part | None, ...]:
    """Measure every dataset, in the order given; None where its prompts are not counted."""
    now = number(observed.now)
    if now is None:
        return (None,) * len(observed.datasets)
    process = number(observed.process_started, high=now)
    sizes = _prompt_tokens(observed.datasets)
    usual = _asked(observed.datasets)
    result = [_counts(d, size, usual) for d, size in zip(observed.datasets, sizes, strict=True)]
    running = [part for part in result if part is not None and part.status == "running"]
    points = observed.points if len(running) == 1 else ()
    newest = number(points[-1].done, 0.0) if points else None
    earliest, wait = process, 30.0  # a job loads and connects first
    for i in _by_end(observed, now):
        part, dataset = result[i], observed.datasets[i]
        if part is None or part.finished < 1:
            continue
        setting = Setting(now, process, earliest, wait)
        if part.status == "running" and newest is not None:
            setting = setting._replace(points=points, others=newest - part.finished)
        measured = span(dataset, part.finished, setting)
        if measured is None or (process is not None and measured.ended <= process):
            continue  # nothing tells, or an earlier run's
        result[i] = part._replace(span=measured)
        if part.status == "done":
            earliest, wait = measured.ended, 10.0
    return tuple(_apart(result))


def _apart(parts: list[Part | None]) -> list[Part | None]:
    """Divide the seconds in which several datasets ran at once among them."""
    begins = {i: p.span.ended - p.span.seconds for i, p in enumerate(parts) if p and p.span}
    ends = {i: p.span.ended for i, p in enumerate(parts) if p and p.span}
    cuts = sorted({*begins.values(), *ends.values()})
    own = dict.fromkeys(begins, 0.0)
    for start, end in pairwise(cuts):
        active = [i for i in begins if begins[i] <= start and ends[i] >= end]
        for i in active:
            own[i] += (end - start) / len(active)
    result = list(parts)
    for i, seconds in own.items():
        part = parts[i]
        if part is not None and part.span is not None and seconds < 0.9 * part.span.seconds:
            shared = part.span._replace(seconds=max(seconds, 1e-3))
            result[i] = part._replace(span=shared)
    return result


def _by_end(observed: Observed, now: float) -> list[int]:
    """Order the datasets as they were worked on: the files' order may be another."""
    ends = [last_moved(dataset, Setting(now)) for dataset in observed.datasets]
    return sorted(range(len(ends)), key=lambda i: now if (end := ends[i]) is None else end)


def _asked(datasets: tuple[ObservedDataset, ...]) -> float | None:
    """Find how many requests at once the job last asked; those that wait will be asked alike."""
    asked = (number(dataset.concurrency, 1.0, 1e6) for dataset in reversed(datasets))
    return next((one for one in asked if one is not None), None)


def _counts(dataset: ObservedDataset, prompt: float, usual: float | None) -> Part | None:
    if dataset.prompts is None and dataset.status != "done":
        return None
    resumed = number(dataset.resumed, 0.0) or 0.0
    finished = number(dataset.finished, 0.0) or 0.0
    prompts = number(dataset.prompts, 0.0) or resumed + finished
    total = max(0.0, prompts - resumed)
    flight = number(dataset.concurrency, 1.0, 1e6)
    flight = usual if flight is None else flight
    if flight is None:
        flight = min(40.0, total / 10)
    elif flight > 40:
        flight *= 0.45  # a server seldom takes all at once
    return Part(
        name=dataset.name,
        status="running" if dataset.status == "queued" and finished >= 1 else dataset.status,
        total=total,
        finished=min(finished, total),
        batch=max(1.0, min(flight, total)),
        prompt=prompt,
        tokens=_positive(dataset.completion_tokens),
        spread=number(dataset.spread, 0.0, 20.0),
        remembered=_positive(dataset.remembered_tokens),
        pace=_pace(dataset.remembered_rate),
        ceiling=_positive(dataset.max_tokens),
        deciles=tuple(number(size, 0.0) or 0.0 for size in dataset.prompt_bytes_deciles),
        begin=min(1.0, resumed / prompts) if prompts else 0.0,
    )


def _positive(value: float | None) -> float | None:
    value = number(value)
    return None if value is None or value <= 0 else max(1.0, value)


def _pace(rate: float | None) -> Pace | None:
    """Turn a throughput to a pace; a log's figure is rounded to a tenth, and 0.0 says nothing."""
    rate = number(rate)
    if rate is None or rate < 1e-6:
        return None
    half = 0.05 if abs(rate * 10 - round(rate * 10)) < 1e-6 else 0.0
    return Pace(1 / rate, REPEATED + (half / rate) ** 2 / 3)


def _prompt_tokens(datasets: tuple[ObservedDataset, ...]) -> list[float]:
    """Tell prompt tokens from the files' sizes: about four bytes each, and some of JSON."""
    sizes: list[float | None] = []
    for dataset in datasets:
        bytes_, prompts = number(dataset.prompts_bytes, 0.0), number(dataset.prompts, 0.0)
        sizes.append(max(10.0, (bytes_ / prompts - 40) / 4) if bytes_ and prompts else None)
    known = [size for size in sizes if size is not None]
    usual = sum(known) / len(known) if known else TYPICAL_PROMPT
    return [min(MOST, usual if size is None else size) for size in sizes]
