#!/usr/bin/env python3
"""Writes tests/data/blocks.json: two random blocks of each block-quantised type, and the weights (the bits of each float32) that the
public `gguf` package reads from them.

    pip install gguf numpy && scripts/block_fixtures.py
"""
import json
from pathlib import Path

import gguf
import numpy as np

# Where the float16 scales are in a block: they get values of about 1, as random bits would often be infinite or NaN.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0],
          "TQ1_0": [52], "TQ2_0": [64], "MXFP4": []}
BLOCKS = 2

random = np.random.default_rng(20)
fixtures = {}
for name, scales in SCALES.items():
    kind = gguf.GGMLQuantizationType[name]
    _, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    if name == "MXFP4":  # an exponent
        blocks[:, 0] = [125, 126]
    for place in scales:
        blocks[:, place:place + 2] = random.normal(size=(BLOCKS, 1)).astype(np.float16).view(np.uint8)
    weights = gguf.quants.dequantize(blocks.reshape(-1), kind).astype(np.float32).reshape(-1)
    fixtures[name] = {"bytes": blocks.reshape(-1).tolist(), "weights": weights.view(np.uint32).tolist()}

path = Path(__file__).parent.parent / "tests/data/blocks.json"
path.write_text(",\n".join(json.dumps({name: fixture})[1:-1] for name, fixture in fixtures.items()).join(["{", "}\n"]))
