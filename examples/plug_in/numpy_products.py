"""A subject of plumb calibrate: the matrix product of numpy, and of the BLAS behind it; its functions.

    plumb calibrate --command "python3 numpy_products.py" -o numpy.json

Called as COMMAND IN OUT. Both files have the safetensors format: eight bytes with the length of a JSON
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


def main():
    asked = read(sys.argv[1])
    count = sum(name.startswith("a.") for name in asked)
    made = {f"c.{i}": asked[f"a.{i}"] @ asked[f"b.{i}"] for i in range(count)}
    for name in ("exp", "log", "tanh", "sqrt"):
        if f"x.{name}" in asked:
            made[f"f.{name}"] = getattr(numpy, name)(asked[f"x.{name}"])
    if "x.divide" in asked:
        made["f.divide"] = asked["x.divide"] / asked["y.divide"]
    write(sys.argv[2], made)


if __name__ == "__main__":
    main()
