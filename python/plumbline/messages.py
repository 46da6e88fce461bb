"""What ranks send each other: each collective of a step, with what this rank gave and what it got.

A step that plumbline.trace takes is recorded where the environment has PLUMB_MESSAGES=1. Then `plumb replay` and
`plumb check` hold what came out of each call against what its ranks gave (docs/pytorch.md).

Seen are calls of torch.distributed by Python, whoever makes them (a program, FSDP2, Megatron), and those of DTensor.
Not seen: what C++ sends by itself (DDP's gradients), and what goes from one rank to another (send, recv).
"""
import contextlib
import ctypes
import functools
import json
import os
import sys

import torch

from plumbline.capture.say import say
from plumbline.write import LETTERS, stored, write_tensors

REDUCTIONS = ("SUM", "AVG", "MIN", "MAX", "PRODUCT", "BAND", "BOR", "BXOR", "PREMUL_SUM")
METHODS = (  # of process groups, under the names of 1.13 and of the newest
    "allreduce", "reduce", "broadcast", "allgather", "_allgather_base", "all_gather_single", "reduce_scatter",
    "_reduce_scatter_base", "reduce_scatter_single", "gather", "gather_single", "scatter", "alltoall", "alltoall_base",
    "all_to_all_single")
NO_OPTIONS = ("allgather",)  # that 1.13 calls without any


def _reduction(op):
    """sum, avg ...: of an options' operation, or of its name."""
    if isinstance(op, str):
        return op.lower()
    kinds = torch.distributed.ReduceOp
    known = (name for name in REDUCTIONS if hasattr(kinds, name) and op == getattr(kinds, name))
    return next(known, str(op)).lower()


def _list(x):
    """One tensor, or the only list of them, or they themselves."""
    if isinstance(x, torch.Tensor):
        return [x]
    return _list(x[0]) if len(x) == 1 and not isinstance(x[0], torch.Tensor) else list(x)


def _chunks(x, n, sizes=None):
    """What each of n ranks has of one tensor, in its first dimension."""
    x = x if x.dim() else x.reshape(1)
    if sizes:
        return list(x.split([int(size) for size in sizes]))
    return list(x.reshape(-1).chunk(n))


def _copied(tensors):
    return [x.detach().contiguous().cpu().clone() for x in tensors]


def _here():
    """The line of the program that calls, beyond what lies in PyTorch and here."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        ours = any(f"{os.sep}{package}{os.sep}" in file for package in ("torch", "plumbline"))
        if not ours and not file.startswith("<"):
            return f"{os.path.basename(file)}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _root(options):
    return options.rootRank


class _InPlaceOf:
    """An operator that is called otherwise, and is in all else what it was."""

    def __init__(self, own, call):
        self._own, self._call = own, call

    def __call__(self, *args, **kwargs):
        return self._call(*args, **kwargs)

    def __getattr__(self, name):
        return getattr(self._own, name)


class Patches:
    """Functions of torch.distributed that are replaced until stop()."""

    def __init__(self):
        self.undo = []

    def _replace(self, where, name, by):
        # What a class itself has: a method that is taken from the class, and not from its dictionary, knows no self.
        self.undo.append((where, name, vars(where).get(name)))
        setattr(where, name, by(getattr(where, name)))

    def stop(self):
        while self.undo:
            where, name, own = self.undo.pop()
            delattr(where, name) if own is None else setattr(where, name, own)


class Recorder(Patches):
    """Records the calls of this rank between start() and stop()."""

    def __init__(self):
        super().__init__()
        self.calls, self.waited, self.unread = [], {}, set()

    # One call

    def begun(self, group, op, given, got, reduce="", root=None):
        """`given`: pieces, copied before the call; `got`: a function that returns the pieces behind it."""
        ranks = _ranks_of(group)
        call = {"op": op, "group": ranks, "at": _here(), "given": _copied(given), "got": None, "end": got}
        if reduce:
            call["reduce"] = reduce
        if root is not None:
            call["root"] = ranks[root]
        self.calls.append(call)
        return call

    def ended(self, call):
        if call["got"] is None:
            call["got"] = _copied(call["end"]())
            call["end"] = None  # lets go of what it holds

    # The calls of process groups, by whatever function of torch.distributed they are made

    def of_group(self, name, own):
        """A method of process groups, and what it gives and gets."""
        me = lambda group: group.rank()

        def read(group, args, options):
            n = group.size()
            if name == "allreduce":
                return "all_reduce", _list(args[0]), lambda: _list(args[0]), dict(reduce=_reduction(options.reduceOp))
            if name == "reduce":
                got = lambda: _list(args[0]) if me(group) == _root(options) else []
                return "reduce", _list(args[0]), got, dict(reduce=_reduction(options.reduceOp), root=_root(options))
            if name == "broadcast":
                given = _list(args[0]) if me(group) == _root(options) else []
                return "broadcast", given, lambda: _list(args[0]), dict(root=_root(options))
            if name == "allgather":
                return "all_gather", _list(args[1]), lambda: _list(args[0]), {}
            if name in ("_allgather_base", "all_gather_single"):
                return "all_gather", [args[1]], lambda: _chunks(args[0], n), {}
            if name == "reduce_scatter":
                reduce = _reduction(options.reduceOp)
                return "reduce_scatter", _list(args[1]), lambda: _list(args[0]), dict(reduce=reduce)
            if name in ("_reduce_scatter_base", "reduce_scatter_single"):
                reduce = _reduction(options.reduceOp)
                return "reduce_scatter", _chunks(args[1], n), lambda: [args[0]], dict(reduce=reduce)
            if name == "gather_single":
                got = lambda: _chunks(args[0], n) if me(group) == _root(options) else []
                return "gather", [args[1]], got, dict(root=_root(options))
            if name == "gather":
                got = lambda: _list(args[0]) if me(group) == _root(options) else []
                return "gather", _list(args[1]), got, dict(root=_root(options))
            if name == "scatter":
                given = _list(args[1]) if me(group) == _root(options) else []
                return "scatter", given, lambda: _list(args[0]), dict(root=_root(options))
            if name == "alltoall":
                return "all_to_all", list(args[1]), lambda: list(args[0]), {}
            return "all_to_all", _chunks(args[1], n, args[3]), lambda: _chunks(args[0], n, args[2]), {}

        @functools.wraps(own)
        def method(group, *args, **kwargs):
            options = args[-1] if args and type(args[-1]).__name__.endswith("Options") else None
            if kwargs or options is None and name not in NO_OPTIONS:
                self.unread.add(name)
                return own(group, *args, **kwargs)
            op, given, got, more = read(group, args, options)
            call = self.begun(group, op, given, got, **more)
            work = own(group, *args)
            if work is None:
                self.ended(call)
            else:
                self.waited[id(work)] = (work, call)
            return work
        return method

    def of_wait(self, own):
        @functools.wraps(own)
        def wait(work, *args, **kwargs):
            done = own(work, *args, **kwargs)
            _, call = self.waited.pop(id(work), (None, None))
            if call is not None:
                self.ended(call)
            return done
        return wait

    # Functional collectives, by which DTensor sends

    def of_function(self, name, own):
        def read(args):
            group = _group_named(args[-1])
            n = group.size()
            if name in ("all_reduce", "all_reduce_"):
                return group, "all_reduce", [args[0]], lambda out: [out], dict(reduce=_reduction(args[1]))
            if name == "all_gather_into_tensor":
                return group, "all_gather", [args[0]], lambda out: _chunks(out, n), {}
            if name == "reduce_scatter_tensor":
                return group, "reduce_scatter", _chunks(args[0], n), lambda out: [out], dict(reduce=_reduction(args[1]))
            if name == "broadcast":
                return (group, "broadcast", [args[0]] if group.rank() == args[1] else [], lambda out: [out],
                        dict(root=args[1]))
            return group, "all_to_all", _chunks(args[0], n, args[2]), lambda out: _chunks(out, n, args[1]), {}

        def function(*args, **kwargs):
            if kwargs or not isinstance(args[0], torch.Tensor):
                self.unread.add(name)
                return own(*args, **kwargs)
            group, op, given, pieces, more = read(args)
            call = self.begun(group, op, given, None, **more)
            out = own(*args)
            call["end"] = lambda: pieces(out)
            self.waited[out.data_ptr()] = (out, call)
            return out
        return _InPlaceOf(own, function)

    def of_wait_tensor(self, own):
        def wait(x, *args, **kwargs):
            done = own(x, *args, **kwargs)
            _, call = self.waited.pop(x.data_ptr(), (None, None))
            if call is not None:
                self.ended(call)
            return done
        return _InPlaceOf(own, wait)

    # All of them

    def start(self):
        group = torch.distributed.ProcessGroup
        for name in METHODS:
            if hasattr(group, name):
                self._replace(group, name, lambda own, name=name: self.of_group(name, own))
        self._replace(torch.distributed.distributed_c10d.Work, "wait", self.of_wait)
        functional = getattr(torch.ops, "_c10d_functional", None)
        for name in ("all_reduce", "all_reduce_", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast",
                     "all_to_all_single"):
            if functional is not None and hasattr(functional, name):
                self._replace(functional, name, lambda own, name=name: self.of_function(name, own))
        if functional is not None and hasattr(functional, "wait_tensor"):
            self._replace(functional, "wait_tensor", self.of_wait_tensor)
        return self

    def write(self, folder, step, rank):
        """Calls that nobody waited for got nothing here, and are said to be not judged."""
        if self.unread:
            say(f"collectives that were called in a way that is not read, and not recorded: {sorted(self.unread)}")
        tensors, says = {}, {}
        for number, call in enumerate(self.calls):
            got = call["got"] if call["got"] is not None else []
            about = {key: call[key] for key in ("op", "reduce", "group", "root", "at") if key in call}
            if call["got"] is None:
                about["op"] += " that nobody waited for"
            says[str(number)] = json.dumps({**about, "given": [x.numel() for x in call["given"]],
                                            "got": [x.numel() for x in got]})
            for name, pieces in ("given", call["given"]), ("got", got):
                if sum(x.numel() for x in pieces):
                    flat = torch.cat([x.reshape(-1) for x in pieces])
                    raw = ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size())
                    tensors[f"{number}/{name}"] = stored(
                        LETTERS[str(flat.dtype).partition(".")[2]], flat.shape, raw)
        write_tensors(folder, step, f"messages_{rank:05d}.safetensors", tensors, says)


def _ranks_of(group):
    c10d = torch.distributed.distributed_c10d
    if hasattr(torch.distributed, "get_process_group_ranks"):
        return list(torch.distributed.get_process_group_ranks(group))
    of = c10d._pg_group_ranks.get(group) or {rank: rank for rank in range(group.size())}
    return sorted(of, key=of.get)


def _group_named(name):
    return torch.distributed.distributed_c10d._resolve_process_group(name) if isinstance(name, str) else name


@contextlib.contextmanager
def recording():
    """A Recorder, at work in this block."""
    recorder = Recorder()
    recorder.start()
    try:
        yield recorder
    finally:
        recorder.stop()
