"""The fakes themselves: a test that stands on them should know that they are what they say."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil

from tests.terminal import run_pty
from tests.worlds import Clock, FakeJob


def test_only_waiting_moves_the_clock() -> None:
    clock = Clock(at=10, wall=1000)
    clock.wait(7200)
    assert (clock.now(), clock.wall()) == (7210, 8200)


def test_a_fake_job_holds_its_files_and_does_what_it_is_told(tmp_path: Path) -> None:
    log, output = tmp_path / "run.log", tmp_path / "out.jsonl"
    with FakeJob(log, [output]) as job:
        job.say(b"one\n")
        job.write(output, b"{}\n{")
        held = {opened.path for opened in psutil.Process(job.pid).open_files()}
        assert held == {str(log), str(output)}
        job.stop()
        assert psutil.Process(job.pid).status() == psutil.STATUS_STOPPED
        job.go_on()
        job.end()
        assert not psutil.pid_exists(job.pid)
    assert (log.read_bytes(), output.read_bytes()) == (b"one\n", b"{}\n{")


def test_a_fake_job_can_be_a_zombie_and_is_gone_after_the_block(tmp_path: Path) -> None:
    with FakeJob(tmp_path / "run.log") as job:
        job.kill(reap=False)
        assert psutil.Process(job.pid).status() == psutil.STATUS_ZOMBIE
    assert not psutil.pid_exists(job.pid)


def test_the_terminal_types_resizes_and_reads_the_screen() -> None:
    script = 'stty -echo; read word; stty size; printf "\\033[2;3H%s" "$word"; stty echo'
    seen = run_pty(["sh", "-c", script], 10, 40, [(0.2, (12, 50)), (0.3, b"hello\n")])
    assert seen.screen[:2] == ("12 50", "  hello")
    assert (seen.code, seen.restored) == (0, True)


def test_the_terminal_sees_what_was_not_put_back() -> None:
    hidden = run_pty(["sh", "-c", "printf '\\033[?25l'"])
    raw = run_pty(["sh", "-c", "stty raw"])
    assert (hidden.restored, raw.restored) == (False, False)


def test_the_terminal_sends_signals_and_hangs_up() -> None:
    ended = run_pty(["sleep", "30"], script=[(0.1, signal.SIGTERM)])
    closed = run_pty(["sleep", "30"], script=[(0.1, None)])
    assert (ended.code, closed.code) == (-signal.SIGTERM, -signal.SIGHUP)


def test_a_slow_terminal_takes_no_more_than_its_rate() -> None:
    seen = run_pty(["sh", "-c", "exec yes"], drain=1000, seconds=1.0)
    assert 300 < len(seen.output) < 1500
    assert seen.code is None
