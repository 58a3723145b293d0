"""Reports made by hand: the reference job in the middle of B3, and what may become of it."""

from __future__ import annotations

from typing import Any

from watch_inference.model import (
    Check,
    DatasetRow,
    Device,
    Figures,
    GpuReading,
    LogRow,
    ProcessRow,
    Report,
    Resources,
    ServerReading,
    State,
)

NOW = 1771927872.0  # Tuesday 2026-02-24 10:11:12 UTC

FIGURES = Figures(
    dataset="B3_magicoder",
    done=31204,
    total=83288,
    resumed=0,
    errors=12,
    fraction=31204 / 83288,
    check=Check.OK,
    requests_per_s=0.71,
    tokens_per_s=611.2,
    remaining_s=95400.0,
    remaining_low_s=82740.0,
    remaining_high_s=108540.0,
    finish=NOW + 95400,
    finish_low=NOW + 82740,
    finish_high=NOW + 108540,
)

_QUEUED = {
    "B4_openhermes": (14000, 19700.0),
    "B5_math": (11705, 16500.0),
    "B6_slim": (9000, 12700.0),
    "B7_longalign": (8000, 11300.0),
    "B8_sweagent": (3572, 5000.0),
}


def _finished(name: str, total: int | None, **fields: Any) -> DatasetRow:
    row = DatasetRow(name, State.FINISHED, done=total or 2400, total=total, done_from="written")
    return row._replace(written=row.done, **fields)


def datasets(more: int = 0) -> tuple[DatasetRow, ...]:
    """Make the ten datasets of the reference job, B3 that many lines further."""
    running = DatasetRow(
        "B3_magicoder",
        State.RUNNING,
        done=6193 + more,
        done_from="written",
        total=12000,
        written=6193 + more,
        logged=6182,
        accounted=6182,
        resumed=0,
        errors=3,
        check=Check.OK,
        requests_per_s=0.71,
        completion_tokens=861.4,
        remaining_s=8180.0,
        age_s=2.0,
        started=NOW - 25152,
    )
    times = {"started": NOW - 60000.0, "ended": NOW - 45720.0, "check": Check.OK}
    rates = {"requests_per_s": 0.7, "completion_tokens": 788.0}
    return (
        _finished("A1_tokenised", None),
        _finished("A2_tokenised", None),
        _finished("B1_glaive", 10000, errors=0, **times, **rates),
        _finished("B2_dolly", 15011, errors=9, **times, **rates),
        running,
        *(
            DatasetRow(name, State.QUEUED, done=0, total=total, errors=0, remaining_s=left)
            for name, (total, left) in _QUEUED.items()
        ),
    )


LOG = LogRow("/data/synth_100k/logs/run.log", "reference", 12345678, 12.0, 0, 900, 0, None, 14400.0)
PROCESS = ProcessRow(41233, "sleeping", NOW - 45060, 31.0, 1290000000, 40, "python run.py")


def report(more: int = 0, **fields: Any) -> Report:
    """Make the report of a running job, with other values where `fields` says so."""
    done = 31204 + more
    made = Report(
        at=1000.0,
        wall=NOW,
        host="gpu-7",
        name="synth_100k",
        root="/data/synth_100k",
        found="target",
        state=State.RUNNING,
        started=NOW - 45060,
        elapsed_s=45060.0,
        figures=FIGURES._replace(done=done, fraction=done / 83288),
        datasets=datasets(more),
        log=LOG,
        logs=(LOG,),
        process=PROCESS,
        processes=(PROCESS,),
        output_age_s=2.0,
        log_every_s=180.0,
        history=(0.3, 0.4, 0.6, 0.6, 0.7, 0.6, 0.6, 0.5, 0.6, 0.6, 0.71, 0.71),
        quiet_s=2.0,
    )
    return made._replace(**fields)


def probed(**fields: Any) -> Report:
    """Make the same with a server, eight GPUs, a disk and a memory limit."""
    devices = tuple(
        Device(number, "H200", 0.91 + number / 100, 71 << 30, 80 << 30, 612.0, 60.0)
        for number in range(8)
    )
    made = report(
        server=ServerReading(
            "http://127.0.0.1:8000", "sglang", True, False, 1.0, 0.04, 48, 102, 0.97, 828.0
        ),
        gpu=GpuReading(1.0, None, devices),
        resources=Resources(1319413953331, None, 212 << 30, 512 << 30, 0),
    )
    return made._replace(**fields)


def stalled(**fields: Any) -> Report:
    """Make a report of a job whose server generates nothing."""
    made = probed(
        state=State.STALLED,
        reason="server answers but generates nothing for 14 min: 48 running, tokens still; "
        "process alive, idle",
        advice="look at the server's own log",
        quiet_s=850.0,
        evidence=("no log line for 14 min; one came every 3 min",),
        warnings=("outputs are on a network file system; times may be late",),
    )
    return made._replace(**fields)
