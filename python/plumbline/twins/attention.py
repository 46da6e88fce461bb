"""Keys and values, which every query takes: their gradients are sums over queries, dealt out as sequences are."""
import math

import torch

from plumbline.twins.sites import Site, grad_of


class Attention:
    """Of cuts."""

    def attention(self, function, args, kwargs):
        named = dict(zip(("query", "key", "value"), args))
        q, k, v = ({**named, **kwargs}[name] for name in ("query", "key", "value"))
        rest = {key: x for key, x in kwargs.items() if key not in ("query", "key", "value")}
        if q.shape[-2] != k.shape[-2] or not torch.is_grad_enabled() or not k.requires_grad:
            return function(*args, **kwargs)
        self.attentions += 1
        ways = math.prod(self.mesh[axis] for axis in self.batch - self.rows)
        length = q.shape[-2]
        shares = self.of_dim(f"attention {self.attentions}", length, ways, self.layout.get("zigzag"))

        mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")

        def of(q, k, v, share=None):
            given = dict(zip(("attn_mask", "dropout_p", "is_causal", "scale"), args[3:]), **rest)
            if share is not None and isinstance(mask, torch.Tensor) and mask.shape[-2] == length:
                given["attn_mask"] = mask[..., share, :]
            busy, self.busy = self.busy, True
            try:
                return function(q, k, v, **given)
            finally:
                self.busy = busy

        def backward(g, q, k, v, wanted):
            """Where a mask says what a query sees, each rank's queries alone, as it has them; else zeros for the others."""
            parts = []
            for share in shares:
                alone = isinstance(mask, torch.Tensor)
                with torch.enable_grad():
                    leaf = [x.detach().requires_grad_() for x in (q, k, v)]
                    y = of(leaf[0][..., share, :], *leaf[1:], share) if alone else of(*leaf)
                own = g[..., share, :] if alone else torch.zeros_like(g).index_copy(-2, share, g[..., share, :])
                parts.append(grad_of(y, leaf, own))
            of_queries, *others = zip(*parts)
            return sum(of_queries), *(self.added(x, g.dtype) for x in others)

        return Site.apply(of, backward, q, k, v)
