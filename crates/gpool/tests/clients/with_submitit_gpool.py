"""Runs functions by submitit's plug-in: results, an error, an array, states, two tasks of a job,
a cancellation, and a function that saves its state when its job is requeued."""

import os
import time

import submitit

import gpool


def scaled(factor, value):
    return factor * value


def failing():
    raise ValueError("planned")


def place():
    environment = submitit.JobEnvironment()
    return environment.cluster, environment.num_tasks, environment.global_rank


class Counted:
    """Is interrupted in its first run, and returns a value in its second."""

    def __init__(self, is_resumed=False):
        self.is_resumed = is_resumed

    def __call__(self):
        print("waits" if not self.is_resumed else "ends", flush=True)
        while not self.is_resumed:
            time.sleep(0.1)
        return "resumed", os.environ["GPOOL_ATTEMPT"]

    def checkpoint(self):
        return submitit.helpers.DelayedSubmission(Counted(is_resumed=True))


def until(look):
    while not look():
        time.sleep(0.1)


client = gpool.Client()
executor = submitit.AutoExecutor(folder="logs/%j", cluster="gpool")
executor.update_parameters(timeout_min=5, gpus_per_node=1, gpool_note="of submitit")
job = executor.submit(scaled, 6, 7)
print("result", job.result(), client.job(job.job_id)["request"]["note"])
job = executor.submit(failing)
print("error", type(job.exception()).__name__, "planned" in str(job.exception()))
executor.update_parameters(gpool_gpus="0.5", gpool_max_parallel=4)
jobs = executor.map_array(scaled, [1, 2, 3, 4, 5], [10] * 5)
print("array", [job.result() for job in jobs])
array = client.job(jobs[0].job_id.split("_")[0])
print("elements", array["array"]["n_elements"], array["request"]["gpus"])
until(lambda: all(job.watcher.is_done(job.job_id, mode="force") for job in jobs))
print("states", sorted({job.state for job in jobs}))
tasks = submitit.AutoExecutor(folder="logs/%j", cluster="gpool")
tasks.update_parameters(timeout_min=5, nodes=1, tasks_per_node=2, gpus_per_node=2)
print("tasks", tasks.submit(place).results())
job = executor.submit(time.sleep, 1000)
job.cancel()
until(lambda: job.done(force_check=True))
print("cancelled", job.state)
executor.update_parameters(gpool_preemptible=True)
job = executor.submit(Counted())
until(lambda: "waits" in (job.stdout() or ""))
client.request("POST", f"/jobs/{job.job_id}/requeue")
print("checkpoint", job.result())
try:
    executor.update_parameters(gpool_colour="red")
except NameError as error:
    print("refused", "gpool_colour" in str(error))
