"""Operations that take each token by itself, y = f(x, weight, bias): linear layers, embeddings and norms."""
import math

import torch

from plumbline.capture.values import tensors_in
from plumbline.twins.plan import Split
from plumbline.twins.sites import Gather, Site, autocast_as_now, grad_of


class Operations:
    """Of cuts: `splits` says, by weight, how its sums are cut."""

    def function(self, kind, args, kwargs):
        """Of a program's own autograd functions, whose backward passes the mode does not see. One that returns what a
        linear layer does is one. Others may sum over words, as losses do."""
        whole = self.apply.__get__(None, kind)
        place = next((n for n, x in enumerate(args) if isinstance(x, torch.nn.Parameter) and x in self.splits), 0)
        if self.busy or kind is Site:
            return whole(*args, **kwargs)
        if place and not kwargs and self.is_linear(whole, place, args):
            return self.operation(whole, place, args[place], args, kwargs)
        before, self.width = self.width, next((x.shape[-1] for x in tensors_in(args) if x.dim() > 1
                                               and x.is_floating_point() and self.words_dealt(x.shape[-1]) > 1), None)
        try:
            return whole(*args, **kwargs)
        finally:
            self.width = before

    def is_linear(self, whole, place, args):
        x, weight, bias = args[0], args[place], args[place + 1] if len(args) > place + 1 else None
        if not isinstance(x, torch.Tensor) or weight.dim() != 2 or x.shape[-1] != weight.shape[1]:
            return False
        if (whole, weight) not in self.linear:
            self.busy = True
            try:
                with torch.no_grad():
                    y, z = torch.nn.functional.linear(x, weight), whole(*args)
                    y = y + bias if isinstance(bias, torch.Tensor) else y
            finally:
                self.busy = False
            self.linear[whole, weight] = isinstance(z, torch.Tensor) and torch.equal(y, z)
        return self.linear[whole, weight]

    def operation(self, function, place, weight, args, kwargs):
        """One that takes each token by itself: y = f(x, weight, bias)."""
        x, functional = args[0], torch.nn.functional
        bias = kwargs.get("bias", args[place + 1] if len(args) > place + 1 else None)
        bias = bias if isinstance(bias, torch.nn.Parameter) else None
        split = self.splits[weight]
        if function is functional.embedding:
            split = Split(dealt=split.dealt or self.dealt_of_all(weight, x))
        self.cut.update(self.names[p] for p in (weight, bias) if p is not None)
        alike = function is functional.embedding and not split and self.looks_up_alike(weight)
        if not split and not alike:
            return function(*args, **kwargs)
        name, as_now = self.names[weight], autocast_as_now(x.device.type)

        def plain(x, w, b):
            now, more = [x, *args[1:]], dict(kwargs)
            for at, given, p in (place, "weight", w), (place + 1, "bias", b):
                if p is None and given == "bias":
                    continue
                if given in more:
                    more[given] = p
                else:
                    now[at] = p
            busy, self.busy = self.busy, True
            try:
                with as_now():
                    return function(*now, **more)
            finally:
                self.busy = busy

        if alike:
            return self.looked_up(plain, x, weight)
        if split.out is None and split.into is None:  # only the weight's gradient is a split sum: x has its own way back
            y = plain(x, weight.detach(), None if bias is None else bias.detach())

            def tokens(g, _, w, b, wanted):
                self.by_tokens(plain, g, (x.detach(), w, b), (False, *wanted[1:]), (weight, bias), split.dealt)
                return g, None, None

            return Site.apply(lambda y, w, b: y.view_as(y), tokens, y, weight, bias)

        def forward(x, w, b):
            if split.out is None:
                return plain(x, w, b)
            dtype = plain(x[:1], w, b).dtype  # under autocast none of theirs
            flat, v = x.to(dtype).reshape(-1, x.shape[-1]), w.to(dtype)
            parts = [flat[:, terms].float() @ v[:, terms].float().t() for terms in split.out]
            total = self.added(self.moved(parts, dtype, name + " out"), dtype).reshape(*x.shape[:-1], len(w))
            return total if b is None else total + b.to(dtype)

        def backward(g, x, w, b, wanted):
            alone = [want and (n > 0 or split.into is None) and (n == 0 or split.tokens == 1) for n, want in enumerate(wanted)]
            with torch.enable_grad():  # of what is not made of parts below
                leaf = [t if t is None else t.detach().requires_grad_(need) for t, need in zip((x, w, b), alone)]
                y = plain(*(leaf if any(alone) else (x[:1], w, b)))
            asked = [t for t, need in zip(leaf, alone) if need]
            grads = dict(zip([n for n, need in enumerate(alone) if need], grad_of(y, asked, g) if asked else ()))
            if split.into is not None and (wanted[0] or copies):
                flat, v = g.to(y.dtype).reshape(-1, g.shape[-1]), w.to(y.dtype)
                parts = [flat[:, terms].float() @ v[terms].float() for terms in split.into]
                if copies:  # added up with those of the other modules first
                    grads.update({3 + r: part.to(y.dtype).to(x.dtype).reshape(x.shape) for r, part in enumerate(parts)})
                    grads[0] = None
                else:
                    grads[0] = self.added(self.moved(parts, y.dtype, name + " in"), x.dtype).reshape(x.shape)
            if split.tokens > 1 and wanted[1]:
                self.by_tokens(plain, g, leaf, wanted, (weight, bias), split.dealt)
            return tuple(grads.get(n) for n in range(3 + len(copies)))

        copies = self.copies(x, name, len(split.into)) if split.into is not None else ()
        return Site.apply(forward, backward, x, weight, bias, *copies)

    def dealt_of_all(self, weight, x):
        """Of what looks positions up several times each: a rank adds these up of its own rows. Here are none of them any more,
        but as many places that are added; a cut there moves what that moves."""
        ways = math.prod(self.mesh[axis] for axis in self.rows)
        again = self.names[weight].rpartition(".")[0] in self.run.of_all and x.numel() > len(weight)
        return {0: (ways, False)} if again and ways > 1 else {}

    def copies(self, x, name, ways):
        """Of what several modules take behind one gather, for each rank its own, on which their gradients are added."""
        group = next((names for names in self.layout.get("shared", []) if name.rpartition(".")[0] in names), None)
        if group is None or not x.requires_grad:
            return ()
        if not hasattr(x, "_plumb_copies"):
            x._plumb_copies = Gather.apply(x, ways, lambda parts: self.added(
                self.moved(parts, x.dtype, group[0] + " in"), x.dtype))
        return x._plumb_copies

    def by_tokens(self, plain, g, leaf, wanted, named, dealt):
        (x, w, b), (weight, bias) = leaf, named
        tokens = x.detach().reshape(-1, x.shape[-1]) if x.is_floating_point() else x.reshape(-1)
        flat = g.reshape(-1, g.shape[-1])
        short = g.dtype != torch.float32
        self.short.update({p: short for p in named if p is not None})
        parts = {weight: [], bias: []}
        for share in self.shares(self.names[weight], g.shape[:-1], dealt, short):
            with torch.enable_grad():
                v, c = w.detach().requires_grad_(), None if b is None else b.detach().requires_grad_()
                y = plain(tokens[share], v, c)
            asked = [v] + [c] * (c is not None and wanted[2])
            for p, grad in zip((weight, bias), grad_of(y, asked, flat[share])):
                parts[p].append(grad)
        for p in (weight, bias):
            if p is not None and parts[p]:
                self.keep(p, parts[p], self.names[weight])
