#!/usr/bin/env python3
"""Runs kernels of every Metal source below a folder on two devices, and compares what they leave in their buffers.

    scripts/compare_corpus.py FOLDER [--program PATH] [--device nvidia] [--most 8] [--jobs 8] [--reference FOLDER]
                              [-I FOLDER]... [-D NAME=VALUE]...

What a kernel takes by reference is mostly a size, and what it takes by pointer mostly numbers: TRIES has what they are
tried with. A kernel is compared with the first of them with which it runs clean on the processor, every access checked,
in two orders of threads. Buffers agree when they have the same bytes, or when as numbers of a type that the kernel's
name tells their elements differ by at most 16 units of the largest: Metal's functions may be off by some.

--reference keeps what the processor gives, and takes what is there: a machine without a GPU can make it.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import zlib
from array import array
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

UNITS = 16
# What arguments by reference hold, and those by pointer; threads of a threadgroup, of which there are four.
TRIES = [
    ("u32:1", "f32:ramp", 64),
    ("u64:1", "f32:ramp", 64),
    ("u32:1", "f32:ramp", 128),
    ("u32:1", "f32:ramp", 1024),
    ("u32:1", "u32:1", 64),
    ("u64:1", "u64:1", 64),
    ("u32:0", "u32:0", 64),
]
ORDERS = "forward,random:0"
# Kernels of a process.
PART = 8
# What is not the device's mistake, by the words of its error. A processor loads from any address.
REASONS = {
    "with textures": "textures are not supported",
    "with places that are not aligned": "misaligned address",
}


def widened(data, kind):
    """The numbers of some bytes, as 64-bit ones."""
    if kind == "f32":
        return array("f", data)
    if kind == "bf16":
        halves = array("H", data)
        return array("f", array("I", (half << 16 for half in halves)).tobytes())
    return memoryview(data).cast("e").tolist()


EPSILON = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}


def kinds(name):
    """The types that a kernel's numbers may have, by its name: as shorter ones than they are more would agree."""
    words = {"bf16": ("bf16", "bfloat"), "f16": ("f16", "half", "float16")}
    return ["f32", *(kind for kind, known in words.items() if any(word in name for word in known))]


def agree(name, one, other):
    """How two devices' bytes agree, or nothing."""
    if one == other:
        return "bytes"
    if len(one) != len(other):
        return None
    whole = len(one) // 4 * 4
    for kind in kinds(name):
        epsilon = EPSILON[kind]
        pairs = zip(widened(one[:whole], kind), widened(other[:whole], kind))
        # Also NaN and infinity, which both have at the same places.
        differing = [(x, y) for x, y in pairs if x != y and not (x != x and y != y)]
        largest = max((max(abs(x), abs(y)) for x, y in differing), default=0)
        if all(abs(x - y) <= UNITS * epsilon * largest < float("inf") for x, y in differing):
            return kind
    return None


def load(attempt):
    """As options."""
    fill, pointers, threads = attempt
    return [f"--fill={fill}", f"--pointers={pointers}", f"--threads={threads}", f"--grid={4 * threads}"]


class Runner:
    def __init__(self, options, rest):
        self.options, self.rest = options, rest

    def check(self, file, attempt, chosen):
        """The kernels of a file that the processor runs clean, and the others that compile."""
        command = [self.options.program, "metal", "check", "--json", "--run", "--orders", ORDERS, *load(attempt)]
        command += [*chosen, *self.rest, "--", file]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        if not done.stdout:
            return [], []
        report = json.loads(done.stdout)["files"][0]
        stained = {finding["kernel"] for finding in report["findings"]}
        compiled = [kernel for kernel in report["kernels"] if kernel["compiled"] or kernel["ran"] is not None]
        clean = [kernel["name"] for kernel in compiled if kernel["ran"] and kernel["name"] not in stained]
        return clean, [kernel["name"] for kernel in compiled if kernel["name"] not in clean]

    def run(self, file, kernels, device, attempt):
        """What each kernel leaves, or what is said of it. A kernel that strays ends its process."""
        results = []
        while len(results) < len(kernels):
            left = kernels[len(results) :]
            with tempfile.TemporaryDirectory() as folder:
                names = [f"--kernel={name}" for name in left]
                command = [self.options.program, "metal", "trial", *self.rest, *load(attempt)]
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

    def reference(self, file):
        """What the processor gives: kernels, each with the number of its try."""
        place = self.options.reference / str(file.relative_to(self.options.folder)).replace("/", "-")
        index = place / "index.json"
        if index.exists():
            return place, json.loads(index.read_text())
        place.mkdir(parents=True, exist_ok=True)
        kept, chosen = [], ["--most", self.options.most]
        for number, attempt in enumerate(TRIES):
            kernels, others = self.check(str(file), attempt, chosen)
            for name, result in zip(kernels, self.run(str(file), kernels, "cpu", attempt), strict=True):
                # Beside what is checked, a place outside of a buffer may be no memory.
                if isinstance(result, bytes):
                    (place / str(len(kept))).write_bytes(zlib.compress(result, 1))
                    kept.append([name, number])
            if not others:
                break
            chosen = [f"--kernel={name}" for name in others]
        index.write_text(json.dumps(kept))
        return place, kept

    def compare(self, work):
        file, place, part = work
        attempt = TRIES[part[0][1][1]]
        results = self.run(str(file), [name for _, (name, _) in part], self.options.device, attempt)
        verdicts = []
        for (at, (name, _)), there in zip(part, results, strict=True):
            if isinstance(there, str):
                known = [kind for kind, words in REASONS.items() if words in there]
                verdicts.append((file, name, known[0] if known else "failed", there))
            else:
                here = zlib.decompress((place / str(at)).read_bytes())
                verdicts.append((file, name, agree(name, there, here) or "differs", ""))
        return verdicts


def parts(file, place, kept):
    """Kernels of one try, some at a time."""
    numbered = list(enumerate(kept))
    for number in range(len(TRIES)):
        some = [item for item in numbered if item[1][1] == number]
        for start in range(0, len(some), PART):
            yield file, place, some[start : start + PART]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--program", default="target/release/ironbridge")
    parser.add_argument("--device", default="nvidia")
    parser.add_argument("--most", default="8", help="kernels of a file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--reference", type=Path, help="a folder for what the processor gives")
    options, rest = parser.parse_known_args()
    files = sorted(path for path in options.folder.rglob("*.metal") if path.is_file())
    if not files:
        sys.exit(f"compare_corpus: no .metal file below {options.folder}")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        options.reference = options.reference or Path(folder)
        runner = Runner(options, rest)
        references = list(pool.map(runner.reference, files))
        if options.device == "none":
            sys.exit(print(sum(len(kept) for _, kept in references), "kernels run clean on the processor"))
        works = [work for file, known in zip(files, references, strict=True) for work in parts(file, *known)]
        verdicts = [verdict for some in pool.map(runner.compare, works) for verdict in some]
    counts = collections.Counter(kind for _, _, kind, _ in verdicts)
    for file, name, kind, text in verdicts:
        if kind not in ("bytes", *EPSILON, *REASONS):
            print(f"{file.name}: {name}: {kind} {text[-200:]}")
    same = counts["bytes"] + sum(counts[kind] for kind in EPSILON)
    others = "".join(f", {counts[kind]} {kind}" for kind in (*REASONS, "failed", "differs") if counts[kind])
    print(f"{len(verdicts)} kernels run clean on the processor; {same} agree ({counts['bytes']} in every byte){others}")
    sys.exit(bool(counts["failed"] or counts["differs"]))


if __name__ == "__main__":
    main()
