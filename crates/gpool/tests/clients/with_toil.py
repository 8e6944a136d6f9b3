"""Runs a workflow of Toil with a job that needs a GPU."""

import os
import sys

from toil.common import Toil
from toil.job import Job


def on_gpu(job, n):
    return f"{n * 7} {os.environ['SLURM_GPUS_ON_NODE']}"


if __name__ == "__main__":
    options = Job.Runner.getDefaultOptions("./store")
    options.batchSystem = "slurm"
    options.clean = "always"
    options.logLevel = "INFO"
    options.slurmPartition = "default"
    with Toil(options) as toil:
        root = Job.wrapJobFn(
            on_gpu, 6, memory="200M", cores=1, disk="10M", accelerators=1)
        result = toil.start(root)
    assert result == "42 1", result
    print("1 job with a GPU")
    sys.exit(0)
