"""A fake nvidia-smi, put first into a PATH: well, or broken in one of many ways.

Each run notes its begin and end, so that a test can see whether two ever ran at once.
"""

from __future__ import annotations

import sys
from pathlib import Path

OUTPUTS = {
    "ok": "0, NVIDIA H100 80GB HBM3, 97, 71210, 81559, 612.31, 61\n",
    "na": "0, NVIDIA A100, [N/A], 71210, 81559, [N/A], [N/A]\n",
    "notsupported": "0, Tesla K80, [Not Supported], 11, 12206, [Not Supported], 40\n",
    "units": "index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], "
    "power.draw [W], temperature.gpu\n0, A, B, 97 %, 71210 MiB, 81559 MiB, 612.31 W, 61\n",
    "eight": "".join(
        f"{number}, NVIDIA H200, {90 + number}, 71210, 81559, 600.00, 60\n" for number in range(8)
    ),
    "badrow": "0, NVIDIA RTX A6000, 10, 100, 49140, 80.00, 40\n"
    "1, NVIDIA RTX A6000, 20, 100, 49140, 80.00, 40\n"
    "Unable to determine the device handle for GPU0000:08:00.0: Unknown Error\n"
    "3, NVIDIA RTX A6000, 40, 100, 49140, 80.00, 40\n",
    "unknown": "0, A6000, 10, 1, 49140, 80.0, 40\n2, [Unknown Error]" + ", [Unknown Error]" * 5,
    "absurd": "0, H100, 9223372036854775807, -1, NaN, inf, 5000\n",
    "error": "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n\n",
    "none": "No devices were found\n",
    "nothing": "",
}
CODES = {"error": 9, "none": 6, "infoROM": 14, "nothing": 255}

_SCRIPT = """\
#!{python} -IS
import os, signal, sys, time
mode = open({mode!r}).read()
def note(word):
    with open({calls!r}, "a") as file:
        file.write(word + "\\n")
note("begin")
if mode == "hang":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        time.sleep(120)
        os._exit(0)
    time.sleep(120)
if mode == "orphan" and os.fork() == 0:
    time.sleep(120)
    os._exit(0)
if mode == "slow":
    time.sleep(0.3)
sys.stdout.write({outputs!r}.get(mode, {well!r}))
sys.stdout.flush()
note("end")
sys.exit({codes!r}.get(mode, 0))
"""


class FakeSmi:
    """The program in a folder; its mode may change from run to run."""

    def __init__(self, folder: Path, mode: str = "ok", name: str = "nvidia-smi") -> None:
        self.folder = folder
        self._mode = folder / "mode"
        self._calls = folder / "calls"
        self.mode = mode
        text = _SCRIPT.format(
            python=sys.executable,
            mode=str(self._mode),
            calls=str(self._calls),
            outputs=OUTPUTS,
            well=OUTPUTS["ok"],
            codes=CODES,
        )
        program = folder / name
        program.write_text(text)
        program.chmod(0o755)

    @property
    def mode(self) -> str:
        return self._mode.read_text()

    @mode.setter
    def mode(self, mode: str) -> None:
        self._mode.write_text(mode)

    @property
    def calls(self) -> list[str]:
        """Each run's begin, and its end where it came to one by itself."""
        return self._calls.read_text().split() if self._calls.exists() else []
