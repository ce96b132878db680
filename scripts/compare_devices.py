#!/usr/bin/env python3
"""Kernels of candle's on two devices, with the same numbers: what both write must agree.

    scripts/compare_devices.py FOLDER [--program PATH] [--device nvidia] [--against cpu] [--jobs 8]

FOLDER has candle's Metal sources (candle-metal-kernels/src/metal_src). Numbers of bits or integers agree exactly, and
floats to a few units of their type's last place, because Metal's functions may be off by some.
"""

import argparse
import json
import math
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

COUNT = 1000
UNARY = (
    "gelu_erf sqrt sqr neg recip copy silu gelu relu cos sin exp log abs ceil floor round erf sign sigmoid tanh".split()
)
BINARY = "badd bsub bmul bdiv bminimum bmaximum eq ne le lt ge gt".split()
EPSILON = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}
UNITS = 16


def numbers(kind, seed, count=COUNT, least=-4.0):
    generator = random.Random(seed)
    if kind in EPSILON:
        values = [round(generator.uniform(least, 4.0), 3) for _ in range(count)]
    else:
        values = [generator.randrange(1, 100) for _ in range(count)]
    return f"{kind}:{json.dumps(values, separators=(',', ':'))}"


def cases():
    """File, kernel, buffers, and the rest of the command."""
    size = f"u64:[{COUNT}]"
    flat = ["--grid", str(COUNT), "--threads", "64"]
    for kind in EPSILON:
        for name in UNARY:
            least = 0.01 if name in ("sqrt", "log", "recip") else -4.0
            yield "unary", f"{name}_{kind}", [size, numbers(kind, 1, least=least), f"{kind}:{COUNT}"], flat
        affine = [size, "f32:[2.5]", "f32:[-1]", numbers(kind, 2), f"{kind}:{COUNT}"]
        yield "affine", f"affine_{kind}", affine, flat
        rows = ["--grid", "640", "--threads", "64"]
        norm = [f"u32:[{COUNT}]", "u32:[100]", numbers(kind, 3), f"{kind}:{COUNT}", numbers(kind, 4, 100)]
        yield "reduce", f"rmsnorm_{kind}", [*norm, "f32:[0.00001]"], rows
        yield "reduce", f"layernorm_{kind}", [*norm, numbers(kind, 5, 100), "f32:[0.00001]"], rows
        rope = ["u64:[5]", "u64:[200]", "u64:[20]", "u64:[0]", numbers(kind, 6), numbers(kind, 7, 100)]
        yield "reduce", f"rope_{kind}", [*rope, numbers(kind, 8, 100), f"{kind}:{COUNT}"], flat
    for kind in [*EPSILON, "u32", "i64"]:
        for name in BINARY:
            out = f"{kind}:{COUNT}" if name.startswith("b") else f"u8:{COUNT}"
            yield "binary", f"{name}_{kind}", [size, numbers(kind, 9), numbers(kind, 10, least=0.5), out], flat
        for to in [*EPSILON, "u32", "i64", "u8"]:
            yield "cast", f"cast_{kind}_{to}", [size, numbers(kind, 11, least=0.0), f"{to}:{COUNT}"], flat
    for kind in ("f32", "u32", "i64"):
        # Distinct, so that there is one order.
        values = f"{kind}:{json.dumps(random.Random(12).sample(range(100000), 256), separators=(',', ':'))}"
        for order in ("asc", "desc"):
            sort = [values, "u32:256", "i64:[256]", "i64:[256]"]
            rest = ["--grid", "256", "--threads", "256", "--threadgroup", "0=1024"]
            yield "sort", f"asort_{order}_{kind}", sort, rest


def run(options, device, case):
    file, kernel, buffers, rest = case
    command = [options.program, "metal", "run", "--device", device, "--json", "--kernel", kernel]
    for buffer in buffers:
        command += ["--buffer", buffer]
    done = subprocess.run([*command, *rest, str(options.folder / f"{file}.metal")], capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip()[-200:]
    return json.loads(done.stdout)["buffers"]


def differ(one, other):
    """What is wrong, or nothing."""
    if isinstance(one, str) or isinstance(other, str):
        return f"{one if isinstance(one, str) else other}"
    # A device that does not know what a kernel writes names every buffer.
    others = {buffer["index"]: buffer for buffer in one}
    for right in other:
        left = others[right["index"]]
        epsilon = EPSILON.get(left["type"], 0.0)
        largest = max((abs(x) for x in right["values"] if isinstance(x, (int, float)) and math.isfinite(x)), default=0)
        for at, (x, y) in enumerate(zip(left["values"], right["values"], strict=True)):
            if x != y and not (
                isinstance(x, (int, float)) and isinstance(y, (int, float)) and abs(x - y) <= UNITS * epsilon * largest
            ):
                return f"buffer {left['index']}, element {at}: {x}, and {y}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--program", default="target/release/ironbridge")
    parser.add_argument("--device", default="nvidia")
    parser.add_argument("--against", default="cpu")
    parser.add_argument("--jobs", type=int, default=8)
    options = parser.parse_args()

    def compare(case):
        return case[1], differ(run(options, options.device, case), run(options, options.against, case))

    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(compare, cases()))
    wrong = [(name, what) for name, what in results if what]
    for name, what in wrong:
        print(f"{name}: {what}")
    print(f"{len(results) - len(wrong)} of {len(results)} kernels agree")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
