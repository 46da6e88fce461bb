"""Random numbers of which each depends on a seed, a name and its place in the whole tensor alone.

So they are the same however a tensor is dealt to ranks, whoever draws first, and in plumb's own C++ (number/philox.hpp):
Philox 4x32 with ten rounds (Salmon et al. 2011). A rank draws its own share, and nothing else.

    from plumbline import generator
    with torch.no_grad():
        weight.copy_(generator.normal(1, "layers.0.fc1.weight", (512, 128), 0, 0.02, take=(slice(0, 256), ...)))
"""
import math

import torch

WORD = 0xffffffff


def _philox(key, c0, c1, c2=0, c3=0):
    """Four words of 32 bits for each counter; counters and words are whole numbers, or tensors of them."""
    k0, k1 = key & WORD, key >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2  # of 64 bits, whatever their sign is
        c0, c1, c2, c3 = (b >> 32) & WORD ^ c1 ^ k0, b & WORD, (a >> 32) & WORD ^ c3 ^ k1, a & WORD
        k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
    return c0, c1, c2, c3


def key_of(seed, name):
    """The key of a tensor: of FNV-1a of its name."""
    h = 0xcbf29ce484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    first, second, _, _ = _philox(seed, h & WORD, h >> 32, 0x706c756d)
    return first << 32 | second


def _places(shape, take):
    """The number of each element that is taken, counted row by row."""
    all_of = torch.arange(math.prod(shape), dtype=torch.int64).reshape(shape)
    return all_of if take is None else all_of[take]


def words(key, at):
    """Of 32 bits, one for each of these places."""
    four = [word + 0 * at for word in _philox(key, at // 4 & WORD, at // 4 >> 32)]
    return torch.stack(four).gather(0, (at % 4)[None])[0]


def uniform(seed, name, shape, take=None):
    """In [0, 1), in FP64. `take`: what is wanted of it, as an index of a tensor of that shape."""
    return words(key_of(seed, name), _places(shape, take)).double() * 2.0 ** -32


def normal(seed, name, shape, mean=0.0, deviation=1.0, take=None):
    """In FP32: by Box and Muller from two words of each element's own, in FP64, and rounded once."""
    at = _places(shape, take)
    first, second, _, _ = _philox(key_of(seed, name), at & WORD, at >> 32)
    radius, angle = (first.double() + 1) * 2.0 ** -32, second.double() * 2.0 ** -32
    drawn = torch.sqrt(-2 * torch.log(radius)) * torch.cos(2 * math.pi * angle)
    return (mean + deviation * drawn).float()
