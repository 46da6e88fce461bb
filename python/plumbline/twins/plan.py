"""Which sums a layout cuts, and where."""
import math

from plumbline.capture.names import EXPERT
from plumbline.capture.placements import terms_of
from plumbline.write import shard


class Split:
    """How one module's sums are cut: `out` and `into` are lists of the terms that each rank has, `dealt` says of dimensions of
    tokens in how many parts, and whether there and back; `tokens` are all parts."""

    def __init__(self, out=None, into=None, dealt=None):
        self.out, self.into, self.dealt = out, into, dealt or {}
        self.tokens = math.prod(ways for ways, _ in self.dealt.values())

    def __bool__(self):
        return self.out is not None or self.into is not None or self.tokens > 1


class Plan:
    """Of cuts: `layout` is the candidate's, `run` the reference's."""

    def _split_of(self, name, p):
        module, _, kind = name.rpartition(".")
        weight = self.layout["weights"].get(f"{module}.weight", self.layout["weights"].get(name, []))
        inputs = self.inputs_of(module)
        last = self._last_dim(module)
        own = {q["axis"] for q in weight if q["kind"] == "shard"} - self.batch  # what is dealt over these is gathered first
        tokens, dealt = [], {}
        for q in inputs:
            if q["kind"] == "shard" and q["dim"] != last and self.mesh[q["axis"]] > 1 and q["axis"] not in own:
                tokens.append(q["axis"])
                ways, zigzag = dealt.get(q["dim"], (1, False))
                dealt[q["dim"]] = ways * self.mesh[q["axis"]], zigzag or q.get("zigzag", False)
        split = Split(dealt=dealt)
        for q in weight:
            n = self.mesh[q["axis"]]
            if q["kind"] != "shard" or n == 1 or q["axis"] in tokens or kind != "weight" or p.dim() != 2:
                continue
            if q["dim"] == 1:
                split.out = terms_of(p.shape[1], n, q)
            else:
                split.into = terms_of(p.shape[0], n, q)
        return split

    def inputs_of(self, module):
        """How what a module takes is dealt: as the layout says, or by rows of a batch, of which an expert has all."""
        own = self.layout.get("experts", ()) if EXPERT.search(module) else ()
        if module in self.layout.get("alone", ()):
            return []
        return self.layout["inputs"].get(module) or [shard(axis, 0) for axis in self.batch if axis not in own]

    def _last_dim(self, module):
        """Of what the module takes: the dimension of features, which is none of tokens."""
        x = self.run.reference.get(f"m0/{module}/in")
        return len(x[2]["shape"]) - 1 if x and x[0] not in ("I64", "I32") else None

    def not_cut(self):
        """What the layout splits and no cut was made for: parameters, of whose gradient that is said, or modules."""
        out = set()
        for p, split in self.splits.items():
            name = self.names[p]
            if not split or name in self.cut and name not in self.foreign:
                continue
            used, module = f"{name}/grad" in self.run.taken, name.rpartition(".")[0]
            if used or module in self.run.called:  # else it sums nothing up
                out.add(name if split.tokens > 1 and used else module)
        return out
