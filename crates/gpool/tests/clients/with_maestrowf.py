"""Runs a study of two dependent steps with Maestro."""

import getpass
import os
import subprocess
import sys
import time
from pathlib import Path

STUDY = """
description: {name: two, description: two steps}
batch: {type: slurm, host: here, bank: default, queue: default}
study:
  - name: first
    description: write a number
    run: {cmd: "echo 6 > number; echo $SLURM_JOB_ID > id", nodes: 1, procs: 1, walltime: "00:05:00"}
  - name: second
    description: read it
    run:
      cmd: "echo $(( 7 * $(cat $(first.workspace)/number) )) > answer"
      nodes: 1
      procs: 1
      walltime: "00:05:00"
      depends: [first]
"""
Path("study.yaml").write_text(STUDY)
# Its query of the queue is for this user.
os.environ["USER"] = getpass.getuser()
maestro = Path(sys.executable).with_name("maestro")
subprocess.run(
    [maestro, "run", "-y", "-s", "1", "-o", "out", "study.yaml"], check=True, timeout=60)
end = time.time() + 120
while not list(Path("out").glob("second/answer")) and time.time() < end:
    time.sleep(0.5)
assert Path("out/second/answer").read_text() == "42\n"
assert Path("out/first/id").read_text().strip().isdigit()
while time.time() < end:
    status = Path("out/status.csv").read_text()
    if status.count("FINISHED") == 2:
        break
    time.sleep(0.5)
assert status.count("FINISHED") == 2, status
print("2 steps finished")
