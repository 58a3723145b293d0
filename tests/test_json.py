"""One JSON object a report: every key always, sections always, unknown null, strict."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.hostile import HOSTILE
from tests.made import FIGURES, NOW, PROCESS, probed, report
from watch_inference.model import DatasetRow, Figures, Report, State
from watch_inference.views.json import Json, document, line
from watch_inference.views.out import Out

KEYS = {
    "": "schema version host time job progress datasets log logs process processes server"
    " servers gpu resources warnings",
    "job": "name root found state reason evidence started ended elapsed_s",
    "progress": "dataset done total resumed errors fraction check requests_per_s tokens_per_s"
    " remaining_s remaining_low_s remaining_high_s finish finish_low finish_high",
    "datasets": "name state done done_from total written logged resumed errors check"
    " requests_per_s completion_tokens concurrency remaining_s age_s started ended",
    "log": "path format size age_s behind unparsed restarts last_error eta_s",
    "process": "pid state started cpu_percent rss threads command",
    "server": "url kind healthy shared age_s latency_s running queued kv_usage tokens_per_s error",
    "gpu": "age_s error devices",
    "devices": "index name utilization memory_used memory_total power_w temperature_c",
    "resources": "disk_free disk_full_s memory_used memory_limit oom_kills",
}


def strictly(text: str) -> Any:
    def refused(word: str) -> None:
        raise ValueError(word)

    return json.loads(text, parse_constant=refused)


def keys(value: dict[str, Any]) -> str:
    return " ".join(value)


def test_every_key_is_there_when_everything_is_known() -> None:
    full = probed(servers=(probed().server,))
    found = strictly(line(full))
    assert keys(found) == KEYS[""]
    for section in ("job", "progress", "log", "process", "server", "gpu", "resources"):
        assert keys(found[section]) == KEYS[section]
    assert [keys(one) for one in found["datasets"]] == [KEYS["datasets"]] * 10
    assert keys(found["logs"][0]) == KEYS["log"]
    assert keys(found["processes"][0]) == KEYS["process"]
    assert keys(found["servers"][0]) == KEYS["server"]
    assert [keys(one) for one in found["gpu"]["devices"]] == [KEYS["devices"]] * 8


def test_every_key_is_there_and_null_when_nothing_is_known() -> None:
    found = strictly(line(Report(1.0, NOW, "h", "j", None, "last", State.UNKNOWN)))
    assert keys(found) == KEYS[""]
    for section in ("log", "process", "server", "resources"):
        assert found[section] == dict.fromkeys(KEYS[section].split())
    assert found["gpu"] == {"age_s": None, "error": None, "devices": []}
    assert found["progress"]["check"] == "unknown"
    assert found["progress"]["done"] is None
    for section in ("datasets", "logs", "processes", "servers", "warnings"):
        assert found[section] == []


def test_values_arrive_as_they_are() -> None:
    found = document(report(warnings=("slow",), evidence=("a", "b")))
    assert found["schema"] == 1
    assert found["time"] == 1771927872.0
    assert found["job"]["state"] == "running"
    assert found["job"]["evidence"] == ["a", "b"]
    assert found["progress"]["fraction"] == 0.374652
    assert found["process"]["rss"] == 1290000000
    assert found["warnings"] == ["slow"]
    assert document(probed())["gpu"]["devices"][7]["index"] == 7
    assert document(probed())["server"]["healthy"] is True


def test_nan_and_infinity_are_null() -> None:
    wild = FIGURES._replace(fraction=float("nan"), finish=float("inf"), remaining_s=-float("inf"))
    found = strictly(line(report(figures=wild, process=PROCESS._replace(cpu_percent=1e999))))
    assert found["progress"]["fraction"] is None
    assert found["progress"]["finish"] is None
    assert found["progress"]["remaining_s"] is None
    assert found["process"]["cpu_percent"] is None


@pytest.mark.parametrize("key", HOSTILE)
def test_hostile_text_is_one_strict_object_without_a_control_character(key: str) -> None:
    text = HOSTILE[key].decode("utf-8", "surrogateescape")
    row = DatasetRow(text, State.RUNNING)
    said = line(report(name=text, reason=text, datasets=(row,), figures=Figures(dataset=text)))
    assert said.isascii() and said.isprintable()
    found = strictly(said)
    assert keys(found) == KEYS[""]
    assert found["job"]["name"].isprintable()
    assert not any("\ud800" <= char <= "\udfff" for char in found["job"]["name"])


def test_each_job_has_its_line_at_once() -> None:
    reader, writer = os.pipe()
    Json(Out(writer)).show([report(), report(name="other")])
    os.close(writer)
    lines = os.read(reader, 1 << 20).decode().splitlines()
    os.close(reader)
    assert [strictly(one)["job"]["name"] for one in lines] == ["synth_100k", "other"]
