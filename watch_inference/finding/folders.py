"""A folder in, the names in it out; remembers a folder that has not changed. Reads directories."""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from watch_inference.finding.mounts import real, starved

_SETTLED_S = 2.0


class Folder(NamedTuple):
    """The names in one folder."""

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def listing(folder: str) -> Folder:
    """Read the names in a folder; nothing where it cannot be read."""
    modified = settled(folder)
    try:
        return _read(folder) if modified is None else _remembered(folder, modified)
    except OSError as error:
        if starved(error):
            raise
        return Folder()


def settled(folder: str) -> int | None:
    """Tell when a folder last changed, in ns; 0 where there is none, None where it is changing."""
    try:
        modified = os.stat(folder).st_mtime_ns
    except OSError:
        return 0
    # A change within the clock's grain leaves the time as it was: only an old one is believed.
    return None if abs(time.time() - modified / 1e9) < _SETTLED_S else modified


@lru_cache(maxsize=2048)
def _remembered(folder: str, modified: int) -> Folder:
    del modified  # part of the key: a changed folder is another one
    return _read(folder)


def _read(folder: str) -> Folder:
    files: list[str] = []
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            (folders if _is_folder(entry) else files).append(entry.name)
    return Folder(tuple(sorted(files)), tuple(sorted(folders)))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


_STANDS_FOR_OTHERS = re.compile(r"[*?\[]")


def is_glob(name: str) -> bool:
    """Tell whether a name has characters that stand for others."""
    return _STANDS_FOR_OTHERS.search(name) is not None


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str] | None:
    return re.compile(fnmatch.translate(glob)) if is_glob(glob) else None


def fits(file: str, pattern: str) -> bool:
    """Tell whether a file name is the name, or fits the glob."""
    glob = _pattern(pattern)
    return file == pattern or (glob is not None and glob.match(file) is not None)


def fitting(folder: str, pattern: str) -> bool:
    """Tell whether a folder has a file of that name or glob, which may lie in a folder of it."""
    inner, name = os.path.split(os.path.join(folder, pattern))
    if os.path.isabs(pattern) and not inner.startswith(folder):
        return False
    files, glob = listing(inner).files, _pattern(name)
    return name in files or (glob is not None and any(map(glob.match, files)))


def expanded(path: str) -> list[str]:
    """Name the files that a path, or a glob in its last part, stands for, in natural order."""
    return [
        os.path.join(os.path.dirname(path), name) for name in sorted(present(path), key=natural)
    ]


def present(path: str) -> list[str]:
    """Name the files that a path or a glob in its last part stands for, without their folder."""
    folder, pattern = os.path.split(path)
    if not is_glob(pattern) or os.path.exists(path):
        return [pattern] if os.path.exists(path) else []
    return [name for name in listing(folder).files if fits(name, pattern)]


def joined(folder: str, names: Iterable[str]) -> tuple[str, ...]:
    """Put a folder before names."""
    return tuple(os.path.join(folder, name) for name in names)


def under(root: str, path: str) -> str:
    """Write a real path by the root's own name, where it lies in it: the root may be a link."""
    there = real(root)
    inside = there != root and path.startswith(there + "/")
    return root + path[len(there) :] if inside else path


def stem(path: str) -> str:
    """Name a file without its folder and its endings."""
    return os.path.basename(path).partition(".")[0]


def natural(name: str) -> tuple[tuple[int, str], ...]:
    """Make a sort key in which B2 comes before B10."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((int(part[:99]) if part.isdecimal() else -1, part) for part in parts)
