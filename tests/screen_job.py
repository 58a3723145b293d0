"""A command for tests: the live screen of a made-up job that makes `rate` rows a second.

`python -m tests.screen_job [rate] [interval] [jobs] [trouble]`
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import FrameType
from typing import NoReturn

from tests.made import LOG, NOW, report, stalled
from watch_inference.model import Report
from watch_inference.views.looks import choose
from watch_inference.views.out import ReaderGone
from watch_inference.views.screen import Quit, Screen

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Signalled(BaseException):
    """A signal asked us to end."""


def ended(number: int, frame: FrameType | None) -> None:
    for one in ENDINGS:
        signal.signal(one, heard)
    raise Signalled(number)


def heard(number: int, frame: FrameType | None) -> None:
    """One is enough; and to ignore one that is already here is a race that Python complains of."""


def at(seconds: float, rate: float) -> Report:
    """Make the report so many seconds after the start."""
    more = int(seconds * rate)
    age = seconds % 120 if rate else seconds + 120
    return report(
        more,
        at=1000.0 + seconds,
        wall=NOW + seconds,
        log=LOG._replace(age_s=age),
        output_age_s=0.3 if rate else seconds,
        log_tail=(*(f"batch {number}" for number in range(90)), "ValueError: seven"),
        error_tail=("before", "ValueError: seven", "after"),
    )


def run(rate: float, interval: float, jobs: int, trouble: str) -> int:
    """Show the job until somebody ends it, and return the exit status."""
    began = time.monotonic()
    looks = choose(os.environ, "auto", False, True, True)
    for one in ENDINGS:
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, ended)
    try:
        with Screen(looks, interval) as screen:
            while True:
                seconds = time.monotonic() - began
                if trouble and seconds > 1:
                    raise ValueError(trouble)
                others = [stalled(name=f"other{number}") for number in range(1, jobs)]
                screen.show([at(seconds, rate), *others])
                screen.wait(interval)
    except (Quit, ReaderGone):
        return 0
    except Signalled as error:
        return 128 + int(error.args[0])
    except ValueError as error:
        os.write(2, f"watch_inference: {error}\n".encode())
        return 70


def main(words: list[str]) -> NoReturn:
    given = dict(enumerate(words))
    rate, interval = float(given.get(0, "7")), float(given.get(1, "0.5"))
    os._exit(run(rate, interval, int(given.get(2, "1")), given.get(3, "")))


if __name__ == "__main__":
    main(sys.argv[1:])
