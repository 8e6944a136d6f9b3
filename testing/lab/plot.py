#!/usr/bin/env python3
"""Draws the figures of a simulation as one picture; its suffix is the format. Needs matplotlib.

    gpool simulate queue --trace jobs.csv --cluster 24x8 -o json > queue.json
    python3 testing/lab/plot.py queue.json queue.png

It also takes the result of `gpool simulate packing -o json`.
"""

import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402, after the choice of a backend without a window

HOUR, DAY = 3600, 86400
WAITS = {1: "1 s", 60: "1 min", 600: "10 min", HOUR: "1 h", 6 * HOUR: "6 h", DAY: "1 d"}
STYLES = ["-", "--", ":", "-."]  # beside colors, which not all readers can see


def waits(axes, figure):
    """Which part of the jobs waited at most this long."""
    for ix, it in enumerate(figure):
        part = [100 * part for part in it["jobs_within"]]
        axes.plot(it["wait_s"], part, STYLES[ix % 4], label=it["policy"])
    longest = max(figure[0]["wait_s"])
    ticks = [wait for wait in WAITS if wait <= longest]
    axes.set_xscale("log")
    axes.set_xticks(ticks, [WAITS[wait] for wait in ticks])
    axes.minorticks_off()
    axes.set(title="Distribution of waiting times", xlabel="waiting time", ylabel="% of jobs")
    axes.legend()


def sizes(axes, figure):
    """The average wait by the number of GPUs of a job."""
    width = 0.8 / len(figure)
    for ix, it in enumerate(figure):
        left = [size - 0.4 + ix * width for size in range(len(it["gpus"]))]
        hours = [(wait or 0) / HOUR for wait in it["wait_mean_s"]]
        axes.bar(left, hours, width * 0.92, align="edge", label=it["policy"])
    labels = [f"{gpus}\n{jobs:,} jobs" for gpus, jobs in zip(figure[0]["gpus"], figure[0]["jobs"])]
    axes.set_xticks(range(len(labels)), labels, fontsize="small")
    axes.set(title="Average wait by size", xlabel="GPUs of the job", ylabel="hours")
    axes.legend()


def times(axes, figure):
    """The average wait by the time of submission."""
    steps(axes, figure, [[wait and wait / HOUR for wait in it["wait_mean_s"]] for it in figure])
    axes.set(title="Average wait over time", ylabel="hours")


def fairness(axes, figure):
    """How evenly the requests of owners were satisfied."""
    steps(axes, figure, [it["index"] for it in figure])
    axes.set(title="Fairness between owners", ylabel="Jain's index, 1 is even")


def steps(axes, figure, columns):
    """A line for each policy through the middle of each interval, with gaps for missing values."""
    for ix, (it, values) in enumerate(zip(figure, columns)):
        days = [(begin + end) / 2 / DAY for begin, end in zip(it["from_s"], it["until_s"])]
        values = [float("nan") if value is None else value for value in values]
        axes.plot(days, values, STYLES[ix % 4], marker=".", label=it["policy"])
    axes.set_xlabel("days since the first submission")
    axes.legend()


def gpus(axes, it, n_gpus):
    """The GPUs in use of each owner."""
    days = [second / DAY for second in [*it["from_s"], it["until_s"][-1]]]
    values = [[*row, row[-1]] for row in it["gpus"]]
    axes.stackplot(days, values, step="post", labels=it["owner"], colors=plt.cm.tab10.colors)
    axes.axhline(n_gpus, color="gray", linestyle="--", linewidth=1)
    axes.set(title=f"GPUs in use: {it['policy']}", xlabel="days since the first submission")
    axes.set_ylim(0, 1.3 * n_gpus)  # room for the legend
    axes.legend(ncols=3, fontsize="x-small", loc="upper left")


def runs(axes, it, owners):
    """The jobs on each GPU on one day, in the colors of their owners."""
    colors = [plt.cm.tab10.colors[owners.index(owner) % 10] for owner in it["owner"]]
    hours = [begin / HOUR for begin in it["from_s"]]
    lengths = [(end - begin) / HOUR for begin, end in zip(it["from_s"], it["until_s"])]
    axes.barh(it["row"], lengths, 0.84, hours, color=colors, edgecolor="white", linewidth=0.3)
    labels = {row: name for row, name in enumerate(it["rows"]) if name.endswith(" GPU 0")}
    axes.set_yticks(list(labels), labels.values(), fontsize="x-small")
    axes.set(ylim=(len(it["rows"]) - 0.5, -0.5), xlabel="hours since the first submission")
    axes.set_title(f"Jobs on each GPU: {it['policy']}, {it['in_use']:.0%} in use")


def curves(axes, items):
    """Allocated against requested GPUs: the average of all seeds, and their range."""
    for policy in policies(items):
        loads = sorted({it["arrived"] for it in items})
        seeds = [[100 * it["allocated"] for it in items
                  if (it["policy"], it["arrived"]) == (policy, load)] for load in loads]
        percent = [100 * load for load in loads]
        axes.plot(percent, [sum(all) / len(all) for all in seeds], marker="o", label=policy)
        axes.fill_between(percent, [*map(min, seeds)], [*map(max, seeds)], alpha=0.2)
    axes.set(title="Allocated GPUs", xlabel="requested, % of all GPUs", ylabel="% of all GPUs")
    axes.legend()


def paired(axes, items, value, title):
    """A bar for the average of a policy, a dot for each seed, and lines between dots of a seed."""
    names = policies(items)
    all_values = [[100 * value(it) for it in items if it["policy"] == name] for name in names]
    for row, values in enumerate(all_values):
        axes.barh(row, sum(values) / len(values), height=0.5, alpha=0.4)
        axes.plot(values, [row] * len(values), "o", color=f"C{row}")
    for seed in zip(*all_values):
        axes.plot(seed, range(len(names)), color="gray", linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set(title=title, xlabel="%")


def policies(items):
    return list(dict.fromkeys(it["policy"] for it in items))


def queue(result):
    """All figures of waiting times."""
    figures = result["figures"]
    n_policies = len(figures["gpus"])
    picture, rows = plt.subplots(2 + n_policies, 2, figsize=(13, 4 * (2 + n_policies)))
    draws = [(waits, "waits"), (sizes, "sizes"), (times, "times"), (fairness, "fairness")]
    for axes, (draw, name) in zip(rows[:2].flat, draws):
        draw(axes, figures[name])
    for axes, in_use, on_gpus in zip(rows[2:], figures["gpus"], figures["runs"]):
        gpus(axes[0], in_use, result["gpus"])
        runs(axes[1], on_gpus, in_use["owner"])
    return picture


def packing(result):
    """All figures of utilization."""
    items = result["items"]
    picture, (left, right) = plt.subplots(1, 2, figsize=(13, 4))
    if result["churn"]:
        paired(left, items, lambda it: it["rejected"], "Rejected GPUs")
        paired(right, items, lambda it: it["rejected_of_eight"], "Rejected tasks of 8 GPUs")
    else:
        curves(left, items)
        full = [it for it in items if it["arrived"] == 1]
        paired(right, full, lambda it: 1 - it["allocated"], "Idle GPUs once all are requested")
    return picture


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        result = json.load(file)
    if not result["items"] or result.get("figures", {}) is None:
        sys.exit("no job ran: there is nothing to draw")
    picture = queue(result) if "figures" in result else packing(result)
    picture.tight_layout()
    picture.savefig(sys.argv[2], dpi=80)


if __name__ == "__main__":
    main()
