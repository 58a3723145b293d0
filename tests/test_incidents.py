"""Every incident is named in time with the right word, and no innocent is ever cried on."""

from __future__ import annotations

import pytest

from tests.incidents import INCIDENTS, INNOCENTS, Incident, Innocent
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
    # What every view shows: the reason, one more thing that is known, and what to do next.
    assert last.facts


@pytest.mark.parametrize("innocent", INNOCENTS, ids=lambda one: one.tell.__name__)
def test_what_only_looks_wrong_is_no_alarm(innocent: Innocent) -> None:
    story = innocent.tell()
    alarms = [one for one in story.history if one.state in ALARMS]
    assert [(one.at, one.state.value, one.reason) for one in alarms[:1]] == []
    assert innocent.says in story.history[-1].reason


def test_the_suite_is_large_enough() -> None:
    assert (len(INCIDENTS) >= 20, len(INNOCENTS) >= 20) == (True, True)
    stories = [one.tell for one in INCIDENTS] + [one.tell for one in INNOCENTS]
    assert len(set(stories)) == len(stories)
