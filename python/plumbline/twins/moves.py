"""Random numbers of twins, and how they move the parts of a sum (twins.md M2, M3)."""
import torch


def hash_of(text):
    h = 0xcbf29ce484222325  # FNV-1a
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return h >> 1


def is_exact(x, dtype):
    return x.to(dtype).double() == x


def ulp_of(x, dtype):
    bits = {"bfloat16": 8, "float16": 11}.get(str(dtype)[6:], 24)
    least = {"bfloat16": -133, "float16": -24}.get(str(dtype)[6:], -149)
    exponent = torch.where(x == 0, least, torch.frexp(x)[1] - bits)
    return torch.ldexp(torch.ones_like(x), exponent.clamp(min=least))


def uniform(word, a, b):
    """In (-1/2, 1/2), the same where the word is and what both numbers round to (MurmurHash3's last lines)."""
    m = 0xffffffff
    h = word ^ (a.round().long() * 0x9E3779B1 + b.round().long() * 0x7FEB352D) & m
    h = (h ^ h >> 16) * 0x85EBCA6B & m
    h = (h ^ h >> 13) * 0xC2B2AE35 & m
    h = h ^ h >> 16
    return (h >> 8).double() * 2.0 ** -24 + 2.0 ** -25 - 0.5


class Moves:
    """Of cuts: the parts of a sum, moved and added; `number` is the twin's."""

    def words(self, name, n):
        generator = torch.Generator().manual_seed(hash_of(f"{self.number} {name}"))
        return torch.randint(0, 1 << 32, (n,), generator=generator)

    def moved(self, parts, dtype, name):
        """About an ulp of `dtype` goes from each part to the next, and each is rounded. Some rows at a time: what is made
        on the way then stays in a processor's cache."""
        rows = max(1, 2 ** 15 * len(parts[0]) // max(parts[0].numel(), 1)) if parts[0].dim() > 1 else 0
        if not 0 < rows < len(parts[0]):
            return self.moved_at_once(parts, dtype, name)
        some = [self.moved_at_once(of, dtype, name) for of in zip(*(x.split(rows) for x in parts))]
        return [torch.cat(of) for of in zip(*some)]

    def moved_at_once(self, parts, dtype, name):
        n = len(parts)
        parts = [p.double() for p in parts]
        total = parts[0]
        exact = torch.ones_like(total, dtype=torch.bool)
        for p in parts[1:]:
            total = total + p
            exact &= is_exact(total, dtype) & is_exact(p, dtype)
        exact &= is_exact(parts[0], dtype)
        for i in range(1 if n == 2 else n):
            a, b = parts[i], parts[(i + 1) % n]
            ulp = torch.maximum(ulp_of(a, dtype), ulp_of(b, dtype))
            word = self.words(f"{name} {i}", a.shape[-1] if a.dim() > 1 else a.numel()).to(a.device)
            reach = torch.minimum(ulp, torch.minimum(a.abs(), b.abs()) / 2)  # what is lost of a small part is all of it
            by = 4 * uniform(word, a / ulp, b / ulp) * reach
            by = torch.where(exact, torch.zeros_like(by), by)
            parts[i], parts[(i + 1) % n] = a + by, b - by
        return [p.to(dtype) for p in parts]

    def dithered(self, parts, name):
        """Their sum, rounded to FP32 with a random number within half an ulp added before."""
        total = sum(p.double() for p in parts)
        ulp = ulp_of(total, torch.float32)
        word = self.words(name, total.shape[-1] if total.dim() > 1 else total.numel()).to(total.device)
        return (total + uniform(word, total / ulp, 0 * ulp) * ulp).float()

    def rounded_anew(self, parts, dtype, name):
        """Where no cut can lie elsewhere, as between two sequences: one number in twelve of each part becomes the next of
        its format, up or down. So each has the variance of a rounding once more, an ulp's square over twelve."""
        wide, out = [p.double() for p in parts], []
        for i, x in enumerate(wide):
            ulp = ulp_of(x, dtype)
            word = self.words(f"{name} {i} anew", x.shape[-1] if x.dim() > 1 else x.numel()).to(x.device)
            chance = uniform(word, x / ulp, wide[(i + 1) % len(wide)] / ulp)
            step = (chance > 11 / 24).double() - (chance < -11 / 24).double()
            out.append(torch.where(x == 0, x, x + step * ulp).to(parts[i].dtype))
        return out

    def added(self, parts, dtype):
        total = parts[0].to(dtype)
        for p in parts[1:]:
            total = total + p.to(dtype)
        return total

    def bounds(self, name, terms, ways, short):
        """Where tokens are cut. Of a short format a kernel rounds each part by itself: so up to a quarter of a piece
        beside where the layout cuts (M3). FP32 parts are cut as in the layout, since kernels sum up in blocks; their sum
        is rounded up or down at random."""
        ends = [terms * r // ways for r in range(ways + 1)]
        if not short:
            return ends
        generator = torch.Generator().manual_seed(hash_of(f"{self.number} {name} cut"))
        reach = terms // ways // 4
        if not reach:
            self.still.add(name)
        for r in range(1, ways):
            ends[r] += int(torch.randint(-reach, reach + 1, (), generator=generator)) if reach else 0
        return ends
