"""Builds the body of a submission, with the defaults of `gpool submit`."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from .errors import Refused

#: Largest environment in bytes, as for the `gpool` command.
ENVIRONMENT_MAX = 600_000
#: The variables that a job in a container, or one with `clean_env`, gets.
CLEAN = (b"HOME", b"PATH", b"USER", b"LANG")
#: Fields that are lists of text; one text stands for a list of one.
LISTS = (
    "after",
    "after_one",
    "compat",
    "download",
    "exits",
    "mounts",
    "node",
    "not_node",
    "notify",
    "parts",
    "secrets",
    "where",
)
#: Fields that are text in the API, and may be numbers here.
TEXTS = ("array", "gpus", "gpu_share", "name", "note")

Command = Union[Sequence[Union[str, "os.PathLike[str]"]], None]


def body(
    command: Command,
    request: Optional[Mapping[str, Any]],
    fields: Mapping[str, Any],
    env: Optional[Mapping[str, str]],
    clean_env: bool,
    is_local: bool,
) -> dict[str, Any]:
    """The body of a request: `request`, then `fields` that are not None, then the defaults."""
    made = dict(request or {})
    made.update((name, value) for name, value in fields.items() if value is not None)
    if command is not None:
        if isinstance(command, (str, bytes)):
            raise TypeError('command is a list of words: ["python", "train.py"]')
        made["command"] = [os.fspath(word) for word in command]
    for name in LISTS:
        if isinstance(made.get(name), (str, int)):
            made[name] = [made[name]]
        if name in made:
            made[name] = [str(part) for part in made[name]]
    for name in TEXTS:
        if isinstance(made.get(name), (int, float)) and not isinstance(made[name], bool):
            made[name] = f"{made[name]:g}" if isinstance(made[name], float) else str(made[name])
    if isinstance(made.get("script"), (str, os.PathLike)):
        made["script"] = _script(made["script"])
    if isinstance(made.get("params"), Mapping):
        made["params"] = [
            {"name": name, "values": [str(value) for value in values]}
            for name, values in made["params"].items()
        ]
    if isinstance(made.get("retry"), int):
        made["retry"] = {"most": made["retry"]}
    if isinstance(made.get("directory"), os.PathLike):
        made["directory"] = os.fspath(made["directory"])
    _fill(made, env or {}, clean_env, is_local)
    return made


def _script(path: Any) -> dict[str, str]:
    with open(path, "rb") as file:
        content = file.read()
    name = os.path.basename(os.fspath(path))
    try:
        return {"name": name, "text": content.decode()}
    except UnicodeDecodeError:
        return {"name": name, "base64": base64.b64encode(content).decode()}


def _fill(made: dict[str, Any], env: Mapping[str, str], clean: bool, is_local: bool) -> None:
    """Adds the parts of a job that come from this process. Over the network, its folder and its
    variables mean nothing."""
    asked = {os.fsencode(name): os.fsencode(str(value)) for name, value in env.items()}
    if not is_local:
        passed = asked
    else:
        made.setdefault("directory", os.getcwd())
        if "umask" not in made:
            made["umask"] = _umask()
        if "environment" in made:
            passed = asked
        else:
            passed = {**_inherited(clean or made.get("image") is not None), **asked}
    size = sum(len(name) + len(value) + 2 for name, value in passed.items())
    if size > ENVIRONMENT_MAX:
        raise Refused(
            "the environment is too large to send with a job",
            code="GP0215",
            why=[f"it has {size // 1000} KB; the maximum is {ENVIRONMENT_MAX // 1000} KB"],
            try_=["clean_env=True   (passes only HOME, PATH, USER and LANG; env adds others)"],
        )
    texts = dict(made.get("environment", {}))
    other = b""
    for name, value in passed.items():
        try:
            texts[name.decode()] = value.decode()
        except UnicodeDecodeError:
            other += name + b"=" + value + b"\0"
    made["environment"] = texts
    if other:
        made["environment_bytes"] = base64.b64encode(other).decode()


def _inherited(clean: bool) -> dict[bytes, bytes]:
    in_job = b"GPOOL_JOB_ID" in os.environb or b"GPOOL_ALLOCATION" in os.environb
    return {
        name: value
        for name, value in os.environb.items()
        if (name in CLEAN or not clean) and not (in_job and _describes_job(name))
    }


def _describes_job(name: bytes) -> bool:
    """Whether a variable describes the job of this process, and not one that it submits."""
    if name.startswith(b"GPOOL_"):
        return not name.startswith(b"GPOOL_SUBMIT_")
    others = (b"SLURMD_NODENAME", b"SRUN_GPUS_PER_TASK", b"GFLOW_ARRAY_TASK_ID", b"GFLOW_JOB_ID")
    return name.startswith(b"SLURM_") and name != b"SLURM_CONF" or name in others


def _umask() -> Optional[int]:
    """The umask of this process; the system call can only read it by setting it."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("Umask:"):
                    return int(line.split()[1], 8)
    except (OSError, ValueError):
        pass
    return None
