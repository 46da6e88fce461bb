"""What each row of a batch has alike: positions, weights that are added. Its gradient is a sum over the batch."""
import math

import torch

from plumbline.twins.sites import Site, grad_of


class Alike:
    """Of cuts: what is alike is marked with its name, as _plumb_of_all, where it is no parameter."""

    def spread(self, function, args, kwargs):
        """y = x + p or p.expand(shape), where p has no batch and y has."""
        args = list(args)
        if function is torch.Tensor.expand:
            sizes = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
            sizes, x = list(sizes), args[0]
            held = [1] * (len(sizes) - x.dim()) + list(x.shape)
            shape = torch.Size(n if size == -1 else size for size, n in zip(sizes, held))
            return self.alike(x, shape) if self.is_alike(x, shape) else function(*args, **kwargs)
        for n, x in enumerate(args[:2]):
            other = args[1 - n] if len(args) > 1 else None
            if isinstance(x, torch.Tensor) and isinstance(other, torch.Tensor) and self.is_alike(x, other.shape):
                args[n] = self.alike(x, other.shape)
        out, of = function(*args, **kwargs), next((x for x in args[:2] if hasattr(x, "_plumb_of_all")), None)
        if of is not None and out.shape == of.shape:  # with what has no batch, as a causal mask
            out._plumb_of_all = of._plumb_of_all
        return out

    def turned(self, function, args, kwargs):
        """What is alike stays so where its dimensions are turned, and where one of two is taken: as T5's positions."""
        shapes = [x.shape for x in args if isinstance(x, torch.Tensor)]
        shape = torch.broadcast_shapes(*shapes) if function is torch.where else shapes[0]
        args = [self.alike(x, shape) if isinstance(x, torch.Tensor) and self.is_alike(x, shape) else x for x in args]
        out, of = function(*args, **kwargs), next((x for x in args if hasattr(x, "_plumb_of_all")), None)
        if of is not None:
            out._plumb_of_all = of._plumb_of_all
            if hasattr(of, "_plumb_sums") and function in (torch.unsqueeze, torch.Tensor.unsqueeze):
                out._plumb_sums = of._plumb_sums
        return out

    def looks_up_alike(self, weight):
        """Is it a table that has the same row for each sequence, as positions do?"""
        module = self.names[weight].rpartition(".")[0]
        return module in self.run.of_all and weight.requires_grad and torch.is_grad_enabled() and any(
            self.mesh[axis] > 1 for axis in self.rows)

    def looked_up(self, plain, x, weight):
        """What such a table has for x. A rank adds up what its own rows give to that, of all micro-batches, before ranks add."""
        sums = []  # what alike() hands back, with its parts, and as what these were cut

        def back(g, _, w, b, wanted):
            found = next((of for of in sums if torch.equal(of[0].flatten(), g.flatten())), None)
            if found is None:  # not by alike(), or not by that alone
                return None, self.of_table(plain, x, w, g), None
            _, parts, name = found
            self.short[weight] = g.dtype != torch.float32
            self.keep(weight, [self.of_table(plain, x, w, part) for part in parts], name)
            return None, None, None

        y = Site.apply(lambda y, w, b: y.view_as(y), back, plain(x, weight.detach(), None), weight, None)
        y._plumb_sums = sums
        return y

    def of_table(self, plain, x, w, g):
        with torch.enable_grad():
            v = w.detach().requires_grad_()
            y = plain(x, v, None)
        return grad_of(y, v, g.reshape(y.shape))[0]

    def with_mask_of_rows(self, args, kwargs):
        """What attention is given, a mask that is alike for all rows of its queries as one for each."""
        q, mask = args[0] if args else kwargs["query"], args[3] if len(args) > 3 else kwargs.get("attn_mask")
        if not isinstance(mask, torch.Tensor) or mask.dim() != q.dim() or not self.is_alike(mask, (len(q), *mask.shape[1:])):
            return args, kwargs
        mask = self.alike(mask, (len(q), *mask.shape[1:]))
        return ((*args[:3], mask, *args[4:]), kwargs) if len(args) > 3 else (args, {**kwargs, "attn_mask": mask})

    def is_alike(self, x, shape):
        ways = math.prod(self.mesh[axis] for axis in self.rows)
        split = self.splits.get(x) if isinstance(x, torch.nn.Parameter) else None
        ours = hasattr(x, "_plumb_of_all") if split is None else (
            split.tokens == ways and split.out is None and split.into is None)
        whole = [1] * (len(shape) - x.dim()) + list(x.shape)
        return bool(ours and ways > 1 and len(whole) == len(shape) > 1 and shape[0] >= ways and whole[0] == 1 and x.requires_grad)

    def alike(self, x, shape):
        name = self.names.get(x) or x._plumb_of_all
        ways = math.prod(self.mesh[axis] for axis in self.rows)
        if x in self.names:
            self.cut.add(self.names[x])

        def back(g, x, *_):
            short = g.dtype != torch.float32
            ends = self.bounds(name, g.shape[0], ways, short)
            parts = [g[a:b].sum_to_size((1,) * (g.dim() - x.dim()) + x.shape).reshape(x.shape) for a, b in zip(ends, ends[1:])]
            if named is not None:
                self.short[named] = short
                self.keep(named, parts, name)
                return None, None, None
            total = self.added(parts, g.dtype) if short else self.dithered(parts, name)
            if sums is not None:
                sums.append((total, parts, name))
            return total, None, None

        sums = getattr(x, "_plumb_sums", None)
        named = x if x in self.names else None
        return Site.apply(lambda x, w, b: x.expand(shape), back, x, None, None)
