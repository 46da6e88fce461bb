"""Choices, as a router's. A last bit of a score may turn one, and what follows from it is no rounding: where the
candidate's trace is there already, reference and twins choose as it did, and what is judged are the scores."""
import functools
import json
import os
import re
import struct

import torch

from plumbline.capture.names import micro_batches
from plumbline.capture.placements import share_of
from plumbline.capture.say import say
from plumbline.capture.types import torch_types
from plumbline.capture.values import lacks_numbers


def micro_batches_of(folder, step):
    """How many a candidate's first rank had; 0 where none can be read."""
    try:
        with open(os.path.join(folder, f"step_{step:06d}", "rank_00000.safetensors"), "rb") as file:
            length, = struct.unpack("<Q", file.read(8))
            return micro_batches(json.loads(file.read(length)))
    except OSError:
        return 0  # whoever makes twins is told


def choices_of(folder, step):
    """What a candidate chose, and of which scores, by id: of all ranks, where they lie as chunks behind one another."""
    try:
        with open(os.path.join(folder, "manifest.json")) as opened:
            manifest = json.load(opened)
    except OSError:
        return {}  # whoever makes twins is told
    if step not in manifest["steps"]:
        return {}
    at_axis, ranks = {}, 1  # of a rank: its place, and among how many
    for axis in reversed(manifest.get("mesh", [])):
        at_axis[axis["axis"]] = lambda rank, ranks=ranks, size=axis["size"]: (rank // ranks % size, size)
        ranks *= axis["size"]
    held, otherwise = {}, set()
    for rank in range(manifest["ranks"]):
        with open(os.path.join(folder, f"step_{step:06d}", f"rank_{rank:05d}.safetensors"), "rb") as file:
            length, = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
            for name, lies in header.items():
                if not re.search(r"/(choice|scores)(\.\d+)?$", name):
                    continue
                says, (first, last) = json.loads(header["__metadata__"][name]), lies["data_offsets"]
                file.seek(8 + length + first)
                dtype = torch_types()[lies["dtype"]]
                part = held.setdefault(name, torch.full(says["shape"], -1, dtype=dtype))
                for p in says.get("placements", []):
                    if set(p) > {"axis", "kind", "dim"} or p["kind"] == "partial":
                        otherwise.add(name)
                    elif p["kind"] == "shard":
                        place, ways = at_axis[p["axis"]](rank)
                        part = part.chunk(ways, p["dim"])[place]
                if name not in otherwise:
                    part.copy_(torch.frombuffer(bytearray(file.read(last - first)), dtype=dtype).reshape(part.shape))
    chosen = {name: name.replace("/choice", "/scores") for name in held if re.search(r"/choice(\.\d+)?$", name)}
    apart = {name for name, scores in chosen.items() if {name, scores} & otherwise}
    if apart:
        say(f"{len(apart)} choices of the candidate are not followed, since they lie otherwise than in chunks")
    alone = {name for name, scores in chosen.items() if scores not in held
             or sum(a != b for a, b in zip(held[scores].shape, held[name].shape)) > 1}
    if alone:
        say(f"{len(alone)} choices of the candidate are not followed, since its trace lacks the scores that they have to follow "
            f"from, first {chosen[min(alone)]}: only and skip have to leave these, and sketches have none")
    return {name: (held[scores], held[name]) for name, scores in chosen.items()
            if name not in apart | alone and bool((held[name] >= 0).all())}


def is_choice(scores, chosen, dim, choose):
    """Of each row: are these as many places with the best scores? Of equal ones any are; bits are compared, with no
    tolerance, since both are of one run."""
    scores = scores.double() if scores.is_floating_point() else scores
    best = choose(scores)[0].sort(dim)[0]
    own, places = scores.gather(dim, chosen).sort(dim)[0], chosen.sort(dim)[0]
    twice = places.narrow(dim, 1, places.shape[dim] - 1) == places.narrow(dim, 0, places.shape[dim] - 1)
    return ((own == best) | (own != own) & (best != best)).all(dim) & ~twice.any(dim)


class Choices:
    """Of a run: `own_choices` are those of the step that was traced, `followed` those of another run, by id, with the scores that
    they have to follow from; `again` those to be made again."""

    def _patched_topk(self):
        undo = []
        for kind in torch, torch.Tensor:
            def topk(*args, whole=kind.topk, **kwargs):
                if self.choosing:  # a mode, as that of twins, calls a method by its name, and so comes here again
                    return whole(*args, **kwargs)
                x, dim = args[0] if args else kwargs["input"], args[2] if len(args) > 2 else kwargs.get("dim", -1)
                more = {key: given for key, given in kwargs.items() if key not in ("input", "out")}
                self.choosing = True
                try:
                    return self._chosen(whole(*args, **kwargs), x, dim, lambda scores: whole(scores, *args[1:], **more))
                finally:
                    self.choosing = False

            undo.append(functools.partial(setattr, kind, "topk", kind.topk) if "topk" in vars(kind)
                        else functools.partial(delattr, kind, "topk"))
            kind.topk = topk
        return undo

    def _chosen(self, out, x, dim, choose):
        """What topk gave, or what it is to give in its place. `choose`: the same call of other scores."""
        if not self.taking or not self.within or not isinstance(out, tuple) or lacks_numbers(x):
            return out
        name, n = self.within[-1]
        self.within[-1][1] += 1
        of, scores = (f"{self._here(name)}/{what}" + (f".{n}" if n else "") for what in ("choice", "scores"))
        made = self.chosen.setdefault(name, [])
        if self.backward:  # a checkpoint makes again what it made of the same scores
            of = next((of for of, known in made if known.shape == x.shape and torch.equal(known, x)), None)
        else:
            made.append((of, x.detach().clone()))
            self._take(scores, x, "forward", of=name)
        lies = self.taken[scores][2].get("placements") if scores in self.taken else None
        if of in self.followed:
            out = self._as_there(out, x, dim, choose, *(share_of(held, lies or [], self.mesh, self.at_axis).to(x.device)
                                                        for held in self.followed[of]))
        if self.again is not None and of in self.again:
            out = type(out)((x.gather(dim, self.again[of]), self.again[of]))
        elif (self.dithers or self.perturbs and not self.following) and not self.backward:
            self.own_choices[of] = out[1].detach().clone()
        if not self.backward:
            self._take(of, out[1], "forward", of=name, known=lies)
        return out

    def _as_there(self, out, x, dim, choose, scores, chosen):
        """As the run that is followed chose, in rows where that follows from its scores."""
        own = out[1]
        if own.shape != chosen.shape or scores.shape != x.shape or not own.numel() or int(chosen.max()) >= x.shape[dim]:
            return out
        right = is_choice(scores, chosen, dim, choose)
        if not self.backward:
            self.turned[0] += int(((own != chosen).any(dim) & right).sum())
            self.turned[1] += right.numel()
            self.unfounded += int((~right).sum())
        chosen = torch.where(right.unsqueeze(dim), chosen, own)
        return type(out)((x.gather(dim, chosen), chosen)) if self.following else out
