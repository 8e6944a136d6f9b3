"""Computes with two workers, each a job of dask-jobqueue, and closes them."""

import subprocess
import time

from dask.distributed import Client
from dask_jobqueue import SLURMCluster

cluster = SLURMCluster(
    cores=1, processes=1, memory="500MB", walltime="00:05:00", interface="lo",
    job_extra_directives=["--gres=gpu:1"], scheduler_options={"dashboard_address": None},
    log_directory="logs")
cluster.scale(jobs=2)
client = Client(cluster)
client.wait_for_workers(2, timeout=120)
print("workers", len(client.scheduler_info()["workers"]))
print("sum", sum(client.gather(client.map(lambda n: n * n, range(10)))))
jobs = subprocess.check_output(["squeue", "-h", "-o", "%j %T %b"], text=True)
print("jobs", sorted(jobs.splitlines()))
client.close()
cluster.close()
while subprocess.check_output(["squeue", "-h"], text=True).strip():
    time.sleep(0.1)
print("closed")
