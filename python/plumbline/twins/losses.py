"""Losses: sums over words of the vocabulary, and over tokens."""
import math

import torch

from plumbline.twins.sites import Site


class Losses:
    """Of cuts: `width` is that of the logits of which a loss is made now."""

    def sum_of_words(self, function, args, kwargs):
        x, dim = args[0], kwargs.get("dim", args[1] if len(args) > 1 else None)
        if x.shape[-1] != self.width or dim not in (-1, x.dim() - 1, [-1], (-1,)):
            return function(*args, **kwargs)
        ways = self.words_dealt(self.width)
        parts = [function(part, *args[1:], **kwargs) for part in x.chunk(ways, -1)]
        return self.added(self.moved(parts, x.dtype, "loss"), x.dtype)

    def of_losses(self, whole, parts, count):
        """In place of a loss the sum of parts, each over `count`; with the gradient of the whole."""
        with torch.no_grad():
            parts = [part / count if count > 1 else part for part in parts]
            value = (self.dithered(parts, "loss") if whole.dtype == torch.float32
                     else self.added(self.moved(parts, whole.dtype, "loss"), whole.dtype))
        return whole + (value - whole).detach()

    def sum_of_tokens(self, function, args, kwargs):
        """The sum or the mean of what has one number for each token: losses, as Megatron's."""
        x, words = args[0], self.run.words[0] if self.run.words else torch.empty(0)
        dealt = math.prod(self.mesh[axis] for axis in self.batch)
        if len(args) > 1 or kwargs or dealt == 1 or words.dim() != 2 or x.shape != words.shape or not x.requires_grad:
            return function(*args, **kwargs)
        with torch.no_grad():
            parts = [x.detach().reshape(-1)[share].sum() for share in self.of_tokens(x.numel(), x.dtype)]
        return self.of_losses(function(x), parts, x.numel() if function in (torch.mean, torch.Tensor.mean) else 1)

    def cross_entropy(self, args, kwargs):
        """By shares of the vocabulary and of tokens, where the layout deals these out."""
        function = torch.nn.functional.cross_entropy
        x, target = args[0], args[1] if len(args) > 1 else kwargs["target"]
        ways = self.words_dealt(x.shape[1]) if x.dim() == 2 else 1
        usual = {"weight": None, "size_average": None, "ignore_index": -100, "reduce": None, "label_smoothing": 0.0}
        reduction = kwargs.get("reduction", "mean")
        simple = len(args) <= 2 and not target.is_floating_point() and int(target.min()) >= 0 and all(
            usual.get(key, given) == given for key, given in kwargs.items())
        dealt = math.prod(self.mesh[axis] for axis in self.batch)
        if not simple or reduction == "none" and ways == 1 or ways == 1 and dealt == 1:
            return function(*args, **kwargs)
        if ways == 1:
            whole = function(x, target, **{"reduction": reduction})
            with torch.no_grad():
                parts = [function(x[share], target[share], reduction="sum") for share in self.of_tokens(len(target), x.dtype)]
            return self.of_losses(whole, parts, len(target) if reduction == "mean" else 1)
        kept = []

        def forward(x, _, __):
            y, hit = x.float(), torch.nn.functional.one_hot(target, x.shape[1]).float()
            top = y.max(-1, keepdim=True)[0]
            e = (y - top).exp()
            parts = [e[:, r * e.shape[1] // ways:(r + 1) * e.shape[1] // ways].sum(-1) for r in range(ways)]
            total = self.added(self.moved(parts, torch.float32, "loss"), torch.float32)
            kept.append(e / total[:, None] - hit)
            loss = total.log() + top[:, 0] - (hit * y).sum(-1)
            return (loss if reduction == "none" else loss.sum() if reduction == "sum" else loss.mean()).to(x.dtype)

        def backward(g, x, _, __, wanted):
            g = g / len(target) if reduction == "mean" else g
            return (kept[0] * (g[:, None] if reduction == "none" else g)).to(x.dtype), None, None

        return Site.apply(forward, backward, x, None, None)
