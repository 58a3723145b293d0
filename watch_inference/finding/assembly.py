"""A root and what is known of it in; the whole job, with the reason for each choice, out.

Reads folders, the ends of logs, and what the processes of the table have open.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from watch_inference.finding import advice, folders, holders, layout, learning, logfiles
from watch_inference.finding.holders import Holder
from watch_inference.finding.mounts import real, starved
from watch_inference.finding.openfiles import logs_of, named_paths
from watch_inference.finding.proctable import Process
from watch_inference.model import Job, Options
from watch_inference.units import clean


class Wrong(Exception):
    """What was asked for makes no sense: exit 2. The message is one line."""


class NotFound(Exception):
    """There is nothing to watch: exit 4. The message says what was looked at and what to type."""


class Search(NamedTuple):
    """What a search goes by: what was asked, from where, by whom, among which processes."""

    options: Options
    cwd: str
    own: int
    table: tuple[Process, ...]
    roots: dict[str, str | None]  # what `root_of` has found in this search
    named: dict[int, list[str]]  # what `named_by` has
    told: dict[str, str | None]  # the roots that paths in command lines mean

    def path(self, name: str) -> str:
        """Make a path that a person typed absolute."""
        return os.path.normpath(os.path.join(self.cwd, name))

    def root_of(self, folder: str) -> str | None:
        """Find the root that a folder is or lies in: once for all processes that point there."""
        if folder not in self.roots:
            self.roots[folder] = layout.root_of(folder, self.options)
        return self.roots[folder]

    def named_by(self, process: Process) -> list[str]:
        """Name the paths in a command line: looked for once, however often it is asked."""
        if process.pid not in self.named:
            self.named[process.pid] = named_paths(process)
        return self.named[process.pid]


def assemble(
    search: Search,
    root: str,
    why: str,
    logs: tuple[str, ...] = (),
    pids: tuple[int, ...] = (),
    alone: bool = False,
    names: tuple[str, ...] = (),
) -> Job:
    """Fill in the datasets, logs and processes of a root; `logs` and `pids` are sure already.

    `alone`: the folder is but where a log or an output lies; what else is there, is not meant.
    `names`: what the outputs are called, as a process has taught.
    """
    options = search.options
    named = tuple(path for name in options.logs for path in named_logs(search, name, root))
    bare = Job(_name(root, logs), root, "target", (), named or logs, pids, (why,), learned=names)
    found = () if alone else learning.laid_out(bare, options, bare.logs)
    draft = bare._replace(datasets=found)
    chosen = holders.of_job(search.table, draft, options, search.own)
    taught = _taught(search, draft, chosen)
    if taught != draft:
        draft, chosen = taught, holders.of_job(search.table, taught, options, search.own)
    reasons = [f"outputs of {one.name}: written now" for one in draft.datasets if one not in found]
    draft = draft._replace(why=(why, *reasons))
    if named:
        draft = draft._replace(why=(*draft.why, *(f"log {path}: --log" for path in named)))
    else:
        draft = _with_logs(draft, chosen, holders.written_by(search.table, search.own))
    draft = advice.with_totals(advice.as_the_log_says(draft, options), options)
    found_pids = tuple(one.process.pid for one in chosen)
    return draft._replace(
        pids=found_pids or pids,
        why=(*draft.why, *(f"process {one.process.pid}: {one.rule}" for one in chosen)),
        warnings=(*draft.warnings, *_warnings(draft, chosen), *advice.missing(draft, options)),
    )


def _taught(search: Search, draft: Job, chosen: Sequence[Holder]) -> Job:
    """Take in outputs of other names that the processes write, where no output was named."""
    sure = {one.process.pid for one in chosen} | set(draft.pids)
    processes = [one for one in search.table if one.pid in sure]
    logs = (*draft.logs, *_held_logs(chosen, draft.root))
    return learning.taught(draft, processes, search.options, logs)


def is_empty(job: Job) -> bool:
    """Tell whether there is nothing in a job that could be watched."""
    return not (job.datasets or job.logs or job.pids)


def _name(root: str, logs: tuple[str, ...]) -> str:
    """Name a job after its root, or after its log where the root is a folder of anything."""
    anything = layout.is_shared(root) and bool(logs)
    named = folders.stem(logs[0]) if anything else os.path.basename(root)
    return clean(named) or root


def named_logs(search: Search, name: str, root: str | None = None) -> tuple[str, ...]:
    """Read one --log: a path or glob from here, else from the root. Raises Wrong for a folder."""
    places = [search.path(name), *([os.path.join(root, name)] if root else [])]
    for place in places:
        found = folders.expanded(place)
        for path in found:
            check_log(path, f"--log {name}")
        if found:
            return tuple(found)
    return (places[0],)


def check_log(path: str, said: str) -> None:
    """Raise Wrong where a path is there and cannot be a log that we read."""
    if os.path.isdir(path):
        raise Wrong(f"{said}: is a folder, name a file in it")
    if os.path.exists(path) and not os.path.isfile(path):
        raise Wrong(f"{said}: is no regular file; give a pipe on standard input, with `-`")
    if os.path.exists(path) and not os.access(path, os.R_OK):
        raise Wrong(f"{said}: permission denied; run as its owner")


def _with_logs(draft: Job, chosen: Sequence[Holder], skip: frozenset[str]) -> Job:
    """Choose the logs: the sure ones and those that are written, else the newest with progress."""
    held = _held_logs(chosen, draft.root)
    logs = _distinct((*draft.logs, *held))
    reasons = [held.get(path, f"log {path}: named") for path in logs]
    if not logs:
        logs = logfiles.newest_logs(draft.root, skip)
        reasons = [f"log {path}: the newest with progress lines" for path in logs]
    return draft._replace(
        logs=logs, why=(*draft.why, *(reasons or ["log: none with progress lines"]))
    )


def _held_logs(chosen: Iterable[Holder], root: str) -> dict[str, str]:
    """Map the logs that processes write, by themselves or through tee, to the reason."""
    held: dict[str, str] = {}
    for one in chosen:
        pid = one.process.pid
        for path in (folders.under(root, path) for path in logs_of(one.process)):
            held.setdefault(path, f"log {path}: process {pid} writes it")
        for path in (folders.under(root, path) for path in one.through):
            held.setdefault(path, f"log {path}: process {pid} writes it through a pipe")
    return held


def _distinct(paths: Iterable[str]) -> tuple[str, ...]:
    """Name each file once, whatever its names: by the first of them."""
    found: dict[str, str] = {}
    for path in paths:
        found.setdefault(real(path), path)
    return tuple(found.values())


def _warnings(draft: Job, chosen: Sequence[Holder]) -> tuple[str, ...]:
    found = []
    for one in chosen:
        astray = holders.astray(one)
        if astray and not draft.logs:
            found.append(
                f"stdout of process {one.process.pid} goes to {astray}: start the job as"
                " `COMMAND 2>&1 | tee job.log`, and its progress lines can be read"
            )
            break
    if len(chosen) > 1 and chosen[0].rule == holders.NAMING:
        pids = ", ".join(str(one.process.pid) for one in chosen)
        found.append(f"several processes name {draft.root}: {pids}; say which with --pid")
    return tuple(found)


def united(jobs: Iterable[Job]) -> list[Job]:
    """Make one job of those that have the same root, unless they have nothing but logs there."""
    found: dict[tuple[object, ...], Job] = {}
    for job in jobs:
        files = layout.has_files(job.datasets) or job.waiting_for
        alone = () if files else (job.pids or job.logs)
        key = (real(job.root), *alone)
        found[key] = _union(found[key], job) if key in found else job
    return list(found.values())


def _union(one: Job, other: Job) -> Job:
    return one._replace(
        datasets=learning.kept(other.datasets, one.datasets),
        learned=tuple(dict.fromkeys((*one.learned, *other.learned))),
        logs=tuple(dict.fromkeys((*one.logs, *other.logs))),
        pids=tuple(dict.fromkeys((*one.pids, *other.pids))),
        why=tuple(dict.fromkeys((*one.why, *other.why))),
    )


def told_apart(jobs: list[Job]) -> list[Job]:
    """Give jobs of the same name their pid as well."""
    names = [job.name for job in jobs]
    return [
        job._replace(name=f"{job.name} ({job.pids[0]})")
        if names.count(job.name) > 1 and job.pids
        else job
        for job in jobs
    ]


def refresh(job: Job, options: Options, seen: Iterable[Holder] = ()) -> Job:
    """Take over new dataset folders, logs and pids of a job; `seen`: its living processes."""
    if job.waiting_for is not None or job.logs == ("-",):
        return job
    try:
        return _refreshed(job, options, tuple(seen))
    except OSError as error:
        if starved(error):
            return job
        raise


def _refreshed(job: Job, options: Options, living: tuple[Holder, ...]) -> Job:
    rooted = layout.is_rooted(job.root, job.datasets)
    rooted = rooted or layout.root_of(job.root, options) == job.root
    found = learning.laid_out(job, options, job.logs) if rooted else ()
    kept = job._replace(datasets=learning.kept(job.datasets, found))
    now = learning.taught(kept, (one.process for one in living), options, job.logs)
    now = now._replace(
        logs=job.logs if options.logs else _fresh_logs(job, options, living),
        pids=tuple(one.process.pid for one in living) or job.pids,
    )
    return advice.with_totals(advice.as_the_log_says(now, options), options)


def _fresh_logs(job: Job, options: Options, living: Sequence[Holder]) -> tuple[str, ...]:
    """Follow a job to a new log: the one that it writes now, else a newer one with progress."""
    held = tuple(_held_logs(living, job.root))
    if held:
        real_held = {real(path) for path in held}
        if any(real(path) in real_held for path in job.logs):
            return _distinct((*job.logs, *held))
        named = {os.path.abspath(target) for target in options.targets}
        return _distinct((*(path for path in job.logs if path in named), *held))
    if job.found == "target" and job.logs and not layout.has_files(job.datasets):
        return job.logs
    times = [logfiles.modified(path) for path in job.logs]
    known = frozenset(real(path) for path in job.logs)
    return logfiles.newest_logs(job.root, known, since=max(times, default=0.0)) or job.logs
