"""What earlier runs' datasets ended with: recalled into the readings, kept when one is finished."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watch_inference.files.checkpoint import Memory, Outcome, keep_outcome, recall_outcome
from watch_inference.model import LoggedDataset, LogReading, OutputReading


class Outcomes:
    """Mean completion tokens and throughput by a dataset's name and its prompts."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._known: dict[tuple[str, str], Outcome | None] = {}
        self._kept: set[tuple[str, str]] = set()

    def recalled(self, outputs: Iterable[OutputReading]) -> tuple[OutputReading, ...]:
        """Add to each reading what the same prompts took in an earlier run."""
        return tuple(self._recalled(one) for one in outputs)

    def keep(
        self, outputs: Sequence[OutputReading], logs: Iterable[LogReading], wall: float
    ) -> None:
        """Keep what a dataset that the log shows as finished ended with, once."""
        by_name = {one.name: one for one in outputs}
        for entry in (entry for log in logs for entry in log.datasets):
            key = _key(by_name.get(entry.name))
            if key is not None and key not in self._kept and _finished(entry):
                self._kept.add(key)
                outcome = Outcome(entry.completion_tokens, entry.rate, wall)
                keep_outcome(self._memory, *key, outcome)

    def _recalled(self, output: OutputReading) -> OutputReading:
        key = _key(output)
        if key is None:
            return output
        if key not in self._known:
            self._known[key] = recall_outcome(self._memory, *key)
        known = self._known[key]
        if known is None:
            return output
        tokens, rate, _ = known
        return output._replace(remembered_tokens=tokens, remembered_rate=rate)


def _key(output: OutputReading | None) -> tuple[str, str] | None:
    """Name a dataset by its prompts, too: the same name may be another file next week."""
    if output is None or output.prompts_fingerprint is None:
        return None
    return output.name, output.prompts_fingerprint


def _finished(entry: LoggedDataset) -> bool:
    return (
        (entry.completion_tokens is not None or bool(entry.rate))
        and entry.total is not None
        and entry.done >= entry.total
        and not entry.of_earlier_run
    )
