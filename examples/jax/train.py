"""Trains a small Llama for two steps, on one device or on four, and writes what it computed in the first as a trace.

    train.py FOLDER [--mesh [--auto]] [--twins N] [--bf16] [--seed N] [--mistake NAME]

Without --mesh it runs on one device, and writes N twins to FOLDER-twin1 and so on.
"""
import argparse
import functools
import os
import pathlib
import re

FLAGS = ("--xla_force_host_platform_device_count=4",  # four devices on this processor
         "--xla_allow_excess_precision=false")  # what is cast to BF16 is rounded to BF16
os.environ["XLA_FLAGS"] = " ".join((os.environ.get("XLA_FLAGS", ""), *FLAGS))

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P

import model
from layouts import Mesh, OneDevice, Twin
from plumbline.write import stored, write_manifest, write_rank

MISTAKES = ("axis", "twice", "mask", "norm")
LETTERS = {"float32": "F32", "bfloat16": "BF16", "int32": "I32"}
TEXT = pathlib.Path(__file__).resolve().parents[2] / "model/data/devils_dictionary.txt"
TOKENS = model.SEQUENCES * model.TOKENS


def batch_of(seed, step):
    """Bytes of a text, and those that follow. Letters are dealt over all words, so that each device has some."""
    text = np.frombuffer(TEXT.read_bytes(), np.uint8).astype(np.int32) * 167 % model.WORDS
    first = np.random.default_rng([seed, step]).integers(len(text) - model.TOKENS, size=(model.SEQUENCES, 1))
    taken = text[first + np.arange(model.TOKENS + 1)]
    return taken[:, :-1], taken[:, 1:]


def first_weights(seed, dtype):
    draw = np.random.default_rng(seed)
    normal = lambda shape: draw.normal(0, 1 / model.WIDTH ** 0.5, shape) if len(shape) > 1 else np.ones(shape)
    return {name: jnp.asarray(normal(shape), dtype) for name, (shape, _) in model.shapes().items()}


def gradients(weights, taps, ids, targets, how, order=None):
    """What was made on the way, the gradients of that, and those of weights."""
    def of(weights, taps):
        made = {}

        def see(name, x):
            made[name] = x
            return x + taps[name] if taps else x

        loss = model.loss(weights, taps, ids, targets, how, see, TOKENS)
        if order is not None:
            order.extend(made)
        return loss, made

    (loss, made), (of_weights, of_made) = jax.value_and_grad(of, (0, 1), has_aux=True)(weights, taps)
    return loss, made, of_made, of_weights


def names_of(weights, ids, targets):
    """What is made, in the order of execution, and its shapes."""
    order = []
    shapes_of = functools.partial(gradients, how=OneDevice(), order=order)
    _, made, _, _ = jax.eval_shape(shapes_of, weights, {}, ids, targets)
    return {name: made[name] for name in order}


def adam(weights, grads, state, step, rate=1e-3):
    m, v = state
    m = {name: 0.9 * m[name] + 0.1 * g.astype(jnp.float32) for name, g in grads.items()}
    v = {name: 0.99 * v[name] + 0.01 * g.astype(jnp.float32) ** 2 for name, g in grads.items()}
    step_of = lambda name: m[name] / (1 - 0.9 ** step) / (jnp.sqrt(v[name] / (1 - 0.99 ** step)) + 1e-8)
    return {name: (w - rate * step_of(name)).astype(w.dtype) for name, w in weights.items()}, (m, v)


def over_mesh(mesh, names, how=None):
    """The step on four devices: by `how` each says what it adds over which axis, and nobody adds more. Without, XLA
    deals out the step of one device, and says to nobody which sums it splits."""
    of_weights = {name: spec for name, (_, spec) in model.shapes().items()}
    of_made = {name: P("dp", "tp") if re.search(model.BY_COLUMNS, name) else P("dp", None) for name in names}
    given, results = (of_weights, of_made, P("dp", None), P("dp", None)), (P(), of_made, of_made, of_weights)
    placed, found = (jax.tree.map(functools.partial(NamedSharding, mesh), specs, is_leaf=lambda x: isinstance(x, P))
                     for specs in (given, results))
    step = functools.partial(gradients, how=how or OneDevice())
    if how is not None:
        step = jax.shard_map(step, mesh=mesh, in_specs=given, out_specs=results, check_vma=False)
    step = jax.jit(step, out_shardings=found)

    def run(*args):
        args = jax.device_put(args, placed)
        return args, step(*args)

    return run


def on_one():
    step = jax.jit(functools.partial(gradients, how=OneDevice()))
    return lambda *args: (args, step(*args))


def as_twins():
    step = jax.jit(lambda number, *args: gradients(*args, how=Twin(number)))
    return lambda number, *args: step(jnp.uint32(number), *args)


def products(asked):
    """Of linear layers and their weights' gradients: which product makes them, of what, and how many share its sum."""
    shared = {"parts": 2} if asked.mesh else {}
    out = {}
    for name, (shape, spec) in model.shapes().items():
        layer, _, key = name.rpartition(".")
        if key in model.READS:
            x = f"{layer}.{model.READS[key]}/out".lstrip(".")
            product = lambda a, b, turned, **more: {
                "op": "gemm", "inputs": [a, b], "attributes": {"transpose_a": turned, "transpose_b": 0}, **more}
            out[f"{name}/out"] = product(x, f"{name}.weight", 0, **(shared if spec[0] == "tp" else {}))
            out[f"{name}.weight/grad"] = product(x, f"{name}/grad_out", 1, **shared)
    return out


def said(asked, weights, ids, targets, results):
    """All tensors of a step, with what is said of them."""
    loss, made, of_made, of_weights = results
    out, by = {}, products(asked)
    for name, x in (("ids", ids), ("targets", targets), *((f"{name}.weight", w) for name, w in weights.items())):
        out[name] = x, {"role": "given"}
    for phase, found in (("forward", [(f"{name}/out", x) for name, x in made.items()] + [("loss", loss)]),
                         ("backward", [(f"{name}/grad_out", of_made[name]) for name in reversed(made)]),
                         ("reduce", [(f"{name}.weight/grad", of_weights[name])
                                     for name in reversed(model.shapes())])):
        for name, x in found:
            out[name] = x, {"order": len(out) + 1, "phase": phase, **({"made_by": by[name]} if name in by else {})}
    return out


def write(folder, tensors, mesh, agree):
    """A file for each device. How an array lies is what its sharding says."""
    devices = [jax.devices()[0]] if mesh is None else list(mesh.devices.flat)
    write_manifest(folder, producer="examples/jax", ranks=len(devices), steps=[1], must_agree=agree,
                   mesh=None if mesh is None else dict(mesh.shape), libraries={"jax": jax.__version__})
    of_rank = [{} for _ in devices]
    for name, (x, says) in tensors.items():
        for piece in jnp.asarray(x).addressable_shards:
            spec = [*getattr(x.sharding, "spec", ())] if mesh is not None else []
            says = {**says, "shape": list(x.shape), "partition_spec": spec + [None] * (x.ndim - len(spec))}
            held = np.asarray(piece.data)
            rank = devices.index(piece.device)
            of_rank[rank][name] = stored(LETTERS[str(x.dtype)], held.shape, held.tobytes(), **says)
    for rank, tensors in enumerate(of_rank):
        write_rank(folder, 1, rank, tensors)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--mesh", action="store_true", help="four devices: data and tensor parallel by two")
    parser.add_argument("--auto", action="store_true", help="with --mesh: leave to XLA what is added over which axis")
    parser.add_argument("--twins", type=int, default=0)
    parser.add_argument("--bf16", action="store_true", help="weights and activations in BF16 instead of FP32")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mistake", choices=MISTAKES)
    asked = parser.parse_args(arguments)
    mesh = jax.sharding.Mesh(np.reshape(jax.devices(), (2, 2)), ("dp", "tp")) if asked.mesh else None
    train(asked, mesh)


def train(asked, mesh):
    weights = first_weights(asked.seed, jnp.bfloat16 if asked.bf16 else jnp.float32)
    state = ({name: jnp.zeros(w.shape) for name, w in weights.items()},) * 2
    names = names_of(weights, *batch_of(asked.seed, 1))
    taps = {name: jnp.zeros(x.shape, x.dtype) for name, x in names.items()}
    step = over_mesh(mesh, names, None if asked.auto else Mesh(asked.mistake)) if mesh else on_one()
    agree = {"model": "llama", "seed": str(asked.seed), "format": "bf16" if asked.bf16 else "fp32"}
    in_order = lambda results: (results[0], {name: results[1][name] for name in names}, *results[2:])
    for number in (1, 2):
        ids, targets = map(jnp.asarray, batch_of(asked.seed, number))
        (weights, _, ids, targets), results = step(weights, taps, ids, targets)
        print(f"step {number}: loss {float(results[0])!r}")
        if number == 1:
            write(asked.folder, said(asked, weights, ids, targets, in_order(results)), mesh, agree)
            twin = as_twins() if asked.twins else None
            for k in range(1, asked.twins + 1):
                of_twin = twin(k, weights, taps, ids, targets)
                write(f"{asked.folder}-twin{k}", said(asked, weights, ids, targets, in_order(of_twin)), None, agree)
        weights, state = jax.jit(adam)(weights, results[3], state, number)


if __name__ == "__main__":
    main()
