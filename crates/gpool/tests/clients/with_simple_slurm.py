"""Submits a script and an array with simple_slurm, and reads its queue."""

import subprocess
import time
from pathlib import Path

from simple_slurm import Slurm

slurm = Slurm(job_name="first", gres="gpu:1", time="5", output="%j.out")
slurm.add_cmd("echo GPUs $SLURM_GPUS_ON_NODE")
first = slurm.sbatch("echo name $SLURM_JOB_NAME")
array = Slurm(array=range(2, 4), output="%A_%a.out", dependency={"afterok": first})
second = array.sbatch("echo element " + Slurm.SLURM_ARRAY_TASK_ID)
held = Slurm(job_name="held", hold=True).sbatch("true")
# It reads only rows of single jobs: an array has one until its first element starts.
while f"{second}_[" in subprocess.check_output(["squeue", "-h"], text=True):
    time.sleep(0.1)
queue = Slurm(job_name="x").squeue
queue.update_squeue()
print("queue", [job["NAME"] for job in queue.jobs.values() if int(job["JOBID"]) == held])
subprocess.run(["scancel", str(held)], check=True)
while subprocess.check_output(["squeue", "-h"], text=True).strip():
    time.sleep(0.1)
print(Path(f"{first}.out").read_text().split("\n")[:2])
print([Path(f"{second}_{n}.out").read_text().strip() for n in (2, 3)])
