"""What the test of the API's document changes of the requests that schemathesis makes."""

import json
import re

import schemathesis

JOB_ID = re.compile(r"^[0-9]{1,19}([._][0-9]{1,9})?$")
# The test submits a few jobs before; a few more ids name none.
JOBS = 8


@schemathesis.hook
def before_call(context, case, kwargs):
    """Ask for jobs that exist, and do not follow output: that answer has no end."""
    job = (case.path_parameters or {}).get("id")
    if isinstance(job, str) and JOB_ID.match(job):
        number, *element = re.split("[._]", job)
        case.path_parameters["id"] = ".".join(
            [str(int(number) % JOBS + 1), *(str(int(index) % JOBS) for index in element)]
        )
    if case.operation.path.endswith("/logs") and "follow" in (case.query or {}):
        if str(case.query["follow"]).lower() == "true":
            case.query["follow"] = "false"


@schemathesis.serializer("application/jsonl")
def lines(context, value):
    """A bulk submission is text: what is not is sent as JSON."""
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else json.dumps(value)).encode(errors="replace")
