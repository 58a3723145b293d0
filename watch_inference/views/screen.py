"""Reports come in, a live screen goes out: keys, signals and the terminal in one loop."""

from __future__ import annotations

import os
import select
import signal
import time
import warnings
from collections.abc import Sequence
from types import TracebackType

from watch_inference.model import Report
from watch_inference.views.canvas import Canvas
from watch_inference.views.keys import ANSWER, Keyboard
from watch_inference.views.looks import Looks
from watch_inference.views.out import ReaderGone
from watch_inference.views.terminal import Terminal, in_foreground, size
from watch_inference.views.viewer import Viewer
from watch_inference.views.wakeup import Wakeup

_SETTLE_S = 0.05  # a window that is being dragged is not drawn at each step
_AWAY_S = 0.5  # in the background: how often to look whether the terminal is ours again

# Families whose keys `keys` knows by heart; only for others is blessed asked, because it costs
# as much memory and start-up time as all the rest.
_FAMILIAR = (
    "xterm screen tmux linux vt rxvt konsole gnome putty kitty alacritty foot st- wezterm ghostty"
    " contour mintty cygwin ansi eterm mlterm iterm nsterm dtterm"
).split()
_CAPABILITIES = {
    "kcuu1": "up",
    "kcud1": "down",
    "khome": "home",
    "kend": "end",
    "kpp": "page_up",
    "knp": "page_down",
}


class Quit(Exception):
    """A person pressed q."""


class Screen:
    """The live screen: `show` the newest reports, then `wait` for the next, inside a `with`.

    Raises Quit for the key, ReaderGone for a terminal that has hung up. What signal handlers
    raise passes through; whatever ends it, the terminal is as it was within half a second.
    """

    def __init__(self, looks: Looks, interval: float = 2.0, fd: int = 1, stdin: int = 0) -> None:
        self._looks = looks
        self._interval = interval
        self._viewer = Viewer(interval)
        self._terminal = Terminal(fd, stdin)
        self._canvas = Canvas(self._terminal, looks)
        self._keyboard: Keyboard | None = None
        self._typed_at = 0.0
        self._wakeup = Wakeup((signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP))

    def __enter__(self) -> Screen:
        """Hear signals from now on; the terminal is taken with the first report."""
        self._wakeup.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give the terminal back, and leave the first sentence in the scroll-back."""
        self._canvas.leave(self._viewer.farewell())
        self._wakeup.close()

    def show(self, reports: Sequence[Report]) -> None:
        """Take the newest reports, and draw them as soon as the terminal is ready."""
        self._viewer.show(reports)
        self._canvas.stale = True
        self._draw(time.monotonic())
        if self._keyboard is None:  # after the first frame, because blessed is slow to load
            self._keyboard = Keyboard(unfamiliar_keys(os.environ.get("TERM", "")))

    def wait(self, seconds: float) -> bool:
        """Answer keys, resizes and the terminal for so long, scaled by the keys + and -; True."""
        start = now = time.monotonic()
        while now < start + seconds * self._viewer.page.interval / self._interval:
            self._draw(now)
            until = start + seconds * self._viewer.page.interval / self._interval
            self._hear(self._sleep(now, until))
            now = time.monotonic()
        return True

    def _draw(self, now: float) -> None:
        terminal, canvas = self._terminal, self._canvas
        if not terminal.entered and in_foreground(terminal.fd):
            terminal.enter()
        if not terminal.entered or canvas.due_at(now, self._viewer.page.interval) > now:
            return
        width, height = size(terminal.fd)
        lines = self._viewer.lines(width, height, self._looks)
        if lines is not None:
            canvas.draw(lines, width, height, now)

    def _sleep(self, now: float, until: float) -> set[int]:
        """Sleep until something is due or happens; return the descriptors that woke us."""
        if not self._terminal.entered:
            until = min(until, now + _AWAY_S)
        patience = None if self._keyboard is None else self._keyboard.patience_s
        if patience is not None:
            until = min(until, self._typed_at + patience + 0.001)
        until = min(until, self._canvas.due_at(now, self._viewer.page.interval))
        return _poll(self._terminal, self._wakeup.fd, max(0.0, until - now))

    def _hear(self, happened: set[int]) -> None:
        """See to what has happened: signals, room for what is still to be sent, keys, answers."""
        now = time.monotonic()
        if self._wakeup.fd in happened:
            self._signalled(self._wakeup.read(), now)
        if self._terminal.fd in happened:
            self._terminal.write()
        if self._keyboard is None:
            return
        if self._terminal.input in happened:
            self._typed_at = now
            keys = self._keyboard.feed(self._terminal.read())
        else:
            keys = self._keyboard.idle(now - self._typed_at)
        for key in keys:
            if key == ANSWER:
                self._canvas.pace.answered(now)
            elif self._terminal.keyboard is not None:
                self._press(key, now)

    def _press(self, key: str, now: float) -> None:
        if key == "q":
            raise Quit
        if key == "redraw":
            self._canvas.spoil()
        self._viewer.press(key)
        self._canvas.press(now)

    def _signalled(self, numbers: bytes, now: float) -> None:
        if signal.SIGTSTP in numbers:
            self._canvas.leave("")
            self._wakeup.stop()
            self._canvas = Canvas(self._terminal, self._looks)
        elif signal.SIGCONT in numbers and self._terminal.entered:
            # Stopped by other means: the shell may have changed modes and screen meanwhile.
            self._terminal.abandon()
            self._canvas = Canvas(self._terminal, self._looks)
        if signal.SIGWINCH in numbers:
            self._canvas.spoil(now + _SETTLE_S)


def unfamiliar_keys(term: str) -> dict[bytes, str]:
    """Ask blessed for the keys of a terminal that is not of a known family; nothing is sent."""
    if term.startswith(tuple(_FAMILIAR)):
        return {}
    import blessed  # late: 110 ms and 13 MB

    with open(os.devnull, "w") as nowhere, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an unknown TERM is no reason to write to a terminal
        known = blessed.Terminal(kind=term, stream=nowhere, force_styling=True)
        told = {str(getattr(known, name)): key for name, key in _CAPABILITIES.items()}
    return {sent.encode("latin-1", "replace"): key for sent, key in told.items() if len(sent) > 1}


def _poll(terminal: Terminal, wakeup: int, seconds: float) -> set[int]:
    poll = select.poll()
    poll.register(wakeup, select.POLLIN)
    poll.register(terminal.fd, select.POLLOUT if terminal.rest else 0)
    if terminal.input is not None and terminal.entered:
        poll.register(terminal.input, select.POLLIN)
    events = dict(poll.poll(min(seconds, 3600.0) * 1000))
    if events.get(terminal.fd, 0) & (select.POLLHUP | select.POLLERR):
        raise ReaderGone
    return set(events)
