"""A process in, the kind of program that it is out: launcher, filter, server or bystander; pure.

To teach it a program, add its name to one of the tables.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache

from watch_inference.finding.proctable import Process


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# These read, edit or copy files; they are never a job, whatever they name or hold.
_BYSTANDERS = _names("""
    tail multitail head less more most bat cat zcat column nl od xxd hexdump wc sort uniq cut jq
    grep egrep fgrep zgrep rg ag ack awk gawk mawk sed perl find fd ls du df stat
    vi vim vim.basic vim.tiny vim.nox nvim view nano pico emacs emacs-nox emacsclient micro hx ed
    code lnav journalctl dmesg watch top htop btop lsof fuser inotifywait strace ltrace gdb
    sshd sshd-session scp sftp sftp-server rsync rclone cp mv dd tar gzip pigz zstd xz git
    md5sum sha256sum nvidia-smi login cron crond rsyslogd systemd systemd-journal
    tmux tmux:_server tmux:_client screen SCREEN
    curl wget aria2c pip pip3 apt apt-get dpkg pytest mypy ruff pylint flake8 black tensorboard
    jupyter jupyter-lab jupyter-notebook ipykernel_launcher http.server pylsp pyright code-server
""")
# These pass a job's output on: the job is at the other end of their standard input.
_FILTERS = _names("""
    tee ts cat sed awk gawk mawk grep egrep rg perl rotatelogs cronolog multilog svlogd s6-log
    logger unbuffer
""")
# These start a job and wait for it, or for something else.
_LAUNCHERS = _names("""
    sh bash dash zsh ksh mksh fish ash busybox tcsh csh sleep
    torchrun accelerate deepspeed srun mpirun mpiexec orterun uv uvx conda mamba micromamba poetry
    pipenv hatch pixi nohup setsid timeout env nice ionice chrt taskset numactl time stdbuf
    unbuffer script sudo su doas runuser setpriv parallel xargs make flock systemd-run unshare
    nsenter docker podman apptainer singularity chroot gosu tini dumb-init catatonit supervisord
    s6-svscan runsv pueued slurmstepd bwrap firejail expect ssh kubectl oc
    dockerd containerd containerd-shim containerd-shim-runc-v2 conmon kubelet
    torch.distributed.run torch.distributed.launch accelerate.commands.launch
    accelerate.commands.accelerate_cli deepspeed.launcher.runner deepspeed.launcher.launch
""")
_SERVERS = re.compile(
    r"sglang\.launch_server|sglang(?:::|_router|-router| serve)|VLLM::|\bvllm serve"
    r"|vllm\.entrypoints\.(?:openai|api_server|cli)|llama-server|llama_cpp\.server|\bollama\b"
    r"|text-generation-(?:launcher|server|router)|tritonserver|lmdeploy serve|trtllm-serve"
    r"|\braylet\b|gcs_server|mlc_llm serve|aphrodite"
)
_WORDS = 4  # a server is named by its first words


def program(process: Process) -> str:
    """Name the program of a process, without its folder and a login shell's dash."""
    return _program(process.command, process.name)


@lru_cache(maxsize=4096)
def _program(command: tuple[str, ...], name: str) -> str:
    word = command[0] if command else name
    return os.path.basename(word.split(" ")[0].rstrip(":")).lstrip("-")


def _named(process: Process) -> frozenset[str]:
    return _names_of(process.command, process.name)


@lru_cache(maxsize=4096)
def _names_of(command: tuple[str, ...], name: str) -> frozenset[str]:
    """Name a process as often as can be: the first word may be anything, the kernel's is cut."""
    run = _program(command, name)
    return frozenset((run, name.replace(" ", "_"), _script(command) if run[:6] == "python" else ""))


def _script(command: tuple[str, ...]) -> str:
    """Name the script or module that Python runs."""
    words = list(command[1:])
    while words and words[0].startswith("-") and words[0] != "-m":
        del words[: 2 if words[0] in ("-X", "-W") else 1]
    script = words[1:2] if words[:1] == ["-m"] else words[:1]
    return os.path.basename(script[0]) if script else ""


def is_bystander(process: Process) -> bool:
    """Tell whether a process only reads, edits, copies or watches files."""
    passes_on = is_filter(process) and _fed_by_pipe(process)
    return is_monitor(process) or (bool(_named(process) & _BYSTANDERS) and not passes_on)


def _fed_by_pipe(process: Process) -> bool:
    return any(f.number == 0 and f.path.startswith("pipe:") for f in process.files or ())


def is_monitor(process: Process) -> bool:
    """Tell whether a process is a monitor like this one."""
    # Only the program may be it: a folder of this name in a job's command line is none.
    return "watch_inference" in _named(process)


def shape(process: Process) -> str:
    """Write a command line without its numbers: the same for all ranks of a job."""
    return re.sub(r"[0-9]+", "", " ".join(process.command))


def is_filter(process: Process) -> bool:
    """Tell whether a process passes its standard input on, as tee does."""
    return program(process) in _FILTERS


def is_launcher(process: Process) -> bool:
    """Tell whether a process is of the kind that starts a job and waits for it."""
    return bool(_named(process) & _LAUNCHERS)


def is_server(process: Process) -> bool:
    """Tell whether a process is an inference server, which is watched in another way."""
    return _is_server(process.name, process.command[:_WORDS])


@lru_cache(maxsize=4096)
def _is_server(name: str, words: tuple[str, ...]) -> bool:
    return _SERVERS.search(" ".join((name, *words))) is not None
