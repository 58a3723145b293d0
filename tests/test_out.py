"""Standard output: written at once, in an encoding that cannot fail, and an end that is known."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from watch_inference.views.out import CannotWrite, Out, ReaderGone


def read_all(fd: int) -> bytes:
    return b"".join(iter(lambda: os.read(fd, 65536), b""))


def test_a_text_is_on_its_way_when_write_returns() -> None:
    reader, writer = os.pipe()
    Out(writer, "utf-8").write("eins → zwei\n")
    os.close(writer)
    assert read_all(reader) == "eins → zwei\n".encode()
    os.close(reader)


def test_what_the_locale_cannot_say_is_a_question_mark() -> None:
    reader, writer = os.pipe()
    Out(writer, "latin-1").write("naïve → 漢\n")
    os.close(writer)
    assert read_all(reader) == b"na?ve ? ?\n"
    os.close(reader)


def test_a_lone_surrogate_never_becomes_a_raw_byte() -> None:
    reader, writer = os.pipe()
    Out(writer, "utf-8").write("a\udc9bb\n")
    os.close(writer)
    assert read_all(reader) == b"a?b\n"
    os.close(reader)


def test_a_reader_that_closed_its_pipe_is_gone() -> None:
    reader, writer = os.pipe()
    out = Out(writer)
    assert out.alive()
    os.close(reader)
    assert not out.alive()
    with pytest.raises(ReaderGone):
        out.write("x\n")
    os.close(writer)


def test_a_terminal_that_hung_up_is_gone() -> None:
    master, slave = pty.openpty()
    out = Out(slave)
    assert out.alive()
    os.close(master)
    assert not out.alive()
    with pytest.raises(ReaderGone):
        out.write("x\n")
    os.close(slave)


def test_a_full_disk_says_so() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(CannotWrite, match="No space left on device"):
        Out(full).write("x\n")
    os.close(full)


def test_a_descriptor_closed_at_the_start_is_never_written_to_even_when_reused(
    tmp_path: Path,
) -> None:
    code = """
import os
from watch_inference.views.out import CannotWrite, Out
precious = os.open("precious", os.O_RDWR | os.O_CREAT)
assert precious == 1
try:
    Out().write("x")
except CannotWrite as error:
    os.write(2, str(error).encode())
assert os.fstat(precious).st_size == 0
"""
    command = ["sh", "-c", f"exec '{sys.executable}' -c '{code}' >&-"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, timeout=30, check=True
    )
    assert done.stderr == b"Bad file descriptor"


def test_a_regular_file_is_always_alive(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        out = Out(file.fileno())
        assert out.alive()
        out.write("x\n")
    assert (tmp_path / "out").read_bytes() == b"x\n"


def test_a_pipe_that_somebody_made_non_blocking_is_waited_for() -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    child = os.fork()
    if child == 0:
        os.close(writer)
        read = len(read_all(reader))
        os._exit(0 if read == 300_000 else 1)
    os.close(reader)
    Out(writer).write("x" * 300_000)
    os.close(writer)
    assert os.waitpid(child, 0)[1] == 0
