"""The picture of detection-rate, for plot.py: which rule notices which bug, and accuses healthy runs."""
from collections import defaultdict

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


def column(of, bugs, rule, title, x, y, text):
    out = [text(x, y - 8, title, size=11, weight="bold")]
    for i, bug in enumerate(bugs):
        detected, blamed, accused = of[bug, rule]
        top = y + ROW * i
        out += [bar(x, top + 1, 1, ROW - 3, "#f2f2f2"), bar(x, top + 1, detected, 8, DETECTED),
                bar(x, top + 1, blamed, 8, BLAMED), bar(x, top + 9, accused, 4, ACCUSED)]
    return out


def detection(rows, text):
    of, bugs = shares(rows), list(dict.fromkeys(r["bug"] for r in rows)) + ["all bugs"]
    parts, y = [], 96
    for i, bug in enumerate(bugs):
        weight = "bold" if bug == "all bugs" else "normal"
        parts.append(text(LABEL - 8, y + ROW * i + 11, bug, "end", 10, weight))
    for i, (rule, title) in enumerate(RULES):
        parts += column(of, bugs, rule, title, LABEL + i * (WIDTH + GAP), y, text)
    legend = [(BLAMED, "blamed exactly where it bites"), (DETECTED, "detected"), (ACCUSED, "healthy run accused")]
    x = 16
    for colour, words in legend:
        parts += [f'<rect x="{x}" y="56" width="12" height="10" fill="{colour}"/>', text(x + 18, 65, words)]
        x += 48 + 6.4 * len(words)
    width, height = LABEL + len(RULES) * (WIDTH + GAP), y + ROW * len(bugs) + 12
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
            '<rect width="100%" height="100%" fill="#fff"/>',
            text(16, 24, "Which planted bugs does each rule notice, and when does it cry wolf?", size=15, weight="bold"),
            text(16, 42, "shares of trials: every family a bug can bite in, random and trained weights, several seeds; "
                         "a full bar is all of them", fill="#555")]
    return "detection-rate", "\n".join(head + parts + ["</svg>", ""])
