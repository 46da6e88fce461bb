"""Does the Python package give the verdicts of plumb judge, of every kind of array, and refuse in one sentence?

Runs by itself: PYTHONPATH=python PLUMB_LIBRARY=build/c python3 tests/python/package_test.py
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)

import plumbline as plumb
from plumbline import _library

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    if os.environ.get("PLUMB_TEST_TORCH"):
        import torch
    else:
        torch = None
except ImportError:
    torch = None


def normal(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def in_lanes(terms):
    """The sums of rows in FP32, by eight lanes and a tree over them."""
    lanes = np.zeros(terms.shape[:-1] + (8,), np.float32)
    for j in range(0, terms.shape[-1], 8):
        lanes += terms[..., j:j + 8]
    while lanes.shape[-1] > 1:
        lanes = lanes[..., :lanes.shape[-1] // 2] + lanes[..., lanes.shape[-1] // 2:]
    return lanes[..., 0]


def softmax(x, forgotten=None):
    e = np.exp(x - x.max(-1, keepdims=True))
    counted = e.copy()
    if forgotten is not None:
        counted[forgotten] = 0
    return e / in_lanes(counted)[..., None]


def layer_norm(x, w, b, eps, inside=True):
    n = np.float32(x.shape[-1])
    off = x - (in_lanes(x) / n)[..., None]
    variance = (in_lanes(off * off) / n)[..., None]
    eps = np.float32(eps)
    r = 1 / np.sqrt(variance + eps) if inside else 1 / (np.sqrt(variance) + eps)
    return off * r * w + b


def product(a, b, wrong=None):
    """In blocks of 128 of K; element `wrong` takes its third one again instead of the fourth."""
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for k in range(0, a.shape[1], 128):
        c += a[:, k:k + 128] @ b[k:k + 128]
    if wrong is not None:
        i, j = wrong
        c[i, j] += a[i, 256:384] @ b[256:384, j] - a[i, 384:512] @ b[384:512, j]
    return c


def bf16_codes(x):
    """Rounded to nearest even, by hand."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def of_bf16(codes):
    return (codes.astype(np.uint32) << 16).view(np.float32)


def to_e4m3(x):
    """Of numbers below 448, by hand."""
    spacing = np.exp2(np.maximum(np.floor(np.log2(np.maximum(np.abs(x), 1e-30))), -6) - 3)
    return (np.round(x / spacing) * spacing).astype(np.float32)


class Verdicts(unittest.TestCase):
    def test_a_forgotten_key_of_4096_is_found(self):
        x = normal((2, 4, 4096), 1)
        heaviest = (1, 1, int(x[1, 1].argmax()))
        for machine in "libraries", "ieee", "ieee-pairwise":
            self.assertEqual(plumb.judge("softmax", x, softmax(x), machine=machine).code, 0)
        found = plumb.judge("softmax", x, softmax(x, heaviest), machine="ieee")
        self.assertEqual(found.code, 1)
        self.assertEqual(found.worst.place[:2], (1, 1))
        self.assertGreater(found.worst.ratio, 1)
        any_key = plumb.judge("softmax", x, softmax(x, (1, 1, 17)), machine="ieee-pairwise")
        self.assertEqual((any_key.code, any_key.worst.place[:2]), (1, (1, 1)))
        self.assertIn("worst: p[1, 1, ", str(found))
        self.assertFalse(found)

    def test_a_wrong_block_of_a_product_is_found(self):
        a, b = normal((6, 1024), 3), normal((1024, 10), 4)
        self.assertTrue(plumb.judge("gemm", [a, b], product(a, b)))
        found = plumb.judge("gemm", {"B": b, "A": a}, product(a, b, (2, 7)))
        self.assertEqual((found.code, found.outside, found.worst.place), (1, 1, (2, 7)))
        self.assertEqual(found.worst.found, float(product(a, b, (2, 7))[2, 7]))
        self.assertAlmostEqual(sum(t.size for t in found.terms) / found.worst.bound, 1, places=9)
        self.assertTrue(plumb.judge("gemm", [a.T.copy(), b], product(a, b), transpose_a=True))

    def test_an_epsilon_outside_of_the_root_is_found(self):
        x, w, b = normal((16, 256), 5) * np.float32(0.02), normal(256, 6), normal(256, 7)
        eps = float(np.float32(1e-5))
        plumb.assert_within("layernorm", [x, w, b], layer_norm(x, w, b, eps), eps=eps)
        with self.assertRaises(AssertionError) as raised:
            plumb.assert_within("layernorm", {"x": x, "w": w, "b": b}, layer_norm(x, w, b, eps, inside=False), eps=eps)
        for word in "layernorm on libraries", "verdict: FAIL", "worst: y[", "exactly", "bound", "of that":
            self.assertIn(word, str(raised.exception))

    def test_a_stale_scale_of_a_cast_is_found(self):
        x, scale = normal((4, 64), 8), np.float32(64)
        inputs = {"x": x, "s": scale}
        self.assertTrue(plumb.judge("quantize", inputs, to_e4m3(x * scale) / scale, format="e4m3fn"))
        stale = plumb.judge("quantize", inputs, to_e4m3(x * scale) / (scale / 2), format="e4m3fn")
        self.assertEqual(stale.code, 1)
        self.assertGreater(stale.outside, 250)

    def test_a_nan_is_worse_than_all_else_and_nothing_is_no_pass(self):
        x = normal((4, 8), 9)
        p = softmax(x)
        p[0, 3], p[2, 4] = 7, np.nan
        found = plumb.judge("softmax", x, p)
        self.assertEqual((found.outside, found.not_finite, found.worst.place), (2, 1, (2, 4)))
        none = plumb.judge("softmax", x[:0], p[:0])
        self.assertEqual((none.code, bool(none), none.worst), (3, False, None))
        with self.assertRaises(AssertionError):
            plumb.assert_within("softmax", x[:0], p[:0])

    def test_several_outputs_stand_in_the_order_of_the_call(self):
        x, w, dy = normal((64, 16), 1), normal(16, 2), normal((64, 16), 3)
        (dw, _), (db, _) = plumb.bound("layernorm_wgrad", [x, w, dy], eps=1e-5)
        dw, db = dw.astype(np.float32), db.astype(np.float32)
        sound = plumb.judge("layernorm_wgrad", [x, w, dy], {"db": db, "dw": dw}, eps=1e-5)
        self.assertEqual([y.name for y in sound.outputs], ["db", "dw"])
        self.assertTrue(sound)
        dw[3] += 1
        found = plumb.judge("layernorm_wgrad", [x, w, dy], {"db": db, "dw": dw}, eps=1e-5)
        self.assertEqual((found.worst.output, found.worst.place, found.outputs[0].outside), ("dw", (3, 0), 0))


class Bounds(unittest.TestCase):
    def test_are_value_and_bound_of_each_element(self):
        x = normal((3, 5, 64), 1)
        value, bound = plumb.bound("softmax", x)
        exact = np.exp(x.astype(float) - x.max(-1, keepdims=True))
        exact /= exact.sum(-1, keepdims=True)
        self.assertEqual(value.shape, x.shape)
        np.testing.assert_allclose(value, exact, rtol=1e-12)
        p = softmax(x)
        judged = plumb.judge("softmax", x, p, arrays=True)
        np.testing.assert_array_equal(judged.outputs[0].value, value)
        np.testing.assert_array_equal(judged.outputs[0].bound, bound)
        self.assertAlmostEqual((abs(p - value) / bound).max() / judged.worst.ratio, 1, places=9)

    def test_depend_on_format_machine_and_mode(self):
        a, b = normal((8, 256), 1), normal((256, 8), 2)
        _, wide = plumb.bound("gemm", [a, b])
        _, short = plumb.bound("gemm", [a, b], format="bf16")
        self.assertTrue((short > wide).all())
        _, known = plumb.bound("gemm", [a, b], machine="ieee-pairwise")
        self.assertTrue((known < wide).all())
        _, likely = plumb.bound("gemm", [a, b], mode="probabilistic", delta=1e-6)
        self.assertTrue((likely < wide).all())
        _, surer = plumb.bound("gemm", [a, b], mode="probabilistic", delta=1e-12)
        self.assertTrue((likely < surer).all())
        moments = plumb.bound("gemm", [a, b], mode="moments", machine="ieee-sequential")
        self.assertEqual(len(moments), 3)
        self.assertTrue((moments[1] < known).all())

    def test_of_drawn_rows_leave_the_others_out(self):
        x = normal((64, 16), 1)
        _, bound = plumb.bound("softmax", x, rows=5, seed=3)
        self.assertEqual((~np.isnan(bound)).all(-1).sum(), 5)
        self.assertEqual(np.isnan(bound).all(-1).sum(), 59)
        _, others = plumb.bound("softmax", x, rows=5, seed=4)
        self.assertTrue((np.isnan(others) != np.isnan(bound)).any())
        judged = plumb.judge("softmax", x, softmax(x), rows=5, seed=3)
        self.assertEqual((judged.rows, judged.of_rows, judged.elements), (5, 64, 80))


class StandIn:
    """Has what the package asks of a tensor of PyTorch, which need not be installed here."""

    def __init__(self, array, dtype):
        self.array, self.dtype, self.layout = array, "torch." + dtype, "torch.strided"
        self.shape = array.shape

    def detach(self):
        return self

    cpu = resolve_neg = detach

    def dim(self):
        return self.array.ndim

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def data_ptr(self):
        return self.array.ctypes.data

    def contiguous(self):
        self.array = np.ascontiguousarray(self.array)
        return self


class Arrays(unittest.TestCase):
    def same(self, x, p, other_x, other_p, **asked):
        one, other = (plumb.judge("softmax", *pair, **asked) for pair in ((x, p), (other_x, other_p)))
        self.assertEqual((one.code, one.worst.ratio, one.worst.found), (other.code, other.worst.ratio, other.worst.found))
        self.assertEqual(one.worst.ratio > 0, True)

    def test_of_any_strides_are_read_where_they_are(self):
        x = normal((12, 64), 1)
        p = softmax(x)
        self.same(x, p, np.asfortranarray(x), p)
        wide = np.full((12, 130), np.nan, np.float32)
        wide[:, 1:129:2] = x
        self.same(x, p, wide[:, 1:129:2], p)
        self.same(x, p, x[::-1].copy()[::-1], np.asfortranarray(p))
        self.same(x, p, x.astype(">f4"), p.astype(">f4"))
        self.same(x, p, [x.astype(np.float64).tolist()], p.astype(np.float64))
        self.same(x, p, x.reshape(1, 2, 1, 3, 1, 1, 2, 1, 64), p.reshape(1, 2, 1, 3, 1, 1, 2, 1, 64))
        odd = np.zeros((12, 64), [("a", np.uint8), ("x", np.float32)])
        odd["x"] = x
        self.same(x, p, odd["x"], p)
        x.flags.writeable = False
        self.same(x, p, x, p)
        row = softmax(x[:1])
        self.same(np.repeat(x[:1], 5, 0), np.repeat(row, 5, 0), np.broadcast_to(x[:1], (5, 64)),
                  np.broadcast_to(row, (5, 64)))
        self.assertTrue(plumb.judge("softmax", np.broadcast_to(np.float32(1), (3, 4)), np.full((3, 4), 0.25)))
        self.assertEqual(plumb.judge("softmax", x[0], softmax(x[0])).worst.place, plumb.judge(
            "softmax", x[:1], softmax(x[:1])).worst.place[1:])

    def test_of_short_numbers_are_judged_in_their_format(self):
        a, b = bf16_codes(normal((6, 512), 1)), bf16_codes(normal((512, 8), 2))
        c = bf16_codes(product(of_bf16(a), of_bf16(b)))
        found = plumb.judge("gemm", [plumb.codes(x, "bf16") for x in (a, b)], plumb.codes(c, "bf16"))
        self.assertEqual((found.code, found.outputs[0].format), (0, "bf16"))
        c[1, 2] += 1
        worse = plumb.judge("gemm", [of_bf16(a), of_bf16(b)], of_bf16(c), format="bf16", input_format="bf16")
        self.assertEqual((worse.code, worse.worst.place), (1, (1, 2)))
        with self.assertRaises(plumb.Trouble) as raised:  # the unit multiplies no FP32
            plumb.judge("gemm", [of_bf16(a), of_bf16(b)], of_bf16(c), format="bf16", machine="h100")
        self.assertIn("no matrix unit for fp32", str(raised.exception))
        unit = plumb.judge("gemm", [of_bf16(a), of_bf16(b)], of_bf16(c), format="bf16", input_format="bf16",
                           machine="h100")
        self.assertEqual(unit.worst.place, (1, 2))
        standing = [StandIn(x, "bfloat16") for x in (a, np.asfortranarray(b), c)]
        self.assertEqual(str(plumb.judge("gemm", standing[:2], standing[2])),
                         str(plumb.judge("gemm", [plumb.codes(x, "bf16") for x in (a, b)], plumb.codes(c, "bf16"))))

    def test_of_pytorch_are_known_without_importing_it(self):
        self.assertTrue(torch is not None or "torch" not in sys.modules)

    @unittest.skipIf(ml_dtypes is None, "ml_dtypes is not installed")
    def test_of_ml_dtypes_hold_what_their_types_say(self):
        x = normal((8, 64), 1)
        for name, format in (("bfloat16", "bf16"), ("float8_e4m3fn", "e4m3fn"), ("float8_e5m2", "e5m2"),
                             ("float8_e4m3fnuz", "e4m3fnuz"), ("float8_e5m2fnuz", "e5m2fnuz"),
                             ("float4_e2m1fn", "e2m1"), ("float6_e2m3fn", "e2m3"), ("float6_e3m2fn", "e3m2")):
            y = x.astype(getattr(ml_dtypes, name))
            found = plumb.judge("cast", x, y)
            self.assertEqual((found.code, found.outputs[0].format), (0, format), name)
            self.assertEqual(found.worst.found, float(y[found.worst.place]), name)

    @unittest.skipIf(torch is None, "PLUMB_TEST_TORCH is not set, or PyTorch not installed")
    def test_of_pytorch_are_judged_where_they_are(self):
        torch.manual_seed(1)
        a, b = torch.randn(16, 256).bfloat16(), torch.randn(8, 256).bfloat16()
        self.assertTrue(plumb.judge("gemm", [a, b.T], a @ b.T))
        self.assertTrue(plumb.judge("gemm", {"A": a, "B": b}, a @ b.T, transpose_b=True))
        for kind in torch.float8_e4m3fn, torch.float8_e5m2, torch.float16:
            self.assertTrue(plumb.judge("cast", a.float(), a.float().to(kind)))
        x, w = torch.randn(4, 16, 256), torch.nn.Parameter(torch.randn(256))
        y = torch.nn.functional.layer_norm(x, (256,), w, w, 1e-5)
        self.assertTrue(plumb.judge("layernorm", [x, w, w], y, eps=1e-5))
        one = torch.ones(1)
        self.assertTrue(plumb.judge("softmax", one.expand(3, 4), (one / 4).expand(3, 4)))
        self.assertTrue(plumb.judge("scale", [x[0], torch.tensor(3.0)], x[0] * 3))
        with self.assertRaises(TypeError):
            plumb.judge("softmax", x[0].to_sparse(), y[0])


class Sentences(unittest.TestCase):
    def refused(self, kind, because, *given, **asked):
        with self.assertRaises(kind) as raised:
            plumb.judge(*given, **asked)
        self.assertIn(because, str(raised.exception))
        self.assertNotIn("\n", str(raised.exception))

    def test_say_what_to_mend(self):
        x = normal((8, 8), 1)
        p = softmax(x)
        self.refused(plumb.Trouble, "did you mean softmax?", "sofmax", x, p)
        self.refused(plumb.Trouble, "unknown machine 'h200'", "softmax", x, p, machine="h200")
        self.refused(plumb.Trouble, "unknown mode", "softmax", x, p, mode="sure")
        self.refused(plumb.Trouble, "unknown format", "softmax", x, p, format="float16")
        self.refused(plumb.Trouble, "makes 8 x 8; give that", "softmax", x, p[:4])
        self.refused(plumb.Trouble, "needs the attribute eps", "layernorm", [x, x[0], x[0]], p)
        self.refused(plumb.Trouble, "softmax has no 'y'; it has x", "softmax", {"y": x}, p)
        self.refused(plumb.Trouble, "which FP32 does not have", "softmax", x.astype(float) + 0.1, p)
        self.refused(plumb.Trouble, "is nan, and bounds are for finite inputs", "softmax", x * np.float32(np.nan), p)
        self.refused(plumb.Trouble, "no attribute 'eps'", "softmax", x, p, eps=1)
        self.refused(TypeError, "eps is a number, found 'small'", "softmax", x, p, eps="small")
        self.refused(TypeError, "the attribute eps is given twice", "softmax", x, p, attributes={"eps": 1}, eps=1)
        self.refused(TypeError, "input 0 is of type complex64", "softmax", x.astype(np.complex64), p)
        self.refused(TypeError, "input 'x' is of type object", "softmax", {"x": None}, p)
        self.refused(ValueError, "rows is a whole number", "softmax", x, p, rows=2.5)
        self.refused(ValueError, "rows is a whole number", "softmax", x, p, rows=float("nan"))
        self.refused(plumb.Trouble, "seed draws its rows", "softmax", x, p, seed=2)
        self.refused(plumb.Trouble, "leave delta out", "softmax", x, p, delta=1e-3)
        self.refused(plumb.Trouble, "softmax is none", "softmax", x, p, input_format="bf16")
        self.refused(TypeError, "is masked", "softmax", np.ma.masked_array(x, mask=x > 0), p)
        self.refused(TypeError, "a name was expected", "softmax\0gemm", x, p)
        self.refused(TypeError, "a name was expected", 7, x, p)
        with self.assertRaises(TypeError):
            plumb.codes(x, "bf16")
        with self.assertRaises(ValueError):
            plumb.codes(x, "fp32")

    def test_know_names(self):
        self.assertIn("layernorm", plumb.operations())
        self.assertIn("h100", plumb.machines())
        self.assertEqual(plumb.signature("softmax"), "softmax: x (T, N) -> p (T, N)")
        with self.assertRaises(plumb.Trouble):
            plumb.signature("sofmax")
        self.assertRegex(plumb.version(), r"^\d+\.\d+\.\d+$")


class Library(unittest.TestCase):
    def test_gives_threads_what_it_gives_one(self):
        x = [normal((8, 512), seed) for seed in range(16)]
        p = [softmax(each, (2, 5) if seed % 3 == 0 else None) for seed, each in enumerate(x)]
        alone = [str(plumb.judge("softmax", *pair, machine="ieee-pairwise")) for pair in zip(x, p)]
        together = [None] * len(x)

        def judge(i):
            together[i] = str(plumb.judge("softmax", x[i], p[i], machine="ieee-pairwise"))

        threads = [threading.Thread(target=judge, args=(i,)) for i in range(len(x))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(alone, together)
        self.assertEqual(sum("FAIL" in each for each in alone), 6)

    def run_python(self, text, **environment):
        folder = pathlib.Path(plumb.__file__).parent.parent
        return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(folder), **environment})

    def test_that_is_none_is_refused_in_one_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            wrong = pathlib.Path(folder) / "libplumb.so"
            for text in None, "no library":
                if text:
                    wrong.write_text(text)
                ran = self.run_python("import plumbline; plumbline.machines()", PLUMB_LIBRARY=str(wrong))
                self.assertEqual(ran.returncode, 1)
                said = ran.stderr.strip().splitlines()[-1]
                self.assertIn("ImportError: ", said)
                self.assertIn("PLUMB_LIBRARY", said)

    def test_is_not_loaded_by_the_import_alone(self):
        self.assertEqual(self.run_python("import plumbline", PLUMB_LIBRARY="nowhere").returncode, 0)

    def test_has_the_structs_of_the_header(self):
        """Each field of c/plumb.h, in its order."""
        header = pathlib.Path(__file__).resolve().parents[2] / "c" / "plumb.h"
        text = re.sub(r"/\*.*?\*/", "", header.read_text(), flags=re.S)
        structs = re.findall(r"typedef struct \w+ \{(.*?)\} plumb_(\w+);", text, flags=re.S)
        for body, name in structs:
            fields = [re.sub(r"\[.*\]", "", word).strip(" *") for line in body.split(";") if line.strip()
                      for word in re.sub(r"^\s*(const )?\w+[ *]+", "", line).split(",")]
            mine = [field[0] for field in getattr(_library, name.capitalize())._fields_]
            self.assertEqual(fields, mine, name)
        self.assertEqual(len(structs), 6)
        self.assertIn(f"#define PLUMB_ABI {_library.ABI}\n", header.read_text())
        self.assertIn(f"#define PLUMB_DIMENSIONS {_library.DIMENSIONS}\n", header.read_text())


StandIn.__module__, StandIn.__name__ = "torch", "Tensor"

if __name__ == "__main__":
    unittest.main()
