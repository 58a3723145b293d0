"""The process table and a job's files in; the processes that are the job, and what they hold, out.

Reads the folder of logs; all else through `openfiles`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from watch_inference.finding.layout import SHARED, has_files, is_rooted
from watch_inference.finding.logfiles import has_progress, log_files, modified
from watch_inference.finding.mounts import is_inside, real
from watch_inference.finding.openfiles import Files, files_of, logs_of, named_paths, stream
from watch_inference.finding.proctable import (
    Process,
    ancestors,
    descendants,
    is_terminal,
    started_at,
)
from watch_inference.finding.programs import (
    is_bystander,
    is_filter,
    is_launcher,
    is_monitor,
    is_server,
    shape,
)
from watch_inference.model import Job, Options

WRITING = "writes its files"
NAMING = "names its folder"
BY_PID = ("named by --pid", "named")


class Holder(NamedTuple):
    """A process of the job, the job's files that it has open for writing, and why it is one."""

    process: Process
    holds: tuple[str, ...]
    rule: str
    through: tuple[str, ...] = ()  # files that its output reaches by another program, as tee


def paths_of(job: Job) -> tuple[str, ...]:
    """Name all files that a job writes: its logs and outputs."""
    return (*job.logs, *(path for one in job.datasets for path in one.outputs))


def of_job(table: tuple[Process, ...], job: Job, options: Options, own: int) -> tuple[Holder, ...]:
    """Choose the job's processes: named, else matching, else writing its files, else naming it.

    What looks like a log under the root counts as the job's, if whoever writes it may be the job.
    """
    files = files_of(paths_of(job))
    if options.pids:
        return _holders(_named(table, options.pids), files, BY_PID[0])
    possible = tuple(eligible(table, own))
    if options.match is not None:
        pattern = re.compile(options.match)
        matching = [one for one in possible if pattern.search(" ".join(one.command))]
        return _holders(workers(matching, table), files, "matches --match")
    if job.logs == ("-",):
        return ()
    inherited = written_by(table, own)
    writing = [one for one in possible if files.held_by(one, inherited)]
    sought = has_files(job.datasets) or not job.logs
    logging = _logging(possible, job, inherited) if sought else []
    sources = through_filters(writing, possible, table)
    alike = {shape(one) for one in sources}
    others = [one for one in through_filters(logging, possible, table) if not is_server(one)]
    sources += [one for one in others if not alike or shape(one) in alike]
    chosen = workers(_not_servers(sources), table)
    if chosen:
        return _holders(chosen, files, WRITING, _passed_on([*writing, *logging], table))
    naming = workers(_naming(possible, table, job, own), table)
    if naming:
        return _holders(naming, files, NAMING)
    return _holders(_named(table, job.pids), files, BY_PID[1])


def _logging(possible: tuple[Process, ...], job: Job, inherited: frozenset[str]) -> list[Process]:
    """Find those who write a log under the root, if it is the job's: a server's may lie there too.

    A log with progress lines is; and one without, that was begun when all with were left.
    """
    names = log_files(job.root) if job.root else ()
    around = files_of(names)
    held = {one: around.held_by(one, inherited) for one in possible}
    found = [one for one, paths in held.items() if paths]
    left = max((modified(path) for path in names if has_progress(path)), default=0.0)
    return [
        one
        for one in found
        if any(map(has_progress, held[one])) or (started_at(one.started) or 0.0) >= left - 1
    ]


def _named(table: tuple[Process, ...], pids: Collection[int]) -> list[Process]:
    """Find processes by pid; in the place of a launcher, the workers that it has."""
    found: dict[int, Process] = {}
    for one in table:
        if one.pid in pids:
            below = descendants(table, one.pid) if is_launcher(one) else frozenset()
            chosen = workers([one, *(other for other in table if other.pid in below)], table)
            found.update((other.pid, other) for other in chosen)
    return list(found.values())


def _naming(
    possible: Iterable[Process], table: tuple[Process, ...], job: Job, own: int
) -> list[Process]:
    """Find those whose command line names the root, or something in it.

    Where nothing but a log or an output in the root is the job's, these must be named themselves.
    """
    below = descendants(table, own)
    rooted = is_rooted(job.root, job.datasets) or (
        not paths_of(job) and job.root not in ("", *SHARED)
    )
    named = [real(path) for path in ((job.root,) if rooted else paths_of(job))]
    return [
        one
        for one in possible
        if one.pid not in below
        and is_worker(one)
        and any(is_inside(path, place) for path in named_paths(one) for place in named)
    ]


def _holders(
    chosen: Iterable[Process],
    files: Files,
    rule: str,
    passed_on: Mapping[str, tuple[str, ...]] | None = None,
) -> tuple[Holder, ...]:
    through = passed_on or {}
    return tuple(
        Holder(one, files.held_by(one), rule, through.get(stream(one, 1), ())) for one in chosen
    )


def astray(holder: Holder) -> str:
    """Say where a process's stdout goes, if to a place where nobody can read it any more."""
    stdout = stream(holder.process, 1)
    if is_terminal(stdout):
        return "a terminal"
    lost = stdout.startswith(("pipe:", "socket:")) and not holder.through
    return "another program" if lost else ""


def eligible(table: tuple[Process, ...], own: int) -> list[Process]:
    """Leave out the monitor and all above it, other monitors, and what only looks at files."""
    above = ancestors(table, own)
    return [one for one in table if one.pid not in above and not is_bystander(one)]


def is_worker(process: Process) -> bool:
    """Tell whether a process may be one that does a job's work itself."""
    return not (is_launcher(process) or is_filter(process) or is_server(process))


def written_by(table: tuple[Process, ...], own: int) -> frozenset[str]:
    """Name the files that monitors write, this one and others: their children inherit them."""
    monitors = (one for one in table if one.pid == own or is_monitor(one))
    files = (file for one in monitors for file in one.files or ())
    return frozenset(file.path for file in files if file.writes)


def _not_servers(chosen: list[Process]) -> list[Process]:
    return [one for one in chosen if not is_server(one)] or chosen


def through_filters(
    chosen: Iterable[Process], possible: tuple[Process, ...], table: tuple[Process, ...]
) -> list[Process]:
    """Put in the place of tee and the like those who write into it, if these may be a job."""
    allowed = {one.pid for one in possible}
    found: dict[int, Process] = {}
    ahead = list(chosen)
    seen = set()
    while ahead:
        one = ahead.pop()
        if one.pid in seen:
            continue
        seen.add(one.pid)
        sources = _writers(one, table) if is_filter(one) else []
        ahead.extend(source for source in sources if source.pid in allowed)
        if not sources:
            found[one.pid] = one
    return [found[pid] for pid in sorted(found)]


def _writers(reader: Process, table: tuple[Process, ...]) -> list[Process]:
    """Find those who write into the pipe that a process reads."""
    pipe = stream(reader, 0)
    if not pipe.startswith("pipe:"):
        return []
    return [
        one
        for one in table
        if one != reader and any(f.writes and f.path == pipe for f in one.files or ())
    ]


def _passed_on(chosen: list[Process], table: tuple[Process, ...]) -> dict[str, tuple[str, ...]]:
    """Map the pipes that lead to tee and the like to the files that these write."""
    through: dict[str, tuple[str, ...]] = {}
    ahead = [(one, logs_of(one)) for one in chosen if is_filter(one)]
    while ahead:
        one, files = ahead.pop()
        pipe = stream(one, 0)
        if pipe.startswith("pipe:") and pipe not in through:
            through[pipe] = files
            ahead.extend((source, files) for source in _writers(one, table) if is_filter(source))
    return through


def workers(chosen: Iterable[Process], table: tuple[Process, ...]) -> list[Process]:
    """Leave out launchers that have their worker here, and children with nothing of their own."""
    by_pid = {one.pid: one for one in chosen}
    working = {one.pid for one in by_pid.values() if not is_launcher(one)}
    kept = []
    for one in by_pid.values():
        if one.pid not in working and working & descendants(table, one.pid):
            continue
        parent = by_pid.get(one.parent)
        inherited = parent is not None and _open_for_writing(one) <= _open_for_writing(parent)
        if inherited and (one.parent in working or one.pid not in working):
            continue
        kept.append(one)
    return kept


def _open_for_writing(process: Process) -> set[str]:
    return {file.path for file in process.files or () if file.writes}
