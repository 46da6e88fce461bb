#!/usr/bin/env python3
"""What another program says that matrix units compute, bit for bit: inputs and results for tests/kernels/oracle_test.cpp.

The package mmasim [MMA-Sim] models the matrix units of NVIDIA V100 to B200 and AMD CDNA1 to CDNA3. This draws inputs of
nine kinds in every format, has it multiply them, and writes codes of inputs and bits of results as one file of the
safetensors format, whose metadata say how it was made. Returns 77 where mmasim is not installed.

    oracle.py -o experiments/oracle/mmasim.safetensors [--seed N] [--check]

--check compares with the file that is there, and returns 1 if a bit differs.
"""
import argparse, json, os, platform, struct, sys

try:
    import ml_dtypes, numpy as np, torch
    from importlib.metadata import version
except ImportError as missing:
    print(f"{missing.name} is not installed: pip install torch numpy ml_dtypes")
    sys.exit(77)
try:
    from mmasim.amd import MFMA
    from mmasim.nv_ptx import MMA, MMABlockScale, TCGen05MMA, TCGen05MMABlockScale, WGMMA
except ImportError:  # device.py draws inputs without it
    MMA = None

rows, cols = 14, 14  # of each kind: so many dot products

# name: type of numpy, of torch, bits of a code; exponents of the smallest and of a large number, fraction bits; length
formats = {
    "fp16": (np.float16, torch.float16, 16, -14, 7, 10, 64),
    "bf16": (ml_dtypes.bfloat16, torch.bfloat16, 16, -126, 60, 7, 64),
    "tf32": (np.float32, torch.float32, 32, -126, 60, 10, 48),
    "e4m3fn": (ml_dtypes.float8_e4m3fn, torch.float8_e4m3fn, 8, -6, 5, 3, 96),
    "e5m2": (ml_dtypes.float8_e5m2, torch.float8_e5m2, 8, -14, 6, 2, 96),
    "e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, torch.float8_e4m3fnuz, 8, -7, 5, 3, 96),
    "e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, torch.float8_e5m2fnuz, 8, -15, 6, 2, 96),
    "e3m2": (ml_dtypes.float6_e3m2fn, torch.uint8, 8, -2, 3, 2, 96),
    "e2m3": (ml_dtypes.float6_e2m3fn, torch.uint8, 8, 0, 1, 3, 96),
    "e2m1": (ml_dtypes.float4_e2m1fn, torch.uint8, 8, 0, 1, 1, 96),
}
kinds = ["normal", "positive", "wide", "cancelling", "subnormal", "tiny", "zeros", "extreme", "faint"]


# What only the last bits of a unit tell apart: a tie of the result, and a product that breaks it if it is not cut. Even
# rows: in one step, of sums in FP16. Odd rows: after a step with one large product, of sums in FP32. Exponents of a and b:
# of the large product, of the tie, of what breaks it (of a from the first on, row by row, so many).
faint = {
    "fp16": ((None, (-12, -13), (-23, -24), 7), ((0, 0), (-12, -12), (-17, -16), 4)),
    "e4m3": (((4, 4), (-1, -2), (-9, -9), 3), ((6, 6), (-6, -6), (-10, -10), 3)),
    "e5m2": (((0, 0), (-5, -6), (-13, -13), 3), ((0, 0), (-12, -12), (-17, -16), 4)),
}


def faint_rows(name, x, second):
    """Changes x in place."""
    step, wide = {"fp16": 16, "bf16": 16, "tf32": 8}.get(name, 32), name in ("bf16", "tf32")
    designs = (None, faint["fp16"][1]) if wide else faint.get(name[:4])
    for row in range(len(x) if designs else 0):
        design = designs[row % 2]
        x[row] = 0
        if design is None:  # 2^-149, in four products that are odd multiples of 2^-last and other powers of two
            last = 155 + row // 2 % 5
            pieces = [2.0 ** (last - 151) - 1, 2.0 ** (last - 151), 2.0 ** (last - 150), 1.0]
            for slot, piece in enumerate(pieces):
                x[row, slot::step] = 2.0**-74 if second else piece * 2.0 ** (74 - last)
            continue
        if name.endswith("fnuz") and row == 13:  # a sum far below the products that come after it
            low = formats[name][3] - formats[name][5]
            x[row, 0] = 2.0**low if second else -(2.0**low)
            x[row, step] = 2.0 ** formats[name][4]
            continue
        one, tie, breaks, many = design
        x[row, ::step] = 2.0 ** tie[second]
        x[row, 1::step] = 2.0 ** (breaks[1] if second else breaks[0] + row // 2 % many)
        if row % 2:
            x[row, :step] = 0
            x[row, 0] = 2.0 ** one[second]
        elif one:
            x[row, 2::step] = 2.0 ** one[second]


def drawn(rng, kind, name, n, second):
    """Real numbers of a kind, to be rounded to the format."""
    _, _, _, low, high, fraction, k = formats[name]
    x = rng.standard_normal((n, k))
    powers = lambda first, last: np.exp2(rng.integers(first, last + 1, x.shape).astype(np.float64))
    sign = np.where(rng.random(x.shape) < 0.5, -1.0, 1.0)
    bottom = low if low > -100 else -66  # products near the bottom of FP32
    if kind == "positive":
        x = 0.5 + rng.random(x.shape)
    elif kind == "wide":
        x *= powers(max(low - fraction, -66), high)
    elif kind == "cancelling":
        x *= powers(-2, 2)
        x[:, 1::2] = x[:, 0::2] if second else -x[:, 0::2] * (1 + 2.0**-fraction * rng.standard_normal(x[:, 1::2].shape))
    elif kind == "subnormal":
        small = sign * rng.integers(1, 2**fraction, x.shape) * 2.0 ** (low - fraction)
        x = np.where(rng.random(x.shape) < 0.5, small, x)
    elif kind == "tiny":
        x *= powers(bottom - fraction, bottom + 4)
    elif kind == "zeros":
        x = np.where(rng.random(x.shape) < 0.6, 0.0 * sign, x)
        x[0] = 0
    elif kind == "faint":
        faint_rows(name, x, int(second))
    elif kind == "extreme":
        largest = 2.0 ** min(float(ml_dtypes.finfo(formats[name][0]).maxexp), 64) * (1 - 2.0 ** -(fraction + 1))
        largest = min(largest, float(ml_dtypes.finfo(formats[name][0]).max))
        choice = np.array([largest, 2.0**low, 2.0 ** (low - fraction), 1.0, 1.0, 2.0**-3, 1.5])
        x = sign * choice[rng.integers(0, len(choice), x.shape)]
    return x


def codes_of(name, x):
    """Codes, as whole numbers of the format's width."""
    numpy_type, _, bits = formats[name][:3]
    largest = float(ml_dtypes.finfo(numpy_type).max)
    y = np.clip(x, -largest, largest)
    if name == "tf32":
        return y.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
    return y.astype(numpy_type).view(np.uint16 if bits == 16 else np.uint8)


def operand(name, codes):
    """As mmasim takes it: FP6 in the low six bits of a byte, FP4 in bits 5 to 2."""
    torch_type = formats[name][1]
    if name == "e2m1":
        codes = codes << 2
    t = torch.from_numpy(codes.copy())
    if torch_type is torch.uint8:
        return t
    return t.view(torch_type)


ptx = {"fp16": "f16", "bf16": "bf16", "tf32": "tf32", "e4m3fn": "e4m3", "e5m2": "e5m2", "e3m2": "e3m2", "e2m3": "e2m3", "e2m1": "e2m1"}
deep = {"fp16": 16, "bf16": 16, "tf32": 8}  # K of an instruction; 32 of others


def nvidia():
    """(card, name of the unit, formats of the operands, is the sum FP16?, operation)"""
    mma = lambda arch, k, a, b, d, kind="": MMA(arch, f"m16n8k{k}.{kind}{d}.{ptx[a]}.{ptx[b]}.{d}")
    volta = lambda arch, d: MMA(arch, f"m8n8k4.{d}.f16.f16.{d}")
    eight = ["e4m3fn", "e5m2"]
    all_eight = [(a, b) for a in eight for b in eight]
    narrow = all_eight + [(f, f) for f in ("e3m2", "e2m3", "e2m1")] + [("e2m1", "e4m3fn"), ("e3m2", "e2m3")]
    for d in ("f32", "f16"):
        yield "v100", "", "fp16", "fp16", d, volta("Volta", d)
        yield "t4", "", "fp16", "fp16", d, mma("Turing", 8, "fp16", "fp16", d)
        yield "t4", ".m8n8k4", "fp16", "fp16", d, volta("Turing", d)
        for a in ("fp16", "bf16", "tf32") if d == "f32" else ("fp16",):
            for card, arch in (("a100", "Ampere"), ("ada", "Ada Lovelace"), ("rtx-blackwell", "RTX Blackwell")):
                yield card, "", a, a, d, mma(arch, deep[a], a, a, d)
            yield "h100", "", a, a, d, WGMMA("Hopper", f"m64n8k{deep[a]}.{d}.{ptx[a]}.{ptx[a]}")
            kind = "tf32" if a == "tf32" else "f16"
            yield "b200", "", a, a, d, TCGen05MMA("Blackwell", f"m64n8k{deep[a]}.kind::{kind}.{d}.{ptx[a]}.{ptx[a]}")
        yield "h100", ".m16n8k8", "fp16", "fp16", d, mma("Hopper", 8, "fp16", "fp16", d)
        for a, b in all_eight:
            yield "ada", "", a, b, d, mma("Ada Lovelace", 32, a, b, d)
            yield "h100", "", a, b, d, WGMMA("Hopper", f"m64n8k32.{d}.{ptx[a]}.{ptx[b]}")
        for a, b in narrow:
            yield "b200", "", a, b, d, TCGen05MMA("Blackwell", f"m64n8k32.kind::f8f6f4.{d}.{ptx[a]}.{ptx[b]}")
            yield "rtx-blackwell", "", a, b, d, mma("RTX Blackwell", 32, a, b, d, "kind::f8f6f4.")


def scaling():
    """Units that scale blocks of 32 by themselves."""
    for a, b in [(f, f) for f in ("e4m3fn", "e5m2", "e3m2", "e2m3")] + [("e4m3fn", "e5m2"), ("e2m3", "e4m3fn")]:
        types = f"f32.{ptx[a]}.{ptx[b]}"
        yield "b200", a, b, TCGen05MMABlockScale("Blackwell", f"m128n8k32.kind::mxf8f6f4.block32.{types}.ue8m0")
        yield "rtx-blackwell", a, b, MMABlockScale("RTX Blackwell", f"m16n8k32.kind::mxf8f6f4.block32.{types}.f32.ue8m0")


def scales_of(rng, n):
    """Codes of powers of two, one for 32 numbers: near 1, far from it, such that products are near FP32's bottom, 1."""
    width = {"wide": 40, "extreme": 60, "faint": 0}
    centre = {"tiny": -64, "subnormal": -56}
    blocks = lambda kind: rng.integers(-width.get(kind, 6), width.get(kind, 6) + 1, (n, 3)) + centre.get(kind, 0)
    return np.concatenate([127 + blocks(kind) for kind in kinds]).astype(np.uint8)


def amd():
    for card, variant, arch, a, b, suffix in (
        ("mi100", "", "CDNA1", "fp16", "fp16", "f32_16x16x16f16"),
        ("mi100", "", "CDNA1", "bf16", "bf16", "f32_16x16x8bf16"),
        ("mi250", "", "CDNA2", "fp16", "fp16", "f32_16x16x16f16"),
        ("mi250", "", "CDNA2", "bf16", "bf16", "f32_16x16x16bf16_1k"),
        ("mi250", ".16x16x8", "CDNA2", "bf16", "bf16", "f32_16x16x8bf16"),
        ("mi300", "", "CDNA3", "fp16", "fp16", "f32_16x16x16_f16"),
        ("mi300", "", "CDNA3", "bf16", "bf16", "f32_16x16x16_bf16"),
        ("mi300", "", "CDNA3", "tf32", "tf32", "f32_16x16x8_xf32"),
        ("mi300", "", "CDNA3", "e4m3fnuz", "e4m3fnuz", "f32_16x16x32_fp8_fp8"),
        ("mi300", "", "CDNA3", "e5m2fnuz", "e5m2fnuz", "f32_16x16x32_bf8_bf8"),
        ("mi300", "", "CDNA3", "e4m3fnuz", "e5m2fnuz", "f32_16x16x32_fp8_bf8"),
        ("mi300", "", "CDNA3", "e5m2fnuz", "e4m3fnuz", "f32_16x16x32_bf8_fp8"),
    ):
        yield card, variant, a, b, "f32", MFMA(arch, suffix)


def product(unit, a, b, a_format, b_format, d, scales=None):
    """Of each kind with itself: kind, row, column."""
    all_of = []
    for kind in range(len(kinds)):
        A = operand(a_format, a[kind * rows : (kind + 1) * rows])
        B = operand(b_format, b[kind * cols : (kind + 1) * cols]).T
        C = torch.zeros((rows, cols), dtype=torch.float16 if d == "f16" else torch.float32)
        for k in range(0, A.shape[1], unit.k):  # one instruction after the other
            of = lambda x: torch.from_numpy(x[kind * rows : (kind + 1) * rows, k // 32 : k // 32 + 1].copy()).view(torch.float8_e8m0fnu)
            more = (of(scales[0]), of(scales[1]).T) if scales else ()
            C = unit(A[:, k : k + unit.k], B[k : k + unit.k], C, *more)
        all_of.append(C)
    y = torch.stack(all_of).numpy()
    return y.view(np.uint16 if d == "f16" else np.uint32)


def drawn_inputs(seed):
    """Codes of both operands, by format: the rows of each kind, one after the other."""
    inputs = {}
    for i, name in enumerate(formats):
        rng = np.random.default_rng([seed, i])
        of = lambda n, second: np.concatenate([drawn(rng, kind, name, n, second) for kind in kinds])
        inputs[name] = [codes_of(name, of(rows, False)), codes_of(name, of(cols, True))]
    return inputs


def made(seed):
    inputs = drawn_inputs(seed)
    tensors = {f"inputs.{name}.{which}": x for name, both in inputs.items() for which, x in zip("ab", both)}
    rng = np.random.default_rng([seed, len(formats)])
    scales = [scales_of(rng, rows), scales_of(rng, cols)]
    tensors["inputs.e8m0.a"], tensors["inputs.e8m0.b"] = scales
    for card, a, b, unit in scaling():
        name = f"{card}.mma_{a}" + (f"_by_{b}" if a != b else "") + "_scaled"
        tensors[name] = product(unit, inputs[a][0], inputs[b][1], a, b, "f32", scales)
    for card, variant, a, b, d, unit in [*nvidia(), *amd()]:
        name = f"{card}.mma_{a}" + (f"_by_{b}" if a != b else "") + ("_to_fp16" if d == "f16" else "") + variant
        tensors[name] = product(unit, inputs[a][0], inputs[b][1], a, b, d)
    return tensors


def written(tensors, metadata):
    types = {"uint8": "U8", "uint16": "U16", "uint32": "U32"}
    header, data = {"__metadata__": metadata}, b""
    for name, x in tensors.items():
        raw = np.ascontiguousarray(x).tobytes()
        header[name] = {"dtype": types[x.dtype.name], "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("-o", "--output", required=True)
    ask.add_argument("--seed", type=int, default=1)
    ask.add_argument("--check", action="store_true")
    asked = ask.parse_args()
    if MMA is None:
        print("mmasim is not installed: pip install mmasim")
        return 77
    metadata = {
        "package": f"mmasim {version('mmasim')}",
        "command": f"experiments/oracle/oracle.py --seed {asked.seed}",
        "seed": str(asked.seed),
        "with": f"torch {version('torch')}, numpy {np.__version__}, ml_dtypes {ml_dtypes.__version__}, python {platform.python_version()}",
        "kinds": " ".join(kinds),
    }
    raw = written(made(asked.seed), metadata)
    if asked.check:
        with open(asked.output, "rb") as f:
            there = f.read()
        values = lambda file: file[8 + struct.unpack("<Q", file[:8])[0] :]
        same = values(there) == values(raw)
        print("the same" if same else "some bits differ")
        return 0 if same else 1
    with open(asked.output, "wb") as f:
        f.write(raw)
    print(f"{asked.output}: {len(raw)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
