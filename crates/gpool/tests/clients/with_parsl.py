"""Runs an app on a block of parsl's executor, which is a job."""

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider


@parsl.python_app
def place(n):
    import os

    return n * n, os.environ["SLURM_JOB_ID"]


provider = SlurmProvider(
    partition="default", nodes_per_block=1, init_blocks=1, max_blocks=1, walltime="00:05:00",
    scheduler_options="#SBATCH --gres=gpu:1", launcher=SrunLauncher(), exclusive=False)
executor = HighThroughputExecutor(
    label="gpus", address="127.0.0.1", max_workers_per_node=2, provider=provider)
with parsl.load(Config(executors=[executor], run_dir="runinfo", strategy="none")):
    results = [place(n).result(timeout=120) for n in range(4)]
assert [value for value, _ in results] == [0, 1, 4, 9], results
assert len({job for _, job in results}) == 1, results
print("4 calls in one job")
