"""The picture of detection-rate, for plot.py: which rule notices which bug, and accuses healthy runs."""
from collections import defaultdict

from svg import keys, page, text

RULES = [("twins;replay", "twins + replay (default)"), ("perturbation", "perturbation, margin 2"), ("flat", "flat 8.29 %"),
         ("assert-close", "assert-close")]
ROW, LABEL, WIDTH, GAP = 15, 280, 150, 26
DETECTED, BLAMED, ACCUSED = "#9ecae1", "#0072b2", "#d55e00"


def shares(rows):
    """(bug, rule): shares of trials detected, blamed exactly, and with the healthy run accused."""
    counts = defaultdict(lambda: [0, 0, 0, 0])
    for r in rows:
        for bug in (r["bug"], "all bugs"):
            count = counts[bug, r["rule"]]
            count[0] += 1
            count[1] += r["detected"] == "1"
            count[2] += r["blamed_right"] == "1"
            count[3] += r["false_alarm"] == "1"
    return {key: [c / count[0] for c in count[1:]] for key, count in counts.items()}


def bar(x, y, share, height, colour):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{WIDTH * share:.1f}" height="{height}" fill="{colour}"/>'


def column(of, bugs, rule, title, x, y):
    out = [text(x, y - 8, title, size=11, weight="bold")]
    for i, bug in enumerate(bugs):
        detected, blamed, accused = of[bug, rule]
        top = y + ROW * i
        out += [bar(x, top + 1, 1, ROW - 3, "#f2f2f2"), bar(x, top + 1, detected, 8, DETECTED),
                bar(x, top + 1, blamed, 8, BLAMED), bar(x, top + 9, accused, 4, ACCUSED)]
    return out


def detection(rows):
    of, bugs = shares(rows), list(dict.fromkeys(r["bug"] for r in rows)) + ["all bugs"]
    parts, y = [], 96
    for i, bug in enumerate(bugs):
        weight = "bold" if bug == "all bugs" else "normal"
        parts.append(text(LABEL - 8, y + ROW * i + 11, bug, "end", 10, weight))
    for i, (rule, title) in enumerate(RULES):
        parts += column(of, bugs, rule, title, LABEL + i * (WIDTH + GAP), y)
    legend = [(BLAMED, "blamed exactly where it bites"), (DETECTED, "detected"), (ACCUSED, "healthy run accused")]
    caption = ("shares of trials: every family a bug can bite in, random and trained weights, several seeds; "
               "a full bar is all of them")
    return "detection-rate", page(LABEL + len(RULES) * (WIDTH + GAP), y + ROW * len(bugs) + 12,
                                  "Which planted bugs does each rule notice, and when does it cry wolf?", caption,
                                  keys(16, 65, legend) + parts)
