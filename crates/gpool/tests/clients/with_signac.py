"""Submits the operations of two signac jobs with signac-flow."""

import subprocess
import sys
import time
from pathlib import Path

PROJECT = """
import flow


class Project(flow.FlowProject):
    pass


@Project.post.isfile("answer")
@Project.operation(directives={"ngpu": 1, "walltime": 0.1})
def compute(job):
    import os

    with open(job.fn("answer"), "w") as file:
        file.write(f"{job.sp.n * 7} {os.environ['SLURM_JOB_ID']}")


class Slurm(flow.environment.DefaultSlurmEnvironment):
    _partition_config = flow.environment._PartitionConfig(gpus_per_node={"default": 4})

    @classmethod
    def is_present(cls):
        return True


if __name__ == "__main__":
    Project.get_project().main()
"""
import signac  # noqa: E402

Path("project.py").write_text(PROJECT)
project = signac.init_project()
for n in (6, 7):
    project.open_job({"n": n}).init()
subprocess.run([sys.executable, "project.py", "submit"], check=True, timeout=60)
end = time.time() + 120
while time.time() < end and not all(job.isfile("answer") for job in project):
    time.sleep(0.2)
answers = {job.sp.n: Path(job.fn("answer")).read_text().split() for job in project}
assert [answers[n][0] for n in (6, 7)] == ["42", "49"], answers
assert answers[6][1] != answers[7][1], answers
status = subprocess.check_output([sys.executable, "project.py", "status"], text=True)
assert "2" in status, status
print("2 operations in 2 jobs")
