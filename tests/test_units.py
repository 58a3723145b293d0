"""Numbers to words, and hostile text to harmless text: tables of cases, and what always holds."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcwidth

from tests.hostile import HOSTILE
from watch_inference import units

TUESDAY = 1771927872.0  # 2026-02-24 10:11:12 UTC


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("a\x1b]0;title\x07b", "ab"),
        ("a\x1b]0;never ended", "a"),
        ("\x9b31mred", "red"),
        ("ERROR\x08\x08\x08\x08\x08fine!", "ERRORfine!"),
        ("one\ttwo\r\nthree", "one two  three"),
        ("nul\x00byte", "nulbyte"),
        ("bidi\u202egnp.exe", "bidignp.exe"),
        ("bom\ufeff", "bom"),
        ("no\u00a0break and wide\u3000blank", "no break and wide blank"),
        ("lone \ud800", "lone \N{REPLACEMENT CHARACTER}"),
        (b"\xff\xfe raw", "\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER} raw"),
        ("z" + "\u0301" * 500, "z\u0301\u0301"),
        ("heart \u2764\ufe0f", "heart \u2764"),
        ("数据集-一", "数据集-一"),
    ],
)
def test_text_from_outside_becomes_printable(raw: str | bytes, shown: str) -> None:
    assert units.clean(raw) == shown


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_whatever_comes_in_what_goes_out_is_printable_and_stays_so(raw: str) -> None:
    shown = units.clean(raw)
    assert shown.isprintable()
    assert units.clean(shown) == shown


@pytest.mark.parametrize("key", HOSTILE)
def test_a_hostile_line_becomes_printable(key: str) -> None:
    assert units.clean(HOSTILE[key]).isprintable()


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("run --api-key sk-abcdefghijk --n 3", "run --api-key *** --n 3"),
        ("run --token=abc", "run --token=***"),
        ("https://user:pass@host:80/v1", "https://***@host:80/v1"),
        ("Authorization: Bearer abc", "Authorization: ***"),
        ("--hf-token abc", "--hf-token ***"),
        ("Token indices sequence length", "Token indices sequence length"),
        ("curl hf_abcdefghijk", "curl ***"),
        ("tokens 5, max_tokens 7", "tokens 5, max_tokens 7"),
    ],
)
def test_secrets_are_not_shown(raw: str, shown: str) -> None:
    assert units.masked(raw) == shown


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("数据", 4), ("e\u0301", 1), ("█▏▸✓·–…→━╸─▁", 12), ("👩🔬", 4), ("", 0)],
)
def test_columns_are_counted_not_characters(text: str, columns: int) -> None:
    assert units.cells(text) == columns


@given(st.text(st.characters(max_codepoint=0x2800)))
def test_what_is_called_narrow_takes_one_column_each(text: str) -> None:
    shown = units.clean(text)
    if units.narrow(shown):
        assert units.cells(shown) == len(shown) == sum(wcwidth(char) for char in shown)


@given(st.text(), st.integers(0, 60))
def test_a_cut_text_fits_and_begins_as_the_whole(text: str, width: int) -> None:
    shown = units.clean(text)
    cut, middle = units.cut(shown, width), units.cut_middle(shown, width)
    assert units.cells(cut) <= width
    assert units.cells(middle) <= width
    assert shown.startswith(cut.removesuffix("…"))
    if units.cells(shown) <= width:
        assert cut == middle == shown


def test_a_name_is_cut_in_its_middle() -> None:
    assert units.cut_middle("B3_magicoder_evol_instruct", 13) == "B3_mag…struct"
    assert units.cut_middle("数据集-一二三四五", 9) == "数据…四五"
    assert units.cut_middle("abcdef", 2) == "ab"


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (31204 / 83288, "37.5 %"),
        (0.0, "0.0 %"),
        (0.99999, "99.9 %"),
        (1.0, "100.0 %"),
        (None, "?"),
        (math.nan, "?"),
    ],
)
def test_a_hundred_per_cent_means_all(share: float | None, said: str) -> None:
    assert units.percent(share) == said


def test_whole_per_cents_are_not_rounded_up_to_all_either() -> None:
    assert units.percent(0.9999, 0) == "99 %"


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.712, "0.71"), (12.34, "12.3"), (611.2, "611"), (12345.6, "12,346"), (None, "?")],
)
def test_a_rate_has_three_figures(value: float | None, said: str) -> None:
    assert units.rate(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1 << 10, "1.0 KiB"),
        (71 << 30, "71 GiB"),
        (1319413953331, "1.2 TiB"),
        (None, "?"),
    ],
)
def test_sizes_are_in_binary_units(value: int | None, said: str) -> None:
    assert units.size(value) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0s"),
        (59.9, "59s"),
        (90, "1m30s"),
        (3540, "59m"),
        (3900, "1h05m"),
        (50 * 3600, "2d02h"),
        (None, "?"),
        (math.inf, "?"),
        (1e300, "?"),
    ],
)
def test_a_duration_has_two_units(seconds: float | None, said: str) -> None:
    assert units.duration(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0 s"),
        (2, "2 s"),
        (12, "10 s"),
        (59, "45 s"),
        (100, "1 min"),
        (840, "10 min"),
        (3600, "1 h"),
        (9000, "2.5 h"),
        (100000, "27 h"),
        (1e6, "11 d"),
        (None, "?"),
    ],
)
def test_an_age_moves_in_steps(seconds: float | None, said: str) -> None:
    assert units.age(seconds) == said


def test_an_estimate_is_said_roughly() -> None:
    said = [units.roughly(seconds) for seconds in (3, 47, 200, 8180, 19700, 1e12)]
    assert said == ["~5 s", "~45 s", "~3 min", "~2h15m", "~5h30m", "?"]


def test_what_moves_all_the_time_does_not_tick() -> None:
    ages = (-1, 0, 9.9, 12, 29, 40, 100, 500, 2400, 5000, None)
    assert [units.recent(age) for age in ages] == [
        *("<10 s", "<10 s", "<10 s", "10 s", "10 s", "30 s", "1 min", "5 min", "30 min"),
        *("1.3 h", "?"),
    ]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(5, "<1 min"), (850, "14 min"), (45060, "12h31m"), (200000, "2d08h"), (None, "?")],
)
def test_a_running_time_moves_once_a_minute(seconds: float | None, said: str) -> None:
    assert units.elapsed(seconds) == said


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (32.0, 81.0, "30-80 s"),
        (100.0, 301.0, "2-5 min"),
        (3000.0, 3900.0, "50-65 min"),
        (7000.0, 9000.0, "2-2.5 h"),
        (68400.0, 93600.0, "19-26 h"),
        (90000.0, 90100.0, "~25 h"),
        (100000.0, 300000.0, "1-3.5 d"),
        (0.0, 5e6, "0-58 d"),
        (110.0, 700.0, "2-10 min"),
        (None, 5.0, "?"),
        (1.0, math.inf, "?"),
    ],
)
def test_a_range_of_time_has_one_unit(low: float | None, high: float | None, said: str) -> None:
    assert units.between(low, high) == said


@pytest.mark.parametrize(
    ("wall", "said"),
    [
        (TUESDAY + 600, "10:21 UTC"),
        (TUESDAY + 86400, "Wed 10:11 UTC"),
        (TUESDAY + 10 * 86400, "2026-03-06 10:11 UTC"),
        (1e18, "?"),
        (math.nan, "?"),
        (None, "?"),
    ],
)
def test_a_clock_time_has_its_zone_and_the_day_where_it_is_not_today(
    wall: float | None, said: str
) -> None:
    assert units.clock(wall, TUESDAY) == said


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (82740.0, 108540.0, "Wed 09:10-16:20 UTC"),
        (70000.0, 93600.0, "Wed 05:40-12:10 UTC"),
        (3600.0, 50000.0, "11:10-Wed 00:00 UTC"),
        (60.0, 130.0, "10:12-10:13 UTC"),
        (60.0, 61.0, "10:12 UTC"),
        (60.0, 1e18, "?"),
        (None, 60.0, "?"),
    ],
)
def test_two_clock_times_are_one_range_as_fine_as_it_is_narrow(
    low: float | None, high: float | None, said: str
) -> None:
    ends = (None if one is None else TUESDAY + one for one in (low, high))
    assert units.span(*ends, TUESDAY) == said


def test_an_unknown_time_zone_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "")
    time.tzset()
    assert units.clock(TUESDAY, TUESDAY) == "10:11 UTC"


def test_utc_is_written_for_machines() -> None:
    assert units.utc(TUESDAY) == "2026-02-24T10:11:12Z"
    assert units.utc(1e20) == "?"
