"""judge, bound and assert_within."""

import ctypes
from dataclasses import dataclass, field
from typing import List, NamedTuple, Optional, Tuple

import numpy

from . import _library, _tensors


class Trouble(ValueError):
    """There is no verdict: the sentence says why, and what to do."""

    code = _library.TROUBLE


class Term(NamedTuple):
    """A term of a bound."""

    name: str
    formula: str
    size: float


@dataclass
class Element:
    """An element of an output, beside what it should be."""

    output: str
    place: Tuple[int, ...]
    found: float
    value: float
    bound: float  # under "moments" the standard deviation
    bias: float  # of "moments", else 0
    ratio: float  # |found - value| / bound


@dataclass
class Output:
    """What was found in one output."""

    name: str
    format: str
    elements: int
    outside: int
    not_finite: int
    worst: Optional[Element]
    terms: List[Term]  # of the bound of the worst element
    value: Optional[numpy.ndarray] = field(default=None, repr=False)  # with arrays=True
    bound: Optional[numpy.ndarray] = field(default=None, repr=False)
    bias: Optional[numpy.ndarray] = field(default=None, repr=False)


@dataclass(repr=False)
class Judged:
    """A verdict. str() explains it, bool() says whether it is a pass."""

    code: int  # 0 all inside, 1 an element outside, 3 nothing was there to judge
    elements: int
    outside: int
    not_finite: int
    worst: Optional[Element]  # of all outputs
    terms: List[Term]
    assumes: str
    rows: int  # judged, of so many
    of_rows: int
    outputs: List[Output]
    explanation: str

    def __bool__(self):
        return self.code == _library.PASS

    def __str__(self):
        return self.explanation

    __repr__ = __str__


class _Asked:
    """A call and all that it points to."""

    def __init__(self, op, inputs, machine, mode, format, input_format, delta, rows, seed, attributes):
        self.inputs = _tensors.named(inputs, "input")
        self.call = _library.Call(
            operation=_encoded(op), machine=_encoded(machine), mode=_encoded(mode), format=_encoded(format),
            input_format=_encoded(input_format), delta=_number("delta", 0 if delta is None else delta),
            rows=_whole("rows", 0 if rows is None else rows),
            seed=_whole("seed", bool(rows) if seed is None else seed))
        self.call.inputs, self.call.input_count = _tensors.array_of([x.described(name) for name, x in self.inputs])
        given = [_library.Attribute(_encoded(name), _number(name, x)) for name, x in attributes.items()]
        self.call.attributes, self.call.attribute_count = (_library.Attribute * len(given))(*given), len(given)

    def shapes(self):
        """Of all outputs, by the inputs'."""
        shapes, rows, columns = [], ctypes.c_size_t(), ctypes.c_size_t()
        while True:
            code = _library.library().plumb_shape(self.call, len(shapes), rows, columns)
            if code == _library.TROUBLE:
                raise Trouble(_library.library().plumb_last_error().decode())
            if code == _library.NOTHING:
                return shapes
            shapes.append((rows.value, columns.value))

    def run(self, function, outputs):
        """`outputs`: (struct, shape, arrays to be filled) of each."""
        for tensor, _, arrays in outputs:
            for name, array in arrays.items():
                setattr(tensor, name, array.ctypes.data if array.size else None)
        self.call.outputs, self.call.output_count = _tensors.array_of([tensor for tensor, _, _ in outputs])
        result = _library.Result()
        code = getattr(_library.library(), function)(self.call, result)
        try:
            if code == _library.TROUBLE:
                raise Trouble(result.explanation.decode())
            return _judged(result, outputs)
        finally:
            _library.library().plumb_free(result)


def _encoded(text):
    if text is None:
        return None
    if hasattr(text, "__fspath__"):
        text = text.__fspath__()
    if isinstance(text, str) and "\0" not in text:  # where the library would end it
        return text.encode()
    raise TypeError(f"a name was expected, found {text!r}")


def _number(name, x):
    try:
        return float(x)
    except (TypeError, ValueError):
        raise TypeError(f"{name} is a number, found {x!r}") from None


def _whole(name, x):
    if 0 <= _number(name, x) < 1 << 64 and int(x) == x:
        return int(x)
    raise ValueError(f"{name} is a whole number from 0 on, found {x!r}")


def _arrays(shape, mode):
    return {name: numpy.empty(shape) for name in ("value", "bound") + (("bias",) if mode == "moments" else ())}


def _output(at, shape, arrays):
    """One output, as Python has it: nothing of it is the library's any more."""
    name = at.name.decode()
    worst = None
    if numpy.prod(shape, dtype=object):
        place = tuple(int(i) for i in numpy.unravel_index(at.worst_element, shape)) if shape else ()
        worst = Element(name, place, at.found, at.value, at.bound, at.bias, at.worst_ratio)
    terms = [Term(t.name.decode(), t.formula.decode(), t.size) for t in at.terms[:at.term_count]]
    return Output(name, at.format.decode(), at.elements, at.outside, at.not_finite, worst, terms, **arrays)


def _judged(result, given):
    outputs = [_output(result.outputs[i], shape, arrays) for i, (_, shape, arrays) in enumerate(given)]
    worst = outputs[result.worst_output]
    return Judged(result.code, result.elements, result.outside, result.not_finite, worst.worst, worst.terms,
                  result.assumes.decode(), result.rows, result.of_rows, outputs, result.explanation.decode().rstrip())


def _merged(attributes, more):
    merged = dict(attributes or {})
    for name, x in more.items():
        if name in merged:
            raise TypeError(f"the attribute {name} is given twice; leave one out")
        merged[name] = x
    return merged


def judge(op, inputs, output, *, machine="libraries", mode="deterministic", format=None, input_format=None,
          delta=None, rows=None, seed=None, attributes=None, arrays=False, **more):
    """Holds each element of `output` against the bound that operation `op` has for these inputs.

    inputs, output  arrays by the operation's names (a dict), in its order (a list), or one array: of numpy, ml_dtypes
                    or PyTorch, or codes(). All dimensions but the last are rows.
    machine         a card ("libraries", "ieee", "ieee-sequential", "h100" ...), or the file of one
    mode            "deterministic", or "probabilistic" and "moments", whose failure probability is `delta`
    format          of output that is held wider, as "bf16" in FP32; input_format: of a product's inputs
    rows, seed      judge so many rows, drawn by chance; the seed is 1 if not said
    arrays          keep value and bound of each element, in Judged.outputs
    **more          attributes of the operation, as eps=1e-5; `attributes`: those whose names are taken here

    Returns a Judged. Raises Trouble, with a sentence, where no verdict can be given.
    """
    asked = _Asked(op, inputs, machine, mode, format, input_format, delta, rows, seed, _merged(attributes, more))
    given = _tensors.named(output, "output")
    return asked.run("plumb_judge", [(x.described(name), x.shape, _arrays(x.shape, mode) if arrays else {})
                                     for name, x in given])


def bound(op, inputs, *, format=None, machine="libraries", mode="deterministic", input_format=None, delta=None,
          rows=None, seed=None, attributes=None, **more):
    """(value, bound): the exact result for these inputs, and how far a kernel may be from it, as arrays.

    `format`: of the result, "fp32" if not said; all else is as of judge(). Under mode="moments" (value, standard
    deviation, bias). Of an operation with several outputs a list of these. Rows that were not drawn are NaN.
    """
    asked = _Asked(op, inputs, machine, mode, format, input_format, delta, rows, seed, _merged(attributes, more))
    outputs = []
    for shape in asked.shapes():
        like = asked.inputs[0][1].shape  # a batch stays one
        if len(like) > 2 and shape[0] == numpy.prod(like[:-1], dtype=int):
            shape = like[:-1] + (shape[1],)
        tensor = _library.Tensor(format=b"fp32", dimensions=len(shape))
        tensor.shape[:len(shape)] = shape
        outputs.append((tensor, shape, _arrays(shape, mode)))
    asked.run("plumb_bound", outputs)
    found = [tuple(arrays.values()) for _, _, arrays in outputs]
    return found[0] if len(found) == 1 else found


def assert_within(op, inputs, actual, **asked):
    """Raises AssertionError, explained, unless all of `actual` is within its bounds. Else as judge(), which it returns.

    Where nothing could have failed it raises, too: such a test would never fail.
    """
    __tracebackhide__ = True  # pytest then shows the line of the test
    judged = judge(op, inputs, actual, **asked)
    if not judged:
        raise AssertionError("\n" + str(judged))
    return judged
