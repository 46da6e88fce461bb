"""What every picture needs: words, and a page with a heading. Nothing but Python's own library."""
from html import escape


def text(x, y, words, anchor="start", size=11, weight="normal", fill="#222"):
    return (f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
            f'font-weight="{weight}" fill="{fill}">{escape(words)}</text>')


def page(width, height, heading, caption, parts):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="DejaVu Sans, Helvetica, sans-serif">',
        '<rect width="100%" height="100%" fill="#fff"/>', text(16, 24, heading, size=15, weight="bold"),
        text(16, 42, caption, fill="#555"), *parts, "</svg>", ""])


def keys(x, y, colours):
    """A square of each colour and what it stands for, in a row."""
    out = []
    for colour, words in colours:
        out += [f'<rect x="{x:.1f}" y="{y - 10}" width="12" height="12" fill="{colour}"/>', text(x + 18, y, words)]
        x += 48 + 6.4 * len(words)
    return out
