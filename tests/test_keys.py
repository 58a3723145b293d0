"""What a terminal sends: keys act, and nothing else does, however it is cut."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watch_inference.views.keys import ANSWER, Keyboard


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        (b"q", ["q"]),
        (b"jk", ["down", "up"]),
        (b"\x1b[A\x1b[B\x1bOA", ["up", "down", "up"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[F", ["page_up", "page_down", "home", "end"]),
        (b"\x1b[1~\x1b[4~\x1bOH\x1bOF", ["home", "end", "home", "end"]),
        (b"\r\t\x0c", ["enter", "tab", "redraw"]),
        (b"\x1b[0n", [ANSWER]),
        (b"q\x1b[0nq", ["q", ANSWER, "q"]),
        (b"\x1b[M\xff\xfeq", []),
        (b"\x1b[<0;10;10M", []),
        (b"\x1b[1;5A", []),
        (b"\x1b[24;80R\x1b[?62;22c", []),
        (b"\x1bP>|xterm(q)\x1b\\", []),
        (b"\x1b]10;rgb:qqqq\x07", []),
        (b"\x1bq", []),
        (b"\x1b\x1b[A", ["escape", "up"]),
        (b"\xc3", []),
        (b"\x1b[200~q quit q\x1b[201~", []),
        (b"\x1b[200~" + b"q" * 10_000 + b"\x1b[201~p", []),
        (b"xyz", []),
    ],
)  # fmt: skip
def test_what_is_sent_and_which_keys_it_is(sent: bytes, keys: list[str]) -> None:
    assert Keyboard().feed(sent) == keys


def test_after_a_paste_keys_work_again() -> None:
    keyboard = Keyboard()
    assert keyboard.feed(b"\x1b[200~" + b"q" * 3000) == []
    assert keyboard.feed(b"q" * 3000) == []
    assert keyboard.feed(b"\x1b[20") == []
    assert keyboard.feed(b"1~q") == ["q"]


@given(
    st.lists(st.sampled_from([b"\x1b[0n", b"\x1b[A", b"q", b"\x1b[M q!", b"\x1b[200~q\x1b[201~"]))
)
def test_a_sequence_cut_anywhere_means_the_same(parts: list[bytes]) -> None:
    sent = b"".join(parts[:6])
    whole = Keyboard().feed(sent)
    piecemeal = Keyboard()
    assert [key for byte in sent for key in piecemeal.feed(bytes([byte]))] == whole


def test_a_lone_escape_is_the_key_once_nothing_follows() -> None:
    keyboard = Keyboard()
    assert keyboard.feed(b"\x1b") == []
    assert keyboard.patience_s == 0.1
    assert keyboard.idle(0.05) == []
    assert keyboard.idle(0.11) == ["escape"]
    assert keyboard.idle(0.2) == []
    assert keyboard.feed(b"q") == ["q"]


def test_an_answer_whose_escape_came_much_earlier_is_still_no_key() -> None:
    keyboard = Keyboard()
    keyboard.feed(b"\x1b")
    assert keyboard.idle(0.2) == ["escape"]
    assert keyboard.feed(b"[0n") == [ANSWER]


def test_a_sequence_that_is_never_finished_does_not_eat_the_next_key() -> None:
    keyboard = Keyboard()
    keyboard.feed(b"\x1b[M!")
    assert keyboard.patience_s == 1.0
    assert keyboard.idle(1.5) == []
    assert keyboard.patience_s is None
    assert keyboard.feed(b"q") == ["q"]


def test_a_paste_without_brackets_is_not_typing() -> None:
    assert Keyboard().feed(b"quit this, then help? " * 5 + b"\x1b[0n") == [ANSWER]


def test_rubbish_is_bounded_and_the_next_key_works() -> None:
    keyboard = Keyboard()
    rubbish = random.Random(7)
    for _ in range(64):
        assert set(keyboard.feed(rubbish.randbytes(4096))) <= {ANSWER}
    keyboard.idle(1.5)
    keyboard.feed(b"\x1b[201~")
    keyboard.idle(1.5)
    assert keyboard.feed(b"q") == ["q"]


def test_a_terminal_with_keys_of_its_own() -> None:
    assert Keyboard({b"\x1b[X": "up"}).feed(b"\x1b[X") == ["up"]
