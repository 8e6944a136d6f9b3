"""Metrics and the signal to leave, in a job."""

import contextlib
import io
import json
import os
import signal
import unittest
import unittest.mock
import warnings

from support import Case, until

import gpool
from gpool import job as in_job


def reported(*args, **more):
    """The lines that a call prints."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        gpool.report(*args, **more)
    return [json.loads(line) for line in out.getvalue().splitlines()]


class Items(unittest.TestCase):
    def test_items_are_read_and_answered(self):
        lines = '{"id": 3, "item": "a.jpg"}\n{"id": 4, "item": {"n": 1}}\n'
        with unittest.mock.patch("sys.stdin", io.StringIO(lines)):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                first, second = gpool.items()
                second.failed(ValueError("no file"))
                first.done({"score": 0.5})
                first.done()
        self.assertEqual((first.value, second.value), ("a.jpg", {"n": 1}))
        self.assertEqual(
            [json.loads(line)["gpool"] for line in out.getvalue().splitlines()],
            [
                {"failed": 4, "why": "no file"},
                {"done": 3, "result": {"score": 0.5}},
                {"done": 3},
            ],
        )


class Reports(unittest.TestCase):
    def setUp(self):
        in_job._warned.clear()
        in_job._names.clear()

    def test_a_call_prints_one_line(self):
        expected = {"gpool": {"metrics": {"loss": 0.5, "val/loss": 1.0}, "step": 3}}
        self.assertEqual(reported({"val/loss": 1}, loss=0.5, step=3), [expected])
        with contextlib.redirect_stdout(io.StringIO()) as out:
            gpool.report(loss=1)
        self.assertTrue(out.getvalue().startswith('{"gpool"'))

    def test_values_that_are_not_finite_are_left_out_with_one_warning(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lines = reported(loss=float("nan"), lr=0.1, step=1) + reported(loss=float("inf"))
            huge = reported(large=10**400)
        self.assertEqual(lines, [{"gpool": {"metrics": {"lr": 0.1}, "step": 1}}])
        self.assertEqual(huge, [])
        self.assertEqual(len(caught), 2)
        self.assertIn("metric loss is nan", str(caught[0].message))

    def test_numbers_of_other_libraries_are_taken(self):
        class Tensor:
            def __float__(self):
                return 0.25

        self.assertEqual(reported(loss=Tensor())[0]["gpool"]["metrics"], {"loss": 0.25})

    def test_what_is_no_metric_is_refused(self):
        for metrics in ({"loss": "0.1"}, {"loss": None}, {"loss": [1, 2]}):
            with self.assertRaisesRegex(TypeError, "metric loss"):
                gpool.report(metrics)
        for name in ("", "a b", "x" * 65, "größe", 3, "line\n"):
            with self.assertRaisesRegex(ValueError, "can't name a metric"):
                gpool.report({name: 1})
        with self.assertRaisesRegex(TypeError, "step"):
            gpool.report(loss=1, step="first")

    def test_more_metrics_than_gpool_keeps_give_a_warning(self):
        with self.assertWarnsRegex(RuntimeWarning, "32 metrics"):
            reported({f"m{number}": 1 for number in range(33)})


class Reclaim(Case):
    def test_a_job_saves_its_state_when_another_one_gets_its_gpus(self):
        code = (
            "import gpool, os, time\n"
            "gpool.on_reclaim(lambda: open('saved', 'w').close(), signal='USR1')\n"
            "print('resumes' if os.path.exists('saved') else 'ready', flush=True)\n"
            "while not os.path.exists('saved'): time.sleep(0.02)\n"
        )
        with open("leave.py", "w", encoding="utf-8") as file:
            file.write(code)
        self.addCleanup(os.remove, "saved")
        words = ["python3", "leave.py"]
        job = self.client.submit(words, gpus=2, checkpoint="USR1@1m", exits="checkpoint")["id"]
        until("it is ready", lambda: "ready" in self.client.logs(job))
        urgent = self.client.submit(["true"], gpus=2, priority=10)["id"]
        self.assertEqual(self.ended(urgent)["state"], "succeeded")
        self.assertEqual(self.ended(job)["run"]["attempt"], 2)
        self.assertEqual(self.client.logs(job), "resumes\n")

    def test_a_cancelled_job_is_asked_by_term(self):
        code = (
            "import gpool, os, time\n"
            "gpool.on_reclaim(lambda: print('saved', flush=True))\n"
            "if os.fork(): print('ready', flush=True)\n"
            "while True: time.sleep(0.02)\n"
        )
        with open("term.py", "w", encoding="utf-8") as file:
            file.write(code)
        job = self.client.submit(["python3", "term.py"], grace=60)["id"]
        until("it is ready", lambda: "ready" in self.client.logs(job))
        self.client.cancel(job)
        self.assertEqual(self.ended(job)["run"]["exit_code"], 143)
        self.assertEqual(self.client.logs(job), "ready\nsaved\n")

    def test_what_is_no_signal_or_no_callback_is_refused(self):
        before = signal.getsignal(signal.SIGTERM)
        for name in ("SOON", 0, 999):
            with self.assertRaisesRegex(ValueError, "no signal"):
                gpool.on_reclaim(print, signal=name)
        with self.assertRaisesRegex(TypeError, "callback"):
            gpool.on_reclaim("save")
        self.assertEqual(signal.getsignal(signal.SIGTERM), before)


if __name__ == "__main__":
    unittest.main()
