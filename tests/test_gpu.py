"""What the tools of NVIDIA and AMD print, and how they hang; a fake one is first in the PATH."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil
import pytest

from tests.fake_smi import OUTPUTS, FakeSmi
from tests.worlds import Clock
from watch_inference.model import Device, GpuReading, Options
from watch_inference.probes.background import Timing
from watch_inference.probes.cards import read_amd, read_nvidia
from watch_inference.probes.gpu import Gpus

PATIENCE_S = 10.0
MIB = 1 << 20

# ------------------------------------------------------------------------- what is printed


def test_a_card_is_read_with_its_units() -> None:
    (card,) = read_nvidia(OUTPUTS["ok"]).devices
    assert card == Device(0, "NVIDIA H100 80GB HBM3", 0.97, 71210 * MIB, 81559 * MIB, 612.31, 61.0)


def test_a_header_units_and_commas_in_a_name_are_understood() -> None:
    told = read_nvidia(OUTPUTS["units"])
    assert told.devices == (Device(0, "A, B", 0.97, 71210 * MIB, 81559 * MIB, 612.31, 61.0),)
    assert told.error is None


def test_a_field_that_is_not_known_costs_itself_only() -> None:
    (card,) = read_nvidia(OUTPUTS["na"]).devices
    assert (card.utilization, card.power_w, card.memory_used) == (None, None, 71210 * MIB)
    (card,) = read_nvidia(OUTPUTS["notsupported"]).devices
    assert (card.utilization, card.power_w, card.temperature_c) == (None, None, 40.0)


def test_a_bad_row_costs_itself_only_and_is_named() -> None:
    told = read_nvidia(OUTPUTS["badrow"], 15)
    assert [card.number for card in told.devices] == [0, 1, 3]
    assert told.error is not None
    assert told.error.startswith("Unable to determine the device handle for GPU0000:08:00.0")


def test_a_lost_card_stays_in_the_list_without_figures() -> None:
    told = read_nvidia(OUTPUTS["unknown"])
    assert [card.number for card in told.devices] == [0, 2]
    assert told.devices[1].memory_used is None
    assert told.error == "GPU 2: Unknown Error"


def test_absurd_readings_are_unknown() -> None:
    assert read_nvidia(OUTPUTS["absurd"]).devices == (Device(0, "H100"),)


def test_an_error_on_stdout_is_its_first_line_and_no_data() -> None:
    told = read_nvidia("\x1b[31mFailed to initialize NVML: Unknown Error\nmore, 1, 2\n", 255)
    assert told == ((), "Failed to initialize NVML: Unknown Error")
    assert read_nvidia("", 255).error == "nvidia-smi says nothing (exit status 255)"


def test_the_names_of_cards_are_cleaned() -> None:
    (card,) = read_nvidia("0, \x1b]0;evil\x07H\x1b[2J100, 1, 2, 3, 4, 5").devices
    assert card.name == "H100"


_AMD = {
    "gpu": 1,
    "usage": {"gfx_activity": {"value": 97, "unit": "%"}, "umc_activity": "N/A"},
    "mem_usage": {
        "total_vram": {"value": 196592, "unit": "MB"},
        "used_vram": {"value": 100, "unit": "MB"},
    },
    "power": {"socket_power": {"value": 700, "unit": "W"}},
    "temperature": {"edge": "N/A", "hotspot": {"value": 61, "unit": "C"}},
}


@pytest.mark.parametrize("around", ["list", "object", "banner"])
def test_amd_smi_is_read_in_its_releases(around: str) -> None:
    text = {
        "list": json.dumps([_AMD]),
        "object": json.dumps({"gpu_data": [_AMD]}),
        "banner": "WARNING: [user] is in no group {render}\n" + json.dumps([_AMD]),
    }[around]
    (card,) = read_amd(text).devices
    assert card == Device(1, None, 0.97, 100 * MIB, 196592 * MIB, 700.0, 61.0)


def test_amd_smi_may_say_that_whole_branches_are_not_available() -> None:
    row = {"gpu": 0, "usage": "N/A", "mem_usage": {"used_vram": {"value": 65535}}, "power": None}
    assert read_amd(json.dumps([row])).devices == (Device(0),)
    assert read_amd("WARNING: No JSON data to report").error == "WARNING: No JSON data to report"


# ------------------------------------------------------------------------------ how it is run


class Watcher:
    """The probe and a clock of its own."""

    def __init__(self, deadline_s: float = 5.0) -> None:
        self.clock = Clock()
        self.gpus = Gpus(Options(), self.clock.now, Timing(deadline_s, 10.0))

    def look(self, seconds: float = 0.0, patience_s: float = PATIENCE_S) -> GpuReading:
        self.clock.wait(seconds)
        return self.gpus.read(self.clock.now(), self.clock.wall(), patience_s)


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSmi:
    monkeypatch.setenv("PATH", str(tmp_path))
    return FakeSmi(tmp_path)


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def test_values_come_in_the_background_and_carry_their_age(smi: FakeSmi) -> None:
    watcher = Watcher()
    assert watcher.look(patience_s=0) == GpuReading()
    reading = watcher.look()
    assert (reading.age_s, reading.error) == (0.0, None)
    assert reading.devices[0].utilization == 0.97
    assert watcher.look(8).age_s == 8.0
    assert smi.calls == ["begin", "end"]
    assert watcher.look(8).age_s == 0.0
    assert smi.calls == ["begin", "end"] * 2


def test_no_tool_is_said_and_looked_for_again_seldom(smi: FakeSmi) -> None:
    (smi.folder / "nvidia-smi").unlink()
    watcher = Watcher()
    assert watcher.look() == GpuReading(None, "no nvidia-smi")
    FakeSmi(smi.folder)
    assert watcher.look(60).devices == ()
    assert watcher.look(600).devices != ()


def test_amd_smi_is_asked_where_there_is_no_nvidia_smi(smi: FakeSmi) -> None:
    (smi.folder / "nvidia-smi").unlink()
    tool = smi.folder / "amd-smi"
    tool.write_text(f"#!/bin/sh\necho '{json.dumps([_AMD])}'\n")
    tool.chmod(0o755)
    assert Watcher().look().devices[0].number == 1


def test_a_driver_error_is_named_and_the_old_values_stay_with_their_age(smi: FakeSmi) -> None:
    watcher = Watcher()
    watcher.look()
    smi.mode = "error"
    reading = watcher.look(20)
    assert reading.error is not None
    assert reading.error.startswith("NVIDIA-SMI has failed because it couldn't communicate")
    assert (reading.age_s, len(reading.devices)) == (20.0, 1)


def test_a_tool_that_hangs_is_killed_with_its_children_and_asked_again_later(
    smi: FakeSmi,
) -> None:
    smi.mode = "hang"
    watcher = Watcher(deadline_s=0.5)
    began = time.monotonic()
    watcher.look(patience_s=0)
    assert time.monotonic() - began < 0.3
    reading = watcher.look()
    assert reading == GpuReading(None, "nvidia-smi: no answer in 0.5 s")
    assert smi.calls == ["begin"]
    deadline = time.monotonic() + 5
    while children():
        assert time.monotonic() < deadline, "somebody was left behind"
        time.sleep(0.01)
    smi.mode = "ok"
    assert watcher.look(50).devices == ()
    assert len(watcher.look(20).devices) == 1


def test_while_one_runs_no_other_is_started_and_the_screen_does_not_wait(smi: FakeSmi) -> None:
    smi.mode = "slow"
    watcher = Watcher()
    for _ in range(20):
        watcher.look(30, patience_s=0)
    assert watcher.look(patience_s=0).error == "no answer for 9 min" or smi.calls.count("begin") < 3
    watcher.look()
    begins = [number for number, word in enumerate(smi.calls) if word == "begin"]
    assert all(smi.calls[number + 1] == "end" for number in begins if number + 1 < len(smi.calls))


def test_a_tool_that_leaves_a_child_behind_is_read_at_once_and_cleaned_up(smi: FakeSmi) -> None:
    smi.mode = "orphan"
    began = time.monotonic()
    assert Watcher(deadline_s=8).look().devices != ()
    assert time.monotonic() - began < 5
    deadline = time.monotonic() + 5
    while any("nvidia-smi" in " ".join(p.cmdline()) for p in psutil.process_iter() if _ours(p)):
        assert time.monotonic() < deadline, "the orphan lives"
        time.sleep(0.01)


def _ours(process: psutil.Process) -> bool:
    try:
        return process.exe().startswith("/") and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def test_leaving_kills_the_tool_and_waits_for_nothing(smi: FakeSmi) -> None:
    smi.mode = "hang"
    watcher = Watcher(deadline_s=60)
    watcher.look(patience_s=0)
    deadline = time.monotonic() + 5
    while not smi.calls:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    began = time.monotonic()
    watcher.gpus.close()
    assert time.monotonic() - began < 0.2
    while any(one.status() != psutil.STATUS_ZOMBIE for one in children()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    watcher.look()


def test_a_tool_that_is_no_program_is_named(smi: FakeSmi) -> None:
    (smi.folder / "nvidia-smi").write_text("\x00\x01")
    assert Watcher().look().error == "nvidia-smi cannot be started: Exec format error"


def test_no_gpu_is_asked_where_nobody_wants_it(smi: FakeSmi) -> None:
    gpus = Gpus(Options(ask_gpu=False), Clock().now)
    assert gpus.read(0.0, 0.0, PATIENCE_S) == GpuReading()
    assert smi.calls == []
