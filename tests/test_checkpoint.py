"""The memory of earlier visits: believed only where it can be, and never the end of a watch."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.histories import folder
from watch_inference.files.checkpoint import (
    Memory,
    Outcome,
    Visit,
    keep_outcome,
    keep_tallies,
    keep_visit,
    recall_outcome,
    recall_tallies,
    recall_visit,
)
from watch_inference.files.count import Tally

TALLY = Tally(64768, 4711, 5 << 20, 31_204, 1 << 63, False, ((1000, 7), (2000, 12)))
VISIT = Visit("/data/synth_100k", "synth_100k", 1771927872.0)


def memory(place: Path) -> Memory:
    return Memory({"XDG_CACHE_HOME": str(place)})


def documents(place: Path) -> list[str]:
    return sorted(os.listdir(place / "watch_inference"))


def test_what_is_kept_is_there_in_the_next_visit(tmp_path: Path) -> None:
    first = memory(tmp_path)
    keep_tallies(first, "/data/B1", {"out.jsonl": TALLY})
    keep_visit(first, VISIT)
    keep_outcome(first, "B1", "cafe", Outcome(788.0, 0.71, 1.0))
    second = memory(tmp_path)
    assert recall_tallies(second, "/data/B1") == {"out.jsonl": TALLY}
    assert recall_visit(second) == VISIT
    assert recall_outcome(second, "B1", "cafe") == Outcome(788.0, 0.71, 1.0)
    assert first.warnings == second.warnings == ()


def test_what_was_never_kept_is_unknown_and_no_warning(tmp_path: Path) -> None:
    new = memory(tmp_path)
    assert recall_tallies(new, "/data/B1") == {}
    assert recall_visit(new) is None
    assert recall_outcome(new, "B1", "cafe") is None
    assert new.warnings == ()


def test_other_prompts_under_the_same_name_are_another_dataset(tmp_path: Path) -> None:
    keep_outcome(memory(tmp_path), "B1", "cafe", Outcome(788.0, 0.71, 1.0))
    assert recall_outcome(memory(tmp_path), "B1", "beef") is None


def test_short_files_are_not_worth_remembering(tmp_path: Path) -> None:
    keep_tallies(memory(tmp_path), "/data/B1", {"out.jsonl": TALLY._replace(offset=1000)})
    assert documents(tmp_path) == []


def test_counts_of_another_run_of_the_kernel_are_refused(tmp_path: Path) -> None:
    before = memory(tmp_path)
    before.boot = "another"
    keep_tallies(before, "/data/B1", {"out.jsonl": TALLY})
    assert recall_tallies(memory(tmp_path), "/data/B1") == {}


def test_without_a_name_for_this_run_of_the_kernel_no_count_is_kept(tmp_path: Path) -> None:
    unsure = memory(tmp_path)
    unsure.boot = ""
    keep_tallies(unsure, "/data/B1", {"out.jsonl": TALLY})
    assert documents(tmp_path) == []


def test_only_the_newest_outcomes_are_kept(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    for number in range(210):
        keep_outcome(kept, f"B{number}", "cafe", Outcome(1.0, None, 1.0))
    assert recall_outcome(kept, "B9", "cafe") is None
    assert recall_outcome(kept, "B10", "cafe") == Outcome(1.0, None, 1.0)


# -------------------------------------------------------------------------------- garbage


GARBAGE = {
    "empty": b"",
    "cut": b'{"version": 1, "root": "/da',
    "binary": bytes(range(256)),
    "another version": b'{"version": 2, "root": "/data", "name": "x", "wall": 1}',
    "a list": b"[1, 2]",
    "NaN": b'{"version": 1, "root": "/data", "name": "x", "wall": NaN}',
    "infinity": b'{"version": 1, "root": "/data", "name": "x", "wall": -Infinity}',
    "deep": b"[" * 200_000,
    "digits": b'{"version": 1, "wall": ' + b"9" * 6000 + b"}",
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_garbage_is_left_out_with_one_warning_and_written_anew(kind: str, tmp_path: Path) -> None:
    memory(tmp_path)
    (tmp_path / "watch_inference" / "visit.json").write_bytes(GARBAGE[kind])
    found = memory(tmp_path)
    assert recall_visit(found) is None
    assert recall_visit(found) is None
    assert found.warnings == ("memory of earlier visits was damaged, and is begun anew",)
    keep_visit(found, VISIT)
    assert recall_visit(memory(tmp_path)) == VISIT


def test_a_gigabyte_of_garbage_is_not_read(tmp_path: Path) -> None:
    memory(tmp_path)
    path = tmp_path / "watch_inference" / "visit.json"
    path.touch()
    os.truncate(path, 1 << 30)
    begun = time.process_time()
    assert recall_visit(memory(tmp_path)) is None
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize(
    "values",
    [
        [64768, 4711, 5 << 20, 31_204, 1 << 63, True],
        [64768, 4711, 5 << 20, 31_204, 1 << 63, 1, []],
        [64768, 4711, 5 << 20, (5 << 20) + 1, 1 << 63, True, []],
        [64768, 4711, 5 << 20, -1, 1 << 63, True, []],
        [64768, 4711, 5e6, 31_204, 1 << 63, True, []],
        [64768, 4711, True, 1, 1 << 63, True, []],
        [64768, 4711, 1 << 70, 1, 1 << 63, True, []],
        ["64768", 4711, 5 << 20, 31_204, 1 << 63, True, []],
        [64768, 4711, 5 << 20, 31_204, 1 << 63, True, None],
        [64768, 4711, 5 << 20, 31_204, 1 << 63, True, [[1]]],
        [64768, 4711, 5 << 20, 31_204, 1 << 63, True, [[2, 2], [1, 3]]],
        [64768, 4711, 5 << 20, 31_204, 1 << 63, True, [[1, 31_205]]],
        {"offset": 1},
        None,
    ],
)
def test_numbers_that_make_no_sense_are_refused(values: object, tmp_path: Path) -> None:
    kept = memory(tmp_path)
    keep_tallies(kept, "/data/B1", {"good": TALLY, "bad": TALLY})
    path = tmp_path / "watch_inference" / documents(tmp_path)[0]
    document = json.loads(path.read_text())
    document["files"]["bad"] = values
    path.write_text(json.dumps(document))
    assert recall_tallies(memory(tmp_path), "/data/B1") == {"good": TALLY}


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)
KEYS = ("boot", "folder", "files", "root", "name", "wall", "B1 cafe")


@given(st.dictionaries(st.sampled_from(KEYS), values))
def test_no_document_whatever_is_in_it_ends_the_watch(document: dict[str, object]) -> None:
    with folder() as place:
        found = memory(place)
        document = {"version": 1, **document}
        for name in ("visit", "outcomes"):
            (place / "watch_inference" / f"{name}.json").write_text(json.dumps(document))
        recall_visit(found)
        recall_outcome(found, "B1", "cafe")
        keep_outcome(found, "B1", "cafe", Outcome(1.0, 2.0, 3.0))
        assert recall_outcome(found, "B1", "cafe") == Outcome(1.0, 2.0, 3.0)


# ----------------------------------------------------------------------------- the folder


def test_the_folder_is_ours_alone(tmp_path: Path) -> None:
    (tmp_path / "watch_inference").mkdir(mode=0o755)
    keep_visit(memory(tmp_path), VISIT)
    assert (tmp_path / "watch_inference").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "watch_inference" / "visit.json").stat().st_mode & 0o777 == 0o600


def test_it_lies_under_the_home_where_nothing_else_is_said(tmp_path: Path) -> None:
    for environ in (
        {"HOME": str(tmp_path)},
        {"HOME": str(tmp_path), "XDG_CACHE_HOME": ""},
        {"HOME": str(tmp_path), "XDG_CACHE_HOME": "relative"},
    ):
        keep_visit(Memory(environ), VISIT)
        assert (tmp_path / ".cache" / "watch_inference" / "visit.json").exists()


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_without_a_home_nothing_is_kept_anywhere(environ: dict[str, str]) -> None:
    nowhere = Memory(environ)
    keep_visit(nowhere, VISIT)
    assert recall_visit(nowhere) is None
    assert nowhere.warnings == ()


def test_a_home_that_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    nowhere = Memory({"HOME": str(tmp_path / "file" / "home")})
    keep_visit(nowhere, VISIT)
    keep_visit(nowhere, VISIT)
    assert recall_visit(nowhere) is None
    assert nowhere.warnings == ("memory of this visit not kept: missing",)


def test_a_folder_that_is_a_symlink_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "watch_inference").symlink_to("elsewhere")
    refused = memory(tmp_path)
    keep_visit(refused, VISIT)
    assert os.listdir(tmp_path / "elsewhere") == []
    assert refused.warnings == ("memory of this visit not kept: permission denied",)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to give a folder away")
def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "watch_inference").mkdir(mode=0o700)
    os.chown(tmp_path / "watch_inference", 65534, 65534)
    refused = memory(tmp_path)
    keep_visit(refused, VISIT)
    assert os.listdir(tmp_path / "watch_inference") == []
    assert refused.warnings == ("memory of this visit not kept: permission denied",)


def test_a_disk_that_is_full_is_one_warning_and_the_old_document_stays(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    keep_visit(kept, VISIT)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, hard))  # as a full disk: a write that fails
    try:
        keep_visit(kept, VISIT._replace(name="later"))
        keep_visit(kept, VISIT._replace(name="later"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert kept.warnings == ("memory of this visit not kept: file too large",)
    assert documents(tmp_path) == ["visit.json"]
    assert recall_visit(memory(tmp_path)) == VISIT


def test_what_killed_monitors_left_is_cleaned_up_and_what_lives_is_not(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    place = tmp_path / "watch_inference"
    dead, alive, other = (
        place / f".{kept.boot[:8]}-{child.pid}.tmp",
        place / f".{kept.boot[:8]}-{os.getppid()}.tmp",
        place / f".00000000-{os.getppid()}.tmp",
    )
    for path in (dead, alive, other):
        path.touch()
    memory(tmp_path)
    assert documents(tmp_path) == [alive.name]


def test_only_the_newest_counts_are_kept(tmp_path: Path) -> None:
    kept = memory(tmp_path)
    for number in range(203):
        keep_tallies(kept, f"/data/B{number}", {"out.jsonl": TALLY})
    oldest = tmp_path / "watch_inference" / documents(tmp_path)[100]
    os.utime(oldest, (1, 1))
    memory(tmp_path)
    assert len(documents(tmp_path)) == 200
    assert oldest.name not in documents(tmp_path)


# ------------------------------------------------------------------ many, killed at any moment

WRITER = """
import sys
from watch_inference.files.checkpoint import Memory, Visit, keep_visit
memory = Memory({"XDG_CACHE_HOME": sys.argv[1]})
number = 0
while True:
    number += 1
    keep_visit(memory, Visit("/data/" + sys.argv[2] * 20000, "x", float(number)))
    if number == 3:
        print("begun", flush=True)
"""


def test_monitors_that_are_killed_leave_old_or_new_and_never_half(tmp_path: Path) -> None:
    for round_number in range(6):
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(tmp_path), letter], stdout=subprocess.PIPE
            )
            for letter in "ab"
        ]
        try:
            for writer in writers:
                assert writer.stdout is not None
                assert writer.stdout.readline() == b"begun\n"
            for _ in range(20 + round_number):
                found = memory(tmp_path)
                visit = recall_visit(found)
                assert found.warnings == ()
                assert visit is not None
                assert visit.root in ("/data/" + "a" * 20000, "/data/" + "b" * 20000)
        finally:
            for writer in writers:
                writer.send_signal(signal.SIGKILL)
                writer.communicate()
    found = memory(tmp_path)
    assert recall_visit(found) is not None
    assert found.warnings == ()
    assert documents(tmp_path) == ["visit.json"]
