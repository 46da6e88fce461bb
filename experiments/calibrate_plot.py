"""The picture of calibrate-hardware, for plot.py: which facts are found, and how near errors come to the bounds."""
from collections import Counter, defaultdict

from page import down, page, squares

OUTCOMES = [("found", "#0072b2"), ("not told by results", "#bbbbbb"), ("wrong", "#d55e00")]
FACTS = ["accumulator", "rounding", "order", "subnormals", "products rounded once or twice", "unit: terms, grid, kept",
         "unit: promotion", "order of sums of columns", "order of a softmax's sum"]
NAMES = {"accumulator": FACTS[0], "rounding": FACTS[1], "order_gemm": FACTS[2], "subnormals": FACTS[3], "fma": FACTS[4],
         "promoted_after": FACTS[6], "order_column_sum": FACTS[7], "order_softmax": FACTS[8]}


def cells(text, split):
    return [] if text == "-" else [part.split(split)[0] for part in text.split("; ")]


def facts_of(row):
    """The facts that the device has: those that devices.hpp counts."""
    if row["hidden"].startswith("terms"):
        return FACTS[:1] + [FACTS[5]] + ([FACTS[6]] if "promoted" in row["hidden"] else [])
    short = row["format"] != "fp32" or row["hidden"].startswith("pairwise")
    return FACTS[:4] + ([] if short else [FACTS[4]]) + FACTS[7:]


def kind_of(row):
    hidden = row["hidden"]
    if hidden.startswith("terms"):
        return "matrix unit"
    products = hidden.split(";")[0]
    return "by chance, any order" if "stochastic" in products else products.split(",")[0].split()[0]


def recovered(rows):
    """Of each fact, how many devices' are found, not told, wrong; of each kind of device, error over bound."""
    outcomes, ratios = {fact: Counter() for fact in FACTS}, defaultdict(list)
    for row in rows["calibrate-hardware"]:
        if row["hidden"] == "-":
            continue
        found = {NAMES.get(name, FACTS[5]) for name in cells(row["found"], " = ") if name != "slice_invariant"}
        wrong = {NAMES.get(name, FACTS[5]) for name in cells(row["wrong"], " is ")}
        for fact in facts_of(row):
            outcomes[fact]["wrong" if fact in wrong else "found" if fact in found else "not told by results"] += 1
        if row["worst"] != "-":
            ratios[kind_of(row)].append(float(row["worst"]))
    return {"outcomes": {fact: [of[name] for name, _ in OUTCOMES] for fact, of in outcomes.items()},
            "ratios": {kind: sorted(values) for kind, values in sorted(ratios.items())}}


def calibrated(plt, data):
    figure, axes = page(plt, 11, 4.6, "What do probes find out of an arithmetic from its results alone?",
                        "300 emulated devices drawn at random, whose facts are hidden. Left: the facts that they have, by what "
                        "became of them.\nRight: the largest error over the bound of the card that was found, on products, "
                        "sums and softmaxes that no probe used; a dot is a device.", 1, 2, legend=squares(plt, [(n, c) for n, c in OUTCOMES]))
    left, right = axes[0]
    names = list(data["outcomes"])
    for at, counts in enumerate(data["outcomes"].values()):
        start = 0
        for count, (_, colour) in zip(counts, OUTCOMES):
            left.barh(at, count, left=start, color=colour, height=0.62)
            start += count
        left.text(start + 4, at, f"{counts[0]} of {sum(counts)}", va="center")
    down(left, names)
    left.set_xlim(0, 1.2 * max(sum(counts) for counts in data["outcomes"].values()))
    left.set_xlabel("devices")
    kinds = list(data["ratios"])
    for at, values in enumerate(data["ratios"].values()):
        offsets = [0.28 * ((37 * i) % 11 - 5) / 5 for i in range(len(values))]
        right.plot(values, [at + o for o in offsets], "o", color="#0072b2", markersize=2.6, alpha=0.7)
    right.axvline(1, color="black", linewidth=1.4)
    right.set_xlim(0, 1.05)
    right.set_xlabel("largest error / bound")
    down(right, kinds)
    return figure
