"""The fake world that tests share: a clock, a job that obeys, the monitor as a command."""

from __future__ import annotations

import atexit
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from tests.hostile import HOSTILE, unsafe_sequences
from tests.reference import NOISE, ROW

__all__ = [
    "COMMAND",
    "HOSTILE",
    "LINE",
    "Clock",
    "FakeJob",
    "Outcome",
    "environment",
    "needs",
    "small_job",
    "started",
    "strict_json",
    "unsafe_sequences",
    "watch",
]

HERE = Path(__file__).parent


def needs(*tools: str) -> None:
    """Skip the test where a tool is missing; under CI, which installs them, fail it."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [tool for tool in tools if shutil.which(tool, path=path) is None]
    if missing and os.environ.get("CI"):
        pytest.fail(f"not installed: {', '.join(missing)}")
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


class Clock:
    """Time that only `wait` moves: monotonic `now`, Unix time `wall`."""

    def __init__(self, at: float = 1000.0, wall: float = 1_771_927_872.0) -> None:
        self.at = at
        self.began = wall - at

    def now(self) -> float:
        return self.at

    def wall(self) -> float:
        return self.began + self.at

    def wait(self, seconds: float) -> None:
        self.at += seconds


# ------------------------------------------------------------------------------- a real job


class FakeJob:
    """A real process that holds `log` as stdout and stderr and does only what it is told.

    So it hangs by being left alone. Leave the `with` block to end it, whatever state it is in.
    """

    def __init__(self, log: Path | None, outputs: Iterable[Path] = (), *name: str) -> None:
        stream = subprocess.DEVNULL if log is None else os.open(log, _APPEND, 0o644)
        self._answers, answer = os.pipe()
        command = [sys.executable, "-I", "-S", str(HERE / "fake_job.py"), str(answer), *name]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=stream,
            stderr=stream,
            pass_fds=[answer],
            start_new_session=True,
            cwd="/",
        )
        self.pid = self.process.pid
        os.close(answer)
        if log is not None:
            os.close(stream)
        for output in outputs:
            self.write(output, b"")

    def say(self, text: bytes) -> None:
        """Write into the log."""
        self._order("say", text)

    def write(self, output: Path, text: bytes) -> None:
        """Append to an output, which stays open; a text without newline is half a line."""
        self._order("write", str(output), text)

    def stop(self) -> None:
        """Stop it as Ctrl-Z would, and wait until it is."""
        self.process.send_signal(signal.SIGSTOP)
        self._until(psutil.STATUS_STOPPED)

    def go_on(self) -> None:
        """Let a stopped job go on."""
        self.process.send_signal(signal.SIGCONT)

    def end(self, code: int = 0) -> None:
        """Let it exit by itself, and reap it."""
        self._send("end", code)
        self.process.wait(5)

    def kill(self, reap: bool = True) -> None:
        """Kill it; unreaped it stays a zombie."""
        self.process.kill()
        if reap:
            self.process.wait(5)
        else:
            self._until(psutil.STATUS_ZOMBIE)

    def __enter__(self) -> FakeJob:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(5)
        if self.process.stdin is not None:
            self.process.stdin.close()
        os.close(self._answers)

    def _send(self, *order: object) -> None:
        assert self.process.stdin is not None
        pickle.dump(order, self.process.stdin)
        self.process.stdin.flush()

    def _order(self, *order: object) -> None:
        self._send(*order)
        assert os.read(self._answers, 1) == b".", "the fake job is gone"

    def _until(self, status: str) -> None:
        deadline = time.monotonic() + 5
        while psutil.Process(self.pid).status() != status:
            assert time.monotonic() < deadline, f"never {status}"
            time.sleep(0.005)


_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT


# ---------------------------------------------------------------------- the monitor, as run


COMMAND = (sys.executable, "-m", "watch_inference")
LINE = b"%d/10 (0 err) 0.7 req/s avg_comp=788tok ETA=14s\n"


def small_job(root: Path, written: int = 4) -> Path:
    """Make a job of one dataset with ten prompts; its log is returned."""
    (root / "B1_chat").mkdir(parents=True)
    (root / "B1_chat" / "prompts.jsonl").write_bytes(b'{"prompt": "why?"}\n' * 10)
    (root / "B1_chat" / "tokenized_data.jsonl").write_bytes(ROW * written)
    log = root / "run.log"
    log.write_bytes(b"=== [1/1] B1_chat: 10 prompts, 0 already done ===\n" + NOISE + LINE % written)
    return log


class Outcome(NamedTuple):
    """What one run of the monitor gave."""

    code: int
    out: str
    err: str
    seconds: float

    def objects(self) -> list[dict[str, Any]]:
        """Every line of the output as a JSON object."""
        return [strict_json(line) for line in self.out.splitlines()]


def environment(**changes: str) -> dict[str, str]:
    """Make the environment of a plain terminal user; a cache of its own, removed at the end."""
    names = ("PATH", "HOME", "TMPDIR", "PYTHONPATH", "COVERAGE_PROCESS_CONFIG")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    plain = {"LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": "xterm-256color"}
    return {**kept, **plain, "XDG_CACHE_HOME": _cache(), **changes}


def watch(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    timeout: float = 30.0,
    colored: bool = False,
) -> Outcome:
    """Run `python -m watch_inference` to its end; fail on a traceback or unsafe output.

    `colored`: colours are allowed, and taken out of what is returned.
    """
    began = time.monotonic()
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=cwd,
        env=environment() if env is None else dict(env),
        input=stdin,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    seconds = time.monotonic() - began
    out = re.sub(rb"\x1b\[[0-9;]*m", b"", done.stdout) if colored else done.stdout
    for stream in (out, done.stderr):
        assert b"Traceback" not in stream, stream.decode(errors="replace")
        assert b"Exception ignored" not in stream, stream.decode(errors="replace")
        assert unsafe_sequences(stream) == []
    return Outcome(done.returncode, out.decode(), done.stderr.decode(), seconds)


@contextmanager
def started(*arguments: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the monitor; it is killed at the end of the block if it still runs."""
    with subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def strict_json(line: str | bytes) -> dict[str, Any]:
    """Parse one JSON object; NaN, Infinity and repeated keys are errors."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(pairs)) == len(pairs), "a key stands twice"
        return dict(pairs)

    value = json.loads(line, parse_constant=refuse, object_pairs_hook=unique)
    assert isinstance(value, dict)
    return value


def _cache() -> str:
    if not _made:
        _made.append(tempfile.mkdtemp(prefix="watch_inference_tests_"))
        atexit.register(shutil.rmtree, _made[0], ignore_errors=True)
    return _made[0]


_made: list[str] = []
