"""Training steps of PyTorch as traces for `plumb check`, by hooks, with twins (docs/pytorch.md):

    plumb.start(model, layout=mesh)
    with plumb.step(optimizer):
        loss = train_step(...)
    for k in plumb.twins():
        with plumb.twin(k):
            train_step(...)

PyTorch is imported by start(), where the environment asks for a trace. Traces of other programs: plumbline.write.
"""
import atexit
import contextlib
import os
import re

from plumbline.capture.names import PERTURBED

_run = None  # what start() began, where the environment asks for it


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
    global _run
    asked = os.environ.get("PLUMB_TRACE", "0")
    if _run is not None:
        _run.stop()
        _run.tell_what_is_missing()
        atexit.unregister(_run.tell_what_is_missing)
        _run = None
    if asked in ("", "0"):
        return
    from plumbline.capture.run import Run

    _run = Run(model, out if asked == "1" else asked, layout, places or {}, set(steps), only, skip, average,
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
