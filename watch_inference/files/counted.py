"""Paths come in, the files behind them and how far each is counted go out; touches those files."""

from __future__ import annotations

import errno
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from watch_inference.files.count import Counter, Tally
from watch_inference.files.listing import Listing
from watch_inference.files.tail import Budget, open_regular, stat_regular, why

_SLICE = 16 << 20  # bytes counted between two looks at the clock
_MARKS = 64  # places in a prompts file where lines and bytes are both known
_HELD = 12  # growing files that are held open
_MANY = 256  # files under one dataset beyond which those at rest are looked at in turns
_TURNS = 8
_RESTING = 60.0  # seconds without growth
_TICK_NS = 50_000_000  # file times move in ticks: within one, a second change cannot be seen


class CountedFile:
    """One file as it was last looked at, and how far it is counted."""

    __slots__ = (
        "changed", "error", "grown_at", "marked", "modified", "path", "pending", "recalled",
        "restarts", "settled", "size", "tally",
    )  # fmt: skip

    def __init__(self, path: str, tally: Tally, recalled: bool = False) -> None:
        self.path = path
        self.tally = tally
        self.recalled = recalled  # the tally is an earlier visit's, and not proven yet
        self.size = 0
        self.modified = 0.0
        self.changed = (0, 0)  # mtime and ctime, ns
        self.pending = True  # there may be something to count
        self.settled = False  # its first count was finished
        self.grown_at: float | None = None
        self.restarts = 0
        self.error: str | None = None
        self.marked = False  # marks are kept on the way

    @property
    def outstanding(self) -> int:
        """Bytes that are still to be counted."""
        return max(0, self.size - self.tally.offset)


def _mark(tally: Tally) -> Tally:
    """Keep where the count is now; every second mark goes when they become many."""
    if tally.marks and tally.marks[-1][0] == tally.offset:
        return tally
    marks = tally.marks[1::2] if len(tally.marks) >= 2 * _MARKS else tally.marks
    return tally._replace(marks=(*marks, (tally.offset, tally.lines)))


class Moment(NamedTuple):
    """When a look is taken; `whole`: at every file, however many there are."""

    at: float
    wall: float
    whole: bool = False


class Found(NamedTuple):
    """The files that are there under some paths, each once, and why others cannot be seen."""

    files: tuple[CountedFile, ...] = ()
    error: str | None = None


class Pile(NamedTuple):
    """Files that are a request each: how many there are, whatever is in them."""

    written: int | None = None
    files: int = 0
    modified: float | None = None  # the newest of the folders that they lie in
    changed_at: float | None = None
    replaced: int = 0
    error: str | None = None


class CountedFiles:
    """Every file that is being counted, known by device and inode, whatever its names."""

    def __init__(self, recall: Callable[[str], Tally | None] = lambda path: None) -> None:
        self.names: dict[str, CountedFile] = {}  # as each path was last looked at
        self._files: dict[tuple[int, int], CountedFile] = {}
        self._held: OrderedDict[tuple[int, int], int] = OrderedDict()
        self._recall = recall
        self._counter = Counter()

    def look(self, path: str, moment: Moment, arriving: bool = False) -> CountedFile:
        """Look at a file; `arriving`: what is new to us is new. Raises OSError if it cannot."""
        status = stat_regular(path)
        key = (status.st_dev, status.st_ino)
        file = self._files.get(key)
        if file is None:
            file = self._files[key] = self._found(path, status)
            file.grown_at = moment.at if arriving and status.st_size else None
        elif status.st_size > file.size:
            file.grown_at = moment.at
        changed = (status.st_mtime_ns, status.st_ctime_ns)
        if (status.st_size, changed) != (file.size, file.changed):
            file.pending = True
        file.path, file.size, file.changed = path, status.st_size, changed
        file.modified = status.st_mtime
        self.names[path] = file
        return file

    def count(self, files: Iterable[CountedFile], moment: Moment, budget: Budget) -> None:
        """Count on in the files where there may be something, the least outstanding first."""
        waiting = [file for file in files if file.pending]
        for file in sorted(waiting, key=lambda one: one.outstanding):
            if not budget.left():
                return
            try:
                self._count(file, moment.at, budget)
                file.error = None
            except OSError as error:
                file.error = why(error)
                continue
            racy = moment.wall * 1e9 - max(file.changed) < _TICK_NS
            file.pending = file.outstanding > 0 or racy

    def keep_only(self, files: Iterable[CountedFile]) -> None:
        """Forget all other files."""
        keys = {file.tally[:2] for file in files}
        gone = self._files.keys() - keys
        for key in gone:
            del self._files[key]
        if gone:
            self.names = {path: file for path, file in self.names.items() if file.tally[:2] in keys}
        for key in self._held.keys() - keys:
            os.close(self._held.pop(key))

    def _found(self, path: str, status: os.stat_result) -> CountedFile:
        tally = self._recall(path)
        if tally and tally[:2] == (status.st_dev, status.st_ino):
            return CountedFile(path, tally, recalled=True)
        return CountedFile(path, Tally(status.st_dev, status.st_ino))

    def _count(self, file: CountedFile, at: float, budget: Budget) -> None:
        descriptor = self._descriptor(file)
        limit = _SLICE if not file.marked else max(16384, file.size // _MARKS)
        while True:
            before = file.tally
            file.tally, anew = self._counter.advance(descriptor, before, min(limit, budget.left()))
            budget.spend(file.tally.offset - (0 if anew else before.offset))
            if anew:
                file.restarts += not file.recalled
                file.grown_at = at if file.tally.offset else file.grown_at
                file.settled = False
            file.recalled = False
            if file.marked:
                file.tally = _mark(file.tally)
            if not file.outstanding or not budget.left() or file.tally.offset == before.offset:
                break
        file.size = max(file.size, file.tally.offset)
        file.settled = file.settled or not file.outstanding
        if file.grown_at != at:
            os.close(self._held.pop(file.tally[:2]))

    def _descriptor(self, file: CountedFile) -> int:
        """Open a file, or give the descriptor that is held; the longest unused one makes room."""
        key = file.tally[:2]
        if key not in self._held:
            while len(self._held) >= _HELD:
                os.close(self._held.popitem(last=False)[1])
            self._held[key] = self._opened(file.path)
            status = os.fstat(self._held[key])
            if (status.st_dev, status.st_ino) != key:
                os.close(self._held.pop(key))
                raise FileNotFoundError(errno.ENOENT, "replaced since the look")
        self._held.move_to_end(key)
        return self._held[key]

    def _opened(self, path: str) -> int:
        try:
            return open_regular(path)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            while self._held:
                os.close(self._held.popitem()[1])
            return open_regular(path)


class Finder:
    """Finds the files under paths and patterns; those at rest among many are looked at in turns."""

    def __init__(self, counted: CountedFiles) -> None:
        self._counted = counted
        self._listings: dict[str, Listing] = {}
        self._turn = 0

    def paths(self, patterns: Iterable[str], moment: Moment) -> tuple[str, ...]:
        """Give the paths that there are, or may be, each once. Raises OSError."""
        found: dict[str, None] = {}
        for pattern in patterns:
            if pattern not in self._listings:
                self._listings[pattern] = Listing(pattern)
            found.update(dict.fromkeys(self._listings[pattern].paths(moment.at, moment.wall)))
        return tuple(found)

    def find(self, patterns: Iterable[str], moment: Moment, arriving: bool = False) -> Found:
        """Look at the files that there are; `arriving`: one not seen before is new work."""
        try:
            paths = self.paths(patterns, moment)
        except OSError as failure:
            return Found(error=why(failure))
        self._turn += 1
        files: dict[tuple[int, ...], CountedFile] = {}
        error = None
        for number, path in enumerate(paths):
            file = self._counted.names.get(path)
            rests = len(paths) > _MANY and not moment.whole and _rests(file, moment.at)
            if not rests or (number - self._turn) % _TURNS == 0:
                try:
                    file = self._counted.look(path, moment, arriving)
                except (FileNotFoundError, NotADirectoryError):
                    self._counted.names.pop(path, None)
                    continue
                except OSError as failure:
                    error = why(failure)
            if file is not None:
                files.setdefault(file.tally[:2], file)
        return Found(tuple(files.values()), error)

    def pile(self, patterns: Sequence[str], moment: Moment, before: Pile) -> Pile:
        """Count the files themselves."""
        try:
            paths = self.paths(patterns, moment)
        except OSError as failure:
            return before._replace(error=why(failure))
        number = sum(path not in patterns or os.path.exists(path) for path in paths)
        more = before.written is not None and number > before.files
        return Pile(
            written=number,
            files=number,
            modified=_newest({os.path.dirname(pattern) or "." for pattern in patterns}),
            changed_at=moment.at if more else before.changed_at,
            replaced=before.replaced + (number < before.files),
        )


def _newest(folders: Iterable[str]) -> float | None:
    times = []
    for folder in folders:
        try:
            times.append(os.stat(folder).st_mtime)
        except OSError:
            continue  # not there yet, or not for us to see
    return max(times, default=None)


def _rests(file: CountedFile | None, at: float) -> bool:
    if file is None or file.pending:
        return False
    return file.grown_at is None or at - file.grown_at > _RESTING
