"""The client: one method for each question or action."""

from __future__ import annotations

import time as clock
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union, overload

from . import request as requests
from . import servers
from .errors import TimedOut
from .streams import Events, Logs, Output
from .transport import Transport, escaped

if TYPE_CHECKING:
    import os

    from .types import (
        Gpu,
        Job,
        JobChanged,
        JobCreate,
        JobMetrics,
        Node,
        Quantity,
        QuotaOverview,
        Status,
        Version,
        Why,
    )

JobId = Union[str, int]
Texts = Union[str, Sequence[str]]

#: States in which a job stays.
ENDED = frozenset(("succeeded", "failed", "cancelled", "timed_out", "lost"))
#: Seconds for which a request is repeated while the server restarts.
RETRY_FOR = 60.0


class Client:
    """A client of one server.

    Without arguments it finds the server as the `gpool` command does. `server` is a socket
    (`unix:/path/api.sock`) or `https://host:7443`, `context` a name that `gpool login` stored.
    `timeout` limits each request, in seconds; `retry_for` limits how long a request is repeated
    while the server restarts.

    It can be used from several threads. After a fork, the child makes connections of its own.
    """

    def __init__(
        self,
        server: Optional[str] = None,
        *,
        context: Optional[str] = None,
        timeout: Optional[float] = None,
        retry_for: float = RETRY_FOR,
    ) -> None:
        self._transport = Transport(servers.find(server, context), timeout, retry_for)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.server!r})"

    def close(self) -> None:
        """Closes the connection of this thread. A later request makes another."""
        self._transport.close()

    @property
    def server(self) -> str:
        """The server, as `Client` takes it."""
        place = self._transport.place
        return f"unix:{place.path}" if isinstance(place, servers.Local) else str(place)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        body: object = None,
        key: Optional[str] = None,
    ) -> Any:
        """Sends any request of the API, such as `client.request("GET", "/reservations")`. With an
        idempotency key it is repeated after a lost connection."""
        return self._transport.ask(method, path, query=query, body=body, key=key)

    # Jobs

    def submit(
        self,
        command: requests.Command = None,
        *,
        request: Optional[JobCreate] = None,
        script: Union[str, os.PathLike[str], None] = None,
        name: Optional[str] = None,
        project: Optional[str] = None,
        gpus: Union[str, int, float, None] = None,
        gpu_memory: Optional[Quantity] = None,
        gpu_share: Union[str, float, None] = None,
        cpus: Optional[Quantity] = None,
        mem: Optional[Quantity] = None,
        time: Optional[Quantity] = None,
        kind: Optional[str] = None,
        pool: Optional[str] = None,
        node: Optional[Texts] = None,
        where: Optional[Texts] = None,
        nodes: Optional[Quantity] = None,
        tasks: Optional[Quantity] = None,
        parts: Optional[Sequence[str]] = None,
        array: Optional[str] = None,
        params: Optional[Mapping[str, Sequence[object]]] = None,
        items: Optional[Sequence[object]] = None,
        max_parallel: Optional[int] = None,
        group: Optional[str] = None,
        after: Union[JobId, Sequence[JobId], None] = None,
        priority: Optional[int] = None,
        preemptible: Optional[bool] = None,
        exits: Optional[Texts] = None,
        checkpoint: Optional[str] = None,
        stop_signal: Optional[str] = None,
        grace: Optional[Quantity] = None,
        retry: Optional[int] = None,
        hold: Optional[bool] = None,
        note: Optional[str] = None,
        notify: Optional[Texts] = None,
        image: Optional[str] = None,
        secrets: Optional[Texts] = None,
        directory: Union[str, os.PathLike[str], None] = None,
        stdout: Optional[str] = None,
        stderr: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        clean_env: bool = False,
        key: Optional[str] = None,
    ) -> Job:
        """Submits a job and returns it; it is stored when this returns.

        The keywords are fields of `JobCreate`; `request` is a dictionary of such fields, for those
        without a keyword. The job gets this process's folder, umask and variables, unless
        `directory`, `clean_env` or `request` say otherwise; over the network it gets `env` only.
        The request has an idempotency key, so a repeated one submits nothing twice. Pass a `key`
        of your own to also repeat it from another process, within a day.
        """
        given = dict(locals())
        for name_of in ("self", "command", "request", "env", "clean_env", "key"):
            del given[name_of]
        is_local = isinstance(self._transport.place, servers.Local)
        body = requests.body(command, request, given, env, clean_env, is_local)
        answer: Job = self._transport.ask("POST", "/jobs", body=body, key=key or _new_key())
        return answer

    def job(self, job: JobId) -> Job:
        """One job, or an element of an array (`"17.3"`)."""
        answer: Job = self._transport.ask("GET", f"/jobs/{escaped(job)}")
        return answer

    def jobs(
        self,
        *,
        state: Optional[Texts] = None,
        user: Optional[str] = None,
        project: Optional[str] = None,
        name: Optional[str] = None,
        group: Optional[str] = None,
        ended_since: Optional[str] = None,
        ended_until: Optional[str] = None,
        elements: Optional[bool] = None,
    ) -> Iterator[Job]:
        """Jobs page by page: those that have not ended, or those of `state` (`"all"`)."""
        query = {
            "state": _joined(state),
            "user": user,
            "project": project,
            "name": name,
            "group": group,
            "ended_since": ended_since,
            "ended_until": ended_until,
            "elements": elements,
        }
        seen = set()
        for job in self._pages("/jobs", query, "cursor"):
            # A job that ends between two pages is on both.
            if job["id"] not in seen:
                seen.add(job["id"])
                yield job

    def elements(self, array: JobId, *, state: Optional[Texts] = None) -> Iterator[Job]:
        """The elements of an array by index, page by page."""
        return self._pages(f"/jobs/{escaped(array)}/elements", {"state": _joined(state)}, "from")

    def _pages(self, path: str, query: dict[str, Any], cursor: str) -> Iterator[Any]:
        while True:
            page = self._transport.ask("GET", path, query=query)
            yield from page["items"]
            if page.get("next_cursor") is None:
                return
            query = {**query, cursor: page["next_cursor"]}

    @overload
    def wait(self, jobs: JobId, timeout: Optional[float] = None) -> Job: ...  # type: ignore[overload-overlap]

    @overload
    def wait(self, jobs: Iterable[JobId], timeout: Optional[float] = None) -> list[Job]: ...

    def wait(
        self, jobs: Union[JobId, Iterable[JobId]], timeout: Optional[float] = None
    ) -> Union[Job, list[Job]]:
        """Waits until a job has ended and returns it; or all of several. Raises `TimedOut` after
        `timeout` seconds; the jobs continue."""
        if isinstance(jobs, (str, int)):
            return self._waited([str(jobs)], timeout)[0]
        return self._waited([str(job) for job in jobs], timeout)

    def _waited(self, ids: list[str], timeout: Optional[float]) -> list[Job]:
        end = None if timeout is None else clock.monotonic() + timeout
        ended: dict[str, Job] = {}

        def look(some: Iterable[str]) -> None:
            for one in some:
                job = self.job(one)
                if job["state"] in ENDED:
                    ended[one] = job

        # Opened first, so that it has every end after the first look.
        with self.events() as events:
            look(dict.fromkeys(ids))
            while len(ended) < len(set(ids)):
                left = None if end is None else end - clock.monotonic()
                event = None if left is not None and left <= 0 else events.next(left)
                if event is None:
                    waiting = [one for one in ids if one not in ended]
                    raise TimedOut(
                        f"not ended after {timeout:g} s: job {', '.join(waiting[:10])}",
                        code="GP0303",
                        why=["jobs continue"],
                    )
                if event["type"] == "resync":
                    look(one for one in dict.fromkeys(ids) if one not in ended)
                elif event["type"] == "job_state":
                    # Elements that end before they start have only an event of their array.
                    job, has_ended = event["job"], event["state"] in ENDED
                    left_ids = [one for one in dict.fromkeys(ids) if one not in ended]
                    look(one for one in left_ids if one.startswith(f"{job}."))
                    look(one for one in left_ids if has_ended and one == job)
        return [ended[one] for one in ids]

    def cancel(self, *jobs: JobId) -> list[JobChanged]:
        """Cancels jobs, all or none: waiting jobs leave the queue, running jobs are stopped."""
        return self._act("cancel", jobs)

    def _act(self, verb: str, jobs: Sequence[JobId]) -> list[JobChanged]:
        body = {"jobs": [str(job) for job in jobs]}
        answer = self._transport.ask("POST", f"/jobs/{verb}", body=body)
        items: list[JobChanged] = answer["items"]
        return items

    def logs(
        self,
        job: JobId,
        *,
        stream: str = "both",
        tail: Optional[int] = None,
        attempt: Optional[int] = None,
        rank: Optional[int] = None,
    ) -> str:
        """The output of a job so far. `stream` is `"stdout"`, `"stderr"` or `"both"`."""
        query = {"stream": stream, "tail": tail, "attempt": attempt, "rank": rank}
        output = Output(self._transport, str(job), query)
        return b"".join(output.parts()).decode("utf-8", "replace")

    def follow(
        self,
        job: JobId,
        *,
        stream: str = "both",
        tail: Optional[int] = None,
        attempt: Optional[int] = None,
        rank: Optional[int] = None,
    ) -> Logs:
        """The output of a job as lines, as they come, until the job has ended."""
        query = {"stream": stream, "tail": tail, "attempt": attempt, "rank": rank, "follow": True}
        return Logs(Output(self._transport, str(job), query))

    def metrics(
        self,
        job: JobId,
        *,
        since: Optional[str] = None,
        until: Optional[str] = None,
        points: Optional[int] = None,
    ) -> JobMetrics:
        """The use of a job's GPUs over time, and the metrics that it reports."""
        query = {"since": since, "until": until, "points": points}
        path = f"/jobs/{escaped(job)}/metrics"
        answer: JobMetrics = self._transport.ask("GET", path, query=query)
        return answer

    def why(self, job: JobId) -> Why:
        """Why a job waits, when it likely starts, and what would start it sooner."""
        answer: Why = self._transport.ask("GET", f"/jobs/{escaped(job)}/why")
        return answer

    # The cluster

    def events(self, after: Optional[str] = None) -> Events:
        """Events as they come, from now or after the event with an ID. It resumes by itself after
        a lost connection; `Events.last` is the ID to continue after in another process."""
        return Events(self._transport, after)

    def quota(self) -> QuotaOverview:
        """Quota, usage and loans of each project."""
        answer: QuotaOverview = self._transport.ask("GET", "/quota")
        return answer

    def gpus(self) -> list[Gpu]:
        """All GPUs with their states and jobs."""
        items: list[Gpu] = self._transport.ask("GET", "/gpus")["items"]
        return items

    def nodes(self) -> list[Node]:
        """All nodes."""
        items: list[Node] = self._transport.ask("GET", "/nodes")["items"]
        return items

    def status(self) -> Status:
        """The state of the server and its cluster, in short."""
        answer: Status = self._transport.ask("GET", "/status")
        return answer

    def version(self) -> Version:
        """Name and version of the server."""
        answer: Version = self._transport.ask("GET", "/version")
        return answer


def _joined(texts: Optional[Texts]) -> Optional[str]:
    return texts if texts is None or isinstance(texts, str) else ",".join(texts)


def _new_key() -> str:
    from uuid import uuid4

    return uuid4().hex
