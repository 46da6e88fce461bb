#!/usr/bin/python3
"""The pictures of results: `./run plots` draws them anew from the committed rows.

    plot.py          draws the pictures that are not of these rows
    plot.py --all    draws every picture
    plot.py --check  says which pictures are not of these rows (needs no matplotlib)
    plot.py --try    draws every picture and keeps none
    plot.py --pdf FOLDER  draws every picture as PDF, there

A picture is a pair of functions: one makes what is drawn of the rows, one draws it. A digest of what is drawn stands
in the picture, so that the check does not depend on versions of what draws.
"""
import csv
import hashlib
import io
import json
import pathlib
import sys

import calibrate_plot
import detection_plot
import doses_plot
import growth_plot
import healthy_plot
import paper_plot
import power_plot
import recipes_plot
import tolerances_plot
from page import STYLE

RESULTS = pathlib.Path(__file__).parent / "results"  # a folder for each machine; a question has rows of one
PICTURES = {"bound-tightness": (tolerances_plot.ratios_of_bounds, tolerances_plot.tightness),
            "others-tolerances": (tolerances_plot.ratios_of_others, tolerances_plot.others),
            "training": (recipes_plot.losses, recipes_plot.training),
            "precision-recipes": (recipes_plot.sources, recipes_plot.precision),
            "error-growth": (growth_plot.profiles, growth_plot.growth),
            "calibrate-hardware": (calibrate_plot.recovered, calibrate_plot.calibrated),
            "detection-rate": (detection_plot.counts, detection_plot.detection),
            "smallest-fault": (doses_plot.doses, doses_plot.smallest),
            "loss-curve": (paper_plot.curves, paper_plot.loss_curves),
            "paper-bugs": (paper_plot.counts, paper_plot.bugs),
            "healthy-layouts": (healthy_plot.shares, healthy_plot.layouts),
            "false-alarms": (healthy_plot.rates, healthy_plot.alarms),
            "smallest-scale": (power_plot.scales, power_plot.smaller)}


def rows_file(name):
    return next(RESULTS.glob(f"*/{name}.csv"))


class Rows(dict):
    """The committed rows of each question, read when they are asked for."""

    def __missing__(self, name):
        with open(rows_file(name), encoding="utf-8") as file:
            self[name] = list(csv.DictReader(file))
        return self[name]


def pyplot():
    try:
        import matplotlib
    except ImportError:
        sys.exit("plot.py: pictures need matplotlib, which this Python does not find; install it: "
                 "apt-get install python3-matplotlib")
    matplotlib.use("svg")
    import matplotlib.pyplot as plt
    plt.rcParams.update(STYLE)
    return plt


def in_digits(data):
    """The same with numbers in six digits, so that the way of adding does not matter."""
    if isinstance(data, dict):
        return {str(key): in_digits(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [in_digits(value) for value in data]
    return f"{data:.6g}" if isinstance(data, float) else data


def stamp(data):
    """Stands in the picture: a digest of all that is drawn."""
    text = json.dumps(in_digits(data))
    return "drawn of data with sha256 " + hashlib.sha256(text.encode()).hexdigest()


def svg(plt, draw, data):
    figure, text = draw(plt, data), io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Description": stamp(data)})
    plt.close(figure)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def as_pdf(folder):
    plt, folder = pyplot(), pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, (make, draw) in PICTURES.items():
        figure = draw(plt, make(Rows()))
        figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
        plt.close(figure)


def main(how):
    stale, plt = [], None
    for name, (make, draw) in PICTURES.items():
        data, file = make(Rows()), rows_file(name).with_suffix(".svg")
        fresh = file.exists() and stamp(data) in file.read_text(encoding="utf-8")
        if how == "--check":
            stale += [] if fresh else [file.name]
        elif not fresh or how in ("--all", "--try"):
            plt = plt or pyplot()
            drawn = svg(plt, draw, data)
            if how != "--try":
                file.write_text(drawn, encoding="utf-8")
    if stale:
        sys.exit(f"not what the rows say: {', '.join(stale)}; draw them anew: ./run plots")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--pdf"] and len(sys.argv) == 3:
        as_pdf(sys.argv[2])
    else:
        main(sys.argv[1] if len(sys.argv) > 1 else "")
