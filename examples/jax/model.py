"""A small Llama in jax.numpy. Each linear layer says over which axis the terms of its sums are dealt."""
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

WIDTH, HEADS, HIDDEN, LAYERS, WORDS, SEQUENCES, TOKENS = 128, 8, 256, 3, 256, 8, 64
READS = {"q": "norm1", "k": "norm1", "v": "norm1", "o": "attention", "gate": "norm2", "up": "norm2", "down": "gated",
         "head": "norm"}  # what linear layers take
BY_COLUMNS = r"(\.(q|k|v|attention|gate|up|gated)|^head)$"


def shapes():
    """Of weights, and how they lie, in the order of execution."""
    columns, rows, whole = P(None, "tp"), P("tp", None), P(None)
    out = {"words": ((WORDS, WIDTH), rows)}
    for n in range(LAYERS):
        out.update({f"layers.{n}.{name}": ((WIDTH, WIDTH), columns) for name in "qkv"})
        out.update({f"layers.{n}.{name}": ((WIDTH,), whole) for name in ("norm1", "norm2")})
        out.update({f"layers.{n}.{name}": ((WIDTH, HIDDEN), columns) for name in ("gate", "up")})
        out.update({f"layers.{n}.o": ((WIDTH, WIDTH), rows), f"layers.{n}.down": ((HIDDEN, WIDTH), rows)})
    return {**out, "norm": ((WIDTH,), whole), "head": ((WIDTH, WORDS), columns)}


def with_own_gradient(forward, backward):
    """A function of arrays, whose backward pass is `backward(arguments, gradient)`."""
    f = jax.custom_vjp(forward)
    f.defvjp(lambda *args: (forward(*args), args), backward)
    return f


def linear(how, name, x, w, forward=None, backward=None):
    """y = x w. Its sum is dealt over one axis, or that of x's gradient; that of w's gradient over dp."""
    return with_own_gradient(
        lambda x, w: how.product(name + " out", x, w, forward),
        lambda kept, g: (how.product(name + " in", g, kept[1].T, backward),
                         how.product(name + " weight", kept[0].T, g, "dp")))(x, w)


def norm(how, name, x, w):
    y = x.astype(jnp.float32)
    y = (y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype)
    return with_own_gradient(
        lambda y, w: y * w,
        lambda kept, g: (g * kept[1], how.total(name + " weight", kept[0].astype(jnp.float32) * g.astype(jnp.float32),
                                                g.dtype, "dp")))(y, w)


def embedding(how, ids, table):
    """Each device has some rows of the table: zeros stand for the words of others, so that the sum is exact."""
    def hot(table):
        first = how.first("words", "tp", len(table))
        return (ids[:, None] == first + jnp.arange(len(table))).astype(table.dtype)

    return with_own_gradient(
        lambda table: how.product("words out", hot(table), table, "tp"),
        lambda kept, g: (how.product("words weight", hot(*kept).T, g, "dp"),))(table)


def attention(q, k, v, tokens):
    heads = lambda x: x.reshape(-1, tokens, x.shape[-1] * HEADS // WIDTH, WIDTH // HEADS).swapaxes(1, 2)
    q, k, v = map(heads, (q, k, v))
    scores = jnp.matmul(q, k.swapaxes(2, 3), preferred_element_type=jnp.float32) * (WIDTH // HEADS) ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -jnp.inf)
    y = jnp.matmul(jax.nn.softmax(scores).astype(q.dtype), v)
    return y.swapaxes(1, 2).reshape(-1, y.shape[1] * y.shape[3])


def cross_entropy(how, logits, targets, count):
    """The mean over `count` tokens. Words are dealt over tp, tokens over dp."""
    def parts(logits):
        x = logits.astype(jnp.float32)
        top = how.largest(x.max(-1), "tp")
        e = jnp.exp(x - top[:, None])
        hot = targets[:, None] == how.first("head", "tp", x.shape[1]) + jnp.arange(x.shape[1])
        return x, top, e, hot, how.total("exponentials", e.T, jnp.float32, "tp")

    def forward(logits):
        x, top, e, hot, total = parts(logits)
        right = how.total("target", jnp.where(hot, x, 0).T, jnp.float32, "tp")
        return how.total("loss", (jnp.log(total) + top - right)[:, None] / count, jnp.float32, "dp")[0]

    def backward(kept, g):
        x, top, e, hot, total = parts(*kept)
        return (g * (e / total[:, None] - hot) / count).astype(kept[0].dtype),

    return with_own_gradient(forward, backward)(logits)


def loss(weights, taps, ids, targets, how, see, count):
    """`see` notes what is made, and adds a tap to it, whose gradient is that of what was noted."""
    x = see("words", embedding(how, ids.reshape(-1), weights["words"]))
    for n in range(LAYERS):
        name = f"layers.{n}."
        layer = lambda key, x, **axes: see(name + key, linear(how, name + key, x, weights[name + key], **axes))
        y = see(name + "norm1", norm(how, name + "norm1", x, weights[name + "norm1"]))
        q, k, v = (layer(key, y, backward="tp") for key in "qkv")
        x = x + layer("o", see(name + "attention", attention(q, k, v, ids.shape[1])), forward="tp")
        y = see(name + "norm2", norm(how, name + "norm2", x, weights[name + "norm2"]))
        gate, up = (layer(key, y, backward="tp") for key in ("gate", "up"))
        x = x + layer("down", see(name + "gated", jax.nn.silu(gate) * up), forward="tp")
    y = see("norm", norm(how, "norm", x, weights["norm"]))
    logits = see("head", linear(how, "head", y, weights["head"], backward="tp"))
    return cross_entropy(how, logits, targets.reshape(-1), count)
