"""What is put in place of PyTorch's functions while a step is traced. Each returns what puts them back."""
import functools
import itertools
import sys

import torch

from plumbline.capture.optimizers import taken_apart
from plumbline.capture.values import tensors_in


class Patches:
    """Of a run."""

    def _patched_backward(self):
        whole = torch.autograd.backward

        def backward(tensors, *args, **kwargs):
            roots = tensors_in(tensors)
            if roots and roots[0].numel() == 1:
                self.root = roots[0]
            self.backward += 1
            try:
                return whole(tensors, *args, **kwargs)
            finally:
                self.backward -= 1
                self._loss(self.micro)  # of a model without a module inside
                if self.cutting and not self.backward:
                    self.cutting.again(False)
                    self.cutting.join()

        torch.autograd.backward = backward

        def undo():
            torch.autograd.backward = whole
        return undo

    def _patched_grad(self):
        """Gradients that a step only computes with, as a penalty's: they are not those of its loss. (Within a backward pass
        they are: of what is made again there.)"""
        whole = torch.autograd.grad

        def grad(*args, **kwargs):
            if self.backward:
                return whole(*args, **kwargs)
            taking, self.taking, self.asked_for_gradients = self.taking, False, True
            try:
                return whole(*args, **kwargs)
            finally:
                self.taking = taking

        grad.whole = whole
        torch.autograd.grad, self.asked_for_gradients = grad, False

        def undo():
            torch.autograd.grad = whole
        return undo

    def _patched_to_local(self):
        """A local tensor of a DTensor remembers how it lies."""
        distributed = sys.modules.get("torch.distributed.tensor") or sys.modules.get("torch.distributed._tensor")
        kind = getattr(distributed, "DTensor", None)
        if kind is None:
            return lambda: None
        whole = kind.to_local

        def to_local(x, *args, **kwargs):
            local = whole(x, *args, **kwargs)
            if local is not x and isinstance(local, torch.Tensor):
                local._plumb_lies = self._by_dtensor(x)
            return local

        kind.to_local = to_local

        def undo():
            kind.to_local = whole
        return undo

    def _patched_trials(self):
        """Before its first step a pipeline tries its stages, to see what shapes go from one to the other."""
        pipelines, undo = sys.modules.get("torch.distributed.pipelining.stage"), []
        trials = "_shape_inference", "_forward_metadata_inference", "_backward_metadata_inference"
        for kind, name in [(kind, name) for kind in vars(pipelines or object).values() if isinstance(kind, type)
                           for name in trials if name in vars(kind)]:
            def tried(*args, whole=vars(kind)[name], **kwargs):
                taking, self.taking = self.taking, False
                try:
                    return whole(*args, **kwargs)
                finally:
                    self.taking = taking

            undo.append(lambda kind=kind, name=name, whole=vars(kind)[name]: setattr(kind, name, whole))
            setattr(kind, name, tried)
        return undo

    def _patched_clips(self):
        """Gradients are taken before PyTorch's functions clip them: behind that one wrong one makes all of them so."""
        undo, clips = [], torch.nn.utils.clip_grad
        inner = "_clip_grads_with_norm_"  # since PyTorch 2.6: of whoever imported clip_grad_norm_ by name, too
        for name in (inner if hasattr(clips, inner) else "clip_grad_norm_", "clip_grad_value_"):
            def clip(parameters, *args, whole=getattr(clips, name), **kwargs):
                parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
                self.before_clip(parameters)
                return whole(parameters, *args, **kwargs)

            own = getattr(clips, name)
            for place in (clips, torch.nn.utils):
                for called in [called for called, what in vars(place).items() if what is own]:
                    undo.append(functools.partial(setattr, place, called, own))
                    setattr(place, called, functools.update_wrapper(clip, own))
        return undo

    def _patched_optimizer(self, optimizer):
        own, whole, (within, _) = optimizer.__dict__.get("step"), optimizer.step, taken_apart([optimizer])

        def gradients():
            for one in within:
                self._gradients(one)

        def step(*args, **kwargs):
            place = next((n for n, x in enumerate(args) if callable(x)), None)
            closure = kwargs.get("closure") if place is None else args[place]
            if closure is None:
                gradients()
            else:  # makes the gradients; of several calls (LBFGS's) those of the last stay, which the optimizer got last
                calls = itertools.count()

                def made():
                    if next(calls):
                        self.clipped = {}
                    said = closure()
                    gradients()
                    return said

                args = args if place is None else (*args[:place], made, *args[place + 1:])
                kwargs = {**kwargs, "closure": made} if place is None else kwargs
            said = whole(*args, **kwargs)
            for one in within:
                self._after(one)
            self.stepped.extend(within)
            return said

        optimizer.step = functools.update_wrapper(step, whole)

        def undo():
            if own is None:
                del optimizer.step
            else:
                optimizer.step = own
        return undo
