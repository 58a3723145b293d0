"""The process table in; the roots in which somebody works, each with the rule that found it, out.

Reads folders, the ends of the logs that processes write, and what they name and have open.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from watch_inference.finding import holders, layout, learning, logfiles
from watch_inference.finding.assembly import Search, assemble
from watch_inference.finding.mounts import here, is_inside, is_way_into, real
from watch_inference.finding.openfiles import data_of, logs_of
from watch_inference.finding.proctable import Process, descendants, working_folder
from watch_inference.finding.programs import is_server, shape
from watch_inference.model import Job

# Programs and libraries lie here, and no job does.
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/proc", "/sys", "/dev", "/boot")


class Place(NamedTuple):
    """Where a process works: the root, the rule, and its own logs where no dataset is."""

    root: str
    why: str
    logs: tuple[str, ...] = ()
    alone: bool = False  # no dataset folders there: the logs or outputs are all there is
    names: tuple[str, ...] = ()  # what the outputs are called, as the process has taught


Worked = list[tuple[Place, tuple[Process, ...]]]


def places(search: Search) -> Worked:
    """Find where jobs run now: all that may be looked into, for root; else the user's own."""
    return _grouped(search, lambda process: place_of(search, process, sure=False))


def tied(search: Search, folder: str, around: bool = False) -> Worked:
    """Find the jobs whose root, log or outputs lie in a folder; else those that work from there.

    `around`: else those in whose root, or in the folder of whose process, the folder lies.
    """

    wanted = real(folder)

    def place(process: Process) -> Place | None:
        near = _touches(search, process, wanted) or (around and _works_around(process, wanted))
        sure = near and bool(learning.outputs_of(process, search.options))
        return place_of(search, process, sure) if near else None

    found = _grouped(search, place)
    inside = [one for one in found if _is_within(search, one, folder)]
    return inside or [one for one in found if not around or _is_around(one, folder)]


def job_at(search: Search, place: Place, processes: tuple[Process, ...]) -> Job:
    """Assemble the job of those that work at a place."""
    pids = tuple(one.pid for one in processes)
    logs = place.logs if place.alone or place.names else ()
    why = f"root {place.root}: {place.why}"
    return assemble(search, place.root, why, logs, pids, place.alone, place.names)


def _touches(search: Search, process: Process, folder: str) -> bool:
    """Tell whether a process's own folder, its logs, its outputs or its words lie in a folder."""
    own = _working_folder(process)
    paths = [*([own] if own else []), *logs_of(process), *data_of(process)]
    paths += search.named_by(process) if holders.is_worker(process) else []
    return any(is_inside(path, folder) for path in paths)


def _works_around(process: Process, folder: str) -> bool:
    own = _working_folder(process)
    places = [*([own] if own else []), *map(os.path.dirname, logs_of(process))]
    return any(is_inside(folder, one) for one in places if not layout.is_shared(one))


def _is_around(one: tuple[Place, tuple[Process, ...]], folder: str) -> bool:
    """Tell whether a folder lies in a job's root, or in where a job with its files elsewhere is."""
    place, processes = one
    root = real(place.root)
    if is_inside(real(folder), root):
        return True
    owns = [_working_folder(process) for process in processes]
    return any(own is not None and not is_inside(root, real(own)) for own in owns)


def _is_within(search: Search, one: tuple[Place, tuple[Process, ...]], folder: str) -> bool:
    """Tell whether a job's root or one of its files lies in a folder."""
    place, processes = one
    paths = [place.root, *place.logs]
    paths += [
        path for process in processes for path in learning.outputs_of(process, search.options)
    ]
    return any(is_inside(real(path), real(folder)) for path in paths)


def _working_folder(process: Process) -> str | None:
    folder = working_folder(process)
    return None if folder is None else here(process.base, folder)


def _grouped(search: Search, place_for: Callable[[Process], Place | None]) -> Worked:
    """Ask for the place of each process that may be a job, and put those of one root together."""
    user = os.geteuid()
    below = descendants(search.table, search.own)
    inherited = holders.written_by(search.table, search.own)
    found: dict[tuple[str, str], tuple[Place, tuple[Process, ...]]] = {}
    possible = tuple(holders.eligible(search.table, search.own))
    for process in holders.through_filters(possible, possible, search.table):
        mine = user in (0, process.owner)
        if not mine or is_server(process) or (process.pid in below and _idle(process, inherited)):
            continue
        place = place_for(process)
        if place is not None:
            # Where no dataset makes them one, only the same program with other numbers does.
            key = (real(place.root), shape(process) if place.alone else "")
            first, processes = found.get(key, (place, ()))
            logs = tuple(dict.fromkeys((*first.logs, *place.logs)))
            names = tuple(dict.fromkeys((*first.names, *place.names)))
            found[key] = (first._replace(logs=logs, names=names), (*processes, process))
    return list(found.values())


def _idle(process: Process, inherited: frozenset[str]) -> bool:
    """Tell whether a child of the monitor has no file of its own open for writing."""
    written = (f.path for f in process.files or () if f.writes and f.path.startswith("/"))
    return all(path in inherited for path in written)


def place_of(search: Search, process: Process, sure: bool = True) -> Place | None:
    """Find the root in which a process works, by its files, its words, or its folder.

    Unless `sure` that the process is a job, weaker signs count only beside a log with progress.
    """
    logs = logs_of(process)
    place = _by_files(search, process, logs) or _by_words(search, process)
    if place is None and (sure or any(map(logfiles.has_progress, logs))):
        place = _weaker(search, process, logs)
    return place


def _by_files(search: Search, process: Process, logs: tuple[str, ...]) -> Place | None:
    outputs = [
        path
        for path in data_of(process)
        if layout.is_output(os.path.basename(path), search.options)
    ]
    if outputs:
        folder = os.path.dirname(outputs[0])
        root = _wider(search, process, search.root_of(folder) or folder)
        return Place(root, f"process {process.pid} writes {outputs[0]}")
    for path in logs:
        around = _root_of(search, os.path.dirname(path))
        if around is not None:
            return Place(around, f"process {process.pid} writes {path}")
    return None


def _wider(search: Search, process: Process, root: str) -> str:
    """Prefer the folder around a dataset where the command line names that."""
    outer = os.path.dirname(root)
    named = any(path == real(outer) for path in search.named_by(process))
    return outer if named and layout.datasets(outer, search.options) else root


def _by_words(search: Search, process: Process) -> Place | None:
    """Find a root that a command line names; a shell's or a launcher's words are their child's."""
    if not holders.is_worker(process):
        return None
    for path in search.named_by(process):
        root = _named_root(search, path)
        if root is not None:
            return Place(root, f"process {process.pid} names {path}")
    return None


def _named_root(search: Search, path: str) -> str | None:
    if path not in search.told:
        search.told[path] = _meant_root(search, path)
    return search.told[path]


def _meant_root(search: Search, path: str) -> str | None:
    if _is_system(path):
        return None
    if os.path.isdir(path):
        if layout.datasets(path, search.options):
            return path
        one = layout.dataset(path, search.options)
        return search.root_of(path) if one and one.prompts else None
    folder, name = os.path.split(path)
    return _root_of(search, folder) if layout.is_prompts(name, search.options) else None


def _weaker(search: Search, process: Process, logs: tuple[str, ...]) -> Place | None:
    """Go by the folder that a process works in, and by outputs and logs of any name."""
    told = f"process {process.pid}"
    cwd = working_folder(process)
    root = _root_of(search, cwd) if cwd else None
    if root is not None:
        return Place(root, f"{told} works in {cwd}", logs)
    written = learning.outputs_of(process, search.options)
    if written:
        names = learning.names_of(written, logs)
        root = learning.root_of(process, written[0], names, search.options, search.table)
        alone = root == os.path.dirname(written[0])
        return Place(root, f"{told} writes {written[0]}", logs, alone, names)
    for path in logs:
        return Place(os.path.dirname(path), f"{told} writes {path}", logs, alone=True)
    return None


def _root_of(search: Search, folder: str) -> str | None:
    return None if _is_system(folder) else search.root_of(folder)


def _is_system(path: str) -> bool:
    return not is_way_into(path) and any(is_inside(path, one) for one in _SYSTEM)
