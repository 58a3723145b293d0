"""The current folder in; the jobs that are meant where nothing was named, out.

Reads folders, the ends of logs, and what processes have open, through the modules that it asks.
"""

from __future__ import annotations

import os

from watch_inference.finding import layout, logfiles, running
from watch_inference.finding.assembly import NotFound, Search, assemble, is_empty
from watch_inference.finding.mounts import is_inside
from watch_inference.model import Job


def meant(search: Search, last: str | None) -> list[Job]:
    """Find the job of the current folder; else all that run; else the last one watched.

    Raises NotFound where there is none.
    """
    places = running.places(search)
    around = [one for one in places if _lies_in(search.cwd, one[0])]
    if around:
        return [running.job_at(search, *one)._replace(found="cwd") for one in around]
    own = _of_folder(search, last)
    if own:
        return [job._replace(found="cwd") for job in own]
    if places:
        return [running.job_at(search, *one)._replace(found="running") for one in places]
    if last is not None and os.path.isdir(last):
        return [assemble(search, last, f"root {last}: watched last")._replace(found="last")]
    raise NotFound(
        f"no job found: {search.cwd} lies in none, none of the {len(search.table)} processes here"
        " is one that can be seen, and none was watched before.\n"
        "Name its folder, its log or its pid: watch_inference FOLDER"
    )


def _of_folder(search: Search, last: str | None) -> list[Job]:
    """Find the job of the current folder: by its datasets, by who works there, by its logs."""
    cwd = search.cwd
    root = search.root_of(cwd)
    if root is not None:
        return [assemble(search, root, f"root {root}: you are in it")]
    if layout.is_shared(cwd):
        return []
    places = running.tied(search, cwd, around=True)
    if places:
        return [running.job_at(search, *one) for one in places]
    if logfiles.newest_logs(cwd):
        return [assemble(search, cwd, f"root {cwd}: you are in it, and it has a log")]
    if last is None or not os.path.isdir(last) or layout.is_shared(last):
        return []
    near = is_inside(cwd, last) or is_inside(last, cwd)
    job = assemble(search, last, f"root {last}: you are in it, and it was watched last")
    return [job] if near and not is_empty(job) else []


def _lies_in(folder: str, place: running.Place) -> bool:
    """Tell whether a folder lies in a root with datasets, or is the folder of a log alone."""
    if place.alone:
        return folder == place.root and not layout.is_shared(folder)
    return is_inside(folder, place.root)
