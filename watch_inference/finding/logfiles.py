"""A root in, its logs out, the newest that has progress lines first. Reads the ends of logs."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from functools import lru_cache

from watch_inference.finding.folders import listing, natural
from watch_inference.finding.mounts import real, starved
from watch_inference.logs import scanning
from watch_inference.logs.logbook import Book
from watch_inference.model import LogReading

LOG_FOLDERS = ("logs", "log")
_LOG_ENDINGS = (".log", ".out", ".err")
_END = 1 << 17
_MOST = 50
_RANK = re.compile(r"(?i)(rank|shard|worker|part|proc|process|gpu|dp|node|replica)[-_.]?[0-9]+")


def log_files(root: str) -> tuple[str, ...]:
    """Name what looks like a log in a root and in its folder of logs."""
    return tuple(
        os.path.join(folder, name)
        for folder in (root, *(os.path.join(root, name) for name in LOG_FOLDERS))
        for name in listing(folder).files
        if name.endswith(_LOG_ENDINGS)
    )


def newest_logs(root: str, skip: Collection[str] = (), since: float = 0.0) -> tuple[str, ...]:
    """Find the newest log under a root that has a progress line, and its fellow ranks' logs.

    Left out are real paths in `skip`, and what was last written before `since` (Unix time).
    """
    dated = []
    for path in log_files(root):
        written = modified(path)
        if written > since and real(path) not in skip:
            dated.append((written, path))
    newest = [path for _, path in sorted(dated, reverse=True)[:_MOST]]
    first = next((path for path in newest if has_progress(path)), None)
    if first is None:
        return ()
    fellows = [path for path in newest if _shape(path) == _shape(first) and has_progress(path)]
    return tuple(sorted({first, *fellows}, key=natural))


def _shape(path: str) -> str:
    """Take a rank's number out of a name; a job's number, as in slurm-123.out, stays."""
    folder, name = os.path.split(path)
    return os.path.join(folder, _RANK.sub(r"\1", name))


def modified(path: str) -> float:
    """Read when a file was last written, as Unix time; 0 where it is not there."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def has_progress(path: str) -> bool:
    """Tell whether the end or the beginning of a log has a line of a known format.

    One that is closed to us may have: it is taken, so that somebody says that it cannot be read.
    """
    try:
        status = os.stat(path)
        return _has_progress(path, status.st_mtime_ns, status.st_size)
    except OSError as error:  # gone, closed to us, a pipe, a terminal, a folder
        if starved(error):
            raise
        return isinstance(error, PermissionError)


@lru_cache(maxsize=1024)
def _has_progress(path: str, written: int, size: int) -> bool:
    del written  # part of the key: a log that nobody writes is read once
    return any(scanning.scan(block) or scanning.unfinished(block) for block in _ends(path, size))


def names_in(path: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Choose the names under which the end or the beginning of a log has progress lines."""
    try:
        status = os.stat(path)
        return _names_in(path, wanted, status.st_mtime_ns, status.st_size)
    except OSError as error:
        if starved(error):
            raise
        return ()


@lru_cache(maxsize=64)
def _names_in(path: str, wanted: tuple[str, ...], written: int, size: int) -> tuple[str, ...]:
    del written  # part of the key, as above
    found: dict[str, None] = {}
    for block in _ends(path, size):
        book = Book(wanted)
        book.feed(block, None)
        reading = book.fill(LogReading(path))
        found.update((one.name, None) for one in reading.datasets)
        found[reading.current or ""] = None
    return tuple(name for name in found if name)


def _ends(path: str, size: int) -> tuple[bytes, bytes]:
    """Read the end of a file, and the beginning where that is not all."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        tail = os.pread(descriptor, _END, max(0, size - _END))
        head = os.pread(descriptor, _END, 0) if size > _END else b""
    finally:
        os.close(descriptor)
    return tail, head
