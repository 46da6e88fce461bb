"""Hooks of modules. None returns anything, so none changes what it sees, but where a run is rewritten or moved."""
import contextlib
import re
import weakref

import torch

from plumbline.capture.names import LOCAL_EXPERTS, numbered
from plumbline.capture.say import say
from plumbline.capture.values import (
    count_on, is_of_batch, is_of_positions, lacks_numbers, tensors_in, unwrapped, with_others)
from plumbline.write import partial


def hooked(register, hook):
    try:
        return register(hook, with_kwargs=True)
    except TypeError:  # older than PyTorch 2.0, which shows no hook what goes by name
        def by_place(module, args, *out):
            said = hook(module, args, {}, *out)
            return said if out or said is None else said[0]  # before a module, what it is to take in place of both
        return register(by_place)


class Hooks:
    """Of a run: `within` are the modules that compute now; `open` calls whose gradients go through what is made again."""

    def _here(self, name):
        call = self.calls.get(name, 1)
        return f"m{max(self.micro, 0)}/{name}" + (f"@{call}" if call > 1 else "")

    def _hook(self):
        calls = {}

        def begins(module, args, kwargs):
            if not self.backward and self.taking:
                self.micro = calls[module] = calls.get(module, -1) + 1
                self.calls = {}
                whole = [x for x in tensors_in([args, kwargs]) if not x.is_floating_point() and not lacks_numbers(x)]
                self.words = [x for x in whole if x.numel() and x.dim() == whole[0].dim() and x.shape[:1] == whole[0].shape[:1]]
                first = module is unwrapped(self.roots[0]) and not any(self.stage)
                for name, x in numbered("input", tensors_in([args, kwargs]) if first else []):
                    self._take(f"m{max(self.micro, 0)}/{name}", x, "forward", role="given")
                if self.moved is not None and module is unwrapped(self.roots[0]):
                    return self._with_moved("input", args), self._with_moved("input by name", kwargs)
            return None

        scripted = {name for name, module in self.modules.items() if isinstance(module, torch.jit.ScriptModule)}
        if scripted - self.told:
            say(f"what {len(scripted)} scripted modules take and give is not taken, first {min(scripted)}: they have no hooks")
            self.told |= scripted
        fused = {name for name in self.modules if self._of_fused_experts(name)}
        if fused - self.told:
            say(f"what {len(fused)} modules within fused experts take and give is not taken, first {min(fused)}: rows lie there "
                "in an order of each rank's own")
            self.told |= fused
        self.handles = [hooked(root.register_forward_pre_hook, begins) for root in map(unwrapped, self.roots)
                        if not isinstance(root, torch.jit.ScriptModule)]
        for name, module in self.modules.items():
            of_some = any(child.endswith(LOCAL_EXPERTS) for child, _ in module.named_children())  # of a rank's experts
            if name and name not in scripted | fused and not of_some and not self._of_stages(name):
                leaf = next(module.children(), None) is None
                self.handles.append(hooked(module.register_forward_pre_hook, self._entering(name, leaf)))
                self.handles.append(hooked(module.register_forward_hook, self._leaving(name, module, leaf)))

    def _of_stages(self, name):
        """Is it a module whose layers lie on several stages, and is this not the last, whose output is the module's?"""
        last = tuple(self.mesh[axis] - 1 for axis in self.stages)
        layer = re.compile(re.escape(name) + r"\.(.*\.)?\d+$")
        return self.stage != last and not re.search(r"(^|\.)\d+(\.|$)", name) and any(map(layer.match, self.modules))

    def _of_fused_experts(self, name):
        """Is it within experts whose weights are one tensor (transformers 5)? There rows lie expert by expert, those of each
        rank in an order of their own, so that nobody can compare them; weights, gradients and what experts return are."""
        above, fused, _ = name.rpartition("experts.")
        held = self.modules.get(above + "experts") if fused else None
        return held is not None and any(p.dim() == 3 for p in held.parameters(recurse=False))

    def _entering(self, name, leaf):
        def hook(module, args, kwargs):
            if not self.taking:
                return
            given = self._given(name, args, kwargs)
            self.within.append([name, 0])
            if self.backward:  # a forward pass in a backward pass makes again what was thrown away
                if leaf and self.cutting:
                    self.cutting.again(True)
                return
            self.calls[name] = self.calls.get(name, 0) + 1
            self.called.add(name)
            if any(not x.is_floating_point() for x in given[:1]):
                self.of_ids.add(name)  # an embedding, whatever it is called
                if self.words and not lacks_numbers(given[0]) and not any(
                        is_of_batch(given[0], words, self.buffers) for words in self.words):
                    self.of_all.add(name)  # positions, as each rank has them
            if leaf and given:
                self._gathered(name, given[0])
            if leaf:
                for each, x in numbered(self._here(name) + "/in", given):
                    self._take(each, x, "forward", of=name, known=self.alike if count_on(x, self.buffers) else None)
        return hook

    def _leaving(self, name, module, leaf):
        turned = leaf and getattr(module, "reduce_scatter_embeddings", False)  # Megatron's, from (b, s, h) to (s, b, h)

        def hook(_, args, kwargs, out):
            if not self.taking:
                return
            given = self._given(name, args, kwargs)
            if self.moved is not None and leaf and given and not any(x.is_floating_point() for x in given):
                out = self._with_moved(name, out)
            outs = tensors_in(out)
            while self.within and self.within.pop()[0] != name:
                pass  # of a module inside that ended with an exception
            if self.backward:
                if leaf and self.cutting:
                    self.cutting.again(False)
                for here in self.open.get(name, [])[:1]:  # whose gradient goes through what is made again
                    self.open[name].pop(0)
                    self._gradients_of(here, outs, name, turned)
                return out if self.moved is not None else None
            here = self._here(name)
            known = [self._known(x) for x in given] if leaf else [None]
            made_from = None if None in known else known + (
                self.own[name] or [of for module, of in self.lies["tied"].items() if module == name])
            for each, x in numbered(here + "/out", outs):
                self._inherit(x, given)
                if name in self.of_all:
                    x._plumb_of_all = each
                elif hasattr(x._base, "_plumb_of_all") or leaf and not self.own[name] and is_of_positions(x, given, self.buffers):
                    x._plumb_lies = self.alike
                self._take(each, x, "forward", of=name, made_from=made_from, turned=turned,
                           made_by=self._made_by(name, module, here, given, outs) if leaf else None)
            if self.source is not None:
                out = with_others(out, {id(x): self._of_reference(each, x, turned) for each, x in numbered(here + "/out", outs)})
                outs = tensors_in(out)
            for each, x in numbered(here + "/out", outs):
                with contextlib.suppress(AttributeError, RuntimeError):
                    x._plumb_made = each, x._version
            if any(x.requires_grad for x in outs):
                self._gradients_of(here, outs, name, turned)
            elif not torch.is_grad_enabled():
                self.open.setdefault(name, []).append(here)
            return None if self.source is None and self.moved is None else out
        return hook

    def _gathered(self, name, x):
        """Modules that take one tensor, which is no module's output: what made it (a gather) adds up their gradients on
        each rank, before ranks add theirs."""
        if self._known(x) is None and f"{name}.weight" in self.named and self.named[f"{name}.weight"].dim() == 2:
            if self.takers.get(id(x), (lambda: None,))[0]() is not x:  # another, where that one lay
                self.shared += [names for _, names in [self.takers.pop(id(x), (None, []))] if len(names) > 1]
                self.takers[id(x)] = weakref.ref(x), []
            self.takers[id(x)][1].append(name)

    def _given(self, name, args, kwargs):
        """What a module is given, but for weights, of others."""
        out = []
        for x in tensors_in([args, kwargs]):
            if x in self.names:
                self.lies["tied"][name] = self.names[x]
            else:
                out.append(x)
        return out

    def _inherit(self, x, given):
        """What is as large as what it was made from lies as that does, where nobody says more."""
        if hasattr(x, "_plumb_lies") or hasattr(x, "placements") or any(map(lacks_numbers, [x, *given])):
            return
        for other in given:
            if other.shape == x.shape and getattr(other, "_plumb_lies", self.alike) is not self.alike:
                x._plumb_lies = other._plumb_lies
                return

    def _gradients_of(self, here, outs, name, turned=False):
        for each, x in numbered(here + "/grad_out", outs):
            if x.requires_grad and not lacks_numbers(x):
                lies, micro = getattr(x, "_plumb_lies", None), self.micro
                if lies is self.alike:
                    lies = [partial(p["axis"]) for p in lies]

                def arrives(g, each=each, lies=lies, micro=micro):
                    self._loss(micro)
                    self._take(each, g, "backward", of=name, known=lies, turned=turned)
                    part = self.cutting and self.cutting.batch and name in self.of_all  # a part of a sum in the candidate
                    return None if self.source is None or part else self._of_reference(each, g, turned, grad=True)
                if x.grad_fn is None or hasattr(x.grad_fn, "register_prehook"):
                    x.register_hook(arrives)
                else:  # older than PyTorch 2.0, where what changes a tensor in place takes along its hooks (of a view, these)
                    x.grad_fn.register_hook(lambda _, gs, n=x.output_nr, arrives=arrives: arrives(gs[n]))

    def _known(self, x):
        made = getattr(x, "_plumb_made", None)
        if made is not None and made[1] == x._version and made[0] in self.taken:
            return made[0]
        return None

    def value(self, name, x):
        if not self.backward:
            here = f"m{max(self.micro, 0)}/{name}"
            self._take(here, x, "forward")
            if x.requires_grad:
                self._gradients_of(here, [x], None)

    def _loss(self, micro):
        """What backward was called on is the loss of the micro-batch whose gradients come first."""
        name, x, self.root = f"m{max(micro, 0)}/loss", self.root, None
        if x is not None and name not in self.taken:
            self._take(name, x, "forward", loss=True)
