"""Questions that hang: nobody waits for them, and none is asked twice."""

from __future__ import annotations

import resource
import subprocess
import sys
import threading

import pytest

from tests.worlds import Clock
from watch_inference.probes.background import Background


def test_an_answer_is_taken_once() -> None:
    background: Background[int] = Background(Clock().now)
    assert background.ask(lambda: 7)
    background.wait(5)
    assert (background.take(), background.take()) == (7, None)


def test_a_question_in_flight_blocks_nothing_and_is_not_asked_again() -> None:
    clock, release, asked = Clock(), threading.Event(), []
    background: Background[int] = Background(clock.now)

    def question() -> int:
        asked.append(1)
        release.wait(10)
        return 1

    assert background.ask(question)
    clock.wait(40)
    assert background.ask(question)
    assert background.take() is None
    assert (background.asked_at, background.waiting_s(clock.now())) == (1000.0, 40.0)
    release.set()
    background.wait(5)
    assert (background.take(), len(asked), background.waiting_s(clock.now())) == (1, 1, 0.0)


def test_a_bug_in_a_question_is_raised_where_it_was_asked() -> None:
    background: Background[int] = Background(Clock().now)
    background.ask(lambda: 1 // 0)
    background.wait(5)
    with pytest.raises(ZeroDivisionError):
        background.take()
    assert background.ask(lambda: 2)
    background.wait(5)
    assert background.take() == 2


def test_a_question_that_hangs_does_not_hold_up_the_end_of_the_program() -> None:
    code = (
        "import time; from watch_inference.probes.background import Background\n"
        "Background(time.monotonic).ask(lambda: time.sleep(60)); print('over')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True
    )
    assert done.stdout == "over\n"


def test_where_no_thread_is_to_be_had_that_is_said() -> None:
    code = (
        "import os; os.setuid(65534)\n"
        "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))\n"
        "print(Background(time.monotonic).ask(lambda: 1))"
    )
    if resource.getrlimit(resource.RLIMIT_NPROC)[0] == 0 or not _is_root():
        pytest.skip("only root may become somebody else")
    code = "import time; from watch_inference.probes.background import Background\n" + code
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.stdout == "False\n", done.stderr


def _is_root() -> bool:
    import os

    return os.geteuid() == 0
