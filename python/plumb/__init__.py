"""A kernel's outputs, held against error bounds that are derived for its own inputs.

    plumb.assert_within("softmax", x, my_softmax(x))

judge() gives the verdict as an object, bound() the arrays of values and bounds. README.md has more.
"""

from ._judge import Element, Judged, Output, Term, Trouble, assert_within, bound, judge
from ._library import library as _load
from ._library import names as _names
from ._tensors import codes

__all__ = ["Element", "Judged", "Output", "Term", "Trouble", "assert_within", "bound", "codes", "judge",
           "machines", "operations", "signature", "version"]


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
        raise Trouble(_load().plumb_last_error().decode())
    return found.decode()


def version():
    """That of the library."""
    return _load().plumb_version().decode()
