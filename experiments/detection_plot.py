"""The picture of detection-rate, for plot.py: which rule notices which bug, and accuses healthy runs."""
from page import down, page, squares

RULES = {"twins;replay": "twins + replay (default)", "perturbation": "perturbation, margin 2", "flat": "flat 8.29 %",
         "assert-close": "assert-close"}
LIGHT, DARK, ACCUSED = "#9ecae1", "#0072b2", "#d55e00"


def counts(rows):
    """Of each bug and rule: trials, detected, with structure, blamed, healthy runs accused."""
    of = {}
    for r in rows["detection-rate"]:
        found = (1, r["detected"] == "1", r["detected"] == "1" or r["structure"] != "0", r["blamed_right"] == "1",
                 r["false_alarm"] == "1")
        for bug in ("all bugs", r["bug"]):
            so_far = of.setdefault(bug, {}).setdefault(r["rule"], [0] * len(found))
            of[bug][r["rule"]] = [a + b for a, b in zip(so_far, found)]
    return of


def detection(plt, of):
    keys = squares(plt, [("blamed exactly where it bites", DARK), ("detected by the rule itself", LIGHT),
                         ("healthy run accused", ACCUSED)])
    caption = ("Shares of trials (so many behind each name): every family a bug can bite in, random and trained weights, "
               "several\nseeds. Structure, which needs no rule, is what finds gradient-bucket-not-awaited.")
    figure, axes = page(plt, 11, 11.6, "Which planted bugs does each rule notice, and when does it cry wolf?", caption,
                        1, len(RULES), legend=keys, sharey=True)
    names = [f"{bug} ({next(iter(rules.values()))[0]})" for bug, rules in of.items()]
    places = range(len(names))
    for panel, (rule, title) in zip(axes[0], RULES.items()):
        n, detected, structure, blamed, accused = of["all bugs"][rule]
        panel.set_title("\n\n\n\n", fontsize=10)  # room for the words, which are wider than what is drawn
        words = f"{blamed} of {n} blamed\n{detected} detected\n{structure} with structure\n{accused} healthy accused"
        for y, text, how in ((1.07, title, {"weight": "bold"}), (1.005, words, {"size": 9, "linespacing": 1.3})):
            panel.text(0, y, text, transform=panel.transAxes, in_layout=False, **how)
        for column, colour, top, height in ((0, "#f2f2f2", 0, 0.86), (1, LIGHT, -0.16, 0.54), (3, DARK, -0.16, 0.54),
                                            (4, ACCUSED, 0.28, 0.3)):
            share = [100 * rules[rule][column] / rules[rule][0] for rules in of.values()]
            panel.barh([y + top for y in places if share[y]], [s for s in share if s], height, color=colour,
                       clip_on=False)
        panel.set_xticks([0, 50, 100], ["0", "50", "100 %"])
        panel.set_xlim(0, 100)
        panel.spines[["left", "bottom"]].set_visible(False)
        panel.tick_params(axis="y", length=0)
        panel.axhline(0.5, color="#888888", linewidth=0.8, clip_on=False)
    down(axes[0][0], names, lambda name: name.startswith("all bugs"))
    return figure
