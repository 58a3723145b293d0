"""A log on standard input, as `kubectl logs -f pod | watch_inference -` pipes it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds import COMMAND, environment, strict_json
from watch_inference.probes.stream import Stream

LINE = "{done}/300 (1 err) 0.7 req/s avg_comp=788tok ETA=5m\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for descriptor in (read, write):
        try:
            os.close(descriptor)
        except OSError:
            pass  # a test closes its end to say that the input ends


def test_what_has_arrived_is_read_without_waiting_for_more(pipe: tuple[int, int]) -> None:
    stream = Stream(pipe[0])
    assert stream.read(0.0, 0.0).datasets == ()
    os.write(pipe[1], LINE.format(done=50).encode() + b"100/3")
    reading = stream.read(2.0, 0.0)
    assert [(one.done, one.total, one.errors) for one in reading.datasets] == [(50, 300, 1)]
    assert (reading.changed_at, reading.error) == (2.0, None)
    os.write(pipe[1], b"00 (1 err) 0.7 req/s\n")
    assert stream.read(4.0, 0.0).datasets[0].done == 100


def test_the_end_of_the_input_is_said_and_the_last_line_is_read(pipe: tuple[int, int]) -> None:
    stream = Stream(pipe[0])
    os.write(pipe[1], LINE.format(done=50).encode().rstrip())
    os.close(pipe[1])
    reading = stream.read(1.0, 0.0)
    assert (reading.datasets[0].done, reading.error) == (50, "end of input")


def test_a_line_without_end_does_not_fill_the_memory(pipe: tuple[int, int]) -> None:
    stream = Stream(pipe[0])
    for _ in range(40):
        os.write(pipe[1], b"x" * 60_000)
        stream.read(1.0, 0.0)
    os.write(pipe[1], b"\n" + LINE.format(done=50).encode())
    assert stream.read(2.0, 0.0).datasets[0].done == 50


@pytest.mark.parametrize(("last", "code", "state"), [(150, 3, "unknown"), (299, 0, "finished")])
def test_a_log_that_is_piped_in_ends_as_it_deserves(
    tmp_path: Path, last: int, code: int, state: str
) -> None:
    text = "".join(LINE.format(done=done) for done in (50, 100, last + (last == 299)))
    done = subprocess.run(
        [*COMMAND, "--json", "-n", "1", "-"],
        input=text,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment(),
        timeout=60,
        check=False,
    )
    newest = strict_json(done.stdout.splitlines()[-1])
    assert (newest["job"]["state"], done.returncode, done.stderr) == (state, code, "")
    assert newest["progress"]["done"] == last + (last == 299)
