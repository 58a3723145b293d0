"""Text from outside: whatever stands in logs, outputs, names and commands, no view is harmed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.hostile import HOSTILE, NUMBER_OVER, unsafe_sequences
from tests.worlds import FakeJob, watch

PROGRESS = b"150/10000 (3 err) 0.7 req/s avg_comp=788tok ETA=4.0h\n"
FORMS = [["--once", "--json"], ["--once", "--plain"], ["--explain"], [], ["--color", "always"]]


def make_job(root: Path, log: bytes, output: bytes = b"{}\n" * 147) -> Path:
    (root / "B1_chat").mkdir(parents=True)
    (root / "B1_chat" / "prompts.jsonl").write_bytes(b"{}\n" * 10000)
    (root / "B1_chat" / "tokenized_data.jsonl").write_bytes(output)
    (root / "run.log").write_bytes(log)
    return root / "run.log"


def test_the_check_for_unsafe_output_finds_what_is_unsafe() -> None:
    harmless = {"wide", "format_bait", "blessed_bait", "json_bait", "secret"}
    harmless |= {"gigantic", "number_huge", "number_neg", "number_nan", "number_zero_total"}
    harmless |= {"number_arabic", "number_underscore"}
    for name, line in HOSTILE.items():
        found = unsafe_sequences(line)
        assert (found == []) == (name in harmless), name


@pytest.mark.parametrize("form", FORMS, ids=lambda form: " ".join(form) or "report")
def test_no_view_lets_through_what_a_log_says(form: list[str], tmp_path: Path) -> None:
    lines = b"".join(b"%s\nERROR:root:%s\n" % (line, line) for line in HOSTILE.values())
    log = make_job(tmp_path / "job", lines + PROGRESS, lines)
    with FakeJob(log):
        # Fails on a traceback and on anything unsafe.
        seen = watch(*form, tmp_path / "job", colored="always" in form)
    assert seen.code == 0
    assert "B1_chat" in seen.out or "--explain" in form
    assert "sk-abcdefghijklmnop" not in seen.out


@pytest.mark.parametrize("form", FORMS, ids=lambda form: " ".join(form) or "report")
def test_no_view_lets_through_what_names_and_commands_say(form: list[str], tmp_path: Path) -> None:
    root = tmp_path / "job\x1b[2J"
    log = make_job(root, PROGRESS)
    for number, line in enumerate(HOSTILE[name] for name in HOSTILE if name != "secret"):
        folder = line[:80].replace(b"/", b"").replace(b"\0", b"")
        path = bytes(root) + b"/%d" % number + folder
        Path(path.decode("utf-8", "surrogateescape")).mkdir()
        Path((path + b"/prompts.jsonl").decode("utf-8", "surrogateescape")).write_bytes(b"{}\n")
    secret = "--api-key=sk-abcdefghijklmnop0123456789"
    with FakeJob(log, [], "\x1b]0;owned\x07", "\u202egnp.exe", secret):
        seen = watch(*form, root, colored="always" in form)
    assert seen.code == 0
    assert "sk-abcdefghijklmnop" not in seen.out


NOT_PROGRESS = sorted(set(HOSTILE) - {"number_huge", "number_zero_total", "utf8_bom"})


def look(*roots: Path) -> list[dict[str, Any]]:
    return watch("--once", "--json", *roots).objects()


def test_a_hostile_line_neither_counts_nor_hides_the_next(tmp_path: Path) -> None:
    for name in NOT_PROGRESS:
        make_job(tmp_path / name, HOSTILE[name] + b"\n" + PROGRESS)
    reports = look(*(tmp_path / name for name in NOT_PROGRESS))
    seen = {
        report["job"]["name"]: (row["logged"], row["errors"], report["log"]["unparsed"])
        for report in reports
        for row in report["datasets"]
    }
    assert {name: counts for name, counts in seen.items() if counts != (150, 3, 1)} == {}
    assert sorted(seen) == NOT_PROGRESS


def test_a_byte_order_mark_does_not_hide_the_first_line(tmp_path: Path) -> None:
    make_job(tmp_path / "job", b"\xef\xbb\xbf" + PROGRESS)
    (report,) = look(tmp_path / "job")
    assert report["datasets"][0]["logged"] == 150


def test_numbers_without_sense_do_not_become_progress(tmp_path: Path) -> None:
    names = ["number_huge", "number_zero_total"]
    for name in names:
        make_job(tmp_path / name, HOSTILE[name] + b"\n")
    for report in look(*(tmp_path / name for name in names)):
        progress = report["progress"]
        assert (progress["done"], progress["total"], progress["fraction"]) == (147, 10000, 0.0147)


def test_more_than_all_is_shown_as_it_is_with_a_warning(tmp_path: Path) -> None:
    make_job(tmp_path / "job", NUMBER_OVER + b"\n", b"{}\n" * 10050)
    (report,) = look(tmp_path / "job")
    assert (report["progress"]["done"], report["progress"]["total"]) == (10050, 10000)
    assert report["progress"]["fraction"] == 1
    assert any("10,050" in warning for warning in report["warnings"])
