"""Standard output and the environment: readers that go, full disks, signals, locales."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.reference import ROW
from tests.worlds import COMMAND, FakeJob, environment, needs, small_job, started, watch


@pytest.fixture
def root(tmp_path: Path) -> Path:
    small_job(tmp_path / "job")
    return tmp_path / "job"


def test_a_reader_that_goes_away_ends_a_stream_in_silence(root: Path) -> None:
    with (
        FakeJob(root / "run.log"),
        started("--plain", "-n", "0.2", root) as stream,
    ):
        assert stream.stdout is not None
        assert stream.stdout.readline() != b""
        stream.stdout.close()
        assert stream.wait(5) == 0
        assert stream.stderr is not None
        assert stream.stderr.read() == b""


def test_a_reader_that_goes_away_is_noticed_between_two_lines(root: Path) -> None:
    with (
        FakeJob(root / "run.log"),
        started("--plain", "-n", "3600", root) as stream,
    ):
        assert stream.stdout is not None
        assert stream.stdout.readline() != b""
        stream.stdout.close()
        assert stream.wait(5) == 0


@pytest.mark.parametrize("form", ["--json", "--plain", "--explain", "--help", "--once"])
@pytest.mark.parametrize("target", ["/dev/full", ">&-"])
def test_a_stdout_that_takes_nothing_is_exit_74_and_one_line(
    form: str, target: str, root: Path
) -> None:
    (root / "B1_chat" / "tokenized_data.jsonl").write_bytes(ROW * 10)
    redirected = target if target == ">&-" else f">{target}"
    program = f'exec "$@" {redirected}'
    done = subprocess.run(
        ["sh", "-c", program, "sh", *COMMAND, form, str(root)],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        timeout=20,
        text=True,
        check=False,
    )
    assert done.returncode == 74
    assert done.stderr.startswith("watch_inference: ")
    assert done.stderr.count("\n") == 1


def test_an_end_of_stdin_does_not_end_a_stream_nor_spin_it(root: Path) -> None:
    with (
        FakeJob(root / "run.log"),
        started("--plain", "-n", "0.3", root) as stream,
    ):
        assert stream.stdout is not None
        for _ in range(4):
            assert stream.stdout.readline().startswith(b"time=")
        used = psutil.Process(stream.pid).cpu_times()
        stream.terminate()
    assert used.user + used.system < 1.0


def wait_until_it_catches_signals(pid: int) -> None:
    """Wait for the handler of SIGHUP: SIGINT has one of Python's own before."""
    deadline = time.monotonic() + 10
    while True:
        status = Path(f"/proc/{pid}/status").read_text()
        caught = int(status.split("SigCgt:")[1].split()[0], 16)
        if caught >> (signal.SIGHUP - 1) & 1:
            break
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("form", ["--plain", "--wait"])
def test_a_signal_ends_a_stream_with_its_number(form: str, by: signal.Signals, root: Path) -> None:
    with FakeJob(root / "run.log"), started(form, "-n", "60", root) as stream:
        if form == "--plain":
            assert stream.stdout is not None
            stream.stdout.readline()
        else:
            wait_until_it_catches_signals(stream.pid)
        stream.send_signal(by)
        assert stream.wait(5) == 128 + by
        assert stream.stderr is not None
        assert stream.stderr.read() == b""


def test_a_hangup_that_was_ignored_at_the_start_stays_ignored(root: Path) -> None:
    needs("nohup")
    with (
        FakeJob(root / "run.log"),
        subprocess.Popen(
            ["nohup", *COMMAND, "--plain", "-n", "0.2", str(root)],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as stream,
    ):
        assert stream.stdout is not None
        stream.stdout.readline()
        stream.send_signal(signal.SIGHUP)
        for _ in range(4):
            assert stream.stdout.readline() != b""
        stream.terminate()
        assert stream.wait(5) == 143


ENCODINGS = {
    "LC_ALL=C": {"LC_ALL": "C"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "no coercion": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "NO_COLOR": {"NO_COLOR": "1"},
    "FORCE_COLOR": {"FORCE_COLOR": "1"},
    "no TERM": {"TERM": ""},
    "TZ that is none": {"TZ": "Not/AZone"},
    "no HOME": {"HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"},
    "COLUMNS=0": {"COLUMNS": "0"},
    "COLUMNS=abc": {"COLUMNS": "abc"},
}


@pytest.mark.parametrize("changes", ENCODINGS.values(), ids=ENCODINGS)
def test_no_environment_breaks_the_report(changes: dict[str, str], root: Path) -> None:
    (root / "B2_漢字").mkdir()
    (root / "B2_漢字" / "prompts.jsonl").write_bytes(b"{}\n" * 10)
    with FakeJob(root / "run.log"):
        seen = watch(root, env=environment(**changes))
    assert seen.out.startswith("job running 20.0 %, 4/20")
    assert seen.code == 0
    if "LC_ALL" in changes:
        assert seen.out.isascii()


@pytest.mark.parametrize("columns", [40, 80, 132])
def test_the_report_is_as_wide_as_columns_say(columns: int, root: Path) -> None:
    with FakeJob(root / "run.log"):
        seen = watch(root, env=environment(COLUMNS=str(columns)))
    widths = [len(line) for line in seen.out.splitlines()[1:]]
    assert max(widths) <= columns
