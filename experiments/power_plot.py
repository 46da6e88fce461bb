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
    caption = ("The smallest error of a typical tensor's scale that twins see at the level 0.01, in healthy runs: how many\n"
               f"times smaller it is than by the rule of before. A mark is a run; the median of all is "
               f"{statistics.median(b / n for *_, b, n in of):.2f} (dashed).")
    figure, axes = page(plt, 8.5, 6, "How small an error does a check see?", caption, 1, 1, legend=keys, columns=3)
    panel = axes[0][0]
    for recipe, steps, layers, before, now in of:
        panel.plot(before, before / now, MARKS[steps, layers][0], color=RECIPES[recipe], markersize=5, alpha=0.8)
    panel.axhline(1, color=GREY, linewidth=1)
    panel.axhline(statistics.median(b / n for *_, b, n in of), color=GREY, linewidth=1, linestyle="--")
    panel.set_xscale("log")
    panel.set_ylim(bottom=0)
    panel.grid(which="major")
    panel.set_xlabel("the smallest error that was seen before (2f1017d)")
    panel.set_ylabel("times smaller now")
    return figure
