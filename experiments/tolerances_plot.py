"""Pictures of bounds and tolerances, for plot.py: each over the largest error seen, a mark a distribution."""
import math

from page import GREY, RED, down, page

MARKS = {"zero-mean": ("#0072b2", "o"), "positive": ("#d55e00", "s"), "lognormal": ("#009e73", "^"),
         "heavy-tailed": ("#cc79a7", "D"), "cancelling": ("#56b4e9", "v"), "constant": ("#b8860b", "P")}
N = "4096"
MACHINES = [("ieee", "fp32", "fp32, any order"), ("ieee-sequential", "fp32", "fp32, sequential"),
            ("ieee-blocked128", "fp32", "fp32, blocks of 128"), ("ieee-pairwise", "fp32", "fp32, pairwise"),
            ("stochastic", "fp32", "fp32, stochastic rounding"), ("v100", "fp16", "V100, fp16"), ("a100", "bf16", "A100, bf16"),
            ("h100", "bf16", "H100, bf16"), ("h100", "e4m3fn", "H100, e4m3"), ("b200", "e4m3fn", "B200, e4m3")]
MODES = {"deterministic": "worst case", "probabilistic": "exceeded with 1e-9", "moments": "bias, six deviations"}


def marks(rows, value, ratio):
    """[distribution, times the largest error, does it accuse the healthy run], where there is an error at all."""
    return [[r["distribution"], float(r[value]), float(r[ratio]) > 1] for r in rows if r[value] not in ("-", "0")]


def draw_marks(panel, lines, low, high):
    """lines: {name: marks}. Distributions of a line stand below each other, so that none hides another."""
    aside = {name: 0.13 * (i - 2.5) for i, name in enumerate(MARKS)}
    panel.axvspan(low, 1, color=RED)
    panel.axvline(1, color="#888888", linewidth=1)
    for y, found in enumerate(lines.values()):
        for distribution, value, accuses in found:
            colour, mark = MARKS[distribution]
            at = min(max(value, low), high), y + aside[distribution]
            if accuses:
                panel.plot(*at, "X", color=colour, markersize=7, markeredgecolor="black", markeredgewidth=0.6, clip_on=False)
            else:
                panel.plot(*at, mark, color=colour, markersize=5, markeredgewidth=0, clip_on=False)
    panel.set_xscale("log")
    panel.set_xlim(low, high)
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    panel.set_xticks([10.0**p for p in powers], [{0: "1", 1: "10", 2: "100"}.get(p, f"1e{p}") for p in powers])
    panel.xaxis.set_tick_params(which="minor", length=0)
    panel.grid(axis="x")
    for y in range(len(lines) - 1):
        panel.axhline(y + 0.5, color="#eeeeee", linewidth=0.8)


def keys(plt, more=()):
    return [plt.Line2D([], [], linestyle="", color=colour, marker=mark, label=name)
            for name, (colour, mark) in MARKS.items()] + list(more)


def ratios_of_bounds(rows):
    rows = [r for r in rows["bound-tightness"] if (r["n"], r["result"]) == (N, "fp32")]
    lines = [("gemm", *m) for m in MACHINES] + [(o, "ieee", "fp32", o) for o in ("softmax", "rmsnorm", "layernorm")]
    return {mode: {label: marks([r for r in rows if (r["operation"], r["mode"], r["machine"], r["inputs"]) ==
                                 (operation, mode, machine, inputs)], "bound_over_largest_error", "largest_error_over_bound")
                   for operation, machine, inputs, label in lines} for mode in MODES}


def tightness(plt, of):
    ends = [2e5, 100, 30]
    figure, axes = page(plt, 11, 7.2, "How far each bound is from the largest error seen",
                        f"Largest bound / largest error among the outputs; n = {N}, FP32 results, of products unless another "
                        "operation is\nnamed. A decade is as wide in every panel. No mark: refused, or no error at all.",
                        1, 3, legend=keys(plt), sharey=True,
                        gridspec_kw={"width_ratios": [math.log10(end / 0.5) for end in ends]})
    for panel, (mode, lines), end in zip(axes[0], of.items(), ends):
        panel.set_title(MODES[mode])
        draw_marks(panel, lines, 0.5, end)
        down(panel, list(lines))
    return figure


def ratios_of_others(rows):
    rows = [r for r in rows["others-tolerances"] if r["n"] == N]
    rules = list(dict.fromkeys(r["rule"] for r in rows))
    rules = [r for r in rules if not r.startswith("plumb")] + sorted(r for r in rules if r.startswith("plumb"))
    of = {}
    for result in ("fp32", "bf16"):
        for operation in ("gemm", "softmax", "rmsnorm"):
            lines = {rule: marks([r for r in rows if (r["rule"], r["operation"], r["result"]) == (rule, operation, result)],
                                 "tolerance_over_largest_error", "largest_error_over_tolerance") for rule in rules}
            of[f"{operation}, {result} result"] = {rule: found for rule, found in lines.items() if found}
    return of


def others(plt, of):
    cross = plt.Line2D([], [], linestyle="", marker="X", color=GREY, markeredgecolor="black", markersize=7,
                       label="accuses the healthy run")
    titles = list(of)
    figure, axes = page(plt, 11, 11, "Tolerances of others, and ours: how much more than the largest healthy error they accept",
                        f"Largest tolerance / largest error among the outputs of a healthy run, n = {N}. A cross: some element "
                        "of that run is\noutside. Each panel has the rules that have a tolerance for it.", 3, 2,
                        legend=keys(plt, [cross]), columns=7,
                        gridspec_kw={"height_ratios": [max(len(of[titles[i]]), len(of[titles[i + 3]])) for i in range(3)]})
    for i, (title, lines) in enumerate(of.items()):
        panel = axes[i % 3][i // 3]
        panel.set_title(title)
        draw_marks(panel, lines, 1e-2, 2e6)
        down(panel, list(lines), lambda name: name.startswith("plumb"))
    return figure
