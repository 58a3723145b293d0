"""The sentence and the report as text: whole texts compared, and what always holds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile import HOSTILE
from tests.made import FIGURES, NOW, datasets, report, stalled
from watch_inference import units
from watch_inference.model import DatasetRow, Figures, LogRow, Report, State
from watch_inference.views.looks import Looks
from watch_inference.views.out import Out
from watch_inference.views.report import Text, text
from watch_inference.views.sentence import sentence


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def test_a_running_job_in_one_sentence() -> None:
    assert sentence(report()) == (
        "synth_100k running 37.5 %, 31,204/83,288, ends Wed 09:10-16:20 UTC, 12 errors"
    )


def test_without_evidence_no_end_is_promised() -> None:
    figures = FIGURES._replace(finish=None, finish_low=None, finish_high=None, errors=0)
    assert sentence(report(figures=figures)) == (
        "synth_100k running 37.5 %, 31,204/83,288, end not known yet"
    )


def test_without_a_total_there_is_no_per_cent() -> None:
    assert sentence(report(figures=Figures(done=150, errors=40))) == (
        "synth_100k running, 150 done, end not known yet, 40 errors"
    )


def test_a_stalled_job_says_for_how_long_and_why() -> None:
    assert sentence(stalled()) == (
        "synth_100k stalled 14 min, 31,204/83,288 (37.5 %), server answers but generates "
        "nothing for 14..."
    )


def test_a_failed_job_says_how_far_it_came() -> None:
    failed = report(state=State.FAILED, reason="process gone at 37.5 %; the log names no error")
    assert sentence(failed) == (
        "synth_100k failed 37.5 %, 31,204/83,288, process gone at 37.5 %; the log names no "
        "error, 12 errors"
    )


def test_a_finished_job_says_when_and_how_long_it_took() -> None:
    figures = FIGURES._replace(done=83288, fraction=1.0, errors=1)
    finished = report(state=State.FINISHED, figures=figures, ended=NOW - 600, elapsed_s=117000.0)
    assert sentence(finished) == (
        "synth_100k finished 10:01 UTC, 83,288/83,288, took 32h30m, 1 error"
    )


def test_a_job_that_has_just_begun() -> None:
    begun = report(state=State.STARTING, figures=Figures(total=83288), reason="no progress yet")
    assert sentence(begun) == "synth_100k starting, total 83,288, no progress yet"


def test_nothing_known_is_still_a_sentence() -> None:
    assert sentence(Report(1.0, NOW, "h", "job", None, "cwd", State.UNKNOWN)) == "job unknown"


def test_the_report_of_a_running_job_is_the_screen_as_text() -> None:
    assert (
        text(report(), 80, Looks())
        == """\
synth_100k running 37.5 %, 31,204/83,288, ends Wed 09:10-16:20 UTC, 12 errors
synth_100k  running  B3_magicoder since 03:12                   gpu-7  up 12h31m
████████████████████▏─────────────────────────────────  31,204 / 83,288   37.5 %
ends Wed 09:10–16:20 UTC (in 23–30 h)      0.71 req/s   611 tok/s   ▄▅▇▇█▇▇▆▇▇██
  dataset           done / total                  req/s  tok/req  errors    time
✓ A1_tokenised    2,400
✓ A2_tokenised    2,400
✓ B1_glaive      10,000 / 10,000  ━━━━━━━━━━━━━━   0.70      788       0   3h58m
✓ B2_dolly       15,011 / 15,011  ━━━━━━━━━━━━━━   0.70      788       9   3h58m
▸ B3_magicoder    6,193 / 12,000  ━━━━━━━───────   0.71      861       3  ~2h15m
· B4_openhermes       0 / 14,000                                          ~5h30m
· B5_math             0 / 11,705                                          ~4h30m
· B6_slim             0 /  9,000                                          ~3h30m
· B7_longalign        0 /  8,000                                          ~3h15m
· B8_sweagent         0 /  3,572                                          ~1h30m
log      10 s ago     every ~3 min   job says 4h00m
output   <10 s ago    check ok, 11 ahead of the log   12 errors
process  41233 alive   cpu 30 %   1.2 GiB   python run.py
"""
    )


def test_the_report_of_a_stalled_job_in_ascii() -> None:
    said = text(stalled(datasets=datasets()[3:6]), 60, Looks(ascii=True))
    assert (
        said
        == """\
synth_100k stalled 14 min, 31,204/83,288 (37.5 %), 12 errors
synth_100k  STALLED 14 min  B3_magicoder since 03:12
[###########>--------------------]  31,204 / 83,288   37.5 %
server answers but generates nothing for 14 min: 48
running, tokens still; process alive, idle
-> look at the server's own log     ends Wed 09:10-16:20 UTC
  dataset           done / total              errors    time
* B2_dolly       15,011 / 15,011  [########]       9   3h58m
> B3_magicoder    6,193 / 12,000  [####>---]       3  ~2h15m
. B4_openhermes       0 / 14,000                      ~5h30m
log      10 s ago     every ~3 min   job says 4h00m
output   <10 s ago    check ok, 11 ahead of the log
process  41233 alive   cpu 30 %   1.2 GiB   python run.py
server   sglang 40 ms   48 running  102 queued   KV 97 %
gpu      8x  94 % (91-98)   568 of 640 GiB   4,900 W   60 C
disk     1.2 TiB free   memory 212 of 512 GiB
! outputs are on a network file system; times may be late
- no log line for 14 min; one came every 3 min
"""
    )


@given(st.integers(20, 200), st.sampled_from(list(State)), st.sampled_from(sorted(HOSTILE)))
@settings(max_examples=60, deadline=None)
def test_no_line_is_wider_than_asked_or_ends_in_blanks(width: int, state: State, key: str) -> None:
    foreign = HOSTILE[key][:5000].decode("utf-8", "surrogateescape")
    row = DatasetRow(foreign, state, done=5, total=10)
    made = report(
        name=foreign,
        state=state,
        reason=foreign,
        advice=foreign,
        evidence=(foreign,),
        warnings=(foreign,),
        datasets=(row, *datasets()),
        log=LogRow(path=foreign, last_error=foreign),
    )
    for looks in (Looks(), Looks(ascii=True)):
        said = text(made, width, looks)
        assert said.endswith("\n")
        for line in said[:-1].split("\n"):
            assert units.cells(line) <= width
            assert line == line.rstrip()
            assert line.isprintable()
            assert line.isascii() or not looks.ascii
    assert len(sentence(made)) <= 100


def test_all_datasets_have_a_line_however_many_there_are() -> None:
    rows = tuple(DatasetRow(f"d{number}", State.QUEUED, 0, None, 5) for number in range(40))
    said = text(report(datasets=rows), 80, Looks())
    assert [f"d{number} " in said for number in range(40)] == [True] * 40


def test_colour_is_sgr_and_nothing_else() -> None:
    said = text(stalled(), 80, Looks(colors=8))
    assert re.findall("\x1b[^m]*m", said)
    assert re.sub("\x1b\\[[0-9;]*m", "", said) == text(stalled(), 80, Looks())
    assert said.count("\x1b[0m") == len(re.findall("\x1b\\[[1-9][0-9;]*m", said))


def test_several_jobs_stand_one_below_the_other(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        Text(Out(file.fileno()), 80).show([report(), report(name="other")])
    said = (tmp_path / "out").read_text()
    firsts = [line for line in said.splitlines() if "/83,288, ends" in line]
    assert [line.split()[0] for line in firsts] == ["synth_100k", "other"]


def test_plain_and_json_and_report_load_no_screen() -> None:
    code = (
        "import sys\nfrom watch_inference import views\n"
        "for name in ('plain', 'json', 'report'): views.load(name)\n"
        "loaded = {'blessed', 'termios', 'curses', 'wcwidth', 'watch_inference.views.screen'}\n"
        "sys.exit(bool(loaded & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, timeout=30, check=False)
    assert done.returncode == 0
