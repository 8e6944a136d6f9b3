"""Tests of the driver of sweeps with Optuna and jobs that a fake client runs."""

import math
import statistics
import unittest
import warnings

import optuna

from gpool import sweep
from gpool.errors import NotFound, Refused

optuna.logging.set_verbosity(optuna.logging.ERROR)
# The fake client knows a step at once, or never.
sweep.STEP_PAUSE = 0.0


def branin(at):
    x, y = float(at["x"]), float(at["y"])
    b, c, t = 5.1 / (4 * math.pi**2), 5 / math.pi, 1 / (8 * math.pi)
    return (y - b * x**2 + c * x - 6) ** 2 + 10 * (1 - t) * math.cos(x) + 10


def hartmann(at):
    x = [float(at[f"x{i}"]) for i in range(6)]
    alpha = (1.0, 1.2, 3.0, 3.2)
    a = (
        (10, 3, 17, 3.5, 1.7, 8),
        (0.05, 10, 17, 0.1, 8, 14),
        (3, 3.5, 1.7, 10, 17, 8),
        (17, 8, 0.05, 10, 0.1, 14),
    )
    p = (
        (1312, 1696, 5569, 124, 8283, 5886),
        (2329, 4135, 8307, 3736, 1004, 9991),
        (2348, 1451, 3522, 2883, 3047, 6650),
        (4047, 8828, 8732, 5743, 1091, 381),
    )
    inner = (sum(a[i][j] * (x[j] - p[i][j] / 1e4) ** 2 for j in range(6)) for i in range(4))
    return -sum(weight * math.exp(-it) for weight, it in zip(alpha, inner))


def mixed(at):
    cost = (math.log10(float(at["lr"])) + 3) ** 2 / 4 + abs(int(at["layers"]) - 5) / 10
    return cost + {"adam": 0.0, "sgd": 0.3}[at["optimizer"]] + (float(at["drop"]) - 0.2) ** 2


def number(low, high, is_log=False, is_int=False, step=None):
    return {"low": low, "high": high, "is_log": is_log, "is_int": is_int, "step": step}


FUNCTIONS = {
    branin: [
        {"name": "x", "range": number(-5, 10)},
        {"name": "y", "range": number(0, 15)},
    ],
    hartmann: [{"name": f"x{i}", "range": number(0, 1)} for i in range(6)],
    mixed: [
        {"name": "lr", "range": number(1e-5, 0.1, is_log=True)},
        {"name": "layers", "range": number(1, 12, is_int=True)},
        {"name": "optimizer", "values": ["adam", "sgd"]},
        {"name": "drop", "range": number(0, 0.5)},
    ],
}
BEST = {branin: 0.397887, hartmann: -3.32237, mixed: 0.0}


class Kill(Exception):
    """Stands for kill -9 of a driver."""


class FakeClient:
    """Runs trials in memory. `metrics(params, n_looks)` are those of a trial after so many looks,
    and None once it has ended."""

    def __init__(self, metrics):
        self.trial_metrics = metrics
        self.arrays = {}
        self.keys = {}
        self.kill_at = None
        self.n_calls = 0

    def _call(self):
        self.n_calls += 1
        if self.n_calls == self.kill_at:
            raise Kill

    def submit(self, *, request, group, key):
        self._call()
        params = list(zip(request["table"]["names"], request["table"]["rows"][0]))
        if key in self.keys and self.keys[key] != params:
            raise Refused("used", code=sweep.KEY_REUSED)
        if key not in self.keys:
            self.keys[key] = params
            job = str(len(self.arrays) + 1)
            self.arrays[job] = {
                "id": f"{job}.0",
                "state": "running",
                "request": {"group": group},
                "usage": {"metrics": {}},
                "element": {"params": params},
                "n_looks": 0,
            }
        self._call()
        return {
            "id": next(it for it, job in self.arrays.items() if job["request"]["group"] == group)
        }

    def jobs(self, *, group, state):
        self._call()
        return [{"id": job, "request": it["request"]} for job, it in self.arrays.items()]

    def elements(self, array):
        return [self.arrays[array]]

    def job(self, element):
        self._call()
        job = self.arrays[element.split(".")[0]]
        if job["state"] == "running":
            found = self.trial_metrics(dict(job["element"]["params"]), job["n_looks"])
            job["n_looks"] += 1
            if found is None:
                job["state"] = "succeeded"
            else:
                job["usage"]["metrics"] = found
        return job

    def metrics(self, element, *, points):
        raise NotFound(element)

    def cancel(self, element):
        self._call()
        self.arrays[element.split(".")[0]]["state"] = "cancelled"

    def events(self):
        return self

    def next(self, timeout):
        return None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def plan(parameters, **more):
    return {
        "study": "s",
        "method": "bayes",
        "metric": "loss",
        "goal": "min",
        "n_trials": 12,
        "n_parallel": 4,
        "seed": 1,
        "parameters": parameters,
        "job": {},
        **more,
    }


def once(function):
    """The metrics of a trial that reports once and ends."""
    return lambda params, n_looks: {"loss": function(params)} if n_looks == 0 else None


def driver_best(function, seed, n_trials):
    client = FakeClient(once(function))
    driver = sweep.Driver(
        plan(FUNCTIONS[function], seed=seed, n_trials=n_trials, n_parallel=8), client
    )
    assert driver.run() == 0
    assert len(client.arrays) == n_trials
    return driver.best().value - BEST[function]


def optuna_best(function, seed, n_trials):
    """The best value of Optuna alone, with as many trials at once."""
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    study = optuna.create_study(sampler=sampler)
    kinds = {it["name"]: sweep.distribution(it) for it in FUNCTIONS[function]}
    live = []
    while len(study.trials) < n_trials or live:
        while len(live) < 8 and len(study.trials) < n_trials:
            live.append(study.ask(dict(kinds)))
        for trial in live:
            study.tell(trial, function(trial.params))
        live = []
    return study.best_value - BEST[function]


class SweepTest(unittest.TestCase):
    def test_it_comes_close_to_a_target(self):
        def accuracy(params):
            return float(params["x"])

        client = FakeClient(once(accuracy))
        x = {"name": "x", "range": {"low": 0.0, "high": 1.0, "is_log": False, "step": None}}
        x["range"]["is_int"] = False
        driver = sweep.Driver(plan([x], goal="0.25", n_trials=40), client)
        self.assertEqual(driver.run(), 0)
        self.assertLess(abs(driver.best().params["x"] - 0.25), 0.05)
        self.assertIn("from 0.25", driver.shown(driver.best().value))

    def setUp(self):
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)

    def test_it_finds_what_optuna_finds(self):
        for function in FUNCTIONS:
            with self.subTest(function.__name__):
                seeds = range(5)
                own = statistics.median(driver_best(function, seed, 60) for seed in seeds)
                other = statistics.median(optuna_best(function, seed, 60) for seed in seeds)
                print(f"{function.__name__}: {own:.3g} regret, Optuna alone {other:.3g}")
                self.assertLessEqual(own, 1.2 * other + 1e-9)

    def test_a_killed_driver_repeats_no_trial(self):
        whole = FakeClient(once(mixed))
        self.assertEqual(sweep.Driver(plan(FUNCTIONS[mixed]), whole).run(), 0)
        for kill_at in range(1, whole.n_calls):
            client = FakeClient(once(mixed))
            client.kill_at = kill_at
            with self.assertRaises(Kill):
                sweep.Driver(plan(FUNCTIONS[mixed]), client).run()
            self.assertEqual(sweep.Driver(plan(FUNCTIONS[mixed], seed=2), client).run(), 0)
            groups = [it["request"]["group"] for it in client.arrays.values()]
            self.assertEqual(sorted(groups), sorted(f"s/trial/{n}" for n in range(12)), kill_at)

    def test_two_drivers_of_one_study_share_its_trials(self):
        client = FakeClient(once(mixed))
        one = sweep.Driver(plan(FUNCTIONS[mixed]), client)
        other = sweep.Driver(plan(FUNCTIONS[mixed], seed=2), client)
        one.restore()
        other.restore()
        one.submit_trials()
        other.submit_trials()
        self.assertEqual(set(one.live), set(other.live))
        self.assertEqual(other.run(), 0)
        self.assertEqual(one.run(), 0)
        self.assertEqual(len(client.arrays), 12)

    def test_trials_without_a_usable_metric_fail(self):
        answers = iter([{}, {"loss": math.nan}, {"other": 1.0}, {"loss": 0.5}] * 3)
        reported = {}

        def metrics(params, n_looks):
            if n_looks:
                return None
            key = tuple(params.items())
            return reported.setdefault(key, next(answers))

        client = FakeClient(metrics)
        driver = sweep.Driver(plan(FUNCTIONS[branin]), client)
        self.assertEqual(driver.run(), 0)
        states = [trial.state.name for trial in driver.study.trials]
        self.assertEqual((states.count("COMPLETE"), states.count("FAIL")), (3, 9))
        none = sweep.Driver(plan(FUNCTIONS[branin]), FakeClient(lambda *_: None))
        self.assertEqual(none.run(), 1)

    def test_bad_trials_end_early(self):
        def metrics(params, n_looks):
            if n_looks > 30:
                return None
            return {"loss": mixed(params) + 1 / (n_looks + 1), "step": n_looks}

        rules = [
            {"kind": "median"},
            {"kind": "asha", "min_steps": 2, "factor": 3},
            {"kind": "hyperband", "min_steps": 2, "max_steps": 30, "factor": 3},
        ]
        for rule in rules:
            with self.subTest(rule["kind"]):
                client = FakeClient(metrics)
                driver = sweep.Driver(plan(FUNCTIONS[mixed], n_trials=30, early_stop=rule), client)
                self.assertEqual(driver.run(), 0)
                states = [job["state"] for job in client.arrays.values()]
                self.assertIn("cancelled", states)
                self.assertIn("succeeded", states)
                best = min(
                    (job for job in client.arrays.values() if job["state"] == "succeeded"),
                    key=lambda job: job["usage"]["metrics"]["loss"],
                )
                self.assertEqual(
                    driver.best().value, best["usage"]["metrics"]["loss"], rule["kind"]
                )

    def test_a_trial_that_ends_while_it_is_cancelled_ends_by_itself(self):
        def metrics(params, n_looks):
            return None if n_looks > 3 else {"loss": mixed(params), "step": n_looks}

        client = FakeClient(metrics)

        def cancel(element):
            client.arrays[element.split(".")[0]]["state"] = "succeeded"
            raise Refused("job has already ended", code=sweep.ENDED_BEFORE)

        client.cancel = cancel
        rule = {"kind": "asha", "min_steps": 1, "factor": 2}
        driver = sweep.Driver(plan(FUNCTIONS[mixed], early_stop=rule), client)
        self.assertEqual(driver.run(), 0)
        states = [trial.state.name for trial in driver.study.trials]
        self.assertEqual(states.count("COMPLETE"), 12)

    def test_a_new_driver_compares_trials_with_those_of_the_last_one(self):
        def metrics(params, n_looks):
            n_most = 30 if params["x"] == "9" else 3
            return None if n_looks > n_most else {"loss": float(params["x"]), "step": n_looks}

        x = {"name": "x", "values": ["2", "1", "9"]}
        for kind in ("asha", "hyperband"):
            with self.subTest(kind):
                client = FakeClient(metrics)
                rule = {"kind": kind, "min_steps": 1, "max_steps": 9, "factor": 2}
                more = {"method": "grid", "n_parallel": 1, "early_stop": rule}
                first = sweep.Driver(plan([x], n_trials=2, **more), client)
                self.assertEqual(first.run(), 0)
                self.assertEqual(sweep.Driver(plan([x], n_trials=3, **more), client).run(), 0)
                states = [job["state"] for job in client.arrays.values()]
                self.assertEqual(states, ["succeeded", "succeeded", "cancelled"])

    def test_a_grid_with_early_stopping_has_each_combination_once(self):
        parameters = [
            {"name": "a", "values": ["x", "y"]},
            {"name": "b", "range": number(1, 3, is_int=True)},
            {"name": "c", "range": number(0, 0.3, step=0.1)},
        ]
        client = FakeClient(once(lambda params: float(params["c"])))
        driver = sweep.Driver(
            plan(parameters, method="grid", n_trials=100, early_stop={"kind": "median"}), client
        )
        self.assertEqual(driver.run(), 0)
        rows = {
            tuple(value for _, value in job["element"]["params"]) for job in client.arrays.values()
        }
        self.assertEqual(len(client.arrays), 24)
        self.assertEqual(len(rows), 24)
        self.assertIn(("y", "3", "0.3"), rows)

    def test_a_refusal_ends_the_sweep_with_its_reason(self):
        client = FakeClient(once(mixed))

        def refuse(**_):
            raise Refused("no such project", code="GP0601")

        client.submit = refuse
        with self.assertRaisesRegex(sweep.DriverError, "no such project"):
            sweep.Driver(plan(FUNCTIONS[mixed]), client).run()

    def test_texts_stay_in_their_range(self):
        kind = sweep.distribution({"name": "x", "range": number(0.1234567, 0.1234569)})
        for value in (0.1234567, 0.12345678, 0.1234569):
            text = sweep.text_of(value, kind)
            self.assertEqual(sweep.value_of(text, kind), float(text))
        steps = sweep.distribution({"name": "x", "range": number(0, 1, step=0.1)})
        self.assertEqual(sweep.text_of(0.1 * 3, steps), "0.3")
        self.assertEqual(sweep.value_of("0.3", steps), 0.3)
        self.assertIsNone(sweep.value_of("2", steps))
        self.assertIsNone(sweep.value_of("x", steps))


if __name__ == "__main__":
    unittest.main()
