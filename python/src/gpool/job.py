"""Used inside a job: metrics, items of a map, and the signal to leave."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Optional, Union

#: The names of metrics that gpool takes.
NAME = re.compile(r"[A-Za-z0-9_./:@%+-]{1,64}\Z")
#: Most metrics of a job.
METRICS_MAX = 32

_warned: set[str] = set()
_names: set[str] = set()


def report(
    metrics: Optional[Mapping[str, Any]] = None,
    /,
    *,
    step: Optional[int] = None,
    **more: Any,
) -> None:
    """Reports metrics of this job: `report(loss=0.31, step=120)`.

    Values are numbers, also of NumPy and tensors with one element. A name that is no keyword goes
    into a dictionary: `report({"val/loss": 0.4}, step=120)`. gpool reads the metrics from standard
    output, one line of JSON for each call; outside of a job the line is only printed. Values that
    are not finite are left out, with one warning for each name.
    """
    values = {}
    for name, value in {**(metrics or {}), **more}.items():
        if not isinstance(name, str) or not NAME.match(name):
            raise ValueError(
                f"{name!r} can't name a metric: a name has 1 to 64 ASCII letters, digits and "
                "_ . / : @ % + -"
            )
        number = _number(name, value)
        if math.isfinite(number):
            values[name] = number
        else:
            _warn(name, f"metric {name} is {number}, which is no finite number: left out")
    _names.update(values)
    if len(_names) > METRICS_MAX:
        _warn("", f"gpool keeps {METRICS_MAX} metrics of a job; this one has {len(_names)}")
    line: dict[str, Any] = {"metrics": values}
    if step is not None:
        line["step"] = _step(step)
    if values or step is not None:
        # One write, so that threads do not mix their lines.
        sys.stdout.write(json.dumps({"gpool": line}) + "\n")
        sys.stdout.flush()


def _number(name: str, value: Any) -> float:
    if isinstance(value, (str, bytes)):
        raise TypeError(f"metric {name} is {value!r}, and must be a number")
    try:
        return float(value)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"metric {name} is a {type(value).__name__}, not a number") from None


def _step(step: Any) -> int:
    try:
        return int(step)
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"step is {step!r}, and must be a whole number") from None


def _warn(key: str, text: str) -> None:
    if key not in _warned:
        import warnings

        _warned.add(key)
        warnings.warn(text, RuntimeWarning, stacklevel=3)


def on_reclaim(
    callback: Callable[[], object],
    *,
    signal: Union[str, int] = "TERM",
    exit: bool = True,
) -> None:
    """Calls `callback` once when gpool asks this job to leave its GPUs, to save its state.

    gpool sends `TERM` when it preempts or reclaims the job, and also when the job is cancelled or
    reaches its time limit. Name the signal of `--checkpointable` or `--stop-signal` if the job has
    another one. After the grace period gpool kills the process.

    With `exit` the process ends after the callback, by SystemExit; without, the program ends by
    itself, for example after its next step. Call this in the main thread; Python runs the callback
    there, between two instructions, so a long call into a library delays it. Forked processes get
    the signal, too, and end by it without the callback.
    """
    import signal as signals

    number = _signal_number(signal)
    if not callable(callback):
        raise TypeError(f"callback is a {type(callback).__name__}, which can't be called")

    process = os.getpid()

    def leave(received: int, _frame: object) -> None:
        if os.getpid() != process:
            # A forked process gets the signal, too: it is for the whole group.
            signals.signal(number, signals.SIG_DFL)
            os.kill(os.getpid(), received)
            return
        # A second signal must not interrupt the callback.
        signals.signal(number, signals.SIG_IGN)
        callback()
        if exit:
            sys.exit(128 + received)

    signals.signal(number, leave)


def _signal_number(signal: Union[str, int]) -> int:
    import signal as signals

    if isinstance(signal, str):
        name = signal.upper()
        name = name if name.startswith("SIG") else f"SIG{name}"
        if name in signals.Signals.__members__:
            return signals.Signals[name]
    elif signal in {member.value for member in signals.Signals}:
        return int(signal)
    raise ValueError(f"there is no signal {signal!r}; try TERM, USR1 or INT")


class Item:
    """An item of `gpool map`. `value` is a text, or what the list has in JSON."""

    def __init__(self, number: int, value: Any) -> None:
        self.number = number
        self.value = value

    def __repr__(self) -> str:
        return f"Item({self.number}, {self.value!r})"

    def done(self, result: Any = None) -> None:
        """Says that the item is handled. `result` is anything that JSON has."""
        answer = {"done": self.number}
        if result is not None:
            answer["result"] = result
        self._say(answer)

    def failed(self, why: object) -> None:
        """Says that the item can't be handled now; it is tried again."""
        self._say({"failed": self.number, "why": str(why)})

    @staticmethod
    def _say(answer: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"gpool": answer}) + "\n")
        sys.stdout.flush()


def items() -> Iterator[Item]:
    """The items that `gpool map` gives to this program, until there are no more. Say `done` or
    `failed` for each, in any order."""
    for line in sys.stdin:
        fields = json.loads(line)
        yield Item(fields["id"], fields["item"])
