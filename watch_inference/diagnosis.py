"""A case in, the report out; the table of rules. Touches nothing.

A Case is one look with all that is known of it. `standing` says what state the job is in and why;
each rule of RULES then says one more thing worth knowing, or nothing. The strongest word is the
report's reason, the others are its evidence.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from watch_inference import rows, units
from watch_inference.case import Case
from watch_inference.model import Check, Report, State


class Verdict(NamedTuple):
    """One thing that a rule has to say: a sentence, and what to do about it."""

    reason: str
    advice: str = ""
    aside: bool = False  # worth knowing, but never the reason


class Standing(NamedTuple):
    """The job's state and its cause; `ended`: Unix time, where the job is over."""

    state: State
    reason: str = ""
    advice: str = ""


def judge(case: Case) -> Report:
    """Judge one look at the job."""
    standing = _standing(case)
    verdicts = [verdict for rule in RULES if (verdict := rule(case, standing)) is not None]
    strong = [verdict for verdict in verdicts if not verdict.aside]
    said = [standing.reason] if standing.reason else []
    said += [verdict.reason for verdict in strong]
    aside = tuple(verdict.reason for verdict in verdicts if verdict.aside)
    advice = standing.advice or next((one.advice for one in verdicts if one.advice), "")
    over = not case.alive and standing.state in (State.FINISHED, State.FAILED)
    # Whatever is not known of it, a job whose process or whose log has ended is over.
    ended = bool(case.gone) or any(log.path == "-" and log.error for log in case.sample.logs)
    over = over or (ended and not case.alive and standing.state is State.UNKNOWN)
    return rows.compose(case, standing.state)._replace(
        reason=said[0] if said else "",
        evidence=tuple(said[1:]) + aside,
        facts=rows.facts(case),
        advice=advice,
        over=over,
    )


# --------------------------------------------------------------------------------- the state


def _standing(case: Case) -> Standing:
    if case.sample.job.waiting_for is not None:
        return Standing(State.UNKNOWN, f"waiting for {case.sample.job.waiting_for}")
    if case.alive:
        return _living(case)
    if case.complete:
        return Standing(State.FINISHED, _missing_words(case))
    if case.gone or case.progress.seen_alive:
        return _ended(case)
    return _unseen(case)


def _living(case: Case) -> Standing:
    """Judge a job that has a process."""
    stopped = [one for one in case.alive if one.state == "stopped"]
    if len(stopped) == len(case.alive):
        pid = stopped[0].pid
        return Standing(
            State.STALLED,
            f"process {pid} is stopped (state T)",
            f"someone stopped it: kill -CONT {pid} lets it go on",
        )
    silence = case.silence_s
    if not case.begun:
        return _starting(case)
    if case.complete:
        pids = ", ".join(str(one.pid) for one in case.alive[:3])
        return Standing(State.RUNNING, f"all lines are written, process {pids} is still alive")
    if silence is None or silence <= case.limit_s:
        return Standing(State.RUNNING)
    return Standing(
        State.STALLED,
        f"no work has moved for {units.age(silence)}, process {case.alive[0].pid} is "
        f"{case.alive[0].state} (limit {units.age(case.limit_s)})",
        "look at the log's last lines, and at the server's own log",
    )


def _starting(case: Case) -> Standing:
    waited = case.waited_s
    if waited is None or waited <= case.start_limit_s:
        return Standing(State.STARTING, "no progress yet")
    return Standing(
        State.STALLED,
        f"no progress since it was started {units.age(waited)} ago, and no CPU time used",
        "look at the log: it may wait for its server, a lock or a download",
    )


def _ended(case: Case) -> Standing:
    """Judge a job whose process was seen, and is gone."""
    zombie = next((one for one in case.gone if one.state == "zombie"), None)
    how = f"process {zombie.pid} exited and is not reaped" if zombie else "process gone"
    if not case.begun and case.figures.fraction is None:
        where = "before any progress"
    elif case.figures.fraction is None:
        return Standing(State.UNKNOWN, f"{how}; how many there were to do is not known")
    else:
        where = f"at {units.percent(case.figures.fraction)}"
    return Standing(
        State.FAILED,
        f"{how} {where}; {_last_words(case)}",
        "read the log's last lines; start it again, and it may resume",
    )


def _unseen(case: Case) -> Standing:
    """Judge a job of which no process was ever seen."""
    if case.log is not None and case.log.path == "-" and case.log.error is not None:
        return Standing(State.UNKNOWN, f"the log on standard input ended {_where(case)}")
    silence = case.silence_s
    moved = silence is not None and silence <= case.limit_s
    if case.progress.rhythm.moved_at is not None and moved:
        return Standing(State.RUNNING, "its files grow, but no process of it can be seen")
    if not case.sample.view.complete:
        why = case.sample.view.reason or "the process cannot be seen from here"
        if moved:
            return Standing(State.RUNNING, f"process not visible here: {why}")
        return Standing(State.UNKNOWN, f"process not visible here: {why}")
    if silence is None:
        return Standing(State.UNKNOWN, "no process holds the files, and nothing is written yet")
    if moved:
        return Standing(
            State.UNKNOWN, f"no process holds the files; they last moved {units.age(silence)} ago"
        )
    if case.figures.fraction is None:
        return Standing(
            State.UNKNOWN,
            f"no process holds the files, silent for {units.age(silence)}; "
            "how many there were to do is not known",
        )
    return Standing(
        State.FAILED,
        f"no process holds the files, silent for {units.age(silence)}, "
        f"at {units.percent(case.figures.fraction)}; {_last_words(case)}",
        "read the log's last lines; start it again, and it may resume",
    )


def _where(case: Case) -> str:
    share = case.figures.fraction
    return "before its total was known" if share is None else f"at {units.percent(share)}"


def _last_words(case: Case) -> str:
    if not case.sample.logs:
        return "there is no log"
    error = case.log.last_error if case.log is not None else None
    return f"the log's last error: {error}" if error else "the log names no error"


def _missing_words(case: Case) -> str:
    """Say what of a finished job has no line."""
    missing = sum(one.unfinished or 0 for one in case.in_job)
    return f"{missing:,} lines are missing, and allowed" if missing else ""


# ---------------------------------------------------------------------------------- the rules

Rule = Callable[[Case, Standing], "Verdict | None"]


def _behind(case: Case, standing: Standing) -> Verdict | None:
    late = [one for one in case.in_job if one.check is Check.BEHIND]
    if not late:
        return None
    one = late[-1]
    logged, written = one.accounted or 0, one.written or 0
    return Verdict(
        f"{one.name}: the log counts {logged:,}, its file has {written:,} lines",
        "lines are lost, or still buffered: does the job flush its output?",
    )


def _not_on_disk(case: Case, standing: Standing) -> Verdict | None:
    notes = [note for one in case.in_job for note in one.notes if "not on disk" in note]
    return Verdict(notes[-1]) if notes else None


def _ahead(case: Case, standing: Standing) -> Verdict | None:
    for one in case.in_job:
        if one.check is Check.AHEAD and one.log is not None:
            surplus = (one.written or 0) - (one.accounted or 0)
            return Verdict(f"{one.name}: {surplus:,} more lines than the log can account for")
    return None


def _buffered_log(case: Case, standing: Standing) -> Verdict | None:
    """Outputs grow while the log, which should speak, is silent: its writer buffers."""
    gap, age = case.line_gap_s, case.log_age_s
    if standing.state is not State.RUNNING or case.output_age_s is None or age is None:
        return None
    if case.output_age_s > 60 or age < max(600.0, 10 * (gap or 0.0)):
        return None
    return Verdict(
        f"the log is silent for {units.age(age)} while outputs grow: its text is buffered",
        "start the job with python -u or PYTHONUNBUFFERED=1",
    )


def _no_log(case: Case, standing: Standing) -> Verdict | None:
    if case.sample.logs or not any(one.tty for one in case.alive):
        return None
    return Verdict(
        "the job's output goes to a terminal or a pipe: there is no log to read",
        "start it with > logs/run.log 2>&1",
    )


def _log_trouble(case: Case, standing: Standing) -> Verdict | None:
    for log in case.sample.logs:
        if log.error is not None:
            return Verdict(f"{log.path}: {log.error}")
    return None


def _restarted(case: Case, standing: Standing) -> Verdict | None:
    count = case.progress.restarts
    if not count:
        return None
    return Verdict(f"the log shows {count} restart{'s' if count > 1 else ''}", aside=True)


def _own_eta(case: Case, standing: Standing) -> Verdict | None:
    """Name the job's own printed figure, where ours is far from it."""
    own, ours = case.own_eta_s, case.forecast.remaining_s
    if own is None or ours is None or standing.state is not State.RUNNING:
        return None
    if abs(ours - own) <= max(own, ours) / 3 or max(own, ours) < 60:
        return None
    return Verdict(f"the job's own ETA is {units.duration(own)}", aside=True)


# Strongest first: the first that speaks is the reason, unless the state itself has one.
RULES: tuple[Rule, ...] = (
    _behind,
    _not_on_disk,
    _ahead,
    _log_trouble,
    _buffered_log,
    _no_log,
    _restarted,
    _own_eta,
)
