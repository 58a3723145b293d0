"""Every sample of the table of formats is a test, and what looks alike is not progress."""

from __future__ import annotations

import pytest

from watch_inference.logs import formats, scanning

SAMPLES = [
    pytest.param(form, text, meaning, id=f"{form.name}: {text[:40]}")
    for form in formats.FORMATS
    for text, meaning in form.samples
]


@pytest.mark.parametrize(("form", "text", "meaning"), SAMPLES)
def test_a_sample_line_means_what_its_format_says(
    form: formats.Format, text: str, meaning: dict[str, object]
) -> None:
    found = scanning.scan(b"noise\n" + text.encode() + b"\nnoise\n")
    assert [one.format.name for one in found] == [form.name]
    said = found[0].event._asdict()
    assert {key: said[key] for key in meaning} == meaning


@pytest.mark.parametrize(
    "text",
    [
        "Token indices sequence length is longer than the maximum (9120 > 8192).",
        '127.0.0.1:51234 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "2026/02/24 10:11:12 shard 3/15 ready",
        "99999999999999999999/10 (0 err)",
        "-5/10 (0 err) 0.7 req/s",
        "nan/10 (0 err) 0.7 req/s",
        "150/10000 (x err) 0.7 tok",
        "",
    ],
)
def test_what_looks_like_progress_and_is_not_gives_no_event(text: str) -> None:
    assert scanning.scan(text.encode() + b"\n") == []


def test_a_line_split_over_two_reads_is_not_progress_until_it_is_whole() -> None:
    assert scanning.unfinished(b"150/100") is None
    assert scanning.unfinished(b"150/10000 (0 err) 0.7 req/s ETA=4.0h") is None
    assert scanning.unfinished(b" 70%|#######   | 7/10 [00:10<00:04,  1.43s") is None
    found = scanning.unfinished(b" 70%|#######   | 7/10 [00:10<00:04,  1.43s/it]")
    assert found is not None
    assert found.event.done == 7


def test_carriage_return_frames_of_one_physical_line_are_found_one_by_one() -> None:
    block = b"".join(b"\r x: 50%%|#####     | %d/100 [00:01<00:01, 9.0it/s]" % n for n in (1, 2, 3))
    assert [one.event.done for one in scanning.scan(block + b"\n")] == [1, 2, 3]


@pytest.mark.parametrize(
    "filler",
    [b"1/" * 500_000, b" " * 1_000_000, b"[" * 1_000_000, b"%|" * 500_000, b"it/s]" * 200_000],
)
def test_a_megabyte_of_bait_is_read_in_linear_time(filler: bytes) -> None:
    assert scanning.scan(filler + b"\n") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4.0h", 14400.0),
        ("1h05m", 3900.0),
        ("0s", 0.0),
        ("1.5d", 129600.0),
        ("56:02:00", 201720.0),
        ("03:34", 214.0),
        ("-1:59:59", None),
        ("?", None),
        ("soon", None),
        (None, None),
    ],
)
def test_lengths_of_time_are_read_as_jobs_print_them(
    text: str | None, expected: float | None
) -> None:
    assert scanning.seconds(text) == expected
