"""The layout of a candidate, from its trace."""
import json
import os
import re


def layout_of(layout):
    if layout is None:
        raise ValueError("no layout to make twins in: name the candidate's trace in PLUMB_TWINS, or give twin() one")
    if isinstance(layout, dict):
        return layout
    file = os.path.join(layout, "layout.json")
    if not os.path.exists(file):
        raise ValueError(f"there is no {file}; make that trace with plumbline.trace first, or give twin() a layout")
    with open(file) as opened:
        lies = json.load(opened)
    for name in sorted(os.listdir(layout)):  # weights of the other stages of a pipeline
        if re.match(r"layout-\d+\.json$", name):
            with open(os.path.join(layout, name)) as opened:
                more = json.load(opened)
            for kind in "weights", "inputs", "outputs", "tied":
                lies[kind].update(more[kind])
            for kind in "shared", "alone", "summands":
                lies[kind] = lies.get(kind, []) + more.get(kind, [])
    return lies
