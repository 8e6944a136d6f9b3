"""Snakemake's executor `gpool`: `snakemake --executor gpool --jobs 100`.

Snakemake finds it by the name of the module. Each job of the workflow is a job of gpool.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import CommonSettings
from snakemake_interface_executor_plugins.utils import encode_target_jobs_cli_args

import gpool
from gpool.client import ENDED

common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_group_args=True,
    init_seconds_before_status_checks=1,
)

#: The folder of the jobs' output, in the folder of the workflow.
LOGS = os.path.join(".snakemake", "gpool_logs")
#: Longest text of targets in the note of a job.
TARGETS_MAX = 200


class Executor(RemoteExecutor):
    """Submits jobs, and polls all of them by one list."""

    def __post_init__(self) -> None:
        self._client = gpool.Client()
        try:
            self._user = self._client.request("GET", "/me").get("user")
            # A Snakemake that was killed left its jobs; by their notes this one finds them.
            earlier = {job["request"].get("note"): job["id"] for job in self._active()}
        except gpool.GpoolError as error:
            raise WorkflowError(f"gpool: {error}") from error
        self._earlier = earlier

    def _active(self) -> list[Any]:
        return list(self._client.jobs(user=self._user))

    def run_job(self, job: Any) -> None:
        """Submits a job, unless it still runs for an earlier Snakemake in this folder."""
        note = _note(job)
        job_id = self._earlier.pop(note, None)
        log = os.path.abspath(os.path.join(LOGS, job.name))
        if job_id is None:
            job_id = self._submit(job, note, log)
        else:
            self.logger.info(f"Job {job_id} of gpool, of an earlier run, still runs {job.name}.")
        aux = {"log": os.path.join(log, f"{job_id}.log")}
        self.report_job_submission(SubmittedJobInfo(job, external_jobid=job_id, aux=aux))

    def _submit(self, job: Any, note: str, log: str) -> str:
        os.makedirs(log, exist_ok=True)
        resources = job.resources
        fields: dict[str, Any] = {"gpus": resources.get("gpus"), "cpus": job.threads}
        if resources.get("mem_mb"):
            fields["mem"] = f"{resources.get('mem_mb')}M"
        if resources.get("runtime"):
            fields["time"] = f"{resources.get('runtime')}m"
        output = os.path.join(log, "%j.log")
        try:
            submitted = self._client.submit(
                ["/bin/sh", "-c", self.format_job_exec(job)],
                name=job.name,
                note=note,
                stdout=output,
                stderr=output,
                **fields,
            )
        except gpool.GpoolError as error:
            raise WorkflowError(f"gpool does not take a job of {job.name}: {error}") from error
        return submitted["id"]

    async def check_active_jobs(
        self, active_jobs: list[SubmittedJobInfo]
    ) -> AsyncIterator[SubmittedJobInfo]:
        """Reports the jobs that have ended, and returns the others. It makes one request for all,
        and one for each job that has ended."""
        if not active_jobs:
            return
        try:
            async with self.status_rate_limiter:
                active = {job["id"] for job in self._active()}
            ids = [info.external_jobid for info in active_jobs]
            ended = {job_id: self._client.job(job_id) for job_id in ids if job_id not in active}
        except gpool.Unreachable as error:
            # The jobs continue without the server.
            self.logger.warning(f"gpool: {error}")
            ended = {}
        for info in active_jobs:
            found = ended.get(info.external_jobid)
            if found is None or found["state"] not in ENDED:
                yield info
            elif found["state"] == "succeeded":
                self.report_job_success(info)
            else:
                run, log = found["run"], info.aux["log"]
                cause = run.get("cause_text") or f"exit code {run.get('exit_code')}"
                text = f"Job {found['id']} of gpool {found['state']}: {cause}; its output: {log}. "
                self.report_job_error(info, msg=text, aux_logs=[log])

    def cancel_jobs(self, active_jobs: list[SubmittedJobInfo]) -> None:
        """Cancels jobs; some may have ended."""
        for info in active_jobs:
            try:
                self._client.cancel(info.external_jobid)
            except gpool.GpoolError as error:
                self.logger.debug(f"gpool: {error}")


def _note(job: Any) -> str:
    """Identifies a job of the workflow in this folder, also in another run of Snakemake."""
    targets = " ".join(sorted(encode_target_jobs_cli_args(job.get_target_spec())))
    digest = hashlib.sha256(f"{os.getcwd()}\n{targets}".encode()).hexdigest()
    return f"snakemake {digest[:20]} {targets[:TARGETS_MAX]}"
