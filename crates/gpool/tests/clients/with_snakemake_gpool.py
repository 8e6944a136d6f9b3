"""Runs rules by gpool's executor plug-in: parts of GPUs, a failure with its log, a cancelled
workflow, and a killed Snakemake whose jobs the next one waits for."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[4] / "python"
SOURCES = [PYTHON / "src", PYTHON / "snakemake-executor-plugin-gpool" / "src"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": ":".join(str(folder) for folder in SOURCES)}
sys.path.insert(0, str(SOURCES[0]))
import gpool  # noqa: E402

COMMAND = [
    sys.executable, "-m", "snakemake", "--executor", "gpool", "--jobs", "4", "--latency-wait", "5",
    "--seconds-between-status-checks", "1", "--nolock",
]
RULES = """
rule answer:
    input: "part-1", "part-2"
    output: "answer"
    shell: "echo $(( $(cat {input[0]}) * $(cat {input[1]}) )) > {output}"

rule part:
    output: "part-{n}"
    resources: gpus="0.5", mem_mb=200, runtime=5
    threads: 2
    shell: "echo $(( 5 + {wildcards.n} )) > {output}"

rule failing:
    output: "nothing"
    shell: "echo the reason >&2; exit 3"

rule slow:
    output: "slow-{name}"
    shell: "echo run >> runs-{wildcards.name}; echo begun > {output}; "
           "while [ ! -e go ]; do sleep 0.1; done"
"""


def until(what, look):
    for _ in range(600):
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"not in time: {what}")


def ran(*words):
    """The exit code and the output of Snakemake."""
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, env=ENVIRONMENT,
                          timeout=120)
    return done.returncode, done.stdout + done.stderr


def started(target):
    """Starts Snakemake, and returns it with its job when that runs."""
    process = subprocess.Popen([*COMMAND, target], env=ENVIRONMENT, stderr=subprocess.DEVNULL)
    until(target, Path(target).exists)
    [job] = [job for job in client.jobs() if job["name"] == "slow"]
    return process, job["id"]


client = gpool.Client()
Path("Snakefile").write_text(RULES)

code, output = ran("answer")
assert code == 0, output
assert Path("answer").read_text() == "42\n"
[request, _] = [job["request"] for job in client.jobs(state="ended", name="part")]
assert (request["gpus"], request["cpus"], request["time"]) == ("0.5", 2, 300), request

code, output = ran("failing")
[failed] = client.jobs(state="failed", name="failing")
log = Path(f".snakemake/gpool_logs/failing/{failed['id']}.log").absolute()
assert code == 1 and f"Job {failed['id']} of gpool failed" in output, output
assert str(log) in output and "the reason" in log.read_text(), output

process, job_id = started("slow-cancelled")
process.send_signal(signal.SIGINT)
process.wait(timeout=120)
until("cancelled", lambda: client.job(job_id)["state"] == "cancelled")

process, job_id = started("slow-killed")
process.kill()
process.wait()
process = subprocess.Popen([*COMMAND, "slow-killed", "--rerun-incomplete"], env=ENVIRONMENT,
                           stderr=subprocess.PIPE, text=True)
for line in process.stderr:
    if f"Job {job_id} of gpool, of an earlier run" in line:
        break
Path("go").touch()
process.stderr.read()
assert process.wait(timeout=120) == 0
assert Path("runs-killed").read_text() == "run\n", "it ran twice"
print("parts of GPUs, a failure, a cancellation, a resumed workflow")
