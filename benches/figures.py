#!/usr/bin/env python3
"""Makes the tables of the documents from the measurements.

    figures.py merge OUT RUN…    several runs of `gpool bench --json` as one: the middle of each
    figures.py tables            writes the tables between their marks in the documents
"""

import datetime
import json
import re
import sys
import textwrap
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
    goal = figure.get("goal")
    if not goal:
        return "", ""
    (word, bound), = goal.items()
    reached = figure["value"] < bound if word == "below" else figure["value"] > bound
    return f"{word} {bound:,g}", "reached" if reached else "**missed**"


def shown(report, name):
    figure = (report or {}).get("figures", {}).get(name)
    return f"{digits(figure['value'])} {figure['unit']}" if figure else "–"


def figures_table():
    """Every figure of the full run, beside the same in memory where that was measured."""
    disk, memory = load("disk"), load("memory")
    lines = ["| what | on disk | in memory | target | |", "| --- | --- | --- | --- | --- |"]
    for name, figure in disk["figures"].items():
        goal, reached = goal_of(figure)
        lines.append(
            f"| {figure['what']} | {shown(disk, name)} | {shown(memory, name)} | {goal} "
            f"| {reached} |"
        )
    lines.append("")
    n_runs = max(len(figure["values"]) for figure in disk["figures"].values())
    lines.append(f"{disk['date']}, {disk['machine']}; " + (f"the middle of {n_runs} runs." if n_runs > 1 else "one run."))
    return "\n".join(lines)


def pending_table():
    """What grows with the number of pending jobs."""
    sizes = {n: load(name) for n, name in SIZES.items()}
    names = ["bulk_per_s", "pending_memory_mb", "restarted_memory_mb", "queue_ms", "why_ms",
             "restart_s"]
    words = ["bulk submission", "memory", "memory after a restart", "`queue`",
             "`why` of the last job", "kill -9 to first decision"]
    lines = ["| pending jobs | " + " | ".join(words) + " |", "| --- " * 7 + "|"]
    for n, report in sizes.items():
        if report:
            lines.append(f"| {n:,} | " + " | ".join(shown(report, name) for name in names) + " |")
    return "\n".join(lines)


SHARED_BY = (100, 1_000, 10_000)
SIZES = {1_000: "pending-1000", 10_000: "pending-10000", 100_000: "disk"}


def peers_table():
    report = load("peers")
    notes = [
        textwrap.fill(f"- {name}: {tool['note']}.", 98, subsequent_indent="  ")
        for name, tool in report["tools"].items()
        if tool["note"]
    ]
    when = f"{report['date']}, {report['machine']}."
    return "\n".join([peers.figures_table(report["tools"]), "", *notes, "", when])


def shares_table():
    """What a cycle of a shared cluster costs, by its size."""
    names = ["shares_full_ms", "shares_end_ms", "shares_submit_ms", "shares_reclaim_ms",
             "shares_memory_mb"]
    words = ["nodes", "GPUs", "projects", "pending jobs", "shapes", "full cycle",
             "after one end", "after one submission", "reclaim", "candidates", "memory"]
    lines = ["| " + " | ".join(words) + " |", "| --- " * len(words) + "|"]
    report = None
    for nodes in SHARED_BY:
        for n in SIZES:
            report = load(f"shares-{nodes}-{n}") or report
            figures = (load(f"shares-{nodes}-{n}") or {}).get("figures")
            if figures:
                said = [int(it) for it in re.findall(r"\d+", figures["shares_full_ms"]["what"])]
                n_nodes, n_gpus, n_projects, _, n_pending, n_shapes = said
                among = int(re.search(r"\d+", figures["shares_reclaim_ms"]["what"])[0])
                cells = [f"{it:,}" for it in (n_nodes, n_gpus, n_projects, n_pending, n_shapes)]
                cells += [shown({"figures": figures}, name) for name in names]
                cells.insert(-1, f"{among:,}")
                lines.append("| " + " | ".join(cells) + " |")
    goals = [goal_of(report["figures"][name]) for name in names]
    goals = [f"{goal}, {reached}" for goal, reached in goals]
    goals.insert(-1, "10,000")
    lines.append("| target for the last row | | | | | " + " | ".join(goals) + " |")
    lines += ["", f"{report['date']}, {report['machine']}; in memory."]
    return "\n".join(lines)


def kill_table():
    report = load("peers")
    when = f"{report['date']}, {report['machine']}."
    return "\n".join([peers.kill_table(report["tools"]), "", when])


TABLES = {
    "figures": figures_table, "pending": pending_table, "shares": shares_table,
    "peers": peers_table, "kill": kill_table,
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
