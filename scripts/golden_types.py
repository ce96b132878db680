#!/usr/bin/env python3
"""Makes tests/data/golden.json and golden_types.json: exact logits of tiny-rustbook after six prompts.

needs: pip install gguf numpy

usage: golden_types.py GGML     (see llama_cpp_quantizer.py), in the root of the repository

The model in F16 is the one of assets/ in Q8_0, each weight rounded to F16 by NumPy. The files of the other types are made
from that one by the public `gguf` package, or for the types that it only reads by llama.cpp's quantizer. Which matrix has
which type, and each prompt's tokens, stand in the files that are there. The logits come from a float64 forward pass over
the weights that the `gguf` package reads from the blocks. Tests make the files themselves, and know by the checksum of all
tensors that they are the same.
"""
import json
import sys
import zlib
from pathlib import Path

import gguf
import numpy as np

from llama_cpp_quantizer import Quantizer

Kind = gguf.GGMLQuantizationType
DATA = Path("tests/data")
PACKAGE = [Kind.F32, Kind.F16, Kind.BF16, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1, Kind.Q8_0]
HEADS, KV_HEADS, HEAD_DIM, LAYERS, EPSILON = 8, 4, 32, 6, 1e-5
GREEDY = 24


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
    if kind not in PACKAGE:
        return quantizer.quantize(numbers, kind)
    return gguf.quants.quantize(numbers, kind).view(np.uint8)


def read(path):
    """Each tensor's type and bytes."""
    return {tensor.name: (tensor.tensor_type, tensor.data) for tensor in gguf.GGUFReader(path).tensors}


def decoded(kind, data):
    return gguf.quants.dequantize(data, kind).astype(np.float64)


def in_types(source, types, quantizer):
    """The matrices that `types` names, in those types; what it does not name as it is."""
    def convert(kind, data, name):
        wanted = types.get(name)
        if wanted is None or Kind[wanted] == kind:
            return kind, data
        wanted = Kind[wanted]
        data = encoded(gguf.quants.dequantize(data, kind), wanted, quantizer)
        views = {Kind.F32: np.float32, Kind.F16: np.float16}
        return wanted, data.view(views.get(wanted, np.uint8))
    return {name: convert(*tensor, name) for name, tensor in source.items()}


def greedy(weights, tokens):
    tokens = list(tokens)
    for _ in range(GREEDY):
        tokens.append(int(last_logits(weights, tokens).argmax()))
    return tokens[-GREEDY:]


def fixture(old, tensors):
    """With as many logits of each prompt, and of the same prompts the greedy tokens, as the old one."""
    weights = {tensor: decoded(*stored) for tensor, stored in tensors.items()}
    checksum = 0
    for tensor in sorted(tensors):
        checksum = zlib.crc32(np.ascontiguousarray(tensors[tensor][1]).tobytes(), checksum)
    matrices = {tensor: kind.name for tensor, (kind, data) in tensors.items() if data.ndim == 2}
    cases = []
    for case in old["cases"]:
        logits = last_logits(weights, case["tokens"])
        kept = dict(case, logits=[round(logit, 5) for logit in logits[::old["step"]].tolist()])
        if "greedy" in case:
            kept["greedy"] = greedy(weights, case["tokens"])
        cases.append(kept)
    return {"step": old["step"], "crc32": checksum, "types": matrices, "cases": cases}


def main():
    quantizer = Quantizer(sys.argv[1])
    q8_0 = read("assets/tiny-rustbook-q8_0.gguf")
    f16 = in_types(q8_0, {name: "F16" for name, (kind, _) in q8_0.items() if kind == Kind.Q8_0}, quantizer)
    golden, types = (json.loads((DATA / name).read_text()) for name in ["golden.json", "golden_types.json"])
    golden = {"q8_0": fixture(golden["q8_0"], q8_0), "f16": fixture(golden["f16"], f16)}
    types = {name: fixture(old, in_types(f16, old["types"], quantizer)) for name, old in sorted(types.items())}
    for name, made in [("golden.json", golden), ("golden_types.json", types)]:
        (DATA / name).write_text(json.dumps(made, separators=(",", ":")) + "\n")


main()
