"""A case in, the report's rows and figures out; touches nothing."""

from __future__ import annotations

from watch_inference import units
from watch_inference.folding import pacing
from watch_inference.judging import rules_server
from watch_inference.judging.case import Case, age
from watch_inference.model import (
    Check,
    DatasetProgress,
    DatasetRow,
    Figures,
    LogReading,
    LogRow,
    ProcessReading,
    ProcessRow,
    Report,
    State,
)

# The worst first.
_CHECKS = (Check.BEHIND, Check.AHEAD, Check.UNKNOWN, Check.RESUMED, Check.OK)


def compose(case: Case, state: State) -> Report:
    """Write the report of a case that is in a state; reason and evidence are the judge's."""
    sample, progress = case.sample, case.progress
    figures = case.figures
    if state in (State.FINISHED, State.FAILED, State.UNKNOWN):
        figures = _without_end(figures, state)
    log_rows = tuple(_log_row(case, log) for log in sample.logs)
    newest = case.log
    process_rows = tuple(_process_row(one) for one in sample.processes)
    ended = _ended(case) if state in (State.FINISHED, State.FAILED) else None
    until = ended if ended is not None else sample.wall
    started = progress.started
    return Report(
        at=sample.at,
        wall=sample.wall,
        host=case.host,
        name=sample.job.name,
        root=sample.job.root,
        found=sample.job.found,
        state=state,
        started=started,
        ended=ended,
        elapsed_s=max(0.0, until - started) if started is not None else None,
        figures=figures,
        datasets=tuple(_dataset_row(case, one, state) for one in progress.datasets),
        log=_log_row(case, newest) if newest is not None else LogRow(),
        logs=log_rows,
        process=_main_process(case),
        processes=process_rows,
        server=rules_server.total(sample.servers),
        servers=sample.servers,
        gpu=sample.gpu,
        resources=sample.resources,
        warnings=_warnings(case),
        log_tail=newest.tail if newest is not None else (),
        error_tail=newest.error_tail if newest is not None else (),
        output_age_s=case.output_age_s,
        log_every_s=case.line_gap_s,
        history=pacing.history(progress.points, sample.at),
    )


def figures(case: Case) -> Figures:
    """Sum the job up in numbers."""
    inside = case.in_job or list(case.progress.datasets)
    dones = [one.done for one in inside]
    totals = [one.total for one in inside]
    done = sum(one or 0 for one in dones) if inside and None not in dones else None
    total = sum(one or 0 for one in totals) if inside and None not in totals else None
    errors = [one.errors for one in inside if one.errors is not None]
    fraction = None
    if done is not None and total:
        # A surplus in one dataset does not make up for what is missing in another.
        left = sum(case.missing(one) for one in inside)
        fraction = max(0, total - left) / total
    running = [one for one in inside if one.state is State.RUNNING]
    rates = [one.requests_per_s for one in running if one.requests_per_s is not None]
    speeds = [
        one.requests_per_s * one.completion_tokens
        for one in running
        if one.requests_per_s is not None and one.completion_tokens is not None
    ]
    wall, forecast = case.sample.wall, case.forecast
    return Figures(
        dataset=case.progress.current,
        done=done,
        total=total,
        resumed=sum(one.resumed for one in inside) if inside else None,
        errors=sum(errors) if errors else None,
        fraction=fraction,
        check=_worst(case),
        requests_per_s=sum(rates) if rates else None,
        tokens_per_s=sum(speeds) if speeds else None,
        remaining_s=forecast.remaining_s,
        remaining_low_s=forecast.low_s,
        remaining_high_s=forecast.high_s,
        finish=_later(wall, forecast.remaining_s),
        finish_low=_later(wall, forecast.low_s),
        finish_high=_later(wall, forecast.high_s),
    )


def facts(case: Case) -> tuple[str, ...]:
    """Say how old what we know is: what every state rests on."""
    said = []
    missing = sum(case.missing(one) for one in case.in_job)
    if missing and not case.alive:
        said.append(f"{missing:,} lines are missing")
    if case.log_age_s is not None:
        usual = f", a line every ~{units.duration(case.line_gap_s)}" if case.line_gap_s else ""
        said.append(f"log moved {units.age(case.log_age_s)} ago{usual}")
    if case.output_age_s is not None:
        said.append(f"outputs grew {units.age(case.output_age_s)} ago")
    for one in case.sample.processes[:3]:
        cpu = f", cpu {one.cpu_percent:.0f} %" if one.cpu_percent is not None else ""
        since = ""
        if one.since_at is not None:
            since = f" since {units.age(case.sample.at - one.since_at)}"
        said.append(f"process {one.pid} {one.state}{cpu}{since}")
    if case.log is not None and case.log.last_error is not None:
        said.append(f"last error in the log: {case.log.last_error}")
    return tuple(said)


def _without_end(figures: Figures, state: State) -> Figures:
    """Take the forecast away from a job that is over."""
    none = figures._replace(
        remaining_s=None, remaining_low_s=None, remaining_high_s=None, finish=None,
        finish_low=None, finish_high=None, requests_per_s=None, tokens_per_s=None,
    )  # fmt: skip
    if state is State.FINISHED:
        return none._replace(remaining_s=0.0, remaining_low_s=0.0, remaining_high_s=0.0)
    return none


def _worst(case: Case) -> Check:
    checks = {one.check for one in case.in_job if one.check is not None and one.log is not None}
    checks |= {one.check for one in case.in_job if one.check in (Check.BEHIND, Check.UNKNOWN)}
    if case.progress.ambiguous:
        checks.add(Check.UNKNOWN)
    return next((one for one in _CHECKS if one in checks), Check.UNKNOWN)


def _later(wall: float, seconds: float | None) -> float | None:
    return None if seconds is None else wall + seconds


def _ended(case: Case) -> float | None:
    """Say when a job that is over ended: when its process went, else when it last moved."""
    if case.progress.rhythm.moved is not None and not case.gone:
        return case.progress.rhythm.moved
    since = [one.since_at for one in case.gone if one.since_at is not None]
    if since:
        return case.sample.wall - (case.sample.at - max(since))
    return case.progress.rhythm.moved


def _dataset_row(case: Case, one: DatasetProgress, job: State) -> DatasetRow:
    state = one.state
    if job is State.FINISHED:
        state = State.FINISHED
    begun = bool(one.done) and one.in_job and state is not State.FINISHED
    if job is State.FAILED and begun:
        state = State.FAILED
    elif state is State.RUNNING and job in (
        State.STALLED,
        State.FAILED,
        State.UNKNOWN,
        State.STARTING,
    ):
        state = job
    remaining = dict(case.forecast.datasets).get(one.name)
    if state is State.FINISHED:
        remaining = 0.0
    elif job in (State.FAILED, State.UNKNOWN):
        remaining = None
    return DatasetRow(
        name=one.name,
        state=state,
        done=one.done,
        done_from=one.done_from if one.done is not None else None,
        total=one.total if one.in_job else None,
        written=one.written,
        logged=one.logged,
        resumed=one.resumed if one.in_job else None,
        errors=0 if state is State.QUEUED and one.done == 0 else one.errors,
        check=one.check,
        requests_per_s=one.requests_per_s,
        completion_tokens=one.completion_tokens,
        concurrency=one.concurrency,
        remaining_s=remaining,
        age_s=age(case.sample, one.changed_at, one.modified),
        started=one.started,
        ended=one.ended,
        accounted=one.accounted,
        files=next(
            (d.prompts + d.outputs for d in case.sample.job.datasets if d.name == one.name), ()
        ),
        history=pacing.history(one.points, case.sample.at),
    )


def _log_row(case: Case, log: LogReading) -> LogRow:
    own = case.own_eta_s if log is case.log else None
    return LogRow(
        path=log.path,
        format=log.format,
        size=log.size,
        age_s=age(case.sample, log.changed_at, log.modified),
        behind=log.behind,
        # Of a log that was not read from its start these are not known.
        unparsed=None if log.behind else log.unparsed,
        restarts=None if log.behind else log.restarts,
        last_error=log.last_error,
        eta_s=own,
    )


def _process_row(one: ProcessReading) -> ProcessRow:
    return ProcessRow(
        one.pid, one.state, one.started, one.cpu_percent, one.rss, one.threads, one.command
    )


def _main_process(case: Case) -> ProcessRow:
    """Pick the process that stands for the job: a living one, with the most CPU time so far."""
    some = case.alive or case.gone
    if not some:
        return ProcessRow()
    return _process_row(max(some, key=lambda one: one.cpu_s or 0.0))


def _warnings(case: Case) -> tuple[str, ...]:
    found = list(case.sample.job.warnings) + list(case.sample.warnings)
    for one in case.progress.datasets:
        found += one.notes
    for log in case.sample.logs:
        if log.behind:
            found.append(f"{log.path}: {units.size(log.behind)} not read yet")
        found += [f"{log.path}: {note}" for note in log.notes]
    for output in case.sample.datasets:
        if output.countable and output.written is None and output.bytes > 0:
            so_far, whole = units.size(output.counted), units.size(output.bytes)
            found.append(f"counting {output.name}: {so_far} of {whole}")
        if output.error is not None:
            found.append(f"{output.name}: {output.error}")
    if case.progress.ambiguous:
        found.append("some of the log's lines fit more than one dataset")
    return tuple(dict.fromkeys(found))
