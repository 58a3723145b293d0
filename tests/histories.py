"""How many random histories of a file a property test goes through, and where the files lie.

The long run, as many histories a property as it says, each of up to 60 actions:

    WATCH_EXAMPLES=20000 python -m pytest --timeout 0 -k history tests/test_tail.py \\
        tests/test_output_probe.py
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from hypothesis import HealthCheck, settings

Test = TypeVar("Test", bound=Callable[..., object])
EXAMPLES = int(os.environ.get("WATCH_EXAMPLES", "100"))


def histories(test: Test) -> Test:
    """Run a property as often as the environment asks; a slow disk is no failure."""
    return settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )(test)


@contextmanager
def folder() -> Iterator[Path]:
    """Give a folder of its own to each history."""
    with tempfile.TemporaryDirectory(prefix="watch-") as name:
        yield Path(name)


def descriptors() -> int:
    """Count the files that this process has open."""
    return len(os.listdir("/proc/self/fd"))
