"""Placements, as those of docs/trace-format.md: read from dimensions, and what they leave a rank."""
import re

import torch

from plumbline.write import partial, replicate, shard


def from_dims(text, dimensions):
    """Placements of "b s[cp:zigzag,tp] h # dp:partial"."""
    words, _, rest = text.partition("#")
    found = re.findall(r"(\w+)(?:\[([^\]]*)\])?", words)
    if len(found) != dimensions:
        raise ValueError(f"'{text}' has {len(found)} dimensions, the tensor {dimensions}")
    out = []
    for dim, (_, axes) in enumerate(found):
        for axis in filter(None, re.split(r"[,\s]+", axes)):
            axis, _, how = axis.partition(":")
            out.append(shard(axis, dim, **({"zigzag": True} if how == "zigzag" else {})))
    for word in rest.split():
        axis, _, how = word.partition(":")
        out.append(partial(axis) if how == "partial" else replicate(axis))
    return out


def share_of(whole, placements, mesh, place):
    """What the rank at these places has of a whole tensor."""
    for p in placements:
        if p["kind"] == "shard":
            n, ways, at = whole.shape[p["dim"]], mesh[p["axis"]], place[p["axis"]]
            if "sizes" in p:
                own = torch.arange(n).split(p["sizes"])[at]
            elif p.get("zigzag"):
                chunks = torch.arange(n).chunk(2 * ways)
                own = torch.cat([chunks[at], chunks[-1 - at]])
            else:
                own = [*terms_of(n, ways, p), *[torch.arange(0)] * ways][at]
            whole = whole.index_select(p["dim"], own)
    return whole


def has_parts_of_sequences(dealt):
    """Has a rank other tokens than some rows of the batch: a part of each sequence, or chunks there and back?"""
    return any(dim or zigzag for dim, (_, zigzag) in dealt.items())


def terms_of(count, ways, split):
    """The terms of a sum that each rank has, as torch.chunk or a stride deals them."""
    stride = split.get("stride", 1)
    groups = split.get("groups", [count // stride] * stride)
    out, first = [[] for _ in range(ways)], 0
    for size in groups:
        share = -(-size // ways)
        for r in range(ways):
            out[r] += range(first + min(share * r, size), first + min(share * (r + 1), size))
        first += size
    return [torch.tensor(terms) for terms in out if terms]
