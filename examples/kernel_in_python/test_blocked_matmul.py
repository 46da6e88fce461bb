"""A blocked product as a Triton kernel has it, one program a tile, and its test.

No GPU is needed: the programs are numpy functions that are called one after the other with their program ids. A
kernel of Triton or CUDA is tested in the same way: what it got and what it made are given to plumb, as tensors of
PyTorch, on the card of its GPU (machine="h100") or, where nobody knows its order of sums, on "libraries".
"""

import sys
import unittest

try:
    import numpy as np
except ImportError:
    print("skipped: numpy is not installed")
    sys.exit(77)

import plumbline as plumb

BLOCK_M, BLOCK_N, BLOCK_K = 32, 32, 64


def matmul_program(pid, a, b, c, mistake):
    """The program `pid`: one tile of C, the sum over blocks of K kept in FP32."""
    columns = c.shape[1] // BLOCK_N
    rows = slice(pid // columns * BLOCK_M, (pid // columns + 1) * BLOCK_M)
    cols = slice(pid % columns * BLOCK_N, (pid % columns + 1) * BLOCK_N)
    accumulator = np.zeros((BLOCK_M, BLOCK_N), np.float32)
    blocks = a.shape[1] // BLOCK_K
    for k in range(blocks):
        # The mistake: one program does not move its pointers before the last block.
        at = k - 1 if mistake and pid == 5 and k == blocks - 1 else k
        block = slice(at * BLOCK_K, (at + 1) * BLOCK_K)
        accumulator += a[rows, block] @ b[block, cols]
    c[rows, cols] = accumulator


def matmul(a, b, mistake=False):
    c = np.full((a.shape[0], b.shape[1]), np.nan, np.float32)  # what no program writes is seen
    for pid in range(c.shape[0] // BLOCK_M * (c.shape[1] // BLOCK_N)):
        matmul_program(pid, a, b, c, mistake)
    return c


def quantized(x, scale, read_with=None):
    """Cast to E4M3 with a scale, and read again; the mistake is to read with the scale of another step."""
    scaled = x * scale
    spacing = np.exp2(np.maximum(np.floor(np.log2(np.maximum(np.abs(scaled), 1e-30))), -6) - 3)
    return (np.round(scaled / spacing) * spacing).astype(np.float32) / (read_with or scale)


def layer_norm(x, w, b, eps, inside=True):
    """The mistake is an epsilon that stands outside of the root."""
    off = x - x.mean(axis=-1, keepdims=True)
    variance = (off * off).mean(axis=-1, keepdims=True)
    return off / (np.sqrt(variance + eps) if inside else np.sqrt(variance) + eps) * w + b


def drawn(shape, seed):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def test_matmul():
    a, b = drawn((128, 512), 1), drawn((512, 96), 2)
    plumb.assert_within("gemm", {"A": a, "B": b}, matmul(a, b))


def test_a_wrong_block_is_found_and_the_tile_named():
    a, b = drawn((128, 512), 1), drawn((512, 96), 2)
    found = plumb.judge("gemm", {"A": a, "B": b}, matmul(a, b, mistake=True), arrays=True)
    assert found.code == 1, found
    c, (y,) = matmul(a, b, mistake=True), found.outputs
    rows, cols = np.nonzero(abs(c - y.value) > y.bound)
    tiles = set(zip((rows // BLOCK_M).tolist(), (cols // BLOCK_N).tolist()))
    assert tiles == {(1, 2)}  # program 5 of 4 x 3


def test_a_stale_scale_is_found():
    x, scale = drawn((64, 64), 3), np.float32(64)
    plumb.assert_within("quantize", {"x": x, "s": scale}, quantized(x, scale), format="e4m3fn")
    stale = plumb.judge("quantize", {"x": x, "s": scale}, quantized(x, scale, read_with=scale / 2), format="e4m3fn")
    assert stale.code == 1, stale


def test_an_epsilon_outside_of_the_root_is_found():
    x, w, b, eps = drawn((32, 256), 4) * np.float32(0.02), drawn(256, 5), drawn(256, 6), np.float32(1e-5)
    plumb.assert_within("layernorm", [x, w, b], layer_norm(x, w, b, eps), eps=eps)
    outside = plumb.judge("layernorm", [x, w, b], layer_norm(x, w, b, eps, inside=False), eps=eps)
    assert outside.code == 1, outside


def load_tests(loader, tests, pattern):
    """For unittest, which finds no functions by itself."""
    return unittest.TestSuite(unittest.FunctionTestCase(f) for name, f in globals().items() if name.startswith("test_"))


if __name__ == "__main__":
    unittest.main()
