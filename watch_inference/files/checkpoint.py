"""What survives between two visits, and when to refuse it; touches one folder of our own.

Each document is a small JSON file, replaced whole, so that any number of monitors may be killed
at any moment. What cannot be read is left out, with one warning; nothing here ever raises.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple
from zlib import crc32

from watch_inference.files.count import Tally
from watch_inference.files.tail import open_regular, why

_VERSION = 1
_LARGEST = 8 << 20  # bytes of a document that we would ever write
_KEPT = 200  # folders, and outcomes
_WORTH = 1 << 20  # bytes: a shorter file is counted again faster than remembered
_BOOT = "/proc/sys/kernel/random/boot_id"


class Visit(NamedTuple):
    """The last job that was watched."""

    root: str
    name: str
    wall: float


class Outcome(NamedTuple):
    """What a dataset ended with."""

    completion_tokens: float | None
    requests_per_s: float | None
    wall: float


class Memory:
    """A folder of JSON documents; `warnings` says what could not be kept or read."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self.warnings: tuple[str, ...] = ()
        self.boot = _boot()  # names this run of the kernel; empty if it cannot be known
        self._folder = _folder(environ)
        if self._folder is None:
            return
        try:
            _own(self._folder)
            _tidy(self._folder, self.boot)
        except OSError as error:
            self._warn(f"memory of this visit not kept: {why(error)}")
            self._folder = None

    def read(self, name: str) -> dict[str, object]:
        """Give a document; empty where there is none that can be believed."""
        if self._folder is None:
            return {}
        path = os.path.join(self._folder, name + ".json")
        try:
            document = json.loads(_content(path), parse_constant=_refuse)
        except FileNotFoundError:
            return {}
        except OSError as error:
            self._warn(f"memory of earlier visits not read: {why(error)}")
            return {}
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict) and document.get("version") == _VERSION:
            return document
        self._warn("memory of earlier visits was damaged, and is begun anew")
        return {}

    def write(self, name: str, document: Mapping[str, object]) -> None:
        """Replace a document, as a whole or not at all."""
        if self._folder is None:
            return
        temporary = os.path.join(self._folder, f".{self.boot[:8]}-{os.getpid()}.tmp")
        try:
            text = json.dumps({"version": _VERSION, **document}, allow_nan=False)
            _write_anew(temporary, text.encode())
            os.replace(temporary, os.path.join(self._folder, name + ".json"))
        except OSError as error:
            _remove(temporary)
            self._warn(f"memory of this visit not kept: {why(error)}")

    def _warn(self, text: str) -> None:
        if not self.warnings:
            self.warnings = (text,)


# ------------------------------------------------------------------------------ what is kept


def recall_tallies(memory: Memory, folder: str) -> dict[str, Tally]:
    """Give what was counted in a folder, by path, if it was in this run of the kernel."""
    document = memory.read(_counts(folder))
    if not memory.boot or document.get("boot") != memory.boot or document.get("folder") != folder:
        return {}
    kept = document.get("files")
    tallies = kept.items() if isinstance(kept, dict) else ()
    return {path: tally for path, value in tallies if (tally := _tally(value)) is not None}


def keep_tallies(memory: Memory, folder: str, tallies: Mapping[str, Tally]) -> None:
    """Keep what was counted in a folder, by path; short files are left out."""
    files = {path: list(tally) for path, tally in tallies.items() if tally.offset >= _WORTH}
    if files and memory.boot:
        memory.write(_counts(folder), {"boot": memory.boot, "folder": folder, "files": files})


def recall_visit(memory: Memory) -> Visit | None:
    """Give the last job that was watched."""
    document = memory.read("visit")
    root, name, wall = document.get("root"), document.get("name"), document.get("wall")
    if isinstance(root, str) and isinstance(name, str) and _number(wall) is not None:
        return Visit(root, name, _number(wall) or 0.0)
    return None


def keep_visit(memory: Memory, visit: Visit) -> None:
    """Keep the last job that was watched."""
    memory.write("visit", visit._asdict())


def recall_outcome(memory: Memory, name: str, prompts: str) -> Outcome | None:
    """Give what a dataset of this name and these prompts (a fingerprint) ended with."""
    kept = memory.read("outcomes").get(f"{name} {prompts}")
    if not isinstance(kept, list) or len(kept) != 3:
        return None
    tokens, rate, wall = (_number(value) for value in kept)
    return Outcome(tokens, rate, wall or 0.0)


def keep_outcome(memory: Memory, name: str, prompts: str, outcome: Outcome) -> None:
    """Keep what a dataset ended with; only the newest few hundred are."""
    kept = {key: value for key, value in memory.read("outcomes").items() if key != "version"}
    kept.pop(f"{name} {prompts}", None)
    kept[f"{name} {prompts}"] = list(outcome)
    memory.write("outcomes", dict(list(kept.items())[-_KEPT:]))


def _counts(folder: str) -> str:
    data = folder.encode("utf-8", "surrogateescape")
    return f"counts-{crc32(data):08x}{crc32(data[::-1]):08x}"


def _tally(value: object) -> Tally | None:
    """Make a tally of what was read; None where the numbers make no sense."""
    if not isinstance(value, list) or len(value) != 7 or not isinstance(value[5], bool):
        return None
    device, inode, offset, lines, seen, terminated, marks = value
    naturals = all(map(_natural, value[:5]))
    if not naturals or not isinstance(marks, list) or not all(map(_mark, marks)):
        return None
    pairs = tuple((place, number) for place, number in marks)
    tally = Tally(device, inode, offset, lines, seen, terminated, pairs)
    places = [*tally.marks, (tally.offset, tally.lines)]
    growing = all(low[0] <= high[0] and low[1] <= high[1] for low, high in pairwise(places))
    return tally if growing and tally.lines <= tally.offset else None


def _mark(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_natural, value))


def _natural(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 64


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < 1e18 else None


# ------------------------------------------------------------------------- the folder of our own


def _folder(environ: Mapping[str, str]) -> str | None:
    """Where the documents lie; None where there is no such place: never a shared one."""
    cache = environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(cache):
        home = environ.get("HOME", "")
        if not os.path.isabs(home):
            return None
        cache = os.path.join(home, ".cache")
    return os.path.join(cache, "watch_inference")


def _own(folder: str) -> None:
    """Make the folder, and refuse one that somebody else could write to."""
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(errno.EACCES, "not a folder of our own")
    if stat.S_IMODE(status.st_mode) != 0o700:
        os.chmod(folder, 0o700)


def _tidy(folder: str, boot: str) -> None:
    """Remove what killed monitors left behind, and the oldest counts."""
    names = os.listdir(folder)
    for name in names:
        if name.startswith(".") and name.endswith(".tmp") and not _alive(name, boot):
            _remove(os.path.join(folder, name))
    counts = [os.path.join(folder, name) for name in names if name.startswith("counts-")]
    if len(counts) > _KEPT:
        for path in sorted(counts, key=_modified)[:-_KEPT]:
            _remove(path)


def _alive(name: str, boot: str) -> bool:
    """Say whether the writer of a temporary file may still be at it."""
    owner, _, pid = name[1 : -len(".tmp")].partition("-")
    if owner != boot[:8]:
        return False
    return os.path.exists(f"/proc/{pid}")


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass  # another monitor was faster, or the folder is read-only: no matter


def _write_anew(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        written = 0
        while written < len(content):
            written += os.write(descriptor, content[written:])
    finally:
        os.close(descriptor)


def _content(path: str) -> bytes:
    descriptor = open_regular(path)
    try:
        size = os.fstat(descriptor).st_size
        if size > _LARGEST:
            raise ValueError("too large to be ours")
        return os.pread(descriptor, size or 4096, 0)  # a file of the kernel's has no size
    finally:
        os.close(descriptor)


def _boot() -> str:
    try:
        return _content(_BOOT).decode().strip()
    except (OSError, ValueError):
        return ""


def _refuse(constant: str) -> float:
    raise ValueError(constant)
