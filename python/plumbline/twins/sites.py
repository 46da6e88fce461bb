"""Functions with a way back of their own."""
import contextlib

import torch


def grad_of(*args, **kwargs):
    """torch.autograd.grad, where a step's own calls of it are counted."""
    return getattr(torch.autograd.grad, "whole", torch.autograd.grad)(*args, **kwargs)


def autocast_as_now(device):
    """For what is computed again in a backward pass, where autocast is off."""
    try:
        on, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    except (AttributeError, RuntimeError, TypeError):  # older than PyTorch 2.4: CUDA's and the processor's
        cpu = device == "cpu"
        on = torch.is_autocast_cpu_enabled() if cpu else torch.is_autocast_enabled()
        dtype = torch.get_autocast_cpu_dtype() if cpu else torch.get_autocast_gpu_dtype()
    if not on:
        return contextlib.nullcontext
    return lambda: torch.autocast(device, dtype, cache_enabled=False)


class Site(torch.autograd.Function):
    """y = forward(x, weight, bias), with backward(g, x, weight, bias, wanted) as its way back."""

    @staticmethod
    def forward(context, forward, backward, x, weight, bias, *copies):
        context.save_for_backward(x, weight, bias)
        context.how = backward
        y = forward(x, weight, bias)
        return y.clone() if y._base is not None else y  # nobody could change a view in place

    @staticmethod
    def backward(context, g):
        x, weight, bias = context.saved_tensors
        return (None, None, *context.how(g, x, weight, bias, context.needs_input_grad[2:]))


class Gather(torch.autograd.Function):
    """So many copies of x, whose gradients back(parts) joins."""

    @staticmethod
    def forward(context, x, ways, back):
        context.back = back
        return tuple(x.clone() for _ in range(ways))

    @staticmethod
    def backward(context, *parts):
        return context.back(parts), None, None
