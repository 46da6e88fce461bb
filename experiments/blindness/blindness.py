#!/usr/bin/env python3
"""What do the rules that people use see of one tensor, in traces that plumb did not make?

A row-parallel product as numpy computes it: 64 partial sums that travel in BF16, tokens dealt to two ranks in a zigzag.
It is damaged in the ways below; `plumb check` judges each trace by its own rules and by those of others, and numbers
that other tools look at are computed beside it. Writes rows and provenance. Returns 77 without numpy.

    blindness.py --plumb build/plumb -o results [--tokens N] [--seed S]
"""
import argparse, csv, json, os, re, subprocess, sys, tempfile

try:
    import numpy as np
except ImportError:
    print("numpy is not installed: python3-numpy")
    sys.exit(77)

home = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(home, "python"))
from plumbline.write import replicate, shard, stored, write_manifest, write_rank

PARTS, WIDTH = 64, 1024
RULES = {"twins": ["--twins"], "perturbation": ["--rule", "perturbation"], "flat": ["--rule", "flat"],
         "assert-close": ["--rule", "assert-close"]}
# What other tools compute of a tensor, and how much of it they allow: SGLang's comparator by default, msProbe's tables,
# and the constant of Megatron-LM's gradient test.
NUMBERS = {"1 - 2<a,b>/(a^2+b^2)": 1e-3, "1 - cosine": 1e-2, "relative Frobenius": 4 * 1.03**33 * 2**-7}


def bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).view(np.float32)


def ulp(x):
    return np.exp2(np.floor(np.log2(np.maximum(np.abs(x), 2.0**-100))) - 7).astype(np.float32)


def partial_sums(x, w):
    """Of each part of the contraction: (parts, tokens, width)."""
    k = x.shape[1] // PARTS
    return np.stack([x[:, i * k:][:, :k] @ w[i * k:][:k] for i in range(PARTS)])


def added(parts, factor=1):
    """As ranks add them: each travels in BF16, the sum is kept in FP32 and rounded once."""
    return bf16(bf16(parts).sum(0, dtype=np.float32) * np.float32(factor))


def twin(parts, rng):
    """The same sum with about an ulp moved from each part to the next (trace/twins.md M2)."""
    neighbours = np.roll(parts, -1, 0)
    moved = 4 * (rng.random(parts.shape, np.float32) - 0.5) * np.maximum(ulp(parts), ulp(neighbours))
    return added(parts + moved - np.roll(moved, 1, 0))


def zigzag(tokens):
    """The rows that each of two ranks has."""
    quarters = np.array_split(np.arange(tokens), 4)
    return np.concatenate([quarters[0], quarters[3]]), np.concatenate([quarters[1], quarters[2]])


def write(folder, ids, ways):
    write_manifest(folder, producer="blindness.py", ranks=ways, steps=[1], mesh={"cp": ways},
                   must_agree={"job": "row-parallel product"}, may_differ={"cp": str(ways)})
    for rank in range(ways):
        tensors = {}
        for order, (name, x) in enumerate(ids.items(), 1):
            held = x[zigzag(len(x))[rank]] if ways > 1 else x
            raw = (held.view(np.uint32) >> 16).astype(np.uint16).tobytes()
            tensors[name] = stored("BF16", held.shape, raw, shape=list(x.shape), order=order,
                                   from_=["x"] if order > 1 else [],
                                   placements=[shard("cp", 0, zigzag=True)] if ways > 1 else [replicate("cp")])
        write_rank(folder, 1, rank, tensors)


def damaged(parts, stale, rng):
    """Each way to be wrong, beside the healthy run."""
    y = added(parts)
    rows = len(y)

    def with_rows(which, values):
        wrong = y.copy()
        wrong[which] = values
        return wrong

    yield "healthy", y
    yield "1 wrong row", with_rows(rows // 3, y[rows // 3 + 1])
    yield "8 rows zero", with_rows(slice(rows // 2, rows // 2 + 8), 0)
    yield "x 1.001", added(parts, 1.001)
    yield "x 1.04", added(parts, 1.04)
    first, second = (np.array_split(np.arange(rows), 4)[i] for i in (0, 3))
    swapped = y.copy()
    swapped[first], swapped[second] = y[second], y[first]
    yield "zigzag chunks swapped", swapped
    yield "1 of 64 parts lost", added(np.delete(parts, PARTS // 2, 0))
    yield "weights of the step before", added(stale)


def numbers(a, b):
    a, b = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
    aa, bb, ab = a @ a, b @ b, a @ b
    return {"1 - 2<a,b>/(a^2+b^2)": 1 - 2 * ab / (aa + bb), "1 - cosine": 1 - ab / np.sqrt(aa * bb),
            "relative Frobenius": np.linalg.norm(b - a) / np.sqrt(aa)}


def verdict(plumb, reference, candidate, rule, options):
    """Of one rule: pass, fail or inconclusive, and the worst ratio that it prints."""
    done = subprocess.run([plumb, "check", reference, candidate, *options, "--json"], capture_output=True, text=True)
    if done.returncode not in (0, 1, 3):
        sys.exit(f"{rule}: {done.stderr.strip()}")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    ratios = [line["ratio"] for line in lines if line["type"] == "tensor" and line["id"] == "y" and line["ratio"] is not None]
    return {0: "passes", 1: "found", 3: "unsettled"}[done.returncode], max(ratios, default=float("nan"))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--plumb", required=True)
    arguments.add_argument("-o", "--output", required=True)
    arguments.add_argument("--tokens", type=int, default=4096)
    arguments.add_argument("--seed", type=int, default=1)
    asked = arguments.parse_args()
    rng = np.random.default_rng(asked.seed)
    x = bf16(rng.standard_normal((asked.tokens, WIDTH)))
    w = rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 32
    before = bf16(w + np.float32(1e-3) * rng.standard_normal(w.shape).astype(np.float32) / 32)
    w = bf16(w)
    parts, reference = partial_sums(x, w), bf16(x @ w)
    eps = 2.0**-8 * (rng.random(x.shape, np.float32) - 0.5)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        write(at("reference"), {"x": x, "y": reference}, 1)
        write(at("perturbed"), {"x": x, "y": bf16((x + x * eps) @ w)}, 1)
        for k in range(4):
            write(at(f"twin{k}"), {"x": x, "y": twin(parts, rng)}, 1)
        options = dict(RULES, twins=["--twins"] + [at(f"twin{k}") for k in range(4)])
        options["perturbation"] = options["perturbation"] + ["--perturbed", at("perturbed")]
        for name, y in damaged(parts, partial_sums(x, before), rng):
            write(at("candidate"), {"x": x, "y": y}, 2)
            for rule, words in options.items():
                said, ratio = verdict(asked.plumb, at("reference"), at("candidate"), rule, words)
                rows.append([name, rule, f"{ratio:.3g}", said])
            for rule, value in numbers(reference, y).items():
                rows.append([name, rule, f"{value / NUMBERS[rule]:.3g}", "found" if value > NUMBERS[rule] else "passes"])
            print(f"{name}: " + ", ".join(f"{r} {said} ({ratio})" for n, r, ratio, said in rows if n == name))
    os.makedirs(asked.output, exist_ok=True)
    with open(os.path.join(asked.output, "blindness.csv"), "w", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([["damage", "rule", "ratio", "verdict"], *rows])
    version = subprocess.run([asked.plumb, "--version"], capture_output=True, text=True).stdout
    provenance = {"command": f"experiments/blindness/blindness.py --tokens {asked.tokens} --seed {asked.seed}",
                  "commit": re.search(r"commit (\S+)", version)[1], "numpy": np.__version__,
                  "python": sys.version.split()[0], "seeds": str(asked.seed)}
    with open(os.path.join(asked.output, "blindness.json"), "w") as out:
        json.dump(provenance, out, indent=1)
        out.write("\n")
    wrong = [name for name, rule, _, said in rows if rule == "twins" and (said == "passes") != (name == "healthy")]
    if wrong:
        print("twins were wrong of: " + ", ".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
