"""Submits, lists and cancels jobs with QToolKit."""

import time

from qtoolkit.core.data_objects import CancelStatus, QResources, SubmissionStatus
from qtoolkit.io.slurm import SlurmIO
from qtoolkit.host.local import LocalHost
from qtoolkit.manager import QueueManager

manager = QueueManager(SlurmIO(), LocalHost())
resources = QResources(
    queue_name="default", job_name="two", memory_per_thread=100, nodes=2, processes_per_node=1,
    threads_per_process=2, time_limit=300)
made = manager.submit("sleep 1000", options=resources, script_fname="job.sh")
print(made.status is SubmissionStatus.SUCCESSFUL or made)
while True:
    job = manager.get_job(made.job_id)
    if job.state.name == "RUNNING":
        break
    time.sleep(0.1)
print(job.name, job.info.nodes, job.info.cpus, job.info.threads_per_process, job.queue_name)
print(len(manager.get_jobs_list([made.job_id])))
cancelled = manager.cancel(made.job_id)
print(cancelled.status is CancelStatus.SUCCESSFUL or cancelled)
