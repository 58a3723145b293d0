"""Log entries and output readings in, whose progress lines are whose out; touches nothing.

A line that names its dataset, or stands under a heading that does, is that dataset's. The others
belong to the dataset whose total is the same and whose output is growing. Where more than one
fits, nobody gets them: that is said, not guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from watch_inference.model import LoggedDataset, LogReading, OutputReading


class Attribution(NamedTuple):
    """`entries`: dataset name -> what the logs say of it; `ambiguous`: some fitted several."""

    entries: dict[str, LoggedDataset]
    ambiguous: bool = False
    named: tuple[str, ...] = ()  # in the log's order


def attribute(
    logs: Sequence[LogReading], outputs: Sequence[OutputReading], stem: str
) -> Attribution:
    """Give each log entry its dataset; `stem` names the one of a log without any files."""
    found: dict[str, list[LoggedDataset]] = {}
    ambiguous = False
    by_name = {output.name: output for output in outputs}
    # Oldest log first, so that the newest log's entry comes last.
    alone = sum(len(log.datasets) for log in logs) == 1
    for log in sorted(logs, key=lambda one: one.modified or 0.0):
        for entry in log.datasets:
            if not outputs:
                name: str | None = stem if alone or not entry.name else entry.name
            elif entry.name in by_name and not _contradicts(entry, by_name[entry.name]):
                name = entry.name
            else:
                name = _by_total(entry, outputs)
                ambiguous = ambiguous or name is None
            if name is not None:
                found.setdefault(name, []).append(entry)
    entries = {
        name: _scaled(_joined(several, by_name.get(name)), by_name.get(name))
        for name, several in found.items()
    }
    return Attribution(entries, ambiguous, tuple(found))


def _contradicts(entry: LoggedDataset, output: OutputReading) -> bool:
    """Tell a heading that cannot have meant this dataset: the lines count to more than it has."""
    if entry.total is None or output.total is None or output.user_total:
        return False
    return entry.total > output.total * 1.05 + 1


def _by_total(entry: LoggedDataset, outputs: Sequence[OutputReading]) -> str | None:
    works = [one for one in outputs if one.has_prompts] or [
        one for one in outputs if one.held or one.changed_at is not None
    ]
    if len(works) == 1:
        return works[0].name
    if len(outputs) == 1:
        return outputs[0].name
    same = [one for one in works if entry.total is not None and one.total == entry.total]
    if len(same) == 1:
        return same[0].name
    # A resumed dataset's lines count to what was left of it.
    same = same or [one for one in works if entry.total is not None and _rest(one, entry.total)]
    if entry.total is not None and entry.done >= entry.total:
        complete = [one for one in same if (one.written or 0) >= (one.total or 0)]
        return complete[0].name if len(complete) == 1 and len(same) == 1 else None
    growing = _growing([one for one in same if not _complete(one)])
    return growing[0].name if len(growing) == 1 else None


def _rest(output: OutputReading, total: int) -> bool:
    if output.total is None or output.written is None:
        return False
    return 0 < output.total - total <= output.written


def _complete(output: OutputReading) -> bool:
    return (
        output.total is not None and output.written is not None and output.written >= output.total
    )


def _growing(outputs: Sequence[OutputReading]) -> list[OutputReading]:
    """Keep those whose output moves: seen growing, else held open, else alone to have lines."""
    for moves in (
        [one for one in outputs if one.changed_at is not None],
        [one for one in outputs if one.held],
        [one for one in outputs if one.bytes > 0],
    ):
        if moves:
            newest = max(one.changed_at or 0.0 for one in moves)
            return [one for one in moves if (one.changed_at or 0.0) == newest]
    return []


def _joined(entries: Sequence[LoggedDataset], output: OutputReading | None) -> LoggedDataset:
    """Join what several logs say of one dataset: shards are summed, else the newest stands."""
    newest = entries[-1]
    if len(entries) == 1 or any(one.total is None for one in entries):
        return newest
    whole = sum(one.total or 0 for one in entries)
    if output is None or output.total is None or whole > output.total * 1.05 + 1:
        return newest
    errors = [one.errors for one in entries if one.errors is not None]
    rates = [one.rate for one in entries if one.rate is not None]
    asked = [one.concurrency for one in entries if one.concurrency is not None]
    tokens = [
        (one.completion_tokens, one.done) for one in entries if one.completion_tokens is not None
    ]
    weight = sum(done for _, done in tokens)
    return newest._replace(
        done=sum(one.done for one in entries),
        total=whole,
        first=sum(one.first for one in entries),
        errors=sum(errors) if errors else None,
        rate=sum(rates) if rates else None,
        completion_tokens=sum(mean * done for mean, done in tokens) / weight if weight else None,
        eta_s=max((one.eta_s for one in entries if one.eta_s is not None), default=None),
        step=sum(one.step for one in entries),
        runs=max(one.runs for one in entries),
        earlier=sum(one.earlier for one in entries),
        updated_at=max((one.updated_at for one in entries if one.updated_at), default=None),
        concurrency=sum(asked) if asked else None,
        lines=(),
    )


def _scaled(entry: LoggedDataset, output: OutputReading | None) -> LoggedDataset:
    """Bring a log that counts variants (four a prompt) to prompts: a constant factor is no lie."""
    total = None if output is None or output.user_total else output.total
    if not total or entry.total is None or entry.total < 2 * total or entry.total % total:
        return entry
    factor = entry.total // total
    return entry._replace(
        done=entry.done // factor,
        total=total,
        first=entry.first // factor,
        rate=None if entry.rate is None else entry.rate / factor,
        step=-(-entry.step // factor),
        earlier=entry.earlier // factor,
        lines=(),
    )
