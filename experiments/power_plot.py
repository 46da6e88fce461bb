"""The picture of how small an error a check sees, for plot.py."""
import statistics

from page import GREY, page

RECIPES = {"bf16": "#0072b2", "fp8-current": "#009e73", "fp8-block": "#d55e00"}
MARKS = {("1", "4"): ("o", "first step"), ("3", "4"): ("s", "third step"), ("60", "4"): ("^", "60th step"),
         ("1", "16"): ("D", "first step of 16 layers")}


def scales(rows):
    """[recipe, steps, layers, before, now] of each run: the larger of what both looks of a check allow."""
    return [[r["recipe"], r["steps"], r["layers"], float(r["before"]), max(float(r["first_look"]), float(r["second_look"]))]
            for r in rows["smallest-scale"]]


def smaller(plt, of):
    ratios = {recipe: statistics.median(b / n for r, _, _, b, n in of if r == recipe) for recipe in RECIPES}
    keys = [plt.Line2D([], [], color=colour, linewidth=6, label=f"{recipe}: {ratios[recipe]:.2f} times smaller")
            for recipe, colour in RECIPES.items()]
    keys += [plt.Line2D([], [], color=GREY, marker=mark, linewidth=0, label=words) for mark, words in MARKS.values()]
    caption = ("The smallest error of a typical tensor's scale that twins see at the level 0.01, in healthy runs: by the rule of\n"
               f"before, and now. A mark is a run; below the line errors may be smaller now, in the median of all "
               f"{statistics.median(b / n for *_, b, n in of):.2f} times.")
    figure, axes = page(plt, 8.5, 7, "How small an error does a check see?", caption, 1, 1, legend=keys, columns=3)
    panel = axes[0][0]
    for recipe, steps, layers, before, now in of:
        panel.plot(before, now, MARKS[steps, layers][0], color=RECIPES[recipe], markersize=5, alpha=0.8)
    ends = [0.8 * min(min(r[3:]) for r in of), 1.25 * max(max(r[3:]) for r in of)]
    panel.plot(ends, ends, color=GREY, linewidth=1)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlim(ends)
    panel.set_ylim(ends)
    panel.grid(which="major")
    panel.set_xlabel("before (2f1017d)")
    panel.set_ylabel("now")
    return figure
