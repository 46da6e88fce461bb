"""Steps that are run once more: twins, with floats moved, or with other roundings where ranks add."""
import contextlib
import os
import re

import torch

from plumbline.capture.names import PERTURBED, numbered
from plumbline.capture.say import say
from plumbline.capture.state import State
from plumbline.capture.values import in_place_of, tensors_in, with_others
from plumbline.dither import dithering
from plumbline.twins.cuts import Cuts
from plumbline.twins.layout import layout_of
from plumbline.twins.moves import hash_of


class OtherRuns:
    """Of a run: `before` is the state before the step that was traced, `reference` what it took."""

    @contextlib.contextmanager
    def twin(self, number, layout):
        if self.dithers:
            with self._dithered(number):
                yield
            return
        if self.ranks != 1:
            raise RuntimeError("twins are runs of the reference, on one rank; this run has " + str(self.ranks))
        if not self.just_traced or self.before is None:
            raise RuntimeError("no step was traced that a twin could repeat: set PLUMB_TWINS to the candidate's trace, "
                               "and make twins right behind the step")
        after = State(self.model, self.optimizers)
        self.before.restore()
        self.following = True
        try:
            if number == PERTURBED:
                with self._perturbed(), self._taken():
                    yield
                return
            if number == 0:
                with self._taken():
                    yield
                turned, chosen = self.turned
                say(f"{turned} of {chosen} choices fall otherwise here than in the candidate: reference and twins follow it")
                self.reference = self.taken
                self._write(self.out, {"choices that follow the candidate": f"{turned} of {chosen}"})
                return
            layout = layout_of(layout)
            self.cutting = Cuts(layout, number, self)
            parts = {f"{module}/out" for module in layout.get("summands", [])}  # as in the candidate, not rewritten
            self.source = None if self.rewrite != "1" else (
                lambda name: None if re.sub(r"^m\d+/", "", name) in parts else self.reference.get(name))
            with self.cutting, self._taken():
                yield
            if self.asked_for_gradients:
                return number > 1 or say("no twins are written: the step calls torch.autograd.grad, and twins do not cut what "
                                         "follows from that; have the candidate judged by its own runs (PLUMB_DITHER)")
            uncut = self.cutting.not_cut()
            if uncut and uncut != self.uncut:
                say(f"twin {number} could not cut the sums of {', '.join(sorted(uncut))}: what differs there is not "
                    "judged by twins (where a layout deals the batch alone, weights in a module of their own are cut)")
            if self.cutting.batch != self.cutting.rows and not self.cutting.attentions:
                say(f"twin {number} cut no scaled_dot_product_attention: a healthy run may be accused for gradients of "
                    "keys and values, which ranks add")
            self.uncut = uncut
            for name in self.taken:  # what no twin moves, nobody judges
                if name in self.reference and any(self._about(name, module) for module in uncut):
                    self.taken[name] = self.reference[name]
            self._write(f"{self.out}-twin{number}", {"not cut": " ".join(sorted(uncut)), **self._of_rewriting()})
        finally:
            self.cutting, self.following, self.source = None, False, None
            after.restore()

    def _perturbs(self):
        """Is a perturbed run of the reference asked for?"""
        if os.environ.get("PLUMB_PERTURB", "0") in ("", "0"):
            return False
        if self.ranks != 1:
            say("PLUMB_PERTURB is for the reference, on one rank, and does nothing here")
        if self.rewrite not in ("", "0"):
            raise ValueError("PLUMB_PERTURB is of runs that are not rewritten; leave it or PLUMB_REWRITE out")
        return self.ranks == 1

    @contextlib.contextmanager
    def _perturbed(self):
        """The step once more, with the first floats moved: the outputs of modules that take whole numbers alone, and the
        floats that the model takes. Written behind what is made in it."""
        self.moved, self.again = [], None if self.followed else self.own_choices
        try:
            yield
            if not self.moved:
                return say("no perturbed run is written: the model takes no floats, and has no module that makes some of "
                           "whole numbers (an embedding) to move")
            self._write(f"{self.out}-{PERTURBED}", {"moved by an epsilon": " ".join(sorted(set(self.moved)))})
        finally:
            self.moved = self.again = None

    def _with_moved(self, name, x):
        """The same structure with each float moved by an epsilon of its type, up or down. Signs are those of the name and the
        place, so that a checkpoint makes the same again."""
        others = {}
        for each, of in numbered(name, tensors_in(x)):
            if of.is_floating_point() and of.numel():
                generator = torch.Generator().manual_seed(hash_of(f"{PERTURBED} {each}"))
                local = of.to_local() if hasattr(of, "to_local") else of
                sign = 2 * torch.randint(0, 2, local.shape, generator=generator).to(local.device) - 1
                value = (local.detach().double() * (1 + torch.finfo(of.dtype).eps * sign)).to(of.dtype)
                others[id(of)] = in_place_of(of, value)
                self.moved.append(each)
        return with_others(x, others) if others else x

    @contextlib.contextmanager
    def _dithered(self, number):
        """The step once more, with other roundings in what ranks add (plumbline/dither.py)."""
        after = State(self.model, self.optimizers)
        self.before.restore()
        self.again = self.own_choices  # a rounding may turn one, and what follows from it is no rounding
        try:
            with dithering(number) as dither, self._taken():
                yield
            if self.rank == 0 and number == 1:
                say(f"other roundings in {dither.sums} sums of short formats; {dither.left} in FP32 were left alone: what "
                    "these alone move is not judged")
                if dither.unread:
                    say(f"sums that are called in a way that is not read, and left alone as well: {sorted(dither.unread)}")
            for name in self._added_by_words():  # as if no twin moved it
                self.taken[name] = self.reference[name]
            self._write(f"{self.out}-twin{number}", {"twin of": "the candidate"})
        finally:
            self.again = None
            after.restore()

    def _added_by_words(self):
        """Gradients of embeddings that ranks share a batch for: kernels add words in the short format itself, so that other
        words in one sum round more than any wire."""
        names = [f"{self.names[p]}/grad" for module in self.model.modules() if isinstance(module, torch.nn.Embedding)
                 for p in module.parameters(recurse=False) if self.batch and p.dtype != torch.float32]
        return [name for name in names if name in self.taken and name in self.reference]

    def _about(self, name, uncut):
        return name.split("/", 1)[1].startswith(uncut) if re.match(r"m\d+/", name) else name.startswith(uncut)
