"""What the test of the API's document changes of the requests that schemathesis makes."""

import json
import re

import schemathesis

JOB_ID = re.compile(r"^[0-9]{1,19}([._][0-9]{1,9})?$")
# The test submits a few jobs before; a few more ids name none.
JOBS = 8


# The node of the test; a project and a reservation have its name, too.
NAME = "lab1"


def existing(job):
    """The id of a job that the test has, for a random one that is well formed."""
    if not isinstance(job, str) or not JOB_ID.match(job):
        return job
    numbers = [int(number) % JOBS for number in re.split("[._]", job)]
    return ".".join([str(numbers[0] + 1), *map(str, numbers[1:])])


@schemathesis.hook
def before_call(context, case, kwargs):
    """Ask for what exists, and do not follow output: that answer has no end."""
    path = case.path_parameters or {}
    if "id" in path:
        path["id"] = existing(path["id"])
    name = path.get("name")
    if isinstance(name, str) and len(name) % 2 == 1:
        path["name"] = NAME
    jobs = case.body.get("jobs") if isinstance(case.body, dict) else None
    if isinstance(jobs, list):
        case.body["jobs"] = [existing(job) for job in jobs]
    if case.operation.path.endswith("/logs") and "follow" in (case.query or {}):
        if str(case.query["follow"]).lower() == "true":
            case.query["follow"] = "false"


@schemathesis.serializer("application/jsonl")
def lines(context, value):
    """A bulk submission is text; send any other value as JSON."""
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode(errors="replace")
