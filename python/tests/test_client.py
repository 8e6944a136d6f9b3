"""The client with a real server."""

import os
import threading
import unittest

from support import PATIENCE, Case, python, until

import gpool


class Jobs(Case):
    def test_a_job_runs_in_the_folder_and_with_the_variables_of_this_process(self):
        os.environ["TEST_SEED"] = "7"
        self.addCleanup(os.environ.pop, "TEST_SEED")
        line = "pwd; echo $TEST_SEED $OTHER; umask"
        job = self.client.submit(["sh", "-c", line], env={"OTHER": "8"})
        self.assertEqual(self.ended(job["id"])["state"], "succeeded")
        said = self.client.logs(job["id"]).split()
        self.assertEqual(said[:3], [os.getcwd(), "7", "8"])
        clean = self.client.submit(["sh", "-c", "echo ${TEST_SEED:-none}"], clean_env=True)
        self.ended(clean["id"])
        self.assertEqual(self.client.logs(clean["id"]), "none\n")

    def test_keywords_become_fields_of_the_request(self):
        job = self.client.submit(
            ["true"],
            name="all",
            gpus=1,
            cpus=0.1,
            mem="100M",
            time="1h",
            hold=True,
            priority=-1,
            grace=5,
            retry=2,
            note="a note",
            stop_signal="INT",
            exits="requeue",
            request={"kind": "data"},
        )
        request = job["request"]
        self.assertEqual((job["name"], job["state"]), ("all", "held"))
        self.assertEqual(request["gpus"], "1")
        self.assertEqual((request["time"], request["grace"]), (3600, 5))
        self.assertEqual(request["retry"]["most"], 2)
        self.assertEqual((request["exits"], request["kind"]), (["requeue"], "data"))
        self.client.cancel(job["id"])

    def test_jobs_of_a_group_are_listed_together(self):
        group = "tuning/trial/{}"
        jobs = [self.client.submit(["true"], hold=True, group=group.format(n)) for n in (1, 2)]
        self.client.submit(["true"], hold=True, group="other")
        listed = list(self.client.jobs(group="tuning"))
        self.assertEqual([job["id"] for job in listed], [job["id"] for job in jobs])
        places = [job["request"]["group"] for job in listed]
        self.assertEqual(places, ["tuning/trial/1", "tuning/trial/2"])
        self.client.cancel(*[job["id"] for job in self.client.jobs()])

    def test_a_script_goes_with_the_job(self):
        with open("script.sh", "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho script $1\n")
        job = self.client.submit(["one"], script="script.sh")
        self.ended(job["id"])
        self.assertEqual(self.client.logs(job["id"]), "script one\n")

    def test_a_job_has_parts_of_different_shape(self):
        parts = ["head:1xcpu", "worker:1x1"]
        job = self.client.submit(["sh", "-c", "echo $GPOOL_PART has $GPOOL_GPUS"], parts=parts)
        ended = self.ended(job["id"])
        self.assertEqual([task["part"] for task in ended["gang"]["tasks"]], ["head", "worker"])
        self.assertEqual(self.client.logs(job["id"], rank=1), "worker has 1\n")

    def test_an_array_has_elements(self):
        array = self.client.submit(["sh", "-c", "exit {code}"], params={"code": [0, 3]})
        self.assertEqual(self.ended(array["id"])["array"]["n_elements"], 2)
        elements = list(self.client.elements(array["id"]))
        self.assertEqual([it["run"]["exit_code"] for it in elements], [0, 3])
        self.assertEqual(elements[1]["element"]["params"], [["code", "3"]])
        failed = self.client.elements(array["id"], state=["failed"])
        self.assertEqual([it["id"] for it in failed], [f"{array['id']}.1"])

    def test_jobs_are_listed_page_by_page(self):
        made = [self.client.submit(["true"], name="listed", hold=True)["id"] for _ in range(3)]
        transport = self.client._transport
        ask = transport.ask

        def with_small_pages(method, path, query=None, **more):
            return ask(method, path, query={**query, "limit": 2}, **more)

        transport.ask = with_small_pages
        found = [job["id"] for job in self.client.jobs(name="listed")]
        transport.ask = ask
        self.assertEqual(found, made)
        self.client.cancel(*made)
        self.assertEqual(list(self.client.jobs(name="listed")), [])

    def test_waiting_ends_with_the_last_of_several_jobs(self):
        jobs = [self.client.submit(["sh", "-c", f"exit {code}"])["id"] for code in (0, 1)]
        ended = self.client.wait([*jobs, jobs[0]], timeout=PATIENCE)
        self.assertEqual([it["state"] for it in ended], ["succeeded", "failed", "succeeded"])
        self.assertEqual(self.client.wait([]), [])

    def test_waiting_ends_for_an_element_that_never_started(self):
        array = self.client.submit(["true"], array="0-2", hold=True)
        element = f"{array['id']}.1"
        looked, ask, states = threading.Event(), self.client.job, []

        def look(job):
            answer = ask(job)
            looked.set()
            return answer

        def wait():
            states.append(self.client.wait(element, timeout=PATIENCE)["state"])

        self.client.job = look
        thread = threading.Thread(target=wait)
        thread.start()
        self.assertTrue(looked.wait(PATIENCE))
        self.client.cancel(element)
        thread.join()
        self.assertEqual(states, ["cancelled"])
        self.client.cancel(array["id"])

    def test_waiting_has_a_time_limit(self):
        job = self.client.submit(["true"], hold=True)["id"]
        with self.assertRaises(gpool.TimedOut) as caught:
            self.client.wait(job, timeout=0.05)
        self.assertIsInstance(caught.exception, TimeoutError)
        self.assertIn(f"job {job}", str(caught.exception))
        self.client.cancel(job)

    def test_output_is_followed_until_the_end(self):
        job = self.client.submit(["sh", "-c", "echo one; echo two >&2; echo three"])["id"]
        with self.client.follow(job) as lines:
            self.assertEqual(sorted(lines), ["one", "three", "two"])
        self.assertEqual(self.client.logs(job, stream="stderr"), "two\n")
        self.assertEqual(self.client.logs(job, stream="stdout", tail=1), "three\n")

    def test_a_waiting_job_has_reasons(self):
        first = self.client.submit(["sleep", "1000"], gpus=2)["id"]
        self.state_is(first, "running")
        second = self.client.submit(["true"], gpus=2)["id"]
        self.assertEqual(self.client.why(second)["reasons"][0]["code"], "gpus_not_free")
        self.client.cancel(first, second)
        self.client.wait([first, second], timeout=PATIENCE)

    def test_the_cluster_is_described(self):
        self.assertEqual([gpu["node"] for gpu in self.client.gpus()], ["lab1", "lab1"])
        self.assertEqual(self.client.nodes()[0]["name"], "lab1")
        self.assertIn("projects", self.client.quota())
        self.assertEqual(self.client.status()["nodes"], 1)
        self.assertEqual(self.client.request("GET", "/reservations")["items"], [])


class Lost(Case):
    """The server restarts, connections are lost."""

    def test_a_key_submits_a_job_once(self):
        key = f"{os.getpid()} once"
        jobs = [self.client.submit(["true"], key=key)["id"] for _ in range(2)]
        self.assertEqual(jobs[0], jobs[1])

    def test_a_submission_is_repeated_after_a_lost_connection_and_submits_once(self):
        transport = self.client._transport
        exchange, n_lost = transport._exchange, []

        def lose_the_first_answer(connection, method, *rest):
            response = exchange(connection, method, *rest)
            if method == "POST" and not n_lost:
                n_lost.append(response.read())
                raise transport._lost(ConnectionResetError("as if"))
            return response

        transport._exchange = lose_the_first_answer
        before = len(list(self.client.jobs(state="all")))
        self.client.submit(["true"])
        self.assertEqual(len(n_lost), 1)
        self.assertEqual(len(list(self.client.jobs(state="all"))), before + 1)

    def test_requests_wait_for_a_server_that_restarts(self):
        events = self.client.events()
        line = "echo begin; while ! test -e go; do sleep 0.05; done; echo end"
        job = self.client.submit(["sh", "-c", line])
        self.state_is(job["id"], "running")
        found = []
        follow = threading.Thread(target=lambda: found.extend(self.client.follow(job["id"])))
        wait = threading.Thread(target=lambda: found.append(self.ended(job["id"])["state"]))
        follow.start()
        wait.start()
        until("its first line", lambda: found)
        self.kill_server()
        open("go", "w").close()
        follow.join()
        wait.join()
        os.remove("go")
        self.assertEqual(sorted(found), ["begin", "end", "succeeded"])
        types = []
        while "resync" not in types and ("job_state", "succeeded") not in types:
            event = events.next(PATIENCE)
            self.assertIsNotNone(event, types)
            types.append(event["type"])
            if event["type"] == "job_state":
                types.append((event["type"], event["state"]))
        # Another process continues after an event.
        again = self.client.events(after=events.last)
        other = self.client.submit(["true"])["id"]
        until("its event", lambda: again.next(PATIENCE).get("job") == other)
        events.close()
        again.close()
        self.assertEqual(list(events), [])

    def test_a_closed_stream_ends_for_the_thread_that_waits(self):
        events = self.client.events()
        waits = threading.Thread(target=lambda: list(events))
        waits.start()
        events.close()
        waits.join(PATIENCE)
        self.assertFalse(waits.is_alive())

    def test_a_forked_process_has_a_connection_of_its_own(self):
        self.client.version()
        here = self.client._transport._own.kept.connection.sock
        pid = os.fork()
        if pid == 0:
            try:
                is_other = all(
                    self.client.version()["name"] == "gpool"
                    and self.client._transport._own.kept.connection.sock is not here
                    for _ in range(3)
                )
                os._exit(0 if is_other else 1)
            finally:
                os._exit(2)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(self.client.version()["name"], "gpool")
        self.assertIs(self.client._transport._own.kept.connection.sock, here)

    def test_threads_share_a_client(self):
        names = []
        ask = lambda: names.extend(self.client.version()["name"] for _ in range(20))  # noqa: E731
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(names, ["gpool"] * 160)


class Refusals(Case):
    def test_errors_have_code_reasons_and_remedies(self):
        with self.assertRaises(gpool.Refused) as caught:
            self.client.submit(["true"], gpus=99)
        error = caught.exception
        self.assertEqual((error.code, error.status), ("GP0412", 422))
        self.assertIn("no node has more than 2", error.why[0])
        self.assertIn("--gpus 2", error.try_)
        self.assertIn("try  --gpus 2", str(error))

    def test_bad_requests_are_refused(self):
        client = self.client
        cases = [
            (gpool.NotFound, lambda: client.job(999999)),
            (gpool.Refused, lambda: client.job("no/such?id")),
            (gpool.NotFound, lambda: client.follow(999999)),
            (gpool.NotFound, lambda: client.request("GET", "/nothing")),
            (gpool.Refused, lambda: client.submit([])),
            (gpool.Refused, lambda: client.submit(["true"], request={"gpuz": "1"})),
            (gpool.Refused, lambda: client.submit(["true"], time="soon")),
            (gpool.Refused, lambda: client.submit(["true"], env={"X": "x" * 700_000})),
            (TypeError, lambda: client.submit("echo hello")),
            (TypeError, lambda: client.submit([object()])),
            (ValueError, lambda: client.submit(["true"], mem=float("nan"))),
            (OSError, lambda: client.submit(script="no-such-script.sh")),
        ]
        for kind, call in cases:
            with self.subTest(kind=kind), self.assertRaises(kind):
                call()
        job = client.submit(["true"])["id"]
        self.ended(job)
        with self.assertRaises(gpool.Refused) as caught:
            client.cancel(job)
        self.assertIn("already ended", str(caught.exception))


class Import(unittest.TestCase):
    def test_an_import_loads_no_other_module_of_the_client(self):
        code = "import sys, gpool; print([it for it in sys.modules if it.startswith('gpool')])"
        self.assertEqual(python(code).stdout, "['gpool']\n")

    def test_every_name_can_be_imported(self):
        for name in gpool.__all__:
            self.assertIsNotNone(getattr(gpool, name))
        self.assertLessEqual(set(gpool.__all__), set(dir(gpool)))
        with self.assertRaises(AttributeError):
            gpool.nothing()


class Metrics(Case):
    def test_a_job_reports_metrics(self):
        code = "import gpool\nfor step in range(3):\n gpool.report(loss=1 / (step + 1), step=step)"
        with open("report.py", "w", encoding="utf-8") as file:
            file.write(code)
        job = self.client.submit(["python3", "report.py"])["id"]
        self.assertEqual(self.ended(job)["state"], "succeeded", self.client.logs(job))
        until("the metrics", lambda: self.client.job(job)["usage"].get("metrics"))
        last = self.client.job(job)["usage"]["metrics"]
        self.assertEqual((round(last["loss"], 3), last["step"]), (0.333, 2))
        self.assertIn("loss", [it["name"] for it in self.client.metrics(job)["metrics"]])


if __name__ == "__main__":
    unittest.main()
