"""One logfmt line a report: exact text, keys in their order, nothing that a terminal obeys."""

from __future__ import annotations

import os

import pytest

from tests.hostile import HOSTILE
from tests.made import FIGURES, NOW, probed, report, stalled
from watch_inference.model import Check, Figures, Report, State
from watch_inference.views.out import Out
from watch_inference.views.plain import Plain, line


def test_a_running_job_with_everything_known() -> None:
    assert line(probed(reason="one shard is slow")) == (
        "time=2026-02-24T10:11:12Z job=synth_100k state=running dataset=B3_magicoder"
        " done=31204 total=83288 fraction=0.375 errors=12 requests_per_s=0.71 tokens_per_s=611"
        " remaining_s=95400 remaining_low_s=82740 remaining_high_s=108540"
        " finish=2026-02-25T12:41:12Z log_age_s=12 output_age_s=2 check=ok server=ok gpu=0.945"
        ' reason="one shard is slow"'
    )


def test_what_is_not_known_is_left_out() -> None:
    empty = Report(1.0, NOW, "gpu-7", "job", None, "cwd", State.UNKNOWN)
    assert line(empty) == "time=2026-02-24T10:11:12Z job=job state=unknown check=unknown"


def test_zero_is_known_and_stays() -> None:
    said = line(report(figures=Figures(done=0, total=10, errors=0, fraction=0.0)))
    assert " done=0 total=10 fraction=0 errors=0 " in said


def test_a_share_is_never_rounded_up_to_one() -> None:
    nearly = FIGURES._replace(done=83287, fraction=83287 / 83288)
    assert " fraction=0.999 " in line(report(figures=nearly))
    assert " fraction=1 " in line(report(figures=nearly._replace(fraction=1.0)))


def test_values_with_blanks_equals_signs_and_quotes_are_quoted() -> None:
    said = line(report(name='my job (7) "x" a\\b', reason="k=v"))
    assert ' job="my job (7) \\"x\\" a\\\\b" ' in said
    assert said.endswith(' reason="k=v"')


def test_a_server_that_is_silent_is_bad_and_one_not_asked_is_left_out() -> None:
    server = probed().server
    assert server is not None
    assert " server=bad " in line(stalled(server=server._replace(healthy=False)))
    assert "server=" not in line(probed(server=server._replace(healthy=None)))


def test_nan_and_infinity_are_unknown() -> None:
    wild = Figures(fraction=float("nan"), finish=float("inf"), requests_per_s=float("inf"))
    said = line(report(figures=wild))
    assert "fraction" not in said and "finish" not in said and "requests" not in said
    assert said.count("check=unknown") == 1


def test_a_time_that_no_calendar_has_is_unknown() -> None:
    assert "finish" not in line(report(figures=Figures(finish=1e18)))


@pytest.mark.parametrize("key", HOSTILE)
def test_hostile_text_is_one_line_of_printable_text(key: str) -> None:
    text = HOSTILE[key].decode("utf-8", "surrogateescape")
    said = line(report(name=text, reason=text, figures=Figures(dataset=text, check=Check.OK)))
    assert said.isprintable()
    assert len(said) < 6_100_000
    assert said.startswith("time=2026-02-24T10:11:12Z job=")


def test_each_job_has_its_line_at_once() -> None:
    reader, writer = os.pipe()
    Plain(Out(writer)).show([report(), report(name="other (7)")])
    os.close(writer)
    lines = os.read(reader, 65536).decode().split("\n")
    os.close(reader)
    assert [one.split(" state=")[0] for one in lines] == [
        "time=2026-02-24T10:11:12Z job=synth_100k",
        'time=2026-02-24T10:11:12Z job="other (7)"',
        "",
    ]
