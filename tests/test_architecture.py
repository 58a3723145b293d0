"""The map of the code, held against the code: who imports whom, how long a file may be."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "watch_inference"

# Every module has a room; a new one is one word here.
ROOMS = {
    "values": "__init__ model units",
    "files": "files.*",
    "logs": "logs.*",
    "finding": "finding.*",
    "probing": "probes.*",
    "folding": "folding.*",
    "forecasting": "forecasting.*",
    "judging": "judging.*",
    "looping": "watch",
    "showing": "views.*",
    "commanding": "config forms cli __main__",
    "pretending": "demo",
}

# Whose modules a room may import: the river flows one way. Values are everybody's.
OURS = {
    "values": "",
    "files": "files",
    "logs": "logs",
    "finding": "logs finding",
    "probing": "files logs finding probing",
    "folding": "folding",
    "forecasting": "forecasting",
    "judging": "folding judging",
    "looping": "folding forecasting judging",
    "showing": "showing",
    "commanding": "commanding looping judging finding files probing showing pretending",
    "pretending": "",
}

# Libraries that anybody may import: they touch nothing.
PURE = (
    "__future__ bisect collections contextlib datetime enum errno fnmatch functools hashlib heapq"
    " importlib itertools math operator random re stat statistics string struct types typing"
    " unicodedata zlib"
)

# The others, and the rooms or modules that may: what touches the world, or is slow to load.
OTHERS = {
    "blessed": "views.screen views.terminal",
    "psutil": "probes.process probes.output probes.resources",
    "wcwidth": "units",
    "tomllib": "config",
    "tomli": "config",
    "argparse": "config demo",
    "signal": "__main__ cli demo showing",
    "os": "files finding probing showing commanding demo",
    "time": "units files finding probing showing commanding demo",
    "sys": "showing commanding demo",
    "io": "showing probes.fetch",
    "pwd": "finding",
    "pathlib": "demo",
    "shutil": "demo",
    "tempfile": "demo",
    "subprocess": "demo probes.gpu",
    "select": "demo cli forms probes.stream showing",
    "fcntl": "showing",
    "termios": "showing",
    "warnings": "views.screen",
    "http": "probes.fetch",
    "ssl": "probes.fetch",
    "base64": "probes.fetch",
    "urllib": "probes.addresses probes.fetch",
    "socket": "probes.fetch probes.sockets",
    "threading": "probes.background",
    "json": "files.checkpoint probes.cards probes.visits demo views.json",
}

# Nothing but declarations and data may be longer.
LONGER = {"model": 600}


@cache
def modules() -> list[str]:
    paths = (path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py"))
    return sorted(".".join(path.parts).replace(".__init__", ".*") for path in paths)


def path_of(module: str) -> Path:
    return PACKAGE / (module.replace(".*", ".__init__").replace(".", "/") + ".py")


def fits(module: str, patterns: str) -> bool:
    return any(fnmatchcase(module, pattern) for pattern in patterns.split())


def room(module: str) -> str:
    found = [name for name, members in ROOMS.items() if fits(module, members)]
    assert len(found) == 1, f"{module} has {len(found)} rooms in ROOMS"
    return found[0]


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(path_of(module).read_text())


def imports(module: str) -> Iterator[str]:
    """Every module that this one imports anywhere; ours as `watch_inference.NAME`."""
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: a relative import"
            base = node.module or ""
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield inner if module_at(inner) is not None else base


def module_at(name: str) -> str | None:
    """Name our module as `modules` does; None where there is none."""
    package, _, inner = name.partition(".")
    there = [one for one in (inner, f"{inner}.*") if one in modules()]
    return there[0] if package == "watch_inference" and there else None


def ours(module: str) -> set[str]:
    return {found for name in imports(module) if (found := module_at(name)) is not None}


def others(module: str) -> set[str]:
    return {name.partition(".")[0] for name in imports(module)} - {"watch_inference"}


def test_there_are_modules_to_look_at() -> None:
    assert {"model", "cli", "views.plain", "probes.process"} <= set(modules())


def test_a_module_imports_of_ours_only_what_its_room_may() -> None:
    wrong = [
        f"{module} ({room(module)}) imports {name} ({room(name)})"
        for module in modules()
        for name in sorted(ours(module))
        if room(name) not in ("values", *OURS[room(module)].split())
    ]
    assert "\n".join(wrong) == ""
    assert [one for module in ("model", "units", "demo") for one in ours(module)] == []


def test_a_module_imports_of_others_only_what_it_may_touch() -> None:
    wrong = [
        f"{module} imports {name}"
        for module in modules()
        for name in sorted(others(module))
        if not fits(name, PURE)
        and not fits(module, OTHERS.get(name, ""))
        and room(module) not in OTHERS.get(name, "").split()
    ]
    assert "\n".join(wrong) == ""


def test_no_module_imports_itself_by_a_detour() -> None:
    TopologicalSorter({module: ours(module) for module in modules()}).prepare()


def test_a_file_has_at_most_300_lines_and_a_function_45() -> None:
    long = []
    for module in modules():
        lines = path_of(module).read_text().count("\n")
        if lines > LONGER.get(module, 300):
            long.append(f"{module}: {lines} lines")
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                if lines > 45:
                    long.append(f"{module}.{node.name}: {lines} lines")
    assert "\n".join(long) == ""


def test_a_module_opens_with_a_sentence() -> None:
    assert [module for module in modules() if not ast.get_docstring(tree(module))] == []


def test_only_the_screen_loads_blessed() -> None:
    names = [f"watch_inference.{name}".removesuffix(".*") for name in modules()]
    names = [name for name in names if not name.endswith((".__main__", ".screen"))]
    code = f"""
import importlib, sys
for name in {names!r}:
    importlib.import_module(name.removesuffix(".__init__"))
print(sorted({{"blessed", "asyncio", "curses", "wcwidth"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_map_in_the_readme_names_every_module_and_no_other() -> None:
    readme = (ROOT / "README.md").read_text()
    section = re.search(r"^## Map\n(.*?)(?=^## |\Z)", readme, re.DOTALL | re.MULTILINE)
    assert section is not None, "the README has no section `## Map`"
    fence = re.search(r"^```\w*\n(.*?)^```", section[1], re.DOTALL | re.MULTILINE)
    assert fence is not None, "the section `## Map` has no fenced map"
    named = re.findall(r"\b(\w+\.py)\b", fence[1])
    there = [path_of(module).name for module in modules()]
    assert sorted(set(named)) == sorted(set(there))
