"""When a process table may be believed: mounts, namespaces, users."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds import needs
from watch_inference.finding import mounts, proctable
from watch_inference.finding.mounts import Mount
from watch_inference.finding.proctable import Process
from watch_inference.finding.visibility import World, view, world

FIRST = "pid:[4026531836]"
OTHER = "pid:[4026532999]"
LOCAL = Mount("8:1", "/", "/", "ext4")
ME = os.geteuid()


def at(place: tuple[Mount, ...] = (LOCAL,), **changes: object) -> World:
    here = World(place, True, FIRST, 0.0, all_seeing=True, user=ME)
    return here._replace(**changes)  # type: ignore[arg-type]


def process(pid: int, parent: int = 1, owner: int = ME, closed: bool = False) -> Process:
    return Process(pid, parent, 0, "x", "S", 1, owner, ("x",), None if closed else (), f"/p/{pid}")


TABLE = (process(1, 0), process(50), process(60), process(61, 60))
MONITOR = 61


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "all.log"
    path.write_text("1\n")
    return str(path)


def test_the_first_namespace_on_a_local_disk_shows_all(file: str) -> None:
    assert view([file], at(), TABLE, MONITOR) == (True, "")


def test_a_process_table_of_another_namespace_shows_nothing(file: str) -> None:
    found = view([file], at(genuine=False), TABLE, MONITOR)
    assert found == (False, "/proc shows another PID namespace")


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "lustre", "fuse.sshfs", "9p", "ceph", "beegfs"])
def test_files_of_the_network_may_be_written_from_another_node(file: str, kind: str) -> None:
    shared = Mount("0:99", "/", os.path.dirname(file), kind)
    found = view([file], at((LOCAL, shared)), TABLE, MONITOR)
    assert found == (False, f"files on {kind}: the job may run on another node")


def test_an_output_that_is_not_there_yet_lies_where_its_folder_does(file: str) -> None:
    shared = Mount("0:99", "/", os.path.dirname(file), "nfs")
    later = os.path.join(os.path.dirname(file), "B1", "tokenized_data.jsonl")
    assert not view([later], at((LOCAL, shared)), TABLE, MONITOR).complete


def test_another_user_is_not_looked_into(file: str) -> None:
    name = pwd.getpwuid(ME).pw_name
    found = view([file], at(all_seeing=False, user=ME + 1), TABLE, MONITOR)
    assert found == (False, f"processes of user {name} cannot be looked into")


def test_a_closed_process_of_the_same_user_may_be_the_one(file: str) -> None:
    table = (*TABLE, process(70, closed=True))
    assert not view([file], at(), table, MONITOR).complete
    strangers = (*TABLE, process(70, owner=ME + 1, closed=True))
    assert view([file], at(), strangers, MONITOR).complete


def test_a_namespace_older_than_the_files_with_others_in_it_shows_all(file: str) -> None:
    assert view([file], at(namespace=OTHER, namespace_since=1000.0), TABLE, MONITOR).complete


@pytest.mark.parametrize(
    ("why", "here", "table"),
    [
        ("younger than the files", at(namespace=OTHER, namespace_since=4e12), TABLE),
        ("of unknown age", at(namespace=OTHER, namespace_since=None), TABLE),
        ("nobody else in it", at(namespace=OTHER, namespace_since=1.0), (TABLE[0], *TABLE[2:])),
        (
            "a volume from outside",
            at((Mount("8:1", "/volumes/a", "/", "ext4"),), namespace=OTHER, namespace_since=1.0),
            TABLE,
        ),
    ],
)
def test_a_namespace_that_may_not_hold_the_job_does_not_show_all(
    file: str, why: str, here: World, table: tuple[Process, ...]
) -> None:
    assert view([file], here, table, MONITOR) == (
        False,
        "another PID namespace may hold the job",
    ), why


def test_the_world_that_this_test_runs_in_can_be_read() -> None:
    here = world()
    assert here.genuine
    assert here.namespace == os.readlink("/proc/self/ns/pid")
    assert mounts.mount_of("/proc/self", here.mounts) == Mount(
        *[part for part in here.mounts if part.point == "/proc"][-1]
    )


def test_a_mount_with_a_blank_in_its_name_is_read(tmp_path: Path) -> None:
    line = r"36 35 98:0 /mnt\0401 /mnt/two\040words rw,noatime master:1 - ext3 /dev/root rw"
    (tmp_path / "mountinfo").write_text(f"{line}\nbroken\n")
    assert mounts.mounts(str(tmp_path)) == (Mount("98:0", "/mnt 1", "/mnt/two words", "ext3"),)


def test_the_deepest_and_last_mount_holds_a_path() -> None:
    table = (LOCAL, Mount("1:1", "/", "/data", "nfs"), Mount("1:2", "/", "/data", "xfs"))
    found = [mounts.mount_of(path, table) for path in ("/data/a", "/database", "/")]
    assert found == [table[2], LOCAL, LOCAL]


def test_a_file_in_a_container_is_reached_by_our_own_name_for_it(tmp_path: Path) -> None:
    needs("unshare", "mount")
    if ME != 0:
        pytest.skip("takes root")
    volume, inside = tmp_path / "volume", tmp_path / "inside"
    volume.mkdir()
    inside.mkdir()
    (volume / "a.txt").touch()
    script = f"mount --bind {volume} {inside} && mount -t tmpfs none /mnt && touch /mnt/b && "
    wait = "import sys; print('ready', flush=True); sys.stdin.read()"
    command = ["unshare", "-m", "sh", "-c", script + f'exec {sys.executable} -S -c "{wait}"']
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == b"ready\n"
        base = f"/proc/{job.pid}"
        assert mounts.here(base, f"{inside}/a.txt") == f"{volume}/a.txt"
        assert mounts.here(base, "/usr") == "/usr"
        assert mounts.here(base, "/mnt/b") == f"{base}/root/mnt/b"
        assert mounts.here(base, "/mnt/none") == "/mnt/none"
        job.communicate()


def test_a_process_that_is_not_there_is_none() -> None:
    assert proctable.process(2**22 + 1) is None
    assert proctable.open_files("/proc/0") is None


def test_a_name_with_brackets_and_blanks_does_not_shift_the_fields(tmp_path: Path) -> None:
    fields = "S 1 7 7 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 3 0 12345 0 0"
    folder = tmp_path / "7"
    (folder / "fd").mkdir(parents=True)
    (folder / "stat").write_text(f"7 (a) S 9 (b) {fields}\n")
    (folder / "cmdline").write_bytes(b"python\0\0--x=\xff\0")
    found = proctable.process(7, str(tmp_path))
    assert found is not None
    assert (found.name, found.parent, found.threads, found.started) == ("a) S 9 (b", 1, 3, 12345)
    assert found.command == ("python", "", "--x=\udcff")
