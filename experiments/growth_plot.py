"""Pictures of how errors grow with depth, for plot.py."""
from collections import defaultdict
from math import sqrt

from page import page

EPSILON = {"fp32": 2.0 ** -23, "fp16": 2.0 ** -10}  # of bf16 for the others, as the paper counts
SEEN, ESTIMATE, TWINS = "#222222", "#d55e00", "#0072b2"
PANELS = [("forward", "residual stream"), ("gradient", "its gradient"), ("weights", "weight gradients")]
DEPTHS = (24, 128)


def profiles(rows):
    """Of each family, depth (tp2, bf16, trained) and quantity: by layer what is seen, the estimate and twins, in epsilons."""
    of = defaultdict(lambda: defaultdict(list))
    for r in rows["error-growth"]:
        if (r["weights"], r["recipe"], r["layout"]) != ("trained", "bf16", "tp2") or int(r["layers"]) not in DEPTHS:
            continue
        for quantity, _ in PANELS:
            seen = r["weights_gradient" if quantity == "weights" else quantity]
            values = (seen, r[quantity + "_estimate"], r[quantity + "_twins"])
            of[f"{r['family']}, {r['layers']} layers", quantity][int(r["layer"])].append(
                [float(v) / EPSILON.get(r["recipe"], 2.0 ** -7) for v in values])
    # Root mean square over seeds.
    return {" ".join(key): [(layer, *(round(sqrt(sum(one[i] ** 2 for one in seeds) / len(seeds)), 6) for i in range(3)))
                            for layer, seeds in sorted(layers.items())] for key, layers in of.items()}


def growth(plt, of):
    rows = sorted({key.rsplit(" ", 1)[0] for key in of}, key=lambda row: (int(row.split()[1]), row))
    lines = [plt.Line2D([0], [0], color=colour, linestyle=dash, label=words) for colour, dash, words in (
        (SEEN, "-", "seen: tp2 against one device"), (TWINS, "--", "twins"),
        (ESTIMATE, ":", "the paper's estimate (input perturbed)"))]
    figure, axes = page(plt, 11, 2.1 * len(rows) + 1.2, "How a healthy run's error grows with depth",
                        "Relative Frobenius distance from the reference in multiples of 2^-7, layer by layer. BF16, weights of "
                        "300 steps.", len(rows), len(PANELS), legend=lines)
    for line, row in zip(axes, rows):
        for panel, (quantity, title) in zip(line, PANELS):
            layers, seen, estimate, twins = zip(*of[f"{row} {quantity}"])
            panel.set_title(f"{row}: {title}")
            panel.plot(layers, estimate, ":", color=ESTIMATE)
            panel.plot(layers, seen, color=SEEN, linewidth=1.6)
            panel.plot(layers, twins, "--", color=TWINS)
            panel.set_yscale("log")
            panel.grid(axis="y", which="both")
            panel.set_xlim(0, layers[-1] + 1)
    for panel in axes[-1]:
        panel.set_xlabel("layer")
    return figure
