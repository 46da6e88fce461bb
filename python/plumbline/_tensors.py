"""Arrays of numpy, ml_dtypes and PyTorch, and what becomes one, as the library reads them: where they are."""

import numpy

from . import _library

# By the names that numpy (with ml_dtypes) and PyTorch give their types.
FORMATS = {
    "float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3fn", "float8_e5m2": "e5m2", "float8_e4m3fnuz": "e4m3fnuz", "float8_e5m2fnuz": "e5m2fnuz",
    "float8_e8m0fnu": "e8m0", "float6_e3m2fn": "e3m2", "float6_e2m3fn": "e2m3", "float4_e2m1fn": "e2m1",
    "bool": "uint8", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
}


def _format(type_name, what):
    if type_name in FORMATS:
        return FORMATS[type_name]
    raise TypeError(f"{what} is of type {type_name}; plumb takes {', '.join(FORMATS)}: cast it as the kernel does")


# Bytes that a code takes.
WIDTHS = {"fp16": 2, "bf16": 2, "e4m3fn": 1, "e5m2": 1, "e4m3fnuz": 1, "e5m2fnuz": 1, "e8m0": 1, "e3m2": 1, "e2m3": 1,
          "e2m1": 1}


class codes:
    """An array of codes, as uint16 or uint8, and the format that they are of: codes(x, "bf16").

    For numpy without ml_dtypes, and for kernels that keep codes in plain memory. One code lies in each byte or two.
    """

    def __init__(self, array, format):
        array = numpy.asarray(array)
        if format not in WIDTHS:
            raise ValueError(f"{format!r} has no codes of one or two bytes; known: {', '.join(WIDTHS)}")
        if array.dtype.kind not in "ui" or array.itemsize != WIDTHS[format]:
            raise TypeError(f"codes of {format} are whole numbers of {WIDTHS[format]} bytes, found {array.dtype}")
        self.array, self.format = array, format


def is_torch(x):
    """Is it a tensor of PyTorch? PyTorch is not imported for that."""
    return any(t.__module__.split(".")[0] == "torch" and t.__name__ == "Tensor" for t in type(x).__mro__)


class Given:
    """A tensor, kept as long as the library may read it."""

    def __init__(self, x, what):
        if is_torch(x):
            self._of_torch(x, what)
        elif isinstance(x, codes):
            self.format = x.format
            self._of_numpy(x.array)
        else:
            if isinstance(x, numpy.ma.MaskedArray):
                raise TypeError(f"{what} is masked, and plumb judges all of it: fill it, or take out what counts")
            x = numpy.asarray(x)
            self.format = _format(x.dtype.name, what)
            self._of_numpy(x)

    def _of_torch(self, x, what):
        x = x.detach()
        self.format = _format(str(x.dtype).split(".")[-1], what)
        if str(x.layout) != "torch.strided":
            raise TypeError(f"{what} is {x.layout}; plumb takes dense tensors: give x.to_dense()")
        if getattr(x, "is_meta", False):
            raise TypeError(f"{what} is on the device meta, and has no numbers")
        x = x.cpu().resolve_neg()
        if x.dim() > _library.DIMENSIONS or not any(x.stride()):
            x = x.reshape(-1, x.shape[-1] if x.dim() else 1).contiguous() if x.dim() > 2 else x.contiguous()
        self.kept, self.address = x, x.data_ptr()
        self.shape, self.strides = tuple(x.shape), tuple(x.stride())

    def _of_numpy(self, x):
        if not x.dtype.isnative:
            x = x.astype(x.dtype.newbyteorder("="))
        odd = any(stride % x.itemsize for stride in x.strides)
        if odd or x.ndim > _library.DIMENSIONS or not any(x.strides):
            x = numpy.ascontiguousarray(x).reshape(x.shape)
        if x.ndim > _library.DIMENSIONS:
            x = x.reshape(-1, x.shape[-1])
        self.kept, self.address = x, x.ctypes.data
        self.shape, self.strides = x.shape, tuple(stride // x.itemsize for stride in x.strides)

    def described(self, name):
        """As plumb.h has it."""
        to = _library.Tensor(name=name.encode() if name else None, data=self.address or None,
                             format=self.format.encode(), dimensions=len(self.shape))
        to.shape[:len(self.shape)] = self.shape
        to.strides[:len(self.shape)] = self.strides
        return to


def named(given, what):
    """(name or "", tensor) of each: a dict has names, a list or tuple has an order, all else is one tensor."""
    if isinstance(given, dict):
        pairs = [(str(name), x) for name, x in given.items()]
    elif isinstance(given, (list, tuple)):
        pairs = [("", x) for x in given]
    else:
        pairs = [("", given)]
    return [(name, Given(x, f"{what} '{name}'" if name else f"{what} {i}")) for i, (name, x) in enumerate(pairs)]


def array_of(tensors):
    """The structs, one behind the other."""
    return (_library.Tensor * len(tensors))(*tensors), len(tensors)

