"""Traces for `plumb check`, of any program, by hand (docs/trace-format.md). The standard library alone: copy this file
where you need it.

    write_manifest("run", producer="my-trainer", ranks=2, steps=[1], mesh={"dp": 1, "tp": 2}, must_agree={"model": "x"})
    write_rank("run", step=1, rank=0, tensors={"layers.0/out": stored("F32", [2, 8], values, shape=[4, 8],
        placements=[shard("tp", 0), replicate("dp")], order=3)})

A value is bytes in the order of rows (little-endian), or a list of numbers for F32, F64 and whole numbers. What is
said beside it becomes fields of the format: id, shape, format, role, order, phase, micro_batch, from_, made_by,
placements, dims, partition_spec, offsets, part, parts.
"""
import errno
import json
import math
import os
import struct

WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I8": 1, "I16": 2,
          "I32": 4, "I64": 8, "U8": 1, "U16": 2, "U32": 4, "U64": 8, "BOOL": 1}
CODES = {"F64": "d", "F32": "f", "I8": "b", "I16": "h", "I32": "i", "I64": "q", "U8": "B", "U16": "H", "U32": "I",
         "U64": "Q", "BOOL": "?"}
LETTERS = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
           "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
           "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "bool": "BOOL"}


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
    make_folder(folder)
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
    write_whole(os.path.join(folder, "manifest.json"), json.dumps(manifest, indent=1).encode() + b"\n")


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
    make_folder(where)
    write_whole(os.path.join(where, file), struct.pack("<Q", len(text)), text, *data)


def write_whole(file, *content):  # whole, or not at all, whatever crashes; once it returns, whole
    with open(file + ".partial", "wb") as out:
        out.writelines(content)
        out.flush()
        os.fsync(out.fileno())
    os.replace(file + ".partial", file)
    sync_names(os.path.dirname(file))


def make_folder(folder):
    folder = os.path.abspath(folder)
    if not os.path.isdir(folder):
        make_folder(os.path.dirname(folder))
        os.makedirs(folder, exist_ok=True)
        sync_names(os.path.dirname(folder))


def sync_names(folder):
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
