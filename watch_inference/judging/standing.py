"""A case in, the state of the job and its cause out: section "States" of the README; pure.

The rules of diagnosis say what else is known; a cause that they find goes before these words.
"""

from __future__ import annotations

from watch_inference import units
from watch_inference.judging.case import Case
from watch_inference.judging.verdict import Standing
from watch_inference.model import State

_AGAIN = "read the log's last lines; start it again, and it may resume"
_SAID_S = 60.0  # a start of which the length is worth a word


def standing(case: Case) -> Standing:
    """Say what state the job is in, and why."""
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
    if not case.begun:
        return _starting(case)
    silence = case.silence_s
    if case.complete:
        pids = ", ".join(str(one.pid) for one in case.alive[:3])
        long = silence is not None and silence >= _SAID_S
        since = f" for {units.age(silence)}" if long else ""
        return Standing(
            State.RUNNING,
            f"all lines are written{since}, process {pids} is still alive",
            "it may be closing or uploading; if it stays, its log or py-spy tells where" if long
            else "",
        )  # fmt: skip
    if silence is None or silence <= case.limit_s:
        return Standing(State.RUNNING)
    return Standing(
        State.STALLED,
        f"no work has moved for {units.age(silence)}, process {case.alive[0].pid} is "
        f"{case.alive[0].state} (limit {units.age(case.limit_s)})",
        "look at the log's last lines, and at the server's own log",
    )


def _starting(case: Case) -> Standing:
    waited, started = case.waited_s, case.progress.started
    if waited is None or waited <= case.start_limit_s:
        said = "no progress yet"
        lived = None if started is None else case.sample.wall - started
        if lived is not None and lived >= _SAID_S:
            said += f", {units.age(lived)} after its start"
            if case.busy:
                said += "; its process computes"
        return Standing(State.STARTING, said)
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
    return Standing(State.FAILED, f"{how} {where}; {_last_words(case)}", _AGAIN)


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
        state = State.RUNNING if moved else State.UNKNOWN
        return Standing(state, f"process not visible here: {why}")
    if silence is None:
        return Standing(State.UNKNOWN, "no process holds the files, and nothing is written yet")
    if moved:
        return Standing(
            State.UNKNOWN, f"no process holds the files; they last moved {units.age(silence)} ago"
        )
    silent = f"no process holds the files, silent for {units.age(silence)}"
    if case.figures.fraction is None:
        return Standing(State.UNKNOWN, f"{silent}; how many there were to do is not known")
    share = units.percent(case.figures.fraction)
    return Standing(State.FAILED, f"{silent}, at {share}; {_last_words(case)}", _AGAIN)


def _where(case: Case) -> str:
    share = case.figures.fraction
    return "before its total was known" if share is None else f"at {units.percent(share)}"


def _last_words(case: Case) -> str:
    if not case.sample.logs:
        return "there is no log"
    error = next((one for log in case.newest_logs if (one := log.last_error)), None)
    return f"the log's last error: {error}" if error else "the log names no error"


def _missing_words(case: Case) -> str:
    """Say what of a finished job has no line."""
    missing = sum(case.missing(one) for one in case.in_job)
    return f"{missing:,} lines are missing, and allowed" if missing else ""
