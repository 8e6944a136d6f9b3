"""Runs two tasks of a submission with dpdispatcher, in the local context."""

from pathlib import Path

from dpdispatcher import Machine, Resources, Submission, Task

Path("local/a").mkdir(parents=True)
Path("local/b").mkdir(parents=True)
machine = Machine.load_from_dict({
    "batch_type": "Slurm", "context_type": "LocalContext", "local_root": "local",
    "remote_root": "remote"})
resources = Resources.load_from_dict({
    "number_node": 1, "cpu_per_node": 1, "gpu_per_node": 1, "queue_name": "default",
    "group_size": 1})
tasks = [
    Task(command=f"echo {name} $SLURM_GPUS_ON_NODE > result", task_work_path=name,
         backward_files=["result"])
    for name in ("a", "b")]
Path("remote").mkdir()
submission = Submission(
    work_base=".", machine=machine, resources=resources, task_list=tasks, backward_common_files=[])
submission.run_submission(check_interval=1)
print([Path(f"local/{name}/result").read_text().strip() for name in ("a", "b")])
