#!/usr/bin/env python3
"""Makes tests/data/golden.json from the exact answers of tiny-rustbook.

usage: golden_fixtures.py GOLDEN_EXACT.json OUT.json

GOLDEN_EXACT.json holds, for each type of weights and each prompt, the token ids, the logits after the last one and 24
greedy tokens, computed by a float64 NumPy forward pass over the weights that the public `gguf` package dequantises.
Kept are q8_0, with every logit, and f16, with every eighth, with the five decimals that they have: an error of 5e-7 of
their norm.
"""
import json
import sys


def trimmed(cases, step):
    return [{
        "prompt": case["prompt"],
        "tokens": case["tokens"],
        "greedy": case["greedy"],
        "logits": [round(logit, 5) for logit in case["last_logits"][::step]],
    } for case in cases]


source, out = sys.argv[1:]
exact = json.load(open(source))
kept = {kind: {"step": step, "cases": trimmed(exact[kind], step)} for kind, step in [("q8_0", 1), ("f16", 8)]}
with open(out, "w") as file:
    json.dump(kept, file, separators=(",", ":"))
    file.write("\n")
