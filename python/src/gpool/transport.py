"""HTTP over the server's socket or over the network, with retries."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Optional, TypeVar, Union
from urllib.parse import quote, urlencode

from . import errors
from .errors import GpoolError, TimedOut, Unreachable
from .servers import Local, Place, Remote, in_words, no_server

T = TypeVar("T")
Body = Union[bytes, None]

PREFIX = "/api/v1"
#: Seconds to wait for a connection.
CONNECT_PATIENCE = 10.0
#: Seconds between two tries.
PAUSE = 0.05
#: Seconds until the next try after too many requests.
PAUSE_IF_TOO_MANY = 1.0
#: Seconds of silence on a stream after which it is opened again. The server sends a line each 15 s.
SILENCE = 45.0


def escaped(part: object) -> str:
    """A part of a path."""
    return quote(str(part), safe="")


class _Kept:
    """The connection of a thread, and the process that made it. It is closed with its thread."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.pid = os.getpid()

    def __del__(self) -> None:
        try:
            self.connection.close()
        except Exception:
            # The interpreter may be about to end.
            pass


class Stream:
    """An answer that is read while it comes."""

    def __init__(self, connection: Any, sock: socket.socket, response: Any) -> None:
        self.response = response
        self._connection = connection
        self._socket = sock
        self.limit(SILENCE)

    def limit(self, seconds: float) -> None:
        """Limits the time to wait for the next bytes."""
        self._socket.settimeout(min(seconds, SILENCE))

    def close(self) -> None:
        """Closes the connection. A thread that reads wakes, and until then closing waits."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.response.close()
        self._connection.close()


class Transport:
    """Connections to one server: one for each thread, and one for each stream.

    A process that was forked makes connections of its own.
    """

    def __init__(self, place: Place, timeout: Optional[float], retry_for: float) -> None:
        self.place = place
        self.timeout = timeout
        self.retry_for = retry_for
        self._own = threading.local()
        self._was_there = False

    def ask(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        body: object = None,
        key: Optional[str] = None,
        repeatable: bool = False,
    ) -> Any:
        """Sends a request with a JSON body and returns the JSON of the answer."""
        headers = {} if key is None else {"Idempotency-Key": key}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body, allow_nan=False).encode()
        return self.send(method, path, query, content, headers, repeatable or key is not None)

    def send(
        self,
        method: str,
        path: str,
        query: Optional[Mapping[str, Any]],
        body: Body,
        headers: Mapping[str, str],
        repeatable: bool,
    ) -> Any:
        """Sends a request and returns the JSON of the answer. A request that changes nothing, or
        that the server recognizes, is repeated while the server is away."""
        is_safe = repeatable or method == "GET"
        target = _target(path, query)
        return _understood(
            self._with_tries(is_safe, lambda left: self._once(method, target, body, headers, left))
        )

    def stream(
        self, path: str, query: Optional[Mapping[str, Any]], headers: Mapping[str, str]
    ) -> Stream:
        """Opens a stream."""
        target = _target(path, query)

        def attempt(left: Optional[float]) -> Stream:
            connection = self._connect(left)
            # An answer that ends with its connection takes the socket from it.
            sock = connection.sock
            try:
                response = self._exchange(connection, "GET", target, None, headers)
                if response.status != 200:
                    raise _refusal(response.status, response.read())
                return Stream(connection, sock, response)
            except BaseException:
                connection.close()
                raise

        return self._with_tries(True, attempt)

    def _with_tries(self, is_safe: bool, attempt: Callable[[Optional[float]], T]) -> T:
        begun = time.monotonic()
        was_sent = False
        while True:
            spent = time.monotonic() - begun
            left = None if self.timeout is None else self.timeout - spent
            if left is not None and left <= 0:
                raise TimedOut("the server did not answer in time", code="GP0303")
            try:
                found = attempt(left)
                self._was_there = True
                return found
            except GpoolError as error:
                pause = PAUSE
                if isinstance(error, Unreachable):
                    was_sent |= error.maybe_done
                    # A server that never answered is more likely missing than restarting.
                    self._was_there |= error.maybe_done or error.status is not None
                    again = is_safe and self._was_there
                else:
                    self._was_there = True
                    again = error.code in errors.TOO_MANY
                    pause = PAUSE_IF_TOO_MANY
                if not again or spent + pause > self.retry_for:
                    if isinstance(error, Unreachable):
                        error.maybe_done = was_sent and not is_safe
                    raise
            time.sleep(pause)

    def _once(
        self,
        method: str,
        target: str,
        body: Body,
        headers: Mapping[str, str],
        left: Optional[float],
    ) -> bytes:
        connection = self._kept(left)
        try:
            response = self._exchange(connection, method, target, body, headers)
            content: bytes = response.read()
        except GpoolError:
            connection.close()
            raise
        except Exception as error:
            connection.close()
            raise self._lost(error) from error
        except BaseException:
            # The answer would be read as that of the next request.
            connection.close()
            raise
        if response.will_close:
            connection.close()
        if 200 <= response.status < 300:
            return content
        raise _refusal(response.status, content)

    def _exchange(
        self,
        connection: Any,
        method: str,
        target: str,
        body: Body,
        headers: Mapping[str, str],
    ) -> Any:
        from http.client import HTTPException

        headers = {**headers, "User-Agent": "gpool-python"}
        if isinstance(self.place, Remote) and self.place.token:
            headers["Authorization"] = f"Bearer {self.place.token}"
        try:
            try:
                connection.request(method, target, body=body, headers=headers)
            except (BrokenPipeError, ConnectionResetError):
                # The server stopped reading; if it has answered, the answer says why.
                pass
            return connection.getresponse()
        except (HTTPException, OSError) as error:
            raise self._lost(error) from error

    def _lost(self, error: Exception) -> GpoolError:
        if isinstance(error, (TimeoutError, socket.timeout)):
            why = ["the server may still carry out the request: check before you repeat it"]
            return TimedOut("the server did not answer in time", code="GP0303", why=why)
        return Unreachable(
            f"the connection to the server was lost: {error or type(error).__name__}",
            code="GP0301",
            why=["the request may have been carried out: check before you repeat it"],
            maybe_done=True,
        )

    def _kept(self, left: Optional[float]) -> Any:
        """The connection of this thread, if it is open and not that of a parent process."""
        kept: Optional[_Kept] = getattr(self._own, "kept", None)
        if kept is None or kept.pid != os.getpid() or not _is_open(kept.connection):
            self._own.kept = None
            kept = self._own.kept = _Kept(self._connect(left))
        kept.connection.sock.settimeout(left)
        return kept.connection

    def _connect(self, left: Optional[float]) -> Any:
        patience = CONNECT_PATIENCE if left is None else min(left, CONNECT_PATIENCE)
        place = self.place
        if isinstance(place, Local):
            connection = _over_socket(place.path, patience)
        else:
            connection = _over_network(place, patience)
        connection.sock.settimeout(left)
        return connection

    def close(self) -> None:
        """Closes the connection of this thread."""
        self._own.kept = None


def _target(path: str, query: Optional[Mapping[str, Any]]) -> str:
    given = {name: value for name, value in (query or {}).items() if value is not None}
    written = {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in given.items()
    }
    return f"{PREFIX}{path}" + (f"?{urlencode(written)}" if written else "")


def _understood(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise GpoolError(f"the answer was not understood: {error}", code="GP0306") from None


def _refusal(status: int, content: bytes) -> GpoolError:
    try:
        problem = json.loads(content)
    except ValueError:
        problem = None
    if not isinstance(problem, dict):
        return GpoolError(f"HTTP {status} without a problem", code="GP0306", status=status)
    return errors.of_problem(status, problem)


def _is_open(connection: Any) -> bool:
    """Whether an idle connection can be used: the server sends nothing unasked, so anything to
    read means that it has closed the connection."""
    import select

    if connection.sock is None:
        return False
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)


def _over_socket(path: str, patience: float) -> Any:
    from http.client import HTTPConnection

    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(patience)
    try:
        stream.connect(path)
    except OSError as error:
        stream.close()
        raise no_server([f"{path}: {in_words(error)}"]) from None
    connection = HTTPConnection("gpool")
    connection.sock = stream
    # A closed connection must not be opened again by itself: that would look up the host.
    connection.auto_open = 0
    return connection


def _over_network(place: Remote, patience: float) -> Any:
    import ssl
    from http.client import HTTPSConnection

    context = ssl.create_default_context()
    if place.authority is not None:
        import base64

        pinned = ssl.DER_cert_to_PEM_cert(base64.b64decode(place.authority))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=pinned)
    connection = HTTPSConnection(place.host, place.port, timeout=patience, context=context)
    try:
        connection.connect()
    except ssl.SSLCertVerificationError as error:
        raise GpoolError(
            f"the certificate of {place} is not trusted: {error.verify_message}",
            code="GP0311",
            why=["another machine may answer in its place, or it has a new certificate"],
            try_=[f"gpool login {place}   (compares its fingerprint again)"],
        ) from None
    except OSError as error:
        raise Unreachable(
            f"{place} can't be reached: {error}",
            code="GP0301",
            try_=["gpool context list   (shows the servers that you signed in to)"],
        ) from None
    connection.auto_open = 0
    return connection
