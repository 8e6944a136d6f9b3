#!/usr/bin/env python3
"""Makes the tables of the documents from the measurements.

    figures.py merge OUT RUN…    several runs of `gpool bench --json` as one: the middle of each
    figures.py tables            writes the tables between their marks in the documents
"""

import datetime
import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
DOCUMENTS = [HERE.parent / "docs" / "operating" / name for name in ("performance.md", "reliability.md")]
sys.path.insert(0, str(HERE / "peers"))

import peers  # noqa: E402, from the folder just named


def merge(out, runs):
    """Each figure with all its values and the middle one; single measurements side by side."""
    documents = [json.loads(Path(run).read_text()) for run in runs]
    merged = {}
    for document in documents:
        for part in document["parts"]:
            for figure in part["figures"]:
                kept = merged.setdefault(figure["name"], figure | {"values": [], "samples": []})
                kept["values"].append(round(figure["value"], 4))
                kept["samples"] += [round(ms, 3) for ms in figure.get("samples", [])]
    for figure in merged.values():
        figure["value"] = peers.middle(figure["values"])
        figure.pop("reached", None)
    report = {
        "date": datetime.date.today().isoformat(),
        "machine": peers.machine(),
        "version": documents[0]["version"],
        "figures": merged,
    }
    Path(out).parent.mkdir(exist_ok=True)
    Path(out).write_text(json.dumps(report, indent=1) + "\n")


def load(name):
    """A file of results, or nothing."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def digits(value):
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.{1 if value >= 10 else 2}f}"


def goal_of(figure):
    """The target, with a mark if it was missed."""
    goal = figure.get("goal")
    if not goal:
        return ""
    (word, bound), = goal.items()
    reached = figure["value"] < bound if word == "below" else figure["value"] > bound
    return f"{word} {bound:,g}" + ("" if reached else ", **missed**")


def shown(report, name):
    figure = (report or {}).get("figures", {}).get(name)
    return f"{digits(figure['value'])} {figure['unit']}" if figure else "–"


def columns(table, heads):
    """The first column of a Markdown table and those with these heads."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    kept = [0, *(rows[0].index(head) for head in heads)]
    return "\n".join("| " + " | ".join(row[ix] for ix in kept) + " |" for row in rows)


HEADLINES = (
    "start_p50_ms", "start_p99_ms", "submit_many_per_s", "bulk_per_s", "drain_jobs_per_s",
    "drain_cpu_ms_per_job", "idle_memory_mb", "pending_memory_mb", "queue_ms", "why_ms",
    "restart_s",
)


def figures_table():
    """The headline figures of the full run, beside the same in memory where that was measured."""
    disk, memory = load("disk"), load("memory")
    lines = ["| | on disk | in memory | target |", "| --- | --- | --- | --- |"]
    for name in HEADLINES:
        figure = disk["figures"][name]
        lines.append(
            f"| {figure['what']} | {shown(disk, name)} | {shown(memory, name)} | {goal_of(figure)} |"
        )
    lines.append("")
    n_runs = len(disk["figures"]["start_p50_ms"]["values"])
    lines.append(f"{disk['date']}, {disk['machine']}; " + (f"the middle of {n_runs} runs." if n_runs > 1 else "one run."))
    return "\n".join(lines)


def peers_table():
    report = load("peers")
    heads = ["submit → first instruction, p50", "drain on 8 slots", "CPU per job"]
    when = f"{report['date']}, {report['machine']}."
    return "\n".join([columns(peers.figures_table(report["tools"]), heads), "", when])


SHARED_BY = (1_000, 10_000)


def shares_table():
    """What a cycle of a shared cluster with a long queue costs, by the size of the cluster."""
    names = ["shares_full_ms", "shares_end_ms", "shares_reclaim_ms", "shares_memory_mb"]
    words = ["nodes", "GPUs", "projects", "pending jobs", "full cycle", "after one end",
             "reclaim", "memory"]
    lines = ["| " + " | ".join(words) + " |", "| --- " * len(words) + "|"]
    report = None
    for nodes in SHARED_BY:
        report = load(f"shares-{nodes}-100000")
        figures = report["figures"]
        said = [int(it) for it in re.findall(r"\d+", figures["shares_full_ms"]["what"])]
        n_nodes, n_gpus, n_projects, _, n_pending, _ = said
        cells = [f"{it:,}" for it in (n_nodes, n_gpus, n_projects, n_pending)]
        cells += [shown(report, name) for name in names]
        lines.append("| " + " | ".join(cells) + " |")
    goals = [goal_of(report["figures"][name]) for name in names]
    lines.append("| target | | | | " + " | ".join(goals) + " |")
    lines += ["", f"{report['date']}, {report['machine']}; in memory."]
    return "\n".join(lines)


def kill_table():
    report = load("peers")
    heads = ["pending jobs lost", "running jobs recognised", "IDs reused", "exit codes known"]
    when = f"{report['date']}, {report['machine']}."
    return "\n".join([columns(peers.kill_table(report["tools"]), heads), "", when])


TABLES = {
    "figures": figures_table, "shares": shares_table, "peers": peers_table, "kill": kill_table,
}


def tables():
    """Writes each table between `<!-- table NAME -->` and `<!-- end -->`."""
    for document in DOCUMENTS:
        if not document.exists():
            continue
        text = document.read_text()
        for name, make in TABLES.items():
            before, mark, rest = text.partition(f"<!-- table {name} -->\n")
            if mark:
                _, end, after = rest.partition("<!-- end -->")
                text = f"{before}{mark}\n{make()}\n\n{end}{after}"
        document.write_text(text)


def main():
    match sys.argv[1:]:
        case ["merge", out, *runs] if runs:
            merge(out, runs)
        case ["tables"]:
            tables()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
