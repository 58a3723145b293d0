"""A log's path comes in, a LogReading goes out at each read; touches that file, read-only.

A large log is read forward within a budget; as long as it is behind, what is shown is taken from
its end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from watch_inference.files.tail import BLOCK, Budget, Cursor, Follower, fingerprint, step
from watch_inference.logs.logbook import Book
from watch_inference.model import LoggedDataset, LogReading

_SECONDS = 0.25  # that one read may take
_FIRST_SECONDS = 0.03  # and the very first, which somebody waits for
_GLANCE_SECONDS = 0.12  # and a look at its end
_FARTHEST = 64 << 20  # how far from the end the newest progress line is looked for


class Log:
    """Follows one log and folds it; `names` are the datasets that its lines may name."""

    def __init__(
        self,
        path: str,
        names: Sequence[str] = (),
        budget: int = 256 << 20,
        whole: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._follower = Follower(path)
        self._book = Book(names)
        self._budget = None if whole else budget
        self._clock = clock
        self._arrivals = _Arrivals()
        self._looked = False  # so that what comes next is seen arriving
        self._complete = False  # the log was read to its end once
        self._length = 64 * 1024  # of the end that the newest state was found in
        self._last = LogReading(path)

    def read(self, at: float, wall: float, names: Sequence[str] = ()) -> LogReading:
        """Read what is new within the budget, and say how the log stands at `at`."""
        if names:
            self._book.names = names
        seconds = _SECONDS if self._looked else _FIRST_SECONDS
        budget = Budget(self._budget, seconds, self._clock)
        status = self._follower.look()
        if status is not None:
            self._arrivals.note(self._offset(), status.st_size, at if self._looked else None)
            self._follow(at, budget)
        self._looked = True
        self._last = self._last._replace(
            changed_at=self._arrivals.last_at,
            error=self._follower.error,
            notes=self._follower.notes,
            restarts=self._follower.restarts,
        )
        return self._shown()

    def close(self) -> None:
        """Let the log go."""
        self._follower.close()

    def _offset(self) -> int:
        return self._follower.cursor.offset if self._follower.cursor else 0

    def _follow(self, at: float, budget: Budget) -> None:
        """Feed the book with all that the budget allows."""
        behind = self._last.behind
        while limit := min(BLOCK, budget.left()):
            limit, arrived = self._arrivals.next(self._offset(), limit, at)
            chunk = self._follower.read(limit)
            if chunk is None:
                break
            behind = chunk.behind
            budget.spend(chunk.consumed)
            if chunk.restarted:
                arrived = at
                self._arrivals.begin_anew(chunk.consumed + behind, at)
            elif not chunk.consumed:
                self._complete = True
                break
            if chunk.consumed and arrived == at:
                self._arrivals.last_at = at  # what came since the look, too
            if chunk.lines:
                self._book.feed(chunk.lines, arrived)
        status = self._follower.look()
        if status is not None:
            self._last = self._last._replace(
                size=status.st_size, modified=status.st_mtime, behind=behind
            )

    def _shown(self) -> LogReading:
        """Put what the book says into the reading; the newest state, if it is not there yet."""
        reading, cursor = self._last, self._follower.cursor
        if cursor is not None and cursor.after_return and not reading.behind:
            self._book.peek(cursor.partial, reading.changed_at)
        filled = self._book.fill(reading)
        if not reading.behind:
            return filled
        newest = self._at_end(reading)
        return _overlaid(filled, newest) if self._complete else newest

    def _at_end(self, reading: LogReading) -> LogReading:
        """Read the newest state from the end, as much of it as names a dataset."""
        # Each look takes four times the one before: begin none that would take too long.
        budget = Budget(2 * _FARTHEST, _GLANCE_SECONDS / 4, self._clock)
        while True:
            start = max(0, (reading.size or 0) - self._length)
            book = Book(self._book.names)
            _glance(self._follower, book, start, self._arrivals.last_at)
            newest = book.fill(reading)
            if (newest.current and newest.datasets) or not start:
                break
            if self._length >= _FARTHEST or not budget.left():
                break
            self._length *= 4
        # Lines before the first heading there belong to who knows which dataset.
        named = tuple(one for one in newest.datasets if one.name)
        return newest._replace(datasets=named or newest.datasets)


class _Arrivals:
    """Where the bytes end that had arrived at each look, and when: None for those we found."""

    def __init__(self) -> None:
        self._ends: list[tuple[int, float | None]] = []
        self.last_at: float | None = None

    def note(self, offset: int, size: int, at: float | None) -> None:
        """Remember how large the file is at a look."""
        known = self._ends[-1][0] if self._ends else offset
        if size > known:
            self._ends.append((size, at))
            self.last_at = at

    def begin_anew(self, size: int, at: float) -> None:
        """Forget the file before this one; all of this one is new."""
        self._ends = [(size, at)]
        self.last_at = at if size else self.last_at

    def next(self, offset: int, limit: int, at: float) -> tuple[int, float | None]:
        """Say how much may be read from `offset` on that arrived at one time, and that time."""
        while self._ends and self._ends[0][0] <= offset:
            del self._ends[0]
        if not self._ends:
            return limit, at
        return min(limit, self._ends[0][0] - offset), self._ends[0][1]


def _glance(follower: Follower, book: Book, start: int, at: float | None) -> None:
    """Fold a log from `start` to its end; a line that began before `start` is left out."""
    descriptor, cursor = follower.descriptor, follower.cursor
    if descriptor is None or cursor is None:
        return
    try:
        seen = fingerprint(descriptor, start)
        cursor = Cursor(cursor.device, cursor.inode, start, seen, skipping=start > 0)
        while (chunk := step(descriptor, cursor)).consumed and not chunk.restarted:
            cursor = chunk.cursor
            if chunk.lines:
                book.feed(chunk.lines, at)
    except OSError:
        return  # the follower meets the same, and says so
    if cursor.after_return:
        book.peek(cursor.partial, at)


def _overlaid(known: LogReading, newest: LogReading) -> LogReading:
    """Put the newest state over what is known from further back."""
    later = {dataset.name: dataset for dataset in newest.datasets}
    unnamed = later.get("")
    if unnamed is not None and len(later) == 1:
        name = _continued(known, unnamed)
        later = {name: unnamed._replace(name=name)}
        newest = newest._replace(current=name)
    datasets = [_updated(dataset, later.pop(dataset.name, None)) for dataset in known.datasets]
    return known._replace(
        format=newest.format or known.format,
        datasets=(*datasets, *later.values()),
        current=newest.current or known.current,
        last_error=newest.last_error or known.last_error,
        last_error_at=newest.last_error_at or known.last_error_at,
    )


def _continued(known: LogReading, unnamed: LoggedDataset) -> str:
    """Name the dataset of lines without a name: the current one, where they may be its."""
    for one in known.datasets:
        if one.name == known.current and one.total == unnamed.total and unnamed.done >= one.done:
            return one.name
    return ""


def _updated(known: LoggedDataset, newest: LoggedDataset | None) -> LoggedDataset:
    if newest is None:
        return known
    if newest.done < known.done:
        return newest  # another run: what is known of the one before comes with the rest
    return newest._replace(
        first=known.first,
        resumed=known.resumed,
        runs=known.runs,
        earlier=known.earlier,
        step=max(known.step, newest.step),
        lines=known.lines + tuple(one for one in newest.lines if one.done > known.done),
    )
