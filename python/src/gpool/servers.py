"""Finds the server, in the order of the `gpool` command.

The first of these counts: the arguments, `GPOOL_SERVER`, `GPOOL_CONTEXT`, `GPOOL_SOCKET`, the
context in use, the socket of the user's own server, that of the machine.
"""

from __future__ import annotations

import os
import socket
import struct
from typing import Any, Optional, Union

from .errors import GpoolError, Refused, Unreachable

MACHINE_SOCKET = "/run/gpool/api.sock"
#: Most bytes in the path of a socket, without the final zero. Source: unix(7).
PATH_MAX = 107
PORT = 7443
#: Seconds to wait for a connection to a socket while looking for a server.
FIND_PATIENCE = 0.2
#: The context that stands for the servers of this machine.
LOCAL = "local"


class Local:
    """A server on this machine."""

    def __init__(self, path: str) -> None:
        self.path = path


class Remote:
    """A server on the network. `authority` is its certificate in base64; without it the system's
    authorities are trusted."""

    def __init__(self, host: str, port: int, token: str, authority: Optional[str] = None) -> None:
        self.host = host
        self.port = port
        self.token = token
        self.authority = authority

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}"


Place = Union[Local, Remote]


def find(server: Optional[str] = None, context: Optional[str] = None) -> Place:
    """Finds the server that the arguments and the environment name."""
    environment = {name: value for name, value in os.environ.items() if value}
    if server is not None:
        return _named(server, environment)
    if context is not None:
        return _of_context(context) or _of_sockets(environment)
    if "GPOOL_SERVER" in environment:
        return _named(environment["GPOOL_SERVER"], environment)
    if "GPOOL_CONTEXT" in environment:
        return _of_context(environment["GPOOL_CONTEXT"]) or _of_sockets(environment)
    if "GPOOL_SOCKET" in environment:
        return Local(_checked(environment["GPOOL_SOCKET"]))
    current = contexts().get("current")
    found = _of_context(current) if isinstance(current, str) else None
    return found or _of_sockets(environment)


def _named(server: str, environment: dict[str, str]) -> Place:
    if server.startswith("https://"):
        host, port = _address(server)
        token = environment.get("GPOOL_TOKEN")
        for context in contexts().get("contexts", {}).values():
            if _address(context["server"]) == (host, port):
                token = token or context["token"]
                return Remote(host, port, token, context.get("authority"))
        if token is None:
            raise _no_context(f"no context is for {server}, and GPOOL_TOKEN is not set")
        return Remote(host, port, token)
    if server.startswith("unix:"):
        path = server[len("unix:") :]
        return Local(_checked(path[2:] if path.startswith("//") else path))
    if "://" in server or "/" not in server:
        raise Refused(
            f"{server!r} is neither unix:/path/api.sock nor https://host:{PORT}", code="GP0304"
        )
    return Local(_checked(server))


def _checked(path: str) -> str:
    n_bytes = len(os.fsencode(path))
    if n_bytes > PATH_MAX:
        raise Refused(
            f"{path} has {n_bytes} bytes, and the kernel allows {PATH_MAX}",
            code="GP0304",
            try_=["GPOOL_SOCKET=/run/user/1000/gpool/api.sock"],
        )
    return path


def _address(text: str) -> tuple[str, int]:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or parts.username is not None or parts.path.strip("/"):
        raise _no_context(f"{text!r} is not the address of a server: https://lab1:{PORT}")
    return host, port or PORT


def _no_context(detail: str) -> GpoolError:
    remedies = ["gpool context list", f"gpool login https://HOST:{PORT}"]
    return Refused(detail, code="GP0310", try_=remedies)


def _of_context(name: str) -> Optional[Remote]:
    if name == LOCAL:
        return None
    known = contexts().get("contexts", {}).get(name)
    if known is None:
        raise _no_context(f"there is no context {name!r}")
    host, port = _address(known["server"])
    return Remote(host, port, known["token"], known.get("authority"))


def contexts() -> dict[str, Any]:
    """The file that `gpool login` writes; empty without one."""
    home = os.environ.get("HOME")
    folder = os.environ.get("XDG_CONFIG_HOME") or (home and os.path.join(home, ".config"))
    if not folder:
        return {}
    path = os.path.join(folder, "gpool", "contexts.toml")
    try:
        with open(path, encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            text = file.read()
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _no_context(f"{path}: {error}") from None
    if mode & 0o077:
        raise _no_context(f"{path}: it has tokens, and its mode is {mode:03o}; chmod 600 it")
    try:
        found = parsed(text)
        for context in found.get("contexts", {}).values():
            context["server"], context["token"]
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise _no_context(f"{path}: it can't be understood: {error}") from None
    return found


def parsed(text: str) -> dict[str, Any]:
    """Reads TOML. Before Python 3.11, only the subset that `gpool login` writes: tables of
    strings."""
    try:
        import tomllib
    except ImportError:
        return _parsed_strings(text)
    return tomllib.loads(text)


def _parsed_strings(text: str) -> dict[str, Any]:
    import json

    root: dict[str, Any] = {}
    table = root

    def name(written: str) -> str:
        if written.startswith("'"):
            return written.strip("'")
        return str(json.loads(written)) if written.startswith('"') else written

    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            table = root
            first, _, rest = line.strip("[]").partition(".")
            for part in (first, rest) if rest else (first,):
                table = table.setdefault(name(part.strip()), {})
            continue
        key, sign, value = line.partition("=")
        if not sign or value.strip()[:1] not in ("'", '"'):
            raise ValueError(f"this is no string: {line.split('=')[0].strip()}")
        table[name(key.strip())] = name(value.strip())
    return root


def _of_sockets(environment: dict[str, str]) -> Local:
    uid = os.geteuid()
    tried = []
    runtime = environment.get("XDG_RUNTIME_DIR", "")
    folder = f"{runtime}/gpool" if runtime.startswith("/") else f"/tmp/gpool-{uid}"
    own = _checked(f"{folder}/api.sock")
    for path in (own, MACHINE_SOCKET) if uid != 0 else (MACHINE_SOCKET,):
        why = _fault(path, uid if path == own else None)
        if why is None:
            return Local(path)
        tried.append(f"{path}: {why}")
    raise no_server(tried)


def no_server(tried: list[str]) -> GpoolError:
    """The error if no socket leads to a server."""
    remedies = ["gpool up       (starts a server of your own)", "gpool doctor   (finds the cause)"]
    return Unreachable("no gpool server answers", code="GP0301", why=tried, try_=remedies)


def _fault(path: str, owner: Optional[int]) -> Optional[str]:
    """Why a socket can't be used. With an owner, its server must be of that user or of root: the
    folder may be one in which other users can create a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(FIND_PATIENCE)
        try:
            probe.connect(path)
        except (TimeoutError, socket.timeout):
            # The server is there and accepts nothing; the request reports that.
            return None
        except OSError as error:
            return in_words(error)
        if owner is not None:
            size = struct.calcsize("3i")
            peer = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
            if struct.unpack("3i", peer)[1] not in (owner, 0):
                return "another user listens on it"
    return None


def in_words(error: OSError) -> str:
    """Why no connection was made."""
    if isinstance(error, FileNotFoundError):
        return "there is no such socket"
    if isinstance(error, ConnectionRefusedError):
        return "no process listens there (its server has ended)"
    if isinstance(error, PermissionError):
        return "you may not connect to it"
    return str(error)
