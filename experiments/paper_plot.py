"""Pictures of the paper's bugs, for plot.py: who notices and blames each, and what curves show of them."""
from page import GREY, down, page, squares

RULES = {"twins;replay": "twins + replay", "perturbation": "perturbation, margin 2",
         "depth-law": "depth-law", "flat": "flat 8.29 %"}
LIGHT, DARK, ACCUSED = "#9ecae1", "#0072b2", "#d55e00"


def counts(rows):
    """Of each bug and rule, structure included: trials, detected, blamed, healthy runs accused."""
    of, key = {}, ("bug", "family", "recipe", "weights", "seed")
    alone = {tuple(r[k] for k in key): r["blamed_right"] for r in rows["paper-bugs"] if r["rule"] == "structure"}
    for r in rows["paper-bugs"]:
        if r["rule"] not in RULES:
            continue
        structure = r["structure"] == "1"
        blamed = alone[tuple(r[k] for k in key)] if structure and r["rule"] != "twins;replay" else r["blamed_right"]
        found = (1, r["detected"] == "1" or structure, blamed == "1", r["false_alarm"] == "1")
        for bug in ("all fourteen", f"{r['paper_bug']}: {r['bug']}"):
            so_far = of.setdefault(bug, {}).setdefault(r["rule"], [0] * len(found))
            of[bug][r["rule"]] = [a + b for a, b in zip(so_far, found)]
    return of


def bugs(plt, of):
    keys = squares(plt, [("blamed exactly where it bites", DARK), ("detected", LIGHT),
                         ("healthy run accused", ACCUSED)])
    figure, axes = page(plt, 11, 6.2, "The fourteen bugs of TTrace's table, after one step", "Shares of trials (so many "
                        "behind each card's name): families and recipes that a bug can bite in, random and trained weights, "
                        "five\nseeds. Each rule with structure: where that finds something, it says who is to blame.", 1,
                        len(RULES), legend=keys, sharey=True)
    names = [f"{bug} ({next(iter(rules.values()))[0]})" for bug, rules in of.items()]
    places = range(len(names))
    for panel, (rule, title) in zip(axes[0], RULES.items()):
        n, detected, blamed, accused = of["all fourteen"][rule]
        panel.set_title("\n\n\n", fontsize=10)  # room for the words, which are wider than what is drawn
        words = f"{blamed} of {n} blamed\n{detected} detected\n{accused} healthy accused"
        for y, text, how in ((1.12, title, {"weight": "bold"}), (1.005, words, {"size": 9, "linespacing": 1.3})):
            panel.text(0, y, text, transform=panel.transAxes, in_layout=False, **how)
        for column, colour, top, height in ((0, "#f2f2f2", 0, 0.86), (1, LIGHT, -0.16, 0.54), (2, DARK, -0.16, 0.54),
                                            (3, ACCUSED, 0.28, 0.3)):
            share = [100 * rules[rule][column] / rules[rule][0] for rules in of.values()]
            panel.barh([y + top for y in places if share[y]], [s for s in share if s], height, color=colour,
                       clip_on=False)
        panel.set_xticks([0, 50, 100], ["0", "50", "100 %"])
        panel.set_xlim(0, 100)
        panel.spines[["left", "bottom"]].set_visible(False)
        panel.tick_params(axis="y", length=0)
        panel.axhline(0.5, color="#888888", linewidth=0.8, clip_on=False)
    down(axes[0][0], names, lambda name: name.startswith("all"))
    return figure


CURVES = {"loss": "loss", "grad_norm": "norm of all gradients"}


def curves(rows):
    """Of each family and run: the steps, and both curves as means of fifty steps; and from where on each is seen."""
    of, last = {}, {}
    for r in rows["loss-curve"]:
        run = of.setdefault(r["family"], {}).setdefault(f"{r['bug']} {r['layout']}", {"step": [], "loss": [], "grad_norm": []})
        step, now = int(r["step"]), [float(r[name]) for name in CURVES]
        if step > 25:
            run["step"].append(step)
            for name, a, b in zip(CURVES, last[id(run)], now):
                run[name].append((a + b) / 2)
        last[id(run)] = now
    return {"runs": of, "seen": [[r[c] for c in ("family", "bug", "layout", "curve", "seen_from_step")]
                                 for r in rows["loss-curve-rates"] if r["k"] == "1"]}


def loss_curves(plt, data):
    shown = [(family, run) for family, runs in data["runs"].items() for run in runs if not run.startswith("none")]
    figure, axes = page(plt, 11, 8.4, "What curves show of a bug that a check finds in the first step", "Means of 50 steps, "
                        "healthy runs subtracted (their mean). Grey: the band that healthy layouts of the same run span. Dots: "
                        "from here on the\ncurve stays outside of it by more than its width and a pixel of the picture of the "
                        "whole curve.", len(shown), 2, sharex=True)
    seen = {(family, f"{bug} {layout}", curve): step for family, bug, layout, curve, step in data["seen"]}
    for (family, run), panels in zip(shown, axes):
        runs = data["runs"][family]
        healthy = [r for name, r in runs.items() if name.startswith("none")]
        for panel, curve in zip(panels, CURVES):
            steps = runs[run]["step"]
            points = list(zip(*(h[curve] for h in healthy)))
            means = [sum(p) / len(p) for p in points]
            panel.fill_between(steps, [min(p) - m for p, m in zip(points, means)], [max(p) - m for p, m in zip(points, means)],
                               color="#bbbbbb", linewidth=0)
            gaps = [x - m for x, m in zip(runs[run][curve], means)]
            panel.plot(steps, gaps, color=ACCUSED, linewidth=1)
            step = seen[family, run, curve]
            if step != "never":
                at = min(range(len(steps)), key=lambda i: abs(steps[i] - int(step)))
                panel.plot([steps[at]], [gaps[at]], "o", color="black", markersize=4)
            panel.text(1, 1.02, f"{curve}: " + (f"seen from {step} on" if step != "never" else "not seen"),
                       transform=panel.transAxes, ha="right", va="bottom", size=9, color=GREY)
            panel.set_xlim(0, steps[-1])
            panel.grid(axis="y")
            if panel is panels[0]:
                bug, layout = run.split(" ")
                panel.set_title(f"{bug}, {layout.replace(';', ',')}", size=9)
    for panel, title in zip(axes[-1], CURVES.values()):
        panel.set_xlabel(f"step ({title})")
    return figure
