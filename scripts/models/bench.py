"""The speed of ironbridge beside llama.cpp on real models, alternately.

needs: the environment that fetch.py makes, and a command line built with optimization
usage: bench.py FOLDER IRONBRIDGE [--rounds N] [--threads 1,2] [--only MODEL]

Both engines compute a prompt of 134 tokens and then write 64, one after the other, N times; the best of each counts.
"""
import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("ironbridge")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--only")
    options = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.1f}; prompt of {PROMPT} | writing {TOKENS}, tokens/s")
    for path in sorted(options.folder.glob("*.gguf")):
        if options.only not in (None, path.stem):
            continue
        for threads in map(int, options.threads.split(",")):
            best = {"ironbridge": (0.0, 0.0), "llama.cpp": (0.0, 0.0)}
            for _ in range(options.rounds):
                peer = LlamaCpp(path, threads=threads)
                for engine, rates in [("ironbridge", ironbridge(options.ironbridge, path, threads)),
                                      ("llama.cpp", peer.rates([7 * index for index in range(PROMPT)], TOKENS))]:
                    best[engine] = tuple(map(max, best[engine], rates))
                peer.close()
            ours, theirs = best["ironbridge"], best["llama.cpp"]
            print(f"{path.stem:8} {threads} threads: ironbridge {ours[0]:.0f} | {ours[1]:.1f}; llama.cpp {theirs[0]:.0f} | "
                  f"{theirs[1]:.1f}; ratio {ours[0] / theirs[0]:.2f} | {ours[1] / theirs[1]:.2f}", flush=True)


if __name__ == "__main__":
    main()
