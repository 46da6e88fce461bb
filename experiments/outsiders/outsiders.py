#!/usr/bin/env python3
"""Do kernels that were not written here stay inside the bounds of a card that says what they do?

numpy's and PyTorch's kernels compute the operations below on inputs of many kinds, and `plumb judge` holds every
element against the deterministic bound: of the card of the library (numpy.json, torch.json beside this file), and of
the card `libraries`, which says nothing. Writes rows and provenance; what is not installed is said and left out.
Returns 1 if an element is outside, 77 without numpy.

    outsiders.py --plumb build/plumb -o results [--only REGEX] [--seeds N]

--device cuda: PyTorch's kernels on a GPU (torch_cuda.json; products of a matrix unit by the card that --unit names),
and JAX's where it is installed.
"""
import argparse, csv, json, os, platform, re, subprocess, sys, tempfile

try:
    import numpy as np
except ImportError:
    print("numpy is not installed: python3-numpy")
    sys.exit(77)

here = os.path.dirname(os.path.abspath(__file__))
try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import torch
except ImportError:
    torch = None


def kinds(rng, rows, cols, op):
    """Inputs that a bound has to survive."""
    normal = rng.standard_normal((rows, cols)).astype(np.float32)
    yield "normal", normal
    yield "positive", (0.5 + rng.random((rows, cols))).astype(np.float32)
    yield "spread", (normal * np.exp2(rng.integers(-12, 12, (rows, cols)))).astype(np.float32)
    yield "mean 300", (normal + 300).astype(np.float32)
    alternating = (1 + 0.01 * rng.random((rows, cols))) * np.where(np.arange(cols) % 2, -1, 1)
    yield "alternating", alternating.astype(np.float32)
    one = np.full((rows, cols), -3, np.float32)
    one[:, cols // 3] = 0
    yield "one maximum", one
    if op in ("softmax", "log_sum_exp", "cross_entropy"):
        yield "masked", np.where(np.arange(cols) < cols // 2, normal, np.float32(-65504))


# ---- kernels: (operation, attributes, function of the inputs, names of outputs) ----

def np_softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def np_lse(x):
    m = x.max(1, keepdims=True)
    return m + np.log(np.exp(x - m).sum(1, keepdims=True))


def np_layernorm(x, w, b):
    mean = x.mean(1, keepdims=True)
    off = x - mean
    var = (off * off).mean(1, keepdims=True)
    return off * (1 / np.sqrt(var + np.float32(1e-5))) * w.T + b.T


def np_rmsnorm(x, w):
    return x * (1 / np.sqrt((x * x).mean(1, keepdims=True) + np.float32(1e-5))) * w.T


def np_gelu(x):
    z = np.float32(0.7978845608028654) * (x + np.float32(0.044715) * x * x * x)
    return np.float32(0.5) * x * (1 + np.tanh(z))


def np_silu(x):
    return x / (1 + np.exp(-x))


numpy_kernels = {
    "softmax": ({}, np_softmax, "p"),
    "log_sum_exp": ({}, np_lse, "l"),
    "layernorm": ({"eps": 1e-5}, np_layernorm, "y"),
    "rmsnorm": ({"eps": 1e-5}, np_rmsnorm, "y"),
    "gelu": ({}, np_gelu, "y"),
    "silu": ({}, np_silu, "y"),
    "gemm": ({}, np.matmul, "C"),
    "column_sum": ({}, lambda x: x.sum(0)[:, None], "y"),
}


def jax_kernels():
    """What XLA makes of the formulas, compiled as one function each."""
    import jax
    import jax.numpy as jnp

    def layer(x, w, b):
        mean = x.mean(1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(x.var(1, keepdims=True) + 1e-5) * w.T + b.T

    def rms(x, w):
        return x * jax.lax.rsqrt((x * x).mean(1, keepdims=True) + 1e-5) * w.T

    product = lambda a, b: jnp.matmul(a, b, precision="highest", preferred_element_type=jnp.float32)
    of = {
        "softmax": ({}, lambda x: jax.nn.softmax(x, 1), "p"),
        "log_sum_exp": ({}, lambda x: jax.nn.logsumexp(x, 1, keepdims=True), "l"),
        "layernorm": ({"eps": 1e-5}, layer, "y"),
        "rmsnorm": ({"eps": 1e-5}, rms, "y"),
        "gelu": ({}, jax.nn.gelu, "y"),
        "gelu_erf": ({}, lambda x: jax.nn.gelu(x, approximate=False), "y"),
        "silu": ({}, jax.nn.silu, "y"),
        "gemm": ({}, product, "C"),
        "column_sum": ({}, lambda x: x.sum(0)[:, None], "y"),
    }
    return {op: (attributes, jax.jit(kernel), name) for op, (attributes, kernel, name) in of.items()}


table_rows = 97
heads = {"heads": 1, "kv_heads": 1, "head_dim": 64, "sequence": 256}
adam_settings = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "step": 10}


def torch_kernels(on="cpu"):
    f = torch.nn.functional

    def product(a, b):
        """On a GPU with sums in FP32, whatever the operands are."""
        if on == "cpu" or a.dtype == torch.float32:
            return torch.matmul(a, b)
        return torch.mm(a, b, out_dtype=torch.float32)

    def grad(of, *inputs):
        *inputs, dy = inputs
        x = inputs[0].clone().requires_grad_()
        of(x, *inputs[1:]).backward(dy)
        return x.grad

    def attention(qkv):
        q, k, v = qkv.reshape(-1, 1, heads["sequence"], 3, heads["head_dim"]).unbind(3)
        return f.scaled_dot_product_attention(q, k, v, is_causal=True).reshape(len(qkv), -1)

    def adam(w, m, v, g):
        p = torch.nn.Parameter(w.clone())
        p.grad = g.clone()
        s = adam_settings
        optimizer = torch.optim.Adam([p], s["lr"], (s["beta1"], s["beta2"]), s["eps"])
        optimizer.state[p] = {"step": torch.tensor(float(s["step"] - 1)), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
        optimizer.step()
        return {"m": optimizer.state[p]["exp_avg"], "v": optimizer.state[p]["exp_avg_sq"], "w": p}

    def grads(of, at, *inputs):
        """Of these inputs, each."""
        *inputs, dy = inputs
        inputs = [x.clone().requires_grad_(i in at) for i, x in enumerate(inputs)]
        of(*inputs).backward(dy)
        return [inputs[i].grad for i in at]

    def weight_grads(x, w, dy):
        b = torch.zeros_like(w)
        return dict(zip(("dw", "db"), grads(layer, (1, 2), x, w, b, dy)))

    def table_grad(ids, dy):
        table = torch.zeros((table_rows, dy.shape[1]), dtype=dy.dtype, device=dy.device, requires_grad=True)
        f.embedding(ids[:, 0], table).backward(dy)
        return table.grad

    def loss(logits, labels, mask, count):
        each = f.cross_entropy(logits, labels[:, 0], reduction="none")
        return {"lse": torch.logsumexp(logits, 1, True), "loss": ((each * mask[:, 0]).sum() / count).reshape(1, 1)}

    def norm(*x):
        return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in x])).reshape(1, 1)

    layer = lambda x, w, b: f.layer_norm(x, (x.shape[1],), w[:, 0], b[:, 0], 1e-5)
    rms = lambda x, w: f.rms_norm(x, (x.shape[1],), w[:, 0], 1e-5)
    return {
        "softmax": ({}, lambda x: f.softmax(x, 1), "p"),
        "log_sum_exp": ({}, lambda x: torch.logsumexp(x, 1, True), "l"),
        "attention": (heads, attention, "o"),
        "adam": (adam_settings, adam, "m"),
        "layernorm": ({"eps": 1e-5}, layer, "y"),
        "layernorm_grad": ({"eps": 1e-5}, lambda x, w, dy: grads(layer, (0,), x, w, torch.zeros_like(w), dy)[0], "dx"),
        "layernorm_wgrad": ({"eps": 1e-5}, weight_grads, "dw"),
        "rmsnorm": ({"eps": 1e-5}, rms, "y"),
        "rmsnorm_grad": ({"eps": 1e-5}, lambda x, w, dy: grads(rms, (0,), x, w, dy)[0], "dx"),
        "rmsnorm_wgrad": ({"eps": 1e-5}, lambda x, w, dy: grads(rms, (1,), x, w, dy)[0], "dw"),
        "embedding_grad": ({"rows": table_rows, "period": 0}, table_grad, "dtable"),
        "softmax_grad": ({}, lambda p, dp: torch._softmax_backward_data(dp, p, 1, p.dtype), "dx"),
        # Its gradient is not of a stored log-sum-exp, as ours is, but of stored logarithms of probabilities.
        "cross_entropy": ({}, loss, "loss"),
        "grad_norm": ({}, norm, "g"),
        "attention_grad": (heads, lambda x, dy: grad(attention, x, dy), "dqkv"),
        "gelu": ({}, lambda x: f.gelu(x, approximate="tanh"), "y"),
        "gelu_grad": ({}, lambda x, dy: grad(lambda t: f.gelu(t, approximate="tanh"), x, dy), "dx"),
        "gelu_erf": ({}, f.gelu, "y"),
        "gelu_erf_grad": ({}, lambda x, dy: grad(f.gelu, x, dy), "dx"),
        "silu": ({}, f.silu, "y"),
        "silu_grad": ({}, lambda x, dy: grad(f.silu, x, dy), "dx"),
        "gemm": ({}, product, "C"),
        "column_sum": ({}, lambda x: x.sum(0)[:, None], "y"),
    }


def inputs_of(op, x, rng):
    """Of an operation, all, made around x."""
    if op == "embedding_grad":
        return [rng.integers(0, table_rows, (len(x), 1)), x]
    if op == "softmax_grad":
        return [np_softmax(x), rng.standard_normal(x.shape).astype(np.float32)]
    if op == "grad_norm":
        return [x, rng.standard_normal((64, 64)).astype(np.float32), x[:, :1]]
    return [x, *beside(op, x, rng)]


def beside(op, x, rng):
    """The other inputs of an operation whose first one is x."""
    rows, cols = x.shape
    vector = lambda centre: (centre + 0.3 * rng.standard_normal((cols, 1))).astype(np.float32)
    def another():
        return rng.standard_normal((rows, cols)).astype(np.float32)

    if op == "layernorm":
        return [vector(1), vector(0)]
    if op in ("layernorm_grad", "layernorm_wgrad", "rmsnorm_grad", "rmsnorm_wgrad"):
        return [vector(1), another()]
    if op == "cross_entropy":
        return [rng.integers(0, cols, (rows, 1)), np.ones((rows, 1), np.float32), np.full((1, 1), rows, np.float32)]
    if op == "attention_grad":
        return [rng.standard_normal((rows, cols // 3)).astype(np.float32)]
    if op == "rmsnorm":
        return [vector(1)]
    if op == "gemm":
        return [rng.standard_normal((cols, max(1, min(cols, 256)))).astype(np.float32)]
    if op == "adam":
        return [rng.standard_normal((rows, cols)).astype(np.float32), rng.random((rows, cols)).astype(np.float32),
                rng.standard_normal((rows, cols)).astype(np.float32)]
    if op.endswith("_grad"):
        return [rng.standard_normal((rows, cols)).astype(np.float32)]
    return []


norm_gradient, losses = ["x", "w", "dy"], ["logits", "labels", "mask", "count"]
names = {"attention": ["qkv"], "adam": ["w", "m", "v", "g"], "layernorm": ["x", "w", "b"], "rmsnorm": ["x", "w"], "gemm": ["A", "B"],
         "layernorm_grad": norm_gradient, "layernorm_wgrad": norm_gradient, "rmsnorm_grad": norm_gradient,
         "rmsnorm_wgrad": norm_gradient, "embedding_grad": ["keys", "dy"], "softmax_grad": ["p", "dp"],
         "attention_grad": ["qkv", "do"], "cross_entropy": losses, "grad_norm": ["x_1", "x_2", "x_3"]}
shapes = {"attention": [(4096, 192)], "attention_grad": [(1024, 192)], "softmax": [(256, 1024), (16, 50257)], "log_sum_exp": [(65536, 64), (256, 1024)], "gemm": [(256, 1024), (64, 4096)],
          "column_sum": [(64, 65536), (4096, 512)], "layernorm": [(256, 1024), (64, 4096)], "rmsnorm": [(256, 1024)]}


def save(folder, name, x):
    path = os.path.join(folder, name + ".npy")
    np.save(path, x)
    return f"{name}={path}"


def as_numpy(t):
    t = t.detach().contiguous().cpu()
    return t.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if t.dtype == torch.bfloat16 else t.numpy()


def judged(plumb, op, attributes, inputs, output, name, card, fmt):
    with tempfile.TemporaryDirectory() as folder:
        files = [save(folder, n, x) for n, x in zip(names.get(op, ["x", "dy"]), inputs)]
        outputs = output if isinstance(output, dict) else {name: output}
        made = [save(folder, "out_" + n, y).split("=", 1)[1] for n, y in outputs.items()]
        made = [f"{n}={path}" for n, path in zip(outputs, made)]
        command = [plumb, "judge", op, "--inputs", *files, "--output", *made, "--machine", card, "--json"]
        if fmt in ("tf32", "e4m3fn"):  # held as FP32
            command += ["--input-format", fmt]
        for key, value in attributes.items():
            command += ["--set", f"{key}={value}"]
        said = subprocess.run(command, capture_output=True, text=True)
        if said.returncode == 2:
            return {"refused": said.stderr.strip().splitlines()[-1]}
        return json.loads(said.stdout)


def on_gpu():
    """Library, version, kernels, formats."""
    formats = ["fp32", "bf16", "fp16"] if ml_dtypes else ["fp32", "fp16"]
    found = [("torch_cuda", torch.__version__, torch_kernels("cuda"), formats)]
    # TF32 is what a matrix unit takes: the numbers have its format already, whether a library rounds or cuts.
    found.append(("torch_cuda", torch.__version__, {"gemm": found[0][2]["gemm"]}, ["tf32"]))
    try:
        import jax
        kernels = jax_kernels()
        found.append(("jax", jax.__version__, kernels, ["fp32"]))
        # Of BF16 numbers XLA stores each step of a formula as BF16: other operations.
        found.append(("jax", jax.__version__, {op: kernels[op] for op in ("gemm", "column_sum")}, formats[1:2]))
    except ImportError:
        print("JAX is not installed: its kernels are left out", file=sys.stderr)
    return found


def cards_of(asked, library, op, fmt):
    if op == "gemm" and asked.device == "cuda" and fmt != "fp32":
        return [asked.unit]
    own = os.path.join(here, library + ".json")
    return ([own] if os.path.exists(own) else []) + ["libraries"]


def cases(asked):
    libraries = [("numpy", np.__version__, numpy_kernels, ["fp32"])]
    if asked.device == "cuda":
        libraries = on_gpu()
    elif torch is not None:
        libraries.append(("torch", torch.__version__, torch_kernels(), ["fp32", "bf16"] if ml_dtypes else ["fp32"]))
    else:
        print("PyTorch is not installed: its kernels are left out", file=sys.stderr)
    if torch is not None and ml_dtypes is None:
        print("ml_dtypes is not installed: BF16 is left out", file=sys.stderr)
    for library, version, kernels, formats in libraries:
        for op, (attributes, kernel, name) in kernels.items():
            for fmt in formats:
                # These are taken in steps that are stored in the short format: other operations.
                if fmt in ("bf16", "fp16") and op in ("log_sum_exp", "adam", "cross_entropy", "grad_norm"):
                    continue
                for rows, cols in shapes.get(op, [(256, 1024)]):
                    for seed in range(1, asked.seeds + 1):
                        rng = np.random.default_rng(seed)
                        for kind, x in kinds(rng, rows, cols, op):
                            yield library, version, op, fmt, f"{rows}x{cols}", kind, seed, attributes, kernel, name, inputs_of(op, x, rng)


def device(asked):
    """The GPU, or the processor, as plumb's provenance says it."""
    if asked.device == "cuda":
        return torch.cuda.get_device_name()
    try:
        lines = open("/proc/cpuinfo").read().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def run(library, fmt, kernel, inputs, on):
    if library == "numpy":
        return inputs, np.ascontiguousarray(kernel(*inputs), dtype=np.float32)
    if library == "jax":
        inputs = [x.astype(ml_dtypes.bfloat16 if fmt == "bf16" else np.float32) for x in inputs]
        return inputs, np.asarray(kernel(*inputs))
    if fmt == "tf32":  # cut, and as FP32 otherwise
        inputs = [(np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in inputs]
    to = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(fmt, torch.float32)
    tensors = [torch.from_numpy(x).to(on) for x in inputs]
    tensors = [t.to(to) if t.is_floating_point() else t for t in tensors]
    torch.backends.cuda.matmul.allow_tf32 = fmt == "tf32"
    made = kernel(*tensors)
    made = {n: as_numpy(t) for n, t in made.items()} if isinstance(made, dict) else as_numpy(made)
    return [as_numpy(t) for t in tensors], made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plumb", default="build/plumb")
    parser.add_argument("-o", "--output", default="results")
    parser.add_argument("--only", default="", help="cases whose 'library operation format shape kind' matches")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--unit", default="h100-libraries", help="card of the GPU's matrix unit")
    asked = parser.parse_args()
    if asked.device == "cuda" and (torch is None or not torch.cuda.is_available()):
        print("PyTorch sees no GPU here")
        return 77
    os.makedirs(asked.output, exist_ok=True)
    outside = 0
    columns = ["library", "version", "operation", "format", "shape", "kind", "seed", "card", "elements", "outside", "worst_ratio", "refused"]
    with open(os.path.join(asked.output, "outsiders.csv"), "w", newline="") as file:
        rows = csv.DictWriter(file, columns, lineterminator="\n")
        rows.writeheader()
        for library, version, op, fmt, shape, kind, seed, attributes, kernel, name, inputs in cases(asked):
            key = f"{library} {op} {fmt} {shape} {kind}"
            if not re.search(asked.only, key):
                continue
            inputs, output = run(library, fmt, kernel, inputs, asked.device)
            for card in cards_of(asked, library, op, fmt):
                found = judged(asked.plumb, op, attributes, inputs, output, name, card, fmt)
                all_outputs = found.get("outputs", [])
                worst = max([(o.get("worst") or {}).get("ratio", 0) for o in all_outputs], default=0)
                row = dict(library=library, version=version, operation=op, format=fmt, shape=shape, kind=kind, seed=seed,
                           card=library if card.endswith(".json") else card, elements=sum(o["elements"] for o in all_outputs),
                           outside=sum(o["outside"] for o in all_outputs), worst_ratio=worst, refused=found.get("refused", ""))
                rows.writerow(row)
                outside += row["outside"]
                file.flush()
            print(key, row["outside"], row["worst_ratio"], row["refused"], file=sys.stderr)
    version = subprocess.run([asked.plumb, "--version"], capture_output=True, text=True).stdout.splitlines()
    only = f" --only '{asked.only}'" if asked.only else ""
    only += f" --device {asked.device} --unit {asked.unit}" if asked.device != "cpu" else ""
    with open(os.path.join(asked.output, "outsiders.json"), "w") as file:
        json.dump({"command": "experiments/outsiders/outsiders.py" + (f" --seeds {asked.seeds}" if asked.seeds > 1 else "") + only,
                   "commit": version[1].split()[-1], "device": device(asked), "python": platform.python_version(),
                   "seeds": "in the rows"}, file, indent=1)
        file.write("\n")
    return 1 if outside else 0


if __name__ == "__main__":
    sys.exit(main())
