"""Submits, lists and kills a job with AiiDA's scheduler class for Slurm."""

import time
from pathlib import Path

from aiida.common.datastructures import CodeRunMode
from aiida.schedulers.datastructures import JobState, JobTemplate, JobTemplateCodeInfo
from aiida.schedulers.plugins.slurm import SlurmScheduler
from aiida.transports.plugins.local import LocalTransport

scheduler = SlurmScheduler()
template = JobTemplate()
template.shebang = "#!/bin/bash"
template.job_name = "aiida"
template.job_resource = scheduler.create_job_resource(num_machines=2, num_mpiprocs_per_machine=1)
template.max_wallclock_seconds = 300
template.queue_name = "default"
template.sched_output_path = "_scheduler-stdout.txt"
template.sched_error_path = "_scheduler-stderr.txt"
template.codes_info = [JobTemplateCodeInfo(
    prepend_cmdline_params=[], cmdline_params=["sleep", "1000"], use_double_quotes=[False, False],
    wrap_cmdline_params=False)]
template.codes_run_mode = CodeRunMode.SERIAL
Path("job.sh").write_text(scheduler.get_submit_script(template))
with LocalTransport(use_login_shell=False) as transport:
    scheduler.set_transport(transport)
    job_id = scheduler.submit_job(str(Path.cwd()), "job.sh")
    for _ in range(600):
        job = scheduler.get_jobs(jobs=[job_id], as_dict=True)[job_id]
        if job.job_state is JobState.RUNNING:
            break
        time.sleep(0.1)
    assert job.job_state is JobState.RUNNING, job
    assert (job.title, job.queue_name, job.num_machines) == ("aiida", "default", 2), job
    assert (job.num_mpiprocs, job.requested_wallclock_time_seconds) == (2, 300), job
    assert scheduler.kill_job(job_id)
    for _ in range(600):
        if job_id not in scheduler.get_jobs(as_dict=True):
            break
        time.sleep(0.1)
    detailed = scheduler.get_detailed_job_info(job_id)
    assert detailed["retval"] == 0 and job_id in detailed["stdout"], detailed
print("submitted, listed, killed")
