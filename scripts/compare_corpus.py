#!/usr/bin/env python3
"""Runs kernels of every Metal source below a folder on two devices, and compares what they leave in their buffers.

    scripts/compare_corpus.py FOLDER [--program PATH] [--device nvidia] [--most 8] [--jobs 8]
                              [-I FOLDER]... [-D NAME=VALUE]...

What a kernel takes by reference is mostly a size, and what it takes by pointer mostly numbers: FILLS has what they are
tried with. A kernel is compared with the first of them with which it runs clean on the processor, every access checked,
in two orders of threads. Buffers agree when they have the same bytes, or when as numbers of one floating-point type their elements
differ by at most 16 units of the largest: Metal's functions may be off by some.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

UNITS = 16
# Of arguments by reference, and by pointer.
FILLS = [("u32:1", "f32:ramp"), ("u64:1", "f32:ramp"), ("u32:1", "u32:1"), ("u64:1", "u64:1"), ("u32:0", "u32:0")]
# Of a run that strays, the process ends, and the next one has the rest.
ORDERS = "forward,reverse"


def widened(data, kind):
    """The numbers of some bytes, as 64-bit ones."""
    if kind == "f32":
        return array("f", data)
    if kind == "bf16":
        halves = array("H", data)
        return array("f", array("I", (half << 16 for half in halves)).tobytes())
    return memoryview(data).cast("e").tolist()


EPSILON = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}


def agree(one, other):
    """How two devices' bytes agree, or nothing."""
    if one == other:
        return "bytes"
    if len(one) != len(other):
        return None
    whole = len(one) // 4 * 4
    for kind, epsilon in EPSILON.items():
        pairs = zip(widened(one[:whole], kind), widened(other[:whole], kind))
        # Also NaN and infinity, which both have at the same places.
        differing = [(x, y) for x, y in pairs if x != y and not (x != x and y != y)]
        largest = max((max(abs(x), abs(y)) for x, y in differing), default=0)
        if all(abs(x - y) <= UNITS * epsilon * largest < float("inf") for x, y in differing):
            return kind
    return None


class Comparison:
    def __init__(self, options, rest):
        self.options, self.rest = options, rest

    def check(self, file, fill, chosen):
        """The kernels of a file that the processor runs clean, and the others that compile."""
        load = ["--run", f"--fill={fill[0]}", f"--pointers={fill[1]}", "--orders", ORDERS, "--jobs", "1"]
        command = [self.options.program, "metal", "check", "--json", *chosen, *load, *self.rest, "--", file]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        if not done.stdout:
            return [], []
        report = json.loads(done.stdout)["files"][0]
        stained = {finding["kernel"] for finding in report["findings"]}
        compiled = [kernel for kernel in report["kernels"] if kernel["compiled"] or kernel["ran"] is not None]
        clean = [kernel["name"] for kernel in compiled if kernel["ran"] and kernel["name"] not in stained]
        return clean, [kernel["name"] for kernel in compiled if kernel["name"] not in clean]

    def run(self, file, kernels, device, fill):
        """What each kernel leaves, or what is said of it."""
        results = []
        while len(results) < len(kernels):
            left = kernels[len(results) :]
            with tempfile.TemporaryDirectory() as folder:
                names = [f"--kernel={name}" for name in left]
                command = [self.options.program, "metal", "trial", *self.rest]
                command += [f"--fill={fill[0]}", f"--pointers={fill[1]}"]
                command += [f"--device={device}", f"--keep={folder}", *names, "--", file]
                done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
                lines = [json.loads(line) for line in done.stdout.splitlines() if '"kernel"' in line]
                for at, line in enumerate(lines):
                    kept = Path(folder, str(at))
                    results.append(kept.read_bytes() if kept.exists() else line.get("refused") or line["fault"])
                    if line.get("fault") and "lost" in line["fault"]:
                        break
                else:
                    if len(lines) < len(left):
                        results.append(f"the process ended: {done.returncode}, {done.stderr.strip()[-300:]}")
        return results

    def compare(self, file):
        verdicts, chosen = [], ["--most", self.options.most]
        for fill in FILLS:
            kernels, others = self.check(str(file), fill, chosen)
            verdicts += self.verdicts(file, kernels, fill)
            if not others:
                break
            chosen = [f"--kernel={name}" for name in others]
        return verdicts

    def verdicts(self, file, kernels, fill):
        there = self.run(str(file), kernels, self.options.device, fill)
        here = self.run(str(file), kernels, "cpu", fill)
        verdicts = []
        for name, one, other in zip(kernels, there, here, strict=True):
            if isinstance(one, str) or isinstance(other, str):
                text = one if isinstance(one, str) else other
                kind = "textures" if "textures are not supported" in text else "failed"
                verdicts.append((file, name, kind, text))
            else:
                verdicts.append((file, name, agree(one, other) or "differs", ""))
        return verdicts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--program", default="target/release/ironbridge")
    parser.add_argument("--device", default="nvidia")
    parser.add_argument("--most", default="8", help="kernels of a file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options, rest = parser.parse_known_args()
    files = sorted(path for path in options.folder.rglob("*.metal") if path.is_file())
    if not files:
        sys.exit(f"compare_corpus: no .metal file below {options.folder}")
    comparison = Comparison(options, rest)
    with ThreadPoolExecutor(options.jobs) as pool:
        verdicts = [verdict for some in pool.map(comparison.compare, files) for verdict in some]
    counts = collections.Counter(kind for _, _, kind, _ in verdicts)
    for file, name, kind, text in verdicts:
        if kind in ("differs", "failed"):
            print(f"{file.name}: {name}: {kind} {text[-200:]}")
    same = counts["bytes"] + sum(counts[kind] for kind in EPSILON)
    print(f"{len(verdicts)} kernels run clean on the processor; {same} agree ({counts['bytes']} in every byte), ", end="")
    print(f"{counts['textures']} use textures, {counts['failed']} failed, {counts['differs']} differ")
    sys.exit(bool(counts["failed"] or counts["differs"]))


if __name__ == "__main__":
    main()
