#!/usr/bin/env python3
"""gpool beside gflow, Slurm, pueue and task-spooler: what survives kill -9 of the daemon, and what
starting jobs costs, all through each tool's own command line and in the same run. What is not
installed is skipped. Prints tables in Markdown; --json FILE keeps everything."""

import argparse
import datetime
import json
import os
import platform
import resource
import shutil
import sys
import time
from pathlib import Path

from adapters import ALL, scratch
from common import SLOTS, Failed, lives, memory_mb, until

HERE = Path(__file__).resolve().parent


def ranked(measured, percent):
    """By nearest rank."""
    ordered = sorted(measured)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def middle(measured):
    return ranked(measured, 50) if measured else None


def started(kind, folder):
    """A daemon in a new folder."""
    tool = kind(folder)
    try:
        tool.start()
    except BaseException:
        tool.close()
        raise
    return tool


def measure_starts(tool, n, stamper):
    """Milliseconds from the start of the command to the first instruction of the job."""
    measured = []
    for number in range(n + 2):
        stamp = tool.folder / f"stamp-{number}"
        began = time.monotonic_ns()
        tool.tell([stamper, "__stamp", str(stamp)])
        until("the job starts", stamp.exists, seconds=40, every=0.001)
        if number >= 2:
            measured.append((int(stamp.read_text()) - began) / 1e6)
        until("the job ends", lambda: tool.n_left() == 0, seconds=40, every=0.02)
    return measured


def measure_submits(tool, n):
    """Commands a second, one after the other, while every slot is taken."""
    for _ in range(SLOTS):
        tool.tell(["sleep", "1000"])
    began = time.monotonic()
    for _ in range(n):
        tool.tell(["true"])
    return n / (time.monotonic() - began)


def measure_drain(tool, n):
    """Jobs a second from the first submission to the last end, CPU time a job, and how."""
    cpu, began, asking = tool.account.cpu_ms(), time.monotonic(), 0.0
    how = tool.submit_many(["true"], n)
    while True:
        # Asking costs CPU time too: what the commands that ask use is taken out again.
        before = children_cpu_ms()
        n_left = tool.n_left()
        asking += children_cpu_ms() - before
        seconds = time.monotonic() - began
        if n_left == 0:
            break
        if seconds > 300:
            raise Failed(f"{n_left} of {n} have not ended in 300 s")
        time.sleep(max(0.01, seconds / 40))
    cpu = None if cpu is None else (tool.account.cpu_ms() - cpu - asking) / n
    return {"jobs_per_s": n / seconds, "cpu_ms_per_job": cpu, "n": n, "how": how}


def children_cpu_ms():
    """Of all that this process has started and waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e3


def one_round(kind, folder, arguments):
    """All figures of one tool, each with a new daemon."""
    found = {"errors": []}

    def part(name, work):
        tool = None
        try:
            tool = started(kind, Path(folder, f"{kind.name[:2]}-{name}"))
            work(tool)
        except Exception as error:  # Whatever it is, it is said, and the other parts go on.
            found["errors"].append(f"{name}: {error}"[:300])
        finally:
            if tool:
                tool.close()
                shutil.rmtree(tool.folder, ignore_errors=True)

    def starts(tool):
        time.sleep(1)
        found["idle_mb"] = memory_mb(tool.pids())
        found["starts_ms"] = measure_starts(tool, arguments.starts, arguments.stamper)

    def submits(tool):
        found["submits_per_s"] = measure_submits(tool, min(tool.submits, arguments.submits))

    def drain(tool):
        found["drain"] = measure_drain(tool, min(tool.drains, arguments.drain))

    part("starts", starts)
    part("submits", submits)
    part("drain", drain)
    return found


def kill_test(kind, folder, n_waiting, calm):
    """Acknowledged jobs wait behind 8 that have run for a while; kill -9 of the daemon right after
    the last was acknowledged; a new daemon; what it knows, and what the jobs themselves wrote."""
    jobs = Path(folder, "jobs")
    jobs.mkdir()
    script = str(HERE / "job.sh")
    lines = lambda name: [line.split()[0] for line in read(jobs / name)]
    tool = started(kind, Path(folder, "d"))
    try:
        code_of, running, waiting = {}, {}, {}
        for number in range(SLOTS):
            code_of[f"r{number}"] = 20 + number
            words = [script, str(jobs), f"r{number}", str(20 + number), "wait"]
            running[tool.submit(words)] = f"r{number}"
        until("all slots run", lambda: len(lines("started")) == SLOTS, seconds=120)
        # So that whoever saves from time to time has saved these.
        time.sleep(calm)
        pids = {line.split()[0]: int(line.split()[1]) for line in read(jobs / "started")}
        for number in range(n_waiting):
            code_of[f"w{number}"] = number % 3
            waiting[tool.submit([script, str(jobs), f"w{number}", str(number % 3)])] = f"w{number}"
        tool.kill_daemon()
        time.sleep(0.5)
        alive = sum(lives(pid) for pid in pids.values())
        tool.start()
        known = tool.states()
        found = {
            "waiting": n_waiting,
            "still_listed": sum(1 for id in waiting if id in known),
            "running_alive": alive,
            "running_known": sum(known.get(id, ("", None))[0] == "running" for id in running),
            "by_hand": tool.after_crash(),
        }
        after = tool.submit(["true"])
        found["ids_reused"] = after in waiting or after in running
        (jobs / "release").touch()
        settle(jobs, n_waiting, tool)
        known = tool.states()
        ran, ended = lines("started"), lines("ended")
        tokens = running | waiting
        found["lost"] = sum(token not in ended for token in waiting.values())
        found["running_lost"] = sum(token not in ended for token in running.values())
        found["ran_twice"] = len(ran) - len(set(ran))
        found["codes_right"] = sum(
            known.get(id, ("", None)) == ("ended", code_of[token]) for id, token in tokens.items()
        )
        found["jobs"] = len(tokens)
        return found
    finally:
        (jobs / "release").touch()
        tool.close()


def read(path):
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []


def settle(jobs, n_waiting, tool):
    """Waits until all have ended, or nothing has for half a minute."""
    quiet_since, before = time.monotonic(), -1
    while time.monotonic() - quiet_since < 30:
        n_ended = len(read(jobs / "ended"))
        if n_ended >= n_waiting + SLOTS and tool.n_left() == 0:
            return
        if n_ended != before:
            quiet_since, before = time.monotonic(), n_ended
        time.sleep(0.1)


def number(value):
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:,.0f}"
    if 0 < value < 0.01:
        return f"{value:.1g}"
    return f"{value:.{1 if value >= 10 else 2}f}"


def ratio(value, base):
    return "" if not value or not base else f" ({number(value / base)}×)"


def figures_table(tools):
    """The middle of all rounds, with the ratio to gpool."""
    rows = []
    for name, tool in tools.items():
        rounds = tool.get("rounds", [])
        starts = [ms for one in rounds for ms in one.get("starts_ms", [])]
        drains = [one["drain"] for one in rounds if "drain" in one]
        cpus = [drain["cpu_ms_per_job"] for drain in drains if drain["cpu_ms_per_job"]]
        drain = middle([drain["jobs_per_s"] for drain in drains])
        n = f"{drains[0]['n']}, {drains[0]['how']}" if drains else ""
        rows.append({
            "name": f"{name} {tool['version']}",
            "p50": middle(starts),
            "p99": ranked(starts, 99) if starts else None,
            "submits": middle([one["submits_per_s"] for one in rounds if "submits_per_s" in one]),
            "drain": drain,
            "how": n,
            "cpu": middle(cpus),
            "idle": middle([one["idle_mb"] for one in rounds if "idle_mb" in one]),
        })
    base = next((row for row in rows if row["name"].startswith("gpool ")), {})
    lines = [
        "| | submit → first instruction, p50 | p99 | commands/s | drain on 8 slots | jobs | "
        "CPU per job | idle daemon |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        with_ratio = lambda key, unit: (
            f"{number(row[key])} {unit}{ratio(row[key], base.get(key)) if row is not base else ''}"
            if row[key] is not None
            else "–"
        )
        lines.append(
            f"| {row['name']} | {with_ratio('p50', 'ms')} | {with_ratio('p99', 'ms')} "
            f"| {with_ratio('submits', '/s')} | {with_ratio('drain', 'jobs/s')} | {row['how']} "
            f"| {with_ratio('cpu', 'ms')} | {with_ratio('idle', 'MB')} |"
        )
    return "\n".join(lines)


def kill_table(tools):
    """The state after kill -9, a row for each tool."""
    lines = [
        "| | pending jobs lost | running processes ended | running jobs recognised | run twice "
        "| IDs reused | exit codes known | manual step |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, tool in tools.items():
        for one in tool.get("kills", []):
            if "error" in one:
                lines.append(f"| {name} {tool['version']} | not measured: {one['error']} |||||||")
                continue
            dead = SLOTS - one["running_alive"]
            lines.append(
                f"| {name} {tool['version']} | {one['lost']} of {one['waiting']} "
                f"| {dead} of {SLOTS} | {one['running_known']} of {SLOTS} | {one['ran_twice']} "
                f"| {'yes' if one['ids_reused'] else 'no'} "
                f"| {one['codes_right']} of {one['jobs']} | {one['by_hand'] or 'none'} |"
            )
    return "\n".join(lines)


def machine():
    cpu = next(
        (line.split(":", 1)[1].strip() for line in read(Path("/proc/cpuinfo"))
         if line.startswith("model name")),
        platform.machine(),
    )
    return f"{os.cpu_count()} cores ({cpu}), Linux {platform.release().split('-')[0]}"


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", help="only these, separated by commas")
    parser.add_argument("--rounds", type=int, default=3, help="of the figures, tools in turn")
    parser.add_argument("--kills", type=int, default=1, help="of the kill test")
    parser.add_argument("--starts", type=int, default=30)
    parser.add_argument("--submits", type=int, default=200)
    parser.add_argument("--drain", type=int, default=1000)
    parser.add_argument("--waiting", type=int, default=200, help="jobs that wait when it is killed")
    parser.add_argument("--calm", type=float, default=35, help="seconds the 8 have run before")
    parser.add_argument("--json", metavar="FILE", help="keeps everything")
    parser.add_argument("--table", metavar="FILE", help="makes the tables of such a file again")
    return parser.parse_args()


def chosen(arguments):
    """The tools that are there, by name; says which are not."""
    wanted = arguments.tools.split(",") if arguments.tools else [kind.name for kind in ALL]
    unknown = set(wanted) - {kind.name for kind in ALL}
    if unknown:
        sys.exit(f"no such tool: {', '.join(sorted(unknown))}")
    kinds = []
    for kind in (kind for kind in ALL if kind.name in wanted):
        missing = kind.missing()
        if missing:
            print(f"skipped {kind.name}: {', '.join(missing)} not found; {kind.install}",
                  file=sys.stderr)
        else:
            kinds.append(kind)
    return kinds


def main():
    arguments = parse()
    if arguments.table:
        show(json.loads(Path(arguments.table).read_text()))
        return
    kinds = chosen(arguments)
    arguments.stamper = shutil.which("gpool-lab") or sys.exit("gpool-lab is not on the PATH")
    base = Path(scratch())
    tools = {kind.name: {"note": kind.note, "rounds": [], "kills": []} for kind in kinds}
    try:
        for kind in kinds:
            tool = kind(base / "v")
            tools[kind.name]["version"] = tool.version()
            tool.close()
            shutil.rmtree(base / "v")
        for turn in range(arguments.rounds):
            for kind in kinds:
                print(f"round {turn + 1}: {kind.name}", file=sys.stderr)
                tools[kind.name]["rounds"].append(one_round(kind, base, arguments))
        for turn in range(arguments.kills):
            for kind in kinds:
                print(f"kill {turn + 1}: {kind.name}", file=sys.stderr)
                folder = base / f"k{turn}{kind.name[:2]}"
                folder.mkdir()
                try:
                    outcome = kill_test(kind, folder, arguments.waiting, arguments.calm)
                except Exception as error:  # Said in the table; the others go on.
                    outcome = {"error": str(error)[:300]}
                tools[kind.name]["kills"].append(outcome)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    report = {
        "date": datetime.date.today().isoformat(), "machine": machine(), "tools": tools,
        "folder": str(base.parent),
    }
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(report, indent=1) + "\n")
    show(report)


def show(report):
    tools = report["tools"]
    print(f"{report['date']}, {report['machine']}\n")
    if any(tool["rounds"] for tool in tools.values()):
        print(figures_table(tools) + "\n")
    if any(tool["kills"] for tool in tools.values()):
        print(kill_table(tools) + "\n")
    for name, tool in tools.items():
        errors = [error for one in tool["rounds"] for error in one["errors"]]
        for text in [tool["note"], *sorted(set(errors))]:
            if text:
                print(f"- {name}: {text}")


if __name__ == "__main__":
    main()
