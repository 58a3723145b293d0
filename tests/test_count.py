"""Newlines are counted as `wc -l` counts them, in steps, and the page cache is left as it was."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.histories import folder, histories
from watch_inference.files.count import BLOCK, Counter, Tally, newlines
from watch_inference.files.tail import open_regular


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "out.jsonl"


@pytest.fixture
def counter() -> Counter:
    return Counter()


def begin(descriptor: int) -> Tally:
    status = os.fstat(descriptor)
    return Tally(status.st_dev, status.st_ino)


def count(path: Path, limit: int = 1 << 30) -> Tally:
    descriptor = open_regular(str(path))
    tally, before = begin(descriptor), None
    while tally != before:
        before = tally
        tally, anew = Counter().advance(descriptor, tally, limit)
        assert not anew
    os.close(descriptor)
    return tally


def wc(path: Path) -> int:
    said = subprocess.run(["wc", "-l", str(path)], capture_output=True, text=True, check=True)
    return int(said.stdout.split()[0])


# ------------------------------------------------------------------------------- one block


@pytest.mark.parametrize("length", [1, 2, 30, 41, 120, 1000, 4999, 5001, 60_000])
@pytest.mark.parametrize("expected", [0, 10, 3000, 1 << 18])
def test_every_way_to_count_gives_the_same(length: int, expected: int) -> None:
    line = b"x" * (length - 1) + b"\n"
    block = bytearray((line * (BLOCK // length + 1))[:BLOCK])
    assert newlines(block, BLOCK, expected) == BLOCK // length
    assert newlines(block, length * 2, expected) == 2
    assert newlines(block, 0, expected) == 0


@given(st.binary(max_size=300), st.integers(0, 400), st.integers(0, 300))
def test_only_newlines_before_the_end_count(data: bytes, expected: int, end: int) -> None:
    block = bytearray(data.replace(b"a", b"\n"))
    end = min(end, len(block))
    assert newlines(block, end, expected) == block[:end].count(b"\n")


# -------------------------------------------------------------------------------- one file


def test_blank_lines_crlf_and_a_byte_order_mark_are_newline_bytes(path: Path) -> None:
    path.write_bytes(b'\xef\xbb\xbf{"id":1}\r\n\r\n{"id":2}\r\n')
    assert count(path).lines == 3 == wc(path)


def test_other_line_ends_are_none(path: Path) -> None:
    path.write_bytes("a\rb\vc\fd\x85e\u2028f\0g\n".encode())
    assert count(path).lines == 1


def test_a_last_line_without_a_newline_is_told_apart(path: Path) -> None:
    path.write_bytes(b'{"id":1}\n{"id":2}')
    assert (count(path).lines, count(path).terminated) == (1, False)
    path.write_bytes(b'{"id":1}\n{"id":2}\n')
    assert (count(path).lines, count(path).terminated) == (2, True)
    path.write_bytes(b"")
    assert (count(path).lines, count(path).terminated) == (0, True)


def test_the_first_step_is_one_block_and_the_others_are_as_large_as_allowed(
    path: Path, counter: Counter
) -> None:
    path.write_bytes(b"1234567\n" * 131_072)  # 1 MiB
    descriptor = open_regular(str(path))
    tally, _ = counter.advance(descriptor, begin(descriptor), 1 << 30)
    assert (tally.offset, tally.lines) == (BLOCK, BLOCK // 8)
    tally, _ = counter.advance(descriptor, tally, 1000)
    assert (tally.offset, tally.lines) == (BLOCK + 1000, BLOCK // 8 + 125)
    tally, _ = counter.advance(descriptor, tally, 1 << 30)
    assert (tally.offset, tally.lines) == (1 << 20, 131_072)
    os.close(descriptor)


def test_a_line_of_200_mb_is_one_line_in_little_memory(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'{"t":"')
        for _ in range(200):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n')
    assert count(path).lines == 1


def test_a_hole_of_a_tebibyte_is_skipped(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b"1\n")
        file.seek(1 << 40)
        file.write(b"\n2\n")
    assert count(path).lines == 3
    os.truncate(path, 1 << 42)
    assert (count(path).lines, count(path).offset) == (3, 1 << 42)


def test_a_read_error_is_raised_and_no_count(counter: Counter) -> None:
    descriptor = open_regular("/proc/self/mem")
    with pytest.raises(OSError, match="Input/output error"):
        os.pread(descriptor, 1, 0)
    os.close(descriptor)


@histories
@given(
    old=st.lists(st.sampled_from([b"\n", b"a", b"ab\n", b"x" * 1000]), max_size=8).map(b"".join),
    new=st.lists(st.sampled_from([b"\n", b"a", b"ab\n", b"x" * 1000]), max_size=8).map(b"".join),
    limit=st.sampled_from([1, 3, 4096, 1 << 20]),
)
def test_a_file_rewritten_between_two_steps_is_counted_anew_or_was_a_beginning_of_it(
    old: bytes, new: bytes, limit: int
) -> None:
    with folder() as place:
        path = place / "file"
        path.write_bytes(old)
        descriptor = open_regular(str(path))
        counter = Counter()
        tally, _ = counter.advance(descriptor, begin(descriptor), limit)
        path.write_bytes(new)
        after, anew = counter.advance(descriptor, tally, 1 << 20)
        kept = new.startswith(old[: tally.offset])
        assert after.lines == new[: after.offset].count(b"\n")
        assert anew != kept
        os.close(descriptor)


# ------------------------------------------------------------------------------ page cache


def resident(path: Path) -> int:
    """Say how many bytes of a file are in the page cache, as fincore says it."""
    command = ["fincore", "--bytes", "--noheadings", "--output", "RES", str(path)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.fixture
def evictable(path: Path) -> Iterator[Path]:
    """Give a file of 8 MiB of which the page cache holds nothing; skipped where it cannot be."""
    path.write_bytes(b"1234567\n" * (1 << 20))
    evict(path, 0, 0)
    try:
        left = resident(path)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no fincore to ask")
    if left:
        pytest.skip("this file system lets go of no page")
    yield path


def evict(path: Path, offset: int, length: int) -> None:
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, offset, length, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def test_a_first_count_leaves_the_page_cache_as_it_found_it(evictable: Path) -> None:
    assert count(evictable).lines == 1 << 20
    # On a disk that is faster than a question, a block may pass for one that was there: not half.
    assert resident(evictable) <= 4 << 20


def test_what_was_in_the_page_cache_stays(evictable: Path) -> None:
    warm = evictable.read_bytes()
    assert resident(evictable) == len(warm)
    assert count(evictable).lines == 1 << 20
    assert resident(evictable) == len(warm)
