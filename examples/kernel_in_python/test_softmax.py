"""A kernel's test in Python: a softmax in FP32, held against the bound for the test's own inputs.

    pytest examples/kernel_in_python          or
    python3 examples/kernel_in_python/test_softmax.py
"""

import pathlib
import sys
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)

import plumbline as plumb

# What is known of this kernel: the order of its sums, its formula, numpy's exponential.
TREE = pathlib.Path(__file__).parent / "tree.json"


def by_halves(x):
    """The sums of rows of 2^n numbers, as a balanced tree."""
    while x.shape[-1] > 1:
        x = x[..., 0::2] + x[..., 1::2]
    return x


def softmax(x, forgotten=None):
    """The kernel under test. `forgotten`: a key that the mask leaves out of one row's sum by mistake."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    counted = e.copy()
    if forgotten is not None:
        counted[forgotten] = 0
    return e / by_halves(counted)


def logits():
    return np.random.default_rng(1).standard_normal((8, 4096), dtype=np.float32)


def test_softmax():
    """Whatever the order of its sums is, and its exponential: on the card "libraries"."""
    x = logits()
    plumb.assert_within("softmax", x, softmax(x))


def test_softmax_as_it_is_known():
    """A card that says more allows less: less than a thousandth, here."""
    x = logits()
    judged = plumb.assert_within("softmax", x, softmax(x), machine=TREE)
    _, wide = plumb.bound("softmax", x)
    _, narrow = plumb.bound("softmax", x, machine=TREE)
    assert judged.worst.ratio < 1
    assert (narrow < wide / 1000).all()


def test_a_forgotten_key_is_found():
    """Any of 4096, though what is left is within two parts in a thousand."""
    x = logits()
    wrong = softmax(x, forgotten=(5, 17))
    np.testing.assert_allclose(wrong, softmax(x), rtol=2e-3)
    found = plumb.judge("softmax", x, wrong, machine=TREE)
    assert found.code == 1, found
    assert found.worst.place[0] == 5
    assert found.outside <= 4096  # of that row


def test_the_failure_explains_itself():
    x = logits()
    try:
        plumb.assert_within("softmax", x, softmax(x, forgotten=(5, 17)), machine=TREE)
    except AssertionError as failure:
        assert "worst: p[5, " in str(failure)
        assert "sums in the order of the machine, pairwise" in str(failure)
    else:
        raise AssertionError("a forgotten key passed")


def load_tests(loader, tests, pattern):
    """For unittest, which finds no functions by itself."""
    return unittest.TestSuite(unittest.FunctionTestCase(f) for name, f in globals().items() if name.startswith("test_"))


if __name__ == "__main__":
    unittest.main()
