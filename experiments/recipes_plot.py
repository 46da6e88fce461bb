"""Pictures of recipes, for plot.py: how each learns, and where each loses precision."""
from collections import defaultdict

from svg import keys, page, text

COLOURS = ["#222222", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b", "#7f3c8d", "#e73f74", "#80ba5a",
           "#a5aa99", "#f2b701"]
# What is cast, in the order of a bar; both phases of one thing share a colour.
KINDS = [("activations for products", "#0072b2"), ("weights for products", "#56b4e9"),
         ("gradients for products", "#d55e00"), ("products", "#009e73"), ("attention", "#cc79a7"),
         ("residual stream", "#b8860b"), ("norms and activations", "#888888")]
BAR, WIDTH, LABEL = 19, 330, 120


def curves(rows, family, x, y):
    """The loss by step, one line a recipe, named in the order in which they end."""
    lines = defaultdict(lambda: defaultdict(list))
    for r in rows:
        if r["family"] == family:
            lines[r["recipe"]][int(r["step"])].append(float(r["mean_loss"]))
    mean = {name: {s: sum(v) / len(v) for s, v in line.items()} for name, line in lines.items()}
    every = [v for line in mean.values() for v in line.values()]
    low, high, last = min(every), max(every), max(s for line in mean.values() for s in line)
    height = 260

    def at(step, loss):
        return f"{x + WIDTH * step / last:.1f},{y + height * (high - loss) / (high - low):.1f}"

    out = [text(x, y - 8, f"{family}: mean loss of ten steps", weight="bold", size=12)]
    for share in (0, 0.5, 1):
        level = low + share * (high - low)
        place = float(at(0, level).split(",")[1])
        out.append(f'<line x1="{x}" y1="{place}" x2="{x + WIDTH}" y2="{place}" stroke="#ddd"/>')
        out.append(text(x - 6, place + 4, f"{level:.2f}", "end", 10, fill="#555"))
    for step in range(0, last + 1, last // 4):
        out.append(text(x + WIDTH * step / last, y + height + 14, str(step), "middle", 10, fill="#555"))
    colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(sorted(mean, key=lambda n: (n != "fp32", n)))}
    for i, name in enumerate(sorted(mean, key=lambda n: mean[n][last], reverse=True)):
        points = " ".join(at(s, mean[name][s]) for s in sorted(mean[name]))
        wide = 2.4 if name == "fp32" else 1.2
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour[name]}" stroke-width="{wide}"/>')
        out.append(text(x + WIDTH + 10, y + 14 + 17 * i, f"{mean[name][last]:.3f}  {name}", size=11, fill=colour[name],
                        weight="bold" if name == "fp32" else "normal"))
    return out


def training(rows):
    parts = curves(rows, "gpt", 60, 80) + curves(rows, "llama", 60 + WIDTH + 220, 80)
    return "training", page(2 * (WIDTH + 220) + 40, 380, "Does every recipe learn?",
                            "the same 200 steps of the default text in each recipe; numbers: where it ends", parts)


def bars(rows, where, x, y, title):
    """Shares of the injected error's square, one bar a recipe; total beside it."""
    energy, total, visible = defaultdict(lambda: defaultdict(float)), {}, {}
    for r in rows:
        if r["what"] == "visible":
            visible[r["recipe"]] = float(r["value"])
        elif r["what"] == "injected" and r["where"] == where:
            if r["kind"] == "all":
                total[r["recipe"]] = float(r["value"])
                continue
            kind = next(k for k, _ in KINDS if k in r["kind"])
            energy[r["recipe"]][kind] += float(r["value"]) ** 2
    out = [text(x, y - 10, title, weight="bold", size=12),
           text(x + WIDTH + 12, y - 10, "error", size=11), text(x + WIDTH + 70, y - 10, "visible", size=11)]
    for i, name in enumerate(sorted(total, key=total.get)):
        top, left, sum_ = y + BAR * i, x, sum(energy[name].values())
        out.append(text(x - 8, top + 13, name, "end"))
        for kind, colour in KINDS:
            width = WIDTH * energy[name][kind] / sum_ if sum_ else 0
            if width:
                out.append(f'<rect x="{left:.1f}" y="{top + 2}" width="{width:.1f}" height="{BAR - 4}" fill="{colour}"/>')
            left += width
        out.append(text(x + WIDTH + 12, top + 13, f"{100 * total[name]:.2g} %"))
        out.append(text(x + WIDTH + 70, top + 13, f"{100 * visible[name]:.2g} %"))
    return out, BAR * len(total)


def precision(rows):
    rows = [r for r in rows if (r["family"], r["weights"], r["seed"]) == ("llama", "trained", "1")]
    parts, height = bars(rows, "logits", LABEL + 16, 90, "logits")
    more, _ = bars(rows, "gradients", 2 * LABEL + WIDTH + 150, 90, "all reduced gradients")
    legend = keys(16, height + 118, [(colour, kind) for kind, colour in KINDS])
    return "precision-recipes", page(2 * (LABEL + WIDTH) + 290, height + 136, "Where each recipe loses precision",
                                     "llama, trained. Bars: which casts the squared error comes from. error: relative, of "
                                     "all casts. visible: the smallest scale error that four twins notice",
                                     parts + more + legend)
