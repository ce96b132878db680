#!/usr/bin/env python3
"""Makes tests/data/golden_types.json: for every type of weights the exact logits of tiny-rustbook after six prompts.

needs: pip install gguf numpy

usage: golden_types.py GGML FOLDER OUT.json     (GGML: see llama_cpp_quantizer.py)

FOLDER holds tiny-rustbook-*.gguf, of which those of Q4_0 and the K types were made by llama.cpp's quantiser, and
golden-exact.json. The files of the other types are made here from the one in F16: by the public `gguf` package, or for the
types that it only reads by llama.cpp's quantiser. The logits come from a float64 forward pass over the weights that the
`gguf` package reads from the blocks. Tests do not need the files: they make them from the F16 one, and know by the checksum
of all tensors that they are the same.
"""
import json
import sys
import zlib
from pathlib import Path

import gguf
import numpy as np

from llama_cpp_quantizer import Quantizer

Kind = gguf.GGMLQuantizationType
FILES = ["q4_0", "q4_k_m", "q5_k_m", "q6_k"]
PACKAGE = [Kind.F32, Kind.BF16, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1]
LLAMA_CPP = [Kind.Q2_K, Kind.Q3_K, Kind.IQ4_NL]
HEADS, KV_HEADS, HEAD_DIM, LAYERS, EPSILON = 8, 4, 32, 6, 1e-5
STEP = 16  # of so many logits one is kept


def rms_norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPSILON) * weight


def rotate(x):
    """Neighbours are pairs."""
    frequencies = 10000.0 ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM)
    angles = (np.arange(len(x))[:, None] * frequencies)[:, None, :]
    real, imaginary = x[..., 0::2], x[..., 1::2]
    out = np.empty_like(x)
    out[..., 0::2] = real * np.cos(angles) - imaginary * np.sin(angles)
    out[..., 1::2] = real * np.sin(angles) + imaginary * np.cos(angles)
    return out


def last_logits(weights, tokens):
    x = weights["token_embd.weight"][tokens]
    count = len(tokens)
    later = np.triu(np.full((count, count), -np.inf), 1)
    for layer in range(LAYERS):
        at = lambda name: weights[f"blk.{layer}.{name}.weight"]
        h = rms_norm(x, at("attn_norm"))
        q = rotate((h @ at("attn_q").T).reshape(count, HEADS, HEAD_DIM))
        k = rotate((h @ at("attn_k").T).reshape(count, KV_HEADS, HEAD_DIM))
        v = (h @ at("attn_v").T).reshape(count, KV_HEADS, HEAD_DIM)
        k, v = (np.repeat(cached, HEADS // KV_HEADS, 1) for cached in (k, v))
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HEAD_DIM) + later
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        x = x + np.einsum("hqk,khd->qhd", scores, v).reshape(count, -1) @ at("attn_output").T
        h = rms_norm(x, at("ffn_norm"))
        gate = h @ at("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ at("ffn_up").T)) @ at("ffn_down").T
    return rms_norm(x[-1], weights["output_norm.weight"]) @ weights["output.weight"].T


def encoded(numbers, kind, quantizer):
    """Rows of float32 as rows of bytes."""
    if kind in LLAMA_CPP:
        return quantizer.quantize(numbers, kind)
    return gguf.quants.quantize(numbers, kind).view(np.uint8)


def read(path):
    """Each tensor's type and bytes."""
    return {tensor.name: (tensor.tensor_type, tensor.data) for tensor in gguf.GGUFReader(path).tensors}


def decoded(kind, data):
    return gguf.quants.dequantize(data, kind).astype(np.float64)


def in_type(f16, kind, quantizer):
    def convert(source, data):
        if source != Kind.F16:
            return source, data
        data = encoded(data.astype(np.float32), kind, quantizer)
        return kind, data.view(np.float32) if kind == Kind.F32 else data
    return {name: convert(*tensor) for name, tensor in f16.items()}


def fixture(name, tensors, exact):
    weights = {tensor: decoded(*stored) for tensor, stored in tensors.items()}
    checksum = 0
    for tensor in sorted(tensors):
        checksum = zlib.crc32(np.ascontiguousarray(tensors[tensor][1]).tobytes(), checksum)
    cases = []
    for index, case in enumerate(exact["f16"]):
        logits = last_logits(weights, case["tokens"])
        kept = {"tokens": case["tokens"], "logits": [round(logit, 5) for logit in logits[::STEP].tolist()]}
        if name in exact:
            other = np.array(exact[name][index]["last_logits"])
            assert np.linalg.norm(logits - other) < 1e-5 * np.linalg.norm(other), name
        if name == "f32":  # the type whose greedy tokens must be those of exact arithmetic
            kept["greedy"] = exact[name][index]["greedy"]
        cases.append(kept)
    matrices = {tensor: kind.name for tensor, (kind, data) in tensors.items() if data.ndim == 2}
    return {"step": STEP, "crc32": checksum, "types": matrices, "cases": cases}


def main():
    quantizer, folder, out = Quantizer(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])
    exact = json.loads((folder / "golden-exact.json").read_text())
    f16 = read(folder / "tiny-rustbook-f16.gguf")
    files = {name: read(folder / f"tiny-rustbook-{name}.gguf") for name in FILES}
    files |= {kind.name.lower(): in_type(f16, kind, quantizer) for kind in PACKAGE + LLAMA_CPP}
    fixtures = {name: fixture(name, tensors, exact) for name, tensors in sorted(files.items())}
    out.write_text(json.dumps(fixtures, separators=(",", ":")) + "\n")


main()
