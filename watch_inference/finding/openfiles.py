"""A process in; the files that it writes, as we reach them, and the paths that it names, out.

Reads file identities and flags through /proc, which tell a file in another container as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from watch_inference.finding.folders import fits, is_glob
from watch_inference.finding.mounts import elsewhere, here, identity, real
from watch_inference.finding.proctable import OpenFile, Process, is_terminal, working_folder
from watch_inference.finding.programs import is_filter

DATA_ENDINGS = (".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".parquet", ".gz", ".zst")
_LOG_ENDINGS = (".log", ".out", ".err")
_TEXT_ENDINGS = ("", ".txt", ".text", ".md")
_NEVER_LOGS = (*DATA_ENDINGS, ".db", ".sqlite", ".lock", ".pid", ".tmp", ".bin", ".npy", ".wandb")
_DELETED = " (deleted)"
_APPEND = 0o2000  # O_APPEND, as fdinfo writes it
_LONGEST_PATH = 4096


class Files(NamedTuple):
    """A job's files in a form that open files are quickly held against."""

    folders: dict[str, list[tuple[str, str]]]  # real folder -> (own folder, name or glob)
    names: frozenset[str]
    globs: tuple[str, ...]

    def held_by(
        self, process: Process, skip: Collection[str] = (), writing: bool = True
    ) -> tuple[str, ...]:
        """Name those of the files that a process has open for writing, or else only for reading."""
        found: dict[str, None] = {}
        for file in process.files or ():
            if file.writes == writing and file.path.startswith("/") and file.path not in skip:
                path = self._own_path(process, file)
                if path is not None:
                    found[path] = None
        return tuple(found)

    def _own_path(self, process: Process, file: OpenFile) -> str | None:
        """Say what the job calls an open file; None if it is not the job's."""
        folder, name = os.path.split(file.path.removesuffix(_DELETED))
        places = self.folders.get(folder, [])
        # In another container the same path may lead to another file.
        if places and not elsewhere(process.base):
            for own, pattern in places:
                if fits(name, pattern):
                    return os.path.join(own, name)
        if name not in self.names and not any(fits(name, glob) for glob in self.globs):
            return None
        return self._same_file(f"{process.base}/fd/{file.number}", name)

    def _same_file(self, link: str, name: str) -> str | None:
        """Find a file that has another path there: in a container, by a bind mount, by a link."""
        wanted = identity(link)
        for places in self.folders.values() if wanted else ():
            for own, pattern in places:
                path = os.path.join(own, name)
                if fits(name, pattern) and identity(path) == wanted:
                    return path
        return None


def files_of(paths: Iterable[str]) -> Files:
    """Prepare a job's files, some of which may be globs in their last part."""
    folders: dict[str, list[tuple[str, str]]] = {}
    names = set()
    for path in paths:
        folder, name = os.path.split(path)
        linked_folder, linked_name = os.path.split(real(path))
        folders.setdefault(real(folder), []).append((folder, name))
        names |= {name, linked_name}
        if linked_name != name:
            folders.setdefault(linked_folder, []).append((folder, linked_name))
    return Files(folders, frozenset(names), tuple(name for name in names if is_glob(name)))


def stream(process: Process, number: int) -> str:
    """Name what a standard stream of a process is: a file, a pipe, a terminal, or nothing known."""
    return next((file.path for file in process.files or () if file.number == number), "")


def _written(process: Process, wanted: Callable[[OpenFile], bool]) -> tuple[str, ...]:
    """Name the wanted ones of the files that a process has open for writing, as we reach them."""
    found: dict[str, None] = {}
    for file in process.files or ():
        if file.writes and file.path.startswith("/") and _has_name(file) and wanted(file):
            found[here(process.base, file.path, f"{process.base}/fd/{file.number}")] = None
    return tuple(found)


def _has_name(file: OpenFile) -> bool:
    # A file may be named "x (deleted)"; if there is none, it is one that has no name left.
    nameless = file.path.endswith(_DELETED) and not os.path.exists(file.path)
    return not (nameless or is_terminal(file.path))


def logs_of(process: Process) -> tuple[str, ...]:
    """Name a process's logs: its standard streams, files named as logs are, or for appending."""

    def is_log(file: OpenFile) -> bool:
        ending = _ending(file)
        if ending in _NEVER_LOGS:
            return False
        if file.number in (1, 2) or ending in _LOG_ENDINGS or is_filter(process):
            return True
        return ending in _TEXT_ENDINGS and _appends(process, file)

    return _written(process, is_log)


def data_of(process: Process) -> tuple[str, ...]:
    """Name the files of data that a process has open for writing."""
    return _written(process, lambda file: _ending(file) in DATA_ENDINGS)


def is_data(name: str) -> bool:
    """Tell whether a file is named as results are."""
    return os.path.splitext(name)[1].lower() in DATA_ENDINGS


def _ending(file: OpenFile) -> str:
    return os.path.splitext(file.path.removesuffix(_DELETED))[1].lower()


def _appends(process: Process, file: OpenFile) -> bool:
    try:
        with open(f"{process.base}/fdinfo/{file.number}", encoding="ascii") as info:
            flags = next((line.split()[1] for line in info if line.startswith("flags:")), "0")
    except (OSError, IndexError):
        return False
    return bool(int(flags, 8) & _APPEND)


def named_paths(process: Process) -> list[str]:
    """Name the existing files and folders that a command line names, as we reach them."""
    words = [w.partition("=")[2] if w.startswith("-") else w for w in process.command[1:]]
    words = [word for word in words if 0 < len(word) < _LONGEST_PATH and "\n" not in word]
    if not words:
        return []
    folder = working_folder(process) or ""
    found = []
    for word in words:
        path = os.path.normpath(os.path.join(folder, word))
        if path.startswith("/"):
            path = here(process.base, path)
            if os.path.exists(path):
                found.append(real(path))
    return found
