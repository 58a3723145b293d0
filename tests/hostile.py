"""Lines that nobody should print, and a check that nothing unsafe was: no terminal needed."""

from __future__ import annotations

import re

HOSTILE: dict[str, bytes] = {
    "sgr": b"\x1b[31mred \x1b[1;5;7mblink\x1b[0m",
    "clear": b"before\x1b[2J\x1b[Hafter",
    "alt_screen": b"\x1b[?1049h\x1b[?25l\x1b[?1003h gone",
    "title": b"\x1b]0;owned\x07 and \x1b]2;owned\x1b\\",
    "title_unterminated": b"\x1b]0;owned for the rest of the line",
    "hyperlink": b"\x1b]8;;http://127.0.0.1/\x1b\\click\x1b]8;;\x1b\\",
    "clipboard": b"\x1b]52;c;b3duZWQ=\x07",
    "query": b"\x1b[6n\x1b[c\x1bP+q544e\x1b\\",
    "charset": b"\x1b(0lqqk\x0e\x0f",
    "c1": b"\x9b31mred\x9d0;owned\x9c",
    "c1_utf8": "\x9b31mred\x9d0;owned\x9c".encode(),
    "bell": b"ding\x07\x07\x07",
    "backspaces": b"ERROR\x08\x08\x08\x08\x08fine!",
    "cr_only": b"ERROR: out of memory\rall is well          ",
    "crlf": b"a line from elsewhere\r",
    "nul": b"one\x00two\x00",
    "invalid_utf8": b"\xff\xfe\xc3\x28\xe2\x82 broken",
    "surrogate_utf8": b"\xed\xa0\x80\xed\xbf\xbf lone",
    "utf8_bom": b"\xef\xbb\xbfbom",
    "wide": "漢字漢字漢字 ｗｉｄｅ".encode(),
    "zalgo": ("z" + "\u0301\u0316\u0489" * 170 + "algo").encode(),
    "emoji_zwj": "👩‍👩‍👧‍👦 🏳️‍🌈 🇪🇺".encode(),
    "bidi": "\u202egnp.exe \u2066hidden\u2069 \u200f".encode(),
    "separators": "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg".encode(),
    "private_use": "\ue000\uf8ff\U000f0000 \ufffe\uffff".encode(),
    "number_huge": b"99999999999999999999999999/" + b"9" * 5000 + b" (0 err) 1e999 req/s",
    "number_neg": b"-5/-10 (-1 err) -0.7 req/s avg_comp=-788tok ETA=-4.0h",
    "number_nan": b"nan/inf (0 err) nan req/s avg_comp=inftok ETA=nanh",
    "number_zero_total": b"0/0 (0 err) 0.0 req/s avg_comp=0tok ETA=0s",
    "number_arabic": "١٥٠/١٠٠٠٠ (٠ err) ٠.٧ req/s".encode(),
    "number_underscore": b"1_50/1_0000 (0 err) 0.7 req/s",
    "gigantic": b"x" * 3_000_000,
    "format_bait": b"{0.__class__} %s %n {time!r:>1000000} %(name)s ${HOME} $(id)",
    "blessed_bait": b"{t.red}owned{t.normal} {term.clear} [red]markup[/red]",
    "logfmt_bait": b'state=finished reason="a \\" b" done=9\tx=y',
    "json_bait": b'", "state": "finished", "x": "\\u001b[2J',
    "secret": b"Authorization: Bearer sk-abcdefghijklmnop0123456789",
}

# A count beyond its total is a true progress line, and moves what is shown: kept apart.
NUMBER_OVER = b"10050/10000 (0 err) 0.7 req/s avg_comp=788tok ETA=0s"

# Control characters other than newline, and what only pretends to be text.
_UNSAFE = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff"
    "\ue000-\uf8ff\ufffe\uffff\U000f0000-\U0010ffff]"
)


def unsafe_sequences(output: bytes) -> list[str]:
    """List what a terminal or a reader could stumble over in text that we printed."""
    try:
        text = output.decode("utf-8")
    except UnicodeDecodeError as error:
        return [f"not UTF-8 at byte {error.start}"]
    found = [f"U+{ord(match[0]):04X} in {_around(text, match)}" for match in _UNSAFE.finditer(text)]
    if re.search("[\u0300-\u036f\u0483-\u0489]{8}", text):
        found.append("a pile of combining marks")
    return found


def _around(text: str, match: re.Match[str]) -> str:
    return ascii(text[max(0, match.start() - 20) : match.end() + 20])
