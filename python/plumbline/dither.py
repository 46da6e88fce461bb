"""A candidate's step once more, with other roundings in what its ranks add to each other.

For programs whose layout nobody can say, so that no reference can be cut as they are (plumb.twin). What a rank gives to
a sum in BF16 or FP16 it has rounded; a single device adds what was not. So here such a sum is made again of its parts,
each with as much as its rounding may have lost, up to half of a last bit, drawn at random; and it is rounded once.
These runs lie from the candidate as far as a single device does, and the reference is judged by them (docs/pytorch.md).

Seen are the calls of torch.distributed by Python and those of DTensor, as in plumbline.messages. Not seen: sums of DDP,
which C++ sends. Sums in FP32 are left alone: how far off a rank's part is there, its kernels say and not the wire.
"""
import contextlib

import torch

from plumbline import messages
from plumbline.twins.moves import hash_of, ulp_of, uniform

IN_PLACE = {"allreduce": 0, "reduce": 0}  # the place of what a rank gives, among the arguments
FRESH = {"reduce_scatter": 1, "_reduce_scatter_base": 1, "reduce_scatter_single": 1}
FUNCTIONAL = ("all_reduce", "all_reduce_", "reduce_scatter_tensor")


def sum_of_unrounded(parts, name):
    """Their sum, as if each part had not been rounded. Numbers that are alike in a column stay alike (twins.md M2)."""
    total, some = 0, sum((x != 0).int() for x in parts)
    for rank, x in enumerate(parts):
        wide = x.detach().double()
        ulp = ulp_of(wide, x.dtype)
        columns = wide.shape[-1] if wide.dim() > 1 else wide.numel()
        words = torch.Generator().manual_seed(hash_of(f"{name} {rank}"))
        word = torch.randint(0, 1 << 32, (columns,), generator=words).to(x.device)
        lost = uniform(word, wide / ulp, 0 * wide) * ulp
        total = total + wide + lost * ((some > 1) & (x != 0))  # a part beside zeros is the sum
    return total.to(parts[0].dtype)


class Dither(messages.Patches):
    """Between start() and stop() sums of this rank are given other roundings."""

    def __init__(self, number):
        super().__init__()
        self.number, self.sums, self.left, self.unread = number, 0, 0, set()

    def given(self, x, reduction, group):
        """What this rank gives instead."""
        if not x.is_floating_point() or messages._reduction(reduction) not in ("sum", "avg"):
            return x
        if x.dtype not in (torch.bfloat16, torch.float16):
            self.left += 1
            return x
        self.sums += 1
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(group.size())]
        torch.distributed.all_gather(parts, x.contiguous(), group=group)
        # By what is added, and not by the call: what is added twice, as DTensor's optimizers do, rounds alike.
        sign = sum(int(part.view(torch.int16).long().sum()) * (rank + 1) for rank, part in enumerate(parts))
        whole = sum_of_unrounded(parts, f"{self.number} {sign}")
        return whole if group.rank() == 0 else torch.zeros_like(whole)  # which the call adds up to the first

    def of_group(self, name, own):
        def method(group, *args, **kwargs):
            options = args[-1] if args and type(args[-1]).__name__.endswith("Options") else None
            if kwargs or options is None:
                self.unread.add(name)
                return own(group, *args, **kwargs)
            at = {**IN_PLACE, **FRESH}[name]
            if name in IN_PLACE:
                for x in messages._list(args[at]):
                    x.copy_(self.given(x, options.reduceOp, group))
                return own(group, *args)
            instead = lambda x: (self.given(x, options.reduceOp, group) if isinstance(x, torch.Tensor) else
                                 type(x)(map(instead, x)))
            return own(group, *args[:at], instead(args[at]), *args[at + 1:])
        return method

    def of_function(self, name, own):
        def function(*args, **kwargs):
            if kwargs or not isinstance(args[0], torch.Tensor):
                self.unread.add(name)
                return own(*args, **kwargs)
            x = self.given(args[0], args[1], messages._group_named(args[-1]))
            if name.endswith("_"):
                x = args[0].copy_(x)
            return own(x, *args[1:])
        return messages._InPlaceOf(own, function)

    def start(self):
        group = torch.distributed.ProcessGroup
        for name in (*IN_PLACE, *FRESH):
            if hasattr(group, name):
                self._replace(group, name, lambda own, name=name: self.of_group(name, own))
        functional = getattr(torch.ops, "_c10d_functional", None)
        for name in FUNCTIONAL:
            if functional is not None and hasattr(functional, name):
                self._replace(functional, name, lambda own, name=name: self.of_function(name, own))


@contextlib.contextmanager
def dithering(number):
    """A Dither, at work in this block."""
    dither = Dither(number)
    dither.start()
    try:
        yield dither
    finally:
        dither.stop()
