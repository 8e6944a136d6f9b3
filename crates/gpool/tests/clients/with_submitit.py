"""Runs functions as jobs with submitit: a result, an error, and an array of five."""

import time

import submitit


def scaled(factor, value):
    return factor * value


def failing():
    raise ValueError("planned")


# The folder of its own documentation: submitit makes it after it has the number of the job.
executor = submitit.AutoExecutor(folder="logs/%j", cluster="slurm")
executor.update_parameters(timeout_min=5, slurm_array_parallelism=4, gpus_per_node=1)
print("result", executor.submit(scaled, 6, 7).result())
job = executor.submit(failing)
print("error", type(job.exception()).__name__, "planned" in str(job.exception()))
jobs = executor.map_array(scaled, [1, 2, 3, 4, 5], [10] * 5)
print("array", [job.result() for job in jobs])
# A result is there before its job has ended; submitit asks again for states only if forced to.
while not all(job.watcher.is_done(job.job_id, mode="force") for job in jobs):
    time.sleep(0.1)
print("states", sorted({job.state for job in jobs}))
