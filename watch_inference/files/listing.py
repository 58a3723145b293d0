"""A path, or a pattern in its last part, comes in, the files' paths go out; reads that folder."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable

_STALE_AFTER = 60.0  # a folder is listed again after that long, whatever its times say
_TICK = 0.05  # file times move in ticks: within one, a second change cannot be seen


class Listing:
    """The files that one path, or a pattern in its last part, stands for."""

    def __init__(self, pattern: str) -> None:
        self._folder, self._name = os.path.split(pattern)
        # A name that is there as it stands is no pattern: out[1].jsonl.
        self._plain = not any(char in self._name for char in "*?[") or os.path.lexists(pattern)
        self._paths: tuple[str, ...] = (pattern,) if self._plain else ()
        self._modified: int | None = None  # the folder's, when it was listed
        self._stale_at = float("-inf")

    def paths(self, at: float, wall: float) -> tuple[str, ...]:
        """Give the paths, sorted; a folder is read again when it changed. Raises OSError."""
        if self._plain:
            return self._paths
        try:
            modified = os.stat(self._folder or ".").st_mtime_ns
            if modified != self._modified or at >= self._stale_at:
                self._paths = tuple(sorted(self._matching()))
                self._stale_at = at + _STALE_AFTER
                self._modified = modified if wall - modified / 1e9 > _TICK else None
        except (FileNotFoundError, NotADirectoryError):
            self._modified, self._paths = None, ()
        return self._paths

    def _matching(self) -> Iterable[str]:
        hidden = self._name.startswith(".")
        with os.scandir(self._folder or ".") as entries:
            names = [entry.name for entry in entries if not entry.is_dir()]
        for name in fnmatch.filter(names, self._name):
            if hidden or not name.startswith("."):
                yield os.path.join(self._folder, name)
