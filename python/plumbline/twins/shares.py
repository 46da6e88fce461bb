"""The tokens and words that each rank has."""
import math

import torch

from plumbline.capture.placements import has_parts_of_sequences


class Shares:
    """Of cuts."""

    def of_dim(self, name, length, ways, zigzag, short=True):
        """Places along a dimension that each rank has. For attention they are cut elsewhere in each twin in FP32, too,
        since a kernel's blocks do not lie as the layout's parts."""
        ends = self.bounds(name, length, ways * (2 if zigzag else 1), short)
        pieces = [torch.arange(a, b) for a, b in zip(ends, ends[1:])]
        return [torch.cat([pieces[r], pieces[-1 - r]]) if zigzag else pieces[r] for r in range(ways)]

    def shares(self, name, shape, dealt, short):
        """Of tokens behind one another, those of each rank. Rows of a batch lie behind one another; of other dimensions a
        rank has a part of each sequence."""
        if not has_parts_of_sequences(dealt) or any(dim >= len(shape) for dim in dealt):
            ends = self.bounds(name, math.prod(shape), math.prod(ways for ways, _ in dealt.values()), short)
            return [slice(a, b) for a, b in zip(ends, ends[1:])]
        parts = [torch.arange(math.prod(shape)).reshape(shape)]
        for dim, (ways, zigzag) in sorted(dealt.items()):
            sets = self.of_dim(name, shape[dim], ways, zigzag, short) if dim or zigzag else torch.arange(shape[0]).chunk(ways)
            parts = [x.index_select(dim, places) for x in parts for places in sets]
        return [x.reshape(-1) for x in parts]

    def words_dealt(self, width):
        """How many ranks share logits of so many words."""
        for p, split in self.splits.items():
            name = self.names[p]
            for module in [name.rpartition(".")[0], *(m for m, tied in self.layout.get("tied", {}).items() if tied == name)]:
                for q in self.layout["outputs"].get(module, []):
                    if (p.dim() == 2 and p.shape[0] == width and split.into is not None and module not in self.run.of_ids
                            and q["kind"] == "shard" and q["dim"] > 0 and q["axis"] not in self.batch):
                        return self.mesh[q["axis"]]
        return 1

    def of_tokens(self, count, dtype):
        """Of losses of so many tokens those of each rank: of some sequences, or a part of each."""
        rows, parts = (math.prod(self.mesh[axis] for axis in axes) for axes in (self.rows, self.batch - self.rows))
        words, short = self.run.words[0] if self.run.words else torch.empty(0), dtype != torch.float32
        if parts > 1 and words.dim() == 2 and words.numel() == count:
            dealt = {0: (rows, False), 1: (parts, bool(self.layout.get("zigzag")))}
            return self.shares("loss", words.shape, dealt, short)
        ends = self.bounds("loss", count, rows * parts, short)
        return [slice(a, b) for a, b in zip(ends, ends[1:])]
