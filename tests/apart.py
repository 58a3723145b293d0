"""Look at the world from elsewhere: as another user, or from another namespace."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

NOBODY = 65534
PATIENCE_S = 20


def as_nobody(look: Callable[[], Any]) -> Any:
    """Call a function in a child that has given up being root, and hand over what it gives."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE_S)
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writing, pickle.dumps(look()))
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        found = pickle.load(answer)
    os.waitpid(child, 0)
    return found


def open_to_all(folder: Path) -> None:
    """Let every user into a test's folder."""
    subprocess.run(["chmod", "-R", "a+rwX", str(folder)], check=True)
    for outer in (folder, *folder.parents[:2]):
        outer.chmod(outer.stat().st_mode | 0o755)


_LOOK = """
import json, sys
from watch_inference.finding import discover
from watch_inference.model import Options
from watch_inference.probes.process import Processes

(job,) = discover.find(Options(targets=(sys.argv[1],)), "/")
processes, view = Processes(Options()).read(1.0, 0.0, job)
print(json.dumps({"pids": [one.pid for one in processes], "view": list(view)}))
"""


def from_namespace(root: Path, *unshare: str) -> dict[str, Any]:
    """Look at a root from within new namespaces; the pids, and the view of the process table."""
    command = ["unshare", *unshare, sys.executable, "-c", _LOOK, str(root)]
    here = Path(__file__).parent.parent
    done = subprocess.run(
        command, capture_output=True, check=True, timeout=PATIENCE_S, cwd=here, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found
