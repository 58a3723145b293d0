"""The live screen through a real sshd on loopback: drawn, left, and not left behind."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.live import Live
from tests.worlds import needs

ROOT = Path(__file__).parent.parent
REMOTE = f"cd {shlex.quote(str(ROOT))} && TZ=UTC LC_ALL=C.UTF-8 exec {shlex.quote(sys.executable)}"
SSHD_FOLDER = Path("/run/sshd")


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """An ssh command that leads to a server of our own."""
    needs("sshd", "ssh", "ssh-keygen")
    lab = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(lab / name)]
        subprocess.run(make, check=True, timeout=30)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (lab / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {lab}/host\nStrictModes no\nUsePAM no\n"
        f"AuthorizedKeysFile {lab}/user.pub\nPidFile none\nPermitRootLogin yes\n"
    )
    made = os.geteuid() == 0 and not SSHD_FOLDER.exists()
    if made:
        SSHD_FOLDER.mkdir()
    path = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin") or ""
    with (lab / "log").open("wb") as log:
        server = subprocess.Popen([path, "-D", "-e", "-f", str(lab / "config")], stderr=log)
    _wait_for(port)
    options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR")
    said = [word for option in options for word in ("-o", option)]
    yield ["ssh", "-p", str(port), "-i", str(lab / "user"), *said, "127.0.0.1"]
    server.terminate()
    server.wait(10)
    if made:
        SSHD_FOLDER.rmdir()


def _wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.skip("no sshd could be started here")


def survivors(mark: str) -> list[int]:
    """The processes on this machine whose command line has that mark."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if mark in (process.info["cmdline"] or []):
            found.append(process.pid)
    return found


def test_through_ssh_it_is_drawn_and_q_ends_it(ssh: list[str]) -> None:
    with Live([*ssh, "-tt", f"{REMOTE} -m tests.screen_job 7 0.2"]) as live:
        live.sees("q quit", 30)
        live.type(b"q")
        assert live.ends() == 0
        assert b"0n" not in live.output.rpartition(b"\x1b[?1049l")[2]
        assert "synth_100k running 37.5 %" in live.output.rpartition(b"\x1b[K")[2].decode()


def test_when_the_client_is_killed_nothing_is_left_on_the_host(ssh: list[str]) -> None:
    mark = f"7.0000{os.getpid()}"
    with Live([*ssh, "-tt", f"{REMOTE} -m tests.screen_job {mark} 0.2"]) as live:
        live.sees("q quit", 30)
        assert len(survivors(mark)) >= 1
        live.child.send_signal(signal.SIGKILL)
        end = time.monotonic() + 10
        while survivors(mark) and time.monotonic() < end:
            time.sleep(0.1)
    assert survivors(mark) == []
