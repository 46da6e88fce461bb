"""Compares two traces of version 2 in BF16, shard by shard: gigabytes of both a CPU second with
torch.testing.assert_close (in BF16, tolerances so wide that it passes), the same with numpy and the
statistics of trace/difference.hpp but for distances in numbers, and the versions.

REFERENCE CANDIDATE; of each trace the first 256 MiB of rank 0, mapped, page cache warm, on one thread. Without torch
or numpy it fails, saying nothing.
"""
import json
import mmap
import struct
import sys
import time

try:
    import numpy
    import torch
except ImportError:
    sys.exit(1)

enough = 256 << 20
torch.set_num_threads(1)


def shards(run):
    """Arrays of codes of rank 0, by name."""
    with open(f"{run}/step_000001/rank_00000.safetensors", "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_PRIVATE)
    length, = struct.unpack("<Q", mapped[:8])
    found, size = {}, 0
    for name, t in json.loads(mapped[8:8 + length]).items():
        if name == "__metadata__" or size > enough:
            continue
        first, last = t["data_offsets"]
        found[name] = numpy.frombuffer(mapped, numpy.uint16, (last - first) // 2, 8 + length + first)
        size += last - first
    return found


def with_torch(a, b):
    a, b = (torch.from_numpy(x.view(numpy.int16)).view(torch.bfloat16) for x in (a, b))
    torch.testing.assert_close(a, b, rtol=1, atol=1)


def with_numpy(a, b):
    a, b = ((x.astype(numpy.uint32) << 16).view(numpy.float32) for x in (a, b))
    d = a - b
    wide = d.astype(numpy.float64)
    y = b.astype(numpy.float64)
    size = numpy.abs(d)
    return (numpy.dot(wide, wide), numpy.dot(y, y), size.max(),
            numpy.count_nonzero(size > 1e-5 + 1.6e-2 * numpy.abs(b)), numpy.count_nonzero(~numpy.isfinite(d)))


reference, candidate = map(shards, sys.argv[1:3])
size = 2 * sum(x.nbytes for x in reference.values())
speeds = []
for way in (with_torch, with_numpy):
    times = []
    for _ in range(3):
        start = time.process_time()
        for name in reference:
            way(candidate[name], reference[name])
        times.append(time.process_time() - start)
    speeds.append(1e-9 * size / sorted(times)[1])
print(*speeds, f"PyTorch {torch.__version__}, numpy {numpy.__version__}")
