"""The ways in which jobs are really started: functions that start one, and tell the truth of it.

To add a way, add a function: its name is what it is called, `needs` the tools without which it is
left out, `options` what a person would have to say for it.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.stage import PROMPT, Stage, Truth

Start = Callable[[Stage], Truth]


class Way(NamedTuple):
    """One way to start a job."""

    name: str
    start: Start
    needs: tuple[str, ...]
    options: dict[str, Any]


WAYS: list[Way] = []


def way(*needs: str, **options: Any) -> Callable[[Start], Start]:
    """Add a function to the table."""

    def add(start: Start) -> Start:
        WAYS.append(Way(start.__name__, start, needs, options))
        return start

    return add


# ---------------------------------------------------------------------------- shells and wrappers


@way()
def python_alone(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(stage.job(), stage.log)
    return stage.truth()


@way("nohup")
def nohup_in_the_background(stage: Stage) -> Truth:
    stage.datasets()
    stage.shell(f"nohup {stage.line()} > {stage.log} 2>&1 &")
    return stage.truth()


@way("nohup")
def nohup_out(stage: Stage) -> Truth:
    stage.datasets()
    stage.shell(f"nohup {stage.line(root='.')} > nohup.out 2>&1 &", cwd=stage.root)
    return stage.truth(1, 14, stage.root / "nohup.out")


@way("setsid")
def setsid_from_a_shell_that_ends(stage: Stage) -> Truth:
    stage.datasets()
    stage.shell(f"setsid {stage.line()} >> {stage.log} 2>&1 < /dev/null &")
    return stage.truth()


@way()
def a_script_that_starts_it(stage: Stage) -> Truth:
    stage.datasets()
    script = stage.program("run.sh", f"#!/bin/bash\n{stage.line()}\necho done\n")
    stage.run(["bash", str(script)], stage.log)
    return stage.truth()


@way()
def a_script_that_redirects(stage: Stage) -> Truth:
    stage.datasets()
    script = stage.program("run.sh", f"#!/bin/bash\nexec >> {stage.log} 2>&1\n{stage.line()}\n:\n")
    stage.run(["bash", str(script)])
    return stage.truth()


@way("timeout", "nice", "env")
def timeout_nice_and_env(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(["timeout", "600", "nice", "env", "X=1", *stage.job()], stage.log)
    return stage.truth()


@way()
def a_wrapper_named_uv(stage: Stage) -> Truth:
    stage.datasets()
    stage.program("uv", f"#!/bin/bash\nshift\n{stage.line()}\n:\n")
    stage.run(["uv", "run", "generate.py"], stage.log)
    return stage.truth()


@way()
def a_wrapper_named_conda(stage: Stage) -> Truth:
    stage.datasets()
    conda = stage.program("conda", _python_that_runs(stage.job()))
    stage.run(["python3", str(conda), "run", "-n", "env", "python", "generate.py"], stage.log)
    return stage.truth()


@way("make")
def make_starts_it(stage: Stage) -> Truth:
    stage.datasets()
    (stage.folder / "Makefile").write_text(f"all:\n\t{stage.line()}\n\ttrue\n")
    stage.run(["make", "all"], stage.log)
    return stage.truth()


@way()
def a_script_on_standard_input(stage: Stage) -> Truth:
    stage.datasets()
    line = shlex.join(stage.job()[3:])
    stage.shell(
        f"echo 'import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0],"
        f' run_name="__main__")\' | python3 - {line} > {stage.log} 2>&1'
    )
    return stage.truth()


@way()
def a_daemon_that_left_its_shell(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(stage.job("--daemon"), stage.log)
    return stage.truth()


def _python_that_runs(command: list[str]) -> str:
    return f"import subprocess\nsubprocess.run({command!r})\n"


# ------------------------------------------------------------------------------- where stdout goes


@way("tee")
def tee_writes_the_log(stage: Stage) -> Truth:
    stage.datasets()
    stage.shell(f"{stage.line()} 2>&1 | tee {stage.log} > /dev/null")
    return stage.truth()


@way("tee", "cat")
def two_filters_before_tee(stage: Stage) -> Truth:
    stage.datasets()
    stage.shell(f"{stage.line()} 2>&1 | cat -u | tee -a {stage.log} > /dev/null")
    return _after_the_log(stage)


@way("grep")
def grep_writes_the_log(stage: Stage) -> Truth:
    stage.datasets()
    stage.shell(f"{stage.line()} 2>&1 | grep --line-buffered -v DEBUG > {stage.log}")
    return _after_the_log(stage)


@way("tee")
def a_script_into_tee(stage: Stage) -> Truth:
    stage.datasets()
    script = stage.program("run.sh", f"#!/bin/bash\n{stage.line('--mode', 'append')}\n:\n")
    stage.shell(f"bash {script} 2>&1 | tee {stage.log} > /dev/null")
    return stage.truth()


def _after_the_log(stage: Stage) -> Truth:
    stage.wait()
    for _ in range(200):
        if stage.log.exists() and stage.log.stat().st_size:
            break
        time.sleep(0.02)
    return stage.truth()


@way()
def only_stderr_is_a_log(stage: Stage) -> Truth:
    stage.datasets()
    stage.shell(f"{stage.line()} > /dev/null 2> {stage.log}")
    return stage.truth()


@way()
def stdout_and_stderr_apart(stage: Stage) -> Truth:
    stage.datasets()
    stage.shell(f"{stage.line()} > {stage.log} 2> {stage.logs}/errors.err")
    return stage.truth(1, 14, stage.log, stage.logs / "errors.err")


@way()
def a_log_of_its_own(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(stage.job("--log", stage.log))
    return stage.truth()


@way()
def a_log_outside_the_root(stage: Stage) -> Truth:
    stage.datasets()
    log = stage.folder / "elsewhere" / "deep" / "run.txt"
    log.parent.mkdir(parents=True)
    stage.run(stage.job(), log)
    return stage.truth(1, 14, log)


@way()
def a_new_log_beside_the_old(stage: Stage) -> Truth:
    stage.datasets()
    old = stage.logs / "run2.log"
    old.write_text("49/50 (0 err) 0.7 req/s avg_comp=788tok ETA=4.0h\n")
    os.utime(old, (time.time() + 60, time.time() + 60))
    stage.run(stage.job(), stage.log)
    return stage.truth()


@way()
def a_slurm_log_in_the_folder_of_submission(stage: Stage) -> Truth:
    stage.datasets()
    (stage.root / "slurm-122.out").write_text("49/50 (0 err) 0.7 req/s ETA=4.0h\n")
    log = stage.root / "slurm-123.out"
    stage.run(["bash", "-c", f"{stage.line(root='.')}\n:"], log, cwd=stage.root)
    return stage.truth(1, 14, log)


@way("tmux")
def tmux_with_stdout_on_its_terminal(stage: Stage) -> Truth:
    stage.datasets()
    _tmux(stage, stage.line())
    return stage.truth()._replace(logs=())


@way("tmux", "tee")
def tmux_and_tee(stage: Stage) -> Truth:
    stage.datasets()
    _tmux(stage, f"{stage.line()} 2>&1 | tee {stage.log}")
    return stage.truth()


def _tmux(stage: Stage, line: str) -> None:
    socket = str(stage.folder / "tmux")
    command = ["tmux", "-f", "/dev/null", "-S", socket]
    stage.endings.append(
        lambda: subprocess.run([*command, "kill-server"], check=False, capture_output=True)
    )
    subprocess.run([*command, "new-session", "-d", "bash", "-c", f"{line}; true"], check=True)


@way("script")
def a_typescript(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(["script", "-q", "-f", "-c", stage.line(), str(stage.log)])
    return stage.truth()


@way()
def a_log_renamed_while_it_is_written(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(stage.job(), stage.log)
    stage.wait()
    moved = stage.logs / "all.log.1"
    stage.log.rename(moved)
    return stage.truth(1, 14, moved)


# ------------------------------------------------------------------------------- how it is told


@way()
def relative_paths(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(stage.job("--mode", "append", root="synth_100k"), stage.log)
    return stage.truth()


@way()
def named_and_nothing_held(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(stage.job("--mode", "append", "--quiet"))
    return stage.truth()._replace(logs=())


@way()
def named_by_an_option_of_a_relative_path(stage: Stage) -> Truth:
    stage.datasets()
    words = ("--mode", "append", "--quiet", "--pretend=../synth_100k/B1_glaive/prompts.jsonl")
    stage.run(stage.job(*words, root=f"{stage.folder}/./synth_100k"), cwd=stage.logs)
    return stage.truth()._replace(logs=())


@way()
def blanks_and_other_scripts_in_its_path(stage: Stage) -> Truth:
    stage.root = stage.folder / "mein Lauf, größer 漢字"
    stage.logs = stage.root / "logs"
    stage.logs.mkdir(parents=True)
    stage.log = stage.logs / "all of it.log"
    stage.datasets()
    stage.run(stage.job(), stage.log)
    return stage.truth()


@way()
def a_root_that_is_a_link(stage: Stage) -> Truth:
    there = stage.folder / "disk2" / "synth_100k"
    stage.logs.rmdir()
    stage.root.rmdir()
    (there / "logs").mkdir(parents=True)
    stage.root.symlink_to(there)
    stage.datasets()
    stage.run(stage.job(), stage.log)
    return stage.truth()


@way()
def outputs_that_are_links(stage: Stage) -> Truth:
    stage.datasets()
    for name in ("B1_glaive", "B2_chat"):
        there = stage.folder / "disk2" / f"{name}.jsonl"
        there.parent.mkdir(exist_ok=True)
        there.touch()
        (stage.root / name / "tokenized_data.jsonl").symlink_to(there)
    stage.run(stage.job("--quiet"))
    return stage.truth()._replace(logs=())


# --------------------------------------------------------------------------------- its outputs


@way()
def appended_and_closed(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(stage.job("--mode", "append"), stage.log)
    return stage.truth()


@way()
def results_only_at_the_end(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(stage.job("--mode", "end"), stage.log)
    return stage.truth(written=0)


@way()
def tokenised_ones_beside(stage: Stage) -> Truth:
    stage.datasets()
    (stage.root / "A1_done").mkdir()
    (stage.root / "A1_done" / "tokenized_data.jsonl").write_bytes(PROMPT * 5)
    stage.run(stage.job(), stage.log)
    return stage.truth(written=19)._replace(datasets=("A1_done", "B1_glaive", "B2_chat"))


@way()
def an_output_of_another_name(stage: Stage) -> Truth:
    stage.datasets("B2_chat")
    stage.run(stage.job("--datasets", "B2_chat", "--name", "answers.jsonl"), stage.log)
    return stage.truth(written=7)._replace(datasets=("B2_chat",))


@way(outputs=("part-*.jsonl",))
def numbered_parts(stage: Stage) -> Truth:
    stage.datasets()
    for part in ("part-0001.jsonl", "part-0002.jsonl"):
        (stage.root / "B1_glaive" / part).write_bytes(PROMPT * 3)
    stage.run(stage.job("--name", "part-0003.jsonl"), stage.log)
    return stage.truth(written=20)


@way(outputs=("answer_*.json",), counting="files")
def a_file_for_each_request(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(stage.job("--mode", "files", "--name", "answer_%d.json"), stage.log)
    return stage.truth()


@way()
def all_in_one_folder(stage: Stage) -> Truth:
    stage.root = stage.folder / "single"
    stage.datasets("single", at=stage.folder)
    stage.log = stage.root / "run.log"
    line = shlex.join([*stage.job("--datasets", ".", root="."), "--name", "tokenized_data.jsonl"])
    stage.shell(f"{line} > run.log 2>&1", cwd=stage.root)
    return stage.truth(written=7)._replace(datasets=("single",))


@way()
def a_log_and_nothing_else(stage: Stage) -> Truth:
    stage.logs.rmdir()
    stage.root.rmdir()
    stage.root.mkdir()
    stage.log = stage.root / "train.txt"
    stage.run(stage.job("--mode", "end"), stage.log)
    return stage.truth(written=0)._replace(datasets=())


@way()
def an_output_and_a_log_without_datasets(stage: Stage) -> Truth:
    stage.logs.rmdir()
    stage.log = stage.root / "gen.log"
    stage.run(stage.job("--datasets", ".", "--name", "answers.jsonl"), stage.log)
    return stage.truth(written=7)._replace(datasets=("answers",))


@way()
def outputs_of_another_name_and_no_prompts(stage: Stage) -> Truth:
    _results(stage, "qa", "math", "law")
    words = ("--datasets", "qa,math", "--name", "answers.jsonl")
    stage.run(stage.job(*words, root="results"), stage.log, cwd=stage.root)
    return stage.truth()._replace(datasets=("math", "qa"))


@way("nohup")
def its_own_script_in_its_own_folder(stage: Stage) -> Truth:
    _results(stage, "qa", "math", "law")
    (stage.root / "job.py").write_text(Path(stage.job()[3]).read_text())
    words = "results --datasets qa --name answers.jsonl"
    line = f"python3 job.py {words} --stop {stage.stop}"
    stage.shell(f"nohup {line} > run.log 2>&1 &", cwd=stage.root)
    return stage.truth(1, 7, stage.root / "run.log")._replace(datasets=("qa",))


@way(outputs=("part-*.jsonl",), prompts=("questions.txt",), totals=(("out", 5000),))
def prompts_in_the_root_and_parts_below(stage: Stage) -> Truth:
    stage.logs.rmdir()
    (stage.root / "questions.txt").write_bytes(PROMPT * 50)
    stage.log = stage.root / "run.log"
    stage.run(stage.job("--datasets", "out", "--name", "part-0001.jsonl"), stage.log)
    return stage.truth(1, 7)._replace(datasets=("out",))


def _results(stage: Stage, *names: str) -> None:
    for name in names:
        folder = stage.root / "results" / name
        folder.mkdir(parents=True)
        (folder / "questions.jsonl").write_bytes(PROMPT * 50)


# ------------------------------------------------------------------------------ shards and ranks


@way()
def eight_ranks_with_eight_logs(stage: Stage) -> Truth:
    stage.datasets()
    logs = [stage.logs / f"rank{rank}.log" for rank in range(8)]
    for rank, log in enumerate(logs):
        stage.run(stage.job("--name", f"tokenized_data_rank{rank}.jsonl"), log)
    return stage.truth(8, 8 * 14, *logs)


@way()
def ranks_that_share_a_log(stage: Stage) -> Truth:
    stage.datasets()
    lines = [stage.line("--name", f"tokenized_data_rank{rank}.jsonl") for rank in range(3)]
    stage.shell(f"( {' & '.join(lines)} & wait ) > {stage.log} 2>&1")
    return stage.truth(3, 3 * 14)


@way()
def a_folder_for_each_rank_in_a_dataset(stage: Stage) -> Truth:
    stage.datasets()
    logs = [stage.logs / f"rank{rank}.log" for rank in range(3)]
    for rank, log in enumerate(logs):
        stage.run(stage.job("--name", f"rank_{rank}/tokenized_data.jsonl"), log)
    return stage.truth(3, 3 * 14, *logs)


@way()
def a_folder_for_each_rank_above_the_datasets(stage: Stage) -> Truth:
    logs = [stage.logs / f"rank{rank}.log" for rank in range(3)]
    for rank, log in enumerate(logs):
        share = stage.root / f"rank{rank}"
        stage.datasets(at=share, prompts=20)
        stage.run(stage.job(root=share), log)
    return stage.truth(3, 3 * 14, *logs)


@way()
def a_launcher_named_torchrun(stage: Stage) -> Truth:
    stage.datasets()
    jobs = [stage.job("--name", f"tokenized_data_rank{rank}.jsonl") for rank in range(4)]
    text = f"import subprocess\nfor p in [subprocess.Popen(c) for c in {jobs!r}]: p.wait()\n"
    torchrun = stage.program("torchrun", text)
    words = ["--nproc-per-node", "4", "generate.py", str(stage.root)]
    stage.run(["python3", str(torchrun), *words], stage.log)
    return stage.truth(4, 4 * 14)


@way("xargs", "seq")
def xargs_starts_the_shards(stage: Stage) -> Truth:
    stage.datasets()
    line = stage.line("--name", "tokenized_data_{}.jsonl")
    stage.shell(f"seq 0 2 | xargs -P 3 -I{{}} {line} > {stage.log} 2>&1")
    return stage.truth(3, 3 * 14)


@way()
def a_process_for_each_dataset(stage: Stage) -> Truth:
    stage.datasets()
    logs = [stage.logs / f"{name}.log" for name in ("B1_glaive", "B2_chat")]
    for log in logs:
        stage.run(stage.job("--datasets", log.stem), log)
    return stage.truth(2, 14, *logs)


@way()
def forked_workers_that_inherit_the_log(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(stage.job("--children", "3"), stage.log)
    return stage.truth()


@way()
def its_main_thread_has_ended(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(stage.job("--thread"), stage.log)
    return stage.truth()


@way()
def the_server_logs_into_the_same_folder(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(
        [
            "bash",
            "-c",
            f"exec -a 'sglang::scheduler' python3 -c 'input()' < <(sleep 60) # {stage.root}",
        ],
        stage.logs / "server.log",
    )
    stage.run(stage.job(), stage.log)
    return stage.truth()


# --------------------------------------------------------------------------- users and namespaces


@way("setpriv")
def another_user(stage: Stage) -> Truth:
    stage.datasets()
    subprocess.run(["chmod", "-R", "a+rwX", str(stage.folder)], check=True)
    for folder in (stage.folder, *stage.folder.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o755)
    drop = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    stage.run([*drop, *_readable(stage)], stage.log)
    return stage.truth()


def _readable(stage: Stage) -> list[str]:
    """Let a user that may not read our folders run the job: it is handed over as text."""
    text = Path(stage.job()[3]).read_text()
    return ["/usr/bin/python3", "-I", "-S", "-c", text, *stage.job()[4:]]


@way("unshare")
def a_pid_namespace_of_its_own(stage: Stage) -> Truth:
    stage.datasets()
    stage.run(["unshare", "-p", "-f", *stage.job()], stage.log)
    return stage.truth()


@way("unshare", "mount")
def a_container_with_a_volume(stage: Stage) -> Truth:
    stage.datasets()
    data = stage.folder / "data"
    data.mkdir()
    inside = stage.line(root=data)
    script = f"mount --bind {stage.root} {data} && exec {inside} > {data}/logs/all.log 2>&1"
    stage.run(["unshare", "-m", "-p", "-f", "bash", "-c", script])
    return stage.truth()


@way("unshare", "mount")
def a_container_with_a_volume_and_its_words_alone(stage: Stage) -> Truth:
    stage.datasets()
    data = stage.folder / "data"
    data.mkdir()
    inside = stage.line("--mode", "append", "--quiet", root=data)
    stage.run(["unshare", "-m", "bash", "-c", f"mount --bind {stage.root} {data} && exec {inside}"])
    return stage.truth()._replace(logs=())


@way("unshare", "mount")
def a_container_with_files_of_its_own(stage: Stage) -> Truth:
    disk = stage.folder / "disk"
    disk.mkdir()
    inside = disk / "synth_100k"
    make = "".join(
        f"mkdir -p {inside}/{name}; seq 50 > {inside}/{name}/prompts.jsonl; "
        for name in ("B1_glaive", "B2_chat")
    )
    line = stage.line(root=inside)
    script = f"mount -t tmpfs none {disk}; {make} exec {line} > {inside}/all.log 2>&1"
    stage.run(["unshare", "-m", "bash", "-c", script])
    (pid,) = stage.wait()
    root = Path(f"/proc/{pid}/root{inside}")
    return Truth(root, (pid,), (root / "all.log",), 14)


@way()
def ranks_with_logs_and_nothing_else(stage: Stage) -> Truth:
    stage.logs.rmdir()
    logs = [stage.root / f"rank{rank}.log" for rank in range(3)]
    for rank, log in enumerate(logs):
        stage.run(stage.job("--mode", "end", f"--pretend={rank}"), log)
    return stage.truth(3, 0, *logs)._replace(datasets=(), bound=False)
