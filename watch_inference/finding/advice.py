"""A job and what was asked for in; what else may be meant by it, and what fits nothing, out.

Reads folders a few levels down, and the ends of logs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from watch_inference.finding import folders, layout, learning, logfiles
from watch_inference.finding.openfiles import is_data
from watch_inference.model import Dataset, Job, Options
from watch_inference.units import clean

_INPUTS = ("prompt", "question", "input", "request", "config")
_DEEP = 3
_MOST_FOLDERS = 200
_MOST_TOLD = 3
_TOTAL = "--total "
_TOGETHER_S = 600.0  # a log and the output that it tells of are last written within so long


def with_totals(job: Job, options: Options) -> Job:
    """Give each dataset what --total says of it, and warn of a total that none takes.

    A job that is a log alone is one dataset, named after the log: its total may be said too.
    """
    if not options.totals:
        return job
    among = job.datasets or _of_log_alone(job, options)
    found = layout.with_totals(among, options)
    left = [one for one in job.warnings if not one.startswith(_TOTAL)]
    return job._replace(datasets=found, warnings=(*left, *_unused(job, found, options)))


def _of_log_alone(job: Job, options: Options) -> tuple[Dataset, ...]:
    logs = [log for log in job.logs if log != "-"]
    if len(logs) != 1 or len(logfiles.names_in(logs[0], ())) > 1:
        return ()
    name = os.path.splitext(os.path.basename(logs[0]))[0]
    said = any(named in (None, name) for named, _ in options.totals)
    return (Dataset(name, job.root),) if said else ()


def _unused(job: Job, found: tuple[Dataset, ...], options: Options) -> list[str]:
    names = [one.name for one in found]
    if not names:
        names = list(dict.fromkeys(name for log in job.logs for name in logfiles.names_in(log, ())))
    there = clean(", ".join(names)) or "none yet"
    told = []
    for named, total in options.totals:
        if named is not None and named not in names:
            told.append(
                f"{_TOTAL}{clean(named)}={total}: no dataset has this name; there are: {there}"
            )
        elif named is None and len(names) > 1:
            told.append(
                f"{_TOTAL}{total}: say of which dataset, as NAME={total}; there are: {there}"
            )
        elif not found and names:
            told.append(f"{_TOTAL}{total}: not used, the log itself tells of several: {there}")
    return told


def as_the_log_says(job: Job, options: Options) -> Job:
    """Take for outputs the files in folders that the log names datasets after.

    So is found what a job closes after each line, and what one that has ended left behind.
    """
    asked = options.outputs != Options().outputs
    if asked or layout.has_files(job.datasets) or not job.logs or job.logs == ("-",):
        return job
    if layout.is_shared(job.root):
        return job
    paths = [path for path in _data_below(job.root) if _is_possible(path, options)]
    wanted = tuple(dict.fromkeys(_folder_of(path) for path in paths))
    said = {name for log in job.logs for name in logfiles.names_in(log, wanted)} if wanted else ()
    named = [path for path in paths if _folder_of(path) in said]
    newest = max(named, key=logfiles.modified, default="")
    logged = max(map(logfiles.modified, job.logs))
    if not newest or abs(logged - logfiles.modified(newest)) > _TOGETHER_S:
        return job
    name = learning.shards(*os.path.split(newest))
    places = {os.path.dirname(one) for one in named if folders.fits(os.path.basename(one), name)}
    found = {os.path.basename(one): one for one in sorted(places, reverse=True)}
    datasets = tuple(
        Dataset(clean(called), found[called], (), (os.path.join(found[called], name),))
        for called in sorted(found, key=folders.natural)
    )
    why = f"outputs {name}: in folders that the log names"
    return job._replace(datasets=datasets, learned=(name,), why=(*job.why, why))


def _folder_of(path: str) -> str:
    return os.path.basename(os.path.dirname(path))


def _is_possible(path: str, options: Options) -> bool:
    name = os.path.basename(path).lower()
    return not name.startswith(_INPUTS) and learning.may_be_output(path, options)


def missing(job: Job, options: Options) -> tuple[str, ...]:
    """Warn where names were given and no file has them."""
    asked = options.outputs != Options().outputs or options.prompts != Options().prompts
    if not asked or layout.has_files(job.datasets) or job.logs == ("-",):
        return ()
    return (f"{looked_for(options)} in {job.root}{_meant(job.root, options)}",)


def nothing_in(folder: str, options: Options) -> str:
    """Say of a folder that is there what was looked for in it, and what may be meant."""
    told = f"{folder} is there, but {looked_for(options)} in it"
    return (
        f"{told}, no log with progress lines, and no process works in it{_meant(folder, options)}"
    )


def looked_for(options: Options) -> str:
    """Say which names were looked for."""
    return f"no file named {' or '.join((*options.outputs, *options.prompts))}"


def _meant(folder: str, options: Options) -> str:
    found = candidates(folder, options)
    return f"; {', '.join(found)}" if found else ""


def candidates(folder: str, options: Options) -> list[str]:
    """Name the newest files below a folder that may be outputs, each with what to type for it."""
    newest: dict[str, tuple[float, str]] = {}
    usual = options._replace(outputs=Options().outputs)
    for path in _data_below(folder):
        name = learning.shards(*os.path.split(path))
        if _is_possible(path, usual):
            newest[name] = max(newest.get(name, (0.0, "")), (logfiles.modified(path), path))
    ordered = sorted(newest.items(), key=lambda item: item[1], reverse=True)
    return [
        f"{os.path.relpath(path, folder)}: try --outputs {_quoted(name)}"
        for name, (_, path) in ordered[:_MOST_TOLD]
    ]


def _data_below(folder: str) -> Iterable[str]:
    """Name files of data a few levels down; a large tree is not walked to its end."""
    ahead = [(folder, 0)]
    for place, depth in ahead:
        inner = folders.listing(place)
        yield from (os.path.join(place, name) for name in inner.files if is_data(name))
        if depth < _DEEP and len(ahead) < _MOST_FOLDERS:
            names = [name for name in inner.folders if not name.startswith(".")]
            ahead.extend((os.path.join(place, name), depth + 1) for name in names[:_MOST_FOLDERS])


def _quoted(name: str) -> str:
    return f"'{name}'" if folders.is_glob(name) else name
