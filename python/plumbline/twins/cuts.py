"""Twins: the same step with sums cut where a layout cuts them."""
import functools
import itertools

import torch

from plumbline.capture.optimizers import gradient_of
from plumbline.capture.placements import share_of
from plumbline.capture.values import lacks_numbers
from plumbline.twins.alike import Alike
from plumbline.twins.attention import Attention
from plumbline.twins.losses import Losses
from plumbline.twins.moves import Moves
from plumbline.twins.operations import Operations
from plumbline.twins.plan import Plan
from plumbline.twins.shares import Shares
from plumbline.twins.units import Units


class Cuts(Alike, Attention, Losses, Moves, Operations, Plan, Shares, Units):
    """While it is entered, linear layers, norms, embeddings and cross entropies sum up in parts as the layout does."""

    def __init__(self, layout, number, run):
        self.number, self.run, self.layout = number, run, layout
        self.mesh, self.batch = layout["mesh"], set(layout.get("batch", ()))
        self.rows = self.batch - set(layout.get("context", ()))  # axes over which whole sequences are dealt
        self.attentions = 0
        self.busy, self.put_back, self.under = False, False, 0
        self.linear, self.width = {}, None  # is an autograd function with a weight a linear layer? How wide are logits?
        self.short = {}  # of parameters with a gradient in parts: are these shorter than FP32?
        self.names, self.stash, self.joined_grads, self.cut = run.names, {}, {}, set()
        self.splits = {p: self._split_of(name, p) for p, name in self.names.items()}
        self.cut_as, self.still = {}, set()  # by which name a gradient was cut; names whose cuts cannot lie elsewhere
        self.foreign = set()  # of parameters with a gradient that did not come from a cut

    def keep(self, p, parts, name):
        """`name`: by which it was cut. Micro-batches are added where the program adds them: Megatron's DDP keeps FP32."""
        kept, self.cut_as[p] = self.stash.get(p), name
        parts = [x.to(p.dtype).to(getattr(p, "main_grad", p).dtype) for x in parts]
        self.stash[p] = parts if kept is None else [a + b for a, b in zip(kept, parts)]

    def join(self):
        for p, parts in self.stash.items():
            held, main = gradient_of(p), getattr(p, "main_grad", None)
            if held is not None and held is not self.joined_grads.get(p) and bool(held.any()):
                self.foreign.add(self.names[p])
            dtype = p.dtype if main is None else main.dtype
            if self.short[p] and self.cut_as[p] in self.still:
                parts = self.rounded_anew(parts, p.dtype, self.names[p])
            total = self.added(parts, dtype) if self.short[p] else self.dithered(parts, self.names[p])
            self.joined_grads[p] = main
            if main is None:
                self.joined_grads[p] = p.grad = total
            else:  # to which DDP of Megatron adds what p.grad has
                main.copy_(total)

    def __enter__(self):
        cuts, functional = self, torch.nn.functional
        spread = {torch.add, torch.Tensor.add, torch.Tensor.__add__, torch.Tensor.__radd__, torch.Tensor.expand}
        turns = {getattr(kind, name) for kind in (torch, torch.Tensor) for name in ("permute", "transpose", "unsqueeze")}
        turns |= {torch.where, torch.Tensor.contiguous, torch.Tensor.to, torch.Tensor.masked_fill, torch.masked_fill}
        of_weight = {functional.linear: 1, functional.embedding: 1, functional.layer_norm: 2}
        if hasattr(functional, "rms_norm"):
            of_weight[functional.rms_norm] = 2

        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                kwargs = kwargs or {}
                if cuts.busy or args and isinstance(args[0], torch.Tensor) and lacks_numbers(args[0]):
                    return function(*args, **kwargs)
                if cuts.width and function in (torch.sum, torch.Tensor.sum):
                    return cuts.sum_of_words(function, args, kwargs)
                if function in (torch.sum, torch.Tensor.sum, torch.mean, torch.Tensor.mean):
                    return cuts.sum_of_tokens(function, args, kwargs)
                if function is functional.cross_entropy:
                    return cuts.cross_entropy(args, kwargs)
                if function is getattr(functional, "scaled_dot_product_attention", 0):
                    args, kwargs = cuts.with_mask_of_rows(args, kwargs)
                    return cuts.attention(function, args, kwargs) if cuts.batch - cuts.rows else function(*args, **kwargs)
                if function in spread and torch.is_grad_enabled():
                    return cuts.spread(function, args, kwargs)
                if function in turns and torch.is_grad_enabled():
                    return cuts.turned(function, args, kwargs)
                place = of_weight.get(function)
                weight = kwargs.get("weight", args[place] if place is not None and len(args) > place else None)
                if (place is None or not isinstance(weight, torch.nn.Parameter) or weight not in cuts.splits
                        or weight.is_complex() or function is functional.embedding and (args[6:7] or [kwargs.get("sparse")])[0]):
                    return function(*args, **kwargs)
                return cuts.operation(function, place, weight, args, kwargs)

        self.units = [module for name, module in self.run.modules.items() if self.is_unit(name, module)]
        for module in self.units:
            module.forward = lambda *args, own=module.forward, module=module, **kwargs: cuts.unit(module, own, args, kwargs)
        self.mode, own = Mode(), torch.autograd.Function
        self.apply = next(vars(kind)["apply"] for kind in own.__mro__ if "apply" in vars(kind))
        undo = (setattr, own, "apply", self.apply) if "apply" in vars(own) else (delattr, own, "apply")
        self.leave = functools.partial(*undo)
        own.apply = classmethod(
            lambda kind, *args, **kwargs: cuts.function(kind, args, kwargs))
        self.mode.__enter__()
        self.norm = getattr(torch.nn.utils.clip_grad, "_get_total_norm", None)  # since PyTorch 2.6
        if self.norm is not None:
            torch.nn.utils.clip_grad._get_total_norm = self.total_norm
        return self

    def __exit__(self, *wrong):
        self.leave()
        if self.norm is not None:
            torch.nn.utils.clip_grad._get_total_norm = self.norm
        for module in self.units:
            del module.forward
        return self.mode.__exit__(*wrong)

    def again(self, on):
        """PyTorch takes the mode away in a backward pass: for what is made again there it is put back."""
        modes = torch._C._len_torch_function_stack()
        there = self.put_back and modes > self.under  # a checkpoint that stops early leaves it to PyTorch, which takes it away
        if on and not there:
            self.under = modes
            self.mode.__enter__()
        elif not on and there:
            self.mode.__exit__(None, None, None)
        self.put_back = on

    def total_norm(self, tensors, norm_type=2.0, *args, **kwargs):
        names = {id(p.grad): name for p, name in self.names.items() if p.grad is not None}
        grads = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        lies = [[q for q in self.layout["weights"].get(names.get(id(g)), []) if q["kind"] == "shard" and self.mesh[q["axis"]] > 1]
                for g in grads]
        axes = sorted({q["axis"] for of in lies for q in of})
        if float(norm_type) != 2 or not axes:
            return self.norm(grads, norm_type, *args, **kwargs)
        norms = []
        for places in itertools.product(*(range(self.mesh[axis]) for axis in axes)):
            place = dict(zip(axes, places))
            norms.append(self.norm([share_of(g, of, self.mesh, place) for g, of in zip(grads, lies) if all(
                at == 0 or any(q["axis"] == axis for q in of) for axis, at in place.items())], norm_type))
        return torch.stack(norms).norm()
