"""libplumb.so and the structs of c/plumb.h."""

import ctypes
import os
import pathlib
import threading

ABI = 1
DIMENSIONS = 8
PASS, FAIL, TROUBLE, NOTHING = range(4)

_text, _number, _size = ctypes.c_char_p, ctypes.c_double, ctypes.c_size_t


class Tensor(ctypes.Structure):
    _fields_ = [("name", _text), ("data", ctypes.c_void_p), ("format", _text), ("dimensions", _size),
                ("shape", _size * DIMENSIONS), ("strides", ctypes.c_ssize_t * DIMENSIONS),
                ("value", ctypes.c_void_p), ("bound", ctypes.c_void_p), ("bias", ctypes.c_void_p)]


class Attribute(ctypes.Structure):
    _fields_ = [("name", _text), ("value", _number)]


class Call(ctypes.Structure):
    _fields_ = [("operation", _text), ("inputs", ctypes.POINTER(Tensor)), ("input_count", _size),
                ("outputs", ctypes.POINTER(Tensor)), ("output_count", _size),
                ("attributes", ctypes.POINTER(Attribute)), ("attribute_count", _size),
                ("machine", _text), ("mode", _text), ("format", _text), ("input_format", _text),
                ("delta", _number), ("rows", ctypes.c_uint64), ("seed", ctypes.c_uint64)]


class Term(ctypes.Structure):
    _fields_ = [("name", _text), ("formula", _text), ("size", _number)]


class Output(ctypes.Structure):
    _fields_ = [("name", _text), ("format", _text), ("elements", _size), ("outside", _size),
                ("not_finite", _size), ("worst_element", _size), ("worst_ratio", _number),
                ("found", _number), ("value", _number), ("bound", _number), ("bias", _number),
                ("terms", ctypes.POINTER(Term)), ("term_count", _size)]


class Result(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("elements", _size), ("outside", _size), ("not_finite", _size),
                ("worst_output", _size), ("worst_element", _size), ("worst_ratio", _number),
                ("found", _number), ("value", _number), ("bound", _number), ("bias", _number),
                ("term", _text), ("term_size", _number), ("rows", _size), ("of_rows", _size),
                ("assumes", _text), ("explanation", _text), ("outputs", ctypes.POINTER(Output)),
                ("output_count", _size), ("owner", ctypes.c_void_p)]


FUNCTIONS = {
    "plumb_judge": (ctypes.c_int, [ctypes.POINTER(Call), ctypes.POINTER(Result)]),
    "plumb_bound": (ctypes.c_int, [ctypes.POINTER(Call), ctypes.POINTER(Result)]),
    "plumb_shape": (ctypes.c_int, [ctypes.POINTER(Call), _size, ctypes.POINTER(_size), ctypes.POINTER(_size)]),
    "plumb_free": (None, [ctypes.POINTER(Result)]),
    "plumb_last_error": (_text, []),
    "plumb_abi": (ctypes.c_uint, []),
    "plumb_version": (_text, []),
    "plumb_operation": (_text, [_size]),
    "plumb_machine": (_text, [_size]),
    "plumb_signature": (_text, [_text]),
}


def _found():
    """The file to load: what PLUMB_LIBRARY names, the one in this package, one that is installed."""
    named = os.environ.get("PLUMB_LIBRARY")
    if named:
        path = pathlib.Path(named)
        path = path / "libplumb.so" if path.is_dir() else path
        if not path.is_file():
            raise ImportError(f"PLUMB_LIBRARY names {named}, where there is no libplumb.so; name the file or its folder")
        return str(path)
    inside = pathlib.Path(__file__).parent / "libplumb.so"
    return str(inside) if inside.is_file() else f"libplumb.so.{ABI}"


def _loaded():
    name = _found()
    try:
        library = ctypes.CDLL(name)
        library.plumb_abi.restype = ctypes.c_uint
        abi = library.plumb_abi()
    except (OSError, AttributeError) as wrong:
        raise ImportError(f"{name} is no libplumb.so that can be loaded ({wrong}); pip install ./python builds one, "
                          "PLUMB_LIBRARY names another") from wrong
    if abi != ABI:
        raise ImportError(f"{name} has the ABI {abi}, this package is for {ABI}; take both from one version")
    for function, (result, arguments) in FUNCTIONS.items():
        getattr(library, function).restype = result
        getattr(library, function).argtypes = arguments
    return library


_lock = threading.Lock()
_library = None


def library():
    """The library, loaded when it is first asked for."""
    global _library
    with _lock:
        if _library is None:
            _library = _loaded()
        return _library


def names(function):
    """What plumb_operation or plumb_machine count."""
    all_names, n = [], 0
    while (name := getattr(library(), function)(n)) is not None:
        all_names.append(name.decode())
        n += 1
    return all_names
