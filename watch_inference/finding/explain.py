"""A job and the search that found it in; what was chosen, what was passed over and why, out.

Reads the same folders and processes as the search did.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from watch_inference.finding import folders, holders, logfiles
from watch_inference.finding.assembly import Search
from watch_inference.finding.mounts import is_inside, real
from watch_inference.finding.openfiles import files_of, named_paths
from watch_inference.finding.proctable import Process, ancestors
from watch_inference.finding.programs import (
    is_bystander,
    is_filter,
    is_launcher,
    is_monitor,
    is_server,
)
from watch_inference.model import Dataset, Job, LogReading, ProcessReading, ProcessView
from watch_inference.units import clean, cut, masked

_MOST = 20
_WIDTH = 60


def explain(
    job: Job,
    logs: Iterable[LogReading] = (),
    processes: Iterable[ProcessReading] = (),
    view: ProcessView | None = None,
) -> tuple[str, ...]:
    """Tell what was found and by which rule, a line each; the readings add what was seen there."""
    lines = [f"job {job.name}: found by {_found(job)}", *(f"  {one}" for one in job.why)]
    lines += [line for one in job.datasets for line in _dataset(one)]
    for log in logs:
        lines.append(f"  format of {log.path}: {log.format or log.error or 'none known yet'}")
    for one in processes:
        lines.append(f"  process {one.pid}: {one.state}, {cut(one.command or '?', _WIDTH)}")
    if view is not None and not view.complete:
        lines.append(f"  process table: not all is seen: {view.reason}")
    lines += [f"  warning: {one}" for one in job.warnings]
    return tuple(clean(line) for line in lines)


def _found(job: Job) -> str:
    words = {
        "target": "what was named",
        "cwd": "the current folder",
        "running": "the processes that run now",
        "last": "the last visit",
    }
    return words.get(job.found, job.found)


def _dataset(one: Dataset) -> list[str]:
    given = f"total {one.total:,}, as said" if one.total is not None else _files(one.prompts)
    return [f"  dataset {one.name}: prompts {given}; outputs {_files(one.outputs)}"]


def _files(paths: tuple[str, ...]) -> str:
    if not paths:
        return "none"
    there = [file for path in paths for file in folders.present(path)]
    names = ", ".join(dict.fromkeys(os.path.basename(path) for path in paths))
    return names if len(there) == len(paths) else f"{names} ({len(there)} there)"


def passed_over(search: Search, job: Job) -> tuple[str, ...]:
    """Name the logs, folders and processes that might have been taken, and why they were not."""
    found = [*_other_logs(job), *_other_folders(job), *_other_processes(search, job)]
    return tuple(f"passed over: {one}" for one in found[:_MOST])


def _other_logs(job: Job) -> list[str]:
    if not job.root or job.logs == ("-",):
        return []
    chosen = {real(path) for path in job.logs}
    others = [path for path in logfiles.log_files(job.root) if real(path) not in chosen]
    return [
        f"log {path}: "
        + ("not the newest, and not written" if logfiles.has_progress(path) else "no progress line")
        for path in sorted(others, key=logfiles.modified, reverse=True)
    ]


def _other_folders(job: Job) -> list[str]:
    if not job.datasets:
        return []
    used = {os.path.relpath(path, job.root).split("/")[0] for path in holders.paths_of(job)}
    used |= {os.path.basename(one.folder) for one in job.datasets}
    others = [name for name in folders.listing(job.root).folders if name not in used]
    return [f"folder {name}: no prompts and no output in it" for name in others]


def _other_processes(search: Search, job: Job) -> list[str]:
    """Look at each process that has the job's files open, or names its folder."""
    prompts = (path for one in job.datasets for path in one.prompts)
    files = files_of((*holders.paths_of(job), *prompts, *logfiles.log_files(job.root)))
    above = ancestors(search.table, search.own)
    root = real(job.root)
    found = []
    for process in search.table:
        if process.pid in job.pids or process.pid in above:
            continue
        held = files.held_by(process) or files.held_by(process, writing=False)
        named = root != "/" and any(is_inside(path, root) for path in named_paths(process))
        if held or named:
            sign = f"has {os.path.basename(held[0])} open" if held else "names the folder"
            words = cut(masked(clean(" ".join(process.command) or process.name)), _WIDTH)
            found.append(f"process {process.pid} ({words}) {sign}: {_kind(process)}")
    return found


def _kind(process: Process) -> str:
    kinds = (
        (is_monitor, "a monitor"),
        (is_server, "an inference server"),
        (is_bystander, "only reads, edits or copies files"),
        (is_filter, "passes the job's output on"),
        (is_launcher, "starts or waits for the job"),
    )
    for is_kind, words in kinds:
        if is_kind(process):
            return words
    return "others are more surely the job"
