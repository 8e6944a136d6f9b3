"""The cluster `gpool` of submitit: `submitit.AutoExecutor(folder="logs", cluster="gpool")`.

submitit finds it by the entry points of this package. Nothing else imports this module, so the
package does not need submitit.
"""

from __future__ import annotations

import functools
import inspect
import os
import signal as signals
import sys
import uuid
from pathlib import Path
from typing import Any, Optional, Union

from submitit.core import core, job_environment, logger, utils

from .client import ENDED, Client
from .errors import GpoolError

#: Minutes that a job may run unless `timeout_min` is set, as for submitit's other clusters.
TIMEOUT_MIN = 5
#: Seconds between the signal to save and the time limit.
SIGNAL_DELAY_S = 90
#: Most seconds between two requests for the states of jobs.
DELAY_S = 60
#: Parameters that submitit has for every cluster.
SHARED = frozenset(
    (
        "name",
        "timeout_min",
        "mem_gb",
        "nodes",
        "cpus_per_task",
        "gpus_per_node",
        "tasks_per_node",
        "stderr_to_stdout",
    )
)
#: Keywords of `Client.submit` that an executor sets itself.
OWN = frozenset(
    (
        "self",
        "command",
        "script",
        "name",
        "cpus",
        "mem",
        "time",
        "nodes",
        "tasks",
        "parts",
        "array",
        "params",
        "items",
        "directory",
        "stdout",
        "stderr",
        "stop_signal",
        "key",
    )
)
#: Keywords of `Client.submit` that `update_parameters` takes, such as `gpool_pool="a100"`.
KEYWORDS = frozenset(inspect.signature(Client.submit).parameters) - OWN


@functools.cache
def _client() -> Client:
    return Client()


class GpoolWatcher(core.InfoWatcher):
    """The states of all jobs of this process, by one list of active jobs for all of them."""

    def update(self) -> None:
        """Reads the states of the jobs that have not ended."""
        self._num_calls += 1
        left = self._registered - self._finished
        try:
            user = _client().request("GET", "/me").get("user")
            active = {job["id"]: job for job in _client().jobs(user=user, elements=True)}
            for job_id in left:
                number = _number(job_id)
                job = active.get(number) or _client().job(number)
                self._info_dict[job_id] = {"State": _state(job["state"])}
                if job["state"] in ENDED:
                    self._finished.add(job_id)
        except GpoolError as error:
            logger.get_logger().warning(f"The states of jobs may be old: {error}")
        self._last_status_check = core._time.time()

    def get_state(self, job_id: str, mode: str = "standard") -> str:
        """The state in submitit's words."""
        return str(self.get_info(job_id, mode=mode).get("State", "UNKNOWN"))


def _number(job_id: str) -> str:
    """The ID of a job or an element in gpool: `17.3` for submitit's `17_3`."""
    return job_id.replace("_", ".")


def _state(state: str) -> str:
    if state in ENDED:
        return "COMPLETED" if state == "succeeded" else state.upper()
    return "PENDING" if state in ("held", "waiting", "pending") else "RUNNING"


class GpoolJob(core.Job[core.R]):
    """A job, or an element of an array."""

    watcher = GpoolWatcher(delay_s=DELAY_S)

    def cancel(self, check: bool = True) -> None:
        """Cancels the job. With `check`, an error is raised if it can't be cancelled."""
        try:
            _client().cancel(_number(self.job_id))
        except GpoolError:
            if check:
                raise


class GpoolExecutor(core.Executor):
    """Runs functions as jobs of gpool; `map_array` and `batch` are one array.

    `update_parameters` takes the shared parameters of submitit, and keywords of
    `gpool.Client.submit`, which `AutoExecutor` knows by the prefix `gpool_`. `python` is the
    interpreter of the jobs.
    """

    job_class = GpoolJob

    def __init__(
        self,
        folder: Union[str, Path],
        max_num_timeout: int = 3,
        python: Optional[str] = None,
    ) -> None:
        super().__init__(folder)
        self.max_num_timeout = max_num_timeout
        self.python = python or sys.executable

    @classmethod
    def affinity(cls) -> int:
        """0: programs choose this cluster by its name."""
        return 0

    @classmethod
    def _valid_parameters(cls) -> set[str]:
        return set(KEYWORDS)

    def _internal_update_parameters(self, **kwargs: Any) -> None:
        unknown = sorted(set(kwargs) - SHARED - KEYWORDS)
        if unknown:
            raise ValueError(
                f"gpool has no parameter {', '.join(unknown)}; "
                f"it has {', '.join(sorted(SHARED | KEYWORDS))}"
            )
        _request({**self.parameters, **kwargs})
        super()._internal_update_parameters(**kwargs)

    def _internal_process_submissions(
        self, delayed_submissions: list[utils.DelayedSubmission]
    ) -> list[core.Job[Any]]:
        folder = utils.JobPaths.get_first_id_independent_folder(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        minutes = self.parameters.get("timeout_min", TIMEOUT_MIN)
        calls = [folder / f"{uuid.uuid4().hex}.pkl" for _ in delayed_submissions]
        try:
            for delayed, path in zip(delayed_submissions, calls):
                delayed.set_timeout(minutes, self.max_num_timeout)
                delayed.dump(path)
            ids = self._submit(len(calls))
        except BaseException:
            for path in calls:
                path.unlink(missing_ok=True)
            raise
        tasks = range(self.parameters.get("nodes", 1) * self.parameters.get("tasks_per_node", 1))
        jobs: list[core.Job[Any]] = [GpoolJob(self.folder, one, tasks) for one in ids]
        for job, path in zip(jobs, calls):
            # A job that starts earlier waits for this file.
            job.paths.move_temporary_file(path, "submitted_pickle")
        return jobs

    def _submit(self, n_calls: int) -> list[str]:
        """Submits a job for a call, or an array for several; returns submitit's IDs."""
        fields = _request(self.parameters)
        paths = utils.JobPaths(self.folder)
        own = "%j" if n_calls == 1 else "%A_%a"
        fields["stdout"] = str(paths.stdout).replace("%j", own)
        errors = paths.stdout if self.parameters.get("stderr_to_stdout") else paths.stderr
        fields["stderr"] = str(errors).replace("%j", own)
        fields["env"] = {**(fields.get("env") or {}), "SUBMITIT_EXECUTOR": self.name()}
        if n_calls > 1:
            fields["array"] = f"0-{n_calls - 1}"
        else:
            fields.pop("max_parallel", None)
        command = [self.python, "-u", "-m", "submitit.core._submit", str(self.folder)]
        number = _client().submit(command, **fields)["id"]
        return [number] if n_calls == 1 else [f"{number}_{index}" for index in range(n_calls)]


def _request(parameters: dict[str, Any]) -> dict[str, Any]:
    """The keywords of `Client.submit` for parameters of an executor."""
    fields = {name: value for name, value in parameters.items() if name in KEYWORDS}
    signal = job_environment.JobEnvironment.USR_SIG
    minutes = parameters.get("timeout_min", TIMEOUT_MIN)
    fields["name"] = parameters.get("name", "submitit")
    fields["time"] = f"{minutes}m"
    # submitit saves the state of a function at this signal.
    fields["stop_signal"] = signal
    more = dict(fields.get("request") or {})
    if minutes * 60 > 2 * SIGNAL_DELAY_S:
        more.setdefault("signal_before", f"{signal}@{SIGNAL_DELAY_S}s")
    if "cpus_per_task" in parameters:
        fields["cpus"] = parameters["cpus_per_task"]
    nodes, tasks = parameters.get("nodes", 1), parameters.get("tasks_per_node", 1)
    if nodes > 1:
        fields["nodes"] = nodes
    if tasks > 1:
        more["tasks_per_node"] = tasks
        fields.setdefault("nodes", 1)
    if "gpus_per_node" in parameters and "gpus" not in fields:
        if parameters["gpus_per_node"] % tasks:
            raise ValueError(
                f"{parameters['gpus_per_node']} GPUs of a node can't be divided evenly among "
                f"{tasks} tasks; gpool_gpus= is the number of GPUs of each task"
            )
        fields["gpus"] = parameters["gpus_per_node"] // tasks
    if "mem_gb" in parameters:
        fields["mem"] = f"{int(parameters['mem_gb'] * 1024 / tasks)}M"
    if more:
        fields["request"] = more
    return fields


class GpoolJobEnvironment(job_environment.JobEnvironment):
    """The job of this process."""

    _env = {
        "job_id": "GPOOL_JOB_ID",
        "array_job_id": "GPOOL_ARRAY_ID",
        "array_task_id": "GPOOL_ARRAY_INDEX",
        "num_tasks": "GPOOL_NUM_TASKS",
        "num_nodes": "GPOOL_NUM_NODES",
        "node": "GPOOL_NODE_RANK",
        "global_rank": "GPOOL_RANK",
        "local_rank": "GPOOL_LOCAL_RANK",
    }

    @property
    def hostnames(self) -> list[str]:
        """The nodes of the job, in order."""
        nodes = os.environ.get("GPOOL_NODELIST")
        return nodes.split(",") if nodes else [self.hostname]

    def _requeue(self, countdown: int) -> None:
        """Runs the job again after its state was saved. A job that is preempted is stopping, and
        runs again without a request."""
        number = _number(self.job_id)
        # gpool sends the signal again when it stops the job.
        signals.signal(self._usr_sig(), signals.SIG_IGN)
        try:
            _client().request("POST", f"/jobs/{number}/requeue")
        except GpoolError as error:
            logger.get_logger().info(f"No request to run job {number} again: {error}")
        else:
            logger.get_logger().info(f"Requeued job {number} ({countdown} timeouts left)")
