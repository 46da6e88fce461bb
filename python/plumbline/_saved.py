"""What a checkpoint holds, read piece by piece: safetensors by the standard library, PyTorch's own by PyTorch. For
plumbline.checkpoint.
"""
import ctypes
import glob
import io
import json
import math
import os
import pickle
import re
import sys
import warnings
from collections import namedtuple
from collections.abc import Mapping

from plumbline.write import LETTERS, WIDTHS

AT_ONCE = 1 << 24  # bytes copied

# A tensor of a checkpoint; a piece is the whole (offset None) or one block, that write(file) writes.
Tensor = namedtuple("Tensor", "path dtype shape pieces")
Piece = namedtuple("Piece", "rank offset size write")
Content = namedtuple("Content", "tensors others ordered")  # others: values by path; ordered: as the model has them


class Refused(Exception):
    """In one sentence."""


def numbers(shape):
    return " x ".join(map(str, shape)) or "one number"


def first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


# safetensors, by the standard library

def header_of(file):
    """The entries by name, and where the values begin."""
    size = os.path.getsize(file)
    with open(file, "rb") as opened:
        start = opened.read(8)
        length = int.from_bytes(start, "little")
        if len(start) < 8 or 8 + length > size:
            raise Refused(f"{file} is no file of safetensors, or was cut off: its header is longer than the file")
        text = opened.read(length)
    try:
        header = json.loads(text)
        header.pop("__metadata__", None)
        for name, entry in header.items():
            (first, last), shape = entry["data_offsets"], entry["shape"]
            width = WIDTHS.get(entry["dtype"])
            if not 0 <= first <= last or any(n < 0 for n in shape):
                raise ValueError
            if width is not None and math.prod(shape) * width != last - first:
                raise Refused(f"{file} gives '{name}' {last - first} bytes, and its shape is {numbers(shape)}")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Refused(f"{file} is no file of safetensors: its header is none") from None
    for name, entry in header.items():
        if 8 + length + entry["data_offsets"][1] > size:
            raise Refused(f"{file} was cut off: '{name}' ends behind its {size} bytes")
    return header, 8 + length


def copied(file, first, last):
    def write(out):
        with open(file, "rb") as opened:
            opened.seek(first)
            for at in range(first, last, AT_ONCE):
                out.write(opened.read(min(AT_ONCE, last - at)))
    return write


def of_safetensors(file):
    header, begin = header_of(file)
    return [Tensor((name,), entry["dtype"], entry["shape"],
                   [Piece(0, None, None, copied(file, *(begin + at for at in entry["data_offsets"])))])
            for name, entry in header.items()]


def files_of(folder, index):
    """Those that an index names, each of which has to hold what the index says of it."""
    with open(index, encoding="utf-8") as opened:
        try:
            where = dict(json.load(opened)["weight_map"])
        except (ValueError, KeyError, TypeError):
            raise Refused(f"{index} is no index: it has no weight_map") from None
    files = sorted(set(where.values()))
    for file in files:
        if os.path.basename(file) != file:
            raise Refused(f"{index} names '{file}', which does not lie beside it")
        if not os.path.isfile(os.path.join(folder, file)):
            raise Refused(f"{index} names {file}, which is not there")
    held = {file: header_of(os.path.join(folder, file))[0] for file in files}
    for name, file in where.items():
        if name not in held[file]:
            raise Refused(f"{index} says that '{name}' is in {file}, and it is not")
    return files


def of_folder(folder):
    indexes = glob.glob(os.path.join(glob.escape(folder), "*.safetensors.index.json"))
    if len(indexes) > 1:
        raise Refused(f"{folder} has {len(indexes)} indexes: give one file, or a folder with one index")
    files = files_of(folder, indexes[0]) if indexes else sorted(
        os.path.basename(file) for file in glob.glob(os.path.join(glob.escape(folder), "*.safetensors")))
    if not files:
        raise Refused(f"{folder} is no checkpoint: it has neither .metadata nor a file of safetensors; of torch.save "
                      "name the file")
    return Content([one for file in files for one in of_safetensors(os.path.join(folder, file))], {}, False)


# PyTorch's own

def pytorch(what):
    try:
        import torch
    except (ImportError, OSError) as wrong:
        raise Refused(f"{what} is of PyTorch, which cannot be imported here ({first_line(wrong)})") from None
    return torch


def loaded(torch, source, what, **how):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.load(source, map_location="cpu", weights_only=True, **how)
    except Exception as wrong:  # of bytes that are no checkpoint PyTorch raises anything
        asks = re.search(r"\bGLOBAL ([\w.]+)", str(wrong))
        why = f"it asks for {asks[1]}" if asks else f"{type(wrong).__name__}, {first_line(wrong).partition('. ')[0]}"
        raise Refused(f"{what} is nothing that torch.load(weights_only=True) reads: {why}") from None


def letters(dtype):
    return LETTERS.get(str(dtype)[len("torch."):], str(dtype))


def raw(x):
    x = x.contiguous()
    return ctypes.string_at(x.data_ptr(), x.numel() * x.element_size())


def leaves(x, path=()):
    """What is in dicts and lists, however deep, and where."""
    if isinstance(x, (list, tuple)):
        x = dict(enumerate(x))
    if not isinstance(x, Mapping):
        yield path, x
        return
    for key, value in x.items():
        yield from leaves(value, (*path, str(key)))


def of_torch_save(file):
    torch = pytorch(file)
    try:
        whole = loaded(torch, file, file, mmap=True)
    except (Refused, TypeError):
        whole = loaded(torch, file, file)  # of before zip files, or by PyTorch 1.13, which cannot map
    tensors, others = [], {}
    for path, x in leaves(whole):
        if not isinstance(x, torch.Tensor):
            others[path] = x
            continue
        path = path or ("tensor",)
        if hasattr(x, "placements") or x.layout != torch.strided or x.is_quantized or x.device.type != "cpu":
            raise Refused(f"{file} holds '{'.'.join(path)}' as a {type(x).__name__} without values of its own (of one "
                          "rank, sparse, quantized): save plain tensors, or use torch.distributed.checkpoint")
        x = x.detach()
        if not x.dim():
            others[path] = x.item()
        piece = Piece(0, None, None, lambda out, x=x: out.write(raw(x)))
        tensors.append(Tensor(path, letters(x.dtype), list(x.shape), [piece]))
    return Content(tensors, others, True)


class OfMetadata(pickle.Unpickler):
    """Nothing but what torch.distributed.checkpoint keeps in .metadata: a checkpoint may come from anywhere."""
    ALLOWED = {
        "torch.distributed.checkpoint.metadata": {
            "Metadata", "MetadataIndex", "TensorStorageMetadata", "BytesStorageMetadata", "ChunkStorageMetadata",
            "TensorProperties", "StorageMeta", "_MEM_FORMAT_ENCODING"},
        "torch.distributed.checkpoint.filesystem": {"_StorageInfo", "_StoragePrefix"},
        "torch.serialization": {"_get_layout"}, "torch": {"Size"}, "collections": {"OrderedDict"},
        "pathlib": {"Path", "PosixPath", "WindowsPath", "PurePosixPath"}}

    def find_class(self, module, name):
        dtype = module == "torch" and type(getattr(sys.modules["torch"], name, None)).__name__ == "dtype"
        if not dtype and name not in self.ALLOWED.get(module, ()):
            raise pickle.UnpicklingError(f"it asks for {module}.{name}")
        return super().find_class(module, name)


def metadata_of(folder):
    file = os.path.join(folder, ".metadata")
    pytorch(file)
    try:
        with open(file, "rb") as opened:
            metadata = OfMetadata(opened).load()
        paths = metadata.planner_data if isinstance(metadata.planner_data, dict) else {}
        return dict(metadata.state_dict_metadata), dict(metadata.storage_data), paths
    except Exception as wrong:  # as above
        raise Refused(f"{file} is none of torch.distributed.checkpoint: {first_line(wrong)}") from None


def overlap(a, b):
    return all(x < y + m and y < x + n for x, y, n, m in zip(a.offset, b.offset, a.size, b.size))


def check_pieces(name, shape, pieces):
    """Do they make the whole, each number once?"""
    for piece in pieces:
        ends = [first + n for first, n in zip(piece.offset, piece.size)]
        if len(piece.offset) != len(shape) or any(
                not 0 <= first <= end <= whole for first, end, whole in zip(piece.offset, ends, shape)):
            raise Refused(f"'{name}' is {numbers(shape)}, and its piece at {piece.offset} ends at {ends}")
    along = max(range(len(shape)), key=lambda dim: len({p.offset[dim] for p in pieces}), default=None)
    pieces = pieces if along is None else sorted(pieces, key=lambda piece: piece.offset[along])
    for n, piece in enumerate(pieces):
        for other in pieces[n + 1:]:
            if along is not None and other.offset[along] >= piece.offset[along] + piece.size[along]:
                break
            if overlap(piece, other):
                raise Refused(f"of '{name}' the pieces at {piece.offset} and {other.offset} overlap: which is right?")
    held, whole = sum(math.prod(piece.size) for piece in pieces), math.prod(shape)
    if held != whole:
        raise Refused(f"of '{name}' ({numbers(shape)}) there are {held} of {whole} numbers: a shard is missing")


def in_file(folder, stored, sizes):
    """The file of a piece, which has to be as long as the metadata say."""
    path = stored.relative_path
    file = os.path.join(folder, path)
    if os.path.isabs(path) or ".." in path.split("/"):
        raise Refused(f"{folder}/.metadata names '{path}', which does not lie beside it")
    if getattr(stored, "transform_descriptors", None):
        raise Refused(f"{file} is compressed ({', '.join(stored.transform_descriptors)}): save without extensions")
    if file not in sizes:
        sizes[file] = os.path.getsize(file) if os.path.isfile(file) else None
    if sizes[file] is None:
        raise Refused(f"{file} is not there, and .metadata says that it holds pieces of tensors")
    if stored.offset + stored.length > sizes[file]:
        raise Refused(f"{file} was cut off: .metadata says that a piece ends at byte {stored.offset + stored.length}, "
                      f"and the file has {sizes[file]}")
    return file


def read_piece(file, stored, size, dtype):
    torch = pytorch(file)
    with open(file, "rb") as opened:
        opened.seek(stored.offset)
        x = loaded(torch, io.BytesIO(opened.read(stored.length)), f"a piece in {file}")
    if not isinstance(x, torch.Tensor) or list(x.shape) != list(size) or letters(x.dtype) != dtype:
        raise Refused(f"{file} has another tensor at byte {stored.offset} than .metadata says ({dtype}, "
                      f"{numbers(size)})")
    return x.detach()


def rank_in(file):
    """Of __1_0.distcp rank 1; of another name none is known."""
    found = re.match(r"__(\d{1,4})_\d+\.", os.path.basename(file))
    return int(found[1]) if found else 0


def pieces_of(folder, name, about, stored, sizes):
    """Where each piece of a tensor lies, by what .metadata says."""
    for chunk in about.chunks:
        offset, size = list(chunk.offsets), list(chunk.sizes)
        where = stored.get((name, tuple(offset)))
        if where is None:
            raise Refused(f"{folder}/.metadata does not say in which file the piece of '{name}' at {offset} is")
        file = in_file(folder, where, sizes)
        if 0 not in size or 0 in about.size:  # else a rank that has nothing of it
            yield Piece(rank_in(file), offset, size, lambda file=file, where=where, size=size: read_piece(
                file, where, size, letters(about.properties.dtype)))


def of_distributed(folder):
    described, stored, paths = metadata_of(folder)
    sizes, tensors, others = {}, [], {}
    stored = {(index.fqn, tuple(index.offset or ())): where for index, where in stored.items()}
    for name, about in described.items():
        path = tuple(map(str, paths.get(name, (name,))))
        if not hasattr(about, "chunks"):
            others[path] = None  # an object: not read
            continue
        found, shape = list(pieces_of(folder, name, about, stored, sizes)), list(about.size)
        check_pieces(name, shape, found)
        if not shape and path[-1].endswith("step"):
            others[path] = found[0].write().item()
        tensors.append(Tensor(path, letters(about.properties.dtype), shape, [
            piece._replace(write=lambda out, read=piece.write: out.write(raw(read()))) for piece in found]))
    return Content(tensors, others, False)


def read(checkpoint):
    if os.path.isdir(checkpoint):
        if not os.path.exists(os.path.join(checkpoint, ".metadata")):
            return of_folder(checkpoint)
        try:
            return of_distributed(checkpoint)
        except (AttributeError, TypeError, KeyError, IndexError) as wrong:
            raise Refused(f"{checkpoint}/.metadata is not as torch.distributed.checkpoint writes it: "
                          f"{first_line(wrong)}") from None
    if not os.path.isfile(checkpoint):
        raise Refused(f"{checkpoint} is not there")
    if checkpoint.endswith(".safetensors"):
        return Content(of_safetensors(checkpoint), {}, False)
    return of_torch_save(checkpoint)
