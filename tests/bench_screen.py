"""Measure the live screen against the usual tools: bytes, CPU, memory, first frame; on one pty.

`python -m tests.bench_screen [SECONDS]` prints a table; what is over its limit is marked with !.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.live import ANSWER, QUERY, Live
from tests.reference import NOISE, PROMPT, PROMPTS, ROW, TOKENISED

SETTLE_S = 4.0
QUIET_S = 0.1  # a gap between two refreshes

# Figure and limit; None: told, but not promised.
LIMITS = {
    "first frame s": 0.3,
    "its bytes": 2500.0,
    "bytes a refresh": 120.0,
    "bytes a minute": None,
    "CPU s a minute": 0.6,
    "RSS MB": 32.0,
}
REST_LIMIT = 100.0  # bytes in a minute


class Figures(NamedTuple):
    """What one tool did, in the order of LIMITS."""

    first_s: float
    first_bytes: int
    refresh_bytes: float
    minute_bytes: float
    cpu_s: float
    rss_mb: float


@contextmanager
def job(rate: float) -> Iterator[Path]:
    """Make the reference job in a temporary folder, with a process that writes `rate` rows/s."""
    with tempfile.TemporaryDirectory(prefix="watch_bench_") as folder:
        root = Path(folder) / "synth_100k"
        for number, (name, total) in enumerate(PROMPTS.items()):
            (root / name).mkdir(parents=True)
            (root / name / "prompts.jsonl").write_bytes(PROMPT * total)
            (root / name / "tokenized_data.jsonl").write_bytes(ROW * (total if number < 2 else 0))
        for name, total in TOKENISED.items():
            (root / name).mkdir()
            (root / name / "tokenized_data.jsonl").write_bytes(ROW * total)
        (root / "logs").mkdir()
        with (root / "logs" / "run.log").open("wb") as log:
            command = [sys.executable, "-m", "tests.bench_screen", "--write", str(root), str(rate)]
            child = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                time.sleep(3.0)
                yield root
            finally:
                child.kill()
                child.wait()


def write(root: Path, rate: float) -> None:
    """Work through B3 as the real job does: noise, a progress line every 2 s, rows."""
    total, done, began = PROMPTS["B3_math"], 0, time.monotonic()
    noise = NOISE.splitlines(keepends=True)
    print(f"=== B3_math: {total} prompts ===", flush=True)
    with (root / "B3_math" / "tokenized_data.jsonl").open("ab", buffering=0) as output:
        step = 0
        while True:
            step += 1
            time.sleep(max(0.0, began + step * 0.1 - time.monotonic()))
            wanted = min(total, int(step * 0.1 * max(rate, 7.0 if step < 20 else rate)))
            output.write(ROW * max(0, wanted - done))
            done = max(done, wanted)
            if rate or step < 20:
                os.write(1, noise[step % len(noise)])
            if step % 20 == 0 and (rate or step < 40):
                print(f"{done}/{total} (0 err) 7.0 req/s avg_comp=788tok ETA=0.6h", flush=True)


def measured(
    command: Sequence[str], seconds: float, answer: bool = True, settle: float = SETTLE_S
) -> Figures:
    """Run a tool on an 80x24 terminal for so long after it has settled, and count."""
    began = time.monotonic()
    with Live(command, answer=False) as live:
        bursts: list[tuple[float, int]] = []
        cpu_at: float | None = None
        while (now := time.monotonic() - began) < settle + seconds:
            if cpu_at is None and now >= settle:
                cpu_at = _cpu(live.child.pid)
            size = len(live.output)
            live.pump(0.01)
            new = live.output[size:]
            if new:
                at = time.monotonic() - began
                if bursts and at - bursts[-1][0] < QUIET_S:
                    bursts[-1] = (at, bursts[-1][1] + len(new))
                else:
                    bursts.append((at, len(new)))
                if answer and QUERY in new:
                    live.type(ANSWER)
        cpu = _cpu(live.child.pid) - (cpu_at or 0.0)
        rss = _status(live.child.pid, "VmHWM")
        live.child.send_signal(signal.SIGTERM)
    steady = [size for at, size in bursts if at > settle]
    first = next((burst for burst in bursts if burst[1] >= 200), bursts[0])
    return Figures(
        first[0],
        first[1],
        median(steady) if steady else 0.0,
        sum(steady) / seconds * 60,
        cpu / seconds * 60,
        rss / 1024,
    )


def _cpu(pid: int) -> float:
    """CPU seconds of a process and of its children, those that have ended too."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    return 0


def tools(root: Path) -> dict[str, list[str]]:
    """The tools that are installed, ours first."""
    inner = (
        f"tail -n5 {shlex.quote(str(root))}/logs/run.log; wc -l {shlex.quote(str(root))}/*/*.jsonl"
    )
    known = {
        "watch_inference": [sys.executable, "-m", "watch_inference", "-n", "1", str(root)],
        "watch tail wc": ["watch", "-n1", inner],
        "top": ["top", "-d", "1"],
        "htop": ["htop", "-d", "10"],
        "btop": ["btop"],
        "glances": ["glances", "-t", "1"],
    }
    return {name: command for name, command in known.items() if shutil.which(command[0])}


def line(name: str, figures: Figures, promised: bool) -> str:
    """Write one row of the table."""
    cells = []
    for value, limit in zip(figures, LIMITS.values(), strict=True):
        over = promised and limit is not None and value > limit
        cells.append(f"{value:.2f}{'!' if over else ''}" if value < 10 else f"{value:.0f}")
        cells[-1] += "!" if over and value >= 10 else ""
    return f"| {name} | " + " | ".join(cells) + " |"


def main(words: Sequence[str]) -> None:
    if words[:1] == ["--write"]:
        write(Path(words[1]), float(words[2]))
        return
    seconds = float(words[0]) if words else 30.0
    print("| tool | " + " | ".join(LIMITS) + " |")
    print("|---|" + "---|" * len(LIMITS))
    with job(7.0) as root:
        for name, command in tools(root).items():
            print(line(name, measured(command, seconds), name == "watch_inference"), flush=True)
        ours = tools(root)["watch_inference"]
        print(line("ours, answering nothing", measured(ours, seconds, False), True), flush=True)
    with job(0.0) as root:
        figures = measured(tools(root)["watch_inference"], max(60.0, seconds), settle=75.0)
        mark = "!" if figures.minute_bytes > REST_LIMIT else ""
        print(line("ours, job at rest", figures, True))
        print(
            f"\nat rest: {figures.minute_bytes:.0f}{mark} bytes a minute, at most {REST_LIMIT:.0f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
