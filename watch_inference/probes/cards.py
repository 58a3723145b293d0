"""What nvidia-smi or amd-smi printed in, GPUs out; pure.

Any field may be missing and any row may be an error: the others are kept.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

from watch_inference.model import Device
from watch_inference.units import clean, cut

NVIDIA = (
    "nvidia-smi",
    "--query-gpu=index,name,utilization.gpu,memory.used,memory.total,power.draw,temperature.gpu",
    "--format=csv,noheader,nounits",
)
AMD = ("amd-smi", "metric", "--json")
_AFTER_NAME = 5  # fields behind the name, which may hold commas itself
_MIB = 1 << 20
_NUMBER = re.compile(r"([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(?:%|MiB|MB|W|C|°C)?")
_MISSING = 65535.0  # "not available" in AMD's raw structures


class Cards(NamedTuple):
    """The GPUs of one look, and the first thing that was wrong."""

    devices: tuple[Device, ...]
    error: str | None = None


def read_nvidia(text: str, code: int = 0) -> Cards:
    """Read the table that nvidia-smi prints, whatever its exit status: 14 comes with a good one."""
    devices, odd = [], []
    for line in text.splitlines():
        device = _nvidia_row(line)
        if device is not None:
            devices.append(device)
        elif line.strip() and not line.lstrip().startswith("index"):
            odd.append(cut(clean(line).strip(), 160))
    if odd or devices:
        return Cards(tuple(devices), odd[0] if odd else _lost(text))
    return Cards((), f"nvidia-smi says nothing (exit status {code})")


def _nvidia_row(line: str) -> Device | None:
    fields = [field.strip() for field in line.split(",")]
    if len(fields) < 2 + _AFTER_NAME or not re.fullmatch(r"[0-9]{1,4}", fields[0]):
        return None
    used, total = _within(fields[-4], 0, 1e9), _within(fields[-3], 0, 1e9)
    return Device(
        number=int(fields[0]),
        name=cut(clean(", ".join(fields[1:-_AFTER_NAME])), 60) or None,
        utilization=_share(_within(fields[-5], 0, 100)),
        memory_used=None if used is None else round(used * _MIB),
        memory_total=None if total is None else round(total * _MIB),
        power_w=_within(fields[-2], 0, 1e4),
        temperature_c=_within(fields[-1], -60, 200),
    )


def _lost(text: str) -> str | None:
    """Name the card of which nothing at all is known."""
    for line in text.splitlines():
        device = _nvidia_row(line)
        if device is not None and device[2:] == (None,) * 5:
            why = clean(line.split(",")[-_AFTER_NAME]).strip(" []")
            return f"GPU {device.number}: {cut(why, 80)}"
    return None


def _within(field: object, low: float, high: float) -> float | None:
    """Read a number that may be; a reading of 9e18 per cent is none."""
    match = _NUMBER.fullmatch(str(field).strip())
    try:
        value = math.nan if match is None else float(match[1])
    except ValueError:
        return None
    return value if low <= value <= high else None


def _share(percent: float | None) -> float | None:
    return None if percent is None else percent / 100


def read_amd(text: str, code: int = 0) -> Cards:
    """Read what amd-smi prints as JSON: a list in older releases, an object around it in newer."""
    rows = _rows(text)
    if rows is None:
        first = next((line for line in text.splitlines() if line.strip()), "")
        said = cut(clean(first).strip(), 160)
        return Cards((), said or f"amd-smi says nothing (exit status {code})")
    devices = (_amd_row(number, row) for number, row in enumerate(rows))
    return Cards(tuple(one for one in devices if one is not None))


def _rows(text: str) -> list[Any] | None:
    """Find the JSON behind whatever banner or warning precedes it."""
    for match in re.finditer(r"[\[{]", text):
        try:
            value, _ = json.JSONDecoder().raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        rows = value.get("gpu_data") if isinstance(value, dict) else value
        if isinstance(rows, list) and any(isinstance(row, dict) for row in rows):
            return rows
    return None


def _amd_row(number: int, row: Any) -> Device | None:
    if not isinstance(row, dict):
        return None
    index = _leaf(row, "gpu")
    used = _leaf(row, "mem_usage", "used_vram")
    total = _leaf(row, "mem_usage", "total_vram")
    heat = [_leaf(row, "temperature", where) for where in ("hotspot", "edge")]
    return Device(
        number=number if index is None else int(index),
        utilization=_share(_within(_leaf(row, "usage", "gfx_activity"), 0, 100)),
        memory_used=None if used is None else round(used * _MIB),
        memory_total=None if total is None else round(total * _MIB),
        power_w=_within(_leaf(row, "power", "socket_power"), 0, 1e4),
        temperature_c=next((h for h in heat if h is not None and -60 <= h <= 200), None),
    )


def _leaf(row: Any, *names: str) -> float | None:
    """Follow names to a number; any branch may be the text N/A, any leaf a value with a unit."""
    for name in names:
        if not isinstance(row, dict):
            return None
        row = row.get(name)
    if isinstance(row, dict):
        row = row.get("value")
    value = _within(row, 0, 1e9)
    return None if value == _MISSING else value
