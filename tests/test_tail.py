"""Hello, reader. A log is followed here through everything that may happen to a file.

First by cases with a name, then by random histories: a list of actions is done to a real file and
to a model of ten lines, and after each read both must have given the same bytes.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.histories import descriptors, folder, histories
from watch_inference.files.tail import (
    LINE_CAP,
    Budget,
    Cursor,
    Follower,
    beyond_hole,
    fingerprint,
    open_regular,
    step,
    why,
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "job.log"


@pytest.fixture
def follower(log: Path) -> Iterator[Follower]:
    followed = Follower(str(log))
    yield followed
    followed.close()


def drain(follower: Follower, limit: int = 1 << 16) -> bytes:
    """Read to the end: the whole lines that came."""
    lines = b""
    while (chunk := follower.read(limit)) is not None:
        lines += chunk.lines
        if not chunk.consumed and not chunk.restarted:
            break
    return lines


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


# ------------------------------------------------------------------------------------- lines


def test_only_whole_lines_come_and_each_once(log: Path, follower: Follower) -> None:
    append(log, b"one\ntw")
    assert drain(follower) == b"one\n"
    append(log, b"o\nthree")
    assert drain(follower) == b"two\n"
    assert drain(follower) == b""
    append(log, b"\n")
    assert drain(follower) == b"three\n"


def test_a_line_that_comes_byte_by_byte_is_never_cut_inside_a_character(
    log: Path, follower: Follower
) -> None:
    text = "fortschritt 3/10 grüße 漢字\n".encode()
    seen = []
    for byte in text:
        append(log, bytes([byte]))
        seen.append(drain(follower))
    assert seen == [b""] * (len(text) - 1) + [text]


def test_a_carriage_return_ends_a_frame(log: Path, follower: Follower) -> None:
    append(log, b"\r 10%|# | 1/10\r 20%|##| 2/10")
    assert drain(follower) == b"\r 10%|# | 1/10\r"
    assert follower.cursor is not None
    assert follower.cursor.partial == b" 20%|##| 2/10"
    assert follower.cursor.after_return


def test_a_line_without_a_return_before_it_is_not_a_frame(log: Path, follower: Follower) -> None:
    append(log, b"\r 10%|# | 1/10\n150/100")
    drain(follower)
    assert follower.cursor is not None
    assert not follower.cursor.after_return


def test_a_crlf_that_comes_in_two_reads_is_one_line_end(log: Path, follower: Follower) -> None:
    append(log, b"one\r")
    assert drain(follower) == b"one\r"
    append(log, b"\ntwo\r\n")
    assert drain(follower) == b"two\r\n"


def test_a_byte_order_mark_is_no_part_of_the_first_line(log: Path, follower: Follower) -> None:
    append(log, b"\xef\xbb")
    drain(follower)
    append(log, b"\xbf150/300 x\n\xef\xbb\xbfinside\n")
    assert drain(follower) == b"150/300 x\n\xef\xbb\xbfinside\n"


def test_of_an_over_long_line_the_head_is_kept_and_the_next_line_is_whole(
    log: Path, follower: Follower
) -> None:
    append(log, b"before\n" + b"x" * (3 * LINE_CAP) + b"tail 150/300\nafter\n")
    assert drain(follower, 4096) == b"before\n" + b"x" * LINE_CAP + b"\nafter\n"


def test_a_frame_behind_an_over_long_line_is_read(log: Path, follower: Follower) -> None:
    append(log, b"x" * (2 * LINE_CAP) + b"\r 10%|# | 1/10")
    assert drain(follower, 4096) == b"x" * LINE_CAP + b"\r"
    assert follower.cursor is not None
    assert (follower.cursor.partial, follower.cursor.after_return) == (b" 10%|# | 1/10", True)


def test_nuls_are_left_out(log: Path, follower: Follower) -> None:
    append(log, b"on\0e\n\0\0\0two\n")
    assert drain(follower) == b"one\ntwo\n"


def test_what_is_not_read_yet_is_said(log: Path, follower: Follower) -> None:
    append(log, b"12345\n" * 10)
    chunk = follower.read(20)
    assert chunk is not None
    assert (chunk.lines, chunk.consumed, chunk.behind) == (b"12345\n" * 3, 20, 40)


def test_reading_on_is_keeping_the_cursor(log: Path) -> None:
    append(log, b"one\ntwo\nthr")
    descriptor = open_regular(str(log))
    first = step(descriptor, Cursor(*os.fstat(descriptor)[2:0:-1]), 6)
    again = step(descriptor, first.cursor)
    os.close(descriptor)
    assert (first.lines, again.lines, again.cursor.partial) == (b"one\n", b"two\n", b"thr")


# -------------------------------------------------------------------------- files that change


def test_a_rotated_log_is_read_to_its_end_before_the_switch(log: Path, follower: Follower) -> None:
    append(log, b"1\n2\n")
    assert drain(follower) == b"1\n2\n"
    with log.open("ab") as writer:
        log.rename(log.with_suffix(".1"))
        writer.write(b"3\n4\n")
        writer.flush()
        log.touch()  # as logrotate's `create` does
        assert drain(follower) == b"3\n4\n"
        writer.write(b"5\n")
    append(log, b"6\n")
    assert drain(follower) == b"5\n6\n"
    assert (follower.notes, follower.restarts) == (("rotated",), 0)


def test_a_copy_truncated_log_is_read_from_its_beginning(log: Path, follower: Follower) -> None:
    append(log, b"1\n2\n3\n")
    drain(follower)
    shutil.copy(log, log.with_suffix(".1"))
    os.truncate(log, 0)
    append(log, b"4\n")
    assert drain(follower) == b"4\n"
    assert (follower.notes, follower.restarts) == (("truncated",), 1)
    os.truncate(log, 0)
    append(log, b"5\n")
    assert drain(follower) == b"5\n"


def test_the_hole_of_a_writer_that_does_not_append_is_skipped(
    log: Path, follower: Follower
) -> None:
    with log.open("wb", buffering=0) as writer:
        writer.write(b"150/300 before\n")
        drain(follower)
        writer.seek(300_000_000)
        os.truncate(log, 0)
        writer.write(b"160/300 after\n")
    chunk = follower.read()
    assert chunk is not None
    assert (chunk.lines, chunk.restarted, chunk.behind) == (b"160/300 after\n", "truncated", 0)


def test_a_log_that_outgrew_its_offset_since_it_was_truncated_is_read_anew(
    log: Path, follower: Follower
) -> None:
    append(log, b"1\n2\n3\n")
    drain(follower)
    log.write_bytes(b"7\n8\n9\n10\n11\n")  # the same inode, and longer
    assert drain(follower) == b"7\n8\n9\n10\n11\n"
    assert follower.notes == ("truncated",)


def test_a_rewrite_of_the_same_size_is_read(log: Path, follower: Follower) -> None:
    append(log, b"1\n2\n3\n")
    drain(follower)
    times = log.stat()
    log.write_bytes(b"4\n5\n6\n")
    os.utime(log, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert drain(follower) == b"4\n5\n6\n"


def test_a_log_truncated_to_nothing_is_noticed_and_slow_growth_is_read(
    log: Path, follower: Follower
) -> None:
    append(log, b"a long line of the run before\n")
    drain(follower)
    os.truncate(log, 0)
    assert drain(follower) == b""
    assert follower.notes == ("truncated",)
    append(log, b"1")
    assert drain(follower) == b""
    append(log, b"\n")
    assert drain(follower) == b"1\n"


def test_a_deleted_and_created_log_is_another_one(log: Path, follower: Follower) -> None:
    append(log, b"old and long enough\n")
    drain(follower)
    log.unlink()
    assert drain(follower) == b""
    append(log, b"fresh\n")
    assert drain(follower) == b"fresh\n"
    assert (follower.notes, follower.restarts) == (("replaced",), 1)


def test_an_unlinked_log_is_still_read(log: Path, follower: Follower) -> None:
    with log.open("ab", buffering=0) as writer:
        writer.write(b"1\n")
        drain(follower)
        log.unlink()
        writer.write(b"2\n")
        assert drain(follower) == b"2\n"
        assert follower.error is None


def test_a_retargeted_symlink_is_followed(log: Path, follower: Follower) -> None:
    append(log.with_name("a"), b"a1\n")
    append(log.with_name("b"), b"b1\n")
    log.symlink_to("a")
    assert drain(follower) == b"a1\n"
    append(log.with_name("a"), b"a2\n")
    log.with_name("new").symlink_to("b")
    log.with_name("new").rename(log)
    assert drain(follower) == b"a2\nb1\n"


def test_a_log_that_appears_later_is_read_from_its_beginning(log: Path, follower: Follower) -> None:
    assert follower.read() is None
    assert follower.error == "missing"
    append(log, b"1\n")
    assert drain(follower) == b"1\n"
    assert follower.error is None


def test_a_log_without_permission_is_read_on_and_its_successor_when_it_may_be(
    unprivileged: None,
) -> None:
    with folder() as place:
        place.chmod(0o755)
        log = place / "job.log"
        append(log, b"1\n")
        follower = Follower(str(log))
        drain(follower)
        log.chmod(0)
        with log.with_suffix(".1").open("wb"):
            pass
        log.chmod(0o600)
        with log.open("ab", buffering=0) as writer:
            log.chmod(0)
            writer.write(b"2\n")
            assert drain(follower) == b"2\n"
            log.rename(log.with_suffix(".2"))
            append(log, b"3\n")
            log.chmod(0)
            assert drain(follower) == b""
            assert follower.error == "permission denied"
            writer.write(b"2b\n")
            assert drain(follower) == b"2b\n"
        log.chmod(0o644)
        assert drain(follower) == b"3\n"
        assert follower.error is None
        follower.close()


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Be nobody for a while, where we are root: root is refused nothing."""
    if os.geteuid():
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    yield
    os.seteuid(0)
    os.setegid(0)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (os.mkfifo, "not a regular file"),
        (os.mkdir, "is a directory"),
        (lambda path: os.symlink("/dev/zero", path), "not a regular file"),
        (lambda path: os.symlink(path, path), "too many levels of symbolic links"),
        (lambda path: os.symlink("/proc/self/mem", path), "input/output error"),
        (lambda path: os.symlink("nowhere/at/all", path), "missing"),
    ],
)
def test_what_is_no_readable_file_is_a_word_and_never_blocks(
    log: Path, follower: Follower, make: Callable[[str], None], word: str
) -> None:
    make(str(log))
    assert follower.read() is None
    assert follower.error == word


def test_a_fifo_beside_a_waiting_writer_is_not_opened(log: Path) -> None:
    os.mkfifo(log)
    with pytest.raises(OSError, match="not a regular file"):
        open_regular(str(log))
    with pytest.raises(OSError, match="No such device"):  # nobody has it open for reading
        os.open(log, os.O_WRONLY | os.O_NONBLOCK)


def test_a_successor_that_cannot_be_opened_is_waited_for(log: Path, follower: Follower) -> None:
    append(log, b"1\n")
    drain(follower)
    with log.open("ab", buffering=0) as writer:
        log.rename(log.with_suffix(".1"))
        log.mkdir()
        assert drain(follower) == b""
        assert follower.error == "is a directory"
        writer.write(b"2\n")
        assert drain(follower) == b"2\n"
    log.rmdir()
    append(log, b"3\n")
    assert drain(follower) == b"3\n"
    assert follower.error is None


def test_a_follower_holds_one_descriptor(log: Path, follower: Follower) -> None:
    before = descriptors()
    for number in range(50):
        append(log, b"%d\n" % number)
        drain(follower)
        log.rename(log.with_suffix(".1"))
    assert descriptors() == before + 1
    follower.close()
    assert descriptors() == before


# ------------------------------------------------------------------------------ small things


def test_a_fingerprint_hashes_what_was_read_and_not_what_came_after(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * 10_000)
    descriptor = open_regular(str(path))
    whole = fingerprint(descriptor, 10_000)
    path.write_bytes(b"b" * 10_000)
    assert fingerprint(descriptor, 10_000, b"a" * 10_000) == whole
    assert fingerprint(descriptor, 10_000) != whole
    os.close(descriptor)


@given(size=st.integers(0, 20_000), cut=st.integers(0, 20_000))
def test_a_fingerprint_is_the_same_however_much_of_it_is_in_hand(size: int, cut: int) -> None:
    data = b"".join(b"%d," % number for number in range(size // 4))[:size]
    with folder() as place:
        (place / "file").write_bytes(data)
        descriptor = open_regular(str(place / "file"))
        whole = fingerprint(descriptor, len(data))
        assert fingerprint(descriptor, len(data), data[min(cut, len(data)) :]) == whole
        os.close(descriptor)


def test_a_hole_ends_where_data_begins(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(1 << 40)
        file.seek(1 << 30)
        file.write(b"x")
    descriptor = open_regular(str(path))
    assert beyond_hole(descriptor, 0, 1 << 40) in range((1 << 30) - 65536, (1 << 30) + 1)
    assert beyond_hole(descriptor, (1 << 30) + 65536, 1 << 40) == 1 << 40
    os.close(descriptor)


def test_a_budget_ends_by_bytes_or_by_time() -> None:
    now = [100.0]
    budget = Budget(10, seconds=0.5, clock=lambda: now[0])
    budget.spend(4)
    assert budget.left() == 6
    budget.spend(100)
    assert budget.left() == 0
    late = Budget(10, seconds=0.5, clock=lambda: now[0])
    now[0] = 100.5
    assert late.left() == 0
    assert Budget(None, clock=lambda: now[0]).left() > 1 << 50


def test_reasons_are_words() -> None:
    assert why(PermissionError(13, "Permission denied")) == "permission denied"
    assert why(OSError("not a regular file")) == "not a regular file"
    assert why(OSError(5, "x")) == "input/output error"


# -------------------------------------------------------------------------- random histories


class Generation:
    """One file as the model has it, and how much of it was read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = b""
        self.read = b""  # as it was when it was read


class Model:
    """What a follower must give, in ten lines."""

    def __init__(self) -> None:
        self.named: Generation | None = None
        self.held: Generation | None = None
        self.partial = b""

    def step(self, limit: int) -> bytes | None:
        """Give the lines of one read; None at the end."""
        self.held = self.held or self.named
        if self.held is None:
            return None
        anew = not self.held.data.startswith(self.held.read)
        if anew:
            self.held.read = self.partial = b""
        taken = self.held.data[len(self.held.read) :][:limit]
        other = self.named is not self.held and self.named is not None and self.named.data
        if not taken and not anew and other:
            self.held, self.partial, anew = self.named, b"", True
            assert self.held is not None
            taken = self.held.data[:limit]
        self.held.read += taken
        whole, end, self.partial = (self.partial + taken).rpartition(b"\n")
        return whole + end if taken or anew else None


class Action(NamedTuple):
    name: str
    size: int


class World:
    """A real log and its model; no number is written twice, so that no line is like another."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.path = place / "job.log"
        self.model = Model()
        self.before: Generation | None = None  # the file that was rotated away last
        self.number = 0

    def text(self, lines: int) -> bytes:
        self.number += lines
        return b"".join(b"%07d\n" % number for number in range(self.number - lines, self.number))

    def put(self, generation: Generation, data: bytes, mode: str = "ab") -> None:
        generation.data = (generation.data if mode == "ab" else b"") + data
        with generation.path.open(mode) as file:
            file.write(data)

    def current(self) -> Generation:
        if self.model.named is None:
            self.model.named = Generation(self.path)
            self.path.touch()
        return self.model.named

    def away(self) -> None:
        self.before, self.model.named = self.current(), None

    # ---- one method an action

    def write(self, size: int) -> None:
        self.put(self.current(), self.text(size))

    def write_a_part(self, size: int) -> None:
        self.put(self.current(), self.text(size + 1)[:-3])

    def write_a_lot(self, size: int) -> None:
        self.put(self.current(), self.text(size * 200))

    def truncate(self, size: int) -> None:
        self.put(self.current(), b"", "wb")

    def cut(self, size: int) -> None:
        generation = self.current()
        generation.data = generation.data[: len(generation.data) * size // 10]
        os.truncate(generation.path, len(generation.data))

    def rewrite(self, size: int) -> None:
        generation = self.current()
        lines = len(generation.data) // 8
        self.put(generation, (self.text(lines) + b"x" * 8)[: len(generation.data)], "wb")

    def rotate(self, size: int) -> None:
        self.away()
        assert self.before is not None
        self.before.path = self.place / f"job.log.{self.number}.{len(os.listdir(self.place))}"
        self.path.rename(self.before.path)

    def write_late(self, size: int) -> None:
        if self.before is not None and self.before.path.exists():
            self.put(self.before, self.text(size))

    def copy_and_truncate(self, size: int) -> None:
        shutil.copy(self.current().path, self.place / "copy")
        self.put(self.current(), b"", "wb")

    def delete(self, size: int) -> None:
        self.away()
        self.path.unlink()
        self.before = None

    def create(self, size: int) -> None:
        self.current()

    def replace(self, size: int) -> None:
        self.away()
        fresh = Generation(self.place / "fresh")
        self.put(fresh, self.text(size), "wb")
        fresh.path.rename(self.path)
        fresh.path = self.path
        self.before, self.model.named = None, fresh

    def retarget(self, size: int) -> None:
        self.away()
        fresh = Generation(self.place / f"target.{self.number}")
        self.put(fresh, self.text(size), "ab")
        (self.place / "link").symlink_to(fresh.path)
        (self.place / "link").rename(self.path)
        self.before, self.model.named = None, fresh

    def touch(self, size: int) -> None:
        os.utime(self.current().path, ns=(0, size * 10**18))


ACTIONS = [name for name in vars(World) if not name.startswith("_")]
for helper in ("text", "put", "current", "away"):
    ACTIONS.remove(helper)
actions = st.builds(
    Action,
    st.one_of(st.just("read"), st.just("read_all"), st.sampled_from(ACTIONS)),
    st.integers(0, 10),
)


@histories
@given(
    script=st.lists(actions, min_size=15, max_size=60),
    limit=st.sampled_from([1, 7, 8, 100, 4096, 1 << 18]),
)
def test_any_history_of_a_log_gives_each_line_once_and_whole(
    script: list[Action], limit: int
) -> None:
    with folder() as place:
        world = World(place)
        follower = Follower(str(world.path))
        for action in [*script, Action("read_all", 0)]:
            if action.name == "read":
                chunk = follower.read(limit)
                expected = world.model.step(limit)
                assert (chunk.lines if chunk else b"") == (expected or b"")
            elif action.name == "read_all":
                steps = list(iter(lambda: world.model.step(1 << 18), None))
                assert drain(follower, 1 << 18) == b"".join(steps)
                assert (follower.cursor.partial if follower.cursor else b"") == world.model.partial
            else:
                getattr(world, action.name)(action.size)
        follower.close()
