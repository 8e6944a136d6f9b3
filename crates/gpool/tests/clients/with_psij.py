"""Runs a job with PSI/J, cancels another, and reads the states."""

from datetime import timedelta
from pathlib import Path

from psij import Job, JobAttributes, JobExecutor, JobSpec, JobState, ResourceSpecV1
from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutorConfig

config = BatchSchedulerExecutorConfig(queue_polling_interval=1, initial_queue_polling_delay=0)
executor = JobExecutor.get_instance("slurm", config=config)


def job(executable, arguments):
    resources = ResourceSpecV1(node_count=1, processes_per_node=1, gpu_cores_per_process=1)
    attributes = JobAttributes(duration=timedelta(minutes=5))
    return Job(JobSpec(
        executable=executable, arguments=arguments, stdout_path=Path("out").absolute(),
        resources=resources, attributes=attributes, launcher="single"))


first = job("/bin/sh", ["-c", "echo GPUs $SLURM_GPUS_ON_NODE"])
executor.submit(first)
status = first.wait(timeout=timedelta(seconds=120))
print(status.state.name, status.exit_code, Path("out").read_text().strip())
failed = job("/bin/sh", ["-c", "exit 3"])
executor.submit(failed)
status = failed.wait(timeout=timedelta(seconds=120))
print(status.state.name, status.exit_code)
second = job("/bin/sleep", ["1000"])
executor.submit(second)
second.wait(timeout=timedelta(seconds=120), target_states=[JobState.ACTIVE])
second.cancel()
print(second.wait(timeout=timedelta(seconds=120)).state.name)
