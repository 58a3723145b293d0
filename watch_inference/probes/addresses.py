"""Words and command lines in, URLs of inference servers out; pure."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

from watch_inference.units import clean, cut

_SCHEMES = ("http", "https")
_USER = re.compile(r"(?<=//)[^/\s]*@|^[^/\s]*@")
# What a person copies along: the API's own path, below which nothing is a server.
_API = re.compile(r"/(?:v1|metrics|health|generate)(?:/.*)?$")
_URL = re.compile(r"https?://(?:\[[0-9A-Fa-f:.]+\]|[^\s,;'\"`<>|\\\[\]()]+)[^\s,;'\"`<>|\\()]*")
# A URL that one of these words introduces is no inference server.
_OTHER = re.compile(
    r"(?i)(?:track|wandb|mlflow|prox|hub|dataset|otlp|otel|trace|hook|notify|callback|repo|git|"
    r"s3|store|storage|log|sentry|redis|db|ray|dashboard)[\w.-]*[=\s]+['\"]?$"
)
_LOCAL = ("localhost", "127.", "::1", "0.0.0.0")


def server_url(text: str) -> str:
    """Check a server's URL as a person types it; raises ValueError with what to type instead.

    What comes back has a scheme, a host and no path of the API: http://HOST:PORT.
    """
    said = shown(cut(clean(text), 80))
    if not text.isprintable() or re.search(r"\s", text) or not text:
        raise ValueError(f"{said!r} is no URL: type http://HOST:PORT")
    if "://" not in text:
        raise ValueError(f"{said} has no scheme: type http://{said.removeprefix('//')}")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        why = "the port is no number from 1 to 65535" if "ort" in str(error) else "no such host"
        raise ValueError(f"{said}: {why}: type http://HOST:PORT") from error
    if parts.scheme.lower() not in _SCHEMES:
        raise ValueError(f"{said}: a server is asked by http or https: type http://HOST:PORT")
    if not parts.hostname or port == 0:
        raise ValueError(f"{said}: no host or port: type http://HOST:PORT")
    path = _API.sub("", parts.path).rstrip("/")
    return f"{parts.scheme.lower()}://{parts.netloc}{path}"


def shown(url: str) -> str:
    """Write a URL without the user and password in it."""
    return _USER.sub("", url)


def split(url: str) -> tuple[SplitResult, str, int]:
    """Take a checked URL apart: its parts, the host to connect to, the port."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in ("0.0.0.0", "::"):  # where a server listens everywhere, it is asked here
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"
    return parts, host, parts.port or (443 if parts.scheme == "https" else 80)


def is_loopback(url: str) -> bool:
    """Tell whether a URL leads to the machine itself, as seen by whoever uses it."""
    host = split(url)[1]
    return host in ("localhost", "::1") or host.startswith("127.")


def urls_in(command: str) -> tuple[str, ...]:
    """Find the URLs of servers in a command line, in order; users and passwords are left out."""
    found = []
    for match in _URL.finditer(command):
        if _OTHER.search(command[: match.start()]):
            continue
        try:
            url = server_url(shown(match[0].rstrip(".:")))
        except ValueError:
            continue
        parts, host, _ = split(url)
        # A page somewhere in the world is no server of ours: a port, the API or this machine is.
        if parts.port is not None or host.startswith(_LOCAL) or _API.search(match[0]):
            found.append(url)
    return tuple(dict.fromkeys(found))
