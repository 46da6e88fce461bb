#!/usr/bin/env python3
"""The pictures of results: `./run plots` draws them anew from the committed rows.

Each picture is a set of panels; a panel has rows, and a row a dot per distribution at (bound or tolerance) / largest
error seen, on a logarithmic axis. Left of 1 the row would accuse a healthy run. Nothing but Python's own library.
"""
import csv
import math
import pathlib
import sys

import detection_plot
import healthy_plot
import recipes_plot
from svg import page, text

RESULTS = pathlib.Path(__file__).parent / "results"  # a folder for each machine; a question has rows of one
DISTRIBUTIONS = ["zero-mean", "positive", "lognormal", "heavy-tailed", "cancelling", "constant"]
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b"]  # told apart by all eyes
N = "4096"
ROW, LABEL, WIDTH, GAP, TITLE = 17, 190, 300, 26, 20


def rows_file(name):
    return next(RESULTS.glob(f"*/{name}.csv"))


def every_row(name):
    with open(rows_file(name), encoding="utf-8") as file:
        return list(csv.DictReader(file))


def table(name):
    return [row for row in every_row(name) if row["n"] == N]


class Axis:
    """Powers of ten from `low` to `high`, WIDTH points wide, beginning at x."""

    def __init__(self, x, low, high):
        self.x, self.low, self.high = x, low, high

    def at(self, value):
        place = (math.log10(value) - self.low) / (self.high - self.low)
        return self.x + WIDTH * min(max(place, 0), 1)


def dot(axis, y, value, accuses, colour):
    x = axis.at(value)
    if accuses:
        return (f'<path d="M{x - 3.5:.1f} {y - 3.5:.1f}l7 7m0 -7l-7 7" stroke="{colour}" '
                f'stroke-width="2" fill="none"/>')
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6" fill="{colour}" fill-opacity="0.85"/>'


def panel(x, y, title, rows, low, high, labels=True):
    """rows: [(name, [(value, accuses, colour)])]. Returns SVG and height."""
    axis, height, out = Axis(x, low, high), ROW * len(rows), []
    out.append(text(x, y + 13, title, weight="bold", size=12))
    top, bottom = y + TITLE, y + TITLE + height
    one = axis.at(1)
    out.append(f'<rect x="{x}" y="{top}" width="{one - x:.1f}" height="{height}" fill="#fbe3dd"/>')
    for power in range(low, high + 1):
        at = axis.at(10.0**power)
        colour = "#888" if power == 0 else "#ddd"
        out.append(f'<line x1="{at:.1f}" y1="{top}" x2="{at:.1f}" y2="{bottom}" stroke="{colour}"/>')
        label = {0: "1", 1: "10", 2: "100"}.get(power, f"1e{power}")
        out.append(text(at, bottom + 12, label, "middle", 10, fill="#555"))
    for i, (name, dots) in enumerate(rows):
        middle = top + ROW * i + ROW / 2
        if labels:
            ours = name.startswith("plumb")
            out.append(text(x - 8, middle + 4, name, "end", 11, "bold" if ours else "normal"))
        out += [dot(axis, middle, *d) for d in dots]
    return out, TITLE + height + GAP


def legend(x, y, crosses):
    out = []
    for name, colour in zip(DISTRIBUTIONS, COLOURS):
        out.append(f'<circle cx="{x}" cy="{y - 4}" r="3.6" fill="{colour}"/>')
        out.append(text(x + 8, y, name))
        x += 24 + 6.6 * len(name)
    if crosses:
        out.append(f'<path d="M{x - 3} {y - 7}l7 7m0 -7l-7 7" stroke="#222" stroke-width="2"/>')
        out.append(text(x + 10, y, "accuses the healthy run"))
    return out


def picture(name, heading, caption, columns, crosses):
    """columns: [[(title, rows, low, high, labels)]]."""
    out, x, lowest = [], 0, 0
    for column in columns:
        x += LABEL if column[0][4] else 46
        y = 70
        for title, rows, low, high, labels in column:
            drawn, height = panel(x, y, title, rows, low, high, labels)
            out += drawn
            y += height
        lowest = max(lowest, y)
        x += WIDTH
    return name, page(x + 30, lowest + 6, heading, caption, legend(16, 60, crosses) + out)


def dots(rows, value, ratio):
    found = []
    for row in rows:
        if row[value] in ("-", "0"):  # refused, or no error at all
            continue
        colour = COLOURS[DISTRIBUTIONS.index(row["distribution"])]
        found.append((float(row[value]), float(row[ratio]) > 1, colour))
    return found


def others():
    rows = table("others-tolerances")
    names = {}
    for row in rows:
        names.setdefault(row["rule"])
    order = [n for n in names if not n.startswith("plumb")] + sorted(n for n in names if n.startswith("plumb"))

    def of(operation, result):
        lines = []
        for rule in order:
            chosen = [r for r in rows if (r["rule"], r["operation"], r["result"]) == (rule, operation, result)]
            if chosen:
                lines.append((rule, dots(chosen, "tolerance_over_largest_error", "largest_error_over_tolerance")))
        return (f"{operation}, {result} result", lines, -2, 6, True)

    return picture("others-tolerances", "Tolerances of others, and ours: how much more than the largest healthy error they accept",
                   f"n = {N}: largest tolerance / largest error among the outputs of a healthy run; "
                   "a cross: some element of that run is outside",
                   [[of(o, r) for o in ("gemm", "softmax", "rmsnorm")] for r in ("fp32", "bf16")], True)


def tightness():
    rows = [r for r in table("bound-tightness") if r["result"] == "fp32"]
    machines = [("ieee", "fp32", "fp32, any order"), ("ieee-sequential", "fp32", "fp32, sequential"),
                ("ieee-blocked128", "fp32", "fp32, blocks of 128"), ("ieee-pairwise", "fp32", "fp32, pairwise"),
                ("stochastic", "fp32", "fp32, stochastic rounding"), ("v100", "fp16", "V100, fp16"),
                ("a100", "bf16", "A100, bf16"), ("h100", "bf16", "H100, bf16"),
                ("h100", "e4m3fn", "H100, e4m3"), ("b200", "e4m3fn", "B200, e4m3")]
    others_ = [(o, "ieee", "fp32", o) for o in ("softmax", "rmsnorm", "layernorm")]
    lines = [("gemm", m, i, label) for m, i, label in machines] + others_

    def of(mode, labels):
        panel_rows = []
        for operation, machine, inputs, label in lines:
            chosen = [r for r in rows if (r["operation"], r["mode"], r["machine"], r["inputs"]) ==
                      (operation, mode, machine, inputs)]
            panel_rows.append((label, dots(chosen, "bound_over_largest_error", "largest_error_over_bound")))
        title = {"deterministic": "worst case", "probabilistic": "exceeded with probability 1e-9",
                 "moments": "bias and six deviations"}[mode]
        return (title, panel_rows, -1, 5, labels)

    return picture("bound-tightness", "How far each bound is from the largest error seen",
                   f"n = {N}, FP32 results: largest bound / largest error among the outputs; "
                   "no dot: refused, or no error at all",
                   [[of("deterministic", True)], [of("probabilistic", False)], [of("moments", False)]], False)


def main():
    check, stale = "--check" in sys.argv, []
    pictures = [tightness(), others()]
    for name, draw in (("training", recipes_plot.training), ("precision-recipes", recipes_plot.precision),
                       ("detection-rate", detection_plot.detection), ("healthy-layouts", healthy_plot.layouts),
                       ("false-alarms", healthy_plot.alarms)):
        pictures.append(draw(every_row(name)))
    for name, svg in pictures:
        file = rows_file(name).with_suffix(".svg")
        if check:
            if not file.exists() or file.read_text(encoding="utf-8") != svg:
                stale.append(file.name)
        else:
            file.write_text(svg, encoding="utf-8")
    if stale:
        sys.exit(f"not what the rows say: {', '.join(stale)}; draw them anew: ./run plots")


if __name__ == "__main__":
    main()
