"""The live screen on a real pty, read back by an emulator: drawn right, few bytes, left tidy."""

from __future__ import annotations

import re
import shlex
import signal
import sys
import time

import pytest

from tests.live import ANSWER, JOB, QUERY, Live, last_picture
from tests.worlds import environment, needs
from watch_inference.views.screen import unfamiliar_keys

SENTENCE = "synth_100k running 37."
FAST = (*JOB, "70", "0.1")
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP]


def done_of(line: str) -> int:
    """The count in the line with the bar: ─── 31,204 / 83,288   37.5 %."""
    found = re.search(r"([0-9,]+) / 83,288", line)
    assert found is not None, line
    return int(found[1].replace(",", ""))


def test_it_is_drawn_and_q_leaves_the_first_sentence() -> None:
    with Live() as live:
        live.sees("q quit  ? help")
        assert live.lines[0].startswith("synth_100k  running  B3_magicoder since 03:12")
        live.type(b"q")
        assert live.ends() == 0
        assert live.restored
        assert live.output.rpartition(b"\x1b[K")[2].startswith(SENTENCE.encode())
        assert live.output.endswith(b" errors\r\r\n")


@pytest.mark.parametrize(
    ("ending", "code"), [*((one, 128 + one) for one in SIGNALS), (b"\x03", 130)], ids=str
)
def test_a_signal_leaves_the_terminal_as_it_was(ending: signal.Signals | bytes, code: int) -> None:
    with Live() as live:
        live.sees("q quit")
        if isinstance(ending, bytes):
            live.type(ending)
        else:
            live.child.send_signal(ending)
        assert live.ends(3.0) == code
        assert live.restored
        assert SENTENCE in live.lines[-2]


def test_two_signals_at_once_are_one() -> None:
    with Live() as live:
        live.sees("q quit")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGWINCH):
            live.child.send_signal(number)
        assert live.ends(3.0) in (130, 143)
        assert live.restored
        assert b"Traceback" not in live.output


def test_an_error_of_ours_is_told_after_the_terminal_is_restored() -> None:
    with Live((*JOB, "7", "0.2", "1", "ours")) as live:
        assert live.ends() == 70
        assert live.restored
        assert live.output.rpartition(b"\x1b[?1049l")[2].endswith(b"watch_inference: ours\r\n")


def test_a_window_that_is_closed_ends_it() -> None:
    with Live() as live:
        live.sees("q quit")
        live.hang_up()
        assert live.ends(3.0) == 129


def test_a_hang_up_without_a_signal_ends_it_too() -> None:
    code = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN);"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    with Live((sys.executable, "-c", code, *JOB)) as live:
        live.sees("q quit")
        live.hang_up()
        assert live.ends(3.0) == 0


@pytest.mark.parametrize("ending", SIGNALS, ids=str)
def test_stopped_by_ctrl_s_it_is_still_left_at_once_and_tidy(ending: signal.Signals) -> None:
    with Live(FAST) as live:
        live.sees("q quit")
        live.type(b"\x13")
        live.pump(0.5)
        before = live.output
        live.pump(0.5)
        assert live.output == before  # it is stopped
        began = time.monotonic()
        live.child.send_signal(ending)
        assert live.ends(5.0) == 128 + ending
        assert time.monotonic() - began < 2.0
        assert live.restored


def test_on_a_terminal_that_nobody_reads_it_is_left_at_once_and_tidy() -> None:
    with Live((*JOB, "1e5", "0.001"), answer=True) as live:
        live.sees("q quit")
        live.answer = live.listening = False
        for _ in range(200):  # resizing brings a whole frame each time, until the buffer is full
            live.type(b"\x0c")
            live.pump(0.0)
            time.sleep(0.005)
        live.child.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert live.ends(5.0) == 143
        assert time.monotonic() - began < 2.0
        assert live.restored


def test_a_terminal_that_answers_nothing_is_drawn_to_all_the_same() -> None:
    with Live(FAST, answer=False) as live:
        live.sees("q quit")
        first = done_of(live.lines[1])
        live.until(lambda: done_of(live.lines[1]) > first, 6.0)
        assert live.output.count(QUERY) == 1
        live.type(b"q")
        assert live.ends() == 0
        assert live.restored


def test_the_second_frame_waits_for_the_answer_and_is_the_newest_then() -> None:
    with Live(FAST, answer=False) as live:
        live.sees("q quit")
        first = done_of(live.lines[1])
        live.pump(1.2)
        assert done_of(live.lines[1]) == first
        live.type(ANSWER)
        live.until(lambda: done_of(live.lines[1]) > first)
        assert done_of(live.lines[1]) >= first + 70
        assert live.output.count(QUERY) == 2


def test_a_key_has_its_frame_within_a_second_though_no_answer_has_come() -> None:
    with Live(FAST, answer=False) as live:
        live.sees("q quit")
        live.type(b"?")
        live.sees("this page, and back", 1.9)


def test_at_rest_nothing_is_sent() -> None:
    with Live((*JOB, "0", "0.05")) as live:
        live.sees("q quit")
        live.pump(0.3)
        before = live.output
        live.pump(1.5)
        assert live.output == before


def test_a_running_job_costs_few_bytes_a_refresh() -> None:
    with Live((*JOB, "7", "0.1")) as live:
        live.sees("q quit")
        live.pump(3.0)
        sizes = sorted(len(part) for part in live.output.split(QUERY)[1:-1])
        assert len(sizes) > 5
        assert sizes[len(sizes) // 2] < 100


def in_bash(words: str = "") -> Live:
    """A shell with job control, and the screen as its job."""
    needs("bash")
    live = Live(("bash", "--norc", "-i"), env=environment(PS1="$ "))
    live.type(f"{shlex.join(FAST)} {words}\n".encode())
    return live


def test_no_answer_is_left_for_the_shell() -> None:
    with in_bash() as live:
        live.sees("q quit")
        live.type(b"q")
        live.until(lambda: b"\x1b[?1049l" in live.output)
        live.type(b"echo $((40 + 2)) here\n")
        live.sees("42 here")
        assert b"0n" not in live.output.rpartition(b"\x1b[?1049l")[2]


def test_ctrl_z_gives_the_terminal_back_and_fg_draws_anew() -> None:
    with in_bash() as live:
        live.sees("q quit")
        live.type(b"\x1a")
        live.until(lambda: b"Stopped" in live.output)
        live.type(b"stty -a; echo between\n")
        live.until(lambda: b"\r\nbetween" in live.output)
        live.type(b"fg\n")
        live.until(lambda: live.output.count(b"\x1b[?1049h") == 2)
        live.sees("q quit")
        live.type(b"q")
        live.until(lambda: live.output.count(b"\x1b[?1049l") == 2)
        live.type(b"stty -a; echo $((40 + 2)) after\n")
        live.sees("42 after")
        assert len(re.findall(rb"[ ;]icanon", live.output)) == 2
        assert len(re.findall(rb" echo echoe ", live.output)) == 2


def test_started_in_the_background_it_draws_when_it_is_brought_to_front() -> None:
    with in_bash("&") as live:
        live.pump(1.5)
        live.type(b"echo $((40 + 2)) still\n")
        live.sees("42 still")
        assert b"\x1b[?1049h" not in live.output
        live.type(b"fg\n")
        live.sees("q quit")
        live.type(b"q")
        live.until(lambda: b"\x1b[?1049l" in live.output)


def test_without_a_keyboard_it_draws_and_no_key_acts() -> None:
    with in_bash("< /dev/null; exit $?") as live:
        live.sees("q quit")
        live.type(b"q?q")
        first = done_of(live.lines[1])
        live.until(lambda: done_of(live.lines[1]) > first + 70)
        live.type(b"\x03")
        assert live.ends() == 130
        assert b"0n" not in live.output.rpartition(b"\x1b[?1049l")[2]


def test_stopped_resized_and_continued_it_fits_the_new_size() -> None:
    with Live() as live:
        live.sees("q quit")
        live.child.send_signal(signal.SIGSTOP)
        live.resize(12, 60)
        live.child.send_signal(signal.SIGCONT)
        live.until(lambda: live.lines[0].endswith("up 12h31m") and len(live.lines[0]) == 60)
        assert any(line.startswith("▸ B3_magicoder") for line in live.lines)


def test_a_storm_of_sizes_and_keys_ends_in_the_last_size() -> None:
    with Live() as live:
        live.sees("q quit")
        for number in range(200):
            live.resize(1 + number * 7 % 60, 1 + number * 31 % 200)
            live.type(b"jk?\x1b[Bl"[number % 6 : number % 6 + 1])
            live.pump(0.005)
        live.type(b"\x1b")
        live.pump(0.3)
        live.type(b"\x1b")
        live.resize(10, 40)
        live.sees("synth_100k  running     gpu-7  up 12h31m")
        live.sees("ends Wed 09:10–16:20 UTC (in 23–30 h)")
        assert live.lines[8].startswith("log ")


@pytest.mark.parametrize(
    ("rows", "cols"), [(1, 1), (3, 10), (1, 10), (3, 20), (5, 500), (200, 20), (8, 40), (0, 0)]
)
def test_every_size_is_drawn_without_scrolling(rows: int, cols: int) -> None:
    with Live((*JOB, "0"), rows, cols) as live:
        live.until(lambda: QUERY in live.output)
        wanted = "running"[: cols or 7]
        assert any(wanted in line for line in live.lines)
        assert "synth_100k"[: max(1, (cols or 80) - 8)] in live.lines[0] or cols < 20


def test_the_size_is_that_of_the_terminal_not_of_the_environment() -> None:
    with Live(env=environment(COLUMNS="200", LINES="60")) as live:
        live.sees("q quit")
        assert len(live.lines[0]) == 80


@pytest.mark.parametrize("term", ["xterm-kitty", "xterm-ghostty", "no-such-term", "vt100", "linux"])
def test_any_terminal_is_drawn_to(term: str) -> None:
    env = environment(TERM=term, TERMINFO_DIRS="", TERMINFO="/nonexistent")
    with Live(env=env) as live:
        live.sees("q quit")
        live.type(b"q")
        assert live.ends() == 0
        assert live.restored
        assert b"arning" not in live.output


def test_no_terminal_of_a_known_family_has_blessed_loaded() -> None:
    before = set(sys.modules)
    assert unfamiliar_keys("xterm-256color") == unfamiliar_keys("tmux-256color") == {}
    assert "blessed" not in set(sys.modules) - before


def test_the_keys_of_an_unfamiliar_terminal_are_those_of_its_terminfo() -> None:
    assert unfamiliar_keys("sun")[b"\x1b[A"] == "up"
    assert set(unfamiliar_keys("no-such-term").values()) <= {
        "up",
        "down",
        "home",
        "end",
        "page_up",
        "page_down",
    }


def test_without_colours_the_cursor_still_moves() -> None:
    with Live(env=environment(NO_COLOR="1")) as live:
        live.sees("q quit")
        assert set(re.findall(rb"\x1b\[([0-9;]*)m", live.output)) <= {
            b"",
            b"1",
            b"2",
            b"0;1",
            b"0;2",
        }


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (b"?", "q            quit; the job is not touched, and no key can harm it"),
        (b"l", "end of /data/synth_100k/logs/run.log"),
        (b"e", "around the newest error in /data/synth_100k/logs/run.log"),
        (b"\x1b[B\r", "B4_openhermes  queued"),
        (b"\t", "server answers but generates nothing"),
        (b"p", "synth_100k  running  paused"),
    ],
)
def test_a_key_turns_the_page_and_another_leads_back(keys: bytes, line: str) -> None:
    with Live((*JOB, "7", "0.2", "2")) as live:
        live.sees("q quit")
        live.type(keys)
        live.sees(line)
        live.type(keys if keys in (b"\t", b"p") else b"\x1b")
        live.until(lambda: "paused" not in live.lines[0] and "done / total" in live.lines[4])


def test_pause_freezes_the_picture_and_goes_on() -> None:
    with Live(FAST) as live:
        live.sees("q quit")
        live.type(b"p")
        live.sees("paused")
        live.pump(0.3)
        still = live.lines
        live.pump(0.7)
        assert live.lines == still
        live.type(b"p")
        live.until(lambda: done_of(live.lines[1]) > done_of(still[1]))


def test_ctrl_l_draws_all_of_it_anew() -> None:
    with Live() as live:
        live.sees("q quit")
        live.type(b"\x0c")
        live.until(lambda: live.output.count(b"\x1b[2J") == 2)
        live.sees("q quit")


@pytest.mark.parametrize(
    "rubbish",
    [
        b"\x1b[M\xff\xfe!",
        b"\x1b[<0;10;10M",
        b"\xc3",
        b"\x1b[200~" + b"please q quit q now " * 500 + b"\x1b[201~",
        b"paste without brackets, q and q again, and no more than that " * 3,
        bytes(n for n in range(256) if n not in (3, 17, 19, 26, 28)) * 16,
    ],
    ids=["old mouse", "mouse", "half a letter", "paste", "bare paste", "every byte"],
)
def test_rubbish_does_nothing_and_q_still_works(rubbish: bytes) -> None:
    with Live(FAST) as live:
        live.sees("q quit")
        live.type(rubbish)
        live.pump(1.3)
        live.sees("q quit")
        assert live.child.poll() is None
        live.type(b"q")
        assert live.ends() == 0
        assert live.restored


def test_what_it_leaves_behind_is_what_it_showed_last() -> None:
    with Live(FAST) as live:
        live.sees("q quit")
        live.type(b"q")
        live.ends()
        shown = done_of(last_picture(live.output)[1])
        said = re.search(r"([0-9,]+)/83,288", live.lines[-2])
        assert said is not None
        assert 0 <= int(said[1].replace(",", "")) - shown <= 70
