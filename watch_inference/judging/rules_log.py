"""A case in, what log and output files say of each other out: rules of diagnosis; pure."""

from __future__ import annotations

import re
from collections import Counter

from watch_inference import units
from watch_inference.judging.case import Case
from watch_inference.judging.verdict import Standing, Verdict
from watch_inference.model import Check, DatasetProgress, State

# Below so long a silence nothing is said of it.
_SILENT_S = 60.0
# How a client says that it tries again, or that it was refused and will.
_RETRY = re.compile(
    r"(?i)\bretr(?:y|ies|ying|ied)\b|\btry(?:ing)? again\b|\battempt \d|\bback(?:ing)?[ -]?off\b"
    r"|\btimed? ?out\b|\bconnection (?:error|refused|reset|aborted)|\brate.?limit"
    r"|\b(?:HTTP/[\d.]+\"?|status(?: code)?:?|error:?) (?:429|50[0234])\b"
)
_FEW_RETRIES = 3
# So many progress lines at once are no coincidence.
_FEW_LINES = 3


def only_retries(case: Case, standing: Standing) -> Verdict | None:
    """Name a client that does nothing but try again."""
    silence, log = case.silence_s, case.log
    if log is None or silence is None or silence < _SILENT_S / 2 or not _log_speaks(case):
        return None
    since = _since_progress(case, log.tail)
    retries = [line for line in since if _RETRY.search(line)]
    if len(retries) < _FEW_RETRIES or 2 * len(retries) < len(since):
        return None
    return Verdict(
        f"nothing but retries for {units.age(silence)}: {units.cut(retries[-1].strip(), 120)}",
        "its server refuses or is overloaded: look at the server and its log",
        cause=True,
    )


def only_noise(case: Case, standing: Standing) -> Verdict | None:
    """Name a log that is written while no work moves."""
    silence = case.silence_s
    if standing.state is not State.STALLED or silence is None or not _log_speaks(case):
        return None
    log_age = case.log_age_s or 0.0
    if silence < _SILENT_S or log_age > silence / 2:
        return None
    return Verdict(
        f"the log still writes (last {units.age(log_age)} ago), but no line of it is progress, "
        f"and no output has come for {units.age(silence)}",
        "look at the log's end (l): what does it say instead?",
        cause=True,
    )


def _log_speaks(case: Case) -> bool:
    """Tell a log that was seen writing after the last work."""
    log, moved_at = case.log, case.progress.rhythm.moved_at
    if log is None or log.changed_at is None:
        return False
    return moved_at is None or log.changed_at > moved_at


def _since_progress(case: Case, tail: tuple[str, ...]) -> list[str]:
    """Cut the log's newest lines down to those after the newest progress line."""
    entry = case.current.log if case.current is not None else None
    sign = f"{entry.done}/" if entry is not None else None
    for number in range(len(tail) - 1, -1, -1):
        if sign is not None and sign in tail[number]:
            return list(tail[number + 1 :])
    return list(tail)


def lost(case: Case, standing: Standing) -> Verdict | None:
    """Name a dataset that is over and has fewer lines than were logged: they will not come."""
    for one in case.in_job:
        count = (one.accounted or 0) - (one.errors or 0) - (one.written or 0)
        if one.log is None or one.written is None or count <= 0 or not _is_over(case, one):
            continue
        return Verdict(
            f"{one.name}: {count:,} lines are lost: the log ended at {one.accounted or 0:,}, "
            f"its file has {one.written or 0:,}",
            "those requests must run again: start it once more, it may resume",
        )
    return None


def _is_over(case: Case, one: DatasetProgress) -> bool:
    """Tell a dataset of which nothing more will be written."""
    if not case.alive:
        return bool(case.gone)  # what it still held in its buffers is lost too
    if one.check is not Check.BEHIND or one.log is None:
        return False
    late = one.lag_at is not None and case.sample.at - one.lag_at >= _SILENT_S
    ended = one.log.total is not None and one.log.done >= one.log.total
    return one.name != case.progress.current or (ended and late)


def nothing_written(case: Case, standing: Standing) -> Verdict | None:
    """Name a log that counts on while its output file stands still."""
    for one in _behind(case):
        updated = None if one.log is None else one.log.updated_at
        changed = one.changed_at if one.changed_at is not None else case.progress.first_at
        still = case.sample.at - changed
        gap = max(_SILENT_S, 3 * (case.line_gap_s or 0.0))
        if updated is not None and updated > changed and still >= gap:
            return Verdict(
                f"{one.name}: the log counts on ({one.accounted or 0:,}), but its file has not "
                f"grown for {units.age(still)} ({one.written or 0:,} lines)",
                "is the disk full (df), was the file moved, or is all of it buffered?",
            )
    return None


def behind(case: Case, standing: Standing) -> Verdict | None:
    """Name a file that has fewer lines than its log counts."""
    late = _behind(case)
    if not late:
        return None
    one = late[-1]
    logged, written = one.accounted or 0, one.written or 0
    return Verdict(
        f"{one.name}: the log counts {logged:,}, its file has {written:,} lines",
        "lines are lost, or still buffered: does the job flush its output?",
    )


def _behind(case: Case) -> list[DatasetProgress]:
    return [one for one in case.in_job if one.check is Check.BEHIND]


def not_on_disk(case: Case, standing: Standing) -> Verdict | None:
    """Say that results are only in the job's memory so far."""
    notes = [note for one in case.in_job for note in one.notes if "not on disk" in note]
    if not notes:
        return None
    return Verdict(notes[-1], "if the job dies now they are lost: it may write at the end only")


def surplus(case: Case, standing: Standing) -> Verdict | None:
    """Name a file with more lines than there are prompts."""
    for one in case.in_job:
        if one.total is not None and one.written is not None and one.written > one.total:
            return Verdict(
                f"{one.name}: {one.written:,} lines for {one.total:,} prompts: "
                "more than one run in the file?",
                "look for repeated ids before the file is used",
            )
    return None


def ahead(case: Case, standing: Standing) -> Verdict | None:
    """Name a file with more lines than the log can account for."""
    for one in case.in_job:
        if one.check is Check.AHEAD and one.log is not None:
            more = (one.written or 0) - (one.accounted or 0)
            return Verdict(
                f"{one.name}: {more:,} more lines than the log can account for",
                "an earlier run's, or another job's that writes the same file",
            )
    return None


def log_trouble(case: Case, standing: Standing) -> Verdict | None:
    """Say why a log cannot be read."""
    for log in case.sample.logs:
        if log.error is not None:
            return Verdict(f"{log.path}: {log.error}")
    return None


def buffered_log(case: Case, standing: Standing) -> Verdict | None:
    """Name a log that is silent, or comes in bursts, while outputs grow: its writer buffers."""
    log_age = case.log_age_s
    if standing.state is not State.RUNNING or case.output_age_s is None or log_age is None:
        return None
    if case.output_age_s > _SILENT_S:
        return None
    if log_age >= max(600.0, 10 * (case.line_gap_s or 0.0)) or _left_behind(case, log_age):
        said = f"the log is silent for {units.age(log_age)} while outputs grow"
    elif (apart := _bursts(case)) is not None:
        said = f"the log comes in bursts, {units.age(apart)} apart, while outputs grow"
    else:
        return None
    return Verdict(
        f"{said}: its text is buffered", "start the job with python -u or PYTHONUNBUFFERED=1"
    )


def _left_behind(case: Case, log_age: float) -> bool:
    """Tell a log that should have spoken several times since its last line."""
    one = case.current
    if one is None or one.log is None or not one.log.step or one.written is None:
        return False
    lead = one.written - (one.accounted or 0)
    return log_age >= 2 * _SILENT_S and lead >= 4 * one.log.step


def _bursts(case: Case) -> float | None:
    """Say how far apart bursts of progress lines are; None where they come one by one."""
    lines = case.current.log.lines if case.current and case.current.log else ()
    times = Counter(line.at for line in lines if line.at is not None)
    bursts = sorted(at for at, number in times.items() if number >= _FEW_LINES)
    if len(bursts) < 2 or len(bursts) < len(times) - 1:
        return None
    apart = (bursts[-1] - bursts[0]) / (len(bursts) - 1)
    return apart if apart >= _SILENT_S else None
