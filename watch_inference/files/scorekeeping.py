"""The forecast's scores to a document of our memory and back, so that a later visit knows them.

Touches the folder of our own, through the memory that is handed in.
"""

from __future__ import annotations

import math
from zlib import crc32

from watch_inference.files.checkpoint import Memory
from watch_inference.model import Said, Scores

_KEPT = 50  # jobs
_MOST = 32  # forecasts of a job


def recall_scores(memory: Memory, root: str, job: str) -> Scores | None:
    """Give what was forecast of a job so far; None where nothing is known that can be believed."""
    kept = memory.read("scores").get(_key(root, job))
    if not isinstance(kept, list) or len(kept) != 3:
        return None
    begun, fraction, said = _number(kept[0]), _number(kept[1]), kept[2]
    if begun is None or not isinstance(said, list) or len(said) > _MOST:
        return None
    promises = [_promise(one) for one in said]
    known = tuple(one for one in promises if one is not None)
    return Scores(begun, fraction, known) if len(known) == len(promises) else None


def keep_scores(memory: Memory, root: str, job: str, scores: Scores) -> None:
    """Keep what was forecast of a job so far; only the newest few jobs are."""
    kept = {key: value for key, value in memory.read("scores").items() if key != "version"}
    kept.pop(_key(root, job), None)
    kept[_key(root, job)] = [scores.begun, scores.fraction, [list(one) for one in scores.said]]
    memory.write("scores", dict(list(kept.items())[-_KEPT:]))


def _key(root: str, job: str) -> str:
    data = f"{job}\0{root}".encode("utf-8", "surrogateescape")
    return f"{crc32(data):08x}{crc32(data[::-1]):08x}"


def _promise(value: object) -> Said | None:
    if not isinstance(value, list) or len(value) != 4:
        return None
    wall, finish, low, high = map(_number, value)
    if wall is None or finish is None or low is None or high is None:
        return None
    return Said(wall, finish, low, high)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < 1e13 and math.isfinite(value) else None
