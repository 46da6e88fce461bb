"""DDP and FSDP2, as far as the programs use them, by collectives of spmd_types: it sees nothing of PyTorch's own."""
from types import SimpleNamespace

import spmd_types as spmd
import torch.nn as nn
from spmd_types import I, P, R, S
from torch.func import functional_call
from torch.nn.utils.parametrize import register_parametrization

from model import rank, ranks

MixedPrecisionPolicy = SimpleNamespace


class DistributedDataParallel(nn.Module):
    """All ranks have the weights; their gradients are added, and divided by the ranks."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        for weight in module.parameters():
            spmd.assert_type(weight, {"dp": I})
            weight.register_hook(lambda gradient: gradient / ranks())

    def forward(self, *args):
        weights = {name: spmd.convert(weight, "dp", src=I, dst=R) for name, weight in self.module.named_parameters()}
        return functional_call(self.module, weights, args)


class Gathered(nn.Module):
    """A weight of which each rank has some rows, made whole; gradients of it are added, and divided by the ranks."""

    def __init__(self, wire):
        super().__init__()
        self.wire, self.divide = wire, ranks()

    def forward(self, rows):
        return spmd.all_gather(rows, "dp", src=S(0), dst=R, backward_options=self.wire)


def fully_shard(module, mesh, ignored_params=(), mp_policy=MixedPrecisionPolicy(reduce_dtype=None)):
    mine = []
    for owner in list(module.modules()):
        for name, weight in list(owner.named_parameters(recurse=False)):
            if name == "original" or any(weight is one for one in ignored_params):
                continue
            wire = mp_policy.reduce_dtype
            gathered = Gathered({"op_dtype": wire, "out_dtype": weight.dtype} if wire else None)
            rows = nn.Parameter(weight.detach().chunk(ranks())[rank()].clone())
            rows.register_hook(lambda gradient, gathered=gathered: gradient / gathered.divide)
            setattr(owner, name, spmd.assert_type(rows, {"dp": S(0)}))
            register_parametrization(owner, name, gathered, unsafe=True)
            mine.append(gathered)
    module.set_force_sum_reduction_for_comms = lambda _: None
    module.set_gradient_divide_factor = lambda factor: [setattr(one, "divide", factor) for one in mine]
