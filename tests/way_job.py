"""A small batch job for tests: works through its share of a root as told, then waits for its end.

It tells that it is ready by a file named after its pid, and ends when `--stop` exists, or by
itself after a minute: no test can leave it behind.
"""

import argparse
import os
import sys
import threading
import time
from contextlib import suppress


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("root")
    parser.add_argument("--stop", required=True)
    parser.add_argument("--datasets", default="B1_glaive,B2_chat")
    parser.add_argument("--lines", type=int, default=7)
    parser.add_argument("--name", default="tokenized_data.jsonl")
    parser.add_argument("--mode", default="hold", choices=["hold", "append", "files", "end"])
    parser.add_argument("--log", help="open this log for appending, and leave stdout alone")
    parser.add_argument("--quiet", action="store_true")
    parser.add_argument("--children", type=int, default=0, help="forked workers that do nothing")
    parser.add_argument("--daemon", action="store_true")
    parser.add_argument("--thread", action="store_true", help="go on in a thread alone")
    parser.add_argument("--pretend", default="", help="words that only the command line has")
    return parser.parse_args()


def write(told: argparse.Namespace) -> list:
    kept = []
    for name in told.datasets.split(","):
        folder = os.path.join(told.root, name)
        if told.mode == "files":
            for number in range(told.lines):
                with open(os.path.join(folder, told.name % number), "w") as file:
                    file.write("{}")
        elif told.mode != "end":
            os.makedirs(os.path.dirname(os.path.join(folder, told.name)), exist_ok=True)
            output = open(os.path.join(folder, told.name), "a")  # noqa: SIM115
            output.write("{}\n" * told.lines)
            output.flush()
            kept.append(output)
            if told.mode == "append":
                output.close()
    return kept


def progress(told: argparse.Namespace) -> list:
    text = f"{told.lines}/50 (0 err) 0.7 req/s avg_comp=788tok ETA=4.0h\n"
    if told.log:
        log = open(told.log, "a")  # noqa: SIM115
        log.write(text)
        log.flush()
        return [log]
    if not told.quiet:
        sys.stdout.write(text)
        sys.stdout.flush()
    return []


def wait(told: argparse.Namespace) -> None:
    with open(os.path.join(os.path.dirname(told.stop), f"ready.{os.getpid()}"), "w") as file:
        file.write(os.readlink("/proc/self"))
    for _ in range(1200):
        if os.path.exists(told.stop):
            os._exit(0)
        time.sleep(0.05)
    os._exit(1)


def main() -> None:
    told = options()
    if told.daemon and (os.fork() or os.setsid() or os.fork()):
        os._exit(0)
    kept = [write(told), progress(told)]
    parent = os.getpid()
    for _ in range(told.children):
        if os.fork() == 0:
            idle(told, parent, kept)
    if told.thread:
        threading.Thread(target=wait, args=(told,)).start()
        end_main_thread()
    wait(told)


def idle(told: argparse.Namespace, parent: int, kept: list) -> None:
    while os.getppid() == parent and not os.path.exists(told.stop) and kept:
        time.sleep(0.05)
    os._exit(0)


def end_main_thread() -> None:
    import ctypes

    with suppress(AttributeError):
        ctypes.CDLL(None).pthread_exit(None)


if __name__ == "__main__":
    main()
