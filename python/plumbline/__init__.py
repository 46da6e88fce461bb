"""A kernel's outputs, held against error bounds that are derived for its own inputs; and, in plumbline.trace, the tensors
of a training step as a trace that the program `plumb` judges (plumbline.write: those of any program).

    import plumbline as plumb
    plumb.assert_within("softmax", x, my_softmax(x))

judge() gives the verdict as an object, bound() the arrays of values and bounds. README.md has more. numpy is asked for
when one of these names is; plumbline.trace works without.
"""

from ._library import library as _load
from ._library import names as _names

_JUDGE = ("Element", "Judged", "Output", "Term", "Trouble", "assert_within", "bound", "judge")

__all__ = ["Element", "Judged", "Output", "Term", "Trouble", "assert_within", "bound", "codes", "judge",
           "machines", "operations", "signature", "version"]


def __getattr__(name):
    import importlib

    if name in _JUDGE:
        return getattr(importlib.import_module("._judge", __name__), name)
    if name == "codes":
        return importlib.import_module("._tensors", __name__).codes
    raise AttributeError(f"plumbline has no {name}")


def machines():
    """The names of all machine cards."""
    return _names("plumb_machine")


def operations():
    """The names of all operations."""
    return _names("plumb_operation")


def signature(op):
    """What an operation takes and makes: its inputs, outputs and attributes by name."""
    found = _load().plumb_signature(str(op).encode())
    if found is None:
        raise __getattr__("Trouble")(_load().plumb_last_error().decode())
    return found.decode()


def version():
    """That of the library."""
    return _load().plumb_version().decode()
