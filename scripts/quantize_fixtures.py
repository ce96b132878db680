#!/usr/bin/env python3
"""Writes tests/data/quantized.json: numbers, and the blocks that others make of them: the public `gguf` package where it
quantizes a type, else llama.cpp, which also makes those with an importance matrix.

    pip install gguf numpy && scripts/quantize_fixtures.py GGML     (GGML: see llama_cpp_quantizer.py)
"""
import json
import sys
from pathlib import Path

import gguf
import numpy as np

from llama_cpp_quantizer import Quantizer

Kind = gguf.GGMLQuantizationType
random = np.random.default_rng(5)
normal = lambda scale: (random.normal(size=256) * scale).astype(np.float32)
outlier = normal(0.02)
outlier[100] = 17.5
half = normal(1).astype(np.float16).astype(np.float32)
half[:128] = 0
# What weights look like, and what they never should: 256 numbers each.
numbers = np.stack([
    normal(0.02),
    normal(0.02),
    outlier,
    half,
    np.zeros(256, np.float32),
    np.full(256, -0.75, np.float32),
    np.abs(normal(3)) + 1,
    -np.abs(normal(3)) - 1,
    normal(1e-7),
    normal(1000),
    np.tile(np.float32([0, 1e-3, -5, 2]), 64),
    np.linspace(-1, 1, 256, dtype=np.float32),
    np.round(random.normal(size=256) * 4).astype(np.float32) / 2,
    (random.standard_t(2, size=256) * 0.05).astype(np.float32),
])
quantizer = Quantizer(sys.argv[1])
blocks = {kind.name: gguf.quants.quantize(numbers, kind).view(np.uint8)
          for kind in (Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1)}
blocks |= {kind.name: quantizer.quantize(numbers, kind)
           for kind in (Kind.Q2_K, Kind.Q3_K, Kind.Q4_K, Kind.Q5_K, Kind.Q6_K, Kind.IQ4_NL, Kind.IQ4_XS, Kind.MXFP4)}
# Squares of activations are spread over orders of magnitude.
importance = np.exp(random.normal(size=numbers.shape) * 2).astype(np.float32)
weighted = {kind.name: quantizer.quantize(numbers, kind, importance)
            for kind in (Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1, Kind.Q2_K, Kind.Q3_K, Kind.Q4_K, Kind.Q5_K,
                         Kind.Q6_K, Kind.IQ4_NL, Kind.IQ4_XS)}
hexadecimal = lambda blocks: {name: data.tobytes().hex() for name, data in blocks.items()}
out = {"numbers": numbers.tobytes().hex(), "blocks": hexadecimal(blocks),
       "importance": importance.tobytes().hex(), "weighted": hexadecimal(weighted)}
path = Path(__file__).parent.parent / "tests/data/quantized.json"
path.write_text(json.dumps(out, indent=1) + "\n")
