"""How fast files are read, against the tools that everybody knows; `make bench` runs this.

Each figure is a ratio of two times taken in turn on the same files, the median of five; the files
are made in a temporary folder, are in the page cache, and are removed at the end.

    python -m tests.bench [--small] [--rounds N] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from watch_inference.files.checkpoint import Memory
from watch_inference.model import Dataset, Options
from watch_inference.probes.log import Log
from watch_inference.probes.output import Outputs

GIB = 1 << 30
NOISE = (
    b"2026-02-24 10:11:12,345 INFO httpx HTTP Request: POST http://127.0.0.1:30000/v1/chat "
    b'"HTTP/1.1 200 OK"\n'
    b"[2026-02-24 10:11:12 TP0] Decode batch. #running-req: 64, #token: 81234, token usage: 0.42\n"
    b"WARNING transformers Token indices sequence length is longer than (9120 > 8192)\n"
)
IMPORTS = [sys.executable, "-c", "import argparse, json, psutil"]


class Row(NamedTuple):
    """One line of the table: seconds of ours and of the peer, and what their ratio may be."""

    work: str
    peer: str
    ours: list[float]
    theirs: list[float]
    limit: float


def main() -> int:
    """Make the files, take the times, print the table; 1 where a limit is passed."""
    options = parser().parse_args()
    scale = 16 if options.small else 1
    with tempfile.TemporaryDirectory(prefix="watch-bench-", dir=options.folder) as name:
        problem = room(Path(name), 5.5 * GIB / scale)
        if problem:
            print(problem, file=sys.stderr)
            return 2
        rows = []
        for row in measured(Path(name), scale, options.rounds):
            print(told(row), flush=True)
            rows.append(row)
        idle = refreshes(Path(name), options.rounds)
        print(idle[0], flush=True)
    passed = idle[1] or any(ratio(row) > row.limit for row in rows)
    return int(passed and not options.small)


def parser() -> argparse.ArgumentParser:
    """Say what may be asked for."""
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--small", action="store_true", help="a sixteenth of the sizes; no verdict")
    made.add_argument("--rounds", type=int, default=5, help="times that each is run (default 5)")
    made.add_argument("--folder", help="where the files are made (default: the temporary folder)")
    return made


def room(folder: Path, needed: float) -> str | None:
    """Say what is missing: disk, or memory to keep the files in the page cache."""
    free = shutil.disk_usage(folder).free
    if free < needed * 1.2:
        return f"bench: {needed / GIB:.1f} GiB needed in {folder}; try --small or --folder"
    memory = Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]
    if int(memory) * 1024 < needed * 1.3:
        return f"bench: {needed / GIB:.1f} GiB of page cache needed; try --small"
    return None


def measured(folder: Path, scale: int, rounds: int) -> Iterator[Row]:
    """Give each row as soon as it is measured."""
    long, short, log = folder / "B1/out.jsonl", folder / "B2/out.jsonl", folder / "logs/job.log"
    for path in (long, short, log):
        path.parent.mkdir()
    fill(long, b"x" * 8191 + b"\n", 3 * GIB // scale)
    yield compare(
        "first count, 8 kB lines", "wc -l", lambda: count(long), run("wc", "-l", long), 1.1, rounds
    )
    yield compare_visits(folder, long, rounds)
    fill(short, b"y" * 119 + b"\n", GIB // scale)
    yield compare(
        "first count, 120 B lines",
        "wc -l",
        lambda: count(short),
        run("wc", "-l", short),
        4.0,
        rounds,
    )
    progress = fill_log(log, GIB // scale)
    yield compare(
        "progress out of a log, 1 % of it",
        "grep -cF req/s",
        lambda: read_log(log, progress),
        run("grep", "-cF", "req/s", log),
        1.0,
        rounds,
    )
    yield compare(
        "newest progress, first output",
        "python -c 'import ...'",
        lambda: first_output(log),
        run(*IMPORTS),
        4.0,
        rounds,
    )


def compare(
    work: str,
    peer: str,
    ours: Callable[[], None],
    theirs: Callable[[], None],
    limit: float,
    rounds: int,
) -> Row:
    """Take both times, in turn; one round before the first is not counted."""
    row = Row(work, peer, [], [], limit)
    for _ in range(rounds + 1):
        row.theirs.append(timed(theirs))
        row.ours.append(timed(ours))
    return row._replace(ours=row.ours[1:], theirs=row.theirs[1:])


def compare_visits(folder: Path, path: Path, rounds: int) -> Row:
    """Take the times of a first visit to the outputs and of a second one, 1 MiB later."""
    row = Row("second visit, 1 MiB added", "the first visit", [], [], 0.05)
    for number in range(rounds):
        cache = {"XDG_CACHE_HOME": str(folder / f"cache{number}")}
        row.theirs.append(timed(lambda: count(path, Memory(cache))))  # noqa: B023
        fill(path, b"x" * 8191 + b"\n", 1 << 20)
        row.ours.append(timed(lambda: count(path, Memory(cache))))  # noqa: B023
    return row


def refreshes(folder: Path, rounds: int) -> tuple[str, bool]:
    """Measure the CPU time of a refresh with nothing new, ten datasets, small and large."""
    kinds = {}
    for size in ("small", "large"):
        datasets = [dataset(folder, size, number) for number in range(10)]
        probe = Outputs(Options())
        log = Log(str(folder / "logs/job.log"), [one.name for one in datasets], whole=True)
        probe.read(0.0, time.time(), datasets, whole=True)
        log.read(0.0, time.time())
        kinds[size] = (probe, log, datasets)
    spent: dict[str, list[float]] = {size: [] for size in kinds}
    for _ in range(2 * rounds):
        for size, kind in kinds.items():
            spent[size].append(refresh_cpu(*kind))
    small, large = (median(spent[size]) * 1000 for size in ("small", "large"))
    told = f"one refresh, nothing new     CPU {small:.2f} ms, {large:.2f} ms with large outputs"
    over = max(small, large) > 5 or large > 1.1 * small
    return f"{told}   (limits 5 ms, 10 %: {large / small - 1:+.0%})", over


def refresh_cpu(probe: Outputs, log: Log, datasets: list[Dataset]) -> float:
    """Take the CPU seconds of one refresh, over a hundred."""
    begun = time.process_time()
    for number in range(100):
        probe.read(float(number), time.time(), datasets)
        log.read(float(number), time.time())
    return (time.process_time() - begun) / 100


def dataset(folder: Path, size: str, number: int) -> Dataset:
    """Make one of ten datasets; the large one has the large outputs as hard links."""
    place = folder / f"{size}{number}"
    place.mkdir()
    prompts, output = place / "prompts.jsonl", place / "out.jsonl"
    fill(prompts, b'{"prompt": "x"}\n', 1 << 16)
    if size == "large" and number < 2:
        output.hardlink_to(folder / f"B{number + 1}/out.jsonl")
    else:
        fill(output, b'{"answer": "x"}\n', 1 << 17)
    return Dataset(place.name, str(place), (str(prompts),), (str(output),))


# ---------------------------------------------------------------------------------- work


def count(path: Path, memory: Memory | None = None) -> None:
    """Count one output whole, as a first look does."""
    probe = Outputs(Options(), memory)
    one = Dataset("B1", str(path.parent), (), (str(path),))
    reading = probe.read(0.0, time.time(), [one], whole=True)[0]
    probe.close()
    assert reading.counted == path.stat().st_size


def read_log(path: Path, lines: int) -> None:
    """Read one log whole; every progress line of it is found."""
    probe = Log(str(path), [f"B{number}" for number in range(10)], whole=True)
    reading = probe.read(0.0, time.time())
    probe.close()
    assert reading.behind == 0
    assert sum(one.done for one in reading.datasets) == lines


def first_output(path: Path) -> None:
    """Start the program on a log, and wait for its first line."""
    command = [sys.executable, "-m", "watch_inference", "--plain", str(path)]
    cache = {**os.environ, "XDG_CACHE_HOME": str(path.parent)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=cache) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()
    assert b"done=" in line, line


def run(*command: str | Path) -> Callable[[], None]:
    """Give a function that runs a peer."""
    words = [str(word) for word in command]

    def peer() -> None:
        # Into a pipe: grep stops at the first match where nobody could see the count.
        subprocess.run(words, stdout=subprocess.PIPE, check=True)

    return peer


def timed(work: Callable[[], None]) -> float:
    """Take the wall time of some work."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


# ---------------------------------------------------------------------------------- files


def fill(path: Path, line: bytes, size: int) -> None:
    """Append whole lines to a file, about so many bytes."""
    block = line * max(1, (1 << 20) // len(line))
    with path.open("ab") as file:
        for _ in range(max(1, size // len(block))):
            file.write(block)


def fill_log(path: Path, size: int) -> int:
    """Write a log of ten datasets, 1 % of it progress lines; give how many those are."""
    each = size // (33 * len(NOISE) + 60) // 10
    with path.open("wb", buffering=1 << 20) as file:
        for name in range(10):
            file.write(b"=== B%d ===\n" % name)
            for done in range(1, each + 1):
                file.write(NOISE * 33)
                file.write(b"%d/%d (0 err) 0.7 req/s avg_comp=788tok ETA=4.0h\n" % (done, each))
    return each * 10


# ---------------------------------------------------------------------------------- words


def ratio(row: Row) -> float:
    """Divide the medians of each round's pair."""
    return median(ours / theirs for ours, theirs in zip(row.ours, row.theirs, strict=True))


def told(row: Row) -> str:
    """Say one row in words."""
    verdict = "ok" if ratio(row) <= row.limit else "OVER"
    return (
        f"{row.work:34} {median(row.ours):8.3f} s   {row.peer:24} {median(row.theirs):8.3f} s"
        f"   ratio {ratio(row):5.2f}, at most {row.limit:4.2f}   {verdict}"
    )


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
