"""Parts that several tests share. The tests need a server, which `GPOOL_SOCKET` names and which
starts again when it is killed; crates/gpool/tests/e2e/python.rs provides both."""

import os
import signal
import subprocess
import sys
import time
import unittest

import gpool

#: Longer than anything takes on a busy machine.
PATIENCE = 60.0
PROGRAM = os.environ.get("GPOOL_TEST_PROGRAM", "gpool")
SOURCES = os.path.dirname(os.path.dirname(gpool.__file__))


def until(what, look):
    """Repeats `look` until it returns something."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not in time: {what}")


def run_gpool(*words, **options):
    """Runs the command; returns its output."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    done = subprocess.run([PROGRAM, *words], timeout=PATIENCE, **pipes, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def python(code, *words, **variables):
    """The result of a Python program in a process of its own."""
    environment = {**os.environ, **variables}
    command = [sys.executable, "-c", code, *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.run(command, env=environment, timeout=PATIENCE, **pipes)


class Case(unittest.TestCase):
    """A test with a client."""

    def setUp(self):
        self.client = gpool.Client()
        self.addCleanup(self.client.close)

    def ended(self, job_id):
        """The job once it has ended."""
        return self.client.wait(job_id, timeout=PATIENCE)

    def state_is(self, job_id, state):
        """Waits for a state of a job."""
        until(f"{job_id} is {state}", lambda: self.client.job(job_id)["state"] == state)

    def kill_server(self):
        """Kills the server and waits for the next one."""
        before = self.client.version()["pid"]
        os.kill(before, signal.SIGKILL)
        until("another server", lambda: self.client.version()["pid"] != before)
