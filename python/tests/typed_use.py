"""Uses of the client's types, which mypy checks; it is not run."""

from __future__ import annotations

from typing import Optional

import gpool
from gpool.types import Event, Job, JobState, Why

client = gpool.Client("unix:/run/gpool/api.sock", timeout=3)
job: Job = client.submit(["true"], gpus="h100:2", request={"topology": "same-rack"}, after=[1, "2"])
state: JobState = client.wait(job["id"], timeout=60)["state"]
ended: list[Job] = client.wait(["1", "2"])
code: Optional[int] = ended[0]["run"].get("exit_code")
reasons: list[str] = [reason["text"] for reason in client.why(1)["reasons"]]
why: Why = client.why("1")
with client.events() as events:
    event: Event = next(events)
    maybe: Optional[Event] = events.next(3.0)
lines: list[str] = list(client.follow(1))
names: list[str] = [node["name"] for node in client.nodes()]
client.submit("true")  # type: ignore[arg-type, unused-ignore]
client.wait(None)  # type: ignore[call-overload]
job["nothing"]  # type: ignore[typeddict-item]

with gpool.Executor(client, gpus=1) as executor:
    number: int = executor.submit(abs, -1).result()
gpool.report({"val/loss": 0.1}, loss=1, step=2)
gpool.on_reclaim(lambda: print("leaves"), signal="USR1", exit=False)
