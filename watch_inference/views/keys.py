"""Bytes from a terminal come in, names of keys go out; what is no key of ours is swallowed whole.

A terminal sends more than keys: answers to queries, mouse reports, pasted text, rubbish. None of
it may act, and a sequence cut in two by a slow link must not act as its pieces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ANSWER = "answer"  # to ESC [ 5 n: everything sent so far has been drawn

_PASTE, _PASTE_END = b"\x1b[200~", b"\x1b[201~"
_TOKEN = re.compile(
    rb"\x1b\[M[\s\S]{3}"  # a mouse report of the old kind: any three bytes
    rb"|\x1b\[(?!M)[0-?]*[ -/]*[@-~]"  # CSI
    rb"|\x1bO[ -~]"  # SS3: arrows in application mode
    rb"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS and other strings
    rb"|\x1b[^\x1b\[\]OPX^_]"  # Alt and a key
    rb"|\x1b(?=\x1b)"  # Escape twice
    rb"|[^\x1b]"
)
_KEYS: dict[bytes, str] = {
    b"q": "q", b"?": "?", b"p": "p", b"+": "+", b"=": "+", b"-": "-", b"l": "l", b"e": "e",
    b"j": "down", b"k": "up", b" ": "page_down", b"\r": "enter", b"\n": "enter", b"\t": "tab",
    b"\x0c": "redraw", b"\x1b": "escape", b"\x1b[0n": ANSWER, b"\x1b[3n": ANSWER,
    b"\x1b[5~": "page_up", b"\x1b[6~": "page_down", b"\x1b[1~": "home", b"\x1b[7~": "home",
    b"\x1b[4~": "end", b"\x1b[8~": "end", b"\x1bOM": "enter",
}  # fmt: skip
for _final, _name in (("A", "up"), ("B", "down"), ("H", "home"), ("F", "end")):
    _KEYS[f"\x1b[{_final}".encode()] = _KEYS[f"\x1bO{_final}".encode()] = _name

_TYPED = 64  # nobody types more in one read: it is a paste without brackets, or rubbish
_ESCAPE_S = 0.1  # an Escape that nothing has followed for so long is the key
_GIVE_UP_S = 1.0  # and the beginning of a sequence will not be finished any more
_LONGEST = 4096


class Keyboard:
    """Decodes what a terminal sends; keeps the beginning of an unfinished sequence."""

    def __init__(self, more: Mapping[bytes, str] | None = None) -> None:
        self._keys = {**_KEYS, **(more or {})}
        self._rest = b""
        self._told = False  # a lone Escape has been reported, and may yet turn out not to be one

    def feed(self, data: bytes) -> list[str]:
        """Return the keys, and ANSWER for each answer, that are complete with these bytes."""
        typed = len(data) <= _TYPED
        if self._told and data[:1] not in (b"[", b"O"):
            self._rest = b""
        self._told = False
        data = self._rest + data
        found: list[str] = []
        at = 0
        while at < len(data):
            if data.startswith(_PASTE, at):
                end = data.find(_PASTE_END, at)
                if end < 0:
                    break
                at = end + len(_PASTE_END)
                continue
            match = _TOKEN.match(data, at)
            if match is None:
                break
            at = match.end()
            key = self._keys.get(match.group())
            if key and (typed or key == ANSWER):
                found.append(key)
        self._rest = self._unfinished(data[at:])
        return found

    def idle(self, quiet_s: float) -> list[str]:
        """Return what silence makes certain: a lone Escape was the key."""
        if self._rest == b"\x1b" and not self._told and quiet_s >= _ESCAPE_S:
            self._told = True
            return ["escape"]
        if quiet_s >= _GIVE_UP_S and not self._rest.startswith(_PASTE):
            self._rest, self._told = b"", False
        return []

    @property
    def patience_s(self) -> float | None:
        """How long to wait for the rest of what has begun; None when nothing has."""
        if not self._rest or self._rest.startswith(_PASTE):
            return None
        return _ESCAPE_S if self._rest == b"\x1b" and not self._told else _GIVE_UP_S

    def _unfinished(self, rest: bytes) -> bytes:
        if rest.startswith(_PASTE):
            return _PASTE + rest[len(_PASTE) :][-len(_PASTE_END) :]
        return rest if len(rest) <= _LONGEST else b""
