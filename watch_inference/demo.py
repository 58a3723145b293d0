"""A small simulated job: a folder comes in, a process that works through it goes out; writes there.

`script` is the whole job as a list of lines, each with its time; `play` writes them when they are
due. `start` gives the monitor such a job in a temporary folder. A keeper between the two owns the
folder: its input is a pipe from the monitor, and when that ends, however the monitor ended, it
ends the job and removes the folder.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LOG = "logs/inference_all.log"
TOKENISED = ("A1_tokenised", 240)  # an output without prompts: nothing left to do
TICK_S = 0.2


class Plan(NamedTuple):
    """One dataset: how many, how large, how many at once; `share` of the job's time."""

    name: str
    prompts: int
    resumed: int  # written by an earlier run
    slots: int
    tokens: int  # median completion
    every: int  # requests between two progress lines
    share: float


PLANS = (
    Plan("B1_glaive", 640, 240, 16, 320, 20, 0.18),
    Plan("B2_dolly", 600, 0, 24, 700, 25, 0.20),
    Plan("B3_longalign", 90, 0, 6, 2400, 5, 0.36),
    Plan("B4_math", 480, 0, 24, 480, 20, 0.18),
)

NOISE = (
    "Token indices sequence length is longer than the specified maximum sequence length (9120 >"
    " 8192). Running this sequence through the model will result in indexing errors",
    "huggingface/tokenizers: The current process just got forked. Disabling parallelism ...",
    "Setting `pad_token_id` to `eos_token_id`:151643 for open-end generation.",
    "WARNING:root:prompt 17/32 of this batch was cut to 8192 tokens",
    "",
)
REQUEST = 'INFO:httpx:HTTP Request: POST http://127.0.0.1:30000/v1/chat/completions "HTTP/1.1 {}"'


class Write(NamedTuple):
    """One line, due `at` seconds after the start: into the log, or a dataset's output."""

    at: float
    dataset: str | None
    text: str


class Finished(NamedTuple):
    """One request that came back, seconds after its dataset began."""

    at: float
    tokens: int
    failed: bool


def script(seconds: float, seed: int) -> list[Write]:
    """Plan every line that a job of that length writes, in order."""
    rng = random.Random(seed)
    at = 0.04 * seconds
    writes = [
        Write(0.0, None, "INFO:root:loading tokenizer and chat template"),
        Write(at / 2, None, "INFO:root:4 datasets to do, 1 is tokenised already"),
    ]
    for number, plan in enumerate(PLANS, 1):
        todo = plan.prompts - plan.resumed
        heading = (
            f"=== [{number}/{len(PLANS)}] {plan.name}: {plan.prompts} prompts,"
            f" {plan.resumed} already done, concurrency={plan.slots} max_tokens=8192 ==="
        )
        writes.append(Write(at, None, heading))
        requests = _requests(plan, todo, plan.share * seconds, rng)
        writes += _lines(plan, requests, at, rng)
        at += requests[-1].at
        errors = sum(one.failed for one in requests)
        ending = f"=== {plan.name}: finished, {todo} requests, {errors} errors ==="
        writes.append(Write(at, None, ending))
        at += 0.01 * seconds
    writes.append(Write(at, None, "INFO:root:all datasets finished"))
    return writes


def _requests(plan: Plan, todo: int, seconds: float, rng: random.Random) -> list[Finished]:
    # As many at once as there are slots, the next when one ends: so the drain at the end of a
    # dataset, where few long answers are left, comes by itself.
    free = [0.0] * plan.slots
    requests = []
    for _ in range(todo):
        tokens = min(8192, max(8, int(plan.tokens * rng.lognormvariate(0, 0.5))))
        end = heapq.heappop(free) + tokens
        heapq.heappush(free, end)
        requests.append(Finished(end, tokens, rng.random() < 0.006))
    scale = seconds / max(free)
    return sorted(one._replace(at=one.at * scale) for one in requests)


def _lines(
    plan: Plan, requests: list[Finished], begin: float, rng: random.Random
) -> Iterator[Write]:
    errors = tokens = 0
    for number, one in enumerate(requests, 1):
        at = begin + one.at
        if one.failed:
            errors += 1
            yield Write(at, None, REQUEST.format("500 Internal Server Error"))
            yield Write(at, None, f"ERROR:root:request {number} given up after 3 tries: timed out")
        else:
            tokens += one.tokens
            yield Write(at, plan.name, _row(plan.resumed + number - 1, one.tokens, rng))
        for _ in range(int(9 / plan.every + rng.random())):  # nine for each progress line
            noise = REQUEST.format("200 OK") if rng.random() < 0.6 else rng.choice(NOISE)
            yield Write(at, None, noise)
        if number % plan.every == 0 or number == len(requests):
            rate = number / one.at
            mean = tokens / max(1, number - errors)
            counts = f"{number}/{len(requests)} ({errors} err) {rate:.1f} req/s"
            left = _eta((len(requests) - number) / rate)
            yield Write(at, None, f"  {counts} avg_comp={mean:.0f}tok ETA={left}")


def _eta(seconds: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.1f}{unit}"
    return f"{seconds:.0f}s"


def _row(number: int, tokens: int, rng: random.Random) -> str:
    # Every sixteenth token only: a line is 200 to 2,000 bytes, as long as its answer was.
    shown = [rng.randrange(151643) for _ in range(min(230, 16 + tokens // 16))]
    row = {"id": number, "completion_tokens": tokens, "finish_reason": "stop", "output_ids": shown}
    return json.dumps(row)


def prepare(root: Path, seed: int) -> None:
    """Write what lies there before the job begins: prompts, and what earlier runs left; once."""
    if (root / LOG).exists():
        return
    rng = random.Random(seed + 1)
    earlier = time.time() - 3 * 3600
    for plan in PLANS:
        folder = root / plan.name
        folder.mkdir(parents=True)
        prompt = "Explain, step by step, what the following program prints. "
        asked = [{"id": n, "prompt": prompt * rng.randint(1, 9)} for n in range(plan.prompts)]
        _write_rows(folder / "prompts.jsonl", [json.dumps(one) for one in asked], earlier)
        if plan.resumed:
            done = [_row(n, plan.tokens, rng) for n in range(plan.resumed)]
            _write_rows(folder / "tokenized_data.jsonl", done, earlier)
    name, lines = TOKENISED
    (root / name).mkdir()
    rows = [_row(number, 400, rng) for number in range(lines)]
    _write_rows(root / name / "tokenized_data.jsonl", rows, earlier)
    (root / LOG).parent.mkdir()
    (root / LOG).touch()


def _write_rows(path: Path, rows: list[str], modified: float) -> None:
    path.write_text("".join(row + "\n" for row in rows))
    os.utime(path, (modified, modified))


def play(root: Path, writes: list[Write], parent: int | None) -> bool:
    """Write each line when it is due; False once `parent` is not ours any more."""
    began = time.monotonic()
    outputs = {}
    for write in writes:
        while (wait := began + write.at - time.monotonic()) > 0:
            if parent is not None and os.getppid() != parent:
                return False
            time.sleep(min(wait, TICK_S))
        if write.dataset is None:
            print(write.text, flush=True)
            continue
        if write.dataset not in outputs:
            path = root / write.dataset / "tokenized_data.jsonl"
            outputs[write.dataset] = path.open("a")
        print(write.text, file=outputs[write.dataset], flush=True)
    return True


def work(root: Path, seconds: float, seed: int, parent: int | None) -> None:
    """Be the job: stdout and stderr go to the log, as `>> log 2>&1` in a shell would have it."""
    prepare(root, seed)
    log = os.open(root / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    if not play(root, script(seconds, seed), parent):
        shutil.rmtree(root.parent)  # the keeper was killed, and nobody else will


def keep(seconds: float, seed: int) -> None:
    """Run the job in a folder of its own until the input ends, then leave nothing behind."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="watch_inference_") as folder:
        root = Path(folder, "demo_job")
        prepare(root, seed)
        # A copy: the job must look like anybody's script, not like a second monitor.
        program = shutil.copy(__file__, Path(folder, "run_inference.py"))
        command = [sys.executable, program, str(root), "--seconds", str(seconds)]
        command += ["--seed", str(seed), "--parent", str(os.getpid())]
        job = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            # A monitor that looks before the job holds its log would rightly see no job.
            while not (root / LOG).stat().st_size and job.poll() is None:
                time.sleep(0.05)
            print(root, flush=True)
            while not select.select([0], [], [], TICK_S)[0]:
                job.poll()  # a finished job must not be seen as a zombie
        finally:
            _end(job)


def _end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    try:
        child.wait(2)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


class Demo:
    """A running demo job at `root`; leave the `with` block to end and remove it."""

    def __init__(self, seconds: float, seed: int) -> None:
        command = [sys.executable, "-m", "watch_inference.demo", "--keep"]
        command += ["--seconds", str(seconds), "--seed", str(seed)]
        self._keeper = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._keeper.stdout is not None
        self.root = os.fsdecode(self._keeper.stdout.readline().rstrip(b"\n"))
        if not self.root:
            self.close()
            raise OSError("the demo job did not start: see the lines above")

    def close(self) -> None:
        """End the job and wait until its folder is gone; more than once is harmless."""
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._keeper.wait(5)
        except subprocess.TimeoutExpired:
            _end(self._keeper)

    def __enter__(self) -> Demo:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start(seconds: float = 120.0, seed: int = 0) -> Demo:
    """Start a simulated job of that length in a temporary folder of its own."""
    return Demo(seconds, seed)


def main(arguments: list[str] | None = None) -> None:
    """Run the simulated job in ROOT until it is done."""
    parser = argparse.ArgumentParser(prog="python -m watch_inference.demo", description=__doc__)
    parser.add_argument("root", nargs="?", type=Path, metavar="ROOT", help="a new folder")
    parser.add_argument("--seconds", type=float, default=120.0, help="how long it runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--parent", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.keep:
        keep(options.seconds, options.seed)
    elif options.root is None:
        parser.error("name a folder for the job: ROOT")
    else:
        work(options.root, options.seconds, options.seed, options.parent)


if __name__ == "__main__":
    main()
