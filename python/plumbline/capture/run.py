"""A job whose steps are traced."""
import atexit
import contextlib
import json
import os
import re

import torch

from plumbline.capture.axes import BATCH_AXES, CONTEXT_AXES, EXPERT_AXES, STAGE_AXES, sizes_of
from plumbline.capture.choices import Choices, choices_of, micro_batches_of
from plumbline.capture.hooks import Hooks
from plumbline.capture.made_by import MadeBy
from plumbline.capture.names import EXPERT, micro_batches, numbers_in_the_whole, plain_name
from plumbline.capture.optimizers import Optimizers, taken_apart
from plumbline.capture.other_runs import OtherRuns
from plumbline.capture.patches import Patches
from plumbline.capture.placing import MEGATRON, Placing
from plumbline.capture.rewriting import Rewriting, Saved
from plumbline.capture.say import say
from plumbline.capture.state import State
from plumbline.capture.taking import Taking
from plumbline.capture.values import lacks_numbers, unwrapped
from plumbline.messages import recording
from plumbline.sketch import Sketch
from plumbline.write import replicate, write_whole


class Run(Choices, Hooks, MadeBy, Optimizers, OtherRuns, Patches, Placing, Rewriting, Taking):
    """What start() of plumbline.trace began."""

    def __init__(self, model, out, layout, places, steps, only, skip, average, limit, agree, zigzag):
        self.roots = list(model) if isinstance(model, (list, tuple)) else [model]  # stages of a pipeline on one rank
        self.model = model = torch.nn.ModuleList(self.roots) if isinstance(model, (list, tuple)) else model
        plain = plain_name if len(self.roots) == 1 and model is self.roots[0] else lambda name: plain_name(name.partition(".")[2])
        self.out, self.steps, self.average, self.limit = str(out), steps, average, limit
        self.only, self.skip = re.compile(only or ""), skip and re.compile(skip)
        spread = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.rank, self.ranks = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if spread else (0, 1)
        self.mesh = sizes_of(layout, self.ranks)
        self.megatron = any(hasattr(p, "tensor_model_parallel") for p in model.parameters())
        self.idle = {re.compile(match) for match in places}  # those that matched no tensor so far
        if self.megatron:
            places = {**places, **{match: says if "tp" in self.mesh else says.replace("[tp]", "")
                                   for match, says in MEGATRON.items()}}
        self.places = {re.compile(match): says for match, says in places.items()}
        self.batch = [axis for axis, size in self.mesh.items()
                      if axis.startswith(BATCH_AXES + CONTEXT_AXES + EXPERT_AXES) and size > 1]
        self.context, self.zigzag = [axis for axis in self.batch if axis.startswith(CONTEXT_AXES)], zigzag
        self.stages = [axis for axis in self.mesh if axis.startswith(STAGE_AXES)]
        self.experts = [axis for axis in self.batch if axis.startswith(EXPERT_AXES)] or [
            axis for axis in ("tp",) if axis in self.mesh and any(  # of Megatron: the ranks among which a layer is dealt
                EXPERT.search(name) and not getattr(p, "allreduce", True) for name, p in model.named_parameters())]
        self.at_axis, ranks = {}, 1  # this rank's place on each
        for axis, size in reversed(self.mesh.items()):
            self.at_axis[axis], ranks = self.rank // ranks % size, ranks * size
        self.stage = tuple(self.at_axis[axis] for axis in self.stages)
        self.agree = {"model": re.sub("^FSDP", "", type(unwrapped(self.roots[0])).__name__), **agree}
        place = 0
        for axis in self.experts:
            place = place * self.mesh[axis] + self.at_axis[axis]
        whole = numbers_in_the_whole(model, place, plain)
        self.names = {p: whole(plain(name)) for name, p in model.named_parameters()}
        self.named = {name: p for p, name in self.names.items()}
        self.modules = {whole(plain(name + ".")).rstrip("."): module for name, module in model.named_modules()}
        self.own = {name: [self.names[p] for p in module.parameters(recurse=False)]
                    for name, module in self.modules.items()}
        self.buffers = {id(x) for x in torch.nn.Module.buffers(model)}  # a view of one has its base
        self.buffers |= {id(x._base) for x in torch.nn.Module.buffers(model) if x._base is not None}
        self.at, self.written, self.taking, self.just_traced, self.cutting = 0, [], False, False, None
        self.handles, self.before, self.uncut, self.followed, self.following = [], None, set(), {}, False
        self.rewrite, self.source = os.environ.get("PLUMB_REWRITE", "0"), None
        if self.ranks > 1 and self.context and os.environ.get("PLUMB_DITHER", "0") not in ("", "0"):
            raise ValueError(f"PLUMB_DITHER is not for sequences that are dealt to ranks ({', '.join(self.context)}): attention "
                             "rounds otherwise there than any sum of ranks; give the reference PLUMB_TWINS instead")
        self.tiles, self.shares, self.untold, self.unwritable, self.told = self._sketch(), {}, set(), {}, set()
        self.own_choices, self.again = {}, None  # of the step that was traced; those to be made again
        if self.ranks == 1 and os.environ.get("PLUMB_DITHER", "0") not in ("", "0"):
            say("PLUMB_DITHER is for the run of many ranks, and does nothing here")
        self.dithers = self.ranks > 1 and os.environ.get("PLUMB_DITHER", "0") not in ("", "0")
        self.perturbs, self.moved = self._perturbs(), None  # while that run is made: what was moved
        self.too_large = False
        atexit.register(self.tell_what_is_missing)

    @contextlib.contextmanager
    def step(self, optimizer):
        self.at += 1
        self.just_traced = False
        if self.at not in self.steps:
            yield
            return
        self.steppers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer] * (optimizer is not None)
        self.optimizers, self.shares = taken_apart(self.steppers)
        if not all(isinstance(one, torch.optim.Optimizer) for one in self.optimizers):
            say("an optimizer is none of PyTorch's, and taken as it is: what it deals to ranks is known of Megatron's alone")
        self.optimizer_of = {p: one for one in reversed(self.optimizers) for group in one.param_groups
                             for p in group["params"]}
        self.lacks = {}
        self._look_for_mains()
        self.own_choices = {}
        candidate = os.environ.get("PLUMB_TWINS")
        self.before = None
        twins = candidate or self.dithers or self.perturbs
        if twins and any(map(lacks_numbers, self.names)):
            say("no twins are made: the model has weights without numbers before this step (lazy modules); call it once before")
        elif twins:
            self.before = State(self.model, self.optimizers)
            self.followed = choices_of(candidate, self.at) if self.ranks == 1 and candidate else {}
        rewritten = self.rewrite not in ("", "0", "1")
        if rewritten:
            self.source, self.following = Saved(self.rewrite, self.at), True
            self.followed = choices_of(self.rewrite, self.at)
        with self._messages() as messages, self._taken():
            yield
        self.just_traced = True
        theirs, own = micro_batches_of(candidate, self.at) if candidate and self.ranks == 1 else 0, micro_batches(self.taken)
        if own and theirs and own != theirs:
            say(f"step {self.at} has {own} micro-batches here and {theirs} in the candidate: tensors of these cannot be compared; "
                "run both with equally many")
        if self.unfounded:
            say(f"{self.unfounded} of {self.turned[1]} choices that this run would follow do not follow from the scores "
                "traced beside them: it keeps its own there, and what that comes to is judged")
        self._write(self.out, self._of_rewriting() if rewritten else {})
        if messages is not None:
            messages.write(self.out, self.at, self.rank)
        if self.taken and not any(at for axis, at in self.at_axis.items() if axis not in self.stages + self.experts):
            file = "layout.json" if self.rank == 0 else f"layout-{self.rank}.json"  # of each stage's weights and experts
            write_whole(os.path.join(self.out, file), json.dumps(self.lies, indent=1).encode())
        self.reference = self.taken if self.before else None

    def _sketch(self):
        """Tensors in tiles, where the environment asks for them."""
        asked = os.environ.get("PLUMB_SKETCH", "0")
        if asked in ("", "0"):
            return None
        if self.rewrite not in ("", "0"):
            raise ValueError("PLUMB_SKETCH leaves no tensors to rewrite; leave it or PLUMB_REWRITE out")
        tiles = Sketch(asked)
        self.agree["sketch"] = str(tiles)
        return tiles

    def _messages(self):
        """What this rank sends and gets, where the environment asks for it."""
        if self.ranks == 1 or os.environ.get("PLUMB_MESSAGES", "0") in ("", "0"):
            return contextlib.nullcontext()
        return recording()

    @contextlib.contextmanager
    def _taken(self):
        self.taken, self.bytes, self.order, self.micro, self.calls, self.open = {}, 0, 0, -1, {}, {}
        self.of_ids, self.of_all, self.dealt, self.words, self.takers, self.shared = set(), set(), set(), [], {}, []
        self.lies = {"mesh": self.mesh, "batch": self.batch, "context": self.context, "zigzag": self.zigzag,
                     "experts": self.experts, "alone": [], "weights": {}, "inputs": {}, "outputs": {}, "shared": [],
                     "summands": [],  # modules each rank of which hands on a part of a sum, and not as a DTensor
                     "tied": {name: self.names[p] for name, module in self.modules.items()  # by module, of another
                              for p in [dict(module.named_parameters(recurse=False)).get("weight")]
                              if p is not None and self.names[p] != f"{name}.weight"}}
        self.backward, self.root, self.taking, self.stepped, self.within = 0, None, True, [], []
        self.alike = [replicate(axis) for axis in self.batch if axis not in self.context]  # what each row of a batch has so
        self.turned, self.unfounded = [0, 0], 0  # choices that a followed run's scores lead to and that fell otherwise; others
        self.chosen, self.choosing, self.not_rewritten, self.clipped, self.clips_others = {}, False, set(), {}, False
        self.called = set()  # modules, of all micro-batches
        self.prints = {}  # of gradients that were taken, by which a clip within the optimizer's step is seen
        self.rounded = []  # weights that a script rounds to its model's, and what is said of these
        for p, name in self.names.items():
            self._take(name, p, "forward", role="given")
            if self._main(p) is not p:
                self._take(name + "/main/before", self._main(p), "forward", like=name, role="given", share=self.shares.get(p))
            for key, x in self._states(p):
                self._take(f"{name}/{key}/before", x, "forward", like=name, role="given", known=self._kept(p, name),
                           share=self.shares.get(p))
        undo = [self._patched_backward(), self._patched_grad(), self._patched_to_local(), *self._patched_topk(),
                *self._patched_trials(), *self._patched_clips(), *map(self._patched_optimizer, self.steppers)]
        self._hook()
        try:
            yield
            for optimizer in self.optimizers or [None]:
                if optimizer not in self.stepped:
                    self._gradients(optimizer)
                    self._after(optimizer)
            self._after_the_step()
        finally:
            groups = self.shared + [names for _, names in self.takers.values() if len(names) > 1]
            self.lies["shared"] = [names for n, names in enumerate(groups) if names not in groups[:n]]
            self.taking, self.takers = False, {}
            self.stop()
            for one in undo:
                one()

    def stop(self):
        for handle in self.handles:
            handle.remove()
        self.handles = []

    def tell_what_is_missing(self):
        """At the end: what was asked for and did not happen, so that nobody judges what an earlier run left there."""
        if self.rank != 0 or self.too_large:  # which is said already
            return
        traced = {step for folder, steps in self.written if folder == self.out for step in steps}
        never = sorted(step for step in self.steps if step not in traced)
        if never:
            ran = (f"{self.at} ran within plumb.step()" if self.at < never[-1] else "only and skip leave nothing of it"
                   if self.only.pattern or self.skip else "it did not end")
            old = f", and {self.out} holds what an earlier run left there" if not traced and os.path.exists(self.out) else ""
            say(f"step {never[-1]} was to be traced and was not: {ran}{old}")
        elif self.idle and self.ranks > 1:
            say("places of start() match no tensor that was taken: " + ", ".join(sorted(match.pattern for match in self.idle)))
