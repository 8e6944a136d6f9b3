"""The client for asyncio: the methods of `gpool.Client` as coroutines, each run in a thread.

Futures of `gpool.Executor` work with `asyncio.wrap_future`, and the executor with
`loop.run_in_executor`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import GeneratorType
from typing import TYPE_CHECKING, Any, Optional

from .client import Client as _Client

if TYPE_CHECKING:
    from .types import Event, Job

_END = object()


class Client:
    """A client with the arguments of `gpool.Client`: `await Client().submit(["hostname"])`.

    `jobs`, `elements`, `events` and `follow` are asynchronous iterators. A cancelled call goes on
    in its thread; a cancelled iterator ends its stream.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._client = _Client(*args, **options)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.close()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)
        if name.startswith("_") or not callable(method):
            raise AttributeError(name)

        async def call(*args: Any, **options: Any) -> Any:
            return await asyncio.to_thread(partial(method, *args, **options))

        return call

    def jobs(self, **query: Any) -> AsyncIterator[Job]:
        """Jobs, as `gpool.Client.jobs` returns them."""
        return _iterated(lambda: self._client.jobs(**query))

    def elements(self, array: Any, **query: Any) -> AsyncIterator[Job]:
        """The elements of an array."""
        return _iterated(lambda: self._client.elements(array, **query))

    def events(self, after: Optional[str] = None) -> AsyncIterator[Event]:
        """Events as they come."""
        return _iterated(lambda: self._client.events(after))

    def follow(self, job: Any, **query: Any) -> AsyncIterator[str]:
        """The output of a job as lines, until it has ended."""
        return _iterated(lambda: self._client.follow(job, **query))


async def _iterated(start: Callable[[], Iterator[Any]]) -> AsyncIterator[Any]:
    source: Any = await asyncio.to_thread(start)
    try:
        while (item := await asyncio.to_thread(next, source, _END)) is not _END:
            yield item
    finally:
        # Also ends a thread that still waits for the next item.
        if not isinstance(source, GeneratorType):
            source.close()
