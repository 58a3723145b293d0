"""What a person named, or nothing, in; the jobs that are meant, with the reason for each, out.

Reads the process table once; all else through the modules that it asks.
"""

from __future__ import annotations

import os
import re

from watch_inference.finding import (
    advice,
    folders,
    holders,
    layout,
    openfiles,
    proctable,
    running,
    surroundings,
)
from watch_inference.finding.assembly import (
    NotFound,
    Search,
    Wrong,
    assemble,
    check_log,
    is_empty,
    named_logs,
    refresh,
    told_apart,
    united,
)
from watch_inference.finding.explain import explain, passed_over
from watch_inference.finding.mounts import starved
from watch_inference.finding.programs import is_launcher
from watch_inference.model import Dataset, Job, Options
from watch_inference.units import clean

__all__ = ["NotFound", "Wrong", "explain", "find", "refresh"]

_LARGEST_PID = 2**31 - 1
_NUMBER = re.compile(r"-?[0-9]{1,20}")


def find(
    options: Options, cwd: str, last: str | None = None, own: int | None = None
) -> tuple[Job, ...]:
    """Find the jobs that TARGETs, options, the folder and the process table point at.

    `last` is the root watched last here, `own` the monitor's pid where it is not this process.
    Raises Wrong for nonsense, NotFound for nothing.
    """
    _check(options)
    try:
        return _find(options, cwd, last, os.getpid() if own is None else own)
    except OSError as error:
        if starved(error):
            raise Wrong("too few files may be open at once here: raise `ulimit -n`") from error
        raise


def _find(options: Options, cwd: str, last: str | None, own: int) -> tuple[Job, ...]:
    search = Search(options, cwd, own, proctable.table(), {}, {}, {})
    if options.targets:
        jobs = [job for target in options.targets for job in _target(search, target)]
    elif options.logs:
        jobs = _logs(search)
    elif options.pids:
        jobs = [_pid(search, pid) for pid in options.pids]
    elif options.match is not None:
        jobs = _matching(search, options.match)
    else:
        jobs = surroundings.meant(search, last)
    found = told_apart(united(jobs))
    if options.form == "explain":
        found = [job._replace(why=(*job.why, *passed_over(search, job))) for job in found]
    return tuple(_clean(job) for job in found)


def _clean(job: Job) -> Job:
    return job._replace(
        why=tuple(clean(one) for one in job.why),
        warnings=tuple(clean(one) for one in job.warnings),
    )


def _check(options: Options) -> None:
    for pid in options.pids:
        _check_pid(pid)
    try:
        re.compile(options.match or "")
    except re.error as error:
        raise Wrong(f"--match: {error}") from error


def _check_pid(pid: int) -> None:
    if not 0 < pid <= _LARGEST_PID:
        raise Wrong(f"{pid} is no process: name a pid from 1 to {_LARGEST_PID}")
    if pid == os.getpid():
        raise Wrong(f"{pid} is this monitor itself: name the job's pid")


def _target(search: Search, target: str) -> list[Job]:
    """Read one TARGET: `-`, else an existing path, else a pid, else a path to wait for."""
    if target == "-":
        return [Job("stdin", search.cwd, "target", logs=("-",), why=("log: standard input",))]
    if not target:
        raise Wrong("TARGET is empty: name a folder, a log or a pid")
    path = search.path(target)
    if os.path.isdir(path):
        return _folder(search, path)
    if os.path.exists(path):
        return [_file(search, path)]
    if _NUMBER.fullmatch(target):
        _check_pid(int(target))
        return [_pid(search, int(target))]
    return [_waiting(path, f"{path}: not there yet")]


def _waiting(path: str, why: str) -> Job:
    name = clean(os.path.basename(path)) or path
    return Job(name, path, "target", waiting_for=path, why=(why,))


def _folder(search: Search, path: str) -> list[Job]:
    """Read a folder that a person named: a root, a dataset, or a folder of roots."""
    options = search.options
    found = layout.datasets(path, options)
    why = f"root {path}: named"
    if found:
        why += f", it holds {_amount(len(found), 'dataset folder')}"
    elif layout.dataset(path, options) is not None:
        why += ", a dataset itself"
        around = search.root_of(os.path.dirname(path))
        why += f"; for all of {around} name that" if around is not None else ""
    else:
        jobs = _worked_in(search, path)
        if jobs:
            return jobs
        why += ", without dataset folders"
    job = assemble(search, path, why)
    return [_waiting(path, advice.nothing_in(path, options))] if is_empty(job) else [job]


def _worked_in(search: Search, path: str) -> list[Job]:
    """Read what goes on in a folder that is no root: jobs that run there, else its newest root."""
    roots = _roots_in(search, path)
    jobs = [job for job in roots if job.pids]
    for place, processes in running.tied(search, path):
        part = _part(search, place, path)
        jobs.append(running.job_at(search, place, processes) if part is None else part)
    if not jobs:
        around = running.tied(search, path, around=True)
        parts = [_part(search, place, path) for place, _ in around]
        jobs = [one for one in parts if one is not None]
    return jobs or sorted(roots, key=_newest)[-1:]


def _part(search: Search, place: running.Place, path: str) -> Job | None:
    """Read a folder that is but one dataset of a job, as its process teaches; None if it is not."""
    learnt = search.options._replace(outputs=place.names)
    if place.root == path or not place.names or layout.dataset(path, learnt) is None:
        return None
    why = f"root {path}: named, a dataset itself; for all of {place.root} name that"
    return assemble(search, path, why, place.logs, names=place.names)


def _amount(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _roots_in(search: Search, path: str) -> list[Job]:
    """Read the roots that lie in a folder."""
    inner = [os.path.join(path, name) for name in folders.listing(path).folders]
    roots = [one for one in inner if layout.datasets(one, search.options)]
    return [assemble(search, root, f"root {root}: lies in {path}, named") for root in roots]


def _newest(job: Job) -> float:
    files = [file for path in holders.paths_of(job) for file in folders.expanded(path)]
    return max((os.stat(file).st_mtime for file in files), default=0.0)


def _file(search: Search, path: str) -> Job:
    """Read a file that a person named: one of a dataset's own files, else a log."""
    folder, name = os.path.split(path)
    check_log(path, path)
    options = search.options
    if layout.is_output(name, options) or layout.is_prompts(name, options):
        root = search.root_of(folder) or folder
        return assemble(search, root, f"root {root}: {name}, named, lies in it")
    return _output(search, path) if openfiles.is_data(name) else _log(search, path)


def _output(search: Search, path: str) -> Job:
    """Find the job of an output that has another name than usual."""
    folder, name = os.path.split(path)
    here = search._replace(options=search.options._replace(outputs=(name,)), roots={}, told={})
    given = layout.all_of(folder, search.options)
    root = (here.root_of(folder) or folder) if given else folder
    job = assemble(here, root, f"root {root}: {name}, named, lies in it")
    if given:
        return job
    return job._replace(datasets=(Dataset(clean(folders.stem(name)), folder, (), (path,)),))


def _logs(search: Search) -> list[Job]:
    """Find the jobs of the logs that --log names, where no TARGET does."""
    paths = [path for name in search.options.logs for path in named_logs(search, name)]
    present = [path for path in paths if os.path.exists(path)]
    if present:
        return [_log(search, path) for path in present]
    return [_waiting(paths[0], f"--log {paths[0]}: not there yet")]


def _log(search: Search, path: str) -> Job:
    """Find the job of a log: around it, else through the process that writes it."""
    root = search.root_of(os.path.dirname(path))
    if root is not None:
        return assemble(search, root, f"root {root}: the log lies in it", (path,))
    draft = Job("", "", "target", logs=(path,))
    for holder in holders.of_job(search.table, draft, search.options, search.own):
        place = running.place_of(search, holder.process)
        if place is not None:
            why = f"root {place.root}: {place.why}"
            alone, names = place.alone, place.names
            return assemble(search, place.root, why, (path,), alone=alone, names=names)
    folder = os.path.dirname(path)
    return assemble(search, folder, f"root {folder}: the log's folder", (path,), alone=True)


def _pid(search: Search, pid: int) -> Job:
    """Find the job of a process, or of those that it started."""
    named = next((one for one in search.table if one.pid == pid), None)
    if named is None:
        raise NotFound(f"no process {pid}: name a folder, a log or the pid of a running job")
    family = [named, *_children(search, named)]
    # A launcher's own streams tell least: its workers are asked first, and for sure signs.
    family.sort(key=lambda one: not holders.is_worker(one))
    for sure in (False, True):
        for one in family:
            place = running.place_of(search, one, sure)
            if place is not None:
                why, own = f"root {place.root}: {place.why}", (place.alone, place.names)
                return assemble(search, place.root, why, place.logs, (pid,), *own)
    if pid == 1:
        raise Wrong("1 is the first process of this system: name the job's pid")
    folder = proctable.working_folder(named) or ""
    why = f"process {pid}: named; it writes no log and no output that can be seen"
    return Job(clean(named.name), folder, "target", pids=(pid,), why=(why,))


def _children(search: Search, named: proctable.Process) -> list[proctable.Process]:
    """Find what a process started, the monitor left out; all that runs is no one's job."""
    if named.pid == 1 and not is_launcher(named):
        return []
    ours = proctable.descendants(search.table, search.own) | {search.own}
    below = proctable.descendants(search.table, named.pid) - ours
    return [one for one in search.table if one.pid in below]


def _matching(search: Search, match: str) -> list[Job]:
    """Find the jobs of the processes whose command line fits --match."""
    draft = Job("", "", "target")
    chosen = holders.of_job(search.table, draft, search.options, search.own)
    if not chosen:
        raise NotFound(f"--match {match}: no process has such a command line")
    return [_pid(search, one.process.pid) for one in chosen]
