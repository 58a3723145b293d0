"""The reference job in its full shape, made up: files in every state of its life, and the truth.

Ten datasets: A1 and A2 are tokenised already (2,400 lines each, no prompts); B1 to B8 have 83,288
prompts. One line in ten of the log is a progress line, one each 50 requests. What a run does is
`ReferenceJob.run`; the functions below put runs together to the states of a life.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

TOKENISED = {"A1_tokenised": 2400, "A2_tokenised": 2400}
PROMPTS = {
    "B1_glaive": 10000,
    "B2_chat": 12000,
    "B3_math": 15000,
    "B4_code": 10000,
    "B5_tools": 12716,
    "B6_qa": 10000,
    "B7_longdoc": 10000,
    "B8_sweagent": 3572,
}
TOTAL = 83_288
EVERY = 50  # requests between two progress lines
RATE = 0.7

# Requests that fail and leave no line: each 1,111th, but none in B2.
FAILS_EVERY = 1111
FLAWLESS = "B2_chat"

PROMPT = b'{"prompt": "Why is the sky blue?"}\n'
ROW = b'{"id": "c0ffee", "output_ids": [9707, 0, 151645]}\n'

# Nine lines for each progress line, with what a careless reader takes for progress.
NOISE = b"""\
Token indices sequence length is longer than the specified maximum (9120 > 8192). Running this
INFO:httpx:HTTP Request: POST http://127.0.0.1:30000/v1/chat/completions "HTTP/1.1 200 OK"
INFO:httpx:HTTP Request: POST http://127.0.0.1:30000/v1/chat/completions "HTTP/1.1 200 OK"

2026-02-24 10:11:12,123 WARNING client: retry 1/2 of request 8812, shard 3/15, dated 02/24
huggingface/tokenizers: The current process just got forked, after parallelism has already been
INFO:root:batch [12/400] took 3.2 s, 48 in flight, 1024/4096 KV blocks, ETA unknown
INFO:httpx:HTTP Request: POST http://127.0.0.1:30000/v1/chat/completions "HTTP/1.1 200 OK"
Setting `pad_token_id` to `eos_token_id`:151643 for open-end generation.
"""


class DatasetTruth(NamedTuple):
    """What is so of one dataset; `logged`, `errors`: of its newest line in the log, if any."""

    name: str
    total: int
    written: int = 0
    logged: int | None = None
    errors: int = 0
    resumed: int = 0


class Truth(NamedTuple):
    """What is so of the job, in the words of the JSON."""

    datasets: tuple[DatasetTruth, ...]
    state: str
    code: int

    @property
    def done(self) -> int:
        """Lines of the datasets that have prompts."""
        return sum(one.written for one in self.datasets)


class ReferenceJob:
    """The job's folder, which its runs change; `log` is the file that it would hold as stdout."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "logs" / "inference_all.log"
        self.log.parent.mkdir(parents=True)
        for name, lines in TOKENISED.items():
            (root / name).mkdir()
            self.output(name).write_bytes(ROW * lines)
        for name, prompts in PROMPTS.items():
            (root / name).mkdir()
            (root / name / "prompts.jsonl").write_bytes(PROMPT * prompts)
        self.truth = {name: DatasetTruth(name, total) for name, total in PROMPTS.items()}

    def output(self, name: str) -> Path:
        """Name a dataset's output file."""
        return self.root / name / "tokenized_data.jsonl"

    def run(self, until: str | None = None, requests: int = 0, fresh_log: bool = False) -> None:
        """Work until so many requests of a dataset are finished, or to the end; append to the log.

        What earlier runs have written is not done again: `resumed`, and out of the log's counts.
        """
        lines = [b"INFO:root:loading tokenizer and chat template\n", NOISE]
        for number, (name, total) in enumerate(PROMPTS.items(), 1):
            written = self.truth[name].written
            self.truth[name] = self.truth[name]._replace(resumed=written)
            if fresh_log:
                self.truth[name] = self.truth[name]._replace(logged=None, errors=0)
            todo = total - written
            lines.append(_heading(number, name, total, written))
            stop = requests if name == until else todo
            if todo:
                lines += self._requests(name, todo, stop)
            if name == until:
                break
            if todo:
                ending = f"=== {name}: finished, {todo} requests, {_failed(name, todo)} errors ==="
                lines.append(ending.encode() + b"\n")
        with self.log.open("wb" if fresh_log else "ab") as log:
            log.writelines(lines)

    def _requests(self, name: str, todo: int, stop: int) -> list[bytes]:
        with self.output(name).open("ab") as output:
            output.write(ROW * (stop - _failed(name, stop)))
        marks = list(range(EVERY, stop + 1, EVERY))
        if stop == todo and stop % EVERY:
            marks.append(stop)
        was = self.truth[name]
        self.truth[name] = was._replace(
            written=was.written + stop - _failed(name, stop),
            logged=marks[-1] if marks else was.logged,
            errors=_failed(name, marks[-1]) if marks else 0,
        )
        return [part for mark in marks for part in (NOISE, progress_line(name, mark, todo))]

    def true(self, state: str, code: int) -> Truth:
        """Say what is so now."""
        return Truth(tuple(self.truth.values()), state, code)

    def aged(self, log_s: float, output_s: float | None = None) -> None:
        """Set the files' times back: the log's, and those of all outputs and prompts."""
        now = time.time()
        os.utime(self.log, (now - log_s, now - log_s))
        for path in self.root.glob("*/*.jsonl"):
            age = log_s if output_s is None else output_s
            os.utime(path, (now - age, now - age))


def progress_line(name: str, done: int, total: int) -> bytes:
    """Write the job's progress line for so many requests of this run."""
    left = (total - done) / RATE
    text = f"{done}/{total} ({_failed(name, done)} err) {RATE} req/s avg_comp=788tok ETA="
    return (text + (f"{left / 3600:.1f}h" if left >= 3600 else f"{left:.0f}s") + "\n").encode()


def _heading(number: int, name: str, total: int, written: int) -> bytes:
    rest = f"{written} already done, concurrency=150 max_tokens=10240"
    if written == total:
        rest = "all done, skipping"
    return f"=== [{number}/{len(PROMPTS)}] {name}: {total} prompts, {rest} ===\n".encode()


def _failed(name: str, requests: int) -> int:
    return 0 if name == FLAWLESS else requests // FAILS_EVERY


# ---------------------------------------------------------------------------------- states


def at_the_start(job: ReferenceJob) -> Truth:
    """Alive, the first heading is there, no request has finished."""
    job.run("B1_glaive", 0)
    return job.true("starting", 0)


def in_the_middle_of_b3(job: ReferenceJob) -> Truth:
    """The file is 43 requests ahead of the log, as the rate since its last line explains."""
    job.run("B3_math", 6193)
    job.aged(65, 1)
    return job.true("running", 0)


def in_a_stall(job: ReferenceJob) -> Truth:
    """Alive, but nothing comes any more."""
    job.run("B3_math", 6193)
    job.aged(65, 1)
    return job.true("stalled", 3)


def at_the_end(job: ReferenceJob) -> Truth:
    """Everything is done, errors without a line counted, and the process is gone."""
    job.run()
    job.aged(60)
    return job.true("finished", 0)


def after_kill_9(job: ReferenceJob) -> Truth:
    """Killed an hour ago in the middle of a line."""
    job.run("B3_math", 6193)
    with job.output("B3_math").open("ab") as output:
        output.write(ROW[:20])
    job.aged(3600)
    return job.true("failed", 1)


def after_a_resume(job: ReferenceJob) -> Truth:
    """Killed in B3, run again with a new log, which counts the rest only; now in B4."""
    job.run("B3_math", 6193)
    job.run("B4_code", 420, fresh_log=True)
    job.aged(35, 1)
    return job.true("running", 0)


def after_a_second_run(job: ReferenceJob) -> Truth:
    """The same, but the second run appends to the log of the first."""
    job.run("B3_math", 6193)
    job.run("B4_code", 420)
    job.aged(35, 1)
    return job.true("running", 0)


class Scene(NamedTuple):
    """One state: how it comes about, the dataset whose output a live process holds, a silence."""

    make: Callable[[ReferenceJob], Truth]
    held: str | None
    silent_s: float = 0.0  # the job's last row was so long ago; half of it is a stall


SCENES = {
    "at the start": Scene(at_the_start, "B1_glaive"),
    "in the middle of B3": Scene(in_the_middle_of_b3, "B3_math"),
    "in a stall": Scene(in_a_stall, "B3_math", 2.0),
    "at the end": Scene(at_the_end, None),
    "after kill -9": Scene(after_kill_9, None),
    "after a resume": Scene(after_a_resume, "B4_code"),
    "after a second run": Scene(after_a_second_run, "B4_code"),
}
