"""Styles by meaning and glyphs by locale: what a view may look like; touches nothing.

A style is a word ("bad", "dim"); only `sgr` knows what a terminal calls it. Every style supports
a word that says the same, so that a screen without colours loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from watch_inference import units


class Segment(NamedTuple):
    """A run of cleaned text in one style; "" is the terminal's own."""

    text: str
    style: str = ""


Line = tuple[Segment, ...]


class Looks(NamedTuple):
    """How to draw: 0, 8, 16 or 256 colours (None: no attributes at all), ASCII or Unicode."""

    colors: int | None = None
    ascii: bool = False

    @property
    def dash(self) -> str:
        """The stroke between two ends of a range."""
        return "-" if self.ascii else "–"

    @property
    def ellipsis(self) -> str:
        """What stands where text was cut."""
        return "..." if self.ascii else "…"

    @property
    def arrow(self) -> str:
        """What leads to advice."""
        return "->" if self.ascii else "→"


# name: (attributes, one of 8 colours, one of 256). Chosen to be read on black and on white:
# no yellow, no blue of the eight, and grey only where 256 colours give one in the middle.
_STYLES: dict[str, tuple[str, str, str]] = {
    "strong": ("1", "", ""),
    "dim": ("2", "", "38;5;244"),
    "good": ("", "32", "38;5;34"),
    "warn": ("1", "35", "38;5;172"),
    "bad": ("1", "31", "38;5;167"),
    "bar": ("", "36", "38;5;32"),
    "track": ("2", "", "38;5;248"),
    "head": ("4", "", "38;5;244"),
    "chosen": ("7", "", ""),
}


def sgr(style: str, looks: Looks) -> str:
    """Return the SGR parameters of a style, "" for none; always to be set on a reset pen."""
    if looks.colors is None or style not in _STYLES:
        return ""
    attributes, basic, rich = _STYLES[style]
    color = rich if looks.colors >= 256 else basic if looks.colors >= 8 else ""
    if color.startswith("38;5;24"):
        attributes = attributes.replace("2", "")  # grey already; faint grey is unreadable
    return ";".join(part for part in (attributes, color) if part)


_RICH = ("256color", "direct", "kitty", "ghostty", "alacritty", "wezterm", "foot", "contour")
_COLORLESS = ("vt52", "vt100", "vt102", "vt220", "vt320", "vt420", "ansi-m", "xterm-mono")


def choose(
    environ: Mapping[str, str], color: str, ascii_only: bool, utf8: bool, tty: bool
) -> Looks:
    """Choose the looks: `color` is auto, always or never; `utf8` what the locale can say."""
    term = environ.get("TERM", "")
    # The console's font has neither the levels nor the marks.
    plain = ascii_only or not utf8 or term == "linux"
    forced = color == "always" or (
        color == "auto" and environ.get("CLICOLOR_FORCE", "0") not in ("", "0")
    )
    refused = color == "never" or (color == "auto" and bool(environ.get("NO_COLOR")))
    if refused or not (tty or forced):
        return Looks(0 if tty else None, plain)
    # What is not on the terminal itself goes through `watch -c`, a pager, a page: 8 are sure.
    if tty and (environ.get("COLORTERM") or any(word in term for word in _RICH)):
        return Looks(256, plain)
    return Looks(0 if term in _COLORLESS and not forced else 8, plain)


def can_draw(environ: Mapping[str, str]) -> bool:
    """Tell whether the terminal can move its cursor; an unknown one is taken for an xterm."""
    return environ.get("TERM", "") not in ("", "dumb", "unknown", "network", "dialup")


_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.:-=+*#"


def bar(fraction: float | None, width: int, looks: Looks, style: str = "bar") -> Line:
    """Draw a share of 0 to 1 as a bar `width` cells wide; full only when it is all."""
    share = min(1.0, max(0.0, fraction or 0.0))
    if looks.ascii:
        return _ascii_bar(share, width, style)
    filled, part = divmod(int(share * width * 8), 8)
    head = "█" * filled + (_EIGHTHS[part] if part else "")
    rest = "─" * (width - len(head)) if fraction is not None else " " * (width - len(head))
    return (Segment(head, style), Segment(rest, "track"))


def thin_bar(share: float, width: int, looks: Looks, style: str = "bar") -> Line:
    """Draw a share of 0 to 1 as a line, so that the bars of many rows stay apart."""
    share = min(1.0, max(0.0, share))
    if looks.ascii:
        return _ascii_bar(share, width, style)
    filled, half = divmod(int(share * width * 2), 2)
    head = "━" * filled + "╸" * half
    return (Segment(head, style), Segment("─" * (width - len(head)), "track"))


def _ascii_bar(share: float, width: int, style: str) -> Line:
    room = max(0, width - 2)
    filled = int(share * room)
    head = "#" * filled + (">" if 0 < share < 1 and filled < room else "")
    return (
        Segment("["[:width]),
        Segment(head, style),
        Segment("-" * (room - len(head)), "track"),
        Segment("]"[: max(0, width - 1)]),
    )


def spark(values: tuple[float | None, ...], looks: Looks) -> str:
    """Draw values as a line of levels, the largest at the top; unknown is a blank."""
    levels = _ASCII_LEVELS if looks.ascii else _LEVELS
    top = max((one for one in values if one is not None), default=0.0)
    if top <= 0:
        return "".join(" " if one is None else levels[0] for one in values)
    return "".join(
        " " if one is None else levels[min(7, max(0, round(one / top * 7)))] for one in values
    )


def width_of(line: Line) -> int:
    """Count the columns that a line takes."""
    return units.cells("".join([segment.text for segment in line]))


def fit(line: Line, width: int, looks: Looks) -> Line:
    """Cut a line to `width` columns; with ASCII looks, `?` stands for every other cell."""
    if looks.ascii:
        line = tuple(Segment(_ascii(segment.text), segment.style) for segment in line)
    if width_of(line) <= width:
        return line
    kept: list[Segment] = []
    room = width
    for segment in line:
        text = units.cut(segment.text, room, looks.ellipsis if width > 8 else "")
        kept.append(Segment(text, segment.style))
        room -= units.cells(text)
        if text != segment.text:
            break
    return tuple(kept)


def _ascii(text: str) -> str:
    if text.isascii():
        return text
    return "".join(char if char.isascii() else "?" * units.cells(char) for char in text)


def joined(parts: list[Line], width: int, gap: int = 3) -> Line:
    """Put parts side by side, `gap` blanks between, as many from the first on as fit."""
    line: Line = ()
    used = 0
    for part in parts:
        space = gap if line else 0
        if line and used + space + width_of(part) > width:
            break
        line += (Segment(" " * space), *part) if space else part
        used += space + width_of(part)
    return line


def spread(left: Line, right: Line, width: int) -> Line:
    """Put one part at the left edge and one at the right; without room only the left one."""
    space = width - width_of(left) - width_of(right)
    if not right or space < 2:
        return left
    return (*left, Segment(" " * space), *right)


def wrapped(text: str, width: int, lines: int, looks: Looks) -> list[str]:
    """Break cleaned text at blanks into at most `lines` of `width` columns; the last is cut."""
    found: list[str] = []
    rest = text.strip()
    while rest and len(found) < lines - 1 and units.cells(rest) > width:
        head = units.cut(rest, width, "")
        at = head.rfind(" ", width // 2)
        head = head if at < 0 else head[:at]
        if not head:
            break
        found.append(head)
        rest = rest[len(head) :].strip()
    if rest:
        found.append(units.cut(rest, width, looks.ellipsis))
    return found
