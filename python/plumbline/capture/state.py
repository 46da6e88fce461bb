"""All that a step changes, and what one forward pass uses up, to go back to."""
import copy
import gc

import torch


def plain_values(held):
    """Numbers, texts and lists, copied; what a schedule shares with others (an optimizer, schedules within it) stays."""
    return {key: copy.copy(x) for key, x in held.items() if isinstance(x, (int, float, str, list, type(None)))}


def scaler_values(held):
    """Its scale, and what it knows of each optimizer; the group of a sharded one stays."""
    return {key: copy.deepcopy(x) for key, x in held.items() if isinstance(x, (int, float, dict, torch.Tensor, type(None)))}


class State:
    """All that a step changes, to go back to."""

    def __init__(self, model, optimizers):
        self.model, self.optimizers = model, optimizers
        copied = lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x
        held = [*model.parameters(), *torch.nn.Module.buffers(model)]  # a name that Megatron's DDP takes for its own
        held += [p.main_grad for p in model.parameters() if hasattr(p, "main_grad")]
        held += [p for one in optimizers for group in one.param_groups for p in group["params"]]  # FP32 behind BF16
        self.held = [(x, x.detach().clone()) for x in {id(x): x for x in held}.values()]
        self.grads = [(p, None if p.grad is None else p.grad.detach().clone()) for p in model.parameters()]
        self.states = [{p: {key: copied(x) for key, x in state.items()} for p, state in one.state.items()}
                       for one in optimizers]
        self.groups = [[{key: x for key, x in group.items() if key != "params"} for group in one.param_groups]
                       for one in optimizers]
        self.random = torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None
        kind = getattr(torch.optim.lr_scheduler, "LRScheduler", torch.optim.lr_scheduler._LRScheduler)
        scaler = getattr(torch.amp, "GradScaler", torch.cuda.amp.GradScaler)
        self.scalers = [(one, scaler_values(vars(one))) for one in gc.get_objects() if issubclass(type(one), scaler)]
        self.schedules = [(one, plain_values(vars(one))) for one in gc.get_objects() if issubclass(type(one), kind)
                          and any(getattr(one, "optimizer", None) is other for other in optimizers)]

    def restore(self):
        for one, was in self.schedules:
            vars(one).update(plain_values(was))
        for one, was in self.scalers:
            vars(one).update(scaler_values(was))
        with torch.no_grad():
            for x, was in self.held:
                x.copy_(was)
        for p, grad in self.grads:
            p.grad = None if grad is None else grad.clone()
        for one, states, groups in zip(self.optimizers, self.states, self.groups):
            one.state.clear()
            for p, state in states.items():
                one.state[p] = {k: x.clone() if isinstance(x, torch.Tensor) else x for k, x in state.items()}
            for group, was in zip(one.param_groups, groups):
                group.update(was)
        torch.set_rng_state(self.random[0])
        if self.random[1] is not None:
            torch.cuda.set_rng_state_all(self.random[1])


class Chance:
    """What a forward pass uses up or keeps: random numbers and a module's buffers, to go back to."""

    def __init__(self, module):
        self.buffers = [(x, x.detach().clone()) for x in module.buffers()]
        self.random = torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None

    def restore(self):
        with torch.no_grad():
            for x, was in self.buffers:
                if not torch.equal(x, was):  # a copy counts as a change, of what autograd may have kept
                    x.copy_(was)
        torch.set_rng_state(self.random[0])
        if self.random[1] is not None:
            torch.cuda.set_rng_state_all(self.random[1])
