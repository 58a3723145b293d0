"""Where the ways of `ways.py` play: a folder for one real job, and the end of all its processes."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

import psutil

JOB = Path(__file__).parent / "way_job.py"
PATIENCE_S = 15.0
PROMPT = b'{"prompt": "Why is the sky blue?"}\n'


class Truth(NamedTuple):
    """What is so of a job that was started; `pids` are those that do its work."""

    root: Path
    pids: tuple[int, ...]
    logs: tuple[Path, ...]
    written: int
    datasets: tuple[str, ...] = ("B1_glaive", "B2_chat")
    bound: bool = True  # each of its logs and processes leads to all of it


class Stage:
    """A folder with datasets, and the processes that are started in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "synth_100k"
        self.logs = self.root / "logs"
        self.log = self.logs / "all.log"
        self.stop = folder / "stop"
        self.started: list[subprocess.Popen[bytes]] = []
        self.endings: list[Callable[[], object]] = []
        self.logs.mkdir(parents=True)

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop.touch()
        for pid in self.ready():
            _end(pid)
        for ending in self.endings:
            ending()
        for process in self.started:
            _end_group(process)

    def datasets(self, *names: str, prompts: int = 50, at: Path | None = None) -> Path:
        """Make dataset folders with prompts."""
        for name in names or ("B1_glaive", "B2_chat"):
            folder = (at or self.root) / name
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "prompts.jsonl").write_bytes(PROMPT * prompts)
        return self.root

    def job(self, *words: object, root: object = None) -> list[str]:
        """Write the job's command line."""
        named = self.root if root is None else root
        words = (JOB, named, "--stop", self.stop, *words)
        return [sys.executable, "-I", "-S", *map(str, words)]

    def line(self, *words: object, root: object = None) -> str:
        """Write the job's command line for a shell."""
        return shlex.join(self.job(*words, root=root))

    def run(
        self, command: list[str], log: Path | None = None, cwd: Path | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own, its output in a log or nowhere."""
        stream = os.open(log or os.devnull, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            cwd=cwd or self.folder,
            start_new_session=True,
            env={**os.environ, "PATH": f"{self.folder}/bin:{os.environ['PATH']}"},
        )
        os.close(stream)
        self.started.append(process)
        return process

    def shell(self, script: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        """Start what a person would type into a shell."""
        return self.run(["bash", "-c", script], cwd=cwd)

    def program(self, name: str, text: str) -> Path:
        """Put a program into the PATH that `run` gives."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def ready(self) -> list[int]:
        """Name the job's processes that have begun to wait, by the pids that they have here."""
        files = self.folder.glob("ready.*")
        return sorted(int(text) for text in (file.read_text() for file in files) if text)

    def wait(self, number: int = 1) -> tuple[int, ...]:
        """Wait until so many processes of the job are ready."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.ready()) < number:
            assert time.monotonic() < deadline, f"{len(self.ready())} of {number} are ready"
            time.sleep(0.02)
        return tuple(self.ready())

    def truth(self, number: int = 1, written: int = 14, *logs: Path) -> Truth:
        """Wait for the job, and say what is so of it where it is as usual."""
        return Truth(self.root, self.wait(number), logs or (self.log,), written)


@contextmanager
def stand_in() -> Iterator[int]:
    """Give the pid of a process that stands for the monitor: no job is below it."""
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process.pid
        process.kill()


def _end(pid: int) -> None:
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        if str(JOB) in process.cmdline() or process.status() == psutil.STATUS_ZOMBIE:
            process.kill()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE_S)
