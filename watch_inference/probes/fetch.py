"""A server's URL and a path in, its page or why there is none out; one GET, one connection.

No proxy, no redirect, no name or password in a message, and one deadline over it all: a server
that drips bytes is cut off. Only the resolver's own time cannot be bounded from here.
"""

from __future__ import annotations

import io
import socket
import time
from base64 import b64encode
from typing import Any, NamedTuple, cast
from urllib.parse import SplitResult, unquote

from watch_inference.finding.mounts import starved
from watch_inference.probes.addresses import split
from watch_inference.units import clean, cut

MOST = 2 << 20  # bytes of a page that are read
_BROKEN = "broken answer"


class Page(NamedTuple):
    """What a server answered; `cut`: the body is longer than what was read of it."""

    status: int
    body: bytes
    cut: bool
    latency_s: float
    peer: str = ""  # the address that answered


class Fault(NamedTuple):
    """Why there is no page. `ours`: it tells nothing of the server."""

    reason: str
    refused: bool = False
    ours: bool = False


def fetch(url: str, path: str, within_s: float) -> Page | Fault:
    """Get one page of a server, in so many seconds at most."""
    from http.client import HTTPException  # late: only who has a server needs it

    parts, host, port = split(url)
    began = time.monotonic()
    deadline = began + within_s
    try:
        with _connected(parts.scheme, host, port, deadline) as connection:
            connection.sendall(_request(parts, path))
            return _page(connection, began, deadline)
    except ConnectionRefusedError:
        return Fault("connection refused", refused=True)
    except (socket.gaierror, UnicodeError):
        return Fault(f"cannot resolve {cut(clean(host), 60)}")
    except TimeoutError:
        return Fault(f"no answer in {within_s:g} s")
    except (HTTPException, ConnectionError, ValueError) as error:
        return Fault(f"{_BROKEN} ({_why(error)})")
    except OSError as error:
        return Fault(_why(error), ours=starved(error))


def _connected(scheme: str, host: str, port: int, deadline: float) -> socket.socket:
    plain = socket.create_connection((host, port), timeout=_left(deadline))
    if scheme == "http":
        return plain
    import ssl  # late: few servers need it

    try:
        plain.settimeout(_left(deadline))
        return ssl.create_default_context().wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise


def _request(parts: SplitResult, path: str) -> bytes:
    lines = [
        f"GET {parts.path}{path} HTTP/1.1",
        f"Host: {parts.netloc.rpartition('@')[2]}",
        "User-Agent: watch_inference",
        "Accept: */*",
        "Accept-Encoding: identity",
        "Connection: close",
    ]
    if parts.username is not None:
        word = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        lines.append(f"Authorization: Basic {b64encode(word.encode()).decode()}")
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode("ascii", "replace")


def _page(connection: socket.socket, began: float, deadline: float) -> Page | Fault:
    from http.client import HTTPResponse

    # All that a response wants of a socket is its `makefile`.
    response = HTTPResponse(cast(socket.socket, _Reader(connection, deadline)), method="GET")
    response.begin()
    length = response.headers.get("Content-Length")
    if length is not None and not length.strip().isdecimal():
        return Fault(f"{_BROKEN} (its length is no number)")
    body = response.read(MOST + 1)
    # `read` says nothing of a body that ends too early.
    if response.length and len(body) <= MOST:
        return Fault(f"{_BROKEN} (cut off)")
    took_s, peer = time.monotonic() - began, str(connection.getpeername()[0])
    return Page(response.status, body[:MOST], len(body) > MOST, took_s, peer)


class _Reader(io.RawIOBase):
    """A connection read so that every wait ends at one deadline."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(_left(self._deadline))
        return self._connection.recv_into(buffer)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _why(error: Exception) -> str:
    """Say what went wrong in a few words, never with what was sent."""
    if isinstance(error, ConnectionError):
        return "connection reset"
    said = getattr(error, "verify_message", None) or getattr(error, "strerror", None)
    return cut(clean(str(said or type(error).__name__)), 80)
