"""What is installed, built and said of it: metadata, archives, changelog, make, CI."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.worlds import needs
from watch_inference import __version__

ROOT = Path(__file__).parent.parent


def run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=100, check=True)
    return done.stdout


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__


def test_at_run_time_blessed_and_psutil_are_all_that_is_needed() -> None:
    required = distribution("watch_inference").requires or []
    names = {re.split(r"[<>=; ]", one)[0] for one in required if "extra ==" not in one}
    assert names == {"blessed", "psutil", "tomli"}
    assert [one for one in required if one.startswith("tomli")] == [
        'tomli>=2; python_version < "3.11"'
    ]


def test_the_command_and_the_module_say_the_same_version() -> None:
    command = Path(sys.executable).with_name("watch_inference")
    assert run(str(command), "--version") == f"watch_inference {__version__}\n"
    assert run(sys.executable, "-m", "watch_inference", "-V") == f"watch_inference {__version__}\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("source") / "tree"
    unwanted = shutil.ignore_patterns(".*", "*.egg-info", "build", "dist", "__pycache__", "shared")
    shutil.copytree(ROOT, copy, ignore=unwanted)
    run(sys.executable, "-m", "build", "--no-isolation", cwd=copy)
    return copy / "dist"


def test_the_wheel_has_the_package_its_types_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "watch_inference/py.typed" in names
    assert "watch_inference/views/plain.py" in names
    assert {name.split("/")[0] for name in names} == {
        "watch_inference",
        f"watch_inference-{__version__}.dist-info",
    }


def test_the_source_archive_can_be_tested(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"Makefile", "CHANGELOG.md", "LICENSE", "README.md", "tests/worlds.py"} <= names


def test_make_alone_lists_every_target() -> None:
    needs("make")
    listed = re.findall(r"^make (\w+) +\S", run("make"), re.MULTILINE)
    assert " ".join(listed) == "help demo bench install test lint format cover dist clean"


def test_ci_runs_a_program_that_bash_can_read() -> None:
    needs("bash")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert run("bash", "-n", ".ci/run") == ""
