"""The command: signals are caught before anything else is loaded, then `cli` takes over."""

import os
import signal


def main() -> None:
    """Run watch_inference."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            # Loading takes a moment in which an interrupt must not print a traceback.
            signal.signal(number, lambda which, _: os._exit(128 + which))
    from watch_inference import cli

    cli.main()


if __name__ == "__main__":
    main()
