"""A real HTTP server on loopback that is well, or broken in one of many ways; a test is its master.

`story` is a function from seconds to a metrics page; whoever tells it moves `at`.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType

from watch_inference.model import ServerReading
from watch_inference.probes.server import Servers

METRICS = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="acme/Zeta-32B"}} {running}
vllm:num_requests_waiting{{engine="0",model_name="acme/Zeta-32B"}} {queued}
vllm:kv_cache_usage_perc{{engine="0",model_name="acme/Zeta-32B"}} {kv}
vllm:generation_tokens_total{{engine="0",model_name="acme/Zeta-32B"}} {tokens}
vllm:prompt_tokens_total{{engine="0",model_name="acme/Zeta-32B"}} 1000.0
"""
MODELS = (
    '{{"object": "list", "data": [{{"id": "zeta", "object": "model", "owned_by": "{owner}"}}]}}'
)
_PATIENCE_S = 10.0


def vllm(running: float = 48, queued: float = 0, tokens: float = 0, kv: float = 0.4) -> str:
    """Write vLLM's page."""
    return METRICS.format(running=running, queued=queued, tokens=tokens, kv=kv)


def sglang(
    running: int = 48,
    queued: int = 0,
    realtime: float | None = None,
    finished: float = 5000,
    used: int = 91820,
    speed: float = 2310.77,
) -> str:
    """Write SGLang's page; without `realtime` its counters move only when a request ends."""
    labels = '{engine_type="unified",model_name="acme/Zeta-32B",pp_rank="0",tp_rank="0"}'
    lines = [
        f"sglang:num_running_reqs{labels} {running}",
        f"sglang:num_queue_reqs{labels} {queued}",
        f"sglang:num_used_tokens{labels} {used}",
        f"sglang:token_usage{labels} 0.41",
        f"sglang:gen_throughput{labels} {speed}",
        f"sglang:generation_tokens_total{labels} {finished}",
        f"sglang:prompt_tokens_total{labels} {finished / 2}",
    ]
    if realtime is not None:
        mode = labels.replace("{", '{mode="decode",')
        lines.append(f"sglang:realtime_tokens_total{mode} {realtime}")
    return "\n".join(lines) + "\n"


class FakeServer:
    """A server in a mode; `requests` are the paths asked for, `peak` connections at once."""

    def __init__(
        self, mode: str = "ok", story: Callable[[float], str] | None = None, port: int = 0
    ) -> None:
        self.mode = mode
        self.story = story
        self.at = 0.0
        self.owner = "vllm"
        self.requests: list[str] = []
        self.heads: list[str] = []
        self.peak = 0
        self.open = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", port))
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Be gone: from now on connections are refused."""
        if self._over.is_set():
            return
        self._over.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)

    @property
    def methods(self) -> set[str]:
        """Every method that was used."""
        return {head.split(" ")[0] for head in self.heads}

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with self._lock:
            self.open += 1
            self.peak = max(self.peak, self.open)
        try:
            with connection:
                connection.settimeout(_PATIENCE_S)
                self._talk(connection)
        except OSError:
            pass  # it went away
        finally:
            with self._lock:
                self.open -= 1

    def _talk(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            more = connection.recv(65536)
            if not more:
                return
            head += more
        text = head.decode()
        path = text.split(" ")[1]
        self.requests.append(path)
        self.heads.append(text)
        getattr(self, f"_{self.mode}")(connection, path)

    def _send(
        self, connection: socket.socket, body: str, status: str = "200 OK", more: str = ""
    ) -> None:
        data = body.encode()
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\n{more}\r\n"
        connection.sendall(head.encode() + data)

    def _ok(self, connection: socket.socket, path: str) -> None:
        if path == "/metrics":
            story = self.story or (lambda at: vllm(tokens=1000 * at))
            self._send(connection, story(self.at))
        elif path == "/v1/models":
            self._send(connection, MODELS.format(owner=self.owner))
        else:
            self._send(connection, "")

    def _hang(self, connection: socket.socket, path: str) -> None:
        connection.recv(1)  # until the other side has had enough

    def _hang_headers(self, connection: socket.socket, path: str) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-")
        connection.recv(1)

    def _drip(self, connection: socket.socket, path: str) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not self._over.wait(0.05):
            connection.sendall(b"#")

    def _starting(self, connection: socket.socket, path: str) -> None:
        self._send(connection, "loading", "503 Service Unavailable")

    def _notfound(self, connection: socket.socket, path: str) -> None:
        if path == "/v1/models":
            self._ok(connection, path)
        else:
            self._send(connection, "not found", "404 Not Found")

    def _nothing(self, connection: socket.socket, path: str) -> None:
        self._send(connection, "not found", "404 Not Found")

    def _unauthorized(self, connection: socket.socket, path: str) -> None:
        self._send(connection, "", "401 Unauthorized", 'WWW-Authenticate: Basic realm="x"\r\n')

    def _error(self, connection: socket.socket, path: str) -> None:
        self._send(connection, "", "502 Bad Gateway")

    def _huge(self, connection: socket.socket, path: str) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + vllm(tokens=5).encode())
        block = b'vllm:request_latency_bucket{le="0.1"} 1.0\n' * 1000
        for _ in range(1000):
            connection.sendall(block)

    def _redirect_loop(self, connection: socket.socket, path: str) -> None:
        self._send(connection, "", "302 Found", f"Location: {path}\r\n")

    def _nan_metrics(self, connection: socket.socket, path: str) -> None:
        page = vllm("NaN", "-1", "1e400", "+Inf")  # type: ignore[arg-type]
        self._send(connection, page)

    def _short_body(self, connection: socket.socket, path: str) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n")
        connection.sendall(vllm(tokens=123456).encode()[:-1300] or b"vllm:")

    def _short_chunks(self, connection: socket.socket, path: str) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(head + b"ffff\r\nvllm:generation_tokens_total 12")

    def _bad_length(self, connection: socket.socket, path: str) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n" + vllm().encode())

    def _garbage(self, connection: socket.socket, path: str) -> None:
        connection.sendall(b"\x00\x01\x02 what\r\n\r\n")

    def _empty(self, connection: socket.socket, path: str) -> None:
        self._send(connection, "")

    def _reset(self, connection: socket.socket, path: str) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\nvllm:")
        linger = (1).to_bytes(4, "little") + bytes(4)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    def _slow(self, connection: socket.socket, path: str) -> None:
        time.sleep(0.1)
        self._ok(connection, path)


def refused_port() -> int:
    """Find a port where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


def settled(
    servers: Servers, read: Callable[[], tuple[ServerReading, ...]]
) -> tuple[ServerReading, ...]:
    """Read until what is in flight has been answered, in real time."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        readings = read()
        if not servers.waiting:
            return readings
        time.sleep(0.002)
    raise AssertionError("never answered")
