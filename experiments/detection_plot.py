"""The picture of detection-rate, for plot.py: which rule notices which kind of bug, and accuses healthy runs."""
from page import page, squares

RULES = {"twins;replay": "twins + replay (default)", "perturbation": "perturbation, margin 2", "depth-law": "depth-law",
         "flat": "flat 8.29 %", "assert-close": "assert-close"}
LIGHT, DARK, ACCUSED, EQUAL = "#9ecae1", "#0072b2", "#d55e00", "#222222"
KINDS = ["all", "computation", "communication", "missing-sum", "stale-data", "scaling", "sharding", "precision",
         "hardware"]


def counts(rows):
    """Of each kind and rule: runs, found and blamed with structure, accused; found where a rule accuses as few as ours."""
    of = {}
    for r in rows["detection-rate-rates"]:
        if r["weights"] != "all":
            continue
        cell = of.setdefault(r["kind"], {}).setdefault(r["rule"], [0] * 5)
        found = int(r["detected_or_structure"])
        if r["at"] == "as given":
            cell[:4] = int(r["trials"]), found, int(r["blamed_right_with_structure"]), int(r["healthy_accused"])
            cell[4] = cell[4] or found
        else:
            cell[4] = found
    return of


def detection(plt, of):
    keys = squares(plt, [("blamed exactly where it bites", DARK), ("found, by the rule or by structure", LIGHT),
                         ("healthy run accused", ACCUSED), ("found where it accuses as few as the default", EQUAL)])
    caption = ("Shares of runs (so many behind each name): every family that a bug can bite in, random and trained "
               "weights, several\nseeds. Structure needs no rule: replicas that differ, tensors that are missing.")
    figure, axes = page(plt, 12, 5.2, "Which planted bugs does each rule notice, and when does it cry wolf?", caption,
                        1, len(RULES), legend=keys, sharey=True)
    kinds = [kind for kind in KINDS if kind in of]
    for panel, (rule, title) in zip(axes[0], RULES.items()):
        panel.set_title(title, fontsize=10, loc="left", weight="bold")
        cells = [of[kind][rule] for kind in kinds]
        for column, colour, top, height in ((0, "#f2f2f2", 0, 0.86), (1, LIGHT, -0.16, 0.54), (2, DARK, -0.16, 0.54),
                                            (3, ACCUSED, 0.28, 0.3)):
            for y, cell in enumerate(cells):
                if cell[column]:
                    panel.barh(y + top, 100 * cell[column] / cell[0], height, color=colour, clip_on=False)
        for y, cell in enumerate(cells):
            panel.plot([100 * cell[4] / cell[0]] * 2, [y - 0.43, y + 0.11], color=EQUAL, linewidth=2, clip_on=False)
        panel.set_xticks([0, 50, 100], ["0", "50", "100 %"])
        panel.set_xlim(0, 100)
        panel.spines[["left", "bottom"]].set_visible(False)
        panel.tick_params(axis="y", length=0)
        panel.axhline(0.5, color="#888888", linewidth=0.8, clip_on=False)
    first = axes[0][0]
    first.set_yticks(range(len(kinds)), [f"{kind} ({of[kind]['twins;replay'][0]})" for kind in kinds])
    first.invert_yaxis()
    return figure
