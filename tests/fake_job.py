"""The child behind `worlds.FakeJob`: does what it is told over stdin, and nothing by itself.

Orders are pickled tuples; each is answered with one byte on the descriptor named in argv[1].
It ends when its stdin does, so no test can leave it behind.
"""

import os
import pickle
import sys


def main() -> None:
    answer = int(sys.argv[1])
    files = {}
    while True:
        try:
            order, *rest = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        if order == "say":
            os.write(1, rest[0])
        elif order == "write":
            path, text = rest
            if path not in files:
                files[path] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.write(files[path], text)
        elif order == "end":
            sys.exit(rest[0])
        os.write(answer, b".")


if __name__ == "__main__":
    main()
