"""How a tensor that is taken lies over the ranks, and the shape of the whole."""
import math
import re

import torch

from plumbline.capture.names import EXPERT
from plumbline.capture.placements import from_dims, share_of
from plumbline.write import partial, replicate, shard

MEGATRON = {  # what is dealt by heads, by its name in Megatron's core: no weight or attribute says it
    r"\.core_attention/(out|grad_out)$": "s b h[tp]", r"\.[qk]_layernorm/(in|out|grad_out)$": "s b n[tp] d",
    r"\.core_attention\.\w+/(in|out|grad_out)$": "b n[tp] q k"}


class Placing:
    """Of a run: `mesh` has the sizes of axes, `at_axis` this rank's place on each, `lies` what layout.json is to say."""

    def _places(self, shape, placements):
        """Of each dimension: the places in the whole of what this rank has."""
        return [share_of(torch.arange(n), [{**q, "dim": 0} for q in placements or [] if q.get("dim") == dim], self.mesh,
                         self.at_axis) for dim, n in enumerate(shape)]

    def _placed(self, name, x, of, like, loss, known):
        """The shape of the whole, and how it lies. `known`: as the same tensor lay before, or one it was made from."""
        plain = re.sub(r"^m\d+/", "", name)
        own = self._by_dtensor(x)
        placements, shape = (own, list(x.shape)) if own is not None else (None, None)
        rule = next((says for match, says in self.places.items() if match.search(plain) or match.search(name)), "")
        self.idle = {match for match in self.idle if not match.search(plain) and not match.search(name)}
        if rule is None:  # each rank has its own
            self.lies["alone"].append(plain.rpartition("/")[0])
            return list(x.shape), []
        if rule:
            placements, shape = from_dims(rule, x.dim()) if isinstance(rule, str) else list(rule), None
            for p in placements:
                if p["axis"] not in self.mesh:
                    raise ValueError(f"places say that {plain} lies on '{p['axis']}', and the layout has {list(self.mesh)}")
        elif own is None and known is not None:
            placements, shape = known, None
        elif own is None:
            placements = self._by_weight(plain, x, of, like)
        named, first = {p["axis"] for p in placements}, []
        for axis in self.mesh:
            if axis not in named and of in self.of_all and axis in self.batch and axis not in self.context:
                placements = placements + [partial(axis) if plain.endswith("/grad_out") else replicate(axis)]
            elif axis in self.experts and EXPERT.search(plain):
                continue  # lives where it is found, for the words of all ranks
            elif axis not in named and like is None and plain not in self.names.values() and axis in self.batch:
                first.append(partial(axis) if loss or x.dim() == 0 else self._share(axis, x, of, plain, rule))
            elif axis not in named and axis not in self.stages:
                placements = placements + [replicate(axis)]
        if shape is None:
            shape = list(x.shape)
            for p in placements:
                if p["kind"] == "shard":
                    shape[p["dim"]] = sum(p["sizes"]) if "sizes" in p else shape[p["dim"]] * self.mesh[p["axis"]]
        for p in first:  # a local tensor is dealt by what no DTensor knows
            if p["kind"] == "shard":
                shape[p["dim"]] *= self.mesh[p["axis"]]
        placements = first + placements
        kind = plain.rsplit("/", 1)
        if like is None and plain in self.names.values():
            self.lies["weights"][plain] = placements
        elif kind[-1] in ("in", "out"):
            self.lies["inputs" if kind[-1] == "in" else "outputs"][kind[0]] = placements
            if kind[-1] == "out" and own is None and any(p["kind"] == "partial" for p in placements):
                self.lies["summands"].append(kind[0])
        return shape, placements

    def _share(self, axis, x, of, plain, rule=""):
        """A rank's part of a batch: of its sequences, or of each of them. What is alike for all has one row for them."""
        of_sequence = axis in self.context
        dim = self._dimension("s" if of_sequence else "b", x, of, rule)
        if x.shape[dim] == 1 and self.words and self.words[0].dim() == 2 and self.words[0].shape[int(of_sequence)] > 1:
            return partial(axis) if re.search(r"/grad_out(\.\d+)?$", plain) else replicate(axis)
        return shard(axis, dim, **({"zigzag": True} if of_sequence and self.zigzag else {}))

    def _dimension(self, name, x, of, rule):
        """Which one is the batch's (b) or the sequence's (s): as `places` call it, or by what is usual. Megatron's tensors
        are (s, b, h), but for those of what looks words up, which may deal them and then turns them."""
        named = re.findall(r"(\w+)(?:\[[^\]]*\])?", rule.partition("#")[0]) if isinstance(rule, str) else []
        if name in named:
            return named.index(name)
        module = self.modules.get(of, self.model)
        looks_up = of in self.of_ids and next(module.children(), None) is None
        of_words = not self.megatron or x.dim() < 3 or looks_up and not getattr(module, "reduce_scatter_embeddings", False)
        if name == "b":
            return 0 if of_words else 1
        return 0 if x.dim() == 1 or of in self.of_all or not of_words else 1

    def _by_dtensor(self, x):
        if not hasattr(x, "placements") or not hasattr(x, "device_mesh"):
            return None
        axes = x.device_mesh.mesh_dim_names or list(self.mesh)
        out = []
        for axis, p in zip(axes, x.placements):
            if p.is_shard() or type(p).__name__ == "_StridedShard":
                stride = getattr(p, "split_factor", 1)
                out.append(shard(axis, p.dim, **({"stride": stride} if stride > 1 else {})))
            else:
                out.append(partial(axis) if p.is_partial() else replicate(axis))
        return out

    def _by_weight(self, plain, x, of, like):
        """By the module's weight: rows of it are columns of an output, its columns those of an input."""
        if like is not None:
            return [p for p in self.lies["weights"].get(like, []) if p["axis"] not in self.batch]
        if not of:
            return self._by_megatron(plain)
        name = self.lies["tied"].get(of, f"{of}.weight")
        weight, side = self.lies["weights"].get(name, []), plain.rsplit("/", 1)[-1]
        side = {"in": 1, "grad_in": 1, "out": 0, "grad_out": 0}.get(side)
        if of in self.of_ids or getattr(self.named.get(name), "ndim", 0) != 2:
            side = None
        dealt = [{**p, "dim": x.dim() - 1} for p in weight if p["kind"] == "shard" and p["dim"] == side
                 and p["axis"] not in self.batch]
        if dealt and self._is_whole(x.shape[-1], self.named[name], side, dealt):  # a layer gathers it, or cuts it within
            dealt = []
        return dealt or ([shard("tp", 0)] if x.shape in self.dealt else [])

    def _is_whole(self, n, p, dim, dealt):
        """Has a tensor all that a weight has in a dimension, which a DTensor says itself, and not this rank's share?"""
        ways = math.prod(self.mesh[q["axis"]] for q in dealt)
        return ways > 1 and n == p.shape[dim] * (1 if hasattr(p, "placements") else ways)

    def _by_megatron(self, plain):
        p = self.named.get(plain)
        if "tp" in self.experts and EXPERT.search(plain):
            return []
        if p is None or not getattr(p, "tensor_model_parallel", False) or "tp" not in self.mesh:
            return []
        stride = getattr(p, "partition_stride", 1)
        return [shard("tp", p.partition_dim, **({"stride": stride} if stride > 1 else {}))]

    def _sequence(self, name, x, of):
        """Of what shape tensors are whose sequence (s, b, h) Megatron deals out: what its embeddings return, norms with
        marked weights take, and modules without a weight have that a configuration says it of. All others of that shape
        lie so, too."""
        if "tp" not in self.mesh or x.dim() != 3 or of is None:
            return
        module, side, above = self.modules[of], name.rsplit("/", 1)[-1], of
        while above and not hasattr(self.modules.get(above), "config"):
            above = above.rpartition(".")[0]
        config = getattr(self.modules.get(above), "config", None)
        if (side == "in" and getattr(getattr(module, "weight", None), "sequence_parallel", False)
                or side == "out" and getattr(module, "reduce_scatter_embeddings", False)
                or side in ("in", "out") and getattr(config, "sequence_parallel", False)
                and x.shape[-1] == config.hidden_size and not hasattr(module, "weight")
                and not any(match.search(name) for match in self.places)):
            self.dealt.add(x.shape)
        if side == "in" and x.shape in self.dealt and of.endswith(".router"):  # it returns a row for each word
            self.dealt.add(torch.Size([x.shape[0] * x.shape[1], module.weight.shape[0]]))
