"""Functions as jobs, by the interface of `concurrent.futures`."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from functools import partial
from typing import TYPE_CHECKING, Any, Optional

from .client import ENDED, Client
from .errors import GpoolError, JobFailed, Unreachable
from .spool import Batch, check_importable, dumps, usual

if TYPE_CHECKING:
    from .types import Job

#: The program of a job: the folder of the package, then the folder of the batch.
PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from gpool._worker import main; main(sys.argv[2])"
)
#: Seconds to wait for a result that a shared folder may show late.
RESULT_PATIENCE = 10.0
#: Seconds between two tries to reach a server that stays away.
PAUSE = 1.0


class JobFuture(futures.Future):  # type: ignore[type-arg]
    """The result of a call. `job_id` is the job that computes it, `"17"` or `"17.3"`."""

    def __init__(self, executor: Executor, index: int) -> None:
        super().__init__()
        self.job_id = ""
        self._executor = executor
        self._index = index

    def cancel(self) -> bool:
        """Cancels the job if it has not started; returns whether it did."""
        if self.cancelled():
            return True
        self._executor._cancel([self])
        return self.cancelled()

    def _give_up(self) -> bool:
        """Marks it as cancelled, if it has not started."""
        if self.cancelled() or not super().cancel():
            return False
        self.set_running_or_notify_cancel()
        return True


class _Pending:
    """A batch with its futures that are not done."""

    def __init__(self, batch: Batch, all_futures: list[JobFuture]) -> None:
        self.batch = batch
        self.job_id = ""
        self.by_job: dict[str, JobFuture] = {}
        self.all = all_futures

    def name(self, job_id: str) -> None:
        """Takes note of the job, or the array with an element for each future."""
        self.job_id = job_id
        for future in self.all:
            future.job_id = job_id if len(self.all) == 1 else f"{job_id}.{future._index}"
            self.by_job[future.job_id] = future


class Executor(futures.Executor):
    """Runs functions as jobs: `Executor(gpus=1)`.

    The options are those of `Client.submit`: `gpus`, `cpus`, `mem`, `time`, `pool`, `retry` and so
    on. They hold for all jobs of this executor. Calls and results travel through `spool`, a folder
    that this machine and the nodes share, by default `~/.cache/gpool/executor`. `python` is the
    interpreter of the jobs; it needs gpool and what the functions import.

    Leaving the `with` block waits for all jobs; leaving it by an exception cancels them.
    """

    def __init__(
        self,
        client: Optional[Client] = None,
        *,
        spool: Optional[str] = None,
        python: Optional[str] = None,
        result_bytes_max: int = 1 << 30,
        **options: Any,
    ) -> None:
        for name in ("command", "script", "array", "params", "items", "request", "key"):
            if name in options:
                raise TypeError(f"an executor has no option {name}: it sets that itself")
        self._client = client or Client()
        self._spool = os.path.abspath(spool or usual())
        self._python = python or sys.executable
        self._result_bytes_max = result_bytes_max
        self._options = options
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._pending: dict[str, _Pending] = {}
        self._is_shut = False
        self._events = self._client.events()
        self._thread: Optional[threading.Thread] = None

    # The interface of futures.Executor

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> JobFuture:
        """Submits a job that calls `fn`; returns its future result."""
        call = dumps((args, kwargs), "the arguments")
        return self._submit(fn, [call], fn)[0]

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: Optional[float] = None,
        chunksize: int = 1,
    ) -> Iterator[Any]:
        """Calls `fn` for each item and returns the results in order. All calls are one array, and
        each of its elements makes `chunksize` calls."""
        if chunksize < 1:
            raise ValueError("chunksize must be at least 1")
        end = None if timeout is None else time.monotonic() + timeout
        calls = list(zip(*iterables))
        if not calls:
            return iter(())
        parts = [calls[at : at + chunksize] for at in range(0, len(calls), chunksize)]
        contents = (dumps(((part,), {}), "the arguments") for part in parts)
        return self._results(self._submit(partial(_each, fn), contents, fn), end)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Takes no further calls. With `wait`, waits for all jobs; `cancel_futures` cancels those
        that have not started."""
        with self._lock:
            self._is_shut = True
            left = [future for pending in self._pending.values() for future in pending.all]
        if cancel_futures:
            self._cancel(left)
        if wait:
            futures.wait(left)
        self._close_if_done()
        if wait and self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Optional[bool]:
        if kind is not None:
            with self._lock:
                self._is_shut = True
                jobs = [pending.job_id for pending in self._pending.values()]
                left = [future for pending in self._pending.values() for future in pending.all]
            for future in left:
                future._give_up()
            self._cancel_jobs(jobs)
        self.shutdown(wait=True)
        return None

    # Submission

    def _submit(self, function: Any, calls: Iterable[bytes], named: Any) -> list[JobFuture]:
        """Submits calls of a function as one job or array, with the name of another."""
        if os.getpid() != self._pid:
            raise RuntimeError("this executor belongs to the parent process: create another one")
        check_importable(named)
        content = dumps(function, "the function")
        header = {"path": sys.path, "result_bytes_max": self._result_bytes_max}
        batch, n_calls = Batch.create(self._spool, content, calls, header)
        made = [JobFuture(self, index) for index in range(n_calls)]
        pending = _Pending(batch, made)
        options = dict(self._options)
        name = getattr(named, "__name__", "call")
        options.setdefault("name", name.strip("<>") or "call")
        if n_calls > 1:
            options["array"] = f"0-{n_calls - 1}"
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        command = [self._python, "-c", PROGRAM, root, batch.folder]
        # Events wait for the lock, so they find each job that they report.
        with self._lock:
            try:
                if self._is_shut:
                    raise RuntimeError("cannot schedule new futures after shutdown")
                pending.name(self._client.submit(command, **options)["id"])
            except BaseException:
                batch.remove()
                raise
            self._pending[pending.job_id] = pending
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="gpool", daemon=True)
                self._thread.start()
        return made

    def _results(self, made: list[JobFuture], end: Optional[float]) -> Iterator[Any]:
        def results() -> Iterator[Any]:
            try:
                for future in made:
                    left = None if end is None else end - time.monotonic()
                    yield from future.result(left)
            finally:
                self._cancel(made)

        return results()

    # Cancellation

    def _cancel(self, some: list[JobFuture]) -> None:
        """Cancels the jobs of those futures that have not started."""
        given_up = [future for future in some if future._give_up()]
        with self._lock:
            jobs = []
            for future in given_up:
                pending = self._pending.get(future.job_id.partition(".")[0])
                if pending is None:
                    continue
                if all(other.done() for other in pending.all):
                    jobs.append(pending.job_id)
                    del self._pending[pending.job_id]
                    pending.batch.remove()
                else:
                    jobs.append(future.job_id)
                    pending.by_job.pop(future.job_id, None)
        whole = {job for job in jobs if "." not in job}
        parts = [job for job in jobs if "." in job and job.partition(".")[0] not in whole]
        self._cancel_jobs([*whole, *parts])
        self._close_if_done()

    def _cancel_jobs(self, jobs: list[str]) -> None:
        if not jobs:
            return
        ask = self._client._transport.ask
        try:
            ask("POST", "/jobs/cancel", body={"jobs": jobs}, repeatable=True)
        except GpoolError:
            # All or none: one of them has ended.
            half = len(jobs) // 2
            if half:
                self._cancel_jobs(jobs[:half])
                self._cancel_jobs(jobs[half:])

    # Results

    def _watch(self) -> None:
        is_behind = False
        while True:
            try:
                if is_behind:
                    self._look_at_all()
                    is_behind = False
                for event in self._events:
                    if event["type"] == "resync":
                        self._look_at_all()
                    elif event["type"] == "job_state":
                        self._note(event["job"], event["state"])
                return
            except Unreachable:
                # The jobs continue without the server.
                is_behind = True
                time.sleep(PAUSE)
            except Exception as error:
                self._fail_all(error)
                return

    def _note(self, job_id: str, state: str) -> None:
        number = job_id.partition(".")[0]
        with self._lock:
            pending = self._pending.get(number)
        if pending is None:
            return
        future = pending.by_job.get(job_id)
        if future is not None:
            if state == "running" and not future.running() and not future.done():
                _starts(future)
            elif state in ENDED:
                self._settle(pending, future, state)
        elif job_id == number:
            # Elements that end before they start have only an event of their array.
            self._look_at(pending)

    def _look_at_all(self) -> None:
        with self._lock:
            all_pending = list(self._pending.values())
        for pending in all_pending:
            self._look_at(pending)

    def _look_at(self, pending: _Pending) -> None:
        if len(pending.all) == 1:
            jobs: Iterable[Job] = [self._client.job(pending.job_id)]
        else:
            jobs = self._client.elements(pending.job_id, state="ended")
        for job in list(jobs):
            future = pending.by_job.get(job["id"])
            if future is not None and job["state"] in ENDED:
                self._settle(pending, future, job["state"])

    def _settle(self, pending: _Pending, future: JobFuture, state: str) -> None:
        """Gives a future the result of its job, which has ended."""
        if not future.done():
            try:
                value, failure = self._found(pending, future, state)
            except Unreachable:
                raise
            except Exception as error:
                value, failure = None, error
            if not future.running() and not _starts(future):
                pass
            elif failure is not None:
                future.set_exception(failure)
            else:
                future.set_result(value)
        with self._lock:
            pending.by_job.pop(future.job_id, None)
            if not pending.by_job:
                self._pending.pop(pending.job_id, None)
                pending.batch.remove()
        self._close_if_done()

    def _found(self, pending: _Pending, future: JobFuture, state: str) -> Any:
        end = time.monotonic() + RESULT_PATIENCE
        found = pending.batch.result(future._index)
        while found is None and state == "succeeded" and time.monotonic() < end:
            time.sleep(0.1)
            found = pending.batch.result(future._index)
        if found is not None:
            return found
        job = self._client.job(future.job_id)
        run = job["run"]
        cause = run.get("cause_text") or f"{state} with exit code {run.get('exit_code')}"
        why = []
        if state == "succeeded":
            cause = "it wrote no result"
            why = [f"its node may not share {self._spool}: choose another folder by spool="]
        why.extend(self._last_lines(future.job_id))
        return None, JobFailed(f"job {future.job_id}: {cause}", job=job, why=why)

    def _last_lines(self, job_id: str) -> list[str]:
        try:
            return self._client.logs(job_id, tail=5).splitlines()
        except GpoolError:
            return []

    def _fail_all(self, error: Exception) -> None:
        with self._lock:
            left = [future for pending in self._pending.values() for future in pending.all]
            self._pending.clear()
            self._is_shut = True
        for future in left:
            if not future.done() and (future.running() or _starts(future)):
                future.set_exception(error)

    def _close_if_done(self) -> None:
        with self._lock:
            if self._is_shut and not self._pending:
                self._events.close()


def _starts(future: JobFuture) -> bool:
    """Marks a future as running; returns false if it was cancelled."""
    try:
        return future.set_running_or_notify_cancel()
    except Exception:
        return False


def _each(fn: Callable[..., Any], part: list[tuple[Any, ...]]) -> list[Any]:
    return [fn(*args) for args in part]
