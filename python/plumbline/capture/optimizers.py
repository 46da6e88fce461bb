"""Gradients, and what optimizers make of them."""
import torch

from plumbline import distributed_optimizer
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


class Optimizers:
    """Of a run: `optimizers` are PyTorch's own; `shares`, by parameter, what this rank has of it where one deals that."""

    def _of(self, p):
        """The optimizer of a parameter, the first for one that none has."""
        if p in self.shares:
            return self.shares[p].optimizer
        return self.optimizer_of.get(main_of(p), self.optimizers[0] if self.optimizers else None)

    def _main(self, p):
        """What the optimizer updates: of a distributed one this rank's share, or nothing."""
        return self.shares[p].held if p in self.shares else main_of(p)

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
            if name in self.clipped:
                self._gradient(p, name, "clipped_grad", later=2, made_from=[name + "/grad"])
            else:
                self._gradient(p, name, "grad", made_by=self._gradient_made_by(p, name))

    def _gradient(self, p, name, kind, later=1, **made):
        share = self.shares.get(p)
        self._take(f"{name}/{kind}", share.of(gradient_of(p)) if share else gradient_of(p), "reduce", like=name, later=later,
                   share=share, **made)

    def _after(self, optimizer):
        for p, name in self.names.items() if optimizer is not None else ():
            if self._of(p) is not optimizer:
                continue
            update, of_state, share = self._adam(p, name), [], self.shares.get(p)
            got = self.clipped.get(name, name + "/grad")
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
            self._take(name + "/param", p, "optimizer", like=name, later=5, made_from=of, made_by=by)

    def _states(self, p):
        """What the optimizer keeps of a parameter that has its shape; nothing of each, where another rank keeps it."""
        if not self.optimizers:
            return []
        if p in self.shares:
            share = self.shares[p]
            state = share.optimizer.state.get(share.held) or {}
            return [(key, x) for key, x in sorted(state.items()) if isinstance(x, torch.Tensor) and x.shape == share.held.shape]
        keepers, p, states = self._keepers(p), main_of(p), self._updates(p).state
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
