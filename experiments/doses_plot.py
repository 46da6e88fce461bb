"""The pictures of smallest-fault and training-cost, for plot.py."""
from page import RED, down, page

OURS = "twins;replay"
MARKS = {(OURS, "as given"): ("default rules", "#0072b2", "o"), ("twins", "as given"): ("twins alone", "#56b4e9", "D"),
         ("perturbation", "our false alarms"): ("perturbation", "#d55e00", "s"),
         ("depth-law", "our false alarms"): ("depth-law", "#cc79a7", "^"),
         ("flat", "our false alarms"): ("flat 8.29 %", "#009e73", "v"),
         ("assert-close", "our false alarms"): ("assert_close", "#555555", "x")}


def middle(sizes):
    """The middle one; of two the geometric mean. None: not seen, which lies above every size."""
    sizes = sorted(sizes, key=lambda s: float("inf") if s is None else s)
    half = len(sizes) // 2
    if sizes[half] is None:
        return None
    return sizes[half] if len(sizes) % 2 else (sizes[half - 1] * sizes[half]) ** 0.5


def size_of(text):
    return None if text == "-" else float(text)


def doses(rows):
    """Of each fault, by tensor and kind: the smallest size that each rule sees, and the smallest there is; over models."""
    of = {}
    for r in rows["smallest-fault-rates"]:
        cell = of.setdefault(r["fault"], {"tensor": r["tensor"], "kind": r["kind"], "seen": {}, "there": []})
        if (r["rule"], r["at"]) in MARKS:
            cell["seen"].setdefault((r["rule"], r["at"]), []).append(size_of(r["smallest"]))
        cell["there"].append(size_of(r["smallest_tried"]))
    return {fault: {"of": cell["tensor"] + ", " + cell["kind"], "there": middle(cell["there"]),
                    "seen": {key: middle(sizes) for key, sizes in cell["seen"].items()}} for fault, cell in of.items()}


def smallest(plt, of):
    keys = [plt.Line2D([], [], color=colour, marker=mark, linestyle="", label=words)
            for words, colour, mark in MARKS.values()]
    keys.append(plt.Line2D([], [], color="#bbbbbb", linewidth=6, label="where such faults exist"))
    caption = ("The smallest size from which upwards a rule sees every fault, middle of two families, two recipes and four "
               "batches. The rules\nof others at the margin at which they accuse as few healthy runs as the default rules. "
               "In the red: not even the largest.")
    order = sorted(of, key=lambda fault: (of[fault]["of"], fault))
    figure, axes = page(plt, 12, 5.6, "How small a fault does each rule still see?", caption, 1, 1, legend=keys)
    panel = axes[0][0]
    panel.set_xscale("log")
    panel.axvspan(1.4, 6, color=RED, linewidth=0)
    for y, fault in enumerate(order):
        panel.plot([of[fault]["there"], 1], [y, y], color="#dddddd", linewidth=6, solid_capstyle="butt", zorder=1)
        for n, (key, (_, colour, mark)) in enumerate(MARKS.items()):
            seen = of[fault]["seen"][key]
            x = seen if seen is not None else 1.7 * 1.25 ** n
            panel.plot([x], [y + 0.09 * (n - 2.5)], marker=mark, color=colour, markersize=7 if n == 0 else 6, zorder=3 - 0.1 * n)
    panel.set_xlim(5e-7, 6)
    panel.set_xlabel("size of the fault: the share of a tensor or row that is wrong, or the error of its scale")
    panel.grid(axis="x")
    down(panel, [f"{fault}  ({of[fault]['of']})" for fault in order])
    return figure
