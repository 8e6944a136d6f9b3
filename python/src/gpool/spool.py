"""The folder through which calls and results of an executor travel.

A batch has a folder with `header` (sys.path, limits), `function`, `calls` with their positions in
`index`, and `results`. Files are pickles, so only the user may write them.
"""

from __future__ import annotations

import os
import pickle
import shutil
import struct
import tempfile
from collections.abc import Iterable
from typing import Any, Optional

from .errors import RemoteError

POSITION = struct.Struct("<Q")


def usual() -> str:
    """The usual folder for batches: in the home folder, which nodes mostly share."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "gpool", "executor")


def dumps(value: object, what: str) -> bytes:
    """Pickles a value, by cloudpickle if it is installed."""
    try:
        import cloudpickle  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        try:
            return pickle.dumps(value, protocol=4)
        except Exception as error:
            raise TypeError(
                f"{what} can't be pickled: {error}; pip install 'gpool[executor]' for lambdas and "
                "local functions"
            ) from error
    try:
        content: bytes = cloudpickle.dumps(value, protocol=4)
        return content
    except Exception as error:
        raise TypeError(f"{what} can't be pickled: {error}") from error


def check_importable(function: Any) -> None:
    """Checks that jobs can import a function, or that cloudpickle sends its code."""
    if getattr(function, "__module__", None) != "__main__":
        return
    try:
        import cloudpickle  # noqa: F401
    except ImportError:
        name = getattr(function, "__qualname__", function)
        raise TypeError(
            f"{name} is defined in the main program, which jobs can't import; "
            "pip install 'gpool[executor]', or move it into a module"
        ) from None


class Batch:
    """A folder with calls of one function."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    @classmethod
    def create(
        cls, spool: str, function: bytes, calls: Iterable[bytes], header: dict[str, Any]
    ) -> tuple[Batch, int]:
        """Writes a batch; returns it with the number of its calls."""
        os.makedirs(spool, mode=0o700, exist_ok=True)
        batch = cls(tempfile.mkdtemp(prefix="batch-", dir=spool))
        n_calls, at = 0, 0
        try:
            os.mkdir(batch._path("results"))
            with open(batch._path("function"), "wb") as file:
                file.write(function)
            with open(batch._path("calls"), "wb") as file, open(batch._path("index"), "wb") as ix:
                for content in calls:
                    ix.write(POSITION.pack(at))
                    at += file.write(content)
                    n_calls += 1
            with open(batch._path("header"), "wb") as file:
                pickle.dump(header, file, protocol=4)
        except BaseException:
            batch.remove()
            raise
        return batch, n_calls

    def _path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def _read(self, name: str) -> bytes:
        with open(self._path(name), "rb") as file:
            return file.read()

    def header(self) -> dict[str, Any]:
        """What all calls need."""
        found: dict[str, Any] = pickle.loads(self._read("header"))
        return found

    def call(self, index: int) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        """A call: the function with its arguments."""
        with open(self._path("index"), "rb") as file:
            file.seek(index * POSITION.size)
            (at,) = POSITION.unpack(file.read(POSITION.size))
        with open(self._path("calls"), "rb") as file:
            file.seek(at)
            args, kwargs = pickle.load(file)
        return pickle.loads(self._read("function")), args, kwargs

    def write(self, index: int, content: bytes) -> None:
        """Writes a result, as a whole or not at all."""
        path = self._path(os.path.join("results", str(index)))
        with open(f"{path}.new", "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)

    def result(self, index: int) -> Optional[tuple[Any, Optional[BaseException]]]:
        """The value or the exception of a call; None if there is no result."""
        try:
            content = self._read(os.path.join("results", str(index)))
        except FileNotFoundError:
            return None
        kind, *rest = pickle.loads(content)
        if kind == "value":
            return pickle.loads(rest[0]), None
        return None, _error(*rest)

    def remove(self) -> None:
        """Removes the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)


class _Traceback(Exception):
    """The traceback in the job, as the cause of its exception."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def _error(content: Optional[bytes], type_name: str, text: str, traceback: str) -> BaseException:
    error: Optional[BaseException] = None
    if content is not None:
        try:
            error = pickle.loads(content)
        except Exception:
            # One with arguments of its own can often be pickled, and not be read again.
            error = None
    if not isinstance(error, BaseException):
        error = RemoteError(f"{type_name}: {text}", type_name=type_name, traceback=traceback)
    error.__cause__ = _Traceback(traceback)
    return error
