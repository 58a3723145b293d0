"""The simulator's real files, read by the real probes, against the same job told directly.

    python -m tests.forecast_end_to_end SIMULATOR_FOLDER [--families ref,single] [--seeds 0:3]

Prints both forecasts for each job and share of its life; exit 1 where they differ by more than
2 %. Not part of the tests: the simulator is elsewhere, and needs numpy.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.forecast_lab import observed
from watch_inference import watch
from watch_inference.finding import discover
from watch_inference.forecasting.forecast import forecast
from watch_inference.model import Options, ProcessReading, ProcessView, Sample
from watch_inference.probes import Probes
from watch_inference.probes.gpu import Gpus

ALLOWED = 0.02
LOOKS = 100  # of a watched job, at equal distances: the fewer, the coarser


class Both(NamedTuple):
    """What the two ways said: remaining seconds and their interval."""

    read: tuple[float | None, ...]
    told: tuple[float | None, ...]

    @property
    def apart(self) -> float:
        """The largest difference of the three figures, as a share."""
        if None in self.read or None in self.told:
            return 0.0 if self.read == self.told else 1.0
        pairs = zip(self.read, self.told, strict=True)
        return max(abs((read or 0) / max(1e-9, told or 0) - 1) for read, told in pairs)


def cold(simulate: Any, job: Any, now: float, root: str) -> Both:
    """Look once at files that stand as the job had left them at `now`."""
    simulate.write_files(job, now, root)
    return Both(read(simulate, root, iter([now])), told(simulate, job, now, "cold"))


def watched(simulate: Any, job: Any, now: float, root: str) -> Both:
    """Look again and again at files that grow."""

    def growing() -> Iterator[float]:
        for number in range(1, LOOKS + 1):
            simulate.write_files(job, now * number / LOOKS, root)
            yield now * number / LOOKS

    return Both(read(simulate, root, growing()), told(simulate, job, now, "watched"))


def read(simulate: Any, root: str, looks: Iterator[float]) -> tuple[float | None, ...]:
    """Read the files through probes and loop, clock and process handed in."""
    now = [next(looks)]  # writes the files that are looked for
    options = Options(targets=(root,), cache=False, ask_server=False, ask_gpu=False)
    gpus = Gpus(options, lambda: now[0])
    probes = Probes(discover.find(options, root)[0], options, gpus)
    process = ProcessReading(1, "sleeping", started=simulate.T0)

    def take(at: float, wall: float) -> Sample:
        seen = probes.take(at, wall, whole=True)
        return seen._replace(processes=(process,), view=ProcessView(True))

    stream = watch.reports(
        [take], lambda: now[0], lambda: simulate.T0 + now[0], lambda seconds: None, 2.0
    )
    figures = next(stream)[0].figures
    for now[0] in looks:
        figures = next(stream)[0].figures
    probes.close()
    return figures.remaining_s, figures.remaining_low_s, figures.remaining_high_s


def told(simulate: Any, job: Any, now: float, mode: str) -> tuple[float | None, ...]:
    """Tell the forecast directly what files can tell: not how those that wait will be asked."""
    observation = simulate.observe(job, now, mode)
    for dataset in observation["datasets"]:
        dataset["out_len_cv2"] = None
        asked = dataset["log"] and dataset["status"] != "queued"
        dataset["concurrency"] = dataset["max_tokens"] = None
        if asked:
            truth = next(d for d in job["spec"]["datasets"] if d["name"] == dataset["name"])
            dataset["concurrency"], dataset["max_tokens"] = truth["C"], truth["mt"]
        if dataset["log"]:
            dataset["mean_comp"] = dataset["log"][-1]["avg_comp"]
    return forecast(observed(observation))[:3]


def main() -> int:
    """Compare what is asked for on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("simulator")
    parser.add_argument("--families", default="ref,resumed,single,many_small,few_long,tqdm_fast")
    parser.add_argument("--seeds", default="0:2")
    parser.add_argument("--at", default="0.05,0.3,0.7")
    parser.add_argument("--modes", default="cold")
    given = parser.parse_args()
    sys.path.insert(0, given.simulator)
    simulate = importlib.import_module("simulate")
    importlib.import_module("more_families")
    worst = 0.0
    for family in given.families.split(","):
        for seed in range(*map(int, given.seeds.split(":"))):
            job = simulate.make_job(family, seed)
            for share in map(float, given.at.split(",")):
                for mode in given.modes.split(","):
                    way, now = {"cold": cold, "watched": watched}[mode], share * job["T"]
                    with tempfile.TemporaryDirectory() as root:
                        both = way(simulate, job, now, os.path.join(root, "run"))
                    worst = max(worst, both.apart)
                    print(family, seed, share, mode, f"{100 * both.apart:.2f} %", *_hours(both))
    print(f"worst {100 * worst:.2f} %")
    return int(worst > ALLOWED)


def _hours(both: Both) -> list[str]:
    each = (both.read, both.told)
    return ["/".join("-" if x is None else f"{x / 3600:.3f}" for x in one) + " h" for one in each]


if __name__ == "__main__":
    sys.exit(main())
