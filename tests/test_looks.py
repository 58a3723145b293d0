"""How it looks: chosen by what was asked and what the environment says; bars that do not lie."""

from __future__ import annotations

import pytest

from watch_inference.views.looks import (
    Looks,
    Segment,
    bar,
    can_draw,
    choose,
    fit,
    joined,
    sgr,
    spark,
    spread,
    thin_bar,
    wrapped,
)


@pytest.mark.parametrize(
    ("environ", "color", "tty", "colors"),
    [
        ({"TERM": "xterm-256color"}, "auto", True, 256),
        ({"TERM": "xterm-kitty"}, "auto", True, 256),
        ({"TERM": "xterm"}, "auto", True, 8),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, "auto", True, 256),
        ({"TERM": "vt100"}, "auto", True, 0),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "auto", True, 0),
        ({"TERM": "xterm", "NO_COLOR": ""}, "auto", True, 8),
        ({"TERM": "xterm", "NO_COLOR": "1"}, "always", True, 8),
        ({"TERM": "xterm"}, "never", True, 0),
        ({"TERM": "xterm"}, "auto", False, None),
        ({"TERM": "xterm"}, "always", False, 8),
        ({"TERM": "xterm-256color"}, "always", False, 8),
        ({}, "always", False, 8),
        ({"CLICOLOR_FORCE": "1"}, "auto", False, 8),
        ({"CLICOLOR_FORCE": "0"}, "auto", False, None),
        ({"CLICOLOR_FORCE": "1"}, "never", False, None),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, "auto", False, None),
    ],
)
def test_colours(environ: dict[str, str], color: str, tty: bool, colors: int | None) -> None:
    assert choose(environ, color, False, True, tty).colors == colors


def test_ascii_where_it_is_asked_for_or_the_locale_or_the_console_knows_no_more() -> None:
    term = {"TERM": "xterm"}
    assert not choose(term, "auto", False, True, True).ascii
    assert choose(term, "auto", True, True, True).ascii
    assert choose(term, "auto", False, False, True).ascii
    assert choose({"TERM": "linux"}, "auto", False, True, True).ascii


@pytest.mark.parametrize(
    ("term", "draws"), [("xterm", True), ("no-such-term", True), ("dumb", False), ("", False)]
)
def test_a_terminal_that_can_move_its_cursor(term: str, draws: bool) -> None:
    assert can_draw({"TERM": term}) is draws
    assert not can_draw({})


def text(line: tuple[Segment, ...]) -> str:
    return "".join(part.text for part in line)


@pytest.mark.parametrize(
    ("share", "drawn", "thin", "plain"),
    [
        (0.0, "────────", "────────", "[------]"),
        (0.01, "────────", "────────", "[>-----]"),
        (0.5, "████────", "━━━━────", "[###>--]"),
        (0.55, "████▍───", "━━━━────", "[###>--]"),
        (0.999, "███████▉", "━━━━━━━╸", "[#####>]"),
        (1.0, "████████", "━━━━━━━━", "[######]"),
        (7.0, "████████", "━━━━━━━━", "[######]"),
    ],
)
def test_a_bar_is_full_only_when_it_is_all(share: float, drawn: str, thin: str, plain: str) -> None:
    assert text(bar(share, 8, Looks())) == drawn
    assert text(thin_bar(share, 8, Looks())) == thin
    assert text(bar(share, 8, Looks(ascii=True))) == plain
    assert text(thin_bar(share, 8, Looks(ascii=True))) == plain


def test_an_unknown_share_has_no_bar_at_all() -> None:
    assert text(bar(None, 4, Looks())) == "    "


@pytest.mark.parametrize("width", range(5))
def test_a_bar_has_the_width_that_was_asked_for(width: int) -> None:
    for looks in (Looks(), Looks(ascii=True)):
        assert len(text(bar(0.5, width, looks))) == width
        assert len(text(thin_bar(0.5, width, looks))) == width


def test_a_history_has_the_largest_at_the_top_and_blanks_for_the_unknown() -> None:
    assert spark((None, 0.0, 0.5, 1.0), Looks()) == " ▁▅█"
    assert spark((None, 0.0, 0.5, 1.0), Looks(ascii=True)) == " _=#"
    assert spark((0.0, 0.0), Looks()) == "▁▁"
    assert spark((), Looks()) == ""


def test_parts_are_dropped_from_the_end() -> None:
    parts = [(Segment("aaaa"),), (Segment("bbbb"),), (Segment("cccc"),)]
    assert text(joined(parts, 18)) == "aaaa   bbbb   cccc"
    assert text(joined(parts, 17)) == "aaaa   bbbb"
    assert text(joined(parts, 3)) == "aaaa"


def test_two_edges() -> None:
    left, right = (Segment("left"),), (Segment("right"),)
    assert text(spread(left, right, 12)) == "left   right"
    assert text(spread(left, right, 10)) == "left"


def test_a_line_is_cut_and_in_ascii_looks_has_nothing_else() -> None:
    line = (Segment("数据", "good"), Segment(" and more than fits", "dim"))
    assert text(fit(line, 12, Looks())) == "数据 and mo…"
    assert text(fit(line, 30, Looks(ascii=True))) == "???? and more than fits"
    assert text(fit(line, 13, Looks(ascii=True))) == "???? and m..."


def test_text_is_broken_at_blanks_and_the_last_line_cut() -> None:
    assert wrapped("one two three four", 9, 3, Looks()) == ["one two", "three", "four"]
    assert wrapped("one two three four", 9, 2, Looks()) == ["one two", "three fo…"]
    assert wrapped("", 9, 2, Looks()) == []
    assert wrapped("数据集合并", 4, 2, Looks()) == ["数据", "集…"]


def test_no_style_is_a_colour_alone() -> None:
    assert sgr("bad", Looks(0)) == "1"
    assert sgr("bad", Looks(8)) == "1;31"
    assert sgr("bad", Looks(256)) == "1;38;5;167"
    assert sgr("bad", Looks(None)) == ""
    assert sgr("", Looks(256)) == ""
