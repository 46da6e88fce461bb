"""One FP32 training step of a GPT in PyTorch on one core: seconds of CPU time (median of five), the
version and the BLAS. The reference BLAS is refused: beside it anything is fast.

WIDTH LAYERS HEADS HIDDEN VOCABULARY SEQUENCE SEQUENCES; without torch it fails, saying nothing.
"""
import re
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(1)
from torch.nn import functional

torch.set_num_threads(1)
width, layers, heads, hidden, vocabulary, sequence, sequences = map(int, sys.argv[1:])
later = torch.triu(torch.full((sequence, sequence), float("-inf")), diagonal=1)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.proj = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.fc1, self.fc2 = torch.nn.Linear(width, hidden), torch.nn.Linear(hidden, width)

    def forward(self, x):
        def by_head(y):
            return y.view(sequences, sequence, heads, -1).transpose(1, 2)

        q, k, v = map(by_head, self.qkv(self.norm1(x)).split(width, -1))
        p = torch.softmax(q @ k.transpose(-1, -2) * (width // heads) ** -0.5 + later, -1)
        x = x + self.proj((p @ v).transpose(1, 2).reshape(sequences, sequence, width))
        return x + self.fc2(functional.gelu(self.fc1(self.norm2(x)), approximate="tanh"))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.positions = torch.nn.Embedding(sequence, width)
        self.blocks = torch.nn.Sequential(*[Block() for _ in range(layers)])
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, ids):
        x = self.embedding(ids) + self.positions.weight
        return self.norm(self.blocks(x)) @ self.embedding.weight.T


def blas():
    """What multiplies matrices here, by what is in memory; MKL and oneDNN may lie in libtorch."""
    with open("/proc/self/maps") as maps:
        found = set(re.findall(r"(openblas|mkl_core|blis|atlas|/blas/libblas)", maps.read()))
    if "MKL_VERSION" in torch.__config__.show() or "USE_MKL=ON" in torch.__config__.show():
        found.add("mkl")
    return " and ".join(sorted(found - {"/blas/libblas"})) or "the reference BLAS"


(torch.rand(64, 64) @ torch.rand(64, 64)).sum()  # so that it is loaded
if blas() == "the reference BLAS":
    print(0, f"PyTorch {torch.__version__} has the reference BLAS: install libopenblas0")
    sys.exit(0)
torch.manual_seed(1)
model = Model()
adam = torch.optim.Adam(model.parameters(), lr=1e-3)
ids = torch.randint(vocabulary, (sequences, sequence + 1))
times = []
for _ in range(7):
    start = time.process_time()
    adam.zero_grad(set_to_none=True)
    logits = model(ids[:, :-1])
    functional.cross_entropy(logits.reshape(-1, vocabulary), ids[:, 1:].reshape(-1)).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    adam.step()
    times.append(time.process_time() - start)
print(sorted(times[2:])[2], f"PyTorch {torch.__version__} with {blas()}")
