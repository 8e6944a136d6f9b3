"""Runs a component with two replicas with TorchX, and lists it."""

import os
import subprocess
import sys
import time
from pathlib import Path

torchx = Path(sys.executable).with_name("torchx")


def run(*words, **variables):
    return subprocess.run(
        [torchx, *words], check=True, capture_output=True, text=True, timeout=120,
        env={**os.environ, **variables}).stdout


app = run(
    "run", "-s", "slurm", "-cfg", f"job_dir={Path.cwd()}/job", "utils.echo", "--msg", "hi",
    "--num_replicas", "2").strip().split("\n")[-1]
end = time.time() + 120
while time.time() < end:
    status = run("status", app)
    if "SUCCEEDED" in status or "FAILED" in status:
        break
    time.sleep(0.5)
assert "SUCCEEDED" in status, status
logs = sorted(Path("job").glob("*-echo-*.out"))
assert len(logs) == 2 and all("hi" in log.read_text() for log in logs), logs
# It reads the accounting of Slurm before 23.11, where a state is a text.
listed = run("list", "-s", "slurm", GPOOL_DATA_PARSER="v0.0.39")
assert app.split("/")[-1] in listed, listed
print("2 replicas, in the list")
