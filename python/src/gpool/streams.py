"""Streams that resume by themselves after a lost connection: events, and the output of jobs."""

from __future__ import annotations

import codecs
import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Optional

from .errors import GpoolError
from .transport import SILENCE, Stream, Transport, escaped

if TYPE_CHECKING:
    from .types import Event

#: The position of the first byte of an answer with output.
OFFSET = "gpool-log-offset"
#: Bytes to read at once.
BLOCK = 1 << 16


def lost() -> tuple[type[Exception], ...]:
    """Errors of a connection that was lost while its answer was read."""
    from http.client import HTTPException

    # The chunks of http.client end with ValueError, and AttributeError once it is closed.
    return (OSError, HTTPException, ValueError, AttributeError)


class Events(Iterator["Event"]):
    """Events in order, without end.

    After a lost connection the stream continues after `last`, the ID of the last event. An event
    of type `resync` means that events were missed: read the needed state again.
    """

    def __init__(self, transport: Transport, after: Optional[str] = None) -> None:
        self._transport = transport
        self.last = after
        self._stream: Optional[Stream] = None
        self._is_closed = False
        self._open()

    def _open(self) -> None:
        headers = {"Accept": "text/event-stream"}
        if self.last:
            headers["Last-Event-ID"] = escaped(self.last)
        self._stream = self._transport.stream("/events", None, headers)

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream; a thread that waits for an event gets StopIteration."""
        self._is_closed = True
        self._disconnect()

    def _disconnect(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def __next__(self) -> Event:
        event = self.next()
        assert event is not None, "it waits without limit"
        return event

    def next(self, timeout: Optional[float] = None) -> Optional[Event]:
        """The next event; None if none comes within `timeout` seconds."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._is_closed:
            stream = self._stream
            if stream is None:
                self._open()
                if not self.last:
                    # The events since then can't be asked for.
                    return {"id": "", "seq": 0, "time": "1970-01-01T00:00:00Z", "type": "resync"}
                continue
            if end is not None and end <= time.monotonic():
                return None
            try:
                stream.limit(SILENCE if end is None else end - time.monotonic())
                event = _event(stream.response)
            except lost():
                event = None
            if event is not None:
                self.last = event["id"] or self.last
                return event
            self._disconnect()
        self._disconnect()
        raise StopIteration


def _event(response: Any) -> Optional[Event]:
    """The next event of a connection; None at its end."""
    data = ""
    while True:
        line = response.readline()
        if not line:
            return None
        text = line.decode("utf-8", "replace").rstrip("\r\n")
        if text.startswith("data:"):
            data += text[len("data:") :].lstrip()
        elif not text and data:
            event: Event = json.loads(data)
            return event


class Output:
    """The output of a job as bytes."""

    def __init__(self, transport: Transport, job: str, query: dict[str, Any]) -> None:
        self._transport = transport
        self._path = f"/jobs/{escaped(job)}/logs"
        self._query = query
        self._is_closed = False
        self._stream = transport.stream(self._path, query, {})
        self._position = int(self._stream.response.getheader(OFFSET) or 0)

    def close(self) -> None:
        """Ends the stream, also for a thread that waits for bytes."""
        self._is_closed = True
        self._stream.close()

    def parts(self) -> Iterator[bytes]:
        """The output as bytes, as they come."""
        resumed_at = None
        while True:
            try:
                while True:
                    part = self._stream.response.read1(BLOCK)
                    if not part:
                        return
                    self._position += len(part)
                    yield part
            except lost() as error:
                if self._is_closed:
                    return
                # Nothing came since the last resumption, so the connection is not the cause.
                if not self._query.get("follow") and resumed_at == self._position:
                    raise GpoolError(f"the output can't be read: {error}", code="GP0306") from error
            finally:
                self._stream.close()
            resumed_at = self._position
            rest = {**self._query, "tail": None, "offset": self._position}
            self._stream = self._transport.stream(self._path, rest, {})


class Logs(Iterator[str]):
    """The output of a job as lines, until the job has ended and everything is read."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._lines = _lines(output.parts())

    def __next__(self) -> str:
        line: str = next(self._lines)
        return line

    def __enter__(self) -> Logs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the stream, also for a thread that waits for a line."""
        self._output.close()


def _lines(parts: Iterator[bytes]) -> Any:
    """Whole lines of a text, and a last one without its end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for part in parts:
        *lines, rest = (rest + decoder.decode(part)).split("\n")
        yield from lines
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest
