"""Tensors in tiles while they are taken, for runs too large to keep: what `plumb sketch` makes of their traces, bit by bit.

Of each tile one number is kept, a random sum of its numbers (trace/sketch.hpp, twins.md K1). A step that plumbline.trace
takes is sketched where the environment has PLUMB_SKETCH=16x16, the largest tile; 16x16,8 says that no run cuts a dimension
into more than eight parts (64 is taken), so that smaller tensors have tiles, too.
"""
import math
import re

import torch

from plumbline import generator
from plumbline.capture.placements import share_of


def _weights(name, places):
    """Odd whole numbers in [-15, 15], one for each place."""
    words = generator.words(generator.key_of(1, name), places)
    return (2 * (words & 15) - 15).double()


def _along(extent, shards, most):
    share = extent // shards
    return 1 if extent == 0 or extent % shards else min(most, share & -share)


class Sketch:
    def __init__(self, asked):
        found = re.fullmatch(r"(\d{1,4})x(\d{1,4})(?:,(\d{1,6}))?", asked)
        numbers = [int(n) for n in found.groups("64")] if found else [0]
        if 0 in numbers or any(n & n - 1 for n in numbers[:2]):
            raise ValueError(f"PLUMB_SKETCH={asked} is no tile; say ROWSxCOLUMNS, powers of two, as 16x16, and behind a comma "
                             "into how many parts a dimension may be cut, as 16x16,8")
        self.rows, self.columns, self.shards = numbers
        self.left_out, self.tiled = set(), set()

    def __str__(self):
        return f"tiles of {self.rows} x {self.columns} in {self.shards} parts, seed 1"

    def of(self, name, x, shape, placements, mesh, at, offsets=None):
        """This rank's tiles, and the shape and the placements of all; None where its share ends within a tile, or has
        offsets, as that of a distributed optimizer."""
        if len(shape) < 2 or shape[-1] == 1 or not x.is_floating_point():
            return x, shape, placements
        tile = {len(shape) - 2: _along(shape[-2], self.shards, self.rows),
                len(shape) - 1: _along(shape[-1], self.shards, self.columns)}
        if set(tile.values()) == {1}:
            return x, shape, placements
        self.tiled.add(name)
        if offsets is not None:
            self.left_out.add(name)
            return None
        places = []
        for dim, extent in enumerate(shape):
            mine = [{**p, "dim": 0} for p in placements or [] if p["kind"] == "shard" and p["dim"] == dim]
            own = share_of(torch.arange(extent), mine, mesh, at)
            size = tile.get(dim, 1)
            tiles = own.reshape(-1, size) if len(own) % size == 0 else None
            if len(own) != x.shape[dim] or tiles is None or bool((tiles[:, :1] % size + torch.arange(size) != tiles % size).any()) \
                    or bool((tiles // size != tiles[:, :1] // size).any()) or not self._divides(mine, size):
                self.left_out.add(name)
                return None
            places.append(own)
        row = torch.zeros((), dtype=torch.int64)
        for own, extent in zip(places[:-1], shape[:-1]):
            row = (row[..., None] * extent + own)
        weights = _weights(name + " rows", row.reshape(-1))[:, None], _weights(name + " columns", places[-1])[None]
        rows, columns = tile[len(shape) - 2], tile[len(shape) - 1]
        flat = (x.reshape(len(weights[0]), -1).double() * weights[0] * weights[1]).reshape(
            -1, rows, x.shape[-1] // columns, columns)
        total = torch.zeros(flat.shape[0], flat.shape[2], dtype=torch.float64)
        for i in range(rows):  # in the order of plumb's own sum
            for j in range(columns):
                total += flat[:, i, :, j]
        held = [n // tile.get(dim, 1) for dim, n in enumerate(x.shape)]
        small = [self._scaled(p, tile.get(p.get("dim"), 1)) for p in placements] if placements is not None else None
        sums = (total * 2.0 ** -6).float()
        sums[~torch.isfinite(sums)] = math.nan  # an infinity would be equal to another, whatever the tile holds beside it
        return (sums.reshape(held), [n // tile.get(dim, 1) for dim, n in enumerate(shape)], small)

    def forget_how_tiles_were_made(self, taken):
        """No operation makes tiles of tiles. What is kept whole, and is made from such, is made as before."""
        for name, (_, _, says) in taken.items():
            if name in self.tiled or self.tiled.intersection(says.get("made_by", {"inputs": []})["inputs"]):
                says.pop("made_by", None)

    def said(self):
        """Of what could not be sketched."""
        return (f"{len(self.left_out)} tensors are not taken, first {min(self.left_out)}: a rank's share of them ends within a "
                "tile; take smaller ones (PLUMB_SKETCH)")

    def _divides(self, placements, size):
        return all(n % size == 0 for p in placements for of in ("sizes", "groups") for n in p.get(of, ()))

    def _scaled(self, placement, size):
        return {key: [n // size for n in value] if key in ("sizes", "groups") else value for key, value in placement.items()}
