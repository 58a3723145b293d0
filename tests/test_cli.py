"""The command line from outside: wrong use, what each form says, and the exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.reference import ROW
from tests.worlds import COMMAND, LINE, FakeJob, environment, needs, small_job, started, watch


@pytest.fixture
def root(tmp_path: Path) -> Path:
    small_job(tmp_path / "job")
    return tmp_path / "job"


# ------------------------------------------------------------------------------- wrong use

WRONG = {
    "no such option": ["--nonsense"],
    "an option without its value": ["--log"],
    "two forms": ["--plain", "--json"],
    "an interval below 0.1": ["-n", "0.05"],
    "an interval above an hour": ["-n", "3601"],
    "an interval that is no number": ["-n", "abc"],
    "an interval of nan": ["-n", "nan"],
    "a duration without sense": ["--stall-after", "5x"],
    "a negative duration": ["--stall-after=-1s"],
    "an empty duration": ["--stall-after", ""],
    "an endless duration": ["--stall-after", "9" * 400 + "s"],
    "fewer than none missing": ["--allow-missing=-1"],
    "missing as a word": ["--allow-missing", "x"],
    "a colour that is none": ["--color", "sometimes"],
    "a way to count that is none": ["--count", "words"],
    "a total that is no number": ["--total", "B1_chat=x"],
    "a negative total": ["--total=-5"],
    "a total in other digits": ["--total", "١٠"],
    "a pid that is a word": ["--pid", "abc"],
    "pid 0": ["--pid", "0"],
    "a negative pid": ["--pid=-1"],
    "a pid beyond the kernel's": ["--pid", str(2**31)],
    "a pid of 5,000 digits": ["--pid", "9" * 5000],
    "a pattern that is none": ["--match", "["],
    "no pattern at all": ["--match", ""],
    "a configuration that is not there": ["--config", "/nonexistent/watch.toml"],
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_wrong_use_is_one_line_on_stderr_and_exit_2(arguments: list[str], root: Path) -> None:
    seen = watch("--once", *arguments, root)
    assert seen.out == ""
    assert seen.err.startswith("watch_inference: ")
    assert seen.err.count("\n") == 1
    assert len(seen.err) < 400
    assert seen.code == 2


def test_a_log_that_is_a_folder_is_named(root: Path) -> None:
    seen = watch("--once", "--log", root / "B1_chat", root)
    assert (seen.code, seen.out) == (2, "")
    assert "B1_chat" in seen.err


@pytest.mark.parametrize("form", ["--once", "--explain"])
def test_a_target_that_is_not_there_is_exit_4_and_named(form: str, tmp_path: Path) -> None:
    seen = watch(form, tmp_path / "nowhere")
    assert (seen.code, seen.out) == (4, "")
    assert "nowhere" in seen.err
    assert seen.err.count("\n") == 1


def test_a_folder_without_any_job_in_it_is_exit_4(tmp_path: Path) -> None:
    seen = watch("--once", tmp_path)
    assert seen.code == 4
    assert str(tmp_path) in seen.err


def test_a_stream_waits_for_a_target_that_is_not_there_yet(tmp_path: Path) -> None:
    target = tmp_path / "later"
    with started("--plain", "-n", "0.1", target) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert b"waiting for" in first
        assert b"later" in first
        small_job(target)
        for line in process.stdout:
            if b"done=4 total=10" in line:
                break
        process.terminate()
        assert process.wait(5) == 143


def test_a_log_that_may_not_be_read_is_named(root: Path) -> None:
    (root / "run.log").chmod(0)
    needs("setpriv")
    allowed = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    command = [*(allowed if os.geteuid() == 0 else []), *COMMAND, "--once", "--json", str(root)]
    done = subprocess.run(
        command, env=environment(), capture_output=True, timeout=20, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    assert "ermission denied" in done.stdout + done.stderr


# ----------------------------------------------------------------------------------- forms


def test_help_names_every_option_and_the_exit_codes() -> None:
    seen = watch("--help")
    assert seen.code == 0
    for option in (
        "TARGET -n --interval --once --plain --json --wait --log --outputs --prompts"
        " --total --pid --stall-after --allow-missing --color --ascii --config --explain"
        " --demo -V --version -h --help"
    ).split():
        assert option in seen.out
    assert max(map(len, seen.out.splitlines())) <= 80


def test_without_a_terminal_the_report_stands_once(root: Path) -> None:
    log = root / "run.log"
    with FakeJob(log, [root / "B1_chat" / "tokenized_data.jsonl"]):
        seen = watch(root)
    lines = seen.out.splitlines()
    assert lines[0].startswith("job running 40.0 %, 4/10")
    assert len(lines[0]) <= 100
    assert all(line == line.rstrip() and len(line) <= 80 for line in lines)
    assert (seen.code, seen.err) == (0, "")


def test_the_current_folder_is_the_target_when_it_lies_in_a_root(root: Path) -> None:
    (report,) = watch("--once", "--json", cwd=root / "B1_chat").objects()
    assert (report["job"]["root"], report["job"]["found"]) == (str(root), "cwd")


def test_a_log_or_a_pid_is_a_target_too(root: Path) -> None:
    log = root / "run.log"
    with FakeJob(log, [root / "B1_chat" / "tokenized_data.jsonl"]) as process:
        (by_log,) = watch("--once", "--json", log).objects()
        (by_pid,) = watch("--once", "--json", str(process.pid)).objects()
    for report in (by_log, by_pid):
        assert report["job"]["root"] == str(root)
        assert report["progress"]["done"] == 4
        assert report["process"]["pid"] == process.pid


def test_plain_is_one_line_of_pairs_in_order(root: Path) -> None:
    log = root / "run.log"
    with FakeJob(log, [root / "B1_chat" / "tokenized_data.jsonl"]):
        seen = watch("--once", "--plain", root)
    assert seen.out.count("\n") == 1
    keys = [pair.split("=")[0] for pair in seen.out.split(' reason="')[0].split()]
    order = (
        "time job state dataset done total fraction errors requests_per_s tokens_per_s"
        " remaining_s remaining_low_s remaining_high_s finish log_age_s output_age_s check server"
        " gpu reason"
    ).split()
    assert keys == [key for key in order if key in keys]
    assert {"time", "job", "state", "dataset", "done", "total", "fraction", "check"} <= set(keys)


def test_wait_is_silent_until_the_job_has_ended_then_says_one_sentence(root: Path) -> None:
    log, output = root / "run.log", root / "B1_chat" / "tokenized_data.jsonl"
    with FakeJob(log, [output]) as process, started("--wait", "-n", "0.1", root) as waiting:
        time.sleep(1)
        assert waiting.poll() is None
        process.write(output, ROW * 6)
        process.say(LINE % 10)
        process.end()
        out, err = waiting.communicate(timeout=15)
    assert (waiting.returncode, err) == (0, b"")
    assert out.startswith(b"job finished")
    assert out.count(b"\n") == 1


def test_a_stream_says_so_when_the_job_dies_and_ends_with_its_status(root: Path) -> None:
    log = root / "run.log"
    with (
        FakeJob(log, [root / "B1_chat" / "tokenized_data.jsonl"]) as process,
        started("--json", "-n", "0.2", root) as stream,
    ):
        assert stream.stdout is not None
        assert b'"state": "running"' in stream.stdout.readline().replace(b'":"', b'": "')
        process.kill()
        began = time.monotonic()
        rest, _ = stream.communicate(timeout=20)
    assert 4 < time.monotonic() - began < 10  # nothing has followed for 5 s
    assert stream.returncode == 1
    assert rest.splitlines()[-1].replace(b'":"', b'": "').count(b'"state": "failed"') >= 1


def test_explain_gives_a_rule_for_each_choice(root: Path) -> None:
    with FakeJob(root / "run.log", [root / "B1_chat" / "tokenized_data.jsonl"]) as process:
        seen = watch("--explain", root)
    assert seen.code == 0
    for word in (str(root), "run.log", "B1_chat", str(process.pid)):
        assert word in seen.out


def test_outputs_that_match_nothing_yet_are_no_error(root: Path) -> None:
    with FakeJob(root / "run.log"):
        (report,) = watch("--once", "--json", "--outputs", "part-*.jsonl", root).objects()
    assert report["datasets"][0]["written"] in (0, None)
    assert (report["progress"]["done"], report["datasets"][0]["done_from"]) == (4, "logged")


def test_one_look_does_not_load_what_only_the_screen_needs(root: Path) -> None:
    command = [sys.executable, "-X", "importtime", *COMMAND[1:], "--once", "--plain", str(root)]
    done = subprocess.run(
        command, env=environment(), capture_output=True, timeout=20, text=True, check=False
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "watch_inference.cli" in loaded
    assert {"blessed", "asyncio", "http.client", "wcwidth"} & loaded == set()
