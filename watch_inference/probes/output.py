"""Datasets come in, an OutputReading of each goes out; touches their files, read-only.

A first count goes on over many reads, each within a budget; the files that need the least come
first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import pairwise
from zlib import crc32

from watch_inference.files import checkpoint
from watch_inference.files.count import Tally
from watch_inference.files.counted import CountedFile, CountedFiles, Finder, Found, Moment, Pile
from watch_inference.files.tail import Budget
from watch_inference.model import Dataset, Options, OutputReading

_SECONDS = 0.25  # that one read may take
_SAVED_EVERY = 30.0
_NOT_LINES = tuple(
    (
        ".gz .zst .xz .bz2 .lz4 .br .zip .tar .tgz .7z .parquet .arrow .feather .orc .avro .npz"
        " .npy .pkl .pickle .pt .bin .safetensors .h5 .hdf5 .msgpack .tfrecord .mds .db .sqlite"
    ).split()
)


def yield_to_the_job() -> None:
    """Lower our own CPU and I/O priority, as far as we may."""
    import psutil  # late: only where there is work to yield

    own = psutil.Process()
    try:
        own.nice(max(10, own.nice()))
        own.ionice(psutil.IOPRIO_CLASS_IDLE)
    except (psutil.Error, OSError, AttributeError):
        pass  # as it was, then


class Outputs:
    """Counts the prompts and the outputs of every dataset."""

    def __init__(
        self,
        options: Options,
        memory: checkpoint.Memory | None = None,
        budget: int = 256 << 20,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._by_file = options.counting == "files"
        self._recollection = _Recollection(memory)
        self._counted = CountedFiles(self._recollection.recall)
        self._finder = Finder(self._counted)
        self._watched: dict[tuple[str, str], _Watched] = {}
        self._budget = budget
        self._clock = clock

    def read(
        self,
        at: float,
        wall: float,
        datasets: Sequence[Dataset],
        held: Collection[str] = (),
        whole: bool = False,
    ) -> tuple[OutputReading, ...]:
        """Count what is new, within the budget unless `whole`; a reading a dataset, in order.

        `written` is None while a first count goes on, and 0 with `files` 0 where there is no file.
        """
        moment = Moment(at, wall, whole)
        pairs = [(self._watch(dataset), dataset) for dataset in datasets]
        for past, dataset in pairs:
            past.look(dataset, self._finder, moment)
        budget = Budget(None if whole else self._budget, _SECONDS, self._clock)
        wanted = (file for past, dataset in pairs for file in past.to_count(dataset))
        self._counted.count(wanted, moment, budget)
        files = [file for past, _ in pairs for file in past.files()]
        self._counted.keep_only(files)
        if self._recollection.due(at):
            self._recollection.keep(files)
        open_files = _identities(held)
        return tuple(past.reading(dataset, open_files) for past, dataset in pairs)

    def close(self) -> None:
        """Keep what was counted for the next visit, and let the files go."""
        self._recollection.keep(file for past in self._watched.values() for file in past.files())
        self._counted.keep_only(())

    def _watch(self, dataset: Dataset) -> _Watched:
        key = (dataset.name, dataset.folder)
        if key not in self._watched:
            self._watched[key] = _Watched(self._by_file)
        return self._watched[key]


def countable(path: str) -> bool:
    """Say whether a file of this name has lines to count."""
    return not path.lower().endswith(_NOT_LINES)


class _Watched:
    """What is remembered of one dataset between two reads."""

    def __init__(self, by_file: bool) -> None:
        self._prompts = Found()
        self._outputs = Found()
        self._prompts_as: object = None
        self._prompts_say = OutputReading("")
        self._pile = Pile() if by_file else None
        self._seen = False
        self._changed_at: float | None = None
        self._replaced = 0  # by files that went, and what had happened to those before

    def look(self, dataset: Dataset, finder: Finder, moment: Moment) -> None:
        """Look which files there are now."""
        self._prompts = finder.find(dataset.prompts, moment)
        for file in self._prompts.files:
            file.marked = True
        if self._pile is not None:
            self._pile = finder.pile(dataset.outputs, moment, self._pile)
            return
        before = self._outputs.files
        self._outputs = finder.find(dataset.outputs, moment, arriving=self._seen)
        self._seen = True
        kept = {file.tally[:2] for file in self._outputs.files}
        for file in before:
            if file.tally[:2] not in kept:
                self._replaced += file.restarts + (file.size > 0)

    def files(self) -> tuple[CountedFile, ...]:
        """Give all files that were found."""
        return self._prompts.files + self._outputs.files

    def to_count(self, dataset: Dataset) -> Iterable[CountedFile]:
        """Give the files whose lines are to be counted."""
        # A total that the user said needs no count, however large the prompts are.
        prompts = self._prompts.files if dataset.total is None else ()
        return (file for file in (*prompts, *self._outputs.files) if countable(file.path))

    def reading(self, dataset: Dataset, held: Collection[tuple[int, ...]]) -> OutputReading:
        """Say how the dataset's files stand, after the count."""
        reading = self._with_prompts(dataset)
        if self._pile is not None:
            return reading._replace(**self._pile._asdict())
        files = self._outputs.files
        grown = [file.grown_at for file in files if file.grown_at is not None]
        self._changed_at = max(grown, default=self._changed_at)
        lines = all(map(countable, dataset.outputs)) and all(countable(one.path) for one in files)
        hidden = self._outputs.error is not None and not files
        return reading._replace(
            written=_lines(files) if lines and not hidden else None,
            unterminated=lines and not all(file.tally.terminated for file in files),
            bytes=sum(file.size for file in files),
            counted=sum(file.tally.offset if lines else file.size for file in files),
            modified=max((file.modified for file in files), default=None),
            changed_at=self._changed_at,
            files=len(files),
            countable=lines,
            replaced=self._replaced + sum(file.restarts for file in files),
            held=any(file.tally[:2] in held for file in files),
            error=_error(self._outputs) or reading.error,
        )

    def _with_prompts(self, dataset: Dataset) -> OutputReading:
        """Give what the prompts say; worked out again only where they changed."""
        found = self._prompts
        state = tuple((file.tally, file.size, file.settled, file.error) for file in found.files)
        if (dataset, found.error, state) != self._prompts_as:
            self._prompts_as = (dataset, found.error, state)
            self._prompts_say = _prompts(dataset, found)
        return self._prompts_say


def _prompts(dataset: Dataset, prompts: Found) -> OutputReading:
    files = prompts.files
    total = dataset.total
    if total is None and files and all(countable(file.path) for file in files):
        lines = _lines(files)
        ragged = sum(not file.tally.terminated for file in files)  # a last line counts
        total = None if lines is None else lines + ragged
    whole = bool(files) and all(file.settled and not file.outstanding for file in files)
    known = repr([(file.tally.offset, file.tally.fingerprint) for file in files])
    return OutputReading(
        name=dataset.name,
        total=total,
        user_total=dataset.total is not None,
        has_prompts=bool(files),
        prompts_bytes=sum(file.size for file in files) if files else None,
        prompt_bytes_deciles=deciles(files) if whole else (),
        prompts_fingerprint=f"{crc32(known.encode()):08x}" if whole and files else None,
        error=_error(prompts),
    )


def _lines(files: Iterable[CountedFile]) -> int | None:
    """Add up the lines; None as long as a first count goes on."""
    lines = 0
    for file in files:
        if not file.settled:
            return None
        lines += file.tally.lines
    return lines


def _error(found: Found) -> str | None:
    return found.error or next((file.error for file in found.files if file.error), None)


def deciles(files: Sequence[CountedFile]) -> tuple[float, ...]:
    """Give the mean bytes of a line in each tenth of the lines, from what was met in counting."""
    places = [(0, 0)]
    for file in files:
        offset, lines = places[-1]
        places += [(offset + mark[0], lines + mark[1]) for mark in file.tally.marks]
    lines = places[-1][1]
    if lines < 100 or len(places) < 10 or not all(file.tally.marks for file in files):
        return ()
    borders = [_offset(places, lines * tenth / 10) for tenth in range(11)]
    return tuple((borders[n + 1] - borders[n]) * 10 / lines for n in range(10))


def _offset(places: Sequence[tuple[int, int]], line: float) -> float:
    """Interpolate where a line begins."""
    for (before, first), (after, last) in pairwise(places):
        if line <= last and last > first:
            return before + (after - before) * (line - first) / (last - first)
    return float(places[-1][0])


def _identities(paths: Iterable[str]) -> set[tuple[int, ...]]:
    found: set[tuple[int, ...]] = set()
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue  # another container's path, or gone: not one of our files
        found.add((status.st_dev, status.st_ino))
    return found


class _Recollection:
    """The tallies of earlier visits, and when to keep those of this one."""

    def __init__(self, memory: checkpoint.Memory | None) -> None:
        self._memory = memory
        self._folders: dict[str, dict[str, Tally]] = {}
        self._kept_at: float | None = None

    def recall(self, path: str) -> Tally | None:
        """Give what an earlier visit counted in a file."""
        if self._memory is None:
            return None
        folder = os.path.dirname(os.path.abspath(path))
        if folder not in self._folders:
            self._folders[folder] = checkpoint.recall_tallies(self._memory, folder)
        return self._folders[folder].get(os.path.basename(path))

    def due(self, at: float) -> bool:
        """Say whether it is time to keep what was counted."""
        if self._kept_at is not None and at - self._kept_at < _SAVED_EVERY:
            return False
        self._kept_at = at
        return True

    def keep(self, files: Iterable[CountedFile]) -> None:
        """Keep what was counted, a document a folder, where anything is new."""
        if self._memory is None:
            return
        folders: dict[str, dict[str, Tally]] = {}
        for file in files:
            folder, name = os.path.split(os.path.abspath(file.path))
            if not file.recalled and file.tally.offset:
                folders.setdefault(folder, {})[name] = file.tally
        for folder, tallies in folders.items():
            known = self._folders.setdefault(folder, {})
            if any(known.get(name) != tally for name, tally in tallies.items()):
                known.update(tallies)
                checkpoint.keep_tallies(self._memory, folder, known)
