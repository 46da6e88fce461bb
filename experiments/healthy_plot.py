"""The pictures of healthy runs, for plot.py: are any accused, and do twins foretell where they lie?"""
from page import GREY, RED, down, page, squares

COLUMNS = [(f, w) for f in ("gpt", "llama", "gpt-moe", "llama-moe") for w in ("random", "trained")]
RECIPES = ["fp32", "tf32", "bf16", "bf16-pure", "bf16-stochastic", "bf16-wire32", "fp16", "fp8-current", "fp8-delayed",
           "fp8-block", "mxfp8", "nvfp4"]
TARGETS = {"fp8-current": 90, "fp8-delayed": 90, "fp8-block": 90, "mxfp8": 90, "nvfp4": 85}  # others: 95
GOAL = 97
OVER_GOAL, OVER_TARGET, BELOW, ALARM = "#9ecae1", "#deebf7", "#fdd0a2", "#b03a00"


def cell(rows):
    """Per cent foretold, each tensor counted once; the same of a draw by the others; runs accused, and all."""
    judged = [(int(r["tensors"]), r) for r in rows if int(r["tensors"]) > 0]
    if not judged:
        return None
    whole = sum(n for n, _ in judged)
    foretold, of_a_draw = (round(100 * sum(n * float(r[column]) for n, r in judged) / whole, 1)
                           for column in ("share_in_0.8_1.25", "draw_against_other_draws"))
    return [foretold, of_a_draw, sum(int(r["accused"]) > 0 for r in rows), len(rows)]


def shares(rows):
    """Of each recipe: its cells. Recipes with the same cells in all are one line, as those that differ in the update."""
    of = {}
    for r in rows["healthy-layouts"]:
        of.setdefault((r["recipe"], r["family"], r["weights"]), []).append(r)
    lines = {}
    for recipe in RECIPES:
        cells = [cell(of.get((recipe, *column), [])) for column in COLUMNS]
        same = next((names for names, others in lines.items() if others == cells), None)
        if same:
            lines = {f"{names},\n{recipe}" if names == same else names: others for names, others in lines.items()}
        elif any(cells):
            lines[recipe] = cells
    return lines


def heat(panel, y, recipe, cells):
    for x, found in enumerate(cells):
        if not found:
            continue
        foretold, of_a_draw, accused, _ = found
        target = TARGETS.get(recipe.split(",")[0], 95)
        colour = OVER_GOAL if foretold >= GOAL else OVER_TARGET if foretold >= target else BELOW
        panel.add_patch(type(panel.patch)((x - 0.48, y - 0.46), 0.96, 0.92, color=colour))
        panel.text(x - 0.1, y, f"{foretold:.1f}", size=12, ha="center", va="center")
        panel.text(x + 0.44, y, f"{of_a_draw:.1f}", size=8, color=GREY, ha="right", va="center")
        if accused:
            panel.text(x, y + 0.33, f"{accused} accused", size=8, color=ALARM, weight="bold", ha="center", va="center")


def layouts(plt, lines):
    keys = squares(plt, [(f"at least {GOAL}", OVER_GOAL), ("at least the target: 95 in 16 bits and more, 90 in 8, 85 in 4",
                                                           OVER_TARGET), ("below it", BELOW)])
    caption = ("Per cent of tensors whose norm twins foretell within [0.8, 1.25]; small: what one draw foretells of another, "
               "which no\nmodel of rounding can better by much. In red: healthy runs accused at the level 0.01; none where nothing "
               "is said.")
    figure, axes = page(plt, 11, 7.6, "Is any healthy run accused, and do twins foretell how far it lies?", caption,
                        1, 1, legend=keys)
    panel = axes[0][0]
    for y, (recipe, cells) in enumerate(lines.items()):
        heat(panel, y, recipe, cells)
    panel.spines[:].set_visible(False)
    runs = [max(cells[x][3] for cells in lines.values() if cells[x]) for x in range(len(COLUMNS))]
    panel.set_xticks(range(len(COLUMNS)), [f"{f}\n{w}\n{n} runs a cell" for (f, w), n in zip(COLUMNS, runs)])
    panel.xaxis.tick_top()
    panel.tick_params(length=0)
    panel.set_xlim(-0.5, len(COLUMNS) - 0.5)
    down(panel, list(lines))
    return figure


WEIGHTS = {"random": ("#0072b2", "o"), "early": ("#009e73", "s"), "trained": ("#d55e00", "^")}
LOWEST = 5e-4


def rates(rows):
    """[level, weights, alarms, runs, most] of each cell, as `plumb experiment false-alarms` writes them beside its rows."""
    return [[r["level"], r["weights"], int(r["by_both"]), int(r["runs"]), int(r["most"])]
            for r in rows["false-alarms-rates"]]


def strip(panel, x, level, cells):
    """The cells of one level side by side, those that accuse most to the right."""
    most = max(c[4] / c[3] for c in cells)
    panel.fill_between([x - 0.46, x + 0.46], most, 1, color=RED, linewidth=0)
    panel.plot([x - 0.46, x + 0.46], [float(level)] * 2, color="#a33333", linewidth=1.2)
    cells = sorted(cells, key=lambda c: c[2] / c[3])
    for n, (_, weights, count, runs, _) in enumerate(cells):
        colour, mark = WEIGHTS[weights]
        panel.plot(x - 0.42 + 0.84 * n / max(len(cells) - 1, 1), max(count / runs, LOWEST), mark, color=colour, markersize=4)


def alarms(plt, of):
    levels = sorted({r[0] for r in of}, key=float)
    cells = {w: sum(r[1] == w and r[0] == levels[0] for r in of) for w in WEIGHTS}
    keys = [plt.Line2D([], [], color=colour, marker=mark, linewidth=0, label=f"{w}: {cells[w]} cells")
            for w, (colour, mark) in WEIGHTS.items()]
    figure, axes = page(plt, 9, 6.2, "How often is a healthy run accused?",
                        "By the shipped check. A mark is a cell: weights, size, family, recipe, layout.\n"
                        "Line: the level; red: more than 99 of 100 samples of a rate as high would have. At the bottom: none.", 1, 1,
                        legend=keys, columns=3)
    panel = axes[0][0]
    for x, level in enumerate(levels):
        strip(panel, x, level, [r for r in of if r[0] == level])
    panel.set_yscale("log")
    panel.set_ylim(LOWEST / 1.3, 1)
    panel.set_yticks([LOWEST, 1e-3, 1e-2, 0.1, 1], ["none", "0.1 %", "1 %", "10 %", "100 %"])
    panel.grid(axis="y")
    total = {level: (sum(r[2] for r in of if r[0] == level), sum(r[3] for r in of if r[0] == level)) for level in levels}
    panel.set_xticks(range(len(levels)), [f"{level}\n{total[level][0]:,} of {total[level][1]:,}" for level in levels])
    panel.set_xlim(-0.5, len(levels) - 0.5)
    panel.set_xlabel("level asked for, and runs accused in all")
    return figure
