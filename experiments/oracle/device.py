#!/usr/bin/env python3
"""What the matrix units of a real H100 compute, bit for bit, of the inputs that oracle.py draws.

Every unit by its own instruction: wgmma, and mma where there is one. Says beside each the share of bits that mmasim's
file has, too, and writes bits of results as a file of the safetensors format, whose metadata say how they were made.
Returns 1 where wgmma's bits differ from mmasim's, 77 where there is no such GPU.

    device.py --library build/experiments/units.so -o h100.safetensors [--seeds N]
    device.py --check h100.safetensors

With --seeds N, inputs of the seeds 2 to N besides, which mmasim's file has not: inputs and results stand in the file.
--check asks mmasim itself, where it is installed, about all seeds of such a file; it needs no GPU.
"""
import argparse, ctypes, json, os, subprocess, sys

import oracle
from oracle import np

def names():
    """(tensor, unit of units.cu, formats of the operands, is the sum FP16?)"""
    eight = ("e4m3fn", "e5m2")
    pairs = [(f, f) for f in ("fp16", "bf16", "tf32")] + [(a, b) for a in eight for b in eight]
    for short in (False, True):
        for a, b in pairs:
            if short and a in ("bf16", "tf32"):
                continue
            unit = "mma_" + a + (f"_by_{b}" if a != b else "") + ("_to_fp16" if short else "")
            yield "h100." + unit, "wgmma" + unit[3:], a, b, short
            yield f"h100.{unit}.mma", unit, a, b, short
            if a == "fp16":
                yield f"h100.{unit}.m16n8k8", unit + "_k8", a, b, short


def product(library, unit, a, b, short):
    """Of each kind with itself: kind, row, column."""
    made = []
    for kind in range(len(oracle.kinds)):
        left = np.ascontiguousarray(a[kind * oracle.rows : (kind + 1) * oracle.rows])
        right = np.ascontiguousarray(b[kind * oracle.cols : (kind + 1) * oracle.cols])
        out = np.zeros((oracle.rows, oracle.cols), np.uint16 if short else np.uint32)
        of = lambda x: x.ctypes.data_as(ctypes.c_void_p)
        bytes_of_line = left.shape[1] * left.itemsize
        status = library.unit_product(unit.encode(), of(left), of(right), of(out), oracle.rows, oracle.cols, bytes_of_line)
        if status:
            raise RuntimeError(f"{unit}: {'there is no such unit' if status == 1 else 'the device failed'}")
        made.append(out)
    return np.stack(made)


def read(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    types = {"U8": np.uint8, "U16": np.uint16, "U32": np.uint32}
    of = lambda e: np.frombuffer(data[slice(*e["data_offsets"])], types[e["dtype"]]).reshape(e["shape"])
    return {name: of(entry) for name, entry in header.items() if name != "__metadata__"}


def differing(found, said, short):
    """Results of other bits; all NaN are alike."""
    kind = np.float16 if short else np.float32
    both_nan = np.isnan(found.view(kind)) & np.isnan(said.view(kind))
    return int(((found != said) & ~both_nan).sum())


def device():
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True)
    except OSError:
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""


def model_of(unit, a, b, short):
    """mmasim's, or nothing: it has no mma of FP8 on this GPU."""
    d, types = ("f16" if short else "f32"), f"{oracle.ptx[a]}.{oracle.ptx[b]}"
    k = 8 if unit.endswith("_k8") else oracle.deep.get(a, 32)
    if unit.startswith("wgmma"):
        return oracle.WGMMA("Hopper", f"m64n8k{k}.{d}.{types}")
    return oracle.MMA("Hopper", f"m16n8k{k}.{d}.{types}.{d}") if k < 32 else None


def check(path):
    if oracle.MMA is None:
        print("mmasim is not installed: pip install mmasim")
        return 77
    tensors, others = read(path), 0
    seeds = [1, *sorted(int(name[4:].split(".")[0]) for name in tensors if name.endswith("inputs.fp16.a"))]
    for name, unit, a, b, short in names():
        model = model_of(unit, a, b, short)
        if model is None:
            print(f"{unit}: mmasim has no such unit")
            continue
        size = other = 0
        for seed in seeds:
            inputs = oracle.drawn_inputs(seed)
            said = oracle.product(model, inputs[a][0], inputs[b][1], a, b, "f16" if short else "f32")
            size += said.size
            other += differing(tensors[(f"seed{seed}." if seed > 1 else "") + name], said, short)
        print(f"{unit}: {size} results, {other} with other bits than mmasim's")
        others += other
    return 1 if others else 0


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--library")
    ask.add_argument("-o", "--output")
    ask.add_argument("--seeds", type=int, default=1)
    ask.add_argument("--check", metavar="FILE")
    asked = ask.parse_args()
    if asked.check:
        return check(asked.check)
    if not asked.library or not asked.output:
        ask.error("name --library and -o, or --check")
    gpu = device()
    if "H100" not in gpu and "H200" not in gpu:
        print("there is no H100 or H200 here")
        return 77
    library = ctypes.CDLL(os.path.abspath(asked.library))
    theirs = read(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mmasim.safetensors"))
    tensors, others = {}, 0
    for seed in range(1, asked.seeds + 1):
        inputs = oracle.drawn_inputs(seed)
        before = f"seed{seed}." if seed > 1 else ""
        for name in ("fp16", "bf16", "tf32", "e4m3fn", "e5m2"):
            for which, x in zip("ab", inputs[name]):
                same = seed > 1 or (x == theirs[f"inputs.{name}.{which}"]).all()
                if not same:
                    raise RuntimeError(f"inputs of {name} are not those of mmasim's file")
                if seed > 1:
                    tensors[f"{before}inputs.{name}.{which}"] = x
        for name, unit, a, b, short in names():
            found = product(library, unit, inputs[a][0], inputs[b][1], short)
            tensors[before + name] = found
            if seed == 1 and name in theirs:
                other = differing(found, theirs[name], short)
                others += other
                print(f"{unit}: {found.size} results, {other} with other bits than mmasim's")
    metadata = {"command": f"experiments/oracle/device.py --seeds {asked.seeds}", "device": gpu, "kinds": " ".join(oracle.kinds)}
    with open(asked.output, "wb") as file:
        file.write(oracle.written(tensors, metadata))
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
