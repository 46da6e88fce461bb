"""Copies of tensors, and the files they go to."""
import ctypes
import math

import torch

from plumbline.capture.say import say
from plumbline.capture.types import FORMATS
from plumbline.capture.values import lacks_numbers
from plumbline.write import LETTERS, stored, write_manifest, write_rank


class Taking:
    """Of a run: `taken` has, by id, type, numbers, and what is said of them."""

    def _take(self, name, x, phase, of=None, like=None, role="value", made_from=None, loss=False, known=None,
              later=0, made_by=None, turned=False, share=None):
        """Copies a tensor where it is: a later operation may overwrite it. `share`: what it has of a parameter `like`."""
        if not self.taking or x is None:
            return
        lacks = lacks_numbers(x)
        if lacks:
            self.unwritable[name] = lacks
            return
        with torch.no_grad():
            known, x = known or getattr(x, "_plumb_lies", None), x.detach()
            self._sequence(name, x, of)
            shape, placements = self._placed(name, x if share is None else self.named[like], of, like, loss, known)
            if turned:
                x, shape = x.transpose(0, 1), [shape[1], shape[0], *shape[2:]]
                placements = [{**p, "dim": (1, 0, *range(2, 9))[p["dim"]]} if "dim" in p else p for p in placements]
            if not self.only.search(name) or (self.skip and self.skip.search(name)):
                return
            x = x.to_local() if hasattr(x, "to_local") else x
            x = x.wait() if hasattr(x, "wait") and not isinstance(x, torch.nn.Parameter) else x
            x = x if x.layout == torch.strided else x.to_dense()
            if x.is_complex():
                x, shape = torch.view_as_real(x.resolve_conj()), shape and [*shape, 2]
            dtype = LETTERS.get(str(x.dtype)[6:])
            if dtype is None:
                self.unwritable[name] = f"the format has no {x.dtype}"
                return
            dealt = self.average and (phase == "backward" or loss) and self.batch
            x, offsets = x.to("cpu", copy=True).contiguous(), None
            if share is not None and share.whole and self.ranks == 1:
                x = x.reshape(self.named[like].shape)
            elif share is not None:
                lies = share.lies(x, self._places(shape, placements))
                if lies is None:
                    self.untold.update([name] * bool(x.numel()))
                    return
                x, offsets = lies
            if dealt:  # this rank's loss is a mean over its own share
                x /= math.prod(self.mesh[axis] for axis in self.batch)
            if self.tiles is not None:
                small = self.tiles.of(name, x, shape, placements, self.mesh, self.at_axis, offsets)
                if small is None:
                    return
                held, own = dtype, x
                (x, shape, placements), dtype = small, dtype if small[0] is own else "F32"
        self.bytes += x.numel() * x.element_size()
        if self.bytes > self.limit:
            self.taken, self.taking, self.too_large = {}, False, True
            say(f"more than {self.limit / 1e9:g} GB of tensors in a step: nothing is written. Take fewer (only, skip), "
                "or raise the limit of start()")
            return
        if phase != "reduce" and not loss:
            self.order += 1
        says = {"shape": shape, "phase": phase, "role": role, "order": max(self.order, 1) + later}
        if self.tiles is not None and dtype != held and held in FORMATS:
            says["format"] = FORMATS[held]
        if loss:  # no gradient is made from what it comes to
            says["order"] = 1 << 40
        if dtype[0] in "IUB" and dtype != "BF16":
            says["role"] = role if role == "given" else "decision"
        if made_from is not None:
            says["from"] = made_from
        if made_by is not None:
            says["made_by"] = made_by
        if offsets is not None:
            says["offsets"] = offsets
        elif placements is not None and self.ranks > 1:
            says["placements"] = placements
        if loss:
            says["order"] = 1 << 40  # no gradient is made from what it comes to
        self.taken[name] = dtype, x, says

    def _write(self, folder, may_differ):
        if not self.taken:
            return
        size = sum(x.numel() * x.element_size() for _, x, _ in self.taken.values())
        if self.untold:
            say(f"{len(self.untold)} shares of a distributed optimizer are not taken, first {min(self.untold)}: blocks of rows "
                "and columns cannot say how they lie")
        if self.unwritable.keys() - self.told:
            name = min(self.unwritable)
            say(f"{len(self.unwritable)} tensors are not taken, first {name}: {self.unwritable[name]}")
            self.told |= self.unwritable.keys()
        if self.tiles is not None:
            self.tiles.forget_how_tiles_were_made(self.taken)
            if self.tiles.left_out:
                say(self.tiles.said())
        if self.rank == 0:
            say(f"{len(self.taken)} tensors of step {self.at} go to {folder}, {size / 1e6:.1f} MB of this rank"
                + (f" and about {self.ranks} times that of all" if self.ranks > 1 else ""))
        if folder not in [name for name, _ in self.written]:
            self.written.append((folder, []))
        steps = next(steps for name, steps in self.written if name == folder)
        steps += [self.at] * (self.at not in steps)
        write_rank(folder, self.at, self.rank, {
            name: stored(dtype, x.shape, ctypes.string_at(x.data_ptr(), x.numel() * x.element_size()), **says)
            for name, (dtype, x, says) in self.taken.items()})
        may_differ = {**may_differ, **self.lacks}
        if self.clips_others:
            may_differ = {**may_differ, "clipped": "not all gradients are here"}
        if self.rank == 0:
            write_manifest(folder, producer="torch", version=torch.__version__, ranks=self.ranks, steps=steps,
                           mesh=self.mesh, must_agree=self.agree, may_differ=may_differ)
