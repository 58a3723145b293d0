"""A job's processes in; what the files of data that they write teach of its datasets, out.

A file that a job's process holds open acts as if its name had been given by --outputs. Reads
folders, and logs where a dataset may be a folder or a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from watch_inference.finding import folders, layout, logfiles
from watch_inference.finding.mounts import here, is_inside, real
from watch_inference.finding.openfiles import data_of, logs_of, named_paths
from watch_inference.finding.proctable import Process, working_folder
from watch_inference.finding.programs import shape
from watch_inference.model import Dataset, Job, Options
from watch_inference.units import clean

# Beside the results, some jobs write the requests that failed.
_BESIDE = re.compile(
    r"(?i)(?:.*[-_.])?(?:errors?|failed|failures|skipped|rejected|debug|cache|metrics|trace)"
)
_RESULTS = re.compile(r"(?i)answer|output|result|respons|generat|complet|predict|tokeni[sz]ed")
_LINES = (".jsonl", ".ndjson")
_MANY = 2
_MOST_BESIDE = 100


# ------------------------------------------------------------------------- what a process writes


def outputs_of(process: Process, options: Options) -> tuple[str, ...]:
    """Name the results that a process writes, where nobody said what they are called.

    One that writes outputs of the usual names teaches nothing: what else it writes is no output.
    """
    if options.outputs != Options().outputs:
        return ()
    held = [path for path in data_of(process) if not _hidden(path)]
    if any(layout.is_output(os.path.basename(path), options) for path in held):
        return ()
    possible = [path for path in held if may_be_output(path, options)]
    lines = [path for path in possible if path.endswith(_LINES)] or possible
    results = [path for path in lines if _RESULTS.search(os.path.basename(path))]
    return tuple(results or lines)


def may_be_output(path: str, options: Options) -> bool:
    """Tell whether a file may hold results: no prompts, no failures, no usual output beside."""
    folder, name = os.path.split(path)
    if _BESIDE.fullmatch(folders.stem(name)) or layout.is_prompts(name, options):
        return False
    return not any(layout.is_output(file, options) for file in folders.listing(folder).files)


def _hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def names_of(paths: Iterable[str], logs: Sequence[str]) -> tuple[str, ...]:
    """Give the names that outputs teach: globs for numbered ones, and those of their fellows.

    Files side by side in one folder are fellows where the log names datasets as they are named.
    """
    names: dict[str, None] = {}
    for path in paths:
        folder, name = os.path.split(path)
        ending = os.path.splitext(name)[1]
        beside = [one for one in folders.listing(folder).files if one.endswith(ending)]
        stems = [folders.stem(one) for one in beside[:_MOST_BESIDE]]
        said = _said(logs, (*stems, os.path.basename(folder)))
        flat = folders.stem(name) in said and os.path.basename(folder) not in said
        names[shards(folder, name)] = None
        names.update((one, None) for one in beside if flat and folders.stem(one) in said)
    return tuple(names)


def shards(folder: str, name: str) -> str:
    """Make a glob of a numbered file that has others beside it: part-00012.jsonl."""
    glob = re.sub(r"[0-9]+(?=\.)", "*", name, count=1)
    beside = [file for file in folders.listing(folder).files if folders.fits(file, glob)]
    return glob if len(beside) >= _MANY else name


def _said(logs: Sequence[str], names: Sequence[str]) -> frozenset[str]:
    """Choose the names under which logs have progress lines."""
    wanted = tuple(dict.fromkeys(names))
    return frozenset(name for log in logs for name in logfiles.names_in(log, wanted))


# ------------------------------------------------------------------------------- where its root is


def root_of(
    process: Process, path: str, names: Sequence[str], options: Options, table: Iterable[Process]
) -> str:
    """Find the root of an output: around its folder, where log and working folder are.

    The file's own folder is the root where the log lies in it, or where around it anything lies.
    """
    folder = os.path.dirname(path)
    inner = layout.over_ranks(folder)
    outer = layout.over_ranks(os.path.dirname(inner))
    learnt = options._replace(outputs=tuple(names))
    for home in _homes(process):
        if home in (folder, inner):
            return home
        if is_inside(outer, home) and _reads(layout.datasets(home, learnt), folder):
            return home
    anything = layout.is_shared(inner) or layout.is_shared(outer)
    return inner if anything or _shared_with(process, outer, inner, table) else outer


def _homes(process: Process) -> list[str]:
    """Name the folders that a process belongs to: its logs', its own, those that it is told."""
    places = [_above_logs(os.path.dirname(log)) for log in logs_of(process)]
    cwd = working_folder(process)
    places += [] if cwd is None else [here(process.base, cwd)]
    places += [path for path in named_paths(process) if os.path.isdir(path)]
    return [one for one in dict.fromkeys(places) if not layout.is_shared(one)]


def _above_logs(folder: str) -> str:
    return os.path.dirname(folder) if os.path.basename(folder) in logfiles.LOG_FOLDERS else folder


def _reads(found: Iterable[Dataset], folder: str) -> bool:
    return any(os.path.dirname(path) == folder for one in found for path in one.outputs)


def _shared_with(process: Process, outer: str, inner: str, table: Iterable[Process]) -> bool:
    """Tell whether a process of another kind writes results in the same folder of folders."""
    mine = shape(process)
    return any(
        is_inside(path, outer) and not is_inside(path, inner)
        for other in table
        if shape(other) != mine
        for path in data_of(other)
    )


# ------------------------------------------------------------------------------ which datasets


def laid_out(job: Job, options: Options, logs: Sequence[str] = ()) -> tuple[Dataset, ...]:
    """Find the datasets under a job's root by the usual names, and by those that it has learned."""
    usual = layout.all_of(job.root, options)
    if not job.learned:
        return usual
    found = layout.all_of(job.root, options._replace(outputs=job.learned))
    there = {one.name: one for one in usual if _is_there(one)}
    # A dataset that has an output of the usual name is known by that.
    merged = {part.name: part for one in found for part in _parted(one, job, logs)}
    return tuple(sorted({**merged, **there}.values(), key=lambda one: folders.natural(one.name)))


def _parted(one: Dataset, job: Job, logs: Sequence[str]) -> tuple[Dataset, ...]:
    """Make a dataset of each file in a folder of results, where the log or their number says so."""
    paths = {folders.stem(path): path for path in one.outputs if not folders.is_glob(path)}
    if one.prompts or len(paths) < len(one.outputs):
        return (one,)
    many = len(paths) >= _MANY
    known = {other.name for other in job.datasets if other.folder == one.folder}
    if known:
        flat = many or known != {one.name}
    else:
        said = _said(logs, (*paths, one.name))
        flat = one.name not in said and (many or bool(said))
    named = (Dataset(clean(name) or name, one.folder, (), (paths[name],)) for name in paths)
    return tuple(named) if flat else (one,)


def kept(before: Iterable[Dataset], found: tuple[Dataset, ...]) -> tuple[Dataset, ...]:
    """Keep what was known: all if nothing is found, else what is there and lies elsewhere."""
    if not found:
        return tuple(before)
    names = {one.name for one in found}
    left = [
        one
        for one in before
        if one.name not in names
        and _is_there(one)
        and not all(_covers(found, path) for path in one.outputs)
    ]
    return (*found, *left)


def taught(job: Job, processes: Iterable[Process], options: Options, logs: Sequence[str]) -> Job:
    """Add to a job's datasets what its processes write, under whatever name."""
    held = [path for one in processes for path in outputs_of(one, options)]
    held = list(dict.fromkeys(folders.under(job.root, path) for path in held))
    fresh = _news(job, held)
    if not fresh:
        return job
    names = tuple(dict.fromkeys((*job.learned, *names_of(fresh, logs))))
    now = job._replace(learned=names)
    if layout.is_rooted(job.root, (*job.datasets, *_by_file(fresh, job.root))):
        now = now._replace(datasets=kept(job.datasets, laid_out(now, options, logs)))
    paths = [os.path.join(os.path.dirname(path), name) for path in fresh for name in names]
    more = [path for path in paths if folders.present(path) and not _covers(now.datasets, path)]
    found = {one.name: one for one in now.datasets}
    for one in _by_file(more, job.root):
        found.setdefault(_free_name(one, found), one)
    named = [one._replace(name=name) for name, one in found.items()]
    return now._replace(datasets=tuple(sorted(named, key=lambda one: folders.natural(one.name))))


def _news(job: Job, held: Sequence[str]) -> list[str]:
    """Choose what is new of the files that are held.

    Where a known output is held too, or prompts say where outputs belong, other names elsewhere
    are something beside the results. A root that is one dataset itself has no others.
    """
    fresh = [path for path in held if not _covers(job.datasets, path)]
    itself = clean(os.path.basename(job.root))
    places = {
        real(one.folder)
        for one in job.datasets
        if one.prompts or (one.folder == job.root and one.name == itself)
    }
    if places:
        return [path for path in fresh if real(os.path.dirname(path)) in places]
    if len(fresh) < len(held):
        return [path for path in fresh if _is_learned(job, path)]
    return fresh


def _is_learned(job: Job, path: str) -> bool:
    return any(folders.fits(os.path.basename(path), name) for name in job.learned)


def _covers(among: Iterable[Dataset], path: str) -> bool:
    """Tell whether a file, or a glob of files, is an output of one of the datasets."""
    folder, name = os.path.split(path)
    for one in among:
        for output in one.outputs:
            where, wanted = os.path.split(output)
            if (where == folder or real(where) == real(folder)) and folders.fits(name, wanted):
                return True
    return False


def _by_file(paths: Iterable[str], root: str) -> list[Dataset]:
    """Name a dataset after its folder; after its file in the root itself, or beside another."""
    different = list(dict.fromkeys(paths))
    places = [os.path.dirname(path) for path in different]
    found = []
    for path, folder in zip(different, places, strict=True):
        stem = clean(folders.stem(path)).rstrip("*-_") or clean(os.path.basename(path))
        alone = folder != root and places.count(folder) == 1
        name = clean(os.path.basename(folder)) if alone else stem
        found.append(Dataset(name or stem, folder, (), (path,)))
    return found


def _free_name(one: Dataset, taken: Iterable[str]) -> str:
    parent = os.path.basename(os.path.dirname(one.folder))
    return one.name if one.name not in taken else f"{parent}/{one.name}"


def _is_there(one: Dataset) -> bool:
    return any(folders.present(path) for path in one.outputs)
