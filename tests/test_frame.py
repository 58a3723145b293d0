"""The screen as text, whole, at the sizes that matter; and what holds at every size."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile import HOSTILE
from tests.made import FIGURES, NOW, PROCESS, datasets, probed, report, stalled
from watch_inference import units
from watch_inference.model import (
    DatasetRow,
    Figures,
    GpuReading,
    Happening,
    LogRow,
    Report,
    Resources,
    State,
)
from watch_inference.views.frame import frame
from watch_inference.views.looks import Looks
from watch_inference.views.moves import Page


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def drawn(
    made: Report, width: int, height: int, page: Page | None = None, jobs: int = 1, **looks: bool
) -> str:
    lines = frame(made, width, height, Looks(256, **looks), page, jobs)
    return "\n".join("".join(part.text for part in line).rstrip() for line in lines)


def test_at_80x24_everything_of_ten_datasets_is_seen() -> None:
    assert (
        drawn(probed(), 80, 24)
        == """\
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
server   sglang 40 ms   48 running  102 queued   KV 97 %   828 tok/s
gpu      8x  94 % (91–98)   568 of 640 GiB   4,900 W   60 °C
disk     1.2 TiB free   memory 212 of 512 GiB

q quit  ? help  p pause  enter dataset  l log  e errors  +- every 2 s"""
    )


def test_what_was_never_looked_at_has_no_line() -> None:
    said = drawn(report(), 80, 24)
    assert [word for word in ("server", "gpu", "disk") if f"\n{word}" in said] == []


def test_in_a_stall_the_cause_stands_where_the_end_stood() -> None:
    assert drawn(stalled(), 80, 24).splitlines()[:6] == [
        "synth_100k  STALLED 14 min  B3_magicoder since 03:12            gpu-7  up 12h31m",
        "████████████████████▏─────────────────────────────────  31,204 / 83,288   37.5 %",
        "server answers but generates nothing for 14 min: 48 running, tokens still;",
        "process alive, idle",
        "→ look at the server's own log                          ends Wed 09:10–16:20 UTC",
        "  dataset 2–10      done / total                  req/s  tok/req  errors    time",
    ]


def test_warnings_and_evidence_are_seen_even_where_rows_must_go() -> None:
    said = drawn(stalled(), 80, 24)
    assert "! outputs are on a network file system" in said
    assert "- no log line for 14 min" in said


def test_a_wide_screen_has_more_columns_and_longer_bars() -> None:
    said = drawn(report(), 120, 30).splitlines()
    assert said[4].split() == "dataset done / total req/s tok/req check errors time".split()
    assert len(said[7]) == 120


def test_at_60_columns_the_rates_of_datasets_are_dropped() -> None:
    assert drawn(report(), 60, 20).splitlines()[3:9] == [
        "0.71 req/s  611 tok/s  ▄▅▇▇█▇▇▆▇▇██",
        "  dataset           done / total              errors    time",
        "✓ A1_tokenised    2,400",
        "✓ A2_tokenised    2,400",
        "✓ B1_glaive      10,000 / 10,000  ━━━━━━━━━━       0   3h58m",
        "✓ B2_dolly       15,011 / 15,011  ━━━━━━━━━━       9   3h58m",
    ]


def test_at_40x10_the_current_dataset_and_all_ages_are_seen() -> None:
    assert (
        drawn(probed(), 40, 10)
        == """\
synth_100k  running     gpu-7  up 12h31m
█████▌───────── 31,204 / 83,288   37.5 %
ends Wed 09:10–16:20 UTC (in 23–30 h)
0.71 req/s  611 tok/s  ▄▅▇▇█▇▇▆▇▇██
✓ B2_dolly       15,011 / 15,011   3h58m
▸ B3_magicoder    6,193 / 12,000  ~2h15m
· B4_openhermes       0 / 14,000  ~5h30m
· B5_math             0 / 11,705  ~4h30m
log 10 s  output <10 s  check ok
server 48 run 102 queue  gpu 94 %"""
    )


def test_at_20x5_state_share_end_and_count() -> None:
    assert (
        drawn(report(), 20, 5)
        == """\
synth_100k running
████▊──────── 37.5 %
Wed 09:10–16:20 UTC
31,204 / 83,288
log 10 s"""
    )


def test_at_20x3_state_share_and_end() -> None:
    assert (
        drawn(report(), 20, 3)
        == """\
synth_100k running
████▊──────── 37.5 %
Wed 09:10–16:20 UTC"""
    )


def test_one_line_says_how_far_how_long_and_the_state() -> None:
    assert drawn(report(), 20, 1) == "37% 23–30h running"
    assert drawn(report(), 20, 1, ascii=True) == "37% 23-30h running"
    assert drawn(report(), 12, 1) == "37% running"
    assert drawn(report(), 10, 1) == "running"


def test_a_flat_but_wide_place_has_the_first_lines_or_the_sentence() -> None:
    assert drawn(report(), 80, 1) == (
        "synth_100k running 37.5 %, 31,204/83,288, ends Wed 09:10-16:20 UTC, 12 errors"
    )
    assert drawn(report(), 40, 3).splitlines() == drawn(report(), 40, 10).splitlines()[:3]


def test_30_datasets_scroll_around_the_current_or_the_chosen_one() -> None:
    rows = tuple(DatasetRow(f"d{number:02}", State.QUEUED, 0, None, 5) for number in range(30))
    made = report(datasets=rows, figures=Figures(dataset="d20"))
    assert "  dataset 15–30  " in drawn(made, 80, 24)
    assert "\n· d20 " in drawn(made, 80, 24)
    assert "\n· d00 " in drawn(made, 80, 24, Page(chosen="d00"))
    assert "\n· d20 " not in drawn(made, 80, 24, Page(chosen="d00"))


def test_eight_processes_are_summed_up() -> None:
    rows = tuple(PROCESS._replace(pid=number, state="running") for number in range(7))
    said = drawn(report(process=PROCESS, processes=(PROCESS, *rows)), 80, 24)
    assert "process  8 alive   cpu 250 %   9.6 GiB" in said


def test_a_server_that_is_silent_and_values_that_are_old_say_so() -> None:
    server = probed().server
    assert server is not None
    late = server._replace(healthy=False, age_s=40.0, error="connection refused")
    said = drawn(probed(server=late, gpu=GpuReading(error="no nvidia-smi")), 80, 24)
    assert "server   30 s old:   silent 40 ms   connection refused   48 running  102 queued" in said
    assert "gpu      no nvidia-smi" in said
    aged = server._replace(tokens_per_s=None, age_s=40.0)
    assert "server   30 s old:   sglang 40 ms" in drawn(probed(server=aged), 80, 24)


def test_a_disk_that_fills_before_the_end_and_kills_are_told() -> None:
    tight = Resources(5 << 30, 7300.0, 500 << 30, 512 << 30, 2)
    said = drawn(report(resources=tight), 100, 24)
    assert "disk     2 killed for memory   5.0 GiB free, full in ~2h00m   memory 500 of 512" in said


def test_finished_says_when_and_how_long_it_took() -> None:
    figures = FIGURES._replace(done=83288, fraction=1.0)
    made = report(state=State.FINISHED, figures=figures, ended=NOW - 600, elapsed_s=117000.0)
    assert drawn(made, 80, 24).splitlines()[2] == "finished 10:01 UTC, took 32h30m"


def test_paused_and_the_number_of_the_job_stand_in_the_title() -> None:
    said = drawn(report(), 80, 24, Page(job=1, paused=True), jobs=3).splitlines()
    assert said[0].startswith("synth_100k  running  paused  job 2 of 3  B3_magicoder")
    assert said[-1].endswith("tab job")


def test_the_help_page_names_every_key() -> None:
    said = drawn(report(), 80, 24, Page("help"))
    for key in ("q", "?", "p", "+ -", "j k, arrows", "Enter Esc", "l", "e", "Tab", "Ctrl-L"):
        assert f"\n{key} " in said


def test_the_dataset_page_tells_all_of_one_dataset() -> None:
    made = report(log_tail=("step 1", "step 2", "saved"))
    said = drawn(made, 80, 24, Page("dataset", chosen="B3_magicoder")).splitlines()
    assert said[:16] == [
        "synth_100k  running  B3_magicoder since 03:12                   gpu-7  up 12h31m",
        "B3_magicoder  running",
        "████████████████████████████▍──────────────────────────  6,193 / 12,000   51.6 %",
        "",
        "started    03:12 UTC   ~2h15m left",
        "rate       0.71 req/s   ▄▅▇▇█▇▇▆▇▇██",
        "tokens     861 a request   612 tok/s",
        "written    6,193 lines   <10 s ago",
        "logged     6,182   check ok   done counted from written",
        "errors     3",
        "",
        "last lines of the log",
        "2x step 2",
        "saved",
        "",
        "",
    ]  # fmt: skip


def test_the_dataset_page_tells_its_past_and_how_good_the_forecasts_have_been() -> None:
    happened = (
        Happening("stall", NOW - 7200, NOW - 6600, "B3_magicoder", "server silent"),
        Happening("stall", NOW - 7200, None, "B1_glaive", "another's"),
    )
    made = report(happened=happened, track=("after 2 h said 31 h to 38 h: now 34 h",))
    said = drawn(made, 80, 24, Page("dataset", chosen="B3_magicoder")).splitlines()
    assert said[10].startswith("happened   ")
    assert said[10].endswith(" stall for 10 min server silent")
    assert said[11] == "forecast   after 2 h said 31 h to 38 h: now 34 h"


def test_the_log_page_folds_noise_and_keeps_the_newest_at_the_end() -> None:
    noise = tuple(f"batch {number}, queue {number * 7}" for number in range(50))
    made = report(log_tail=(*noise, "ValueError: 7", "ValueError: 8", "bye"))
    assert drawn(made, 60, 10, Page("log")).splitlines()[1:6] == [
        "end of /data/synth_100k/logs/run.log",
        "50x batch 49, queue 343",
        "ValueError: 7",
        "ValueError: 8",
        "bye",
    ]


def test_known_noise_is_folded_whatever_its_order() -> None:
    noise = (
        'INFO:httpx:HTTP Request: POST http://127.0.0.1:30000/v1 "HTTP/1.1 200 OK"',
        "Setting `pad_token_id` to `eos_token_id`:151643 for open-end generation.",
        "",
    )
    failed = 'INFO:httpx:HTTP Request: POST http://127.0.0.1:30000/v1 "HTTP/1.1 500 no"'
    made = report(log_tail=(*noise, *noise, "150/10000 (0 err) 0.7 req/s", failed, noise[1]))
    assert drawn(made, 80, 8, Page("log")).splitlines()[2:6] == [
        "6 like Setting `pad_token_id` to `eos_token_id`:151643 for open-end generation.",
        "150/10000 (0 err) 0.7 req/s",
        failed,
        noise[1],
    ]


def test_the_log_scrolls_and_the_error_page_shows_the_newest_error() -> None:
    lines = tuple(f"line {'abcdefghijklmnopqrstuvwxyz'[number]}" for number in range(26))
    made = report(log_tail=lines, error_tail=("before", "OSError: x", "after"))
    assert "line z" in drawn(made, 60, 10, Page("log"))
    scrolled = drawn(made, 60, 10, Page("log", offset=3))
    assert "line z" not in scrolled and "line w" in scrolled
    assert "line a" in drawn(made, 60, 10, Page("log", offset=99))
    assert "OSError: x" in drawn(made, 60, 10, Page("errors"))


@given(
    st.integers(1, 200),
    st.integers(1, 60),
    st.sampled_from(list(State)),
    st.sampled_from(sorted(HOSTILE)),
    st.sampled_from(["overview", "help", "dataset", "log", "errors"]),
    st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_at_every_size_it_fits_and_the_state_is_said(
    width: int, height: int, state: State, key: str, name: str, plain: bool
) -> None:
    foreign = HOSTILE[key][:3000].decode("utf-8", "surrogateescape")
    row = DatasetRow(foreign, state, done=10**12, total=10, requests_per_s=1e9)
    made = stalled(
        name=foreign,
        state=state,
        host=foreign,
        reason=foreign,
        advice=foreign,
        evidence=(foreign,) * 3,
        warnings=(foreign,) * 3,
        datasets=(row, *datasets()),
        log=LogRow(path=foreign, last_error=foreign),
        log_tail=(foreign,) * 30,
    )
    lines = frame(made, width, height, Looks(256, plain), Page(name, chosen=foreign), 3)
    texts = ["".join(part.text for part in line) for line in lines]
    assert len(lines) <= height
    assert all(units.cells(text) <= width for text in texts)
    assert all(text.isprintable() and (text.isascii() or not plain) for text in texts)
    if width >= 10:
        assert state.value in "\n".join(texts).lower()


@pytest.mark.parametrize("name", ["数据集-一", "naïve-é (combining)", "👩‍🔬-set"])
@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_wide_name_does_not_shift_the_columns(name: str, width: int) -> None:
    rows = tuple(row._replace(name=name) if row.name == "B2_dolly" else row for row in datasets())
    lines = frame(report(datasets=rows), width, 24, Looks())
    texts = ["".join(part.text for part in line) for line in lines]
    texts = [text for text in texts if text[:1] in "✓▸·"]
    slashes = {units.cells(text[: text.index(" / ")]) for text in texts if " / " in text[12:]}
    assert len(slashes) == 1
