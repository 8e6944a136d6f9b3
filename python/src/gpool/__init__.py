"""Client of gpool, which gives GPUs to jobs.

>>> import gpool
>>> client = gpool.Client()
>>> job = client.submit(["echo", "hello"])
>>> client.wait(job["id"])["state"]
'succeeded'
>>> client.logs(job["id"])
'hello\\n'
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import aio, types
    from .client import Client
    from .errors import (
        GpoolError,
        JobFailed,
        NotFound,
        Refused,
        RemoteError,
        TimedOut,
        Unreachable,
    )
    from .executor import Executor
    from .job import Item, items, on_reclaim, report

__all__ = [
    "Client",
    "Executor",
    "GpoolError",
    "Item",
    "JobFailed",
    "NotFound",
    "Refused",
    "RemoteError",
    "TimedOut",
    "Unreachable",
    "aio",
    "items",
    "on_reclaim",
    "report",
    "types",
]

#: The module of each name. They are imported at first use: jobs import gpool only to report.
_MODULES = {
    "Client": "client",
    "Executor": "executor",
    "GpoolError": "errors",
    "Item": "job",
    "JobFailed": "errors",
    "NotFound": "errors",
    "Refused": "errors",
    "RemoteError": "errors",
    "TimedOut": "errors",
    "Unreachable": "errors",
    "aio": "",
    "items": "job",
    "on_reclaim": "job",
    "report": "job",
    "types": "",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("gpool")
    if name not in _MODULES:
        raise AttributeError(f"module 'gpool' has no attribute {name!r}")
    from importlib import import_module

    module = _MODULES[name]
    if not module:
        return import_module(f".{name}", __name__)
    value = getattr(import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
