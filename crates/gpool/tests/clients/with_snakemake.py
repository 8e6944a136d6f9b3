"""Runs two dependent rules with snakemake's executor for Slurm, with its efficiency report."""

import subprocess
import sys
from pathlib import Path

SNAKEFILE = """
rule all:
    input: "answer"

rule first:
    output: "number"
    shell: "echo 6 > {output}; sleep 2"

rule second:
    input: "number"
    output: "answer"
    resources: gpu=1
    shell: "echo $(( 7 * $(cat {input}) )) $SLURM_GPUS_ON_NODE > {output}"
"""
Path("Snakefile").write_text(SNAKEFILE)
snakemake = Path(sys.executable).with_name("snakemake")
subprocess.run(
    [snakemake, "--executor", "slurm", "--jobs", "2", "--default-resources",
     "slurm_account=default", "slurm_partition=default", "runtime=5", "mem_mb=200",
     "--slurm-efficiency-report",
     "--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2",
     "--latency-wait", "5"],
    check=True, timeout=200)
assert Path("answer").read_text().split()[0] == "42", Path("answer").read_text()
[report] = Path(".").glob("**/efficiency_report*.csv")
rows = report.read_text().strip().split("\n")
print(f"2 rules, and {len(rows) - 1} rows in the report")
