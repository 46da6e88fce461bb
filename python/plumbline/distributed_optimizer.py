"""Megatron's optimizers, seen by plumbline.trace: PyTorch's own within them, and the shares of a distributed one.

Its ranks own stretches of one buffer that all parameters lie in, so that a rank has a stretch of a parameter's numbers,
row by row, or none: of its gradient after the sum, of the optimizer's states, and of the weights in FP32 that it updates.
All else that a rank has of the gradient is no part of the run any more.
"""
import torch


def inside(optimizer):
    """PyTorch's, of one that holds others."""
    if optimizer is None or isinstance(optimizer, torch.optim.Optimizer):
        return [optimizer]
    held = getattr(optimizer, "chained_optimizers", None) or [getattr(optimizer, "optimizer", None)]
    return [one for other in held if other is not None for one in inside(other)] or [optimizer]


class Share:
    """Numbers `start` to `end` of a parameter, row by row, that this rank owns; what it updates of them, and by which one."""

    def __init__(self, p, start, end, held, optimizer):
        self.start, self.end, self.held, self.optimizer = start, end, held, optimizer
        self.whole = (start, end) == (0, p.numel())

    def of(self, x):
        """The same stretch of a tensor as large as the parameter."""
        return x.detach().reshape(-1)[self.start:self.end]

    def lies(self, x, places):
        """Rows in which it lies (zeros beside it), and where: blocks, as format 2 has them. `places`: of each dimension
        of this rank's parameter the place of each index in the whole; None where blocks cannot say it."""
        if len(places) > 2 or not x.numel():
            return None
        rows, columns = places[0], places[1] if len(places) == 2 else torch.arange(1)
        n = len(columns)
        first, last = self.start // n, -(-self.end // n)
        if bool((columns[1:] != columns[:-1] + 1).any()):
            return None
        held = x.new_zeros((last - first) * n)
        held[self.start - first * n:self.end - first * n] = x.reshape(-1)
        blocks = []
        for row in range(first, last):
            left, right = max(self.start - row * n, 0), min(self.end - row * n, n)
            before = blocks[-1] if blocks else None
            if before and before[2:] == [left, right] and rows[row] == rows[row - 1] + 1:
                before[1] += 1
            else:
                blocks.append([row, row + 1, left, right])
        dims = slice(0, len(places))
        offsets = [{"global": [int(rows[a]), int(columns[left])][dims], "local": [a - first, left][dims],
                    "size": [b - a, right - left][dims]} for a, b, left, right in blocks]
        return held.reshape(-1, n) if len(places) == 2 else held, offsets


def shares(optimizer):
    """Of each parameter of a distributed optimizer: this rank's."""
    out = {}
    for one in getattr(optimizer, "chained_optimizers", None) or [optimizer]:
        if not hasattr(one, "_get_model_param_range_map") or not hasattr(one, "shard_fp32_from_float16_groups"):
            continue
        for models, held in ((one.model_float16_groups, one.shard_fp32_from_float16_groups),
                             (one.model_fp32_groups, one.shard_fp32_groups)):
            for p, share in (pair for groups in zip(models, held) for pair in zip(*groups)):
                lies = one._get_model_param_range_map(p)["param"]
                out[p] = Share(p, lies.start, lies.end, share, one.optimizer)
        for p in (p for buffer in one.buffers for p in buffer.params):
            out.setdefault(p, Share(p, 0, 0, None, one.optimizer))
    return out
