"""A subject of plumb calibrate: products of numpy or of PyTorch, and of the BLAS behind them; functions; sums of
rows and columns, softmax and casts.

    plumb calibrate --command "python3 products.py numpy" -o numpy.json
    plumb calibrate --command "python3 products.py torch" --stays -o torch.json

Called as COMMAND IN OUT; without files it stays, reads "IN<tab>OUT" from each line of its input and answers each by a
line, so that PyTorch is loaded once. "torch:cuda" computes on a GPU. Both files have the safetensors format: eight bytes with the length of a JSON
header, the header, raw values. It is read and written by hand here, so that numpy is all it takes.
"""

import json
import sys

import numpy


def read(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        values = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        tensors[name] = numpy.frombuffer(values[first:last], "<f4").reshape(entry["shape"])
    return tensors


def write(path, tensors):
    header, values = {}, b""
    for name, x in tensors.items():
        raw = numpy.ascontiguousarray(x, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(x.shape), "data_offsets": [len(values), len(values) + len(raw)]}
        values += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + values)


def softmax_of_numpy(x):
    exponentials = numpy.exp(x - x.max(1, keepdims=True))
    return exponentials / exponentials.sum(1, keepdims=True)


def of_numpy():
    functions = {name: getattr(numpy, name) for name in ("exp", "log", "tanh", "sqrt")}
    functions["cast_fp16"] = lambda x: x.astype("f2")
    tables = {
        "column_sum": lambda x: x.sum(0).reshape(-1, 1),
        "row_sum": lambda x: x.sum(1).reshape(-1, 1),
        "softmax": softmax_of_numpy,
    }
    return numpy.matmul, functions, tables


def of_torch(device="cpu"):
    import torch

    def on_tensors(function):
        return lambda *arrays: function(*(torch.from_numpy(x.copy()).to(device) for x in arrays)).cpu().numpy()

    names = ("exp", "log", "tanh", "sqrt", "erf")
    functions = {name: on_tensors(getattr(torch, name)) for name in names}
    formats = {"bf16": "bfloat16", "fp16": "float16", "e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2"}
    for name, dtype in formats.items():
        if hasattr(torch, dtype):
            to = getattr(torch, dtype)
            functions["cast_" + name] = on_tensors(lambda x, to=to: x.to(to).to(torch.float32))
    tables = {
        "column_sum": on_tensors(lambda x: x.sum(0).reshape(-1, 1)),
        "row_sum": on_tensors(lambda x: x.sum(1).reshape(-1, 1)),
        "softmax": on_tensors(lambda x: torch.softmax(x, 1)),
    }
    return on_tensors(torch.matmul), functions, tables


def answer(read_from, write_to, matmul, functions, tables):
    asked = read(read_from)
    count = sum(name.startswith("a.") for name in asked)
    made = {f"c.{i}": matmul(asked[f"a.{i}"], asked[f"b.{i}"]) for i in range(count)}
    for name, function in functions.items():
        if f"x.{name}" in asked:
            made[f"f.{name}"] = function(asked[f"x.{name}"])
    for name, x in asked.items():
        table = tables.get(name.split(".")[1])
        if table and name.startswith("x."):
            made["f" + name[1:]] = table(x)
    if "x.divide" in asked:
        made["f.divide"] = asked["x.divide"] / asked["y.divide"]
    write(write_to, made)


def main():
    library, *files = sys.argv[1:]
    numpy.seterr(all="ignore")  # infinities and NaN are asked for on purpose
    subject = {"numpy": of_numpy, "torch": of_torch, "torch:cuda": lambda: of_torch("cuda")}[library]()
    if files:
        return answer(*files, *subject)
    for line in sys.stdin:
        answer(*line.rstrip("\n").split("\t"), *subject)
        print("written", flush=True)


if __name__ == "__main__":
    main()
