"""What a key does to the page, and what it does not do."""

from __future__ import annotations

import pytest

from tests.made import report
from watch_inference.views.moves import Page, moved

JOB = report(log_tail=tuple("abcdef"))


def after(*keys: str, page: Page | None = None, jobs: int = 1) -> Page:
    page = page or Page()
    for key in keys:
        page = moved(page, key, JOB, jobs)
    return page


@pytest.mark.parametrize(
    ("keys", "name"),
    [
        ("?", "help"),
        ("??", "overview"),
        ("l", "log"),
        ("le", "errors"),
        ("ll", "overview"),
        ("xyz", "overview"),
    ],
)
def test_letters_turn_pages_and_back(keys: str, name: str) -> None:
    assert after(*keys).name == name


def test_enter_and_escape_lead_into_the_current_dataset_and_out() -> None:
    inside = after("enter")
    assert (inside.name, inside.chosen) == ("dataset", "B3_magicoder")
    assert after("enter", "escape").name == "overview"
    assert after("enter", "escape", "escape").chosen is None


def test_arrows_choose_datasets_from_the_current_one_and_stop_at_the_ends() -> None:
    assert after("down").chosen == "B4_openhermes"
    assert after("up", "up").chosen == "B1_glaive"
    assert after("home", "up").chosen == "A1_tokenised"
    assert after("page_down").chosen == "B8_sweagent"
    assert after("enter", "down").chosen == "B4_openhermes"


def test_a_log_scrolls_back_and_no_further_than_it_reaches() -> None:
    assert after("l", "up", "up").offset == 2
    assert after("l", "home").offset == 6
    assert after("l", "up", "end").offset == 0
    assert after("l", "down").offset == 0


def test_plus_and_minus_step_through_intervals() -> None:
    assert after("+").interval == 5.0
    assert after("-", "-").interval == 0.5
    assert after(*"-" * 20).interval == 0.1
    assert after(*"+" * 20).interval == 3600.0
    assert after("+", page=Page(interval=3.0)).interval == 5.0


def test_tab_goes_round_the_jobs() -> None:
    assert after("tab", jobs=3).job == 1
    assert after("tab", "tab", "tab", jobs=3).job == 0
    assert after("down", "tab", jobs=3).chosen is None
    assert after("tab").job == 0


def test_p_pauses_and_goes_on() -> None:
    assert after("p").paused
    assert not after("p", "p").paused


def test_a_job_without_datasets_has_nothing_to_choose() -> None:
    empty = report(datasets=())
    for key in ("enter", "down", "end"):
        assert moved(Page(), key, empty, 1) == Page()
