"""Runs a call of `gpool.Executor` in a job, and writes its result into the spool folder."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from typing import Any

from .spool import Batch, dumps


def main(folder: str) -> None:
    """Runs the call of this job."""
    batch = Batch(folder)
    index = int(os.environ.get("GPOOL_ARRAY_INDEX") or 0)
    header = batch.header()
    sys.path.extend(path for path in header["path"] if path not in sys.path)
    try:
        function, args, kwargs = batch.call(index)
        value = function(*args, **kwargs)
    except Exception as error:
        traceback.print_exc()
        batch.write(index, _of_error(error))
        sys.exit(1)
    try:
        content = pickle.dumps(("value", dumps(value, "the result")))
        most = header["result_bytes_max"]
        if len(content) > most:
            raise ValueError(
                f"the result has {len(content)} bytes, and Executor(result_bytes_max={most}) "
                "allows fewer: write it to a file, and return its path"
            )
        batch.write(index, content)
    except Exception as error:
        traceback.print_exc()
        batch.write(index, _of_error(error))
        sys.exit(1)


def _of_error(error: Exception) -> bytes:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        content = dumps(error, "the exception")
    except Exception:
        content = None
    kind: Any = type(error)
    return pickle.dumps(
        ("error", content, f"{kind.__module__}.{kind.__qualname__}", _text(error), text)
    )


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:
        return "its text can't be read"
