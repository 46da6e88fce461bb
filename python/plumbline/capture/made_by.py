"""Which operation of plumb's catalogue a tensor is, where that is known for certain: plumb replays it."""
import math

import torch

from plumbline.capture.optimizers import gradient_of
from plumbline.capture.types import rounds_otherwise
from plumbline.write import LETTERS


class MadeBy:
    """Of a run: an operation with its inputs and attributes, as the format has them; None where it is not known."""

    def _made_by(self, name, module, here, given, outs):
        """Of a module that is exactly one of PyTorch's, computes in one type, and gives one tensor."""
        nn, weights = torch.nn, [self._name_of(name, own, p) for own, p in module.named_parameters(recurse=False)]
        one_type = len({x.dtype for x in [*module.parameters(recurse=False), *given, *outs]
                        if x.is_floating_point()}) == 1
        if len(given) != 1 or len(outs) != 1 or None in weights or not one_type:
            return None
        if rounds_otherwise(outs[0].dtype):
            return None
        kind, made = type(module), {"inputs": [here + "/in", *weights]}
        if kind is nn.Linear:
            return {"op": "gemm", **made, "attributes": {"transpose_a": 0, "transpose_b": 1},
                    **self._parts(f"{name}.weight", 1)}
        if kind is nn.Embedding and module.max_norm is None:
            return {"op": "embedding", **made, **self._parts(f"{name}.weight", 0)}
        if kind is nn.LayerNorm and len(module.normalized_shape) == 1 and len(weights) == 2:
            return {"op": "layernorm", **made, "attributes": {"eps": module.eps}}
        if kind is getattr(nn, "RMSNorm", None) and len(module.normalized_shape) == 1 and weights:
            eps = torch.finfo(given[0].dtype).eps if module.eps is None else module.eps
            return {"op": "rmsnorm", **made, "attributes": {"eps": eps}}
        if kind is nn.GELU:
            return {"op": "gelu" if module.approximate == "tanh" else "gelu_erf", **made}
        return {"op": "silu", **made} if kind is nn.SiLU else None

    def _name_of(self, module, own, p):
        """Of a weight, also where the module has another in its place for as long as it computes (FSDP2), of its type."""
        name = self.names.get(p, f"{module}.{own}")
        return name if name in self.named and self.named[name].dtype == p.dtype else None

    def _parts(self, weight, dim):
        """How many ranks share the sum over a dimension of a weight."""
        ways = math.prod(self.mesh[p["axis"]] for p in self.lies["weights"].get(weight, [])
                         if p["kind"] == "shard" and p["dim"] == dim and p["axis"] not in self.batch)
        return {"parts": ways} if ways > 1 else {}

    def _gradient_made_by(self, p, name):
        """Of a weight or a bias that one call in one micro-batch used: tokens are summed."""
        own, _, kind = name.rpartition(".")
        module, here = self.modules.get(own), f"m0/{own}"
        given, back = (self.taken.get(here + side) for side in ("/in", "/grad_out"))
        made = self._sum_of_tokens(module, here, own, kind)
        if (made is None or self.source is not None  # of another gradient than was taken
                or None in (given, back) or self.micro != 0 or self.calls.get(own) != 1
                or any(x[0] not in ("I64", "I32", LETTERS.get(str(gradient_of(p).dtype)[6:])) for x in (given, back))
                or sum(p is q for m in self.modules.values() for q in m._parameters.values()) != 1):
            return None
        lies = (back if type(module) is torch.nn.Embedding else given)[2]
        dealt = [q for q in lies.get("placements", []) if q["kind"] == "shard" and q["dim"] != len(lies["shape"]) - 1]
        if any(q["dim"] for q in dealt):
            return None  # the terms of a rank do not lie behind one another
        ways = math.prod(self.mesh[q["axis"]] for q in dealt)
        return {**made, **({"parts": ways} if ways > 1 else {})}

    def _sum_of_tokens(self, module, here, own, kind):
        """The operation that makes the gradient of one of a module's parameters. Of norms and tables in FP32 alone: shorter
        ones kernels add in many ways."""
        nn, weight = torch.nn, getattr(module, "weight", None)
        given, back = here + "/in", here + "/grad_out"
        if type(module) is nn.Linear and kind == "bias":
            return {"op": "column_sum", "inputs": [back]}
        if type(module) is nn.Linear:
            return {"op": "gemm", "inputs": [back, given], "attributes": {"transpose_a": 1, "transpose_b": 0}}
        if weight is None or weight.dtype != torch.float32:
            return None
        if type(module) is nn.Embedding:
            usual = module.max_norm is None and module.padding_idx is None and not module.scale_grad_by_freq and not module.sparse
            return {"op": "embedding_grad", "inputs": [given, back],
                    "attributes": {"rows": module.num_embeddings, "period": 0}} if usual else None
        if len(getattr(module, "normalized_shape", ())) != 1:
            return None
        made = {"inputs": [given, f"{own}.weight", back]}
        if type(module) is nn.LayerNorm and module.bias is not None:
            return {"op": "layernorm_wgrad", **made, "attributes": {"eps": module.eps}, "output": int(kind == "bias")}
        if type(module) is getattr(nn, "RMSNorm", None):
            eps = torch.finfo(torch.float32).eps if module.eps is None else module.eps
            return {"op": "rmsnorm_wgrad", **made, "attributes": {"eps": eps}}
        return None

    def _adam(self, p, name):
        """AdamW's update of a parameter, in one type (Adam's, where no weight decays). Whoever makes a kind of his own of
        it may do otherwise: then the reference does not hold what plumb makes either, and nothing is judged by it."""
        optim, optimizer, share, states = torch.optim, self._updates(p), self.shares.get(p), dict(self._states(p))
        if share and share.held is None:
            return None
        summed = gradient_of(p)
        summed = share.of(summed) if share and summed is not None else summed
        was, p = name if self._main(p) is p else name + "/main/before", self._main(p)
        if p.grad is None or self._got(name) == f"{name}/grad" and not (
                p.grad is summed or summed is None or torch.equal(p.grad, summed.to(p.grad.dtype))):
            return None
        state = optimizer.state.get(p) or next((state for state in optimizer.state.values() if self._keepers(p)), {})
        group = next((of_rank for whole, of_rank in zip((optimizer if share else self._of(p)).param_groups, optimizer.param_groups)
                      if any(p is q for q in whole["params"])), {})
        decay = group.get("weight_decay", 0)
        types = {x.dtype for x in (p, p.grad, *states.values())}
        on_processor = types != {torch.float32} and group.get("foreach") and p.device.type == "cpu"  # betas in the short type
        if (on_processor or not isinstance(optimizer, optim.AdamW) and (not isinstance(optimizer, optim.Adam) or decay)
                or any(group.get(other) for other in ("amsgrad", "maximize", "capturable")) or not state
                or [*states] != ["exp_avg", "exp_avg_sq"]
                or len(types) != 1 or not types <= {torch.float32, torch.bfloat16, torch.float16}):
            return None
        steps = {} if types == {torch.float32} else {"stepwise": 1}  # each operation returns the short type
        if rounds_otherwise(p.dtype) or steps and any(q["kind"] == "partial" for q in self._by_dtensor(p.grad) or []):
            return None  # the optimizer adds it up first, and rounds the sum
        beta1, beta2 = group["betas"]
        return {"op": "adam", "inputs": [was, f"{name}/exp_avg/before", f"{name}/exp_avg_sq/before",
                                         self._got(name)],
                "attributes": {"lr": float(group["lr"]), "beta1": float(beta1), "beta2": float(beta2),
                               "eps": float(group["eps"]), "step": int(state["step"]), "weight_decay": float(decay),
                               **steps}}
