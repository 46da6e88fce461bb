"""Traces for `plumb check`. One file, the standard library alone (and PyTorch, where a program of PyTorch is traced):
copy it where you need it.

Of a program of PyTorch, by hooks, with twins (docs/pytorch.md):

    plumb.start(model, layout=mesh)
    with plumb.step(optimizer):
        loss = train_step(...)
    for k in plumb.twins():
        with plumb.twin(k):
            train_step(...)

Of any other, by hand (docs/trace-format.md):

    write_manifest("run", producer="my-trainer", ranks=2, steps=[1], mesh={"dp": 1, "tp": 2}, must_agree={"model": "x"})
    write_rank("run", step=1, rank=0, tensors={"layers.0/out": stored("F32", [2, 8], values, shape=[4, 8],
        placements=[shard("tp", 0), replicate("dp")], order=3)})

A value is bytes in the order of rows (little-endian), or a list of numbers for F32, F64 and whole numbers. What is
said beside it becomes fields of the format: id, shape, format, role, order, phase, micro_batch, from_, made_by,
placements, dims, partition_spec, offsets, part, parts.
"""
import atexit
import contextlib
import copy
import ctypes
import errno
import functools
import gc
import itertools
import json
import math
import os
import re
import struct
import sys
import weakref

WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "I16": 2,
          "I32": 4, "I64": 8, "U8": 1, "U16": 2, "U32": 4, "U64": 8, "BOOL": 1}
CODES = {"F64": "d", "F32": "f", "I8": "b", "I16": "h", "I32": "i", "I64": "q", "U8": "B", "U16": "H", "U32": "I",
         "U64": "Q", "BOOL": "?"}


def shard(axis, dim, **how):  # how: stride, groups, sizes, zigzag, padded
    return {"axis": axis, "kind": "shard", "dim": dim, **how}


def replicate(axis):
    return {"axis": axis, "kind": "replicate"}


def partial(axis):
    return {"axis": axis, "kind": "partial"}


def stored(dtype, held, values, **says):
    """`held`: the shape of what this rank has; `shape`, among what is said, that of the whole."""
    if not isinstance(values, (bytes, bytearray, memoryview)):
        values = list(values)
        values = struct.pack(f"<{len(values)}{CODES[dtype]}", *values)
    if len(values) != math.prod(held) * WIDTHS[dtype]:
        raise ValueError(f"{len(values)} bytes are no {dtype} of shape {list(held)}")
    return dtype, list(held), bytes(values), {name.rstrip("_"): value for name, value in says.items()}


def write_manifest(folder, *, producer, ranks, steps, must_agree, may_differ=None, mesh=None, version=None,
                   libraries=None, sampled=None):
    """Writes the manifest: by one process, before or after the ranks write."""
    _make(folder)
    manifest = {"schema": "plumb-trace/2", "producer": {"name": producer}, "ranks": ranks, "steps": list(steps),
                "must_agree": must_agree}
    for name, value in (("version", version), ("libraries", libraries)):
        if value is not None:
            manifest["producer"][name] = value
    if mesh is not None:
        manifest["mesh"] = [{"axis": axis, "size": size} for axis, size in mesh.items()]
    for name, value in (("may_differ", may_differ), ("sampled", sampled)):
        if value is not None:
            manifest[name] = value
    _write(os.path.join(folder, "manifest.json"), json.dumps(manifest, indent=1).encode() + b"\n")


def write_rank(folder, step, rank, tensors):
    """Writes the file of one rank: by that rank, without a word to the others."""
    write_tensors(folder, step, f"rank_{rank:05d}.safetensors", tensors,
                  {name: json.dumps(says) for name, (_, _, _, says) in tensors.items()})


def write_tensors(folder, step, file, tensors, texts):
    header, data, at = {"__metadata__": texts}, [], 0
    for name, (dtype, held, raw, _) in sorted(tensors.items(), key=lambda item: -WIDTHS[item[1][0]]):
        header[name] = {"dtype": dtype, "shape": held, "data_offsets": [at, at + len(raw)]}
        data.append(raw)  # the widest first, so that each begins at a multiple of its width
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)  # so that numbers begin where lines of a cache do
    where = os.path.join(folder, f"step_{step:06d}")
    _make(where)
    _write(os.path.join(where, file), struct.pack("<Q", len(text)), text, *data)


def _write(file, *content):  # whole, or not at all, whatever crashes; once it returns, whole
    with open(file + ".partial", "wb") as out:
        out.writelines(content)
        out.flush()
        os.fsync(out.fileno())
    os.replace(file + ".partial", file)
    _sync_names(os.path.dirname(file))


def _make(folder):
    folder = os.path.abspath(folder)
    if not os.path.isdir(folder):
        _make(os.path.dirname(folder))
        os.makedirs(folder, exist_ok=True)
        _sync_names(os.path.dirname(folder))


def _sync_names(folder):
    if os.name != "posix":
        return  # there folders cannot be opened
    names = os.open(folder or ".", os.O_RDONLY)
    try:
        os.fsync(names)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that syncs no folders
            raise
    finally:
        os.close(names)


# Capture: what a PyTorch program calls. Nothing above needs PyTorch; it is imported by start().

torch = None
_run = None  # what start() began, where the environment asks for it
WRAPPERS = ("module.", "_orig_mod.", "_checkpoint_wrapped_module.", "_fsdp_wrapped_module.")
BATCH_AXES = ("dp", "data", "fsdp", "hsdp", "replicate")  # axes over which a batch is dealt, by how names begin
CONTEXT_AXES = ("cp", "context")  # axes over which sequences are dealt all through the model, by how names begin
EXPERT_AXES = ("ep", "expert")  # axes over which a batch is dealt, and experts: each rank has some, for the words of all
EXPERT = re.compile(r"experts\.\d+(\.|/|$)")  # in the name of what is one expert's
LOCAL_EXPERTS = ("local_experts", "deepspeed_experts")  # lists of a rank's own, which count from 0
STAGE_AXES = ("pp", "pipe", "stage")  # axes whose ranks each have layers of their own, by how names begin
MEGATRON = {  # what is dealt by heads, by its name in Megatron's core: no weight or attribute says it
    r"\.core_attention/(out|grad_out)$": "s b h[tp]", r"\.[qk]_layernorm/(in|out|grad_out)$": "s b n[tp] d",
    r"\.core_attention\.\w+/(in|out|grad_out)$": "b n[tp] q k"}
LETTERS = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
           "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
           "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "bool": "BOOL"}
FORMATS = {"F16": "fp16", "BF16": "bf16", "F8_E4M3": "e4m3fn", "F8_E5M2": "e5m2"}  # of which tiles in F32 are
PERTURBED = "perturbed"  # in place of a twin's number


def start(model, out="trace", layout=None, places=None, *, steps=(1,), only=None, skip=None, average=True, limit=16,
          agree=None, zigzag=False):
    """Traces `steps` of `model` to the folder `out`, if the environment has PLUMB_TRACE: 1, or another folder.

    layout: a DeviceMesh, or the size of each axis by name, the last of which changes fastest with the rank. Where the
    model has DTensors they say how they lie; what is none is dealt in its first dimension over the axes of a batch (dp,
    data, fsdp ...), in its second over those of a context (cp, context), and whole on others. zigzag: each rank's part of a
    sequence is a chunk from the front and one from the back. places: how else, by expressions that an id has to match:
    {r"fc1\\.weight": "o[tp] i"}, or None where each rank has its own. Dimensions called b and s are those of the batch
    and of sequences.
    average: gradients are averages over the ranks that share a batch (DDP, FSDP).
    PLUMB_REWRITE: a reference's trace, whose tensors all modules hand on; or 1, for twins in which they do so.
    PLUMB_SKETCH: 16x16 for one number of each tile of so many rows and columns (plumbline/sketch.py).
    PLUMB_MESSAGES: 1 to record collectives, too (plumbline/messages.py). PLUMB_DITHER: 1 for twins of this job itself.
    PLUMB_PERTURB: 1 for the reference once more with its first floats moved, of TTrace's rule (`check --perturbed`).
    only, skip: expressions for ids. limit: GB of a rank and step, beyond which nothing is written. agree: texts by name
    that both runs must have alike.
    """
    global torch, _run
    asked = os.environ.get("PLUMB_TRACE", "0")
    if _run is not None:
        _run.stop()
        _run.tell_what_is_missing()
        atexit.unregister(_run.tell_what_is_missing)
        _run = None
    if asked in ("", "0"):
        return
    import torch

    _run = _Run(model, out if asked == "1" else asked, layout, places or {}, set(steps), only, skip, average,
                limit * 1e9, agree or {}, zigzag)


def step(optimizer=None):
    """Of one training step, by one optimizer or a list of several. What is taken is written when the block ends."""
    return contextlib.nullcontext() if _run is None else _run.step(optimizer)


def tensor(name, x, dims=None):
    """Takes a tensor that no module returns, and its gradient. `dims`, as "b s[cp] h[tp]": how it lies."""
    if _run is not None and _run.taking:
        if dims is not None:
            _run.places[re.compile("^" + re.escape(name) + "(/grad_out)?$")] = dims
        _run.value(name, x)
    return x


def gradients():
    """To be called where gradients are complete, before your own code clips them or changes them otherwise. (Where
    torch.nn.utils.clip_grad_norm_ and clip_grad_value_ do, they are taken by themselves.)"""
    if _run is not None and _run.taking:
        _run.before_clip(_run.names)


def twins(count=4):
    """Numbers of the twins to make behind a step that was traced, where PLUMB_TWINS names the candidate's trace. Where a
    choice fell otherwise than there (a router's) 0 comes first: the reference once more, which chooses as the candidate.
    Of a candidate these are runs of its own with other roundings, where the environment has PLUMB_DITHER=1. With
    PLUMB_PERTURB=1 "perturbed" is last: the reference with its first floats moved.
    """
    if _run is None or not _run.just_traced or _run.before is None:
        return []
    asked = os.environ.get("PLUMB_TWINS") or _run.dithers
    return [*range(0 if _run.turned[0] else 1, count + 1 if asked else 0), *[PERTURBED] * _run.perturbs]


def twin(number, layout=None):
    """In this block the step that was traced last runs once more, with the sums that `layout` splits cut in parts.

    layout: a candidate's trace, or an object as its layout.json has. Without: what PLUMB_TWINS names. Weights,
    optimizer, gradients and random numbers are those before the step, and behind the block those after it.
    """
    return contextlib.nullcontext() if _run is None else _run.twin(number, layout or os.environ.get("PLUMB_TWINS"))


def _say(text):
    print("plumb: " + text, file=sys.stderr, flush=True)


def _plain(name):
    for wrapper in WRAPPERS:
        name = name.replace("." + wrapper, ".")
        while name.startswith(wrapper):
            name = name[len(wrapper):]
    return name


def _numbers_in_the_whole(model, place, plain=_plain):
    """Layers that a stage of a pipeline counts from 0 are called by their number in the whole model, where they say it
    (Megatron's layer_number, from 1); experts that each rank counts from 0, by the rank's place among all that have some.
    """
    layers, experts = {}, {}
    for name, module in model.named_modules():
        name = plain(name + ".")
        above, _, number = name[:-1].rpartition(".")
        if number.isdigit() and isinstance(getattr(module, "layer_number", None), int):
            layers[name] = f"{above}.{module.layer_number - 1}."
        if place and name[:-1].endswith(LOCAL_EXPERTS):
            experts.update({f"{name}{n}.": f"{name}{n + place * len(module)}." for n in range(len(module))})

    def whole(name):
        for numbers in experts, layers:
            own = next((own for own in numbers if name.startswith(own)), None)
            name = name if own is None else numbers[own] + name[len(own):]
        return name
    return whole


def _tensors_in(x):
    """Every tensor of what a module takes or returns."""
    if isinstance(x, torch.Tensor):
        return [x]
    if isinstance(x, dict):
        x = x.values()
    elif not isinstance(x, (tuple, list)):
        fields = getattr(x, "__dataclass_fields__", None)  # with slots it has no __dict__
        x = () if fields is None else [getattr(x, name, None) for name in {**fields, **getattr(x, "__dict__", {})}]
    return [t for each in x for t in _tensors_in(each)]


def _with(x, others):
    """The same structure with other tensors."""
    if isinstance(x, torch.Tensor):
        return others.get(id(x), x)
    if isinstance(x, dict):
        new = copy.copy(x)
        for key, each in x.items():
            new[key] = _with(each, others)
        return new
    if isinstance(x, (tuple, list)):
        new = [_with(each, others) for each in x]
        return type(x)(*new) if hasattr(x, "_fields") else type(x)(new)
    return x


def _of_batch(numbers, words):
    """Do these lie as the batch's words, or as many rows, and are no positions or pairs of them?"""
    return not _count_on(numbers) and (
        numbers.numel() == words.numel() or numbers.dim() == 1 and numbers.numel() % words.numel() == 0
        or min(numbers.dim(), words.dim()) > 1 and len(numbers) == len(words))


def _count_on(x):
    """Positions that nobody made of a batch, even where that has a single sequence: one number behind the other, in one
    dimension or as a view of that, or of a buffer. (What a model counts for each sequence by itself is a tensor of its own.)"""
    of = x if x._base is None else x._base
    if x.is_floating_point() or _lacks_numbers(x) or x.dim() == 0 or x.shape[-1] < 2 or x.numel() != x.shape[-1]:
        return False
    return (of.shape == x.shape[-1:] or id(of) in _run.buffers) and bool((x.reshape(-1).diff() == 1).all())


def _is_of_positions(x, given):
    """Is this made of positions alone, and not of what else a module takes (for its type), as sines are?"""
    if any(map(_lacks_numbers, [x, *given])) or not any(map(_count_on, given)):
        return False
    of_others = x.requires_grad or not torch.is_grad_enabled() or any(x.shape == y.shape for y in given if y.is_floating_point())
    return x.is_floating_point() and not of_others


def _lacks_numbers(x):
    """Why those of a tensor cannot be taken, if so."""
    wrapped = getattr(getattr(torch._C, "_functorch", None), "is_functorch_wrapped_tensor", lambda x: False)
    if isinstance(x, getattr(torch.nn.parameter, "UninitializedTensorMixin", ())):
        return "a lazy module's has no numbers before its first call"
    if x.is_nested:
        return "it is nested, and has no shape"
    return "within vmap, grad or jacrev it has no numbers of its own" if wrapped(x) else None


def _numbered(name, tensors):
    return [(name if n == 0 else f"{name}.{n}", t) for n, t in enumerate(tensors)]


class _Run:
    def __init__(self, model, out, layout, places, steps, only, skip, average, limit, agree, zigzag):
        self.roots = list(model) if isinstance(model, (list, tuple)) else [model]  # stages of a pipeline on one rank
        self.model = model = torch.nn.ModuleList(self.roots) if isinstance(model, (list, tuple)) else model
        plain = _plain if len(self.roots) == 1 and model is self.roots[0] else lambda name: _plain(name.partition(".")[2])
        self.out, self.steps, self.average, self.limit = str(out), steps, average, limit
        self.only, self.skip = re.compile(only or ""), skip and re.compile(skip)
        spread = torch.distributed.is_available() and torch.distributed.is_initialized()
        self.rank, self.ranks = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if spread else (0, 1)
        self.mesh = self._axes(layout)
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
        self.agree = {"model": re.sub("^FSDP", "", type(_unwrapped(self.roots[0])).__name__), **agree}
        place = 0
        for axis in self.experts:
            place = place * self.mesh[axis] + self.at_axis[axis]
        whole = _numbers_in_the_whole(model, place, plain)
        self.names = {p: whole(plain(name)) for name, p in model.named_parameters()}
        self.named = {name: p for p, name in self.names.items()}
        self.modules = {whole(plain(name + ".")).rstrip("."): module for name, module in model.named_modules()}
        self.own = {name: [self.names[p] for p in module.parameters(recurse=False)]
                    for name, module in self.modules.items()}
        self.buffers = {id(x) for x in torch.nn.Module.buffers(model)}
        self.at, self.written, self.taking, self.just_traced, self.cutting = 0, [], False, False, None
        self.handles, self.before, self.uncut, self.followed, self.following = [], None, set(), {}, False
        self.rewrite, self.source = os.environ.get("PLUMB_REWRITE", "0"), None
        if self.ranks > 1 and self.context and os.environ.get("PLUMB_DITHER", "0") not in ("", "0"):
            raise ValueError(f"PLUMB_DITHER is not for sequences that are dealt to ranks ({', '.join(self.context)}): attention "
                             "rounds otherwise there than any sum of ranks; give the reference PLUMB_TWINS instead")
        self.tiles, self.shares, self.untold, self.unwritable, self.told = self._sketch(), {}, set(), {}, set()
        self.own_choices, self.again = {}, None  # of the step that was traced; those to be made again
        if self.ranks == 1 and os.environ.get("PLUMB_DITHER", "0") not in ("", "0"):
            _say("PLUMB_DITHER is for the run of many ranks, and does nothing here")
        self.dithers = self.ranks > 1 and os.environ.get("PLUMB_DITHER", "0") not in ("", "0")
        self.perturbs, self.moved = self._perturbs(), None  # while that run is made: what was moved
        self.too_large = False
        atexit.register(self.tell_what_is_missing)

    def _axes(self, layout):
        if hasattr(layout, "mesh_dim_names"):
            sizes = layout.mesh.shape
            layout = dict(zip(layout.mesh_dim_names or [f"axis{n}" for n in range(len(sizes))], map(int, sizes)))
        mesh = dict(layout or {"rank": self.ranks})
        if math.prod(mesh.values()) != self.ranks:
            if self.ranks == 1:
                return {axis: 1 for axis in mesh}
            raise ValueError(f"the layout {mesh} has {math.prod(mesh.values())} ranks, the run {self.ranks}: "
                             "give start() the axes of all of them")
        return mesh

    # A step

    @contextlib.contextmanager
    def step(self, optimizer):
        self.at += 1
        self.just_traced = False
        if self.at not in self.steps:
            yield
            return
        self.steppers = list(optimizer) if isinstance(optimizer, (list, tuple)) else [optimizer] * (optimizer is not None)
        self.optimizers, self.shares = _taken_apart(self.steppers)
        if not all(isinstance(one, torch.optim.Optimizer) for one in self.optimizers):
            _say("an optimizer is none of PyTorch's, and taken as it is: what it deals to ranks is known of Megatron's alone, "
                 "and to the package plumbline, not to its trace.py alone")
        self.optimizer_of = {p: one for one in reversed(self.optimizers) for group in one.param_groups
                             for p in group["params"]}
        self.own_choices = {}
        candidate = os.environ.get("PLUMB_TWINS")
        self.before = None
        twins = candidate or self.dithers or self.perturbs
        if twins and any(map(_lacks_numbers, self.names)):
            _say("no twins are made: the model has weights without numbers before this step (lazy modules); call it once before")
        elif twins:
            self.before = _State(self.model, self.optimizers)
            self.followed = _choices_of(candidate, self.at) if self.ranks == 1 and candidate else {}
        rewritten = self.rewrite not in ("", "0", "1")
        if rewritten:
            self.source, self.following = _Saved(self.rewrite, self.at), True
            self.followed = _choices_of(self.rewrite, self.at)
        with self._messages() as messages, self._taken():
            yield
        self.just_traced = True
        theirs, own = _micro_batches_of(candidate, self.at) if candidate and self.ranks == 1 else 0, _micro_batches(self.taken)
        if own and theirs and own != theirs:
            _say(f"step {self.at} has {own} micro-batches here and {theirs} in the candidate: tensors of these cannot be compared; "
                 "run both with equally many")
        if self.unfounded:
            _say(f"{self.unfounded} of {self.turned[1]} choices that this run would follow do not follow from the scores "
                 "traced beside them: it keeps its own there, and what that comes to is judged")
        self._write(self.out, self._of_rewriting() if rewritten else {})
        if messages is not None:
            messages.write(self.out, self.at, self.rank)
        if self.taken and not any(at for axis, at in self.at_axis.items() if axis not in self.stages + self.experts):
            file = "layout.json" if self.rank == 0 else f"layout-{self.rank}.json"  # of each stage's weights and experts
            _write(os.path.join(self.out, file), json.dumps(self.lies, indent=1).encode())
        self.reference = self.taken if self.before else None

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
        after = _State(self.model, self.optimizers)
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
                _say(f"{turned} of {chosen} choices fall otherwise here than in the candidate: reference and twins follow it")
                self.reference = self.taken
                self._write(self.out, {"choices that follow the candidate": f"{turned} of {chosen}"})
                return
            layout = _layout_of(layout)
            self.cutting = _Cuts(layout, number, self)
            parts = {f"{module}/out" for module in layout.get("summands", [])}  # as in the candidate, not rewritten
            self.source = None if self.rewrite != "1" else (
                lambda name: None if re.sub(r"^m\d+/", "", name) in parts else self.reference.get(name))
            with self.cutting, self._taken():
                yield
            if self.asked_for_gradients:
                return number > 1 or _say("no twins are written: the step calls torch.autograd.grad, and twins do not cut what "
                                          "follows from that; have the candidate judged by its own runs (PLUMB_DITHER)")
            uncut = self.cutting.not_cut()
            if uncut and uncut != self.uncut:
                _say(f"twin {number} could not cut the sums of {', '.join(sorted(uncut))}: what differs there is not "
                     "judged by twins (where a layout deals the batch alone, weights in a module of their own are cut)")
            if self.cutting.batch != self.cutting.rows and not self.cutting.attentions:
                _say(f"twin {number} cut no scaled_dot_product_attention: a healthy run may be accused for gradients of "
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
            _say("PLUMB_PERTURB is for the reference, on one rank, and does nothing here")
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
                return _say("no perturbed run is written: the model takes no floats, and has no module that makes some of "
                            "whole numbers (an embedding) to move")
            self._write(f"{self.out}-{PERTURBED}", {"moved by an epsilon": " ".join(sorted(set(self.moved)))})
        finally:
            self.moved = self.again = None

    def _with_moved(self, name, x):
        """The same structure with each float moved by an epsilon of its type, up or down. Signs are those of the name and the
        place, so that a checkpoint makes the same again."""
        others = {}
        for each, of in _numbered(name, _tensors_in(x)):
            if of.is_floating_point() and of.numel():
                generator = torch.Generator().manual_seed(_hash(f"{PERTURBED} {each}"))
                local = of.to_local() if hasattr(of, "to_local") else of
                sign = 2 * torch.randint(0, 2, local.shape, generator=generator).to(local.device) - 1
                value = (local.detach().double() * (1 + torch.finfo(of.dtype).eps * sign)).to(of.dtype)
                others[id(of)] = _in_place_of(of, value)
                self.moved.append(each)
        return _with(x, others) if others else x

    @contextlib.contextmanager
    def _dithered(self, number):
        """The step once more, with other roundings in what ranks add (plumbline/dither.py)."""
        try:
            from plumbline.dither import dithering
        except ImportError:
            raise RuntimeError("PLUMB_DITHER needs the package plumbline, and not its trace.py alone") from None
        after = _State(self.model, self.optimizers)
        self.before.restore()
        self.again = self.own_choices  # a rounding may turn one, and what follows from it is no rounding
        try:
            with dithering(number) as dither, self._taken():
                yield
            if self.rank == 0 and number == 1:
                _say(f"other roundings in {dither.sums} sums of short formats; {dither.left} in FP32 were left alone: what "
                     "these alone move is not judged")
                if dither.unread:
                    _say(f"sums that are called in a way that is not read, and left alone as well: {sorted(dither.unread)}")
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

    def _sketch(self):
        """Tensors in tiles, where the environment asks for them."""
        asked = os.environ.get("PLUMB_SKETCH", "0")
        if asked in ("", "0"):
            return None
        try:
            from plumbline.sketch import Sketch
        except ImportError:
            raise RuntimeError("PLUMB_SKETCH needs the package plumbline, and not its trace.py alone") from None
        if self.rewrite not in ("", "0"):
            raise ValueError("PLUMB_SKETCH leaves no tensors to rewrite; leave it or PLUMB_REWRITE out")
        tiles = Sketch(asked)
        self.agree["sketch"] = str(tiles)
        return tiles

    def _messages(self):
        """What this rank sends and gets, where the environment asks for it."""
        if self.ranks == 1 or os.environ.get("PLUMB_MESSAGES", "0") in ("", "0"):
            return contextlib.nullcontext()
        try:
            from plumbline.messages import recording
        except ImportError:
            raise RuntimeError("PLUMB_MESSAGES needs the package plumbline, and not its trace.py alone") from None
        return recording()

    def _about(self, name, uncut):
        return name.split("/", 1)[1].startswith(uncut) if re.match(r"m\d+/", name) else name.startswith(uncut)

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
            _say(f"step {never[-1]} was to be traced and was not: {ran}{old}")
        elif self.idle and self.ranks > 1:
            _say("places of start() match no tensor that was taken: " + ", ".join(sorted(match.pattern for match in self.idle)))

    def _patched_backward(self):
        whole = torch.autograd.backward

        def backward(tensors, *args, **kwargs):
            roots = _tensors_in(tensors)
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

    def _patched_topk(self):
        """Choices, as a router's. A last bit of a score may turn one, and what follows from it is no rounding: where the
        candidate's trace is there already, reference and twins choose as it did, and what is judged are the scores."""
        undo = []
        for kind in torch, torch.Tensor:
            def topk(*args, whole=kind.topk, **kwargs):
                if self.choosing:  # a mode, as that of twins, calls a method by its name, and so comes here again
                    return whole(*args, **kwargs)
                x, dim = args[0] if args else kwargs["input"], args[2] if len(args) > 2 else kwargs.get("dim", -1)
                more = {key: given for key, given in kwargs.items() if key not in ("input", "out")}
                self.choosing = True
                try:
                    return self._chosen(whole(*args, **kwargs), x, dim, lambda scores: whole(scores, *args[1:], **more))
                finally:
                    self.choosing = False

            undo.append(functools.partial(setattr, kind, "topk", kind.topk) if "topk" in vars(kind)
                        else functools.partial(delattr, kind, "topk"))
            kind.topk = topk
        return undo

    def _chosen(self, out, x, dim, choose):
        """What topk gave, or what it is to give in its place. `choose`: the same call of other scores."""
        if not self.taking or not self.within or not isinstance(out, tuple) or _lacks_numbers(x):
            return out
        name, n = self.within[-1]
        self.within[-1][1] += 1
        of, scores = (f"{self._here(name)}/{what}" + (f".{n}" if n else "") for what in ("choice", "scores"))
        made = self.chosen.setdefault(name, [])
        if self.backward:  # a checkpoint makes again what it made of the same scores
            of = next((of for of, known in made if known.shape == x.shape and torch.equal(known, x)), None)
        else:
            made.append((of, x.detach().clone()))
            self._take(scores, x, "forward", of=name)
        lies = self.taken[scores][2].get("placements") if scores in self.taken else None
        if of in self.followed:
            out = self._as_there(out, x, dim, choose, *(_share_of(held, lies or [], self.mesh, self.at_axis).to(x.device)
                                                        for held in self.followed[of]))
        if self.again is not None and of in self.again:
            out = type(out)((x.gather(dim, self.again[of]), self.again[of]))
        elif (self.dithers or self.perturbs and not self.following) and not self.backward:
            self.own_choices[of] = out[1].detach().clone()
        if not self.backward:
            self._take(of, out[1], "forward", of=name, known=lies)
        return out

    def _as_there(self, out, x, dim, choose, scores, chosen):
        """As the run that is followed chose, in rows where that follows from its scores."""
        own = out[1]
        if own.shape != chosen.shape or scores.shape != x.shape or not own.numel() or int(chosen.max()) >= x.shape[dim]:
            return out
        right = _is_choice(scores, chosen, dim, choose)
        if not self.backward:
            self.turned[0] += int(((own != chosen).any(dim) & right).sum())
            self.turned[1] += right.numel()
            self.unfounded += int((~right).sum())
        chosen = torch.where(right.unsqueeze(dim), chosen, own)
        return type(out)((x.gather(dim, chosen), chosen)) if self.following else out

    def _here(self, name):
        call = self.calls.get(name, 1)
        return f"m{max(self.micro, 0)}/{name}" + (f"@{call}" if call > 1 else "")

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
        own, whole, (within, _) = optimizer.__dict__.get("step"), optimizer.step, _taken_apart([optimizer])

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

    # Hooks. None returns anything, so none changes what it sees.

    def _hook(self):
        calls = {}

        def begins(module, args, kwargs):
            if not self.backward and self.taking:
                self.micro = calls[module] = calls.get(module, -1) + 1
                self.calls = {}
                whole = [x for x in _tensors_in([args, kwargs]) if not x.is_floating_point() and not _lacks_numbers(x)]
                self.words = [x for x in whole if x.numel() and x.dim() == whole[0].dim() and x.shape[:1] == whole[0].shape[:1]]
                first = module is _unwrapped(self.roots[0]) and not any(self.stage)
                for name, x in _numbered("input", _tensors_in([args, kwargs]) if first else []):
                    self._take(f"m{max(self.micro, 0)}/{name}", x, "forward", role="given")
                if self.moved is not None and module is _unwrapped(self.roots[0]):
                    return self._with_moved("input", args), self._with_moved("input by name", kwargs)
            return None

        scripted = {name for name, module in self.modules.items() if isinstance(module, torch.jit.ScriptModule)}
        if scripted - self.told:
            _say(f"what {len(scripted)} scripted modules take and give is not taken, first {min(scripted)}: they have no hooks")
            self.told |= scripted
        fused = {name for name in self.modules if self._of_fused_experts(name)}
        if fused - self.told:
            _say(f"what {len(fused)} modules within fused experts take and give is not taken, first {min(fused)}: rows lie there "
                 "in an order of each rank's own")
            self.told |= fused
        self.handles = [_hooked(root.register_forward_pre_hook, begins) for root in map(_unwrapped, self.roots)
                        if not isinstance(root, torch.jit.ScriptModule)]
        for name, module in self.modules.items():
            of_some = any(child.endswith(LOCAL_EXPERTS) for child, _ in module.named_children())  # of a rank's experts
            if name and name not in scripted | fused and not of_some and not self._of_stages(name):
                leaf = next(module.children(), None) is None
                self.handles.append(_hooked(module.register_forward_pre_hook, self._entering(name, leaf)))
                self.handles.append(_hooked(module.register_forward_hook, self._leaving(name, module, leaf)))

    def _of_stages(self, name):
        """Is it a module whose layers lie on several stages, and is this not the last, whose output is the module's?"""
        last = tuple(self.mesh[axis] - 1 for axis in self.stages)
        numbered = re.compile(re.escape(name) + r"\.(.*\.)?\d+$")
        return self.stage != last and not re.search(r"(^|\.)\d+(\.|$)", name) and any(map(numbered.match, self.modules))

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
            if any(not x.is_floating_point() for x in given[:1]):
                self.of_ids.add(name)  # an embedding, whatever it is called
                if self.words and not _lacks_numbers(given[0]) and not any(_of_batch(given[0], words) for words in self.words):
                    self.of_all.add(name)  # positions, as each rank has them
            if leaf and given:
                self._gathered(name, given[0])
            if leaf:
                for each, x in _numbered(self._here(name) + "/in", given):
                    self._take(each, x, "forward", of=name, known=self.alike if _count_on(x) else None)
        return hook

    def _leaving(self, name, module, leaf):
        turned = leaf and getattr(module, "reduce_scatter_embeddings", False)  # Megatron's, from (b, s, h) to (s, b, h)

        def hook(_, args, kwargs, out):
            if not self.taking:
                return
            given = self._given(name, args, kwargs)
            if self.moved is not None and leaf and given and not any(x.is_floating_point() for x in given):
                out = self._with_moved(name, out)
            outs = _tensors_in(out)
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
            for each, x in _numbered(here + "/out", outs):
                self._inherit(x, given)
                if name in self.of_all:
                    x._plumb_of_all = each
                elif hasattr(x._base, "_plumb_of_all") or leaf and not self.own[name] and _is_of_positions(x, given):
                    x._plumb_lies = self.alike
                self._take(each, x, "forward", of=name, made_from=made_from, turned=turned,
                           made_by=self._made_by(name, module, here, given, outs) if leaf else None)
            if self.source is not None:
                out = _with(out, {id(x): self._of_reference(each, x, turned) for each, x in _numbered(here + "/out", outs)})
                outs = _tensors_in(out)
            for each, x in _numbered(here + "/out", outs):
                with contextlib.suppress(AttributeError, RuntimeError):
                    x._plumb_made = each, x._version
            if any(x.requires_grad for x in outs):
                self._gradients_of(here, outs, name, turned)
            elif not torch.is_grad_enabled():
                self.open.setdefault(name, []).append(here)
            return None if self.source is None and self.moved is None else out
        return hook

    # Rewriting: each module hands on what the reference has, so that no error goes from one to the next

    def _of_reference(self, name, x, turned, grad=False):
        """This rank's share of what the reference has in place of a tensor, on the same way back."""
        if not x.is_floating_point():
            return x
        held = self.taken.get(name) and self.source(name)
        placements = held and self.taken[name][2].get("placements", [])
        if not held or any(p["kind"] == "partial" for p in placements) and not hasattr(x, "placements"):
            self.not_rewritten.add(name)
            return x
        with torch.no_grad():
            kind = sys.modules.get("torch.distributed.tensor") if hasattr(x, "placements") else None
            value = _share_of(held[1], placements, self.mesh, self.at_axis)
            value = (value.transpose(0, 1) if turned else value).to(x.device, x.dtype)
            if grad and self.average:  # this rank's loss is a mean over its own share
                value = value * math.prod(self.mesh[axis] for axis in self.batch)
            if kind is not None:
                lies = [kind.Replicate() if p.is_partial() else p for p in x.placements]
                value = kind.DTensor.from_local(value, x.device_mesh, lies, run_check=False)
            if value.shape != x.shape:
                self.not_rewritten.add(name)
                return x
        return value if grad else _in_place_of(x, value)

    def _of_rewriting(self):
        if self.source is None:
            return {}
        if self.not_rewritten:
            _say(f"{len(self.not_rewritten)} tensors were not rewritten, first {min(self.not_rewritten)}: the reference has "
                 "none of that shape, or each rank has a part of a sum")
        return {"rewrite": "by the reference"}

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
        for x in _tensors_in([args, kwargs]):
            if x in self.names:
                self.lies["tied"][name] = self.names[x]
            else:
                out.append(x)
        return out

    def _inherit(self, x, given):
        """What is as large as what it was made from lies as that does, where nobody says more."""
        if hasattr(x, "_plumb_lies") or hasattr(x, "placements") or any(map(_lacks_numbers, [x, *given])):
            return
        for other in given:
            if other.shape == x.shape and getattr(other, "_plumb_lies", self.alike) is not self.alike:
                x._plumb_lies = other._plumb_lies
                return

    def _gradients_of(self, here, outs, name, turned=False):
        for each, x in _numbered(here + "/grad_out", outs):
            if x.requires_grad and not _lacks_numbers(x):
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

    # Which operation of plumb's catalogue a tensor is, where that is known for certain: plumb replays it.

    def _made_by(self, name, module, here, given, outs):
        """Of a module that is exactly one of PyTorch's, computes in one type, and gives one tensor."""
        nn, weights = torch.nn, [self._name_of(name, own, p) for own, p in module.named_parameters(recurse=False)]
        one_type = len({x.dtype for x in [*module.parameters(recurse=False), *given, *outs]
                        if x.is_floating_point()}) == 1
        if len(given) != 1 or len(outs) != 1 or None in weights or not one_type:
            return None
        if _rounds_otherwise(outs[0].dtype):
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
        """Of a linear layer's weight or bias that one call in one micro-batch used: tokens are summed."""
        if self.source is not None:  # of another gradient than was taken
            return None
        module = self.modules.get(name.rpartition(".")[0])
        here = f"m0/{name.rpartition('.')[0]}"
        used = [self.taken.get(here + side) for side in ("/in", "/grad_out")]
        if (type(module) is not torch.nn.Linear or None in used or self.micro != 0 or self.calls.get(here[3:]) != 1
                or any(x[0] != LETTERS.get(str(_gradient(p).dtype)[6:]) for x in used)
                or sum(p is q for m in self.modules.values() for q in m._parameters.values()) != 1):
            return None
        own = f"{here[3:]}.weight"
        last = len(used[0][2]["shape"]) - 1
        dealt = [q for q in used[0][2].get("placements", []) if q["kind"] == "shard" and q["dim"] != last]
        if any(q["dim"] for q in dealt):
            return None  # the terms of a rank do not lie behind one another
        ways = math.prod(self.mesh[q["axis"]] for q in dealt)
        made = {"parts": ways} if ways > 1 else {}
        if name != own:
            return {"op": "column_sum", "inputs": [here + "/grad_out"], **made}
        return {"op": "gemm", "inputs": [here + "/grad_out", here + "/in"],
                "attributes": {"transpose_a": 1, "transpose_b": 0}, **made}

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

    def _of(self, p):
        """The optimizer of a parameter, the first for one that none has."""
        if p in self.shares:
            return self.shares[p].optimizer
        return self.optimizer_of.get(_main(p), self.optimizers[0] if self.optimizers else None)

    def _main(self, p):
        """What the optimizer updates: of a distributed one this rank's share, or nothing."""
        return self.shares[p].held if p in self.shares else _main(p)

    def before_clip(self, parameters):
        """Gradients as they are now; what the optimizer gets is another tensor. The first call of a step counts."""
        for p in parameters if self.taking else ():
            name = self.names.get(p)
            if _gradient(p) is None or name in self.clipped:
                continue
            if name is not None:
                self._gradient(p, name, "grad", made_by=self._gradient_made_by(p, name))
                self.clipped[name] = name + "/clipped_grad"
            self.clips_others = self.clips_others or name is None or f"{name}/grad" not in self.taken

    def _gradients(self, optimizer):
        for p, name in self.names.items():
            if _gradient(p) is None or self._of(p) is not optimizer:
                continue
            if name in self.clipped:
                self._gradient(p, name, "clipped_grad", later=2, made_from=[name + "/grad"])
            else:
                self._gradient(p, name, "grad", made_by=self._gradient_made_by(p, name))

    def _gradient(self, p, name, kind, later=1, **made):
        share = self.shares.get(p)
        self._take(f"{name}/{kind}", share.of(_gradient(p)) if share else _gradient(p), "reduce", like=name, later=later,
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
        keepers, p, states = self._keepers(p), _main(p), self._updates(p).state
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

    def _adam(self, p, name):
        """AdamW's update of a parameter, in one type (Adam's, where no weight decays). Whoever makes a kind of his own of
        it may do otherwise: then the reference does not hold what plumb makes either, and nothing is judged by it."""
        optim, optimizer, share, states = torch.optim, self._updates(p), self.shares.get(p), dict(self._states(p))
        if share and share.held is None:
            return None
        summed = share.of(_gradient(p)) if share else _gradient(p)
        was, p = name if self._main(p) is p else name + "/main/before", self._main(p)
        if p.grad is None or not (p.grad is summed or torch.equal(p.grad, summed.to(p.grad.dtype))):
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
        if _rounds_otherwise(p.dtype) or steps and any(q["kind"] == "partial" for q in self._by_dtensor(p.grad) or []):
            return None  # the optimizer adds it up first, and rounds the sum
        beta1, beta2 = group["betas"]
        return {"op": "adam", "inputs": [was, f"{name}/exp_avg/before", f"{name}/exp_avg_sq/before",
                                       self.clipped.get(name, name + "/grad")],
                "attributes": {"lr": float(group["lr"]), "beta1": float(beta1), "beta2": float(beta2),
                               "eps": float(group["eps"]), "step": int(state["step"]), "weight_decay": float(decay),
                               **steps}}

    # Taking

    def _take(self, name, x, phase, of=None, like=None, role="value", made_from=None, loss=False, known=None,
              later=0, made_by=None, turned=False, share=None):
        """Copies a tensor where it is: a later operation may overwrite it. `share`: what it has of a parameter `like`."""
        if not self.taking or x is None:
            return
        lacks = _lacks_numbers(x)
        if lacks:
            self.unwritable[name] = lacks
            return
        with torch.no_grad():
            known, x = known or getattr(x, "_plumb_lies", None), x.detach()
            self._sequence(name, x, of)
            shape, placements = self._placed(name, x if share is None else self.named[like], of, like, loss, known)
            if turned:
                x, shape = x.transpose(0, 1), [shape[1], shape[0], *shape[2:]]
                placements = [{**p, "dim": (1, 0, *range(2, 9))[p["dim"]]} if "dim" in p else p for p in placements]
            if not self.only.search(name) or (self.skip and self.skip.search(name)):
                return
            x = x.to_local() if hasattr(x, "to_local") else x
            x = x.wait() if hasattr(x, "wait") and not isinstance(x, torch.nn.Parameter) else x
            x = x if x.layout == torch.strided else x.to_dense()
            if x.is_complex():
                x, shape = torch.view_as_real(x.resolve_conj()), shape and [*shape, 2]
            dtype = LETTERS.get(str(x.dtype)[6:])
            if dtype is None:
                self.unwritable[name] = f"the format has no {x.dtype}"
                return
            dealt = self.average and (phase == "backward" or loss) and self.batch
            x, offsets = x.to("cpu", copy=True).contiguous(), None
            if share is not None and share.whole and self.ranks == 1:
                x = x.reshape(self.named[like].shape)
            elif share is not None:
                lies = share.lies(x, self._places(shape, placements))
                if lies is None:
                    self.untold.update([name] * bool(x.numel()))
                    return
                x, offsets = lies
            if dealt:  # this rank's loss is a mean over its own share
                x /= math.prod(self.mesh[axis] for axis in self.batch)
            if self.tiles is not None:
                small = self.tiles.of(name, x, shape, placements, self.mesh, self.at_axis, offsets)
                if small is None:
                    return
                held, own = dtype, x
                (x, shape, placements), dtype = small, dtype if small[0] is own else "F32"
        self.bytes += x.numel() * x.element_size()
        if self.bytes > self.limit:
            self.taken, self.taking, self.too_large = {}, False, True
            _say(f"more than {self.limit / 1e9:g} GB of tensors in a step: nothing is written. Take fewer (only, skip), "
                 "or raise the limit of start()")
            return
        if phase != "reduce" and not loss:
            self.order += 1
        says = {"shape": shape, "phase": phase, "role": role, "order": max(self.order, 1) + later}
        if self.tiles is not None and dtype != held and held in FORMATS:
            says["format"] = FORMATS[held]
        if loss:  # no gradient is made from what it comes to
            says["order"] = 1 << 40
        if dtype[0] in "IUB" and dtype != "BF16":
            says["role"] = role if role == "given" else "decision"
        if made_from is not None:
            says["from"] = made_from
        if made_by is not None:
            says["made_by"] = made_by
        if offsets is not None:
            says["offsets"] = offsets
        elif placements is not None and self.ranks > 1:
            says["placements"] = placements
        if loss:
            says["order"] = 1 << 40  # no gradient is made from what it comes to
        self.taken[name] = dtype, x, says

    def _places(self, shape, placements):
        """Of each dimension: the places in the whole of what this rank has."""
        return [_share_of(torch.arange(n), [{**q, "dim": 0} for q in placements or [] if q.get("dim") == dim], self.mesh,
                          self.at_axis) for dim, n in enumerate(shape)]

    def _placed(self, name, x, of, like, loss, known):
        """The shape of the whole, and how it lies. `known`: as the same tensor lay before, or one it was made from."""
        plain = re.sub(r"^m\d+/", "", name)
        own = self._by_dtensor(x)
        placements, shape = (own, list(x.shape)) if own is not None else (None, None)
        rule = next((says for match, says in self.places.items() if match.search(plain) or match.search(name)), "")
        self.idle = {match for match in self.idle if not match.search(plain) and not match.search(name)}
        if rule is None:  # each rank has its own
            self.lies["alone"].append(plain.rpartition("/")[0])
            return list(x.shape), []
        if rule:
            placements, shape = _from_dims(rule, x.dim()) if isinstance(rule, str) else list(rule), None
            for p in placements:
                if p["axis"] not in self.mesh:
                    raise ValueError(f"places say that {plain} lies on '{p['axis']}', and the layout has {list(self.mesh)}")
        elif own is None and known is not None:
            placements, shape = known, None
        elif own is None:
            placements = self._by_weight(plain, x, of, like)
        named, first = {p["axis"] for p in placements}, []
        for axis in self.mesh:
            if axis not in named and of in self.of_all and axis in self.batch and axis not in self.context:
                placements = placements + [partial(axis) if plain.endswith("/grad_out") else replicate(axis)]
            elif axis in self.experts and EXPERT.search(plain):
                continue  # lives where it is found, for the words of all ranks
            elif axis not in named and like is None and plain not in self.names.values() and axis in self.batch:
                first.append(partial(axis) if loss or x.dim() == 0 else self._share(axis, x, of, plain, rule))
            elif axis not in named and axis not in self.stages:
                placements = placements + [replicate(axis)]
        if shape is None:
            shape = list(x.shape)
            for p in placements:
                if p["kind"] == "shard":
                    shape[p["dim"]] = sum(p["sizes"]) if "sizes" in p else shape[p["dim"]] * self.mesh[p["axis"]]
        for p in first:  # a local tensor is dealt by what no DTensor knows
            if p["kind"] == "shard":
                shape[p["dim"]] *= self.mesh[p["axis"]]
        placements = first + placements
        kind = plain.rsplit("/", 1)
        if like is None and plain in self.names.values():
            self.lies["weights"][plain] = placements
        elif kind[-1] in ("in", "out"):
            self.lies["inputs" if kind[-1] == "in" else "outputs"][kind[0]] = placements
            if kind[-1] == "out" and own is None and any(p["kind"] == "partial" for p in placements):
                self.lies["summands"].append(kind[0])
        return shape, placements

    def _share(self, axis, x, of, plain, rule=""):
        """A rank's part of a batch: of its sequences, or of each of them. What is alike for all has one row for them."""
        of_sequence = axis in self.context
        dim = self._dimension("s" if of_sequence else "b", x, of, rule)
        if x.shape[dim] == 1 and self.words and self.words[0].dim() == 2 and self.words[0].shape[int(of_sequence)] > 1:
            return partial(axis) if re.search(r"/grad_out(\.\d+)?$", plain) else replicate(axis)
        return shard(axis, dim, **({"zigzag": True} if of_sequence and self.zigzag else {}))

    def _dimension(self, name, x, of, rule):
        """Which one is the batch's (b) or the sequence's (s): as `places` call it, or by what is usual. Megatron's tensors
        are (s, b, h), but for those of what looks words up, which may deal them and then turns them."""
        named = re.findall(r"(\w+)(?:\[[^\]]*\])?", rule.partition("#")[0]) if isinstance(rule, str) else []
        if name in named:
            return named.index(name)
        module = self.modules.get(of, self.model)
        looks_up = of in self.of_ids and next(module.children(), None) is None
        of_words = not self.megatron or x.dim() < 3 or looks_up and not getattr(module, "reduce_scatter_embeddings", False)
        if name == "b":
            return 0 if of_words else 1
        return 0 if x.dim() == 1 or of in self.of_all or not of_words else 1

    def _by_dtensor(self, x):
        if not hasattr(x, "placements") or not hasattr(x, "device_mesh"):
            return None
        axes = x.device_mesh.mesh_dim_names or list(self.mesh)
        out = []
        for axis, p in zip(axes, x.placements):
            if p.is_shard() or type(p).__name__ == "_StridedShard":
                stride = getattr(p, "split_factor", 1)
                out.append(shard(axis, p.dim, **({"stride": stride} if stride > 1 else {})))
            else:
                out.append(partial(axis) if p.is_partial() else replicate(axis))
        return out

    def _by_weight(self, plain, x, of, like):
        """By the module's weight: rows of it are columns of an output, its columns those of an input."""
        if like is not None:
            return [p for p in self.lies["weights"].get(like, []) if p["axis"] not in self.batch]
        if not of:
            return self._by_megatron(plain)
        name = self.lies["tied"].get(of, f"{of}.weight")
        weight, side = self.lies["weights"].get(name, []), plain.rsplit("/", 1)[-1]
        side = {"in": 1, "grad_in": 1, "out": 0, "grad_out": 0}.get(side)
        if of in self.of_ids or getattr(self.named.get(name), "ndim", 0) != 2:
            side = None
        dealt = [{**p, "dim": x.dim() - 1} for p in weight if p["kind"] == "shard" and p["dim"] == side
                 and p["axis"] not in self.batch]
        if dealt and self._is_whole(x.shape[-1], self.named[name], side, dealt):  # a layer gathers it, or cuts it within
            dealt = []
        return dealt or ([shard("tp", 0)] if x.shape in self.dealt else [])

    def _is_whole(self, n, p, dim, dealt):
        """Has a tensor all that a weight has in a dimension, which a DTensor says itself, and not this rank's share?"""
        ways = math.prod(self.mesh[q["axis"]] for q in dealt)
        return ways > 1 and n == p.shape[dim] * (1 if hasattr(p, "placements") else ways)

    def _by_megatron(self, plain):
        p = self.named.get(plain)
        if "tp" in self.experts and EXPERT.search(plain):
            return []
        if p is None or not getattr(p, "tensor_model_parallel", False) or "tp" not in self.mesh:
            return []
        stride = getattr(p, "partition_stride", 1)
        return [shard("tp", p.partition_dim, **({"stride": stride} if stride > 1 else {}))]

    def _sequence(self, name, x, of):
        """Of what shape tensors are whose sequence (s, b, h) Megatron deals out: what its embeddings return, norms with
        marked weights take, and modules without a weight have that a configuration says it of. All others of that shape
        lie so, too."""
        if "tp" not in self.mesh or x.dim() != 3 or of is None:
            return
        module, side, above = self.modules[of], name.rsplit("/", 1)[-1], of
        while above and not hasattr(self.modules.get(above), "config"):
            above = above.rpartition(".")[0]
        config = getattr(self.modules.get(above), "config", None)
        if (side == "in" and getattr(getattr(module, "weight", None), "sequence_parallel", False)
                or side == "out" and getattr(module, "reduce_scatter_embeddings", False)
                or side in ("in", "out") and getattr(config, "sequence_parallel", False)
                and x.shape[-1] == config.hidden_size and not hasattr(module, "weight")
                and not any(match.search(name) for match in self.places)):
            self.dealt.add(x.shape)
        if side == "in" and x.shape in self.dealt and of.endswith(".router"):  # it returns a row for each word
            self.dealt.add(torch.Size([x.shape[0] * x.shape[1], module.weight.shape[0]]))

    def _write(self, folder, may_differ):
        if not self.taken:
            return
        size = sum(x.numel() * x.element_size() for _, x, _ in self.taken.values())
        if self.untold:
            _say(f"{len(self.untold)} shares of a distributed optimizer are not taken, first {min(self.untold)}: blocks of rows "
                 "and columns cannot say how they lie")
        if self.unwritable.keys() - self.told:
            name = min(self.unwritable)
            _say(f"{len(self.unwritable)} tensors are not taken, first {name}: {self.unwritable[name]}")
            self.told |= self.unwritable.keys()
        if self.tiles is not None:
            self.tiles.forget_how_tiles_were_made(self.taken)
            if self.tiles.left_out:
                _say(self.tiles.said())
        if self.rank == 0:
            _say(f"{len(self.taken)} tensors of step {self.at} go to {folder}, {size / 1e6:.1f} MB of this rank"
                 + (f" and about {self.ranks} times that of all" if self.ranks > 1 else ""))
        if folder not in [name for name, _ in self.written]:
            self.written.append((folder, []))
        steps = next(steps for name, steps in self.written if name == folder)
        steps += [self.at] * (self.at not in steps)
        write_rank(folder, self.at, self.rank, {
            name: stored(dtype, x.shape, ctypes.string_at(x.data_ptr(), x.numel() * x.element_size()), **says)
            for name, (dtype, x, says) in self.taken.items()})
        if self.clips_others:
            may_differ = {**may_differ, "clipped": "not all gradients are here"}
        if self.rank == 0:
            write_manifest(folder, producer="torch", version=torch.__version__, ranks=self.ranks, steps=steps,
                           mesh=self.mesh, must_agree=self.agree, may_differ=may_differ)


def _gradient(p):
    return p.grad if p.grad is not None else getattr(p, "main_grad", None)


def _main(p):
    """The weight that the optimizer keeps, in FP32, and from which this one is rounded; mostly this one itself."""
    main = getattr(p, "main_param", None)
    return main if isinstance(main, torch.Tensor) and main.shape == p.shape else p


def _taken_apart(optimizers):
    """PyTorch's own within Megatron's, and by parameter what a rank has of it, where a distributed one deals that."""
    if all(one is None or isinstance(one, torch.optim.Optimizer) for one in optimizers):
        return list(optimizers), {}
    try:
        from plumbline import distributed_optimizer
    except ImportError:  # of this file alone
        return list(optimizers), {}
    shares = {}
    for one in optimizers:
        shares.update(distributed_optimizer.shares(one))
    return [own for one in optimizers for own in distributed_optimizer.inside(one)], shares


def _unwrapped(model):
    while hasattr(model, "module") and isinstance(model.module, torch.nn.Module):
        model = model.module
    return model


def _rounds_otherwise(dtype):
    """In short formats PyTorch 1.13 rounds on the way, too, where later ones do so at the end."""
    return dtype != torch.float32 and int(torch.__version__.split(".")[0]) < 2


def _in_place_of(x, value):
    """That value, on x's way back."""
    if hasattr(x, "to_local") and not hasattr(value, "to_local"):
        value = type(x).from_local(value, x.device_mesh, x.placements, run_check=False)
    if not x.requires_grad:
        return value
    new = value + (x - x.detach())
    for kept in "_plumb_lies", "_plumb_of_all":
        if hasattr(x, kept):
            setattr(new, kept, getattr(x, kept))
    return new


def _hooked(register, hook):
    try:
        return register(hook, with_kwargs=True)
    except TypeError:  # older than PyTorch 2.0, which shows no hook what goes by name
        def by_place(module, args, *out):
            said = hook(module, args, {}, *out)
            return said if out or said is None else said[0]  # before a module, what it is to take in place of both
        return register(by_place)


def _from_dims(text, dimensions):
    """Placements of "b s[cp:zigzag,tp] h # dp:partial"."""
    words, _, rest = text.partition("#")
    found = re.findall(r"(\w+)(?:\[([^\]]*)\])?", words)
    if len(found) != dimensions:
        raise ValueError(f"'{text}' has {len(found)} dimensions, the tensor {dimensions}")
    out = []
    for dim, (_, axes) in enumerate(found):
        for axis in filter(None, re.split(r"[,\s]+", axes)):
            axis, _, how = axis.partition(":")
            out.append(shard(axis, dim, **({"zigzag": True} if how == "zigzag" else {})))
    for word in rest.split():
        axis, _, how = word.partition(":")
        out.append(partial(axis) if how == "partial" else replicate(axis))
    return out


def _plain_values(held):
    """Numbers, texts and lists, copied; what a schedule shares with others (an optimizer, schedules within it) stays."""
    return {key: copy.copy(x) for key, x in held.items() if isinstance(x, (int, float, str, list, type(None)))}


def _scaler_values(held):
    """Its scale, and what it knows of each optimizer; the group of a sharded one stays."""
    return {key: copy.deepcopy(x) for key, x in held.items() if isinstance(x, (int, float, dict, torch.Tensor, type(None)))}


class _State:
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
        self.scalers = [(one, _scaler_values(vars(one))) for one in gc.get_objects() if issubclass(type(one), scaler)]
        self.schedules = [(one, _plain_values(vars(one))) for one in gc.get_objects() if issubclass(type(one), kind)
                          and any(getattr(one, "optimizer", None) is other for other in optimizers)]

    def restore(self):
        for one, was in self.schedules:
            vars(one).update(_plain_values(was))
        for one, was in self.scalers:
            vars(one).update(_scaler_values(was))
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


# Twins: the same step with sums cut where a layout cuts them.

def _layout_of(layout):
    if layout is None:
        raise ValueError("no layout to make twins in: name the candidate's trace in PLUMB_TWINS, or give twin() one")
    if isinstance(layout, dict):
        return layout
    file = os.path.join(layout, "layout.json")
    if not os.path.exists(file):
        raise ValueError(f"there is no {file}; make that trace with plumbline.trace first, or give twin() a layout")
    with open(file) as opened:
        lies = json.load(opened)
    for name in sorted(os.listdir(layout)):  # weights of the other stages of a pipeline
        if re.match(r"layout-\d+\.json$", name):
            with open(os.path.join(layout, name)) as opened:
                more = json.load(opened)
            for kind in "weights", "inputs", "outputs", "tied":
                lies[kind].update(more[kind])
            for kind in "shared", "alone", "summands":
                lies[kind] = lies.get(kind, []) + more.get(kind, [])
    return lies


def _micro_batches(names):
    return len({name.partition("/")[0] for name in names if re.match(r"m\d+/", name)})


def _micro_batches_of(folder, step):
    """How many a candidate's first rank had; 0 where none can be read."""
    try:
        with open(os.path.join(folder, f"step_{step:06d}", "rank_00000.safetensors"), "rb") as file:
            length, = struct.unpack("<Q", file.read(8))
            return _micro_batches(json.loads(file.read(length)))
    except OSError:
        return 0  # whoever makes twins is told


def _choices_of(folder, step):
    """What a candidate chose, and of which scores, by id: of all ranks, where they lie as chunks behind one another."""
    try:
        with open(os.path.join(folder, "manifest.json")) as opened:
            manifest = json.load(opened)
    except OSError:
        return {}  # whoever makes twins is told
    if step not in manifest["steps"]:
        return {}
    at_axis, ranks = {}, 1  # of a rank: its place, and among how many
    for axis in reversed(manifest.get("mesh", [])):
        at_axis[axis["axis"]] = lambda rank, ranks=ranks, size=axis["size"]: (rank // ranks % size, size)
        ranks *= axis["size"]
    held, otherwise = {}, set()
    for rank in range(manifest["ranks"]):
        with open(os.path.join(folder, f"step_{step:06d}", f"rank_{rank:05d}.safetensors"), "rb") as file:
            length, = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(length))
            for name, lies in header.items():
                if not re.search(r"/(choice|scores)(\.\d+)?$", name):
                    continue
                says, (first, last) = json.loads(header["__metadata__"][name]), lies["data_offsets"]
                file.seek(8 + length + first)
                dtype = _types()[lies["dtype"]]
                part = held.setdefault(name, torch.full(says["shape"], -1, dtype=dtype))
                for p in says.get("placements", []):
                    if set(p) > {"axis", "kind", "dim"} or p["kind"] == "partial":
                        otherwise.add(name)
                    elif p["kind"] == "shard":
                        place, ways = at_axis[p["axis"]](rank)
                        part = part.chunk(ways, p["dim"])[place]
                if name not in otherwise:
                    part.copy_(torch.frombuffer(bytearray(file.read(last - first)), dtype=dtype).reshape(part.shape))
    chosen = {name: name.replace("/choice", "/scores") for name in held if re.search(r"/choice(\.\d+)?$", name)}
    apart = {name for name, scores in chosen.items() if {name, scores} & otherwise}
    if apart:
        _say(f"{len(apart)} choices of the candidate are not followed, since they lie otherwise than in chunks")
    alone = {name for name, scores in chosen.items() if scores not in held
             or sum(a != b for a, b in zip(held[scores].shape, held[name].shape)) > 1}
    if alone:
        _say(f"{len(alone)} choices of the candidate are not followed, since its trace lacks the scores that they have to follow "
             f"from, first {chosen[min(alone)]}: only and skip have to leave these, and sketches have none")
    return {name: (held[scores], held[name]) for name, scores in chosen.items()
            if name not in apart | alone and bool((held[name] >= 0).all())}


def _is_choice(scores, chosen, dim, choose):
    """Of each row: are these as many places with the best scores? Of equal ones any are; bits are compared, with no
    tolerance, since both are of one run."""
    scores = scores.double() if scores.is_floating_point() else scores
    best = choose(scores)[0].sort(dim)[0]
    own, places = scores.gather(dim, chosen).sort(dim)[0], chosen.sort(dim)[0]
    twice = places.narrow(dim, 1, places.shape[dim] - 1) == places.narrow(dim, 0, places.shape[dim] - 1)
    return ((own == best) | (own != own) & (best != best)).all(dim) & ~twice.any(dim)


def _types():
    return {letters: getattr(torch, name) for name, letters in LETTERS.items() if hasattr(torch, name)}


class _Saved:
    """The tensors of a run on one rank, by id, as _Run has them."""

    def __init__(self, folder, step):
        self.file = os.path.join(folder, f"step_{step:06d}", "rank_00000.safetensors")
        if not os.path.exists(self.file) or os.path.exists(self.file.replace("rank_00000", "rank_00001")):
            raise ValueError(f"PLUMB_REWRITE={folder} names no trace of one rank with step {step}; give it the reference's")
        with open(self.file, "rb") as file:
            length, = struct.unpack("<Q", file.read(8))
            self.lies, self.at = json.loads(file.read(length)), 8 + length

    def __call__(self, name):
        if name not in self.lies:
            return None
        dtype, shape, (first, last) = (self.lies[name][what] for what in ("dtype", "shape", "data_offsets"))
        with open(self.file, "rb") as file:
            file.seek(self.at + first)
            raw = bytearray(file.read(last - first))
        return dtype, torch.frombuffer(raw, dtype=_types()[dtype]).reshape(shape) if raw else torch.empty(shape)


class _Split:
    """How one module's sums are cut: `out` and `into` are lists of the terms that each rank has, `dealt` says of dimensions of
    tokens in how many parts, and whether there and back; `tokens` are all parts."""

    def __init__(self, out=None, into=None, dealt=None):
        self.out, self.into, self.dealt = out, into, dealt or {}
        self.tokens = math.prod(ways for ways, _ in self.dealt.values())

    def __bool__(self):
        return self.out is not None or self.into is not None or self.tokens > 1


class _Cuts:
    """While it is entered, linear layers, norms, embeddings and cross entropies sum up in parts as the layout does."""

    def __init__(self, layout, number, run):
        self.number, self.run, self.layout = number, run, layout
        self.mesh, self.batch = layout["mesh"], set(layout.get("batch", ()))
        self.rows = self.batch - set(layout.get("context", ()))  # axes over which whole sequences are dealt
        self.attentions = 0
        self.busy, self.put_back, self.under = False, False, 0
        self.linear, self.width = {}, None  # is an autograd function with a weight a linear layer? How wide are logits?
        self.short = {}  # of parameters with a gradient in parts: are these shorter than FP32?
        self.names, self.stash, self.joined_grads, self.cut = run.names, {}, {}, set()
        self.splits = {p: self._split_of(name, p) for p, name in self.names.items()}
        self.foreign = set()  # of parameters with a gradient that did not come from a cut

    # The plan

    def _split_of(self, name, p):
        module, _, kind = name.rpartition(".")
        weight = self.layout["weights"].get(f"{module}.weight", self.layout["weights"].get(name, []))
        inputs = self.inputs_of(module)
        last = self._last_dim(module)
        own = {q["axis"] for q in weight if q["kind"] == "shard"} - self.batch  # what is dealt over these is gathered first
        tokens, dealt = [], {}
        for q in inputs:
            if q["kind"] == "shard" and q["dim"] != last and self.mesh[q["axis"]] > 1 and q["axis"] not in own:
                tokens.append(q["axis"])
                ways, zigzag = dealt.get(q["dim"], (1, False))
                dealt[q["dim"]] = ways * self.mesh[q["axis"]], zigzag or q.get("zigzag", False)
        split = _Split(dealt=dealt)
        for q in weight:
            n = self.mesh[q["axis"]]
            if q["kind"] != "shard" or n == 1 or q["axis"] in tokens or kind != "weight" or p.dim() != 2:
                continue
            if q["dim"] == 1:
                split.out = _terms(p.shape[1], n, q)
            else:
                split.into = _terms(p.shape[0], n, q)
        return split

    def inputs_of(self, module):
        """How what a module takes is dealt: as the layout says, or by rows of a batch, of which an expert has all."""
        own = self.layout.get("experts", ()) if EXPERT.search(module) else ()
        if module in self.layout.get("alone", ()):
            return []
        return self.layout["inputs"].get(module) or [shard(axis, 0) for axis in self.batch if axis not in own]

    def _last_dim(self, module):
        """Of what the module takes: the dimension of features, which is none of tokens."""
        x = self.run.reference.get(f"m0/{module}/in")
        return len(x[2]["shape"]) - 1 if x and x[0] not in ("I64", "I32") else None

    def not_cut(self):
        """What the layout splits and no cut was made for: parameters, of whose gradient that is said, or modules."""
        out = set()
        for p, split in self.splits.items():
            name = self.names[p]
            if not split or name in self.cut and name not in self.foreign:
                continue
            used = f"{name}/grad" in self.run.taken
            out.add(name if split.tokens > 1 and used else name.rpartition(".")[0])
        return out

    # Random numbers: those of twin, tensor and column, and of what both parts round to (twins.md M2).

    def words(self, name, n):
        generator = torch.Generator().manual_seed(_hash(f"{self.number} {name}"))
        return torch.randint(0, 1 << 32, (n,), generator=generator)

    def moved(self, parts, dtype, name):
        """About an ulp of `dtype` goes from each part to the next, and each is rounded. Some rows at a time: what is made
        on the way then stays in a processor's cache."""
        rows = max(1, 2 ** 15 * len(parts[0]) // max(parts[0].numel(), 1)) if parts[0].dim() > 1 else 0
        if not 0 < rows < len(parts[0]):
            return self.moved_at_once(parts, dtype, name)
        some = [self.moved_at_once(of, dtype, name) for of in zip(*(x.split(rows) for x in parts))]
        return [torch.cat(of) for of in zip(*some)]

    def moved_at_once(self, parts, dtype, name):
        n = len(parts)
        parts = [p.double() for p in parts]
        total = parts[0]
        exact = torch.ones_like(total, dtype=torch.bool)
        for p in parts[1:]:
            total = total + p
            exact &= _is(total, dtype) & _is(p, dtype)
        exact &= _is(parts[0], dtype)
        for i in range(1 if n == 2 else n):
            a, b = parts[i], parts[(i + 1) % n]
            ulp = torch.maximum(_ulp(a, dtype), _ulp(b, dtype))
            word = self.words(f"{name} {i}", a.shape[-1] if a.dim() > 1 else a.numel()).to(a.device)
            reach = torch.minimum(ulp, torch.minimum(a.abs(), b.abs()) / 2)  # what is lost of a small part is all of it
            by = 4 * _uniform(word, a / ulp, b / ulp) * reach
            by = torch.where(exact, torch.zeros_like(by), by)
            parts[i], parts[(i + 1) % n] = a + by, b - by
        return [p.to(dtype) for p in parts]

    def dithered(self, parts, name):
        """Their sum, rounded to FP32 with a random number within half an ulp added before."""
        total = sum(p.double() for p in parts)
        ulp = _ulp(total, torch.float32)
        word = self.words(name, total.shape[-1] if total.dim() > 1 else total.numel()).to(total.device)
        return (total + _uniform(word, total / ulp, 0 * ulp) * ulp).float()

    def added(self, parts, dtype):
        total = parts[0].to(dtype)
        for p in parts[1:]:
            total = total + p.to(dtype)
        return total

    def bounds(self, name, terms, ways, short):
        """Where tokens are cut. Of a short format a kernel rounds each part by itself: so up to a quarter of a piece
        beside where the layout cuts (M3). FP32 parts are cut as in the layout, since kernels sum up in blocks; their sum
        is rounded up or down at random."""
        ends = [terms * r // ways for r in range(ways + 1)]
        if not short:
            return ends
        generator = torch.Generator().manual_seed(_hash(f"{self.number} {name} cut"))
        reach = terms // ways // 4
        for r in range(1, ways):
            ends[r] += int(torch.randint(-reach, reach + 1, (), generator=generator)) if reach else 0
        return ends

    # Gradients of weights whose tokens are dealt: each rank's part, and at the end of a backward pass their sum

    def keep(self, p, parts):
        kept = self.stash.get(p)
        parts = [x.to(p.dtype) for x in parts]
        self.stash[p] = parts if kept is None else [a + b for a, b in zip(kept, parts)]

    def join(self):
        for p, parts in self.stash.items():
            held, main = _gradient(p), getattr(p, "main_grad", None)
            if held is not None and held is not self.joined_grads.get(p) and bool(held.any()):
                self.foreign.add(self.names[p])
            dtype = p.dtype if main is None else main.dtype
            total = self.added(parts, dtype) if self.short[p] else self.dithered(parts, self.names[p])
            self.joined_grads[p] = main
            if main is None:
                self.joined_grads[p] = p.grad = total
            else:  # to which DDP of Megatron adds what p.grad has
                main.copy_(total)

    # Where the step computes

    def __enter__(self):
        cuts, functional = self, torch.nn.functional
        spread = {torch.add, torch.Tensor.add, torch.Tensor.__add__, torch.Tensor.__radd__, torch.Tensor.expand}
        turns = {getattr(kind, name) for kind in (torch, torch.Tensor) for name in ("permute", "transpose", "unsqueeze")}
        turns |= {torch.where, torch.Tensor.contiguous}
        of_weight = {functional.linear: 1, functional.embedding: 1, functional.layer_norm: 2}
        if hasattr(functional, "rms_norm"):
            of_weight[functional.rms_norm] = 2

        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, types, args=(), kwargs=None):
                kwargs = kwargs or {}
                if cuts.busy or args and isinstance(args[0], torch.Tensor) and _lacks_numbers(args[0]):
                    return function(*args, **kwargs)
                if cuts.width and function in (torch.sum, torch.Tensor.sum):
                    return cuts.sum_of_words(function, args, kwargs)
                if function in (torch.sum, torch.Tensor.sum, torch.mean, torch.Tensor.mean):
                    return cuts.sum_of_tokens(function, args, kwargs)
                if function is functional.cross_entropy:
                    return cuts.cross_entropy(args, kwargs)
                if function is getattr(functional, "scaled_dot_product_attention", 0):
                    args, kwargs = cuts.with_mask_of_rows(args, kwargs)
                    return cuts.attention(function, args, kwargs) if cuts.batch - cuts.rows else function(*args, **kwargs)
                if function in spread and torch.is_grad_enabled():
                    return cuts.spread(function, args, kwargs)
                if function in turns and torch.is_grad_enabled():
                    return cuts.turned(function, args, kwargs)
                place = of_weight.get(function)
                weight = kwargs.get("weight", args[place] if place is not None and len(args) > place else None)
                if (place is None or not isinstance(weight, torch.nn.Parameter) or weight not in cuts.splits
                        or weight.is_complex() or function is functional.embedding and (args[6:7] or [kwargs.get("sparse")])[0]):
                    return function(*args, **kwargs)
                return cuts.operation(function, place, weight, args, kwargs)

        self.units = [module for name, module in self.run.modules.items() if self.is_unit(name, module)]
        for module in self.units:
            module.forward = lambda *args, own=module.forward, module=module, **kwargs: cuts.unit(module, own, args, kwargs)
        self.mode, own = Mode(), torch.autograd.Function
        self.apply = next(vars(kind)["apply"] for kind in own.__mro__ if "apply" in vars(kind))
        undo = (setattr, own, "apply", self.apply) if "apply" in vars(own) else (delattr, own, "apply")
        self.leave = functools.partial(*undo)
        own.apply = classmethod(
            lambda kind, *args, **kwargs: cuts.function(kind, args, kwargs))
        self.mode.__enter__()
        self.norm = getattr(torch.nn.utils.clip_grad, "_get_total_norm", None)  # since PyTorch 2.6
        if self.norm is not None:
            torch.nn.utils.clip_grad._get_total_norm = self.total_norm
        return self

    def __exit__(self, *wrong):
        self.leave()
        if self.norm is not None:
            torch.nn.utils.clip_grad._get_total_norm = self.norm
        for module in self.units:
            del module.forward
        return self.mode.__exit__(*wrong)

    # The norm by which gradients are clipped: of each rank's shares, and then of these norms

    def total_norm(self, tensors, norm_type=2.0, *args, **kwargs):
        names = {id(p.grad): name for p, name in self.names.items() if p.grad is not None}
        grads = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        lies = [[q for q in self.layout["weights"].get(names.get(id(g)), []) if q["kind"] == "shard" and self.mesh[q["axis"]] > 1]
                for g in grads]
        axes = sorted({q["axis"] for of in lies for q in of})
        if float(norm_type) != 2 or not axes:
            return self.norm(grads, norm_type, *args, **kwargs)
        norms = []
        for places in itertools.product(*(range(self.mesh[axis]) for axis in axes)):
            place = dict(zip(axes, places))
            norms.append(self.norm([_share_of(g, of, self.mesh, place) for g, of in zip(grads, lies) if all(
                at == 0 or any(q["axis"] == axis for q in of) for axis, at in place.items())], norm_type))
        return torch.stack(norms).norm()

    # Modules of which nothing is known but that a batch is dealt: their gradients are added by parts of the batch

    def is_unit(self, name, module):
        """A module without children (or PyTorch's attention) whose weights' gradients the layout splits by rows of a
        batch alone, and that is none of those whose functions are known."""
        nn = torch.nn
        known = (nn.Linear, nn.Embedding, nn.LayerNorm, *([nn.RMSNorm] if hasattr(nn, "RMSNorm") else []))
        weights = list(module.parameters())
        if (isinstance(module, known) or not weights or "forward" in vars(module)
                or any(p.is_complex() for p in weights) or isinstance(module, torch.jit.ScriptModule)
                or next(module.children(), None) is not None and not isinstance(module, nn.MultiheadAttention)):
            return False
        inputs = self.inputs_of(name)
        by_rows = all(q["dim"] == 0 and q["axis"] in self.batch for q in inputs if q["kind"] == "shard")
        splits = [self.splits[p] for p in weights]
        return by_rows and all(split.tokens > 1 and split.out is None and split.into is None for split in splits)

    def unit(self, module, own, args, kwargs):
        """What it computes, with another way back to its weights: each part of the batch by itself."""
        weights = [p for p in module.parameters() if p.requires_grad]
        rows = {x.shape[0] for x in _tensors_in([args, kwargs]) if x.dim()}
        if self.busy or not torch.is_grad_enabled() or not weights or len(rows) != 1:
            return own(*args, **kwargs)
        as_now, ways = _autocast_as_now(weights[0].device.type), self.splits[weights[0]].tokens

        def plain(first, last, alone=False):
            """Of rows of the batch; `alone`: with zeros in place of all others."""
            taken = {}  # what is one tensor stays one

            def of(x):
                if isinstance(x, torch.Tensor) and x.dim():
                    if id(x) not in taken:
                        rows = x.detach()
                        taken[id(x)] = rows[first:last] if not alone else torch.cat(
                            [rows[:first] * 0, rows[first:last], rows[last:] * 0])
                    return taken[id(x)]
                if isinstance(x, dict):
                    return {key: of(each) for key, each in x.items()}
                return type(x)(map(of, x)) if type(x) in (tuple, list) else x

            busy, self.busy = self.busy, True
            taking, self.run.taking = self.run.taking, False  # choices in it are none of the step's
            try:
                with as_now():
                    return own(*of(args), **of(kwargs))
            finally:
                self.busy, self.run.taking = busy, taking

        start, choices = _Chance(module), [count[:] for count in self.run.within]
        busy, self.busy = self.busy, True
        for p in weights:
            p.requires_grad_(False)
        try:
            y = own(*args, **kwargs)
        finally:
            self.busy = busy
            for p in weights:
                p.requires_grad_(True)
        outs, n = _tensors_in(y), rows.pop()
        ends = [n * r // ways for r in range(ways + 1)]
        after = _Chance(module)
        with torch.no_grad():
            alone = [_tensors_in(plain(a, b, alone=True))[0][a:b] for a, b in zip(ends, ends[1:])]
        several = any(other.requires_grad for other in outs[1:]) and not isinstance(module, torch.nn.MultiheadAttention)
        if several or n < ways or outs[0].dim() == 0 or outs[0].shape[0] != n or not torch.equal(torch.cat(alone), outs[0]):
            start.restore()
            self.run.within[:] = choices  # which it makes again
            return own(*args, **kwargs)  # a row depends on others, or on chance, or a loss on more outputs
        after.restore()
        self.cut.update(self.names[p] for p in weights)

        def back(g, _, w, b, wanted):
            short = outs[0].dtype != torch.float32
            self.short.update({p: short for p in weights})
            cuts = self.bounds(self.names[weights[0]], n, ways, short)
            parts = []
            for first, last in zip(cuts, cuts[1:]):
                with torch.enable_grad():
                    part = _tensors_in(plain(first, last))[0]
                parts.append(_grad_of(part, weights, g[first:last], allow_unused=True))
            for p, *grads in zip(weights, *parts):
                self.keep(p, [torch.zeros_like(p) if grad is None else grad for grad in grads])
            return g, None, None

        for other in outs[1:]:  # the way back from these to the weights is lost
            if other.requires_grad:
                other.register_hook(lambda g: self.foreign.update(self.names[p] for p in weights))
        first = _site().apply(lambda y, w, b: y.view_as(y), back, outs[0], weights[0], None)
        return first if isinstance(y, torch.Tensor) else type(y)([first, *y[1:]])

    def function(self, kind, args, kwargs):
        """Of a program's own autograd functions, whose backward passes the mode does not see. One that returns what a
        linear layer does is one. Others may sum over words, as losses do."""
        whole = self.apply.__get__(None, kind)
        place = next((n for n, x in enumerate(args) if isinstance(x, torch.nn.Parameter) and x in self.splits), 0)
        if self.busy or kind is _Site:
            return whole(*args, **kwargs)
        if place and not kwargs and self.is_linear(whole, place, args):
            return self.operation(whole, place, args[place], args, kwargs)
        before, self.width = self.width, next((x.shape[-1] for x in _tensors_in(args) if x.dim() > 1
                                               and x.is_floating_point() and self.words_dealt(x.shape[-1]) > 1), None)
        try:
            return whole(*args, **kwargs)
        finally:
            self.width = before

    def is_linear(self, whole, place, args):
        x, weight, bias = args[0], args[place], args[place + 1] if len(args) > place + 1 else None
        if not isinstance(x, torch.Tensor) or weight.dim() != 2 or x.shape[-1] != weight.shape[1]:
            return False
        if (whole, weight) not in self.linear:
            self.busy = True
            try:
                with torch.no_grad():
                    y, z = torch.nn.functional.linear(x, weight), whole(*args)
                    y = y + bias if isinstance(bias, torch.Tensor) else y
            finally:
                self.busy = False
            self.linear[whole, weight] = isinstance(z, torch.Tensor) and torch.equal(y, z)
        return self.linear[whole, weight]

    # What each row of a batch has alike: positions, weights that are added. Its gradient is a sum over the batch

    def spread(self, function, args, kwargs):
        """y = x + p or p.expand(shape), where p has no batch and y has."""
        args = list(args)
        if function is torch.Tensor.expand:
            sizes = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
            sizes, x = list(sizes), args[0]
            held = [1] * (len(sizes) - x.dim()) + list(x.shape)
            shape = torch.Size(n if size == -1 else size for size, n in zip(sizes, held))
            return self.alike(x, shape) if self.is_alike(x, shape) else function(*args, **kwargs)
        for n, x in enumerate(args[:2]):
            other = args[1 - n] if len(args) > 1 else None
            if isinstance(x, torch.Tensor) and isinstance(other, torch.Tensor) and self.is_alike(x, other.shape):
                args[n] = self.alike(x, other.shape)
        return function(*args, **kwargs)

    def turned(self, function, args, kwargs):
        """What is alike stays so where its dimensions are turned, and where one of two is taken: as T5's positions."""
        shapes = [x.shape for x in args if isinstance(x, torch.Tensor)]
        shape = torch.broadcast_shapes(*shapes) if function is torch.where else shapes[0]
        args = [self.alike(x, shape) if isinstance(x, torch.Tensor) and self.is_alike(x, shape) else x for x in args]
        out, of = function(*args, **kwargs), next((x for x in args if hasattr(x, "_plumb_of_all")), None)
        if of is not None:
            out._plumb_of_all = of._plumb_of_all
        return out

    def with_mask_of_rows(self, args, kwargs):
        """What attention is given, a mask that is alike for all rows of its queries as one for each."""
        q, mask = args[0] if args else kwargs["query"], args[3] if len(args) > 3 else kwargs.get("attn_mask")
        if not isinstance(mask, torch.Tensor) or mask.dim() != q.dim() or not self.is_alike(mask, (len(q), *mask.shape[1:])):
            return args, kwargs
        mask = self.alike(mask, (len(q), *mask.shape[1:]))
        return ((*args[:3], mask, *args[4:]), kwargs) if len(args) > 3 else (args, {**kwargs, "attn_mask": mask})

    def is_alike(self, x, shape):
        ways = math.prod(self.mesh[axis] for axis in self.rows)
        split = self.splits.get(x) if isinstance(x, torch.nn.Parameter) else None
        ours = hasattr(x, "_plumb_of_all") if split is None else (
            split.tokens == ways and split.out is None and split.into is None)
        whole = [1] * (len(shape) - x.dim()) + list(x.shape)
        return bool(ours and ways > 1 and len(whole) == len(shape) > 1 and shape[0] >= ways and whole[0] == 1 and x.requires_grad)

    def alike(self, x, shape):
        name = self.names.get(x) or x._plumb_of_all
        ways = math.prod(self.mesh[axis] for axis in self.rows)
        if x in self.names:
            self.cut.add(self.names[x])

        def back(g, x, *_):
            short = g.dtype != torch.float32
            ends = self.bounds(name, g.shape[0], ways, short)
            parts = [g[a:b].sum_to_size((1,) * (g.dim() - x.dim()) + x.shape).reshape(x.shape) for a, b in zip(ends, ends[1:])]
            if named is not None:
                self.short[named] = short
                self.keep(named, parts)
                return None, None, None
            return (self.added(parts, g.dtype) if short else self.dithered(parts, name)), None, None

        named = x if x in self.names else None
        return _site().apply(lambda x, w, b: x.expand(shape), back, x, None, None)

    # Of keys and values, which every query takes: their gradients are sums over queries, dealt out as sequences are

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
                parts.append(_grad_of(y, leaf, own))
            of_queries, *others = zip(*parts)
            return sum(of_queries), *(self.added(x, g.dtype) for x in others)

        return _site().apply(of, backward, q, k, v)

    def of_dim(self, name, length, ways, zigzag, short=True):
        """Places along a dimension that each rank has. For attention they are cut elsewhere in each twin in FP32, too,
        since a kernel's blocks do not lie as the layout's parts."""
        ends = self.bounds(name, length, ways * (2 if zigzag else 1), short)
        pieces = [torch.arange(a, b) for a, b in zip(ends, ends[1:])]
        return [torch.cat([pieces[r], pieces[-1 - r]]) if zigzag else pieces[r] for r in range(ways)]

    def shares(self, name, shape, dealt, short):
        """Of tokens behind one another, those of each rank. Rows of a batch lie behind one another; of other dimensions a
        rank has a part of each sequence."""
        if not _within(dealt) or any(dim >= len(shape) for dim in dealt):
            ends = self.bounds(name, math.prod(shape), math.prod(ways for ways, _ in dealt.values()), short)
            return [slice(a, b) for a, b in zip(ends, ends[1:])]
        parts = [torch.arange(math.prod(shape)).reshape(shape)]
        for dim, (ways, zigzag) in sorted(dealt.items()):
            sets = self.of_dim(name, shape[dim], ways, zigzag, short) if dim or zigzag else torch.arange(shape[0]).chunk(ways)
            parts = [x.index_select(dim, places) for x in parts for places in sets]
        return [x.reshape(-1) for x in parts]

    def words_dealt(self, width):
        """How many ranks share logits of so many words."""
        for p, split in self.splits.items():
            name = self.names[p]
            for module in [name.rpartition(".")[0], *(m for m, tied in self.layout.get("tied", {}).items() if tied == name)]:
                for q in self.layout["outputs"].get(module, []):
                    if (p.dim() == 2 and p.shape[0] == width and split.into is not None and module not in self.run.of_ids
                            and q["kind"] == "shard" and q["dim"] > 0 and q["axis"] not in self.batch):
                        return self.mesh[q["axis"]]
        return 1

    def sum_of_words(self, function, args, kwargs):
        x, dim = args[0], kwargs.get("dim", args[1] if len(args) > 1 else None)
        if x.shape[-1] != self.width or dim not in (-1, x.dim() - 1, [-1], (-1,)):
            return function(*args, **kwargs)
        ways = self.words_dealt(self.width)
        parts = [function(part, *args[1:], **kwargs) for part in x.chunk(ways, -1)]
        return self.added(self.moved(parts, x.dtype, "loss"), x.dtype)

    def of_tokens(self, count, dtype):
        """Of losses of so many tokens those of each rank: of some sequences, or a part of each."""
        rows, parts = (math.prod(self.mesh[axis] for axis in axes) for axes in (self.rows, self.batch - self.rows))
        words, short = self.run.words[0] if self.run.words else torch.empty(0), dtype != torch.float32
        if parts > 1 and words.dim() == 2 and words.numel() == count:
            dealt = {0: (rows, False), 1: (parts, bool(self.layout.get("zigzag")))}
            return self.shares("loss", words.shape, dealt, short)
        ends = self.bounds("loss", count, rows * parts, short)
        return [slice(a, b) for a, b in zip(ends, ends[1:])]

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

    def again(self, on):
        """PyTorch takes the mode away in a backward pass: for what is made again there it is put back."""
        modes = torch._C._len_torch_function_stack()
        there = self.put_back and modes > self.under  # a checkpoint that stops early leaves it to PyTorch, which takes it away
        if on and not there:
            self.under = modes
            self.mode.__enter__()
        elif not on and there:
            self.mode.__exit__(None, None, None)
        self.put_back = on

    def operation(self, function, place, weight, args, kwargs):
        """One that takes each token by itself: y = f(x, weight, bias)."""
        x, functional = args[0], torch.nn.functional
        bias = kwargs.get("bias", args[place + 1] if len(args) > place + 1 else None)
        bias = bias if isinstance(bias, torch.nn.Parameter) else None
        split = self.splits[weight]
        if function is functional.embedding:
            split = _Split(dealt=split.dealt or self.dealt_of_all(weight, x))
        self.cut.update(self.names[p] for p in (weight, bias) if p is not None)
        if not split:
            return function(*args, **kwargs)
        name, as_now = self.names[weight], _autocast_as_now(x.device.type)

        def plain(x, w, b):
            now, more = [x, *args[1:]], dict(kwargs)
            for at, given, p in (place, "weight", w), (place + 1, "bias", b):
                if p is None and given == "bias":
                    continue
                if given in more:
                    more[given] = p
                else:
                    now[at] = p
            busy, self.busy = self.busy, True
            try:
                with as_now():
                    return function(*now, **more)
            finally:
                self.busy = busy

        if split.out is None and split.into is None:  # only the weight's gradient is a split sum: x has its own way back
            y = plain(x, weight.detach(), None if bias is None else bias.detach())

            def tokens(g, _, w, b, wanted):
                self.by_tokens(plain, g, (x.detach(), w, b), (False, *wanted[1:]), (weight, bias), split.dealt)
                return g, None, None

            return _site().apply(lambda y, w, b: y.view_as(y), tokens, y, weight, bias)

        def forward(x, w, b):
            if split.out is None:
                return plain(x, w, b)
            dtype = plain(x[:1], w, b).dtype  # under autocast none of theirs
            flat, v = x.to(dtype).reshape(-1, x.shape[-1]), w.to(dtype)
            parts = [flat[:, terms].float() @ v[:, terms].float().t() for terms in split.out]
            total = self.added(self.moved(parts, dtype, name + " out"), dtype).reshape(*x.shape[:-1], len(w))
            return total if b is None else total + b.to(dtype)

        def backward(g, x, w, b, wanted):
            alone = [want and (n > 0 or split.into is None) and (n == 0 or split.tokens == 1) for n, want in enumerate(wanted)]
            with torch.enable_grad():  # of what is not made of parts below
                leaf = [t if t is None else t.detach().requires_grad_(need) for t, need in zip((x, w, b), alone)]
                y = plain(*(leaf if any(alone) else (x[:1], w, b)))
            asked = [t for t, need in zip(leaf, alone) if need]
            grads = dict(zip([n for n, need in enumerate(alone) if need], _grad_of(y, asked, g) if asked else ()))
            if split.into is not None and (wanted[0] or copies):
                flat, v = g.to(y.dtype).reshape(-1, g.shape[-1]), w.to(y.dtype)
                parts = [flat[:, terms].float() @ v[terms].float() for terms in split.into]
                if copies:  # added up with those of the other modules first
                    grads.update({3 + r: part.to(y.dtype).to(x.dtype).reshape(x.shape) for r, part in enumerate(parts)})
                    grads[0] = None
                else:
                    grads[0] = self.added(self.moved(parts, y.dtype, name + " in"), x.dtype).reshape(x.shape)
            if split.tokens > 1 and wanted[1]:
                self.by_tokens(plain, g, leaf, wanted, (weight, bias), split.dealt)
            return tuple(grads.get(n) for n in range(3 + len(copies)))

        copies = self.copies(x, name, len(split.into)) if split.into is not None else ()
        return _site().apply(forward, backward, x, weight, bias, *copies)

    def dealt_of_all(self, weight, x):
        """Of what looks positions up several times each: a rank adds these up of its own rows. Here are none of them any more,
        but as many places that are added; a cut there moves what that moves."""
        ways = math.prod(self.mesh[axis] for axis in self.rows)
        again = self.names[weight].rpartition(".")[0] in self.run.of_all and x.numel() > len(weight)
        return {0: (ways, False)} if again and ways > 1 else {}

    def copies(self, x, name, ways):
        """Of what several modules take behind one gather, for each rank its own, on which their gradients are added."""
        group = next((names for names in self.layout.get("shared", []) if name.rpartition(".")[0] in names), None)
        if group is None or not x.requires_grad:
            return ()
        if not hasattr(x, "_plumb_copies"):
            x._plumb_copies = _gather().apply(x, ways, lambda parts: self.added(
                self.moved(parts, x.dtype, group[0] + " in"), x.dtype))
        return x._plumb_copies

    def by_tokens(self, plain, g, leaf, wanted, named, dealt):
        (x, w, b), (weight, bias) = leaf, named
        tokens = x.detach().reshape(-1, x.shape[-1]) if x.is_floating_point() else x.reshape(-1)
        flat = g.reshape(-1, g.shape[-1])
        short = g.dtype != torch.float32
        self.short.update({p: short for p in named if p is not None})
        parts = {weight: [], bias: []}
        for share in self.shares(self.names[weight], g.shape[:-1], dealt, short):
            with torch.enable_grad():
                v, c = w.detach().requires_grad_(), None if b is None else b.detach().requires_grad_()
                y = plain(tokens[share], v, c)
            asked = [v] + [c] * (c is not None and wanted[2])
            for p, grad in zip((weight, bias), _grad_of(y, asked, flat[share])):
                parts[p].append(grad)
        for p in (weight, bias):
            if p is not None and parts[p]:
                self.keep(p, parts[p])

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

        return _site().apply(forward, backward, x, None, None)


def _grad_of(*args, **kwargs):
    """torch.autograd.grad, where a step's own calls of it are counted."""
    return getattr(torch.autograd.grad, "whole", torch.autograd.grad)(*args, **kwargs)


class _Chance:
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


def _autocast_as_now(device):
    """For what is computed again in a backward pass, where autocast is off."""
    try:
        on, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    except (AttributeError, RuntimeError, TypeError):  # older than PyTorch 2.4: CUDA's and the processor's
        cpu = device == "cpu"
        on = torch.is_autocast_cpu_enabled() if cpu else torch.is_autocast_enabled()
        dtype = torch.get_autocast_cpu_dtype() if cpu else torch.get_autocast_gpu_dtype()
    if not on:
        return contextlib.nullcontext
    return lambda: torch.autocast(device, dtype, cache_enabled=False)


def _share_of(whole, placements, mesh, place):
    """What the rank at these places has of a whole tensor."""
    for p in placements:
        if p["kind"] == "shard":
            n, ways, at = whole.shape[p["dim"]], mesh[p["axis"]], place[p["axis"]]
            if "sizes" in p:
                own = torch.arange(n).split(p["sizes"])[at]
            elif p.get("zigzag"):
                chunks = torch.arange(n).chunk(2 * ways)
                own = torch.cat([chunks[at], chunks[-1 - at]])
            else:
                own = [*_terms(n, ways, p), *[torch.arange(0)] * ways][at]
            whole = whole.index_select(p["dim"], own)
    return whole


def _within(dealt):
    """Has a rank other tokens than some rows of the batch: a part of each sequence, or chunks there and back?"""
    return any(dim or zigzag for dim, (_, zigzag) in dealt.items())


def _terms(count, ways, split):
    """The terms of a sum that each rank has, as torch.chunk or a stride deals them."""
    stride = split.get("stride", 1)
    groups = split.get("groups", [count // stride] * stride)
    out, first = [[] for _ in range(ways)], 0
    for size in groups:
        share = -(-size // ways)
        for r in range(ways):
            out[r] += range(first + min(share * r, size), first + min(share * (r + 1), size))
        first += size
    return [torch.tensor(terms) for terms in out if terms]


def _hash(text):
    h = 0xcbf29ce484222325  # FNV-1a
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return h >> 1


def _is(x, dtype):
    return x.to(dtype).double() == x


def _ulp(x, dtype):
    bits = {"bfloat16": 8, "float16": 11}.get(str(dtype)[6:], 24)
    least = {"bfloat16": -133, "float16": -24}.get(str(dtype)[6:], -149)
    exponent = torch.where(x == 0, least, torch.frexp(x)[1] - bits)
    return torch.ldexp(torch.ones_like(x), exponent.clamp(min=least))


def _uniform(word, a, b):
    """In (-1/2, 1/2), the same where the word is and what both numbers round to (MurmurHash3's last lines)."""
    m = 0xffffffff
    h = word ^ (a.round().long() * 0x9E3779B1 + b.round().long() * 0x7FEB352D) & m
    h = (h ^ h >> 16) * 0x85EBCA6B & m
    h = (h ^ h >> 13) * 0xC2B2AE35 & m
    h = h ^ h >> 16
    return (h >> 8).double() * 2.0 ** -24 + 2.0 ** -25 - 0.5


def _site():
    global _Site
    if _Site is None:
        class Site(torch.autograd.Function):
            @staticmethod
            def forward(context, forward, backward, x, weight, bias, *copies):
                context.save_for_backward(x, weight, bias)
                context.how = backward
                y = forward(x, weight, bias)
                return y.clone() if y._base is not None else y  # nobody could change a view in place

            @staticmethod
            def backward(context, g):
                x, weight, bias = context.saved_tensors
                return (None, None, *context.how(g, x, weight, bias, context.needs_input_grad[2:]))

        _Site = Site
    return _Site


_Site = _Gather = None


def _gather():
    global _Gather
    if _Gather is None:
        class Gather(torch.autograd.Function):
            @staticmethod
            def forward(context, x, ways, back):
                context.back = back
                return tuple(x.clone() for _ in range(ways))

            @staticmethod
            def backward(context, *parts):
                return context.back(parts), None, None

        _Gather = Gather
    return _Gather
