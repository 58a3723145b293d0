"""Words in argv and a TOML file in, Options out, or a sentence that says what is wrong with them.

Touches the configuration file only.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from watch_inference.model import Options

FILE = "watch_inference.toml"
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(s|m|min|h|d)?")
_UNITS = {None: 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_FORMS = ("plain", "json", "wait", "explain")

DESCRIPTION = """\
Tells the truth about a running batch-inference job: what state it is in and
why, how far it is, when it will end, and whether log, output files and
processes agree. Read-only; never disturbs it.
"""

EPILOG = """\
TARGET is the job's root folder, its log file, or a pid; none: the job whose
folder you are in, or what runs. Exit status: 0 starting, running or finished;
1 failed; 2 wrong use; 3 stalled or unknown; 4 no job found; 70 an error of
ours; 74 standard output cannot be written; 128 + n ended by signal n.

  ssh host watch_inference /data/job         the report, once
  ssh host watch_inference -n 10 /data/job   the report, then a line every 10 s
  watch -n5 watch_inference /data/job        the report, again and again
  watch_inference --plain /data/job >> progress.log
  watch_inference --wait /data/job && next-step
"""


class Misuse(Exception):
    """Wrong use: one line that says what is wrong and what to type instead (exit 2)."""


class Words(NamedTuple):
    """A command line as typed: what was given, and whether only help or version was asked for."""

    given: dict[str, Any]
    help: bool = False
    version: bool = False
    demo: bool = False
    config: str | None = None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Misuse(f"{message} (watch_inference --help lists what can be typed)")


def parser() -> argparse.ArgumentParser:
    """Make the parser; whatever is not given is None, so that a file may fill it in."""
    make = _Parser(
        prog="watch_inference",
        description=DESCRIPTION,
        epilog=EPILOG,
        usage="watch_inference [TARGET ...] [options]",
        # As narrow as any terminal, whatever COLUMNS says.
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=79),
        allow_abbrev=False,
        add_help=False,
        argument_default=None,
    )
    make.add_argument("targets", nargs="*", metavar="TARGET", help="root folder, log file or pid")
    _forms(make.add_argument_group("what is shown").add_argument)
    _sources(make.add_argument_group("what is looked at").add_argument)
    _settings(make.add_argument_group("how it is judged and drawn").add_argument)
    return make


def _forms(add: Callable[..., object]) -> None:
    add("-n", "--interval", type=_interval, metavar="SECONDS",
        help="time between refreshes; default 2 on the screen, 60 in streams")  # fmt: skip
    add("--once", action="store_true", default=None, help="one observation, then exit")
    add("--plain", action="store_true", default=None, help="a line a refresh, key=value")
    add("--json", action="store_true", default=None, help="a JSON object a refresh")
    add("--wait", action="store_true", default=None,
        help="silent until the job has ended, then one sentence and the exit status")  # fmt: skip
    add("--explain", action="store_true", default=None,
        help="what was found and by which rule, then exit")  # fmt: skip


def _sources(add: Callable[..., object]) -> None:
    add("--log", action="append", metavar="PATH", help="the log (repeats; may be a glob)")
    add("--outputs", action="append", metavar="NAME",
        help="output name or glob in a dataset folder; default tokenized_data.jsonl")  # fmt: skip
    add("--prompts", action="append", metavar="NAME",
        help="prompts file name or glob in a dataset folder; default prompts.jsonl")  # fmt: skip
    add("--count", choices=("lines", "files"),
        help="what is one request of an output: a line (default), or a file")  # fmt: skip
    add("--total", action="append", type=_total, metavar="[DATASET=]N",
        help="how many requests there are to do")  # fmt: skip
    add("--pid", action="append", type=_pid, metavar="PID", help="a process of the job (repeats)")
    add(
        "--match", type=_pattern, metavar="REGEX", help="the job's processes: by their command line"
    )
    add("--server", action="append", type=_server, metavar="URL",
        help="an inference server of the job (repeats); default: found")  # fmt: skip
    add("--no-server", action="store_true", default=None, help="ask no server")
    add("--no-gpu", action="store_true", default=None, help="ask for no GPU")


def _settings(add: Callable[..., object]) -> None:
    add("--stall-after", type=_duration, metavar="DURATION",
        help="90s, 5m, 1h; default: from the job's own rhythm")  # fmt: skip
    add("--allow-missing", type=_natural, metavar="N",
        help="that many missing lines are forgiven at the end; default 0")  # fmt: skip
    add("--color", choices=("auto", "always", "never"), help="default auto")
    add("--ascii", action="store_true", default=None, help="no character beyond ASCII")
    add("--no-cache", action="store_true", default=None,
        help="keep and read no memory of earlier visits")  # fmt: skip
    add("--config", metavar="FILE", help=f"settings as TOML; default {FILE} in the root")
    add("--demo", action="store_true", help="start a small simulated job, and watch it")
    add("-V", "--version", action="store_true", help="print the version, and exit")
    add("-h", "--help", action="store_true", help="print this, and exit")


def words(argv: Sequence[str]) -> Words:
    """Read a command line; raises Misuse."""
    space = vars(parser().parse_args(list(argv)))
    asked = {name: space.pop(name) for name in ("help", "version", "demo", "config")}
    return Words({name: value for name, value in space.items() if value not in (None, [])}, **asked)


def settings(path: str) -> dict[str, Any]:
    """Read a TOML file of settings: the long options' names; raises Misuse."""
    try:
        with open(path, "rb") as file:
            document = _toml(file.read().decode("utf-8"))
    except OSError as error:
        raise Misuse(f"--config {path}: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise Misuse(f"--config {path}: {error}") from error
    try:
        return words(_as_argv(document)).given
    except Misuse as error:
        raise Misuse(f"--config {path}: {error}") from error


def options(given: dict[str, Any], fallback: dict[str, Any] | None = None) -> Options:
    """Make Options of what was typed, over what a file says; raises Misuse."""
    forms = [form for form in _FORMS if given.get(form)]
    if given.get("server") and given.get("no_server"):
        raise Misuse("--server and --no-server exclude each other: choose one")
    if len(forms) > 1:
        raise Misuse(f"--{forms[0]} and --{forms[1]} exclude each other: choose one")
    if given.get("once") and forms and forms[0] in ("wait", "explain"):
        raise Misuse(f"--once and --{forms[0]} exclude each other: choose one")
    merged = {**(fallback or {}), **given}
    forms = forms or [form for form in _FORMS if merged.get(form)]
    defaults = Options()
    return Options(
        targets=tuple(given.get("targets", ())),
        form=forms[0] if forms else "auto",
        once=bool(merged.get("once")),
        interval=merged.get("interval"),
        logs=tuple(merged.get("log", ())),
        outputs=tuple(merged.get("outputs", defaults.outputs)),
        prompts=tuple(merged.get("prompts", defaults.prompts)),
        counting=merged.get("count", "lines"),
        totals=tuple(merged.get("total", ())),
        pids=tuple(merged.get("pid", ())),
        match=merged.get("match"),
        stall_after=merged.get("stall_after"),
        allow_missing=merged.get("allow_missing", 0),
        color=merged.get("color", "auto"),
        ascii=bool(merged.get("ascii")),
        servers=tuple(merged.get("server", ())),
        ask_server=not merged.get("no_server"),
        ask_gpu=not merged.get("no_gpu"),
        cache=not merged.get("no_cache"),
    )


def file_for(wanted: str | None, folders: Sequence[str]) -> str | None:
    """Choose the settings file: the one that was named, else the first folder's that has one."""
    if wanted is not None:
        return wanted
    paths = (os.path.join(folder, FILE) for folder in folders)
    return next((path for path in paths if os.path.isfile(path)), None)


def _toml(text: str) -> dict[str, Any]:
    # Python 3.10 has none of its own.
    name = "tomllib" if sys.version_info >= (3, 11) else "tomli"
    document: dict[str, Any] = import_module(name).loads(text)
    return document


def _as_argv(document: dict[str, Any]) -> list[str]:
    """Write settings as a command line, so that both are read and refused by the same code."""
    argv: list[str] = []
    for key, value in document.items():
        name = key.replace("_", "-")
        if name in ("config", "demo", "help", "version") or not re.fullmatch(r"[a-z-]{2,30}", name):
            raise Misuse(f"{key} is no setting")
        several = value if isinstance(value, list) else [value]
        if isinstance(value, dict):
            several = [f"{dataset}={number}" for dataset, number in value.items()]
        for one in several:
            if one is True:
                argv.append(f"--{name}")
            elif one is not False:
                argv.append(f"--{name}={one}")
    return argv


def _interval(text: str) -> float:
    value = _number(text)
    if value is None or not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.1 to 3600")
    return value


def _duration(text: str) -> float:
    match = _DURATION.fullmatch(text)
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no length of time: 90s, 5m, 1h")
    return float(match[1]) * _UNITS[match[2]]


def _natural(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,15}", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def _total(text: str) -> tuple[str | None, int]:
    name, equals, number = text.rpartition("=")
    if equals and not name:
        raise argparse.ArgumentTypeError(f"{text!r}: no dataset before the =: DATASET=N or N")
    return (name or None, _natural(number))


def _pattern(text: str) -> str:
    try:
        empty = re.search(text, "") is not None
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from error
    if empty:
        raise argparse.ArgumentTypeError(f"{text!r} fits every command line: name some of it")
    return text


def _server(text: str) -> str:
    from watch_inference.probes.addresses import server_url  # late: few name one

    try:
        return server_url(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _pid(text: str) -> int:
    if re.fullmatch(r"-?[0-9]{1,18}", text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no process id")
    return int(text)


def _number(text: str) -> float | None:
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?|\.[0-9]{1,9}", text) is None:
        return None
    return float(text)
