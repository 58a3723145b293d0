"""A folder and the names of a job's files in; its datasets, and the root around it, out.

Reads directories, and logs only where two folders may be the root.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache

from watch_inference.finding.folders import (
    expanded,
    fits,
    fitting,
    is_glob,
    joined,
    listing,
    natural,
    settled,
)
from watch_inference.finding.logfiles import LOG_FOLDERS, log_files, modified, newest_logs
from watch_inference.model import Dataset, Options

_MOST_UP = 6
# In these anybody's files lie side by side: that two datasets do, says nothing.
SHARED = ("/", "/tmp", "/var/tmp", "/dev/shm", "/home")
# A folder for each process of a job: together they are the dataset around them.
_RANK = re.compile(
    r"(?i)(?:rank|shard|worker|part|split|proc|process|gpu|dp|node|replica)[-_.]?[0-9]+"
)
# Prompts and outputs may be kept apart: ROOT/data/B1 and ROOT/outputs/B1 are one dataset.
_SIDE = re.compile(r"(?i)outputs?|out|results?|generated|prompts|inputs?|data|datasets?")
_PROGRAMS = (".py", ".sh", ".sbatch", ".slurm", ".toml", ".yaml", ".yml", ".ipynb")


def datasets(root: str, options: Options) -> tuple[Dataset, ...]:
    """Find the datasets of a root, in natural order; none where no folder in it is one."""
    inner = [name for name in _once(root) if not name.startswith(".")]
    found = _present(
        dataset(os.path.join(root, name), options) for name in inner if not _RANK.fullmatch(name)
    )
    merged = _with_prompts(root, _over_parts(root, found, inner, options), options)
    ordered = tuple(sorted(merged, key=lambda one: natural(one.name)))
    return with_totals(ordered, options)


def with_totals(among: tuple[Dataset, ...], options: Options) -> tuple[Dataset, ...]:
    """Give the datasets the totals that --total says."""
    return tuple(one._replace(total=_total(one.name, among, options)) for one in among)


def all_of(root: str, options: Options) -> tuple[Dataset, ...]:
    """Find the datasets of a root, or the one that it is itself; cheap while no folder changes."""
    stamp = _stamp(root)
    return _all_of(root, options) if stamp is None else _settled(root, options, stamp)


def _all_of(root: str, options: Options) -> tuple[Dataset, ...]:
    found = datasets(root, options)
    one = None if found else dataset(root, options)
    return found if one is None else (one,)


@lru_cache(maxsize=64)
def _settled(root: str, options: Options, stamp: tuple[int, ...]) -> tuple[Dataset, ...]:
    del stamp  # part of the key: a changed folder makes another root
    return _all_of(root, options)


def _stamp(root: str) -> tuple[int, ...] | None:
    """Tell when the folders of a root changed; None where one did so just now."""
    ahead = [root, *joined(root, listing(root).folders)]
    parts = (
        os.path.join(folder, name)
        for folder in ahead[1:]
        for name in listing(folder).folders
        if _RANK.fullmatch(name)
        or _SIDE.fullmatch(name)
        or _RANK.fullmatch(os.path.basename(folder))
        or _SIDE.fullmatch(os.path.basename(folder))
    )
    times = [settled(folder) for folder in (*ahead, *parts)]
    return tuple(time for time in times if time is not None) if None not in times else None


def _with_prompts(root: str, found: list[Dataset], options: Options) -> list[Dataset]:
    """Give prompts that lie in the root to the one dataset that is below, if it has none.

    A root with an output of its own beside them is the dataset: those below are something else.
    """
    given = () if any(one.prompts for one in found) else _names(root, options.prompts)
    if not given:
        return found
    if _names(root, options.outputs):
        return []
    return (
        [one._replace(prompts=joined(root, given)) for one in found] if len(found) == 1 else found
    )


def _over_parts(
    root: str, found: list[Dataset], inner: list[str], options: Options
) -> list[Dataset]:
    """Add ROOT/rank3/B1 and the like to B1: each rank has all datasets, and they are summed."""
    by_name = {one.name: [one] for one in found}
    for part in inner:
        if part in by_name or not (_RANK.fullmatch(part) or _SIDE.fullmatch(part)):
            continue
        for name in listing(os.path.join(root, part)).folders:
            share = dataset(os.path.join(root, part, name), options, only_present=True)
            if share is not None:
                by_name.setdefault(share.name, []).append(share)
    return [_sum(shares, options) for shares in by_name.values()]


def _once(root: str) -> list[str]:
    """Name the folders of a root; of several names for one, as `latest` is, that without a link."""
    names = listing(root).folders
    links = {name for name in names if os.path.islink(os.path.join(root, name))}
    found: dict[str, str] = {}
    for name in sorted(names, key=lambda name: name in links):
        place = os.path.realpath(os.path.join(root, name)) if links else name
        found.setdefault(place, name)
    return sorted(found.values())


def _sum(shares: list[Dataset], options: Options) -> Dataset:
    """Make one dataset of the shares that its ranks, or its two sides, have."""
    present = [path for one in shares for path in one.outputs if expanded(path)]
    given = [path for one in shares for path in one.prompts]
    expected = joined(shares[0].folder, options.outputs)
    return shares[0]._replace(prompts=tuple(given), outputs=tuple(present) or expected)


def dataset(folder: str, options: Options, only_present: bool = False) -> Dataset | None:
    """Read a folder as one dataset, its ranks' folders included; None if it is none.

    An output that is not there yet is named as it will be, unless `only_present`.
    """
    prompts = _names(folder, options.prompts)
    outputs = _names(folder, options.outputs)
    shares = [] if only_present else _shares(folder, options, bool(prompts) and not outputs)
    if not prompts and not outputs and not shares:
        return None
    written = joined(folder, outputs) + tuple(path for one in shares for path in one.outputs)
    if not written and not only_present:
        written = joined(folder, options.outputs)
    given = joined(folder, prompts) or tuple(path for one in shares for path in one.prompts)
    name = os.path.basename(folder) or folder
    found = Dataset(name, folder, given, written)
    return found._replace(total=_total(name, (found,), options))


def _shares(folder: str, options: Options, unwritten: bool) -> list[Dataset]:
    """Read the folders that a dataset's ranks have in it, or that its results have."""
    found = []
    for name in sorted(listing(folder).folders, key=natural):
        if _RANK.fullmatch(name) or (unwritten and _SIDE.fullmatch(name)):
            share = dataset(os.path.join(folder, name), options, only_present=True)
            if share is not None and (_RANK.fullmatch(name) or not share.prompts):
                found.append(share)
    return found


def _present(found: Iterable[Dataset | None]) -> list[Dataset]:
    return [one for one in found if one is not None]


def _total(name: str, among: tuple[Dataset, ...], options: Options) -> int | None:
    """Find what --total says of a dataset; without a name it speaks of the only one."""
    for named, total in options.totals:
        if named == name or (named is None and len(among) == 1):
            return total
    return None


def _names(folder: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Choose the names and globs that fit a file here; the ranks' forms of a name are meant too."""
    plain = tuple(name for name in wanted if fitting(folder, name))
    forms = (form for name in wanted for form in rank_forms(name))
    ranked = tuple(form for form in forms if fitting(folder, form))
    if plain and ranked and not _still_ranked(folder, plain, ranked):
        return plain
    return plain + ranked


def _still_ranked(folder: str, plain: tuple[str, ...], ranked: tuple[str, ...]) -> bool:
    """Tell whether the ranks write beside the plain file; else it is they put together."""
    newest = {True: 0.0, False: 0.0}
    for file in listing(folder).files:
        if file in plain or any(fits(file, form) for form in ranked):
            newest[file in plain] = max(newest[file in plain], modified(os.path.join(folder, file)))
    return newest[False] > newest[True]


def rank_forms(name: str) -> tuple[str, ...]:
    """Name the globs of a file that each rank has its own of: tokenized_data_rank3.jsonl."""
    stem, dot, ending = os.path.basename(name).partition(".")
    if is_glob(name) or not stem:
        return ()
    return (os.path.join(os.path.dirname(name), f"{stem}[-_.]*[0-9]{dot}{ending}"),)


def is_rooted(root: str, among: Iterable[Dataset]) -> bool:
    """Tell whether datasets make a folder a root; one named after its output file does not."""
    return any(one.prompts or one.folder != root for one in among)


def has_files(among: Iterable[Dataset]) -> bool:
    """Tell whether datasets have files; one that only has a total, by --total, has none."""
    return any(one.prompts or one.outputs for one in among)


def is_shared(folder: str) -> bool:
    """Tell whether a folder is one in which anything may lie side by side."""
    return folder in SHARED or folder == os.path.expanduser("~")


def is_output(name: str, options: Options) -> bool:
    """Tell whether a file name is one of the outputs', or a rank's form of it."""
    wanted = [os.path.basename(one) for one in options.outputs]
    return any(fits(name, form) for one in wanted for form in (one, *rank_forms(one)))


def is_prompts(name: str, options: Options) -> bool:
    """Tell whether a file name is one of the prompts', or a rank's form of it."""
    wanted = [os.path.basename(one) for one in options.prompts]
    return any(fits(name, form) for one in wanted for form in (one, *rank_forms(one)))


def root_of(folder: str, options: Options) -> str | None:
    """Find the root that a folder is or lies in; None if it lies in none.

    The way up leads through datasets, their parts and folders of logs, and one other at most.
    """
    inner, strange = None, 0
    for step in range(_MOST_UP):
        sure = step == 0 or not strange or bool(log_files(folder))
        found = datasets(folder, options) if sure and folder not in SHARED else ()
        apart = any(os.path.dirname(path) == folder for one in found for path in one.prompts)
        if found and not apart:
            chosen = _inner_or_outer(inner, folder, options) if inner else folder
            return _around_parts(chosen, options)
        name = os.path.basename(folder)
        if apart:
            inner, strange = folder, strange + 1
        elif inner is None and dataset(folder, options) is not None:
            inner = folder
        elif not (_RANK.fullmatch(name) or _SIDE.fullmatch(name) or name in LOG_FOLDERS):
            strange += 1
        if strange > 1 or folder == "/":
            break
        folder = os.path.dirname(folder)
    return inner


def over_ranks(folder: str) -> str:
    """Go from a folder that is one rank's, as B1/rank3, up to the one around."""
    while _RANK.fullmatch(os.path.basename(folder)):
        folder = os.path.dirname(folder)
    return folder


def _around_parts(folder: str, options: Options) -> str:
    """Go from ROOT/rank3, or from ROOT/data where the logs are in ROOT, up to the root itself."""
    outer, name = os.path.split(folder)
    side = _SIDE.fullmatch(name) and log_files(outer)
    if not (side or _RANK.fullmatch(name)) or outer in SHARED:
        return folder
    return outer if datasets(outer, options) else folder


def _inner_or_outer(inner: str, outer: str, options: Options) -> str:
    """Choose between a dataset and the folder around it: with a log of its own it is a job."""
    around = bool(log_files(outer))
    if log_files(inner) and not (around and not newest_logs(inner)):
        return inner
    programs = any(name.endswith(_PROGRAMS) for name in listing(inner).files)
    visible = [one for one in listing(outer).folders if not one.startswith((".", "_"))]
    mostly = 2 * len(datasets(outer, options)) >= len(set(visible) - set(LOG_FOLDERS))
    return outer if around or (mostly and not programs) else inner
