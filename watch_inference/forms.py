"""A plan in; its jobs watched and shown in the form that was asked for, and the exit status out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import NamedTuple

from watch_inference import views, watch
from watch_inference.files.checkpoint import Memory
from watch_inference.files.scorekeeping import keep_scores
from watch_inference.judging.case import Limits
from watch_inference.model import Job, Options, Report, Said, State
from watch_inference.probes import Probes
from watch_inference.units import clean
from watch_inference.views.looks import Looks, can_draw, choose
from watch_inference.views.out import Out, ReaderGone

_STATUS = {State.FAILED: 1, State.STALLED: 3, State.UNKNOWN: 3}
_SCREEN_S = 2.0
_STREAM_S = 60.0
# Between two lines of a stream the job is looked at this often, so that a change is told at once.
_LOOK_S = 2.0
_READER_S = 0.25


class Plan(NamedTuple):
    """What is to be done: options, the jobs found, and the memory of earlier visits."""

    options: Options
    jobs: tuple[Job, ...]
    memory: Memory | None

    @property
    def on_screen(self) -> bool:
        """Tell whether to draw the live screen: a terminal that can move its cursor."""
        free = self.options.form == "auto" and not self.options.once
        return free and os.isatty(1) and can_draw(os.environ)

    @property
    def single(self) -> bool:
        """Tell whether to look once only, and then exit."""
        if self.options.once or self.options.form == "explain":
            return True
        endless = self.options.interval is not None or self.on_screen
        return self.options.form == "auto" and not endless


def show(plan: Plan, probes: Sequence[Probes], out: Out) -> int:
    """Watch the jobs in the form that was asked for, and give the exit status."""
    if plan.on_screen:
        return _screen(plan, probes)
    if plan.single:
        return _once(plan, probes, out)
    if plan.options.form == "wait":
        return _wait(plan, probes, out)
    return _stream(plan, probes, out)


def _screen(plan: Plan, probes: Sequence[Probes]) -> int:
    """Draw how the jobs stand until somebody leaves."""
    interval = plan.options.interval or _SCREEN_S
    looks = _looks(plan.options, "utf-8", tty=True)
    module = views.module("screen")
    try:
        with module.Screen(looks, interval, stdin=_keyboard(plan)) as screen:
            for said in _reports(plan, probes, screen.wait, interval):
                screen.show(said)
    except module.Quit:
        pass
    return 0


def _keyboard(plan: Plan) -> int:
    """Give the descriptor that keys come from: the terminal itself where stdin is the log."""
    if any("-" in job.logs for job in plan.jobs):
        try:
            return os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            pass  # no keys, then
    return 0


def _once(plan: Plan, probes: Sequence[Probes], out: Out) -> int:
    """Say once how the jobs stand."""
    said = next(_reports(plan, probes, _patience(out), _LOOK_S, whole=True))
    _view(plan.options, out).show(said)
    if plan.options.form == "auto" and not plan.options.once:
        _hint("this was the report, once; -n 10 goes on, a terminal (ssh -t) has the live screen")
    return _status(said)


def _wait(plan: Plan, probes: Sequence[Probes], out: Out) -> int:
    """Say nothing until the jobs are over, then one sentence each."""
    from watch_inference.views.sentence import sentence  # late: no other stream needs it

    said: watch.Reports = ()
    for said in watch.until_over(_reports(plan, probes, _patience(out), _LOOK_S)):  # noqa: B007
        pass
    out.write("".join(f"{sentence(report)}\n" for report in said))
    return _status(said)


def _stream(plan: Plan, probes: Sequence[Probes], out: Out) -> int:
    """Say again and again how the jobs stand, until they are over."""
    interval = plan.options.interval or _STREAM_S
    looks = _reports(plan, probes, _patience(out), interval / ceil(interval / _LOOK_S))
    view = _view(plan.options, out)
    newest: list[watch.Reports] = []
    for said in watch.due(_noted(watch.until_over(looks), newest), interval):
        view.show(said)
        if plan.options.form == "auto":  # after the report, lines
            view = views.load("plain")(out)
    return _status(newest[0])


def _noted(looks: Iterator[watch.Reports], newest: list[watch.Reports]) -> Iterator[watch.Reports]:
    """Pass reports on, and keep the newest: the status is of all jobs, spoken of last or not."""
    for said in looks:
        newest[:] = [said]
        yield said


def _reports(
    plan: Plan, probes: Sequence[Probes], wait: watch.Wait, interval: float, whole: bool = False
) -> Iterator[watch.Reports]:
    options = plan.options
    limits = Limits(options.stall_after, options.allow_missing)
    setting = watch.Setting(limits, options.counting, clean(os.uname().nodename))

    def taking(probe: Probes) -> watch.Take:
        return lambda at, wall: probe.take(at, wall, whole)

    takes = [taking(probe) for probe in probes]
    looks = watch.reports(takes, time.monotonic, time.time, wait, interval, setting)
    return looks if plan.memory is None else _scored(looks, plan.memory)


def _scored(looks: Iterator[watch.Reports], memory: Memory) -> Iterator[watch.Reports]:
    """Pass reports on, and keep what was forecast for the next visit."""
    kept: dict[int, tuple[Said, ...]] = {}
    for said in looks:
        for number, report in enumerate(said):
            scores = report.scores
            if report.root and scores is not None and scores.said != kept.get(number, ()):
                kept[number] = scores.said
                keep_scores(memory, report.root, report.name, scores)
        yield said


def _patience(out: Out) -> Callable[[float], None]:
    """Make a wait that ends the program when the reader goes."""

    def wait(seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _READER_S))
            if not out.alive():
                raise ReaderGone

    return wait


def _view(options: Options, out: Out) -> views.View:
    if options.form in ("plain", "json"):
        view: views.View = views.load(options.form)(out)
    else:
        view = views.load("report")(out, _width(), _looks(options, out.encoding, tty=False))
    return view


def _looks(options: Options, encoding: str, tty: bool) -> Looks:
    """Choose colours and characters by what was asked for and what the environment says."""
    locale = next((os.environ[n] for n in ("LC_ALL", "LC_CTYPE", "LANG") if os.environ.get(n)), "")
    utf8 = "UTF8" in locale.upper().replace("-", "") and encoding != "ascii"
    return choose(os.environ, options.color, options.ascii, utf8, tty)


def _width() -> int:
    text = os.environ.get("COLUMNS", "")
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text[:5]) < 1000 else 80


def _status(said: Sequence[Report]) -> int:
    """Give the exit status of what was said: 1 before 3 before 0."""
    statuses = {_STATUS.get(report.state, 0) for report in said}
    return next((one for one in (1, 3) if one in statuses), 0)


def _hint(text: str) -> None:
    """Say a word to a person who sits at a terminal."""
    try:
        if os.isatty(2):
            os.write(2, f"watch_inference: {text}\n".encode())
    except OSError:
        pass  # nobody there to be told
