"""The tensors of what modules take and return: all of them, others in their place, and what they count."""
import copy

import torch


def tensors_in(x):
    """Every tensor of what a module takes or returns."""
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, dict):
        x = x.values()
    elif not isinstance(x, (tuple, list)):
        fields = getattr(x, "__dataclass_fields__", None)  # with slots it has no __dict__
        x = () if fields is None else [getattr(x, name, None) for name in {**fields, **getattr(x, "__dict__", {})}]
    return [t for each in x for t in tensors_in(each)]


def with_others(x, others):
    """The same structure with other tensors."""
    if isinstance(x, torch.Tensor):
        return others.get(id(x), x)
    if isinstance(x, dict):
        new = copy.copy(x)
        for key, each in x.items():
            new[key] = with_others(each, others)
        return new
    if isinstance(x, (tuple, list)):
        new = [with_others(each, others) for each in x]
        return type(x)(*new) if hasattr(x, "_fields") else type(x)(new)
    return x


def is_of_batch(numbers, words, buffers):
    """Do these lie as the batch's words, or as many rows, and are no positions or pairs of them?"""
    return not count_on(numbers, buffers) and (
        numbers.numel() == words.numel() or numbers.dim() == 1 and numbers.numel() % words.numel() == 0
        or min(numbers.dim(), words.dim()) > 1 and len(numbers) == len(words))


def count_on(x, buffers):
    """Positions that nobody made of a batch, even where that has a single sequence: one number behind the other, in one
    dimension or as a view of that, or of a buffer. (What a model counts for each sequence by itself is a tensor of its own.)"""
    of = x if x._base is None else x._base
    if x.is_floating_point() or lacks_numbers(x) or x.dim() == 0 or x.shape[-1] < 2 or x.numel() != x.shape[-1]:
        return False
    return (of.shape == x.shape[-1:] or id(of) in buffers) and bool((x.reshape(-1).diff() == 1).all())


def is_of_positions(x, given, buffers):
    """Is this made of positions alone, and not of what else a module takes (for its type), as sines are?"""
    if any(map(lacks_numbers, [x, *given])) or not any(count_on(y, buffers) for y in given):
        return False
    of_others = x.requires_grad or not torch.is_grad_enabled() or any(x.shape == y.shape for y in given if y.is_floating_point())
    return x.is_floating_point() and not of_others


def lacks_numbers(x):
    """Why those of a tensor cannot be taken, if so."""
    wrapped = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", lambda x: False)
    if isinstance(x, getattr(torch.nn.parameter, "UninitializedTensorMixin", ())):
        return "a lazy module's has no numbers before its first call"
    if x.is_nested:
        return "it is nested, and has no shape"
    return "within vmap, grad or jacrev it has no numbers of its own" if wrapped(x) else None


def in_place_of(x, value):
    """That value, on x's way back."""
    if hasattr(x, "to_local") and not hasattr(value, "to_local"):
        value = type(x).from_local(value, x.device_mesh, x.placements, run_check=False)
    if not x.requires_grad:
        return value
    new = value + (x - x.detach())
    for kept in "_plumb_lies", "_plumb_of_all":
        if hasattr(x, kept):
            setattr(new, kept, getattr(x, kept))
    return new


def unwrapped(model):
    while hasattr(model, "module") and isinstance(model.module, torch.nn.Module):
        model = model.module
    return model
