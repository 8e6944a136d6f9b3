"""The driver of a sweep, which `gpool sweep` runs as a job without GPU: Optuna chooses the values
of each trial by the results of earlier ones, and which trials end early.

The jobs are the record of the sweep: each trial is an array of one element in the group
`NAME/trial/NUMBER`, submitted with that name as its idempotency key. A driver that starts again
reads them and goes on; it repeats no trial."""

from __future__ import annotations

import itertools
import json
import math
import os
import sys
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import TrialState

from .client import ENDED, Client
from .errors import TOO_MANY, NotFound, Refused
from .job import report

if TYPE_CHECKING:
    from .types import Job

#: The variable with the plan, as `gpool sweep` writes it.
VARIABLE = "_GPOOL_SWEEP"
#: Seconds between two looks at the metrics of running trials.
INTERVAL = 2.0
#: Looks at an ended trial whose last step is not known yet, and seconds between them.
LOOKS_AT_STEP = 3
STEP_PAUSE = 0.2
#: Another driver has submitted the trial.
KEY_REUSED = "GP0704"
#: The job has ended.
ENDED_BEFORE = "GP0701"
#: Points of a curve that a driver reads when it starts again.
POINTS = 2000


class DriverError(Exception):
    """The sweep can't go on; the message says why."""


@dataclass
class LiveTrial:
    """A trial whose job has not ended."""

    number: int
    #: The element that runs it, such as `17.0`.
    element: str
    trial: optuna.trial.Trial
    values: dict[str, str]
    #: The last step that Optuna has.
    step: Optional[int] = None
    is_pruned: bool = False


class Driver:
    """Runs a sweep to its end."""

    def __init__(self, plan: dict[str, Any], client: Client) -> None:
        self.plan = plan
        self.client = client
        self.study_name = str(plan["study"])
        self.metric = str(plan["metric"])
        goal = str(plan["goal"])
        #: The value to come close to, if the goal is neither `min` nor `max`.
        self.target = None if goal in ("min", "max") else float(goal)
        self.distributions = {it["name"]: distribution(it) for it in plan["parameters"]}
        self.live: dict[int, LiveTrial] = {}
        self.n_trials = 0
        self.study = self._new_study()

    def _new_study(self) -> optuna.Study:
        return optuna.create_study(
            study_name=self.study_name,
            direction="maximize" if self.plan["goal"] == "max" else "minimize",
            # Another seed after a restart: the same one would draw the same values again.
            sampler=sampler(self.plan["method"], self.plan["seed"] + self.n_trials),
            pruner=pruner(self.plan.get("early_stop")),
        )

    def run(self) -> int:
        """Runs until all trials have ended; returns the exit status."""
        with self.client.events() as events:
            self.restore()
            looked_at = -INTERVAL
            while True:
                self.submit_trials()
                if not self.live:
                    break
                event = events.next(INTERVAL)
                # An end is seen at once, and metrics now and then.
                now = time.monotonic()
                if event is None or self.is_about(event) or now - looked_at >= INTERVAL:
                    looked_at = now
                    self.look()
        best = self.best()
        if best is None:
            print(f"no trial has succeeded with a {self.metric}")
            return 1
        texts = {name: text_of(best.params[name], self.distributions[name]) for name in best.params}
        print(f"best: trial {best.number}, {self.shown(best.value)}: {words(texts)}")
        return 0

    def is_about(self, event: Any) -> bool:
        """Whether an event may be the end of a trial."""
        if event["type"] == "job_state":
            array = event["job"].split(".")[0]
            return any(live.element.split(".")[0] == array for live in self.live.values())
        return bool(event["type"] == "resync")

    def best(self) -> Optional[optuna.trial.FrozenTrial]:
        """The completed trial with the best value."""
        done = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        return self.study.best_trial if done else None

    def score(self, value: float) -> float:
        """What Optuna compares: a value of the metric, or its distance from the target."""
        return value if self.target is None else abs(value - self.target)

    def shown(self, score: Optional[float]) -> str:
        """A score in words."""
        if score is None:
            return f"no {self.metric}"
        end = "" if self.target is None else f" from {self.target:g}"
        return f"{self.metric} {score:g}{end}"

    # Trials from the jobs of the group

    def restore(self) -> None:
        """Reads the trials that earlier drivers submitted."""
        self.live = {}
        newest: dict[int, Job] = {}
        role = f"{self.study_name}/trial/"
        for job in self.client.jobs(group=self.study_name, state="all"):
            place = str(job["request"].get("group") or "")
            if place.startswith(role):
                number = int(place[len(role) :])
                # A trial that a user retried has a later job.
                if number not in newest or int(newest[number]["id"]) < int(job["id"]):
                    newest[number] = job
        self.n_trials = max(newest, default=-1) + 1
        self.study = self._new_study()
        for number in range(self.n_trials):
            self._restore_trial(number, newest.get(number))

    def _restore_trial(self, number: int, array: Optional[Job]) -> None:
        element = self._element(array) if array is not None else None
        if element is None:
            # Its job is no longer stored.
            self.study.add_trial(optuna.trial.create_trial(state=TrialState.FAIL))
            return
        own: Any = element.get("element") or {}
        texts = dict(own.get("params") or [])
        kinds, params = {}, {}
        for name, text in texts.items():
            kind = self.distributions.get(name)
            value = None if kind is None else value_of(text, kind)
            if kind is not None and value is not None:
                kinds[name], params[name] = kind, value
        self.study.add_trial(
            optuna.trial.create_trial(state=TrialState.RUNNING, params=params, distributions=kinds)
        )
        trial_id = self.study.get_trials(deepcopy=False)[number]._trial_id
        live = LiveTrial(number, element["id"], optuna.trial.Trial(self.study, trial_id), texts)
        if self.plan.get("early_stop"):
            self._repeat_reports(live, element)
        state = element["state"]
        if state not in ENDED:
            self.live[number] = live
            return
        value = self.value(element)
        outcome = outcome_of(state, value)
        self.study.tell(number, value if outcome == TrialState.COMPLETE else None, outcome)

    def _repeat_reports(self, live: LiveTrial, element: Job) -> None:
        """Tells Optuna the steps of a trial that an earlier driver saw, in their order: the pruner
        notes at each one which trials it compares."""
        reports = self.reports(element["id"])
        value = self.value(element)
        if not reports and value is not None:
            step = (element["usage"].get("metrics") or {}).get("step")
            reports = {int(step if step is not None else 1): value}
        for step in sorted(reports):
            live.step = step
            live.trial.report(reports[step], step)
            live.trial.should_prune()

    def _element(self, array: Job) -> Optional[Job]:
        for element in self.client.elements(array["id"]):
            # The list has no metrics.
            return self.client.job(element["id"])
        return None

    def reports(self, element: str) -> dict[int, float]:
        """The values of the metric by step, as far as they are stored."""
        try:
            found = self.client.metrics(element, points=POINTS)["metrics"]
        except NotFound:
            return {}
        points = {it["name"]: it["points"] for it in found}
        steps, values = points.get("step"), points.get(self.metric)
        if not steps or not values:
            return {}
        return {
            int(step): self.score(value)
            for step, value in zip(steps, values)
            if step is not None and value is not None
        }

    def value(self, element: Job) -> Optional[float]:
        """The score of the last value of a trial's metric: its end has it for good."""
        total: Any = element["usage"].get("total") or {}
        value: Optional[float] = total.get("objective")
        if value is None:
            value = (element["usage"].get("metrics") or {}).get(self.metric)
        return self.score(value) if value is not None and math.isfinite(value) else None

    # New trials

    def submit_trials(self) -> None:
        """Submits trials until enough run at once, or all are submitted."""
        while len(self.live) < self.plan["n_parallel"] and self.n_trials < self.plan["n_trials"]:
            number = self.n_trials
            if self.plan["method"] == "grid":
                point = combination(self.plan["parameters"], number)
                if point is None:
                    return
                self.study.enqueue_trial(point)
            trial = self.study.ask(dict(self.distributions))
            values = {
                name: text_of(trial.params[name], kind) for name, kind in self.distributions.items()
            }
            if not self._submit(number, trial, values):
                # Another driver has submitted the trial: its record counts.
                self.restore()

    def _submit(self, number: int, trial: optuna.trial.Trial, values: dict[str, str]) -> bool:
        table = {"names": list(values), "rows": [list(values.values())]}
        place = f"{self.study_name}/trial/{number}"
        while True:
            try:
                request: Any = {**self.plan["job"], "table": table}
                job = self.client.submit(request=request, group=place, key=place)
            except Refused as error:
                if error.code == KEY_REUSED:
                    return False
                if error.code in TOO_MANY:
                    time.sleep(INTERVAL)
                    continue
                raise DriverError(f"trial {number} is refused: {error}") from error
            self.n_trials = number + 1
            self.live[number] = LiveTrial(number, f"{job['id']}.0", trial, values)
            print(f"trial {number}: job {job['id']}, {words(values)}", flush=True)
            return True

    # Running trials

    def look(self) -> None:
        """Looks at each trial that has not ended."""
        for live in list(self.live.values()):
            element = self.client.job(live.element)
            if element["state"] in ENDED:
                self._end(live, element)
            elif self.plan.get("early_stop"):
                self._report(live, element)

    def _report(self, live: LiveTrial, element: Job) -> None:
        is_new = self._note(live, element)
        if is_new and not live.is_pruned and live.trial.should_prune():
            try:
                self.client.cancel(live.element)
            except Refused as error:
                # The next look sees its end.
                if error.code == ENDED_BEFORE:
                    return
                raise
            live.is_pruned = True
            print(f"trial {live.number}: ended early at step {live.step}", flush=True)

    def _note(self, live: LiveTrial, element: Job) -> bool:
        """Tells Optuna the last value of a trial; returns whether its step is new."""
        value = self.value(element)
        step = (element["usage"].get("metrics") or {}).get("step")
        if value is None or step is None or (live.step is not None and step <= live.step):
            return False
        live.step = int(step)
        live.trial.report(value, live.step)
        return True

    def _note_end(self, live: LiveTrial, element: Job) -> None:
        """Tells Optuna the last step of a trial that has ended. The end has the value, and the step
        is a metric, which comes from the node: it may take a moment."""
        for _ in range(LOOKS_AT_STEP):
            if self._note(live, element) or live.step is not None:
                break
            time.sleep(STEP_PAUSE)
            element = self.client.job(live.element)
        value = self.value(element)
        if live.step is None and value is not None:
            live.step = 1
            live.trial.report(value, live.step)
        live.trial.should_prune()

    def _end(self, live: LiveTrial, element: Job) -> None:
        del self.live[live.number]
        state, value = element["state"], self.value(element)
        outcome = outcome_of(state, value)
        if outcome == TrialState.COMPLETE and self.plan.get("early_stop"):
            # It may have ended before a look at its steps: later trials are compared with it, too.
            self._note_end(live, element)
        if outcome == TrialState.COMPLETE:
            self.study.tell(live.number, value)
            what = self.shown(value)
        elif outcome == TrialState.PRUNED:
            step = live.step if live.step is not None else 0
            if value is not None and live.step is None:
                live.trial.report(value, step)
            self.study.tell(live.number, state=TrialState.PRUNED)
            what = "ended early" if live.is_pruned else "cancelled"
        else:
            self.study.tell(live.number, state=TrialState.FAIL)
            what = f"no {self.metric} reported" if state == "succeeded" else state
        print(f"trial {live.number}: {what}", flush=True)
        done: dict[str, float] = {"trials": self.n_trials - len(self.live)}
        best = self.best()
        if best is not None and best.value is not None:
            kind = "best" if self.target is None else "distance"
            done[f"{kind}_{self.metric}"[:64]] = best.value
        report(done)


def outcome_of(state: str, value: Optional[float]) -> TrialState:
    """What the end of a job means for Optuna."""
    if state == "succeeded" and value is not None:
        return TrialState.COMPLETE
    if state == "cancelled" and value is not None:
        return TrialState.PRUNED
    return TrialState.FAIL


def distribution(parameter: dict[str, Any]) -> BaseDistribution:
    """The distribution of a parameter of the plan."""
    if "values" in parameter:
        return CategoricalDistribution(parameter["values"])
    it = parameter["range"]
    low, high, step, is_log = it["low"], it["high"], it["step"], it["is_log"]
    if it["is_int"]:
        return IntDistribution(int(low), int(high), log=is_log, step=int(step or 1))
    return FloatDistribution(low, high, log=is_log, step=step)


def sampler(method: str, seed: int) -> optuna.samplers.BaseSampler:
    """Chooses the values of trials."""
    if method == "bayes":
        # Trials run at once, so those without a result count as bad ones.
        return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    return optuna.samplers.RandomSampler(seed=seed)


def pruner(rule: Optional[dict[str, Any]]) -> optuna.pruners.BasePruner:
    """Chooses the trials that end early."""
    if rule is None:
        return optuna.pruners.NopPruner()
    if rule["kind"] == "median":
        return optuna.pruners.MedianPruner()
    if rule["kind"] == "asha":
        return optuna.pruners.SuccessiveHalvingPruner(
            min_resource=rule["min_steps"], reduction_factor=rule["factor"]
        )
    return optuna.pruners.HyperbandPruner(
        min_resource=rule["min_steps"],
        max_resource=rule["max_steps"] or "auto",
        reduction_factor=rule["factor"],
    )


def combination(parameters: list[dict[str, Any]], number: int) -> Optional[dict[str, Any]]:
    """The values of a trial of a grid; the last parameter changes fastest."""
    axes = [grid_values(parameter) for parameter in parameters]
    for values in itertools.islice(itertools.product(*axes), number, None):
        return {parameter["name"]: value for parameter, value in zip(parameters, values)}
    return None


def grid_values(parameter: dict[str, Any]) -> list[Any]:
    """All values of a parameter of a grid."""
    if "values" in parameter:
        return list(parameter["values"])
    it = parameter["range"]
    step = it["step"] or 1
    n = math.floor((it["high"] - it["low"]) / step + 0.001) + 1
    if it["is_int"]:
        return [int(it["low"] + at * step) for at in range(n)]
    return [float(f"{it['low'] + at * step:.12g}") for at in range(n)]


def text_of(value: Any, kind: BaseDistribution) -> str:
    """A value as the command of a trial has it."""
    if not isinstance(kind, FloatDistribution):
        return str(value)
    # Six digits, as metrics have, unless they leave the range.
    text = f"{value:.12g}" if kind.step is not None else f"{value:.6g}"
    return text if kind.low <= float(text) <= kind.high else repr(value)


def value_of(text: str, kind: BaseDistribution) -> Any:
    """The value of a text; None if the distribution, which has changed, does not have it."""
    try:
        if isinstance(kind, CategoricalDistribution):
            value: Any = text
        else:
            value = int(text) if isinstance(kind, IntDistribution) else float(text)
        return value if kind._contains(kind.to_internal_repr(value)) else None
    except (ValueError, TypeError):
        return None


def words(values: dict[str, Any]) -> str:
    """Values in one line."""
    return " ".join(f"{name}={value}" for name, value in values.items())


def main() -> int:
    """Runs the plan of the environment."""
    # Trials inherit the environment.
    text = os.environ.pop(VARIABLE, None)
    if not text:
        print("this is the driver of a sweep; submit one with gpool sweep", file=sys.stderr)
        return 2
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    try:
        with Client() as client:
            return Driver(json.loads(text), client).run()
    except DriverError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
