"""A log as the probe reads it: what is new, what is from its end, and what happened to the file."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from watch_inference.model import LogReading
from watch_inference.probes.log import Log

NAMES = ("B1", "B2", "B3")
NOISE = b"INFO: 127.0.0.1 - POST /v1/chat/completions HTTP/1.1 200 OK, nothing to see here\n"


def line(done: int, total: int = 10_000) -> bytes:
    return b"%d/%d (0 err) 0.7 req/s avg_comp=788tok ETA=4.0h\n" % (done, total)


def append(path: Path, *texts: bytes) -> None:
    with path.open("ab") as file:
        for text in texts:
            file.write(text)


class Lab:
    """One log, and a probe that looks at it once a second."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.at = 0.0
        self.probe = Log(str(path), NAMES)

    def again(self, budget: int, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.probe = Log(str(self.path), NAMES, budget=budget, clock=clock)

    def read(self) -> LogReading:
        self.at += 1.0
        return self.probe.read(self.at, 2e9, NAMES)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path / "job.log")
    yield made
    made.probe.close()


def counts(reading: LogReading) -> dict[str, int]:
    return {one.name: one.done for one in reading.datasets}


# --------------------------------------------------------------------------- what is written


def test_a_log_that_was_there_was_not_seen_arriving(lab: Lab) -> None:
    append(lab.path, b"B1\n", line(50))
    reading = lab.read()
    assert (counts(reading), reading.current, reading.format) == ({"B1": 50}, "B1", "reference")
    assert (reading.changed_at, reading.datasets[0].lines[0].at) == (None, None)
    assert (reading.size, reading.behind) == (lab.path.stat().st_size, 0)


def test_what_comes_later_has_the_time_of_the_look_that_saw_it(lab: Lab) -> None:
    append(lab.path, b"B1\n", line(50))
    lab.read()
    append(lab.path, line(100))
    lab.read()
    reading = lab.read()
    assert (reading.changed_at, reading.datasets[0].updated_at) == (2.0, 2.0)
    assert [one.at for one in reading.datasets[0].lines] == [None, 2.0]


def test_activity_is_new_bytes_and_not_a_new_time(lab: Lab) -> None:
    append(lab.path, b"B1\n", line(50))
    lab.read()
    os.utime(lab.path, ns=(0, 4 * 10**18))
    reading = lab.read()
    assert (reading.changed_at, reading.modified) == (None, 4e9)
    append(lab.path, NOISE)
    os.utime(lab.path, ns=(0, 10**18))
    assert lab.read().changed_at == 3.0


def test_what_comes_during_a_look_is_seen_arriving_too(lab: Lab) -> None:
    append(lab.path, b"B1\n", line(50))
    asked = itertools.count()

    def clock() -> float:
        if next(asked) == 1:
            append(lab.path, line(100))
        return 0.0

    lab.again(1 << 20, clock)
    reading = lab.read()
    assert (reading.changed_at, reading.datasets[0].updated_at) == (1.0, 1.0)


def test_a_line_in_pieces_never_shows_half_a_number(lab: Lab) -> None:
    append(lab.path, b"B1\n", line(50))
    lab.read()
    append(lab.path, b"150/100")
    assert counts(lab.read()) == {"B1": 50}
    append(lab.path, b"00 (0 err) 0.7 req/s avg_comp=788tok ETA=4.0h")
    assert counts(lab.read()) == {"B1": 50}
    append(lab.path, b"\n")
    reading = lab.read()
    assert counts(reading) == {"B1": 150}
    assert len(reading.datasets[0].lines) == 2


def test_a_tiny_log_is_shown_at_once(lab: Lab) -> None:
    append(lab.path, b"0/50 (0 err) 0.0 req/s avg_comp=0tok ETA=?\n")
    assert [(one.done, one.total) for one in lab.read().datasets] == [(0, 50)]


def frame(done: int) -> bytes:
    return b"\rB1: %3d%%|####      | %d/2000 [00:10<01:00, 33.00it/s]" % (done // 20, done)


def test_the_newest_frame_of_a_bar_is_read_although_no_newline_ever_comes(lab: Lab) -> None:
    append(lab.path, *(frame(done) for done in range(500)))
    assert counts(lab.read()) == {"B1": 499}
    append(lab.path, frame(500))
    reading = lab.read()
    assert (counts(reading), reading.changed_at) == ({"B1": 500}, 2.0)


def test_a_frame_that_is_not_closed_yet_is_not_read(lab: Lab) -> None:
    append(lab.path, frame(100), frame(1234)[:-22])
    assert counts(lab.read()) == {"B1": 100}


def test_a_frame_without_its_end_is_counted_once(lab: Lab) -> None:
    append(lab.path, frame(100))
    lab.read()
    append(lab.path, frame(200))
    lab.read()
    reading = lab.read()
    append(lab.path, b"\n")
    assert lab.read().datasets == reading.datasets
    assert [one.done for one in reading.datasets[0].lines] == [100, 200]


# -------------------------------------------------------------------------- files that change


def test_a_log_that_is_not_there_yet_is_waited_for_and_then_seen_arriving(lab: Lab) -> None:
    reading = lab.read()
    assert (reading.error, reading.size, reading.datasets) == ("missing", None, ())
    append(lab.path, b"B1\n", line(50))
    reading = lab.read()
    assert (reading.error, counts(reading), reading.changed_at) == (None, {"B1": 50}, 2.0)
    assert reading.datasets[0].lines[0].at == 2.0


def test_no_line_is_lost_when_a_log_is_rotated(lab: Lab) -> None:
    append(lab.path, b"B1\n", line(50))
    lab.read()
    with lab.path.open("ab") as writer:
        lab.path.rename(lab.path.with_suffix(".1"))
        writer.write(line(100))
    append(lab.path, line(150))
    reading = lab.read()
    assert [one.done for one in reading.datasets[0].lines] == [50, 100, 150]
    assert (reading.notes, reading.restarts, reading.changed_at) == (("rotated",), 0, 2.0)


def test_what_a_truncated_log_said_stays_until_new_text_comes(lab: Lab) -> None:
    append(lab.path, b"B1\n", line(50))
    lab.read()
    os.truncate(lab.path, 0)
    reading = lab.read()
    assert (counts(reading), reading.size) == ({"B1": 50}, 0)
    assert (reading.notes, reading.changed_at, reading.restarts) == (("truncated",), None, 1)
    append(lab.path, b"B1\n", line(100))
    reading = lab.read()
    assert (counts(reading), reading.changed_at) == ({"B1": 100}, 3.0)


def test_a_deleted_and_created_log_is_said_to_be_replaced(lab: Lab) -> None:
    append(lab.path, b"B1\n", line(50))
    lab.read()
    lab.path.unlink()
    append(lab.path, b"B1\n", line(10))
    reading = lab.read()
    assert (counts(reading), reading.notes) == ({"B1": 10}, ("replaced",))
    assert reading.restarts == 2  # the file's, and the count's


def test_a_hole_of_nuls_is_skipped(lab: Lab) -> None:
    with lab.path.open("wb", buffering=0) as writer:
        writer.write(b"B1\n" + line(50))
        lab.read()
        writer.seek(300_000_000)
        os.truncate(lab.path, 0)
        writer.write(line(100))
    reading = lab.read()
    assert (counts(reading), reading.behind) == ({"B1": 100}, 0)


def test_a_folder_in_the_place_of_a_log_is_an_error(lab: Lab) -> None:
    lab.path.mkdir()
    assert lab.read().error == "is a directory"


# -------------------------------------------------------------------- large logs, and bursts


def large(path: Path, *, noise_at_end: int = 0) -> None:
    """Write three datasets of 100 lines among 1.5 MB of noise."""
    for name in NAMES:
        append(path, b"=== %s ===\n" % name.encode())
        for done in range(100, 10_001, 100):
            append(path, NOISE * 60, line(done))
    append(path, NOISE * noise_at_end)


def test_of_a_large_log_the_newest_state_comes_first_and_then_its_history(lab: Lab) -> None:
    large(lab.path)
    lab.again(1 << 18)
    first = lab.read()
    assert (first.current, counts(first)["B3"], "B1" in counts(first)) == ("B3", 10_000, False)
    assert first.behind == first.size - (1 << 18) if first.size else False
    assert first.changed_at is None
    last = [lab.read() for _ in range(7)][-1]
    assert (last.behind, counts(last)) == (0, {"B1": 10_000, "B2": 10_000, "B3": 10_000})
    assert last.datasets[0].lines[0].done == 100
    assert {one.at for data in last.datasets for one in data.lines} == {None}


def test_the_newest_line_is_found_behind_much_noise(lab: Lab) -> None:
    large(lab.path, noise_at_end=15_000)  # 1.2 MB
    lab.again(1 << 16)
    assert counts(lab.read())["B3"] == 10_000


def test_what_comes_while_the_history_is_read_is_shown_and_keeps_its_time(lab: Lab) -> None:
    large(lab.path)
    lab.again(1 << 18)
    lab.read()
    append(lab.path, b"=== B1 ===\n", line(1, 500))
    second = lab.read()
    assert (second.current, second.changed_at, second.behind > 0) == ("B1", 2.0, True)
    append(lab.path, line(2, 500))
    last = [lab.read() for _ in range(7)][-1]
    assert (last.behind, last.changed_at) == (0, 3.0)
    lines = next(one for one in last.datasets if one.name == "B1").lines
    assert [(one.done, one.at) for one in lines] == [(1, 2.0), (2, 3.0)]


def test_a_log_that_grows_by_more_than_one_step_shows_the_newest_and_catches_up(lab: Lab) -> None:
    append(lab.path, b"B1\n", line(50))
    lab.again(1 << 18)
    lab.read()
    append(lab.path, NOISE * 15_000, line(100), NOISE * 100)
    reading = lab.read()
    assert reading.behind > 3 << 18
    assert (counts(reading), reading.datasets[0].first, reading.changed_at) == (
        {"B1": 100},
        50,
        2.0,
    )
    last = [lab.read() for _ in range(6)][-1]
    assert (last.behind, counts(last), last.changed_at) == (0, {"B1": 100}, 2.0)
    assert [(one.done, one.at) for one in last.datasets[0].lines] == [(50, None), (100, 2.0)]


def test_lines_at_the_end_get_their_name_from_the_heading_before_them(lab: Lab) -> None:
    append(lab.path, b"B1\n", line(9_000))
    lab.again(1 << 18)
    lab.read()
    append(lab.path, NOISE * 15_000, b"B2\n", NOISE * 1_500, line(100), NOISE * 100)
    reading = lab.read()
    assert (counts(reading), reading.current) == ({"B1": 9_000, "B2": 100}, "B2")
    last = [lab.read() for _ in range(12)][-1]
    assert counts(last) == {"B1": 9_000, "B2": 100}


def test_all_of_a_log_is_read_at_once_where_that_is_asked_for(tmp_path: Path) -> None:
    large(tmp_path / "job.log")
    probe = Log(str(tmp_path / "job.log"), NAMES, budget=1000, whole=True)
    reading = probe.read(1.0, 2e9)
    probe.close()
    assert (reading.behind, len(reading.datasets)) == (0, 3)


def test_time_ends_a_step_as_bytes_do(lab: Lab) -> None:
    large(lab.path)
    ticks = itertools.count()
    lab.again(1 << 30, clock=lambda: next(ticks) * 0.02)
    reading = lab.read()
    assert 0 < reading.behind < (reading.size or 0)


def test_one_line_of_many_frames_needs_little_memory_and_shows_the_last(lab: Lab) -> None:
    append(lab.path, *(frame(number // 10) for number in range(20_000)))  # 1 MB, no newline
    assert counts(lab.read()) == {"B1": 1999}


def test_a_gigantic_line_hides_nothing_that_comes_after_it(lab: Lab) -> None:
    append(lab.path, b"B1\n", line(50))
    lab.read()
    append(lab.path, b"x" * 5_000_000, b" 7/10", b"\n", line(100))
    assert counts(lab.read()) == {"B1": 100}
