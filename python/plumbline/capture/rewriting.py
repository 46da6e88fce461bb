"""Rewriting: each module hands on what the reference has, so that no error goes from one to the next."""
import json
import math
import os
import struct
import sys

import torch

from plumbline.capture.placements import share_of
from plumbline.capture.say import say
from plumbline.capture.types import torch_types
from plumbline.capture.values import in_place_of


class Saved:
    """The tensors of a run on one rank, by id, as Run has them."""

    def __init__(self, folder, step):
        self.file = os.path.join(folder, f"step_{step:06d}", "rank_00000.safetensors")
        if not os.path.exists(self.file) or os.path.exists(self.file.replace("rank_00000", "rank_00001")):
            raise ValueError(f"PLUMB_REWRITE={folder} names no trace of one rank with step {step}; give it the reference's")
        with open(self.file, "rb") as file:
            length, = struct.unpack("<Q", file.read(8))
            self.lies, self.at = json.loads(file.read(length)), 8 + length

    def __call__(self, name):
        if name not in self.lies:
            return None
        dtype, shape, (first, last) = (self.lies[name][what] for what in ("dtype", "shape", "data_offsets"))
        with open(self.file, "rb") as file:
            file.seek(self.at + first)
            raw = bytearray(file.read(last - first))
        return dtype, torch.frombuffer(raw, dtype=torch_types()[dtype]).reshape(shape) if raw else torch.empty(shape)


class Rewriting:
    """Of a run: `source` gives what the reference has, by id."""

    def _of_reference(self, name, x, turned, grad=False):
        """This rank's share of what the reference has in place of a tensor, on the same way back."""
        if not x.is_floating_point():
            return x
        held = self.taken.get(name) and self.source(name)
        placements = held and self.taken[name][2].get("placements", [])
        if not held or any(p["kind"] == "partial" for p in placements) and not hasattr(x, "placements"):
            self.not_rewritten.add(name)
            return x
        with torch.no_grad():
            kind = sys.modules.get("torch.distributed.tensor") if hasattr(x, "placements") else None
            value = share_of(held[1], placements, self.mesh, self.at_axis)
            value = (value.transpose(0, 1) if turned else value).to(x.device, x.dtype)
            if grad and self.average:  # this rank's loss is a mean over its own share
                value = value * math.prod(self.mesh[axis] for axis in self.batch)
            if kind is not None:
                lies = [kind.Replicate() if p.is_partial() else p for p in x.placements]
                value = kind.DTensor.from_local(value, x.device_mesh, lies, run_check=False)
            if value.shape != x.shape:
                self.not_rewritten.add(name)
                return x
        return value if grad else in_place_of(x, value)

    def _of_rewriting(self):
        if self.source is None:
            return {}
        if self.not_rewritten:
            say(f"{len(self.not_rewritten)} tensors were not rewritten, first {min(self.not_rewritten)}: the reference has "
                "none of that shape, or each rank has a part of a sum")
        return {"rewrite": "by the reference"}
