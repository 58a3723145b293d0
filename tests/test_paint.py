"""What is painted is what was meant, from any screen to any other, and in few bytes."""

from __future__ import annotations

from unicodedata import normalize

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.made import probed, report, stalled
from watch_inference import units
from watch_inference.views.frame import frame
from watch_inference.views.looks import Line, Looks, Segment
from watch_inference.views.paint import Grid, grid, paint

STYLES = ["", "strong", "dim", "good", "warn", "bad", "bar", "track", "chosen", "head"]
TEXTS = st.text(st.sampled_from(" abc─█é漢字▸x\u0301"), max_size=12)
LINES = st.lists(st.builds(Segment, TEXTS, st.sampled_from(STYLES)), max_size=4).map(tuple)
SCREENS = st.lists(LINES, max_size=5)


class Emulator:
    """A terminal in memory, and what it should show."""

    def __init__(self, width: int, height: int) -> None:
        self.screen = pyte.Screen(width, height)
        self.stream = pyte.Stream(self.screen)

    def shows(self, wanted: Grid) -> bool:
        return all(
            self.screen.buffer[y][x].data == normalize("NFC", cell[0])
            for y, row in enumerate(wanted)
            for x, cell in enumerate(row)
        )


@given(st.lists(SCREENS, min_size=1, max_size=4), st.integers(1, 30), st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_any_screen_becomes_any_other(screens: list[list[Line]], width: int, height: int) -> None:
    # pyte puts a mark behind the last column into the next line: then it gets a column more
    marks = any("\u0301" in text for lines in screens for line in lines for text, _ in line)
    emulator = Emulator(width + marks, height)
    before = None
    for lines in screens:
        clean = [tuple(Segment(units.clean(text), style) for text, style in line) for line in lines]
        now = grid(clean, width, height)
        assert all(len(row) == width for row in now)
        emulator.stream.feed(paint(before, now, Looks(256)))
        assert emulator.shows(now)
        before = now
    assert paint(before, before, Looks(256)) == ""


@given(SCREENS, SCREENS)
@settings(max_examples=100, deadline=None)
def test_colours_and_attributes_arrive(first: list[Line], second: list[Line]) -> None:
    emulator = Emulator(20, 5)
    before, now = grid(first, 20, 5), grid(second, 20, 5)
    emulator.stream.feed(paint(None, before, Looks(256)) + paint(before, now, Looks(256)))
    for y, row in enumerate(now):
        for x, (text, style) in enumerate(row):
            seen = emulator.screen.buffer[y][x]
            if text and units.narrow(text):
                assert text == " " or seen.bold == (style in ("strong", "warn", "bad"))
                assert seen.reverse == (style == "chosen")
                assert text == " " or (seen.fg == "00af00") == (style == "good")


def test_a_count_that_moves_costs_an_address_and_the_digits_that_changed() -> None:
    before = grid([(Segment("done 31,204 / 83,288", "strong"),)], 80, 24)
    now = grid([(Segment("done 31,211 / 83,288", "strong"),)], 80, 24)
    assert paint(before, now, Looks(256)) == "\x1b[;10H\x1b[1m11\x1b[m"


def test_near_cells_are_written_over_and_far_ones_jumped_to() -> None:
    before = grid([(Segment("aXbcXdefghijklX"),)], 80, 2)
    now = grid([(Segment("aYbcYdefghijklY"),)], 80, 2)
    assert paint(before, now, Looks(256)) == "\x1b[;2HYbcY\x1b[9CY"


def test_the_end_of_a_line_is_erased_at_once() -> None:
    before = grid([(Segment("a rather long line"),)], 80, 2)
    now = grid([(Segment("a rather"),)], 80, 2)
    assert paint(before, now, Looks(256)) == "\x1b[;9H\x1b[K"


def test_after_a_wide_character_the_cursor_is_addressed_anew() -> None:
    before = grid([(Segment("漢 a漢 b"),)], 80, 2)
    now = grid([(Segment("字 x漢 y"),)], 80, 2)
    assert paint(before, now, Looks(256)) == "\x1b[H字\x1b[;4Hx\x1b[3Cy"


def test_the_last_cell_of_the_screen_is_never_written() -> None:
    now = grid([(Segment("xxxx"),), (Segment("yyyy"),)], 4, 2)
    assert [cell[0] for cell in now[1]] == ["y", "y", "y", " "]
    wide = grid([(), (Segment("yy漢"),)], 4, 2)
    assert [cell[0] for cell in wide[1]] == ["y", "y", " ", " "]


def test_without_colours_there_are_none() -> None:
    now = grid(frame(stalled(), 80, 24, Looks(0)), 80, 24)
    said = paint(None, now, Looks(0))
    assert "38;5" not in said and "\x1b[31m" not in said
    assert "\x1b[1m" in said


@pytest.mark.parametrize("made", [report(), probed(), stalled()], ids=["bare", "probed", "stalled"])
def test_the_first_frame_is_small(made: object) -> None:
    lines = frame(made, 80, 24, Looks(256))  # type: ignore[arg-type]
    assert len(paint(None, grid(lines, 80, 24), Looks(256)).encode()) < 2400


def test_a_running_job_costs_few_bytes_a_refresh() -> None:
    sent = []
    before = grid(frame(report(0), 80, 24, Looks(256)), 80, 24)
    for second in range(1, 61):
        now = grid(frame(report(7 * second), 80, 24, Looks(256)), 80, 24)
        sent.append(len(paint(before, now, Looks(256)).encode()))
        before = now
    assert sorted(sent)[30] < 80
    assert max(sent) < 200


def test_a_screen_at_rest_costs_nothing() -> None:
    lines = grid(frame(report(), 80, 24, Looks(256)), 80, 24)
    later = report(wall=report().wall + 1, at=1001.0)
    assert paint(lines, grid(frame(later, 80, 24, Looks(256)), 80, 24), Looks(256)) == ""
