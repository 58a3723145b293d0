"""Points of finished work over time in, throughput out; touches nothing."""

from __future__ import annotations

from watch_inference.model import DatasetProgress, Point, State

_KEPT_POINTS = 200
_CLOSEST_S = 1.0
# A rate is taken over at least so many requests and so long, and never over more than this.
_ENOUGH_REQUESTS = 50
_ENOUGH_S = 60.0
_WINDOW_S = 1800.0
# What a short watch must have seen before its own rate beats the log's.
_SEEN_REQUESTS = 5
_SEEN_S = 20.0


def pace(points: tuple[Point, ...], point: Point) -> tuple[Point, ...]:
    """Add a point; a bounded number is kept, the newest closest together."""
    if points and point.done < points[-1].done:
        return (point,)  # replaced or restarted: what came before says nothing of the rate
    if len(points) >= 2:
        still = points[-2].done == points[-1].done == point.done
        if still or point.at - points[-2].at < _CLOSEST_S:
            return (*points[:-1], point)
    points = (*points, point)
    if len(points) > _KEPT_POINTS:
        half = _KEPT_POINTS // 2
        points = points[:half:2] + points[half:]
    return points


def throughput(points: tuple[Point, ...]) -> float | None:
    """Say how many requests a second finish now, over the shortest window that tells."""
    # Before its first request came, a dataset had not begun.
    still = sum(point.done == points[0].done for point in points)
    points = points[max(0, still - 1) :]
    if len(points) < 2:
        return None
    newest = points[-1]
    first = newest
    for point in reversed(points[:-1]):
        if newest.at - point.at > _WINDOW_S and first is not newest:
            break
        first = point
        requests, seconds = newest.done - point.done, newest.at - point.at
        if requests >= _ENOUGH_REQUESTS and seconds >= _ENOUGH_S:
            break
    requests, seconds = newest.done - first.done, newest.at - first.at
    if requests < _SEEN_REQUESTS or seconds < _SEEN_S:
        return None
    return requests / seconds


def rated(one: DatasetProgress, silent_s: float) -> DatasetProgress:
    """Give a dataset its throughput: as watched, else as its log says it while the log is fresh."""
    entry = one.log
    said = entry.rate if entry is not None else None
    if one.state is State.FINISHED:
        return one._replace(requests_per_s=said)
    if one.state is not State.RUNNING:
        return one
    seen = throughput(one.points)
    fresh = entry is not None and bool(said) and silent_s <= 5 * max(entry.step, 1) / (said or 1)
    return one._replace(requests_per_s=seen if seen is not None else (said if fresh else None))


def history(points: tuple[Point, ...], now: float, buckets: int = 12) -> tuple[float | None, ...]:
    """Say the throughput of the last `buckets` equal spans, oldest first; None where not watched.

    Spans are aligned to the clock, so that the picture moves only when a span is full.
    """
    if len(points) < 2:
        return ()
    watched = now - points[0].at
    width = next((one for one in (10, 30, 60, 300, 900, 3600) if one * buckets >= watched), 14400)
    end = now // width * width
    return tuple(
        _between(points, end - (number + 1) * width, end - number * width)
        for number in reversed(range(buckets))
    )


def _between(points: tuple[Point, ...], start: float, end: float) -> float | None:
    low, high = _done_at(points, start), _done_at(points, end)
    return None if low is None or high is None else max(0.0, high - low) / (end - start)


def _done_at(points: tuple[Point, ...], at: float) -> float | None:
    """Interpolate the count at a time; None before the first point."""
    if at < points[0].at:
        return None
    before = points[0]
    for point in points[1:]:
        if point.at >= at:
            share = (at - before.at) / max(1e-9, point.at - before.at)
            return before.done + share * (point.done - before.done)
        before = point
    return float(points[-1].done)
