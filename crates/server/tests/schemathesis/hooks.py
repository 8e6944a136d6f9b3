"""What the test of the API's document changes of the requests that schemathesis makes."""

import re

import schemathesis

JOB_ID = re.compile(r"^[0-9]{1,19}([._][0-9]{1,9})?$")
# As many jobs are asked for as the test submits before, and a few that do not exist.
JOBS = 8


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    """Ask for jobs that exist: a random number would always be answered with 404."""
    job = (path_parameters or {}).get("id")
    if isinstance(job, str) and JOB_ID.match(job):
        number, *element = re.split("[._]", job)
        path_parameters["id"] = str(int(number) % JOBS + 1)
        if element:
            path_parameters["id"] += "." + str(int(element[0]) % JOBS)
    return path_parameters


@schemathesis.hook
def map_query(context, query):
    """Do not follow the output of a job that runs: that answer has no end."""
    if query and query.get("follow") in (True, "true"):
        query["follow"] = False
    return query
