"""Every incident is named in time with the right word, and no innocent is ever cried on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.incidents import (
    INCIDENTS,
    INNOCENTS,
    Incident,
    Innocent,
    it_is_started_again_and_loads,
    it_pauses_for_ninety_seconds_as_it_did_before,
    the_monitor_itself_slept,
)
from tests.stories import Story
from watch_inference.model import State

ALARMS = (State.STALLED, State.FAILED)


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda one: one.tell.__name__)
def test_what_goes_wrong_is_named_in_time(incident: Incident) -> None:
    story = incident.tell()
    assert story.broke_at is not None
    before, after = story.history[: story.before], story.history[story.before :]
    assert [one.reason for one in before if one.state in ALARMS] == []
    found = [
        one
        for one in after
        if one.state is incident.state
        and any(incident.says in said for said in (one.reason, *one.evidence))
    ]
    assert found, [(one.state.value, one.reason, one.evidence) for one in after[-1:]]
    assert found[0].at - story.broke_at <= incident.within + 2 * story.tick_s
    last = story.history[-1]
    assert last.state is incident.state
    assert last.facts  # how old what we know is
    if last.state in ALARMS:
        assert last.advice


@pytest.mark.parametrize("innocent", INNOCENTS, ids=lambda one: one.tell.__name__)
def test_what_only_looks_wrong_is_no_alarm(innocent: Innocent) -> None:
    story = innocent.tell()
    alarms = [one for one in story.history if one.state in ALARMS]
    assert [(one.at, one.state.value, one.reason) for one in alarms[:1]] == []
    assert innocent.says in story.history[-1].reason


@pytest.mark.parametrize(
    "tell",
    [
        it_is_started_again_and_loads,
        the_monitor_itself_slept,
        it_pauses_for_ninety_seconds_as_it_did_before,
    ],
)
def test_a_pause_is_no_slower_pace(tell: Callable[[], Story]) -> None:
    said = [one.reason for one in tell().history]
    assert [one for one in said if "throughput" in one] == []


def test_the_suite_is_large_enough() -> None:
    assert (len(INCIDENTS) >= 20, len(INNOCENTS) >= 20) == (True, True)
    stories = [one.tell for one in INCIDENTS] + [one.tell for one in INNOCENTS]
    assert len(set(stories)) == len(stories)
