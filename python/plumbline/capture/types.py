"""Types of PyTorch, as the format of traces calls them."""
import torch

from plumbline.write import LETTERS

FORMATS = {"F16": "fp16", "BF16": "bf16", "F8_E4M3": "e4m3fn", "F8_E5M2": "e5m2"}  # of which tiles in F32 are


def torch_types():
    return {letters: getattr(torch, name) for name, letters in LETTERS.items() if hasattr(torch, name)}


def rounds_otherwise(dtype):
    """In short formats PyTorch 1.13 rounds on the way, too, where later ones do so at the end."""
    return dtype != torch.float32 and int(torch.__version__.split(".")[0]) < 2
