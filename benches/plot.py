#!/usr/bin/env python3
"""Draws the plots of docs/operating/performance.md as SVG out of benches/results, with nothing but Python's
standard library. White ground, so that they read the same on a dark page."""

import json
import math
from pathlib import Path

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
DOCS = HERE.parent / "docs" / "operating"
COLOURS = {
    "gpool": "#0b6e4f", "task-spooler": "#c77800", "pueue": "#7b4fb5", "slurm": "#b3273a",
    "gflow": "#2563a8",
}
GREY, INK = "#d4d4d4", "#222222"


class Drawing:
    """Shapes with coordinates in pixels."""

    def __init__(self, width, height, title):
        self.size = (width, height)
        self.parts = [
            f'<title>{title}</title>',
            f'<rect width="{width}" height="{height}" fill="#ffffff" rx="6"/>',
        ]

    def line(self, points, colour, width=1.0):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
        )

    def dot(self, x, y, colour):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>')

    def bar(self, x, y, width, height, colour):
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{colour}"/>'
        )

    def text(self, x, y, words, anchor="start", size=12, colour=INK, weight="normal"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
            f'fill="{colour}" font-weight="{weight}">{words}</text>'
        )

    def save(self, name):
        width, height = self.size
        body = "\n".join(self.parts)
        (DOCS / name).write_text(
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" font-family="sans-serif">\n{body}\n</svg>\n'
        )


class Log:
    """A logarithmic axis from one pixel to another."""

    def __init__(self, least, most, start, end):
        self.low, self.high = math.floor(math.log10(least)), math.ceil(math.log10(most))
        self.high = max(self.high, self.low + 1)
        self.start, self.end = start, end

    def at(self, value):
        part = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + part * (self.end - self.start)

    def decades(self):
        return [10.0**power for power in range(self.low, self.high + 1)]


def short(value):
    if value >= 1_000_000:
        return f"{value / 1_000_000:g} M"
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def amount(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.{1 if value >= 10 else 2}f}"


def load(name):
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def starts(report):
    """How many of the jobs had begun after so many milliseconds, a curve for each tool."""
    series = {}
    for name, tool in report["tools"].items():
        measured = sorted(ms for one in tool["rounds"] for ms in one.get("starts_ms", []))
        if measured:
            series[name] = measured
    if not series:
        return
    drawing = Drawing(720, 340, "From the submit command to the first instruction of the job")
    drawing.text(20, 26, "From the submit command to the first instruction", size=15, weight="bold")
    left, right, top, bottom = 56, 590, 46, 286
    least = min(values[0] for values in series.values())
    x = Log(least, max(values[-1] for values in series.values()), left, right)
    for decade in x.decades():
        drawing.line([(x.at(decade), top), (x.at(decade), bottom)], GREY)
        drawing.text(x.at(decade), bottom + 18, f"{short(decade)} ms", "middle")
    for percent in (0, 50, 100):
        y = bottom - percent / 100 * (bottom - top)
        drawing.line([(left, y), (right, y)], GREY)
        drawing.text(left - 8, y + 4, f"{percent} %", "end")
    drawing.text((left + right) / 2, bottom + 40, "jobs started, by time", "middle")
    for row, (name, values) in enumerate(sorted(series.items(), key=lambda item: item[1][0])):
        colour = COLOURS[name]
        points = [(x.at(values[0]), bottom)]
        for at, ms in enumerate(values, 1):
            y = bottom - at / len(values) * (bottom - top)
            points += [(x.at(ms), points[-1][1]), (x.at(ms), y)]
        drawing.line(points, colour, 2.2)
        middle = values[-(-len(values) // 2) - 1]
        drawing.text(604, top + 16 + 34 * row, name, colour=colour, weight="bold")
        drawing.text(604, top + 31 + 34 * row, f"p50 {amount(middle)} ms", size=11)
    drawing.save("start-latency.svg")


def rates(report):
    """Submissions and jobs per second, a bar for each tool."""
    middle = lambda values: sorted(values)[-(-len(values) // 2) - 1] if values else None
    rounds = {name: tool["rounds"] for name, tool in report["tools"].items()}
    groups = [
        ("submit commands per second",
         {name: middle([one["submits_per_s"] for one in all if "submits_per_s" in one])
          for name, all in rounds.items()}),
        ("jobs per second, true on 8 slots",
         {name: middle([one["drain"]["jobs_per_s"] for one in all if "drain" in one])
          for name, all in rounds.items()}),
    ]
    values = [value for _, group in groups for value in group.values() if value]
    if not values:
        return
    height = 50 + sum(40 + 24 * len(group) for _, group in groups)
    drawing = Drawing(720, height, "Submissions and jobs per second")
    drawing.text(20, 26, "Submissions and jobs per second", size=15, weight="bold")
    drawing.text(700, 26, "logarithmic", "end", size=11)
    x = Log(min(values) / 2, max(values), 130, 620)
    y = 44
    for title, group in groups:
        drawing.text(20, y + 16, title, size=13)
        y += 26
        for name, value in sorted(group.items(), key=lambda item: -(item[1] or 0)):
            drawing.text(122, y + 14, name, "end")
            if value:
                drawing.bar(130, y + 3, x.at(value) - 130, 15, COLOURS[name])
                drawing.text(x.at(value) + 8, y + 15, amount(value))
            else:
                drawing.text(134, y + 15, "not measured", size=11)
            y += 24
        y += 12
    drawing.save("rates.svg")


def pending():
    """What grows with the number of pending jobs, and the target."""
    reports = {1_000: load("pending-1000"), 10_000: load("pending-10000"), 100_000: load("disk")}
    reports = {n: report["figures"] for n, report in reports.items() if report}
    panels = [
        ("kill -9 to first decision", "restart_s", "s"),
        ("memory, MB", "pending_memory_mb", "MB"),
        ("gpool queue", "queue_ms", "ms"),
    ]
    if len(reports) < 2:
        return
    drawing = Drawing(720, 270, "Growth with the number of pending jobs")
    drawing.text(20, 26, "By the number of pending jobs", size=15, weight="bold")
    drawing.text(700, 26, "dashes: the target at 100,000", "end", size=11)
    for column, (title, name, unit) in enumerate(panels):
        points = {n: figures[name]["value"] for n, figures in reports.items() if name in figures}
        if not points:
            continue
        goal = reports[max(points)][name]["goal"]["below"]
        left = 58 + 232 * column
        x = Log(min(points), max(points), left, left + 150)
        y = Log(min([*points.values(), goal]), max([*points.values(), goal]), 220, 66)
        drawing.text(left - 34, 52, title, size=13)
        for decade in y.decades():
            drawing.line([(left, y.at(decade)), (left + 150, y.at(decade))], GREY)
            drawing.text(left - 6, y.at(decade) + 4, short(decade), "end", size=11)
        for n in points:
            drawing.text(x.at(n), 240, short(n), "middle", size=11)
        for dash in range(left, left + 150, 12):
            drawing.line([(dash, y.at(goal)), (dash + 6, y.at(goal))], "#b3273a", 1.5)
        drawing.line([(x.at(n), y.at(value)) for n, value in points.items()], COLOURS["gpool"], 2)
        for n, value in points.items():
            drawing.dot(x.at(n), y.at(value), COLOURS["gpool"])
            anchor = "start" if n == min(points) else "end" if n == max(points) else "middle"
            drawing.text(x.at(n), y.at(value) - 9, f"{amount(value)} {unit}", anchor, size=11)
    drawing.save("pending.svg")


def shares():
    """What a cycle of a shared cluster costs, by pending jobs, a line for each size."""
    fleets = {100: "#7b4fb5", 1_000: "#c77800", 10_000: COLOURS["gpool"]}
    panels = [
        ("full cycle, ms", "shares_full_ms"),
        ("after one end, ms", "shares_end_ms"),
        ("reclaim, ms", "shares_reclaim_ms"),
    ]
    reports = {}
    for nodes in fleets:
        for n in (1_000, 10_000, 100_000):
            report = load(f"shares-{nodes}-{n}")
            if report:
                reports[nodes, n] = report["figures"]
    if len(reports) < 2:
        return
    drawing = Drawing(720, 286, "The cost of a cycle with projects")
    drawing.text(20, 26, "A cycle, by pending jobs", size=15, weight="bold")
    for at, (nodes, colour) in enumerate(fleets.items()):
        drawing.text(300 + 110 * at, 26, f"{nodes:,} nodes", colour=colour, weight="bold")
    drawing.text(700, 276, "dashes: the target at 100,000 jobs and 10,000 nodes", "end", size=11)
    for column, (title, name) in enumerate(panels):
        values = [figures[name]["value"] for figures in reports.values()]
        goal = reports[max(reports)][name]["goal"]["below"]
        left = 58 + 232 * column
        x = Log(1_000, 100_000, left, left + 150)
        y = Log(min([*values, goal]), max([*values, goal]), 226, 66)
        drawing.text(left - 34, 52, title, size=13)
        for decade in y.decades():
            drawing.line([(left, y.at(decade)), (left + 150, y.at(decade))], GREY)
            drawing.text(left - 6, y.at(decade) + 4, short(decade), "end", size=11)
        for n in (1_000, 10_000, 100_000):
            drawing.text(x.at(n), 246, short(n), "middle", size=11)
        for dash in range(left, left + 150, 12):
            drawing.line([(dash, y.at(goal)), (dash + 6, y.at(goal))], "#b3273a", 1.5)
        for nodes, colour in fleets.items():
            of = [(n, it[name]["value"]) for (of, n), it in sorted(reports.items()) if of == nodes]
            drawing.line([(x.at(n), y.at(value)) for n, value in of], colour, 2)
            for n, value in of:
                drawing.dot(x.at(n), y.at(value), colour)
    drawing.save("shares.svg")


def main():
    report = load("peers")
    if report:
        starts(report)
        rates(report)
    pending()
    shares()


if __name__ == "__main__":
    main()
