"""Watch simulated jobs for a day each and count the stalls that are reported: innocent, every one.

    python -m tests.rhythm_lab PATH/OF/simulate.py --jobs 20 [--log-only] [--stalls]

The simulator needs numpy; it is no part of this project, and this is no part of CI. Its own stalls
are switched off, or with --stalls kept: then it is counted how many were found, and how soon.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.stories import Story
from watch_inference.folding import rhythm
from watch_inference.folding.progress import advance
from watch_inference.judging.case import Case
from watch_inference.judging.rows import figures
from watch_inference.judging.standing import standing
from watch_inference.model import Forecast, State

DAY = 86400.0
FAMILIES = (
    "ref", "heavy_tail", "err_retry", "hetero", "sorted", "few_long", "many_small",
    "ref_regime", "mixed", "single", "resumed", "tqdm_fast",
)  # fmt: skip


class Reported(NamedTuple):
    """One stall as it was reported: when the last work was, when it was said, when it was over."""

    quiet_at: float
    at: float
    until: float
    limit: float
    phase: str


class Event(NamedTuple):
    """Something that a job does: `written` lines in all, a log line, or both."""

    at: float
    dataset: str
    written: int | None
    text: str


def watched(story: Story, events: list[Event], seconds: float, tick: float) -> list[Reported]:
    """Look at a job every `tick` seconds while the events happen; give the stalls reported."""
    found: list[Reported] = []
    stalled = False
    start, position = story.at, 0
    while story.at - start < seconds and position < len(events):
        story.at += tick
        said = []
        while position < len(events) and start + events[position].at <= story.at:
            event = events[position]
            if event.written is not None and event.dataset in story.outputs:
                story.writes(event.dataset, event.written)
            if event.text:
                said.append(event.text)
            position += 1
        if said:
            story.logs(*said)
        story.progress = advance(story.progress, story.sample())
        case = Case(story.sample(), story.progress, Forecast(), story.setting.limits)
        state = standing(case._replace(figures=figures(case))).state
        if state is State.STALLED and not stalled:
            quiet = story.at - (case.silence_s or 0.0)
            found.append(
                Reported(
                    quiet - start, story.at - start, 0.0, case.limit_s, rhythm.phase(story.progress)
                )
            )
        elif stalled and state is not State.STALLED:
            found[-1] = found[-1]._replace(until=story.at - start)
        stalled = state is State.STALLED
    return found


def told(truth: dict[str, Any], lines: Any, warp: tuple[float, float] | None) -> list[Event]:
    """Make events of what the simulator says; `warp`: a pause of so long, so often."""
    events: list[Event] = []
    spec = truth["spec"]
    for number, dataset in enumerate(spec["datasets"]):
        record = truth["ds"][number]
        name = dataset["name"]
        if record.get("skipped"):
            continue
        heading = f"=== {name}: {dataset['n']} prompts, {dataset['resumed']} already done ==="
        events.append(Event(_warped(float(record["t_start"]), warp), name, None, heading))
        texts = lines(truth, number)
        count = int(dataset["resumed"])
        for at in record["okt"]:
            count += 1
            events.append(Event(_warped(float(at), warp), name, count, ""))
        for (_, text), at in zip(texts, record["line_t"], strict=True):
            events.append(
                Event(_warped(float(at) - 1_760_000_000.0, warp) + 1e-3, name, None, text)
            )
    return sorted(events, key=lambda event: event.at)


def _warped(at: float, warp: tuple[float, float] | None) -> float:
    return at if warp is None else at + warp[0] * (at // warp[1])


def jobs(simulate: Any, arguments: argparse.Namespace) -> Iterator[tuple[str, list[Event], Any]]:
    """Simulate so many jobs, one family after another; every third pauses now and then."""
    for number in range(arguments.first, arguments.first + arguments.jobs):
        family = FAMILIES[number % len(FAMILIES)]
        spec = simulate.make_spec(family, 9000 + number)
        if not arguments.stalls:
            spec["stall_rate"], spec["n_restart"] = 0.0, 0
        truth = simulate.run_job(spec)
        warp = (60.0 + 15.0 * (number % 7), 1800.0) if number % 3 == 2 else None
        yield f"{family} {number}", told(truth, simulate._lines, warp), (truth, warp)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("simulate")
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--tick", type=float, default=10.0)
    parser.add_argument("--log-only", action="store_true")
    parser.add_argument("--stalls", action="store_true")
    arguments = parser.parse_args()
    described = importlib.util.spec_from_file_location("simulate", arguments.simulate)
    assert described is not None and described.loader is not None
    simulate = importlib.util.module_from_spec(described)
    sys.modules["simulate"] = simulate
    described.loader.exec_module(simulate)
    total = 0
    for name, events, (truth, warp) in jobs(simulate, arguments):
        story = Story(**{d["name"]: d["n"] for d in truth["spec"]["datasets"]})
        for one in truth["spec"]["datasets"]:
            if one["resumed"]:
                story.writes(one["name"], one["resumed"], arriving=False)
        if arguments.log_only:
            story.outputs.clear()
        story.process(cpu_s=1.0)
        found = watched(story, events, DAY, arguments.tick)
        real = [
            (_warped(begin, warp), _warped(end, warp))
            for begin, end, kind in truth["events"]
            if kind in ("stall", "restart")
        ]
        false = [one for one in found if not any(a - 5 <= one.at <= b + 60 for a, b in real)]
        if warp is not None:  # the first two pauses are not known to be usual
            false = [one for one in false if one.at > 3 * warp[1]]
        total += len(false)
        print(
            f"{name:16} {events[-1].at / 3600:5.1f} h  reported {len(found)}, false {len(false)}",
            flush=True,
        )
        for one in false:
            print(f"    {one}")
        for begin, end in real if arguments.stalls else ():
            if begin < min(DAY, events[-1].at) and end - begin > 60:
                hit = [one for one in found if begin <= one.at <= end + arguments.tick]
                said = f"found after {hit[0].at - begin:.0f} s" if hit else "not found"
                print(f"    stall of {end - begin:.0f} s at {begin:.0f}: {said}")
    print(f"{arguments.jobs} jobs, {total} stalls reported that were none")


if __name__ == "__main__":
    main()
