"""Gradients, and what optimizers make of them."""
import ctypes
import zlib

import torch

from plumbline import distributed_optimizer
from plumbline.capture.say import say
from plumbline.capture.values import lacks_numbers
from plumbline.write import shard


def gradient_of(p):
    return p.grad if p.grad is not None else getattr(p, "main_grad", None)


def main_of(p):
    """The weight that the optimizer keeps, in FP32, and from which this one is rounded; mostly this one itself."""
    main = getattr(p, "main_param", None)
    return main if isinstance(main, torch.Tensor) and main.shape == p.shape else p


def taken_apart(optimizers):
    """PyTorch's own within Megatron's, and by parameter what a rank has of it, where a distributed one deals that."""
    if all(one is None or isinstance(one, torch.optim.Optimizer) for one in optimizers):
        return list(optimizers), {}
    shares = {}
    for one in optimizers:
        shares.update(distributed_optimizer.shares(one))
    return [own for one in optimizers for own in distributed_optimizer.inside(one)], shares


def print_of(x):
    """Of its numbers, in FP32, in their order: others have another, as good as always."""
    x = (x.to_local() if hasattr(x, "to_local") else x).detach().float().cpu().contiguous()
    return zlib.crc32(ctypes.string_at(x.data_ptr(), 4 * x.numel()))


def mains_of_a_script(weights, held):
    """Weights in FP32 that a script keeps behind its model's, among what an optimizer holds, by these: of that shape, and
    rounded to the very numbers. And what it holds besides, which is nobody's."""
    mains, others = {}, sorted(held, key=lambda other: not other.requires_grad)  # an average of weights asks for no gradient
    for p in weights:
        for n, other in enumerate(others):
            if (other.shape == p.shape and type(other) in (torch.Tensor, torch.nn.Parameter) and not hasattr(p, "placements")
                    and not lacks_numbers(other) and torch.equal(other.detach().to(p.dtype).to(p.device), p.detach())):
                mains[p] = others.pop(n)
                break
    return mains, others


class Optimizers:
    """Of a run: `optimizers` are PyTorch's own; `shares`, by parameter, what this rank has of it where one deals that."""

    def _look_for_mains(self):
        """Which weights are updated through others that a script keeps, and whose updates are nobody's that is known."""
        known = {main_of(p) for p in self.names} | {share.held for share in self.shares.values()}
        apart = [p for p in self.names if p.requires_grad and main_of(p) not in self.optimizer_of and p not in self.shares
                 and not lacks_numbers(p)]
        self.mains, others = mains_of_a_script(apart, [p for p in self.optimizer_of if p not in known])
        twice = mains_of_a_script(self.mains, [q for q in others if q.requires_grad])[0]
        if twice:
            self._lacks_updates(f"an optimizer holds more tensors than one for weights ({len(twice)}, first {self._first(twice)}), "
                                "of which nobody knows the right one")
        self.unseen = {p for p in apart if p not in self.mains} if others else set()
        if self.unseen:  # else others are of no model that is traced
            self._lacks_updates(
                f"an optimizer holds tensors ({len(others)}) that are no weights of the model, nor such in FP32 (of one's shape, "
                f"and rounded to it); what becomes of weights ({len(self.unseen)}, first {self._first(self.unseen)}) is not judged")

    def _look_for_hidden_mains(self):
        """After the step: states of tensors that were in no group before it, or groups that were changed within it."""
        held = {p for one in self.optimizers for group in one.param_groups for p in group["params"]}
        hidden = {q for one in self.optimizers for q in one.state if isinstance(q, torch.Tensor)} - set(self.optimizer_of)
        if hidden or held != set(self.optimizer_of):
            others = len(hidden | held - set(self.optimizer_of))
            self._lacks_updates(f"an optimizer updates tensors ({others}) that were in none of its groups before the step; what "
                                "becomes of the model's weights is not judged")

    def _lacks_updates(self, why):
        self.lacks["updates"] = why
        if why not in self.told:  # twins would say it again
            say(why + ". If that is meant, give step() no optimizer")
        self.told |= {why}

    def _first(self, weights):
        return min((self.names[p] for p in weights), default="none")

    def _of(self, p):
        """The optimizer of a parameter, the first for one that none has."""
        if p in self.shares:
            return self.shares[p].optimizer
        return self.optimizer_of.get(self.mains.get(p, main_of(p)), self.optimizers[0] if self.optimizers else None)

    def _main(self, p):
        """What the optimizer updates: of a distributed one this rank's share, or nothing."""
        return self.shares[p].held if p in self.shares else self.mains.get(p, main_of(p))

    def before_clip(self, parameters):
        """Gradients as they are now; what the optimizer gets is another tensor. The first call of a step counts."""
        for p in parameters if self.taking else ():
            name = self.names.get(p)
            if gradient_of(p) is None or name in self.clipped:
                continue
            if name is not None:
                self._gradient(p, name, "grad", made_by=self._gradient_made_by(p, name))
                self.clipped[name] = name + "/clipped_grad"
            self.clips_others = self.clips_others or name is None or f"{name}/grad" not in self.taken

    def _gradients(self, optimizer):
        for p, name in self.names.items():
            if gradient_of(p) is None or self._of(p) is not optimizer:
                continue
            if name in self.clipped and (self._main(p) is not p or p in self.unseen):
                continue  # what the optimizer got of that is the gradient of another tensor
            if name in self.clipped:
                self._gradient(p, name, "clipped_grad", later=2, made_from=[name + "/grad"])
            else:
                self._gradient(p, name, "grad", made_by=self._gradient_made_by(p, name))

    def _gradient(self, p, name, kind, later=1, **made):
        share = self.shares.get(p)
        got = share.of(gradient_of(p)) if share else gradient_of(p)
        if self._main(p) is not p and got is not None:
            self.prints[name] = print_of(got)
        self._take(f"{name}/{kind}", got, "reduce", like=name, later=later,
                   share=share, **made)

    def _after(self, optimizer):
        for p, name in self.names.items() if optimizer is not None else ():
            if self._of(p) is not optimizer or p in self.unseen:
                continue
            self._gradient_of_main(p, name)
            update, of_state, share = self._adam(p, name), [], self.shares.get(p)
            got = self._got(name)
            for key, x in self._states(p):
                of_state.append(f"{name}/{key}")
                before = f"{of_state[-1]}/before"
                kept = self._kept(p, name)
                if before not in self.taken:
                    self._take(before, torch.zeros_like(x), "forward", like=name, role="given", known=kept, share=share)
                self._take(of_state[-1], x, "reduce", like=name, later=3, made_from=[got, before], known=kept,
                           made_by=update and {**update, "output": len(of_state) - 1}, share=share)
            of, by = [got, name, *of_state], update and {**update, "output": 2}
            if self._main(p) is not p:
                self._take(name + "/main", self._main(p), "optimizer", like=name, later=4, made_from=of, made_by=by, share=share)
                of, by = [name + "/main"], {"op": "cast", "inputs": [name + "/main"]}
            if p in self.mains:  # which the script rounds to the model's, behind the optimizer
                self.rounded.append((p, name, of, by))
            else:
                self._take(name + "/param", p, "optimizer", like=name, later=5, made_from=of, made_by=by)

    def _after_the_step(self):
        self._look_for_hidden_mains()
        for p, name, of, by in self.rounded:
            self._take(name + "/param", p, "optimizer", like=name, later=5, made_from=of, made_by=by)

    def _gradient_of_main(self, p, name):
        """What the optimizer got for a weight in FP32 of its own, where that is not the gradient that was taken: what is clipped
        within its step, as Megatron does, or by the script. (Of weights in FP32 a last bit of their norm would show, and twins
        do not cut the norm of others than PyTorch's clip.)"""
        main, share = self._main(p), self.shares.get(p)
        if main is p or main is None or main.dtype == p.dtype or main.grad is None or f"{name}/grad" not in self.taken:
            return
        if name not in self.clipped and self.prints.get(name) == print_of(main.grad):
            return
        self._take(f"{name}/clipped_grad", main.grad, "reduce", like=name, later=2, share=share, made_from=[name + "/grad"])
        if f"{name}/clipped_grad" in self.taken:
            self.clipped[name] = name + "/clipped_grad"

    def _got(self, name):
        """The id of what the optimizer got."""
        clipped = self.clipped.get(name)
        return clipped if clipped in self.taken else name + "/grad"

    def _states(self, p):
        """What the optimizer keeps of a parameter that has its shape; nothing of each, where another rank keeps it."""
        if not self.optimizers:
            return []
        if p in self.shares:
            share = self.shares[p]
            state = share.optimizer.state.get(share.held) or {}
            return [(key, x) for key, x in sorted(state.items()) if isinstance(x, torch.Tensor) and x.shape == share.held.shape]
        keepers, p, states = self._keepers(p), self.mains.get(p, main_of(p)), self._updates(p).state
        own = states.get(p)
        if own is None and keepers is not None and p.dim():  # as the states of others are called
            other = next(((q, state) for q, state in states.items() if state), (p, {}))
            own = {key: x.new_empty((0, *p.shape[1:])) for key, x in other[1].items()
                   if isinstance(x, torch.Tensor) and x.shape == other[0].shape}
            return sorted(own.items())
        return [(key, x) for key, x in sorted((own or {}).items(), key=lambda item: item[0])
                if isinstance(x, torch.Tensor) and x.shape == p.shape]

    def _updates(self, p):
        """The optimizer that holds the states: within one that deals them to ranks (ZeroRedundancyOptimizer)."""
        within = getattr(self._of(p), "optim", None)
        return within if isinstance(within, torch.optim.Optimizer) else self._of(p)

    def _keepers(self, p):
        """Which rank keeps a parameter's states, where only one does."""
        return getattr(self._of(p), "_param_to_rank", None)

    def _kept(self, p, name):
        """How such states lie: one rank has all, the others nothing."""
        keepers = self._keepers(p)
        if keepers is None or not p.dim() or len(self.batch) != 1:
            return None
        sizes = [0] * self.mesh[self.batch[0]]
        sizes[keepers[p]] = p.shape[0]
        return [shard(self.batch[0], 0, sizes=sizes), *(q for q in self.lies["weights"].get(name, [])
                                                        if q["axis"] not in self.batch)]
