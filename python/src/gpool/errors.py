"""Errors of gpool: what failed, why, and what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional


class GpoolError(Exception):
    """A request failed.

    `code` is the stable code that `gpool help CODE` explains, `why` has facts with numbers, and
    `try_` has commands or changes that would help.
    """

    def __init__(
        self,
        detail: str,
        *,
        code: str = "",
        why: Sequence[str] = (),
        try_: Sequence[str] = (),
        status: Optional[int] = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code
        self.why = list(why)
        self.try_ = list(try_)
        self.status = status

    def __str__(self) -> str:
        lines = [f"{self.detail} ({self.code})" if self.code else self.detail]
        lines.extend(f"  {fact}" for fact in self.why)
        lines.extend(f"  try  {remedy}" for remedy in self.try_)
        return "\n".join(lines)

    def __reduce__(self) -> Any:
        return _rebuilt, (type(self), self.detail, self.__dict__.copy())


class NotFound(GpoolError):
    """The server has no such job, node, project or path."""


class Refused(GpoolError):
    """The server refused the request: it is not valid, not permitted, or could never run."""


class Unreachable(GpoolError):
    """No server answers, or the connection to it was lost.

    `maybe_done` is true if the server may have carried out the request.
    """

    def __init__(self, detail: str, *, maybe_done: bool = False, **more: Any) -> None:
        super().__init__(detail, **more)
        self.maybe_done = maybe_done


class TimedOut(GpoolError, TimeoutError):
    """The time limit of a call has passed. Jobs continue."""


class JobFailed(GpoolError):
    """A job of an executor ended without a result. `job` is its last state in the API."""

    def __init__(self, detail: str, *, job: Optional[Mapping[str, Any]] = None, **more: Any):
        super().__init__(detail, **more)
        self.job = job


class RemoteError(GpoolError):
    """Stands for an exception of a job that can't be pickled, with its type and traceback."""

    def __init__(self, detail: str, *, type_name: str = "", traceback: str = "", **more: Any):
        super().__init__(detail, **more)
        self.type_name = type_name
        self.traceback = traceback


def _rebuilt(kind: type, detail: str, state: dict[str, Any]) -> GpoolError:
    error: GpoolError = kind(detail)
    error.__dict__.update(state)
    return error


#: Codes for a server that is starting, stopping or silent; a later request may succeed.
AWAY = ("GP0301", "GP0302", "GP0307", "GP0309")
#: Codes for too many requests or connections; the server did nothing.
TOO_MANY = ("GP0109", "GP0112")


def of_problem(status: int, problem: Mapping[str, Any]) -> GpoolError:
    """The error for a problem that the server reports."""
    code = str(problem.get("code") or "")
    detail = problem.get("detail") or problem.get("title") or f"HTTP status {status}"
    common: dict[str, Any] = {
        "code": code,
        "why": _texts(problem.get("why")),
        "try_": _texts(problem.get("try")),
        "status": status,
    }
    if code in AWAY:
        return Unreachable(str(detail), **common)
    kind = NotFound if status == 404 else Refused if 400 <= status < 500 else GpoolError
    return kind(str(detail), **common)


def _texts(value: object) -> list[str]:
    return [str(part) for part in value] if isinstance(value, list) else []
