"""The speed of ironbridge beside llama.cpp on real models, alternately.

needs: the environment that fetch.py makes, and a command line built with optimization
usage: bench.py FOLDER IRONBRIDGE [--rounds N] [--threads 1,2] [--only MODEL] [--types Q4_0,Q8_0]

Both engines compute a prompt of 134 tokens and then write 64, one after the other, N times. It prints a table.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from both_ways import quantize, rewrite
from gguf import GGMLQuantizationType
from llama_cpp import LlamaCpp

PROMPT, TOKENS = 134, 64


def ironbridge(command, model, threads):
    arguments = [command, "bench", "-m", str(model), "-p", str(PROMPT), "-n", str(TOKENS), "-t", str(threads), "-r", "1",
                 "--device", "cpu", "--json"]
    found = subprocess.run(arguments, capture_output=True, text=True)
    if found.returncode:
        sys.exit(f"bench: {found.stderr.strip()}")
    [run] = json.loads(found.stdout)["runs"]
    return run["prompts"][0]["rate"], run["generation"]["rate"]


def rates_of(options, path, threads):
    """The rates of both engines, of each round: [(prompt, writing), ...]."""
    found = {"ironbridge": [], "llama.cpp": []}
    for _ in range(options.rounds):
        peer = LlamaCpp(path, threads=threads)
        found["ironbridge"].append(ironbridge(options.ironbridge, path, threads))
        found["llama.cpp"].append(peer.rates([7 * index for index in range(PROMPT)], TOKENS))
        peer.close()
    return found


def table_row(name, threads, found):
    cells = [name, str(threads)]
    for part in (0, 1):
        medians = []
        for engine in ("ironbridge", "llama.cpp"):
            rates = sorted(pair[part] for pair in found[engine])
            medians.append(statistics.median(rates))
            cells.append(f"{medians[-1]:.0f} ({rates[0]:.0f} to {rates[-1]:.0f})")
        cells.append(f"**{medians[0] / medians[1]:.2f}**")
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("ironbridge")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--only")
    parser.add_argument("--types", default="", help="files of these types, which are made from smollm2, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        files = sorted(options.folder.glob("*.gguf"))
        types = [dtype for dtype in options.types.split(",") if dtype]
        if types:
            wide = Path(made) / "wide.gguf"
            rewrite(options.folder / "smollm2.gguf", wide,
                    lambda numbers: (numbers.astype(np.float16), GGMLQuantizationType.F16))
        for dtype in types:
            files.append(Path(made) / f"smollm2 as {dtype}.gguf")
            quantize(options.ironbridge, wide, files[-1], dtype)
        print(f"A prompt of {PROMPT} tokens | writing {TOKENS}: medians of {options.rounds} turns (least to most), "
              f"tokens/s. Load before: {os.getloadavg()[0]:.1f}.\n")
        print("| file | threads | prompt: ironbridge | llama.cpp | ratio | writing: ironbridge | llama.cpp | ratio |")
        print("|---|---|---|---|---|---|---|---|")
        for path in files:
            if options.only not in (None, path.stem):
                continue
            for threads in map(int, options.threads.split(",")):
                print(table_row(path.stem, threads, rates_of(options, path, threads)), flush=True)


if __name__ == "__main__":
    main()
