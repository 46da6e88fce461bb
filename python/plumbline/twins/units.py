"""Modules of which nothing is known but that a batch is dealt: their gradients are added by parts of the batch."""
import torch

from plumbline.capture.state import Chance
from plumbline.capture.values import tensors_in
from plumbline.twins.sites import Site, autocast_as_now, grad_of


class Units:
    """Of cuts."""

    def is_unit(self, name, module):
        """A module without children (or PyTorch's attention) whose weights' gradients the layout splits by rows of a
        batch alone, and that is none of those whose functions are known."""
        nn = torch.nn
        known = (nn.Linear, nn.Embedding, nn.LayerNorm, *([nn.RMSNorm] if hasattr(nn, "RMSNorm") else []))
        weights = list(module.parameters())
        if (isinstance(module, known) or not weights or "forward" in vars(module)
                or any(p.is_complex() for p in weights) or isinstance(module, torch.jit.ScriptModule)
                or next(module.children(), None) is not None and not isinstance(module, nn.MultiheadAttention)):
            return False
        inputs = self.inputs_of(name)
        by_rows = all(q["dim"] == 0 and q["axis"] in self.batch for q in inputs if q["kind"] == "shard")
        splits = [self.splits[p] for p in weights]
        return by_rows and all(split.tokens > 1 and split.out is None and split.into is None for split in splits)

    def unit(self, module, own, args, kwargs):
        """What it computes, with another way back to its weights: each part of the batch by itself."""
        weights = [p for p in module.parameters() if p.requires_grad]
        rows = {x.shape[0] for x in tensors_in([args, kwargs]) if x.dim()}
        if self.busy or not torch.is_grad_enabled() or not weights or len(rows) != 1:
            return own(*args, **kwargs)
        as_now, ways = autocast_as_now(weights[0].device.type), self.splits[weights[0]].tokens

        def plain(first, last, alone=False):
            """Of rows of the batch; `alone`: with zeros in place of all others."""
            taken = {}  # what is one tensor stays one

            def of(x):
                if isinstance(x, torch.Tensor) and x.dim():
                    if id(x) not in taken:
                        rows = x.detach()
                        taken[id(x)] = rows[first:last] if not alone else torch.cat(
                            [rows[:first] * 0, rows[first:last], rows[last:] * 0])
                    return taken[id(x)]
                if isinstance(x, dict):
                    return {key: of(each) for key, each in x.items()}
                return type(x)(map(of, x)) if type(x) in (tuple, list) else x

            busy, self.busy = self.busy, True
            taking, self.run.taking = self.run.taking, False  # choices in it are none of the step's
            try:
                with as_now():
                    return own(*of(args), **of(kwargs))
            finally:
                self.busy, self.run.taking = busy, taking

        start, choices = Chance(module), [count[:] for count in self.run.within]
        busy, self.busy = self.busy, True
        for p in weights:
            p.requires_grad_(False)
        try:
            y = own(*args, **kwargs)
        finally:
            self.busy = busy
            for p in weights:
                p.requires_grad_(True)
        outs, n = tensors_in(y), rows.pop()
        ends = [n * r // ways for r in range(ways + 1)]
        after = Chance(module)
        with torch.no_grad():
            alone = [tensors_in(plain(a, b, alone=True))[0][a:b] for a, b in zip(ends, ends[1:])]
        several = any(other.requires_grad for other in outs[1:]) and not isinstance(module, torch.nn.MultiheadAttention)
        if several or n < ways or outs[0].dim() == 0 or outs[0].shape[0] != n or not torch.equal(torch.cat(alone), outs[0]):
            start.restore()
            self.run.within[:] = choices  # which it makes again
            return own(*args, **kwargs)  # a row depends on others, or on chance, or a loss on more outputs
        after.restore()
        self.cut.update(self.names[p] for p in weights)

        def back(g, _, w, b, wanted):
            short = outs[0].dtype != torch.float32
            self.short.update({p: short for p in weights})
            cuts = self.bounds(self.names[weights[0]], n, ways, short)
            parts = []
            for first, last in zip(cuts, cuts[1:]):
                with torch.enable_grad():
                    part = tensors_in(plain(first, last))[0]
                parts.append(grad_of(part, weights, g[first:last], allow_unused=True))
            for p, *grads in zip(weights, *parts):
                self.keep(p, [torch.zeros_like(p) if grad is None else grad for grad in grads], self.names[weights[0]])
            return g, None, None

        for other in outs[1:]:  # the way back from these to the weights is lost
            if other.requires_grad:
                other.register_hook(lambda g: self.foreign.update(self.names[p] for p in weights))
        first = Site.apply(lambda y, w, b: y.view_as(y), back, outs[0], weights[0], None)
        return first if isinstance(y, torch.Tensor) else type(y)([first, *y[1:]])
