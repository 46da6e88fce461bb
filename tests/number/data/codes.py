"""Writes codes.txt: what another implementation makes of every code and of every BF16 input.

    python3 -m venv v && v/bin/pip install ml_dtypes==0.6.0 && v/bin/python codes.py > codes.txt

Per format: `decode` and the value of each code; `cast` and runs "first BF16 code:code" over all BF16
codes in rising order. NaN is written as nan.
"""
import ml_dtypes
import numpy as np

NAMES = {
    "e4m3fn": "float8_e4m3fn", "e5m2": "float8_e5m2", "e4m3fnuz": "float8_e4m3fnuz",
    "e5m2fnuz": "float8_e5m2fnuz", "e3m2": "float6_e3m2fn", "e2m3": "float6_e2m3fn",
    "e2m1": "float4_e2m1fn", "e8m0": "float8_e8m0fnu",
}

print("# ml_dtypes", ml_dtypes.__version__)
every_bf16 = np.arange(65536, dtype=np.uint16).view(ml_dtypes.bfloat16)
for ours, theirs in NAMES.items():
    kind = getattr(ml_dtypes, theirs)
    codes = np.arange(2 ** ml_dtypes.finfo(kind).bits, dtype=np.uint8)
    values = codes.view(kind).astype(np.float64)
    print(ours, "decode", *["nan" if np.isnan(v) else float(v).hex() for v in values])
    with np.errstate(all="ignore"):
        cast = every_bf16.astype(np.float32).astype(kind).view(np.uint8)
    runs = [i for i in range(65536) if i == 0 or cast[i] != cast[i - 1]]
    print(ours, "cast", *[f"{i}:{cast[i]}" for i in runs])
