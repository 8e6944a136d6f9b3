"""Functions as jobs."""

import asyncio
import glob
import operator
import os
import pickle
import shutil
import sys
import tempfile
import unittest
from concurrent import futures
from unittest import mock

import functions
from support import PATIENCE, Case, python, until

import gpool
from gpool import executor as module

#: The arguments of a call.
PAIR = pickle.dumps(((-2,), {}))


class ExecutorCase(Case):
    def setUp(self):
        super().setUp()
        self.spool = tempfile.mkdtemp(dir=os.getcwd())
        self.addCleanup(shutil.rmtree, self.spool)

    def executor(self, **options):
        return gpool.Executor(spool=self.spool, **options)

    def active(self, name):
        """The IDs of jobs with a name that have not ended."""
        return [job["id"] for job in self.client.jobs(name=name)]


class Results(ExecutorCase):
    def test_calls_return_their_results(self):
        with self.executor() as executor:
            future = executor.submit(functions.add, 1, other=2)
            self.assertIsInstance(executor, futures.Executor)
            self.assertIsInstance(future, futures.Future)
            self.assertEqual(future.result(PATIENCE), 3)
            self.assertEqual(self.client.job(future.job_id)["name"], "add")
            self.assertEqual(list(executor.map(operator.mul, range(5), [2] * 9)), [0, 2, 4, 6, 8])
            self.assertEqual(list(executor.map(functions.add, range(7), chunksize=3)), [*range(7)])
            self.assertEqual(list(executor.map(functions.add, [])), [])
            done, left = futures.wait([executor.submit(functions.add, 1)], timeout=PATIENCE)
            self.assertEqual((len(done), len(left)), (1, 0))
        self.assertEqual(os.listdir(self.spool), [])

    def test_jobs_get_the_options_of_the_executor(self):
        with self.executor(gpus=2, time="1h", name="mine", env={"TEST_SEED": "7"}) as executor:
            future = executor.submit(os.getenv, "TEST_SEED")
            self.assertEqual(future.result(PATIENCE), "7")
        job = self.client.job(future.job_id)
        self.assertEqual((job["name"], job["request"]["gpus"]), ("mine", "2"))

    def test_ten_thousand_items_are_one_array(self):
        with self.executor() as executor:
            found = list(executor.map(functions.add, range(10_000), chunksize=2_500))
            self.assertEqual(found, list(range(10_000)))
            with mock.patch.object(self.client, "submit", wraps=self.client.submit) as submit:
                executor._client, executor._options = self.client, {"hold": True, "name": "many"}
                results = executor.map(functions.add, range(10_000))
                self.assertEqual(submit.call_count, 1)
            (held,) = self.client.jobs(name="many")
            self.assertEqual(held["array"]["n_elements"], 10_000)
            executor.shutdown(wait=False, cancel_futures=True)
            with self.assertRaises(futures.CancelledError):
                next(results)
            self.assertEqual(self.ended(held["id"])["state"], "cancelled")

    def test_asyncio_waits_for_results(self):
        async def main():
            loop = asyncio.get_running_loop()
            with self.executor() as executor:
                first = loop.run_in_executor(executor, functions.add, 1)
                return await asyncio.gather(
                    first, asyncio.wrap_future(executor.submit(functions.add, 2))
                )

        self.assertEqual(asyncio.run(main()), [1, 2])

    def test_results_come_after_a_restart_of_the_server(self):
        path = os.path.join(self.spool, "go")
        with self.executor() as executor:
            futures_ = [executor.submit(functions.touch_and_wait, path)]
            until("it runs", lambda: os.path.exists(f"{path}.runs"))
            self.kill_server()
            futures_.append(executor.submit(functions.add, 1))
            open(path, "w").close()
            self.assertEqual([it.result(PATIENCE) for it in futures_], ["waited", 1])

    def test_results_come_although_events_were_missed(self):
        with self.executor() as executor:
            with mock.patch.object(executor, "_note"):
                made = [executor.submit(functions.add, 1), *executor._submit(abs, [PAIR] * 2, abs)]
                ids = {future.job_id.partition(".")[0] for future in made}
                self.client.wait(ids, timeout=PATIENCE)
                executor._look_at_all()
            self.assertEqual([future.result(0) for future in made], [1, 2, 2])


class Errors(ExecutorCase):
    def test_exceptions_have_the_traceback_of_the_job(self):
        with self.executor() as executor:
            error = executor.submit(operator.truediv, 1, 0).exception(PATIENCE)
            self.assertIsInstance(error, ZeroDivisionError)
            self.assertIn("Traceback", str(error.__cause__))
            with self.assertRaises(ZeroDivisionError):
                list(executor.map(operator.truediv, [1, 1], [1, 0]))

    def test_exceptions_that_cannot_be_pickled_keep_their_text(self):
        with self.executor() as executor:
            locked = executor.submit(functions.fail_locked).exception(PATIENCE)
            parts = executor.submit(functions.fail_in_two_parts).exception(PATIENCE)
        self.assertIsInstance(locked, gpool.RemoteError)
        self.assertEqual(locked.detail, "functions.LockedError: locked")
        self.assertEqual((parts.type_name, type(parts)), ("functions.TwoPartError", type(locked)))
        self.assertIn("fail_in_two_parts", parts.traceback)

    def test_results_that_cannot_travel_are_errors(self):
        with self.executor(result_bytes_max=100_000) as executor:
            large = executor.submit(functions.large)
            lock = executor.submit(functions.lock)
            error = str(large.exception(PATIENCE))
            self.assertRegex(error, "1048.* bytes.*result_bytes_max=100000")
            self.assertIn("the result can't be pickled", str(lock.exception(PATIENCE)))
            self.assertEqual(self.client.job(large.job_id)["state"], "failed")

    def test_what_cannot_be_pickled_is_refused_before_it_is_submitted(self):
        n_jobs = len(list(self.client.jobs(state="all")))
        without = mock.patch.dict(sys.modules, {"cloudpickle": None})
        with without, self.executor() as executor:
            with self.assertRaisesRegex(TypeError, "the arguments can't be pickled"):
                executor.submit(functions.add, functions.lock())
            with self.assertRaisesRegex(TypeError, "the function can't be pickled.*executor"):
                executor.submit(lambda: 1)
            with self.assertRaises(ValueError):
                executor.map(functions.add, [1], chunksize=0)
        self.assertEqual(len(list(self.client.jobs(state="all"))), n_jobs)
        self.assertEqual(os.listdir(self.spool), [])
        with self.assertRaisesRegex(TypeError, "no option array"):
            self.executor(array="0-3")
        with self.assertRaises(gpool.Refused), self.executor(gpus=99) as executor:
            executor.submit(functions.add, 1)

    def test_a_job_without_a_result_is_an_error_with_its_last_lines(self):
        with self.executor() as executor:
            error = executor.submit(os._exit, 7).exception(PATIENCE)
            self.assertIsInstance(error, gpool.JobFailed)
            self.assertEqual(error.job["run"]["exit_code"], 7)
            self.assertIn("exit code 7", str(error))
        with self.executor(python="/no/such/python") as executor:
            error = executor.submit(functions.add, 1).exception(PATIENCE)
            self.assertIsInstance(error, gpool.JobFailed)
        lost = mock.patch.object(module.Batch, "result", lambda *_: None)
        with mock.patch.object(module, "RESULT_PATIENCE", 0.0), lost, self.executor() as executor:
            error = executor.submit(functions.add, 1).exception(PATIENCE)
            self.assertIn("it wrote no result", str(error))

    def test_a_function_of_the_main_program_needs_cloudpickle(self):
        code = (
            "import gpool, sys\n"
            "sys.modules['cloudpickle'] = None\n"
            "def double(x): return 2 * x\n"
            "with gpool.Executor(spool=sys.argv[1]) as executor: executor.submit(double, 1)\n"
        )
        done = python(code, self.spool)
        self.assertIn("double is defined in the main program", done.stderr)
        self.assertIn("pip install 'gpool[executor]'", done.stderr)

    def test_cloudpickle_sends_lambdas_and_functions_of_the_main_program(self):
        tools = os.environ.get("GPOOL_TEST_TOOLS", "")
        found = glob.glob(f"{tools}/lib/python3*/site-packages/cloudpickle")
        if not found:
            self.skipTest("cloudpickle is missing; cargo xtask test installs it")
        # Alone: the packages beside it are for another version of Python.
        shutil.copytree(found[0], os.path.join(self.spool, "own", "cloudpickle"))
        code = (
            "import gpool, sys\n"
            "factor = 3\n"
            "def triple(x): return factor * x\n"
            "with gpool.Executor(spool=sys.argv[1] + '/jobs') as executor:\n"
            "    print(executor.submit(triple, 2).result(), *executor.map(lambda x: -x, [1, 2]))\n"
        )
        path = f"{self.spool}/own:{os.environ['PYTHONPATH']}"
        done = python(code, self.spool, PYTHONPATH=path)
        self.assertEqual((done.stdout, done.stderr), ("6 -1 -2\n", ""))


class Ends(ExecutorCase):
    def test_leaving_by_an_exception_cancels_all_jobs(self):
        path = os.path.join(self.spool, "never")
        with self.assertRaises(KeyError), self.executor(gpus=2, grace=0, name="left") as executor:
            runs = executor.submit(functions.touch_and_wait, path)
            until("it runs", lambda: runs.running())
            waits = executor.submit(functions.add, 1)
            executor.map(functions.add, range(5))
            raise KeyError
        self.assertEqual((waits.cancelled(), runs.cancelled()), (True, False))
        self.assertIsInstance(runs.exception(), gpool.JobFailed)
        self.assertEqual(self.active("left"), [])
        self.assertEqual(glob.glob(f"{self.spool}/batch-*"), [])

    def test_futures_are_cancelled_before_their_jobs_start(self):
        path = os.path.join(self.spool, "go")
        with self.executor(gpus=2) as executor:
            runs = executor.submit(functions.touch_and_wait, path)
            until("it runs", lambda: runs.running())
            waits = executor.submit(functions.add, 1)
            self.assertTrue(waits.cancel() and waits.cancel() and waits.cancelled())
            self.assertEqual(self.ended(waits.job_id)["state"], "cancelled")
            self.assertFalse(runs.cancel())
            many = executor.map(functions.add, range(3))
            executor.shutdown(wait=False, cancel_futures=True)
            with self.assertRaises(futures.CancelledError):
                next(many)
            open(path, "w").close()
            self.assertEqual(runs.result(PATIENCE), "waited")
            with self.assertRaises(RuntimeError):
                executor.submit(functions.add, 1)

    def test_jobs_that_a_user_cancels_are_errors(self):
        path = os.path.join(self.spool, "never")
        with self.executor(grace=0) as executor:
            future = executor.submit(functions.touch_and_wait, path)
            until("it runs", lambda: future.running())
            self.client.cancel(future.job_id)
            self.assertIn("cancelled", str(future.exception(PATIENCE)))

    def test_map_has_a_time_limit(self):
        with self.executor(hold=True, name="late") as executor:
            with self.assertRaises(futures.TimeoutError):
                list(executor.map(functions.add, [1, 2], timeout=0.05))
        self.assertEqual(self.active("late"), [])

    def test_a_forked_process_needs_an_executor_of_its_own(self):
        with self.executor() as executor:
            pid = os.fork()
            if pid == 0:
                try:
                    executor.submit(functions.add, 1)
                except RuntimeError:
                    os._exit(3)
                finally:
                    os._exit(4)
            self.assertEqual(os.waitpid(pid, 0)[1] >> 8, 3)
            self.assertEqual(executor.submit(functions.add, 1).result(PATIENCE), 1)


if __name__ == "__main__":
    unittest.main()
