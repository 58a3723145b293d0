"""Numbers to words, and text from outside to printable text; touches nothing."""

from __future__ import annotations

import math
import re
import time
import unicodedata
from datetime import datetime, timezone

# CSI, OSC/DCS/APC/PM/SOS strings (also unterminated), and two-byte escapes, in 7 and 8 bits.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# Secrets that command lines and URLs carry: never shown.
_SECRET_WORDS = "api[-_]?key|token|password|passwd|secret|auth|authorization"
_SECRET_OPTION = re.compile(
    rf"(?i)((?:^|[\s\-_])(?:{_SECRET_WORDS})[=:]\s*|--?[\w-]{{0,40}}(?:{_SECRET_WORDS})\s+)"
    r"(?!-)(?:bearer\s+|basic\s+)?\S+"
)
_SECRET_KEY = re.compile(r"\b(?:sk|hf|ghp|xox[bp])[-_][A-Za-z0-9_\-]{8,}")
_SECRET_URL = re.compile(r"(\b\w{1,20}://)[^/\s@]{1,200}@")

# Ages move in these steps, so that nothing ticks for its own sake.
_AGE_STEPS = (0, 1, 2, 3, 5, 10, 20, 30, 45, 60, 120, 180, 240, 300, 420, 600, 900, 1200, 1800)

_RECENT_STEPS = (10, 30, 60, 120, 300, 600, 1200, 1800)

_LONGEST_S = 1e10  # three centuries; nobody means more, and no line has room for it

# Up to which high end a range is written in which unit, rounded to which step of it.
_RANGE_UNITS: tuple[tuple[float, float, float, str], ...] = (
    (90, 1, 5, "s"),
    (10 * 60, 60, 1, "min"),
    (2 * 3600, 60, 5, "min"),
    (10 * 3600, 3600, 0.5, "h"),
    (48 * 3600, 3600, 1, "h"),
    (10 * 86400, 86400, 0.5, "d"),
    (math.inf, 86400, 1, "d"),
)

# What takes one column each: found without wcwidth, whose tables cost 30 ms and some memory.
_NARROW = re.compile(
    r"[ -~\u00a0-\u02ff\u2010-\u2027\u2190-\u21ff\u2500-\u259f\u25b2-\u25c5\u2713-\u2718]*"
)

_NO_MARK = re.compile("[^\u0300-\U0010ffff]*")
_VARIANT = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def clean(text: str | bytes) -> str:
    """Make text from outside printable: no escape, control or format character survives."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if text.isprintable() and _NO_MARK.fullmatch(text):
        return text
    kept = []
    marks = 0
    for char in _ESCAPES.sub("", text):
        kind = unicodedata.category(char)
        # A letter may carry two combining marks; a pile of 500 is an attack on the screen. And
        # terminals disagree on the width of what a variation selector follows: it goes.
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        if char in "\t\n\r\v\f" or kind in ("Zs", "Zl", "Zp"):
            kept.append(" ")
        elif kind == "Cs":
            kept.append("\N{REPLACEMENT CHARACTER}")
        elif kind not in ("Cc", "Cf", "Co", "Cn") and marks <= 2 and not _VARIANT.match(char):
            kept.append(char)
    return "".join(kept)


def masked(text: str) -> str:
    """Replace what looks like a key or a password by ***."""
    text = _SECRET_URL.sub(r"\1***@", text)
    return _SECRET_KEY.sub("***", _SECRET_OPTION.sub(r"\1***", text))


def narrow(text: str) -> bool:
    """Tell whether every character takes one column on any terminal."""
    return text.isascii() or _NARROW.fullmatch(text) is not None


def cells(text: str) -> int:
    """Count the terminal columns that cleaned text takes."""
    if text.isascii() or narrow(text):
        return len(text)
    from wcwidth import wcwidth  # late: see _NARROW

    return sum(max(0, wcwidth(char)) for char in text)


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """Cut cleaned text to at most `width` columns, at a character border."""
    if cells(text) <= width:
        return text
    room = width - cells(ellipsis)
    if room < 0:
        return ""
    return _head(text, room) + ellipsis


def cut_middle(text: str, width: int, ellipsis: str = "…") -> str:
    """Cut the middle out of cleaned text, so that it takes at most `width` columns."""
    if cells(text) <= width:
        return text
    room = width - cells(ellipsis)
    if room < 2:
        return _head(text, max(0, width))
    head = _head(text, room - room // 2)
    tail = ""
    for char in reversed(text):
        if cells(char + tail) > room - cells(head):
            break
        tail = char + tail
    return head + ellipsis + tail


def _head(text: str, width: int) -> str:
    used = 0
    for position, char in enumerate(text):
        used += cells(char)
        if used > width:
            return text[:position]
    return text


def number(value: int | None) -> str:
    """Write a count with thousands separators: 31,204; unknown is `?`."""
    return "?" if value is None else f"{value:,}"


def percent(share: float | None, digits: int = 1) -> str:
    """Write a share as per cent; never rounded up to 100 %, which means all of it."""
    if share is None or not math.isfinite(share):
        return "?"
    said = f"{share * 100:.{digits}f}"
    if share < 1 and float(said) >= 100:
        said = f"{100 - 10**-digits:.{digits}f}"
    return f"{said} %"


def rate(value: float | None) -> str:
    """Write a rate per second in three figures: 0.71, 12.3, 834."""
    if value is None:
        return "?"
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}"


def size(value: float | None) -> str:
    """Write bytes in binary units: 12 GiB, 1.2 TiB."""
    if value is None:
        return "?"
    unit = 0
    while abs(value) >= 1000 and unit < 5:
        value /= 1024
        unit += 1
    names = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
    return (
        f"{value:.0f} {names[unit]}" if unit == 0 or value >= 9.95 else f"{value:.1f} {names[unit]}"
    )


def duration(seconds: float | None) -> str:
    """Write a length of time in two units: 45s, 12m, 1h05m, 2d03h."""
    if seconds is None or not -_LONGEST_S < seconds < _LONGEST_S:
        return "?"
    whole = int(max(0.0, seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 600:
        return f"{whole // 60}m{whole % 60:02d}s"
    minutes = (whole + 30) // 60
    if minutes < 60:
        return f"{minutes}m"
    if minutes < 48 * 60:
        return f"{minutes // 60}h{minutes % 60:02d}m"
    hours = (minutes + 30) // 60
    return f"{hours // 24}d{hours % 24:02d}h"


def age(seconds: float | None) -> str:
    """Write an age in steps that do not tick: 12 s, 5 min, 3 h, 2 d."""
    if seconds is None or not -_LONGEST_S < seconds < _LONGEST_S:
        return "?"
    seconds = max(0.0, seconds)
    if seconds < 2700:
        step = max(one for one in _AGE_STEPS if one <= seconds)
        return f"{step} s" if step < 60 else f"{step // 60} min"
    if seconds < 48 * 3600:
        return (
            f"{math.floor(seconds / 360) / 10:g} h"
            if seconds < 36000
            else f"{seconds // 3600:.0f} h"
        )
    return f"{seconds // 86400:.0f} d"


def recent(seconds: float | None) -> str:
    """Write the age of what moves all the time, in few steps: <10 s, 10 s, 30 s, 1 min, 2 min."""
    if seconds is None or not -_LONGEST_S < seconds < _LONGEST_S:
        return "?"
    if seconds < 10:
        return "<10 s"
    return age(
        max(step for step in _RECENT_STEPS if step <= seconds) if seconds < 3600 else seconds
    )


def about(seconds: float) -> float:
    """Round a length of time to what a forecast justifies: two figures at most."""
    for limit, step in ((60, 5), (600, 60), (3600, 300), (6 * 3600, 900), (36 * 3600, 3600)):
        if seconds < limit:
            return max(step, round(seconds / step) * step)
    return round(seconds / 10800) * 10800


def roughly(seconds: float) -> str:
    """Write a length of time that was estimated: ~45 s, ~3 min, ~5h30m."""
    if not -_LONGEST_S < seconds < _LONGEST_S:
        return "?"
    said = about(seconds)
    return f"~{said:.0f} s" if said < 60 else f"~{elapsed(said)}"


def local(wall: float) -> datetime | None:
    """Turn Unix time into local time with its zone; None where no clock can say it."""
    try:
        return datetime.fromtimestamp(wall, timezone.utc).astimezone()
    except (OverflowError, OSError, ValueError):
        return None


def zone(moment: datetime) -> str:
    """Name a time's zone; UTC where the environment's TZ means nothing."""
    return clean(moment.tzname() or "UTC")


def clock(wall: float | None, now: float, with_zone: bool = True) -> str:
    """Write a clock time with its zone, and the day where it is not today: Thu 09:10 UTC."""
    moment = None if wall is None else local(wall)
    today = local(now)
    if moment is None or today is None:
        return "?"
    day = ""
    if moment.date() != today.date():
        far = abs((moment.date() - today.date()).days) > 6
        day = moment.strftime("%Y-%m-%d " if far else "%a ")
    return f"{day}{moment:%H:%M}" + (f" {zone(moment)}" if with_zone else "")


def span(low: float | None, high: float | None, now: float, dash: str = "-") -> str:
    """Write two clock times as one range, the day once, as fine as it is narrow."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return "?"
    step = 600 if high - low >= 7200 else 300 if high - low >= 1200 else 60
    low, high = round(low / step) * step, round(high / step) * step
    start, end = local(low), local(high)
    if start is None or end is None:
        return "?"
    first, last = clock(low, now, with_zone=False), clock(high, now)
    if start.date() == end.date():
        last = f"{end:%H:%M} {zone(end)}"
    return f"{first}{dash}{last}" if start != end else f"{first} {zone(end)}"


def elapsed(seconds: float | None) -> str:
    """Write a running time in minutes, so that it moves once a minute: 9 min, 1h05m, 2d03h."""
    if seconds is None or not -_LONGEST_S < seconds < _LONGEST_S:
        return "?"
    if seconds < 60:
        return "<1 min"
    return f"{seconds // 60:.0f} min" if seconds < 3600 else duration(seconds - seconds % 60)


def between(low: float | None, high: float | None, dash: str = "-") -> str:
    """Write two lengths of time as one range in one unit: 40-55 min, 19-26 h, 2.5-4 d."""
    if low is None or high is None or not -_LONGEST_S < low <= high < _LONGEST_S:
        return "?"
    _, unit, step, name = next(row for row in _RANGE_UNITS if high < row[0])
    low, high = max(0.0, low) / unit, high / unit
    first = f"{round(low / step) * step:g}" if low >= step else f"{low:.0f}"
    last = f"{round(high / step) * step:g}"
    return f"{first}{dash}{last} {name}" if first != last else f"~{last} {name}"


def utc(wall: float) -> str:
    """Write Unix time as 2026-02-24T10:11:12Z."""
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(wall))
    except (OverflowError, OSError, ValueError):
        return "?"
