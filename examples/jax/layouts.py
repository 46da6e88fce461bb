"""How sums are added up: on one device, over a mesh, and as twins of the mesh do it on one device.

A product is asked for with the axis over which the terms of its sum are dealt (none: each device has all of them).
"""
import jax
import jax.numpy as jnp
from jax import lax

WAYS = 2  # devices along each axis


class OneDevice:
    """All terms are here."""

    def product(self, name, a, b, axis):
        return self.added(name, jnp.matmul(a, b), axis)

    def total(self, name, terms, dtype, axis):
        """Over the first dimension of FP32 numbers, in FP32."""
        return self.added(name, terms.sum(0), axis).astype(dtype)

    def added(self, name, part, axis):
        return part

    def largest(self, x, axis):
        return x

    def first(self, name, axis, held):
        """Which of the numbers that are dealt is this device's first."""
        return 0


class Mesh(OneDevice):
    """Inside of jax.shard_map: some of the terms are here. Parts travel in the type in which they are."""

    def __init__(self, mistake=None):
        self.mistake = mistake

    def added(self, name, part, axis):
        if self.mistake == "axis" and name == "layers.1.down out":
            axis = "dp"
        if self.mistake == "norm" and name == "layers.1.norm2 weight":
            axis = None
        if self.mistake == "twice" and name.endswith(" weight"):
            part = part / WAYS  # the loss is a mean over all tokens already
        return part if axis is None else lax.psum(part, axis)

    def largest(self, x, axis):
        return lax.pmax(x, axis)

    def first(self, name, axis, held):
        shift = self.mistake == "mask" and name == "words"
        return lax.axis_index(axis) * (held - shift)


class Twin(OneDevice):
    """Sums in as many parts, between which about an ulp moves before they are rounded (trace/twins.md, M2)."""

    def __init__(self, number):
        self.number = number  # may be traced by jax.jit, so that all are compiled once

    def product(self, name, a, b, axis):
        if axis is None:
            return super().product(name, a, b, axis)
        half = a.shape[-1] // WAYS
        parts = [jnp.matmul(a[:, k:k + half], b[k:k + half], preferred_element_type=jnp.float32) for k in (0, half)]
        return self.joined(name, *parts, a.dtype)

    def total(self, name, terms, dtype, axis):
        half = len(terms) // WAYS
        return self.joined(name, terms[:half].sum(0), terms[half:].sum(0), terms.dtype).astype(dtype)

    def joined(self, name, a, b, dtype):
        step = jnp.maximum(ulp(a, dtype), ulp(b, dtype))
        reach = jnp.minimum(step, jnp.minimum(abs(a), abs(b)) / 2)  # what is lost of a small part is all of it
        by = 4 * uniform(self.words(name, a.shape[-1]), a / step, b / step) * reach
        by = jnp.where(is_exact(a, b, dtype), 0, by)
        return (a + by).astype(dtype) + (b - by).astype(dtype)

    def words(self, name, count):
        """One for each column."""
        return mixed(mixed(jnp.uint32(hashed(name)) ^ self.number) + jnp.arange(count, dtype=jnp.uint32))


def hashed(text):
    h = 0x811c9dc5  # FNV-1a
    for byte in text.encode():
        h = (h ^ byte) * 0x01000193 & 0xffffffff
    return h


def mixed(h):  # MurmurHash3's last lines
    h = (h ^ h >> 16) * jnp.uint32(0x85EBCA6B)
    h = (h ^ h >> 13) * jnp.uint32(0xC2B2AE35)
    return h ^ h >> 16


def uniform(word, a, b):
    """In (-1/2, 1/2), the same where the word is and what both numbers round to."""
    whole = lambda x: lax.bitcast_convert_type(jnp.round(x).astype(jnp.int32), jnp.uint32)
    h = mixed(word ^ (whole(a) * jnp.uint32(0x9E3779B1) + whole(b) * jnp.uint32(0x7FEB352D)))
    return (h >> 8).astype(jnp.float32) * 2.0 ** -24 + (2.0 ** -25 - 0.5)


def ulp(x, dtype):
    bits = {"bfloat16": 8, "float32": 24}[jnp.dtype(dtype).name]
    exponent = jnp.maximum(jnp.frexp(x)[1] - bits, -126)
    return lax.bitcast_convert_type((exponent + 127) << 23, jnp.float32)


def is_exact(a, b, dtype):
    """Are both, and their sum, numbers of this format?"""
    s = a + b
    lost = (a - (s - (s - a))) + (b - (s - a))  # by the rounding of s
    return (lost == 0) & (s.astype(dtype) == s) & (a.astype(dtype) == a) & (b.astype(dtype) == b)
