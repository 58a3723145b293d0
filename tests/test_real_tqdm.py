"""Batch jobs that none of us wrote: real tqdm over a real loop, and a script that buffers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.worlds import watch

# Each says on a pipe how far it is, then waits to be let go on: so that the count is known.
ONE_BAR = """
import os, sys
from tqdm import tqdm
for number in tqdm(range(400), desc="Processing", mininterval=0):
    if number == 137:
        tqdm.write("Token indices sequence length is longer (9120 > 8192)", file=sys.stderr)
        os.write(int(sys.argv[1]), b"137\\n")
        sys.stdin.readline()
"""

# tqdm's own pace: at most ten frames a second, the last one when the bar is closed.
BAR_A_DATASET = """
import json, os, pathlib, sys
from tqdm import tqdm
root = pathlib.Path(sys.argv[2])
for name, prompts in (("B1_chat", 300), ("B2_math", 120), ("B3_code", 500)):
    with (root / name / "tokenized_data.jsonl").open("a") as output:
        for number in tqdm(range(prompts), desc=name):
            print(json.dumps({"id": number}), file=output, flush=True)
    os.write(int(sys.argv[1]), b"%d\\n" % prompts)
    sys.stdin.readline()
"""

# stdout to a file is written in blocks of 8 KiB: the log is far behind.
BUFFERED = """
import os, pathlib, sys
root = pathlib.Path(sys.argv[2])
with (root / "B1_chat" / "tokenized_data.jsonl").open("a") as output:
    print("=== [1/1] B1_chat: 2000 prompts, 0 already done ===")
    for number in range(1, 1501):
        print('{"text": "yes"}', file=output, flush=True)
        if number % 5 == 0:
            print(f"{number}/2000 (0 err) 9.5 req/s avg_comp=788tok ETA=4m")
    os.write(int(sys.argv[1]), b"1500\\n")
    sys.stdin.readline()
"""


class Script:
    """A running script; `count` waits until it says how far it is."""

    def __init__(self, process: subprocess.Popen[bytes], says: Iterator[str]) -> None:
        self.pid = process.pid
        self._process, self._says = process, says

    def count(self) -> int:
        return int(next(self._says))

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()

    def finish(self) -> None:
        self.go_on()
        assert self._process.wait(20) == 0


@contextmanager
def running(code: str, log: Path, root: Path, stream: str) -> Iterator[Script]:
    reading, writing = os.pipe()
    with log.open("ab") as opened, os.fdopen(reading) as says:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(writing), str(root)],
            stdin=subprocess.PIPE,
            stdout=opened if stream == "stdout" else subprocess.DEVNULL,
            stderr=opened if stream == "stderr" else subprocess.DEVNULL,
            pass_fds=[writing],
            env={"PATH": os.environ["PATH"]},  # no PYTHONUNBUFFERED, no TQDM_*
        )
        os.close(writing)
        with process:
            try:
                yield Script(process, iter(says))
            finally:
                process.kill()


def look(target: Path) -> tuple[dict[str, Any], int]:
    seen = watch("--once", "--json", target)
    (report,) = seen.objects()
    return report, seen.code


def prompts(root: Path, **datasets: int) -> None:
    for name, lines in datasets.items():
        (root / name).mkdir(parents=True)
        (root / name / "prompts.jsonl").write_text('{"prompt": "why?"}\n' * lines)


def test_a_log_of_one_tqdm_bar_shows_the_count_of_the_loop(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    with running(ONE_BAR, log, tmp_path, "stderr") as script:
        count = script.count()
        report, code = look(log)
        assert log.read_bytes().count(b"\n") < 3  # carriage returns only, one line
        assert (report["job"]["state"], code) == ("running", 0)
        (dataset,) = report["datasets"]
        assert (dataset["name"], dataset["done"], dataset["total"]) == ("train", count, 400)
        assert (dataset["done_from"], dataset["written"]) == ("logged", None)
        assert report["log"]["format"] == "tqdm"
        assert report["process"]["pid"] == script.pid
        script.finish()
        report, code = look(log)
    assert report["progress"]["done"] == report["progress"]["total"] == 400
    assert (report["job"]["state"], code) == ("finished", 0)


def test_a_bar_a_dataset_is_that_dataset(tmp_path: Path) -> None:
    root = tmp_path / "job"
    prompts(root, B1_chat=300, B2_math=120, B3_code=500)
    log = root / "run.log"
    with running(BAR_A_DATASET, log, root, "stderr") as script:
        assert script.count() == 300
        script.go_on()
        assert script.count() == 120
        report, code = look(root)
        rows = {row["name"]: (row["written"], row["logged"]) for row in report["datasets"]}
        assert rows == {"B1_chat": (300, 300), "B2_math": (120, 120), "B3_code": (0, None)}
        assert (report["progress"]["done"], report["progress"]["total"]) == (420, 920)
        assert (report["progress"]["check"], report["job"]["state"], code) == ("ok", "running", 0)
        script.go_on()
        assert script.count() == 500
        script.finish()
        report, code = look(root)
    assert (report["progress"]["done"], report["job"]["state"], code) == (920, "finished", 0)


def test_a_block_buffered_log_does_not_hide_what_is_written(tmp_path: Path) -> None:
    root = tmp_path / "job"
    prompts(root, B1_chat=2000)
    log = root / "run.log"
    with running(BUFFERED, log, root, "stdout") as script:
        count = script.count()
        last = log.read_bytes().rpartition(b"\n")[0].split(b"\n")[-1]
        report, code = look(root)
        (dataset,) = report["datasets"]
        assert (dataset["written"], dataset["done"], dataset["done_from"]) == (
            count,
            count,
            "written",
        )
        assert dataset["logged"] == int(last.split(b"/")[0]) < count
        assert dataset["total"] == 2000
        assert (report["job"]["state"], code) == ("running", 0)
