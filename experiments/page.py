"""What every picture needs: a page with a heading, colours, keys. Rows are read and summed without matplotlib."""

GREY, RED = "#555555", "#fbe3dd"  # words aside; where a healthy run is accused
STYLE = {"svg.fonttype": "none", "svg.hashsalt": "plumbline", "font.size": 10, "font.sans-serif": ["DejaVu Sans", "Arial"],
         "axes.titlesize": 11, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.spines.top": False,
         "axes.spines.right": False, "axes.axisbelow": True, "grid.color": "#dddddd", "legend.frameon": False}


def page(plt, width, height, title, caption, *panels, legend=None, columns=8, **how):
    """A figure of width x height inches and its panels; below the heading a row of keys, where there are any."""
    figure, axes = plt.subplots(*panels, figsize=(width, height), layout="constrained", squeeze=False, **how)
    figure.text(0.1 / width, 1 - 0.1 / height, title, size=14, weight="bold", va="top")
    figure.text(0.1 / width, 1 - 0.4 / height, caption, color=GREY, va="top", linespacing=1.4)
    used = 0.45 + 0.2 * (1 + caption.count("\n"))
    if legend:
        figure.legend(handles=legend, loc="upper left", bbox_to_anchor=(0.07 / width, 1 - used / height), ncol=columns,
                      handlelength=1.4, columnspacing=1.4, borderaxespad=0.1)
        used += 0.05 + 0.22 * -(-len(legend) // columns)
    figure.get_layout_engine().set(rect=(0.05 / width, 0, 1 - 0.15 / width, 1 - used / height), wspace=0.03, hspace=0.03)
    return figure, axes


def squares(plt, colours):
    return [plt.Rectangle((0, 0), 1, 1, color=colour, label=words) for words, colour in colours]


def down(axes, names, bold=lambda name: False):
    """Names the places 0, 1, ... of a vertical axis, the first on top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    for label in axes.get_yticklabels():
        label.set_weight("bold" if bold(label.get_text()) else "normal")
