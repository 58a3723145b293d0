"""Cells before and cells now come in, the fewest bytes that turn one into the other go out.

A cell is its text and its style; the right half of a wide character is a cell without text. Only
sequences that every terminal of the last forty years knows are used (ECMA-48): CUP, CUF, EL, SGR.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from watch_inference import units
from watch_inference.views.looks import Line, Looks, sgr

Cell = tuple[str, str]
Row = tuple[Cell, ...]
Grid = tuple[Row, ...]

_BLANK: Cell = (" ", "")
_VISIBLE_ON_BLANK = ("chosen",)


def grid(lines: Sequence[Line], width: int, height: int) -> Grid:
    """Spread lines over `height` rows of `width` cells, blank where there is nothing."""
    rows = [_row(line, width) for line in lines[:height]]
    rows += [_row((), width)] * (height - len(rows))
    if rows and width > 1:  # the last cell of all stays blank: writing it scrolls some terminals
        rows[-1] = (*rows[-1][:-2], *_last(rows[-1][-2:]))
    return tuple(rows)


def _last(pair: Row) -> Row:
    return (_BLANK, _BLANK) if len(pair) == 2 and pair[1][0] == "" else (*pair[:-1], _BLANK)


@lru_cache(maxsize=512)
def _row(line: Line, width: int) -> Row:
    """Spread one line; cached, because most lines of a frame are those of the frame before."""
    cells: list[Cell] = []
    for text, style in line:
        if units.narrow(text):
            cells += [(char, _shown(char, style)) for char in text]
        else:
            for char in text:
                _add(cells, char, _shown(char, style), width)
    return (*cells[:width], *(_BLANK,) * (width - len(cells)))


def _shown(char: str, style: str) -> str:
    return "" if char == " " and style not in _VISIBLE_ON_BLANK else style


def _add(cells: list[Cell], char: str, style: str, width: int) -> None:
    """Add a character that may take two cells, or none: then it joins the one before."""
    taken = units.cells(char)
    if taken == 0:
        if cells and cells[-1][0]:
            cells[-1] = (cells[-1][0] + char, cells[-1][1])
    elif taken == 1:
        cells.append((char, style))
    elif len(cells) + 2 <= width:
        cells += [(char, style), ("", style)]
    else:
        cells.append(_BLANK)  # there is room for half of it only


def paint(before: Grid | None, now: Grid, looks: Looks) -> str:
    """Return what a terminal must be sent; without `before`, all of a screen that is cleared."""
    pen = _Pen(looks, len(now[0]) if now else 0)
    if before is None or len(before) != len(now) or len(before[0]) != len(now[0]):
        pen.said.append("\x1b[m\x1b[H\x1b[2J")
        pen.at = (0, 0)
        before = tuple(_row((), len(now[0])) for _ in now)
    for y, (old, new) in enumerate(zip(before, now, strict=True)):
        if old is not new and old != new:
            _paint_row(pen, y, old, new)
    pen.dress("")
    return "".join(pen.said)


def _paint_row(pen: _Pen, y: int, old: Row, new: Row) -> None:
    end = len(new)
    while end and new[end - 1] == _BLANK:
        end -= 1
    old_end = len(old)
    while old_end and old[old_end - 1] == _BLANK:
        old_end -= 1
    # Blanks after the last text are erased at once where that is shorter than writing them.
    stop = end if old_end - end > 3 else max(end, old_end)
    for x in range(stop):
        if new[x] != old[x] and new[x][0]:
            pen.move(y, x, new)
            pen.put(new[x])
    if stop < old_end:
        pen.move(y, stop, new)
        pen.dress("")
        pen.said.append("\x1b[K")


class _Pen:
    """Where the cursor stands and how it writes; `at` is None where terminals may disagree."""

    def __init__(self, looks: Looks, width: int) -> None:
        self.looks = looks
        self.width = width
        self.at: tuple[int, int] | None = None
        self.style = ""
        self.said: list[str] = []

    def move(self, y: int, x: int, row: Row) -> None:
        """Go to a cell by the cheapest way: over the cells between, forward, or absolutely."""
        if self.at == (y, x):
            return
        ways = [_absolute(y, x)]
        if self.at is not None:
            ways += self._relative(y, x, row)
        self.said.append(min(ways, key=lambda way: len(way.encode())))
        self.at = (y, x)

    def _relative(self, y: int, x: int, row: Row) -> list[str]:
        assert self.at is not None
        from_y, from_x = self.at
        if y == from_y and x > from_x:
            between = row[from_x:x]
            plain = all(
                text and units.narrow(text) and self._suits((text, style))
                for text, style in between
            )
            over = ["".join(text for text, _ in between)] if plain else []
            return [_forward(x - from_x), *over]
        if y == from_y:
            return ["\b" * (from_x - x), "\r" + _forward(x)]
        if y == from_y + 1:
            return ["\r\n" + _forward(x)]
        return []

    def put(self, cell: Cell) -> None:
        """Write one cell where the cursor stands."""
        text, style = cell
        if not self._suits(cell):
            self.dress(style)
        self.said.append(text)
        assert self.at is not None
        y, x = self.at
        # Beyond wide and combined characters, and at the right edge, only an address is sure.
        self.at = (y, x + 1) if units.narrow(text) and x + 1 < self.width else None

    def _suits(self, cell: Cell) -> bool:
        """Tell whether the style worn will do; for a blank nearly all are alike."""
        return cell[1] == self.style or (cell == _BLANK and self.style not in _VISIBLE_ON_BLANK)

    def dress(self, style: str) -> None:
        """Change to a style."""
        codes, worn = sgr(style, self.looks), sgr(self.style, self.looks)
        if codes != worn:
            self.said.append(f"\x1b[{'0;' if worn and codes else ''}{codes}m")
        self.style = style


def _absolute(y: int, x: int) -> str:
    if x == 0:
        return f"\x1b[{y + 1}H" if y else "\x1b[H"
    return f"\x1b[{y + 1};{x + 1}H" if y else f"\x1b[;{x + 1}H"


def _forward(distance: int) -> str:
    return "" if distance == 0 else "\x1b[C" if distance == 1 else f"\x1b[{distance}C"
