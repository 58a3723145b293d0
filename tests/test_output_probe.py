"""Outputs are counted as `wc -l` counts them, whatever happened to the files between two looks."""

from __future__ import annotations

import os
import resource
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.histories import descriptors, folder, histories
from watch_inference.files.checkpoint import Memory
from watch_inference.model import Dataset, Options, OutputReading
from watch_inference.probes.output import Outputs, countable

NOW = 2e9  # a wall clock at which no file of ours was changed just now


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


class Lab:
    """One dataset in a folder, and a probe that looks at it once a second."""

    def __init__(self, place: Path, *patterns: str, **options: object) -> None:
        self.place = place
        self.at = 0.0
        self.dataset = Dataset(
            "B1",
            str(place),
            (str(place / "prompts.jsonl"),),
            tuple(str(place / pattern) for pattern in patterns or ("out*.jsonl",)),
        )
        self.probe = Outputs(Options(**options))  # type: ignore[arg-type]

    def read(self, *held: Path, whole: bool = False, wall: float = NOW) -> OutputReading:
        self.at += 1.0
        paths = [str(path) for path in held]
        return self.probe.read(self.at, wall, [self.dataset], paths, whole)[0]

    def file(self, name: str = "out.jsonl") -> Path:
        return self.place / name


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    made = Lab(tmp_path)
    yield made
    made.probe.close()


# -------------------------------------------------------------------------------- the count


def test_complete_lines_are_counted_and_the_unfinished_one_is_told(lab: Lab) -> None:
    append(lab.file(), b'{"id":1}\n{"id":2}')
    reading = lab.read()
    assert (reading.written, reading.unterminated) == (1, True)
    assert (reading.bytes, reading.counted, reading.files) == (17, 17, 1)
    append(lab.file(), b"\n")
    assert (lab.read().written, lab.read().unterminated) == (2, False)


def test_without_a_file_nothing_is_written_and_no_file_is_there(lab: Lab) -> None:
    reading = lab.read()
    assert (reading.written, reading.files, reading.error, reading.modified) == (0, 0, None, None)
    assert (reading.total, reading.has_prompts, reading.changed_at) == (None, False, None)


def test_a_refresh_reads_the_new_bytes_only(lab: Lab) -> None:
    append(lab.file(), b"1\n" * 4_000_000)
    assert lab.read().written == 4_000_000
    before = read_bytes()
    append(lab.file(), b"2\n")
    assert lab.read().written == 4_000_001
    assert lab.read().written == 4_000_001
    assert read_bytes() - before < 200_000


def read_bytes() -> int:
    text = Path("/proc/self/io").read_text()
    return int(text.split("rchar:")[1].split()[0])


def test_bytes_move_the_time_of_change_and_touching_does_not(lab: Lab) -> None:
    append(lab.file(), b"1\n")
    assert lab.read().changed_at is None
    append(lab.file(), b"2\n")
    assert lab.read().changed_at == 2.0
    os.utime(lab.file(), ns=(0, 4 * 10**18))
    reading = lab.read()
    assert (reading.changed_at, reading.modified, reading.written) == (2.0, 4e9, 2)
    append(lab.file(), b"3\n")
    os.utime(lab.file(), ns=(0, 10**18))
    assert lab.read().changed_at == 4.0


def test_a_new_shard_is_counted_and_is_new_work(lab: Lab) -> None:
    append(lab.file("out_0.jsonl"), b"1\n2\n")
    assert lab.read().written == 2
    shutil.copy(lab.file("out_0.jsonl"), lab.file("out_7.jsonl"))
    reading = lab.read()
    assert (reading.written, reading.files, reading.changed_at) == (4, 2, 2.0)
    assert reading.replaced == 0


def test_a_file_that_has_several_names_is_counted_once(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "out*.jsonl", "out_a.jsonl", "*.jsonl")
    append(lab.file("out_a.jsonl"), b"1\n2\n")
    lab.file("out_b.jsonl").hardlink_to(lab.file("out_a.jsonl"))
    lab.file("out_c.jsonl").symlink_to("out_a.jsonl")
    reading = lab.read()
    assert (reading.written, reading.files) == (2, 1)
    lab.file("out_a.jsonl").unlink()  # the count stays with the file, not with its name
    reading = lab.read()
    assert (reading.written, reading.files, reading.replaced) == (2, 1, 0)


def test_two_datasets_are_two_readings_in_their_order(tmp_path: Path) -> None:
    probe = Outputs(Options())
    datasets = []
    for number in (2, 1):
        append(tmp_path / f"{number}.jsonl", b"x\n" * number)
        path = str(tmp_path / f"{number}.jsonl")
        datasets.append(Dataset(f"B{number}", str(tmp_path), (), (path,)))
    readings = probe.read(0.0, NOW, datasets)
    assert [(one.name, one.written) for one in readings] == [("B2", 2), ("B1", 1)]
    assert [one.name for one in probe.read(1.0, NOW, datasets[1:])] == ["B1"]
    probe.close()


def test_a_name_that_looks_like_a_pattern_and_is_there_is_a_name(tmp_path: Path) -> None:
    append(tmp_path / "out[1].jsonl", b"x\n")
    append(tmp_path / "out1.jsonl", b"x\nx\n")
    assert Lab(tmp_path, "out[1].jsonl").read().written == 1


def test_hidden_files_and_folders_fit_no_pattern(lab: Lab) -> None:
    append(lab.file(".out.jsonl"), b"x\n")
    lab.file("out_folder.jsonl").mkdir()
    assert lab.read().files == 0


def test_a_file_that_a_process_holds_open_is_said_to_be(lab: Lab) -> None:
    append(lab.file(), b"x\n")
    append(lab.file("other"), b"x\n")
    lab.file("alias").symlink_to(lab.file())
    assert not lab.read(lab.file("other"), lab.file("nowhere")).held
    assert lab.read(lab.file()).held
    assert lab.read(lab.file("alias")).held


# -------------------------------------------------------------------------- files that change


def test_a_truncated_file_counts_down_openly(lab: Lab) -> None:
    append(lab.file(), b"12345\n" * 100)
    assert lab.read().written == 100
    os.truncate(lab.file(), 360)
    reading = lab.read()
    assert (reading.written, reading.replaced) == (60, 1)


def test_a_file_that_grew_past_its_count_since_it_was_truncated_is_counted_anew(lab: Lab) -> None:
    append(lab.file(), b"12345\n" * 10)
    lab.read()
    lab.file().write_bytes(b"1\n" * 100)
    reading = lab.read()
    assert (reading.written, reading.replaced) == (100, 1)


def test_a_rewrite_of_the_same_size_and_time_is_counted(lab: Lab) -> None:
    append(lab.file(), b"12345\n" * 10)
    lab.read()
    times = lab.file().stat()
    lab.file().write_bytes(b"1\n" * 30)
    os.utime(lab.file(), ns=(times.st_atime_ns, times.st_mtime_ns))
    reading = lab.read()
    assert (reading.written, reading.replaced) == (30, 1)


def test_a_deleted_file_is_not_counted_and_its_successor_is(lab: Lab) -> None:
    append(lab.file(), b"1\n2\n3\n")
    lab.read()
    lab.file().unlink()
    reading = lab.read()
    assert (reading.written, reading.files, reading.replaced) == (0, 0, 1)
    append(lab.file(), b"4\n")
    reading = lab.read()
    assert (reading.written, reading.files, reading.replaced) == (1, 1, 1)


def test_an_output_that_appears_whole_at_the_end_is_counted(lab: Lab) -> None:
    append(lab.file("temporary"), b"1\n2\n")
    assert lab.read().written == 0
    lab.file("temporary").rename(lab.file())
    reading = lab.read()
    assert (reading.written, reading.changed_at) == (2, 2.0)


def test_what_is_no_file_is_an_error_and_no_count(lab: Lab) -> None:
    os.mkfifo(lab.file())
    reading = lab.read()
    assert (reading.files, reading.error) == (0, "not a regular file")


def test_a_file_that_may_not_be_read_is_unknown_until_it_may(unprivileged: None) -> None:
    with folder() as place:
        lab = Lab(place)
        append(lab.file(), b"1\n")
        lab.file().chmod(0)
        reading = lab.read()
        assert (reading.written, reading.bytes, reading.error) == (None, 2, "permission denied")
        lab.file().chmod(0o600)
        reading = lab.read()
        assert (reading.written, reading.error) == (1, None)
        place.chmod(0)
        reading = lab.read()
        assert (reading.written, reading.error) == (1, "permission denied")
        place.chmod(0o700)
        append(lab.file(), b"2\n")
        assert lab.read().written == 2
        lab.probe.close()


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


# ------------------------------------------------------------------------------------ totals


def test_the_prompts_are_the_total_and_a_last_line_without_a_newline_counts(lab: Lab) -> None:
    append(lab.file("prompts.jsonl"), b"1\n2\n3")
    reading = lab.read()
    assert (reading.total, reading.prompts_bytes, reading.has_prompts) == (3, 5, True)
    append(lab.file("prompts.jsonl"), b"\n4\n")
    assert lab.read().total == 4


def test_the_same_prompts_have_the_same_fingerprint(lab: Lab, tmp_path: Path) -> None:
    append(lab.file("prompts.jsonl"), b"1\n2\n3\n")
    first = lab.read().prompts_fingerprint
    (tmp_path / "copy").mkdir()
    shutil.copy(lab.file("prompts.jsonl"), tmp_path / "copy")
    assert Lab(tmp_path / "copy").read().prompts_fingerprint == first
    append(lab.file("prompts.jsonl"), b"4\n")
    assert lab.read().prompts_fingerprint not in (first, None)


def test_a_total_that_the_user_said_wins(lab: Lab) -> None:
    append(lab.file("prompts.jsonl"), b"1\n2\n3\n")
    lab.dataset = lab.dataset._replace(total=1000)
    reading = lab.read()
    assert (reading.total, reading.user_total, reading.has_prompts) == (1000, True, True)


def test_the_length_of_the_prompts_is_known_by_tenths(lab: Lab) -> None:
    append(lab.file("prompts.jsonl"), (b"x" * 99 + b"\n") * 5000 + (b"y" * 299 + b"\n") * 5000)
    tenths = lab.read().prompt_bytes_deciles
    assert [round(one, -1) for one in tenths] == [100] * 5 + [300] * 5


def test_a_second_visit_knows_the_length_of_the_prompts_too(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    lab = Lab(tmp_path / "job")
    append(lab.file("prompts.jsonl"), (b"x" * 99 + b"\n") * 9000 + (b"y" * 299 + b"\n") * 9000)
    tenths = []
    for _ in range(2):
        lab.probe = Outputs(Options(), Memory({"XDG_CACHE_HOME": str(tmp_path / "cache")}))
        tenths.append(lab.read().prompt_bytes_deciles)
        lab.probe.close()
    assert [round(one, -1) for one in tenths[0]] == [100] * 5 + [300] * 5
    assert tenths[0] == tenths[1]


def test_prompts_that_grow_line_by_line_keep_few_marks(lab: Lab) -> None:
    for number in range(500):
        append(lab.file("prompts.jsonl"), b"x" * (99 if number < 250 else 299) + b"\n")
        reading = lab.read()
    assert reading.total == 500
    tenths = [round(one, -1) for one in reading.prompt_bytes_deciles]
    assert (tenths[:4], tenths[-4:]) == ([100] * 4, [300] * 4)


# --------------------------------------------------------------- what has no lines to count


def test_compressed_and_binary_outputs_are_not_counted(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "out.jsonl.gz")
    append(lab.file("out.jsonl.gz"), b"\n\n\n")
    reading = lab.read()
    assert (reading.countable, reading.written, reading.unterminated) == (False, None, False)
    assert (reading.bytes, reading.counted, reading.files) == (3, 3, 1)
    append(lab.file("out.jsonl.gz"), b"\n")
    assert lab.read().changed_at == 2.0


@pytest.mark.parametrize("name", ["a.jsonl.GZ", "a.zst", "a.parquet", "a.arrow", "a.npz", "a.bz2"])
def test_some_names_say_that_there_are_no_lines(name: str) -> None:
    assert not countable(name)


def test_each_file_may_be_one_request(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "*.json", "single.txt", counting="files")
    append(lab.file("prompts.jsonl"), b"1\n2\n3\n")
    assert (lab.read().written, lab.read().total) == (0, 3)
    for number in range(3):
        append(lab.file(f"{number}.json"), b"no line")
    append(lab.file("single.txt"), b"")
    reading = lab.read()
    assert (reading.written, reading.files, reading.changed_at) == (4, 4, 3.0)
    assert (reading.bytes, reading.counted, reading.unterminated) == (0, 0, False)
    lab.file("1.json").unlink()
    reading = lab.read()
    assert (reading.written, reading.replaced, reading.changed_at) == (3, 1, 3.0)


# ----------------------------------------------------------------------------------- budgets


def test_a_first_count_goes_on_over_many_reads(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.probe = Outputs(Options(), budget=1 << 20)
    append(lab.file("out_large.jsonl"), b"1234567\n" * (1 << 19))  # 4 MiB
    append(lab.file("prompts.jsonl"), b"1\n" * 10)
    first = lab.read()
    assert (first.written, first.bytes, first.total) == (None, 1 << 22, 10)
    assert 0 < first.counted <= (1 << 20)
    readings = [lab.read() for _ in range(4)]
    assert [one.written for one in readings[:2]] == [None, None]
    assert (readings[-1].written, readings[-1].counted) == (1 << 19, 1 << 22)
    assert readings[-1].changed_at is None


def test_one_look_may_count_everything(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.probe = Outputs(Options(), budget=1 << 20)
    append(lab.file(), b"1234567\n" * (1 << 19))
    assert lab.read(whole=True).written == 1 << 19


def test_a_known_count_goes_on_while_it_is_behind(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.probe = Outputs(Options(), budget=1 << 20)
    append(lab.file(), b"1234567\n")
    lab.read()
    append(lab.file(), b"1234567\n" * (1 << 18))  # 2 MiB at once
    reading = lab.read()
    assert reading.written == (reading.counted // 8)
    assert reading.counted < reading.bytes


def test_time_ends_a_step_as_bytes_do(tmp_path: Path) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 0.2
        return now[0]

    lab = Lab(tmp_path)
    lab.probe = Outputs(Options(), clock=clock)
    for number in range(10):
        append(lab.file(f"out_{number}.jsonl"), b"1\n")
    assert lab.read().written is None


# --------------------------------------------------------------- many files, few descriptors


def test_ten_thousand_shards_need_few_descriptors_and_little_time_at_rest(tmp_path: Path) -> None:
    for number in range(10_000):
        (tmp_path / f"out_{number:05}.jsonl").write_bytes(b"1\n2\n")
    lab = Lab(tmp_path)
    before = descriptors()
    assert lab.read(whole=True).written == 20_000
    assert descriptors() - before <= 12
    begun = time.process_time()
    for _ in range(10):
        lab.read()
    assert (time.process_time() - begun) / 10 < 0.25
    append(lab.file("out_05000.jsonl"), b"3\n")
    for _ in range(8):  # each file has its turn
        reading = lab.read()
    assert (reading.written, reading.files) == (20_001, 10_000)
    for number in range(0, 10_000, 100):  # those that grow stay in sight
        append(lab.file(f"out_{number:05}.jsonl"), b"3\n")
    assert lab.read(whole=True).written == 20_101
    assert descriptors() - before <= 12
    lab.probe.close()
    assert descriptors() == before


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open("/dev/null", os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_with_no_descriptor_left_those_that_are_held_are_given_up(lab: Lab) -> None:
    files = [lab.file(f"out_{number}.jsonl") for number in range(20)]
    for expected in (20, 40):
        for file in files:
            append(file, b"1\n")
        assert lab.read().written == expected
    for file in files:
        append(file, b"1\n")
    with no_descriptor_left():
        assert lab.read().written == 60


def test_without_any_descriptor_the_count_is_unknown_until_there_is_one(tmp_path: Path) -> None:
    lab = Lab(tmp_path, "out.jsonl")
    append(lab.file(), b"1\n")
    with no_descriptor_left():
        reading = lab.read()
    assert (reading.written, reading.error) == (None, "too many open files")
    reading = lab.read()
    assert (reading.written, reading.error) == (1, None)
    lab.probe.close()


def test_growing_files_are_held_and_others_are_not(lab: Lab) -> None:
    before = descriptors()
    append(lab.file(), b"1\n")
    lab.read()
    assert descriptors() == before
    append(lab.file(), b"2\n")
    lab.read()
    assert descriptors() == before + 1
    lab.file().unlink()
    lab.read()
    assert descriptors() == before


# ----------------------------------------------------------------------------- second visits


def test_a_second_visit_reads_only_what_was_added(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    lab = Lab(tmp_path / "job")
    append(lab.file(), b"1234567\n" * (1 << 19))
    for written in ((1 << 19), (1 << 19) + 1):
        memory = Memory({"XDG_CACHE_HOME": str(tmp_path / "cache")})
        lab.probe = Outputs(Options(), memory)
        before = read_bytes()
        reading = lab.read()
        spent = read_bytes() - before
        assert (reading.written, reading.replaced, reading.changed_at) == (written, 0, None)
        lab.probe.close()
        append(lab.file(), b"1234567\n")
        assert memory.warnings == ()
    assert spent < 200_000


@pytest.mark.parametrize("edit", [0, 5000, (1 << 22) - 3])
def test_a_file_that_is_another_one_now_is_counted_anew(tmp_path: Path, edit: int) -> None:
    (tmp_path / "job").mkdir()
    lab = Lab(tmp_path / "job")
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    append(lab.file(), b"1234567\n" * (1 << 19))
    lab.probe = Outputs(Options(), Memory(cache))
    lab.read()
    lab.probe.close()
    if edit == 5000:
        shutil.copy(lab.file(), lab.file("copy"))
        append(lab.file("copy"), b"x\n")
        lab.file("copy").rename(lab.file())
    else:
        with lab.file().open("r+b") as file:
            file.seek(edit)
            file.write(b"\n\n")
    lab.probe = Outputs(Options(), Memory(cache))
    reading = lab.read()
    assert (reading.written, reading.replaced) == (lab.file().read_bytes().count(b"\n"), 0)
    lab.probe.close()


# -------------------------------------------------------------------------- random histories


class Action(NamedTuple):
    name: str
    first: int
    second: int
    text: bytes


NAMES = ("out_a", "out_b", "out_c", "other")
TEXTS = (b"\n", b"x", b"xy\n", b"\r\n", b"\0\0\0", b"y" * 3000, b"z" * 900 + b"\n", b"")


class World:
    """A folder of shards under a pattern; the truth is what the files themselves say."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def path(self, number: int) -> Path:
        return self.place / (NAMES[number % len(NAMES)] + ".jsonl")

    def do(self, action: Action) -> None:
        path, other = self.path(action.first), self.path(action.second)
        present = os.path.lexists(path) and os.path.exists(path)
        if action.name == "append":
            append(path, action.text)
        elif action.name == "truncate" and present:
            os.truncate(path, path.stat().st_size * action.second // 10)
        elif action.name == "rewrite" and present:
            path.write_bytes(action.text * 3)
        elif action.name == "same size" and present:
            data = (action.text or b"\n") * path.stat().st_size
            path.write_bytes(data[: path.stat().st_size])
        elif action.name == "delete" and os.path.lexists(path):
            path.unlink()
        elif action.name == "rename" and present and path != other:
            path.rename(other)
        elif action.name == "link" and present and not os.path.lexists(other):
            os.link(path, other)
        elif action.name == "symlink":
            (self.place / "link").symlink_to(f"target_{action.second % 2}")
            (self.place / "link").rename(path)
        elif action.name == "touch" and present:
            os.utime(path, ns=(0, action.second * 10**18))
        elif action.name == "hole" and present:
            os.truncate(path, path.stat().st_size + 70_000)

    def lines(self) -> int:
        files: dict[tuple[int, int], int] = {}
        for number in range(3):
            path = self.path(number)
            if path.exists():
                status = path.stat()
                files[status.st_dev, status.st_ino] = path.read_bytes().count(b"\n")
        return sum(files.values())


KINDS = ("append", "truncate", "rewrite", "same size", "delete", "rename", "link", "symlink")
actions = st.builds(
    Action,
    st.sampled_from(("read", "read", "append", "append", "touch", "hole", *KINDS)),
    st.integers(0, 3),
    st.integers(0, 10),
    st.sampled_from(TEXTS),
)


@histories
@given(script=st.lists(actions, min_size=15, max_size=60))
def test_after_any_history_the_count_is_that_of_wc(script: list[Action]) -> None:
    with folder() as place:
        world, lab = World(place), Lab(place)
        replaced = 0
        for action in [*script, Action("read", 0, 0, b"")]:
            if action.name != "read":
                world.do(action)
                continue
            reading = lab.read(wall=time.time())
            assert reading.written == world.lines()
            assert reading.replaced >= replaced
            replaced = reading.replaced
        lab.probe.close()
