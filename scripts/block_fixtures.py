#!/usr/bin/env python3
"""Writes tests/data/blocks.json: two random blocks of each block-quantised type, and the weights (the bits of each
float32) that the public `gguf` package reads from them; tests/data/iq_blocks.json: the same of types that are decoded when
they are loaded, 16 blocks each.

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
# The same of those that no kernel takes.
DECODED = {"IQ1_S": [0], "IQ1_M": [], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
           "NVFP4": []}


def fixtures_of(types, count, random):
    fixtures = {}
    for name, scales in types.items():
        kind = gguf.GGMLQuantizationType[name]
        _, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
        if name == "MXFP4":  # an exponent
            blocks[:, 0] = [125, 126]
        if name == "IQ1_M":  # a float16 in the upper bits of four words
            bits = random.normal(size=count).astype(np.float16).view(np.uint16)
            for word in range(4):
                blocks[:, 49 + 2 * word] = blocks[:, 49 + 2 * word] & 15 | (bits >> (4 * word) & 15) << 4
        for place in scales:
            blocks[:, place:place + 2] = random.normal(size=(count, 1)).astype(np.float16).view(np.uint8)
        weights = gguf.quants.dequantize(blocks.reshape(-1), kind).astype(np.float32).reshape(-1)
        fixtures[name] = {"bytes": blocks.reshape(-1).tolist(), "weights": weights.view(np.uint32).tolist()}
    return fixtures


for file, types, count, seed in [("blocks.json", SCALES, 2, 20), ("iq_blocks.json", DECODED, 16, 21)]:
    fixtures = fixtures_of(types, count, np.random.default_rng(seed))
    path = Path(__file__).parent.parent / "tests/data" / file
    path.write_text(",\n".join(json.dumps({name: one})[1:-1] for name, one in fixtures.items()).join(["{", "}\n"]))
