"""Words typed by a person in, everything wired together, the exit status out.

Touches argv, signals and standard error; standard output only through the views.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from watch_inference import __version__, config, forms, watch
from watch_inference.config import Misuse
from watch_inference.files.checkpoint import Memory, Visit, keep_visit, recall_visit
from watch_inference.finding import discover
from watch_inference.forms import Plan
from watch_inference.model import Job, Options
from watch_inference.probes import Probes
from watch_inference.probes.gpu import Gpus
from watch_inference.probes.output import yield_to_the_job
from watch_inference.units import clean, cut
from watch_inference.views.out import CannotWrite, Out, ReaderGone

_DEMO_S = 2.0
_NOT_FOUND, _OURS, _NO_OUTPUT = 4, 70, 74


class Signalled(BaseException):
    """A signal asked us to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the command line, and end the process with its exit status."""
    _catch_signals()
    try:
        status = run(sys.argv[1:] if argv is None else argv, Out())
    except Misuse as error:
        status = _complain(str(error), 2)
    except discover.Wrong as error:
        status = _complain(str(error), 2)
    except discover.NotFound as error:
        status = _complain(str(error), _NOT_FOUND)
    except ReaderGone:
        status = 0
    except CannotWrite as error:
        status = _complain(f"standard output: {error}", _NO_OUTPUT)
    except Signalled as one:
        status = 128 + one.number
    except Exception as error:  # our bug: one honest line, never a traceback over a screen
        status = _complain(_bug(error), _OURS)
    # Nothing is left to flush, and an interpreter that waits for a stopped terminal would hang.
    os._exit(status)


def run(argv: Sequence[str], out: Out) -> int:
    """Do what the command line asks for, and give the exit status."""
    typed = config.words(argv)
    if typed.help:
        out.write(config.parser().format_help())
        return 0
    if typed.version:
        out.write(f"watch_inference {__version__}\n")
        return 0
    if typed.demo:
        return _demo(typed, out)
    return _watch(_plan(typed), out)


def _demo(typed: config.Words, out: Out) -> int:
    from watch_inference import demo

    with demo.start() as job:
        given = {**typed.given, "targets": [job.root]}
        if not any(given.get(form) for form in ("once", "plain", "json", "wait", "interval")):
            given["interval"] = _DEMO_S
        return _watch(_plan(typed._replace(given=given)), out)


def _plan(typed: config.Words) -> Plan:
    """Find the jobs; a root's own settings file has its say in what they are."""
    cwd = os.getcwd()
    targets = [os.path.join(cwd, one) for one in typed.given.get("targets", ())]
    path = config.file_for(typed.config, [one for one in targets if os.path.isdir(one)] or [cwd])
    settings = config.settings(path) if path is not None else {}
    options = config.options(typed.given, settings)
    memory = Memory() if options.cache else None
    visit = recall_visit(memory) if memory is not None else None
    jobs = discover.find(options, cwd, visit.root if visit is not None else None)
    beside = config.file_for(None, [job.root for job in jobs]) if path is None else None
    if beside is not None:
        settings = config.settings(beside)
        options = config.options(typed.given, settings)
        jobs = discover.find(options, cwd, visit.root if visit is not None else None)
    return Plan(options, jobs, memory)


def _watch(plan: Plan, out: Out) -> int:
    options, jobs = plan.options, plan.jobs
    missing = [job for job in jobs if job.waiting_for is not None]
    if missing and plan.single:
        why = missing[0].why[0] if missing[0].why else f"{missing[0].waiting_for}: not there"
        raise discover.NotFound(f"{why}; name the job's folder, its log or its pid")
    if plan.memory is not None and jobs[0].waiting_for is None:
        keep_visit(plan.memory, Visit(jobs[0].root, jobs[0].name, time.time()))
    yield_to_the_job()
    gpus = Gpus(options, time.monotonic)
    probes = [Probes(job, options, gpus, plan.memory, _finder(options, job)) for job in jobs]
    try:
        if options.form == "explain":
            return _explain(probes, out)
        return forms.show(plan, probes, out)
    finally:
        gpus.close()
        for probe in probes:
            probe.close()


def _explain(probes: Sequence[Probes], out: Out) -> int:
    """Say what was found, and by which rule."""
    for probe in probes:
        seen = probe.take(time.monotonic(), time.time())
        _, report = watch.look(None, seen, watch.Setting())
        lines = discover.explain(seen.job, seen.logs, seen.processes, seen.view)
        lines += tuple(f"  forecast: {one}" for one in report.track)
        out.write("".join(f"{clean(line)}\n" for line in lines))
    return 0


def _finder(options: Options, job: Job) -> Callable[[], Job] | None:
    """Make what looks again for a named path that is not there yet."""
    if job.waiting_for is None:
        return None

    def find() -> Job:
        wanted = options._replace(targets=(str(job.waiting_for),), logs=(), pids=())
        try:
            return discover.find(wanted, os.getcwd())[0]
        except (discover.NotFound, discover.Wrong):
            return job  # it is there, but not yet as a job: wait on

    return find


def _catch_signals() -> None:
    caught = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]

    def end(number: int, frame: object) -> None:
        # Once is enough: the way out is not interrupted. (Ignoring a signal that is already on
        # its way would make Python complain.)
        for one in caught:
            signal.signal(one, lambda *_: None)
        raise Signalled(number)

    for number in caught:
        signal.signal(number, end)


def _complain(text: str, status: int) -> int:
    lines = "\n".join(cut(clean(line), 300) for line in text.splitlines()) or "no reason known"
    try:
        os.write(2, f"watch_inference: {lines}\n".encode("utf-8", "replace"))
    except OSError:
        pass  # nobody there to be told
    return status


def _bug(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "?"
    if trace is not None:
        name = os.path.basename(trace.tb_frame.f_code.co_filename)
        where = f"{name}:{trace.tb_lineno}"
    return f"an error of ours, please report it: {type(error).__name__}: {error} ({where})"
