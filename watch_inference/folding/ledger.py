"""One dataset's log entry and output reading in, its account out; touches nothing.

The account: how many requests are done and where that is known from, what an earlier run had
written, which errors have no line, and whether log and file agree (README, "Do the sources agree").
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from watch_inference.model import Check, DatasetProgress, LoggedDataset, OutputReading

# A C or Python stream keeps up to this many bytes back before it writes.
_STREAM_BUFFER = 8192
# A file may be behind the log for this long before it is called so: the writer may be at it.
_LAG_S = 10.0
# No writer of batches that we would believe in writes less often.
_BATCH_S = 600.0


class Account(NamedTuple):
    """What log and file together say of one dataset."""

    done: int | None
    done_from: str
    total: int | None
    accounted: int | None  # what the log accounts for, an earlier run's part included
    resumed: int
    errors: int | None
    missing_errors: int
    unfinished: int | None
    check: Check | None
    lag_at: float | None
    surplus: int | None
    notes: tuple[str, ...]


class Moment(NamedTuple):
    """When the account is drawn up, and what the clock says of both sides.

    `silent_s`: for at least so long the log has had no progress line; `written_ago_s`: since the
    file was written last; `earlier_file`: it is older than the process; `expected`: there should
    be a file (a log alone has none).
    """

    at: float
    silent_s: float
    written_ago_s: float | None
    earlier_file: bool = False
    expected: bool = True
    counting: str = "lines"


class _Sides(NamedTuple):
    """Both sides of the account while it is drawn up."""

    entry: LoggedDataset | None
    output: OutputReading
    resumed: int
    cumulative: bool  # the log's own count includes what an earlier run had done
    explained: bool  # the log itself says what an earlier run had done

    @property
    def logged(self) -> int:
        """Count what the log accounts for, an earlier run's part included."""
        if self.entry is None:
            return self.resumed
        return self.entry.done + (0 if self.cumulative else self.resumed)


def account(
    entry: LoggedDataset | None,
    output: OutputReading,
    before: DatasetProgress | None,
    moment: Moment,
) -> Account:
    """Draw up one dataset's account; `before` is what the last look made of it."""
    notes: list[str] = []
    sides = _sides(entry, output, before, moment.earlier_file)
    total = _total(sides, notes)
    on_disk = output.files > 0 and output.written is not None
    if on_disk and not (output.written == 0 and entry is not None and entry.done > 0):
        done, done_from = output.written, "files" if moment.counting == "files" else "written"
    elif entry is not None:
        done, done_from = sides.logged, "logged"
        if moment.expected and output.countable and not output.written and entry.done:
            notes.append(f"{output.name}: results are not on disk yet, the log counts {entry.done}")
    elif output.files == 0 and output.error is None:
        done, done_from = 0, "written"
    else:
        done, done_from = None, "written"
    errors = entry.errors if entry is not None else None
    missing = _missing_errors(sides, done, done_from, total, errors or 0)
    unfinished = None if total is None or done is None else max(0, total - done - missing)
    if total is not None and done is not None and done > total:
        notes.append(f"{output.name}: {done:,} lines for {total:,} prompts: an earlier run too?")
    check, lag_at = _check(sides, done_from, before, moment)
    surplus = before.surplus if before is not None else None
    if surplus is None and done_from != "logged" and output.written is not None and entry:
        surplus = output.written - sides.logged
    accounted = sides.logged if entry is not None else None
    return Account(
        done, done_from, total, accounted, sides.resumed, errors, missing, unfinished, check,
        lag_at, surplus, tuple(notes),
    )  # fmt: skip


def _sides(
    entry: LoggedDataset | None,
    output: OutputReading,
    before: DatasetProgress | None,
    earlier_file: bool,
) -> _Sides:
    """Find out what an earlier run had written, and whether the log's count includes it."""
    written = output.written or 0
    if entry is None:
        old = written if earlier_file else 0
        return _Sides(
            None, output, before.resumed if before and before.resumed else old, False, True
        )
    if entry.of_earlier_run:
        return _Sides(entry, output, written, True, True)
    if entry.resumed is not None and _plausible(entry, output):
        # Where the count goes beyond what was left, it includes the earlier part.
        cumulative = entry.resumed > 0 and entry.total == output.total and entry.first > entry.step
        return _Sides(entry, output, entry.resumed, cumulative, True)
    if entry.total is not None and output.total is not None and entry.total < output.total:
        rest = output.total - entry.total
        # Otherwise the log counts to less for another reason: a limited run.
        if not output.user_total and written >= rest:
            return _Sides(entry, output, rest, False, True)
    started_full = entry.step > 0 and entry.first > 2 * entry.step
    started_full = started_full and (not output.files or entry.first <= written + 2 * entry.step)
    if started_full or (entry.elapsed_s is not None and entry.first > 0 and _at_once(entry)):
        return _Sides(entry, output, entry.first - min(entry.first, entry.step), True, True)
    lead = written - entry.done
    if entry.runs > 1 and lead > 0 and abs(lead - entry.earlier) <= max(2 * entry.step, 20):
        return _Sides(entry, output, lead, False, True)
    if before is not None and before.surplus and _constant(entry, written, before.surplus):
        return _Sides(entry, output, before.surplus, False, False)
    return _Sides(entry, output, 0, False, False)


def _plausible(entry: LoggedDataset, output: OutputReading) -> bool:
    """Tell whether what a heading said of an earlier run fits the totals and the file."""
    said = entry.resumed or 0
    if output.files and output.written is not None and said > output.written:
        return False
    if entry.total is None or output.total is None or output.user_total:
        return True
    slack = max(1, output.total // 100)
    return entry.total == output.total or abs(entry.total + said - output.total) <= slack


def _at_once(entry: LoggedDataset) -> bool:
    """Tell a bar that began at a count (tqdm's `initial`): its rate says less than its count."""
    if entry.rate is None or not entry.elapsed_s:
        return False
    return (
        entry.first > 10
        and entry.done - entry.first < entry.done
        and (
            abs(entry.rate * entry.elapsed_s - (entry.done - entry.first))
            < abs(entry.rate * entry.elapsed_s - entry.done)
        )
    )


def _constant(entry: LoggedDataset, written: int, surplus: int) -> bool:
    """Tell a surplus that stays as it was at the first look while the log goes on."""
    slack = max(2 * entry.step, 10)
    moved = entry.done - entry.first >= max(1, entry.step)
    return moved and surplus > slack and abs(written - entry.done - surplus) <= slack


def _total(sides: _Sides, notes: list[str]) -> int | None:
    output, entry = sides.output, sides.entry
    if output.total is not None:
        if entry is not None and entry.total is not None and not output.user_total:
            counted = entry.total + (0 if sides.cumulative else sides.resumed)
            if abs(counted - output.total) > max(1, output.total // 100):
                notes.append(
                    f"{output.name}: the log counts to {entry.total:,}, "
                    f"the prompts are {output.total:,} (--total says which)"
                )
        return output.total
    if entry is None or entry.total is None or (output.has_prompts and output.error is None):
        return None
    return entry.total + (0 if sides.cumulative else sides.resumed)


def _missing_errors(
    sides: _Sides, done: int | None, done_from: str, total: int | None, errors: int
) -> int:
    """Count the errors that have no line of their own."""
    if done is None or errors == 0 or sides.entry is None:
        return 0
    if done_from == "logged":
        # Some count successes alone: only their last line, short by the errors, shows it.
        return errors if total is not None and done + errors == total else 0
    if total is None:
        return max(0, min(errors, sides.logged - done))
    gap = max(0, total - done)
    if sides.entry.total is not None and sides.entry.done >= sides.entry.total:
        return min(errors, gap)
    # More than all cannot be done: then these errors have lines.
    return errors if errors <= gap else 0


def _check(
    sides: _Sides, done_from: str, before: DatasetProgress | None, moment: Moment
) -> tuple[Check | None, float | None]:
    """Hold the log against the file; the second value: since when the file has been behind."""
    entry, output = sides.entry, sides.output
    if entry is None:
        return (Check.OK if output.written == 0 or output.files == 0 else None), None
    if done_from == "logged" or output.written is None:
        return Check.UNKNOWN, None
    written = output.written
    # Errors may have lines or not, and may be counted as done or not: both are all right.
    lag = sides.logged - (entry.errors or 0) - written
    lead = written - sides.logged
    if lag > _allowed_lag(output, before, entry.rate, moment.written_ago_s):
        at = moment.at
        since = before.lag_at if before is not None and before.lag_at is not None else at
        known = before is None or before.check is Check.BEHIND or at - since >= _LAG_S
        last = before.check if before is not None and before.check is not None else Check.OK
        return (Check.BEHIND if known else last), since
    if entry.of_earlier_run:
        return Check.OK, None
    if lead <= _allowed_lead(sides, moment.silent_s):
        return (Check.RESUMED if sides.resumed else Check.OK), None
    return Check.AHEAD, None


def _allowed_lag(
    output: OutputReading,
    before: DatasetProgress | None,
    rate: float | None,
    written_ago_s: float | None,
) -> int:
    """Lines that may be on their way: the largest write seen, or a stream's buffer full."""
    line_bytes = output.bytes / output.written if output.written else _STREAM_BUFFER
    buffered = ceil(_STREAM_BUFFER / max(1.0, line_bytes))
    largest = before.largest_write if before is not None else 0
    if largest == 0 and written_ago_s is not None and written_ago_s < _BATCH_S:
        # No write was seen yet: one that comes in batches may owe what came since the last.
        largest = ceil(1.5 * (rate or 0.0) * written_ago_s)
    return max(buffered, largest)


def _allowed_lead(sides: _Sides, silent_s: float) -> float:
    """Lines that may have come since the log's last line: it speaks only every so many."""
    entry = sides.entry
    assert entry is not None
    step = max(entry.step, entry.first if not sides.cumulative else 0, 10)
    return 1.5 * max(float(step), (entry.rate or 0.0) * silent_s) + 2
