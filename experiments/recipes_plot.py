"""Pictures of recipes, for plot.py: how each learns, and where each loses precision."""
from collections import defaultdict

from page import GREY, down, page, squares

LINES = {"tf32": ("#888888", "-"), "fp16": ("#56b4e9", "-"), "bf16": ("#0072b2", "-"), "bf16-pure": ("#0072b2", "--"),
         "bf16-stochastic": ("#0072b2", ":"), "bf16-wire32": ("#0072b2", "-."), "fp8-current": ("#d55e00", "-"),
         "fp8-delayed": ("#d55e00", "--"), "fp8-block": ("#d55e00", ":"), "mxfp8": ("#cc79a7", "-"), "nvfp4": ("#009e73", "-")}
# What is cast, in the order of a bar; both phases of one thing share a colour.
KINDS = [("activations for products", "#0072b2"), ("weights for products", "#56b4e9"),
         ("gradients for products", "#d55e00"), ("products", "#009e73"), ("attention", "#cc79a7"),
         ("residual stream", "#b8860b"), ("norms and activations", "#888888")]


def losses(rows):
    """Of each family and recipe: the loss by step, of all seeds, and where fp32 ends."""
    of = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for r in rows["training"]:
        of[r["family"]][r["recipe"]][int(r["step"])].append(float(r["mean_loss"]))
    return {family: {recipe: [(step, round(sum(v) / len(v), 6)) for step, v in sorted(line.items())]
                     for recipe, line in recipes.items()} for family, recipes in of.items()}


def apart(values, least):
    """Places near the values, in their order, at least so far from each other: where labels stand."""
    places = list(values)
    for _ in range(200):
        for i in range(1, len(places)):
            if places[i] - places[i - 1] < least:
                middle = (places[i] + places[i - 1]) / 2
                places[i - 1], places[i] = middle - least / 2 - 1e-9, middle + least / 2
    return places


def training(plt, of):
    figure, axes = page(plt, 11, 5.4, "Does every recipe learn as fp32 does?",
                        "Mean loss of ten steps minus that of fp32, the same 200 steps of the default text in each recipe. "
                        "The scale is\nlinear between -0.05 and 0.05, logarithmic outside; numbers: the loss at the end.",
                        1, 2, sharey=True)
    for panel, (family, recipes) in zip(axes[0], sorted(of.items())):
        base = dict(recipes["fp32"])
        panel.set_title(f"{family}: fp32 ends at {recipes['fp32'][-1][1]:.3f}")
        panel.set_yscale("symlog", linthresh=0.05, linscale=1.5)
        panel.set_ylim(-0.2, 2)
        panel.set_yticks([-0.1, -0.05, 0, 0.05, 0.1, 0.5, 1], ["-0.1", "-0.05", "0", "0.05", "0.1", "0.5", "1"])
        panel.yaxis.set_tick_params(which="minor", length=0)
        panel.set_xlim(0, 200)
        panel.set_xlabel("step")
        panel.grid(axis="y")
        panel.axhline(0, color="black", linewidth=1.6)
        ends = sorted((line[-1][1] - recipes["fp32"][-1][1], recipe) for recipe, line in recipes.items() if recipe in LINES)
        at = panel.transAxes.inverted().transform
        heights = [at(panel.transData.transform((200, end)))[1] for end, _ in ends]
        for (end, recipe), seen, height in zip(ends, heights, apart(heights, 0.056)):
            line, (colour, dash) = recipes[recipe], LINES[recipe]
            panel.plot(*zip(*((step, loss - base[step]) for step, loss in line)), color=colour, linestyle=dash, linewidth=1.4)
            panel.plot([1, 1.03, 1.12], [seen, height, height], transform=panel.transAxes, color=colour, linestyle=dash,
                       linewidth=1, clip_on=False)
            panel.text(1.13, height, f"{line[-1][1]:.3f} {recipe}", transform=panel.transAxes, va="center", color=colour)
    return figure


def sources(rows):
    """Of each recipe: shares of the squared error by what is cast, the error itself, and what is visible; llama, trained."""
    of = defaultdict(lambda: {"visible": None, "logits": [0] * len(KINDS), "gradients": [0] * len(KINDS), "error": {}})
    for r in rows["precision-recipes"]:
        if (r["family"], r["weights"], r["seed"]) != ("llama", "trained", "1"):
            continue
        if r["what"] == "visible":
            of[r["recipe"]]["visible"] = float(r["value"])
        elif r["what"] == "injected" and r["kind"] == "all":
            of[r["recipe"]]["error"][r["where"]] = float(r["value"])
        elif r["what"] == "injected":
            kind = next(i for i, (k, _) in enumerate(KINDS) if k in r["kind"])
            of[r["recipe"]][r["where"]][kind] += float(r["value"]) ** 2
    return dict(sorted(of.items(), key=lambda item: item[1]["error"]["gradients"]))


def stacked(panel, of, where):
    for i, recipe in enumerate(of.values()):
        left, whole = 0, sum(recipe[where]) or 1
        for energy, (_, colour) in zip(recipe[where], KINDS):
            panel.barh(i, 100 * energy / whole, 0.74, left, color=colour, clip_on=False)
            left += 100 * energy / whole
    panel.set_xlim(0, 100)
    panel.set_xticks([0, 50, 100], ["0", "50", "100 %"])
    panel.spines[["left", "bottom"]].set_visible(False)


def precision(plt, of):
    figure, axes = page(plt, 11, 5, "Where each recipe loses precision", "llama, trained. Bars: which casts the squared "
                        "error comes from. Right: the relative error of all casts together, and the\nsmallest scale error "
                        "that four twins would notice. fp32 casts nothing.", 1, 3, legend=squares(plt, KINDS), columns=4,
                        sharey=True, gridspec_kw={"width_ratios": [1, 1, 1.1]})
    for panel, where, title in zip(axes[0], ("logits", "gradients"), ("of the logits' error", "of all reduced gradients' error")):
        panel.set_title(title)
        stacked(panel, of, where)
    for panel in axes[0]:
        panel.tick_params(axis="y", length=0)
    panel = axes[0][2]
    for of_what, marker, fill, label in ((lambda r: r["error"]["logits"], "o", "white", "logits"),
                                         (lambda r: r["error"]["gradients"], "o", "black", "gradients"),
                                         (lambda r: r["visible"], "D", "#f2b701", "visible to twins")):
        seen = [(of_what(r), i) for i, r in enumerate(of.values()) if of_what(r)]
        panel.plot(*zip(*seen), marker, markerfacecolor=fill, markeredgecolor="black", markersize=6, label=label)
    panel.set_xscale("log")
    panel.set_xlim(3e-8, 1)
    panel.set_xticks([1e-6, 1e-4, 1e-2, 1], ["1e-6", "1e-4", "0.01", "1"])
    panel.grid(True)
    panel.set_title("relative error")
    panel.spines["left"].set_visible(False)
    panel.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.06), ncol=3, handletextpad=0.1, columnspacing=0.8, labelcolor=GREY)
    down(axes[0][0], list(of))
    return figure
