#!/usr/bin/env python3
"""Decoding and prompts on an NVIDIA GPU, of LLaMA's shapes with made-up weights, as a table in Markdown.

    scripts/bench_gpu.py [--program PATH] [--models 8b-q4_0,…] [--rounds 5] [--prompt 512] [--tokens 64]
                         [--behind 15] [--sequences 16] [--idle]

Models are made in --folder and kept. Beside it stands what llama.cpp's CUDA backend gave for such files on one H200
(llama-bench, tg128 and pp512, 2026-11-24). "torch" is the rate of a prompt of 512 if it were torch's products of halves
alone, which have 655 to 700 TFLOP/s there for the four shapes of matrices. With --idle no GPU is needed: a driver that
computes nothing (benches/idle_gpu.c) leaves what the host does for a token.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

import synthetic_model
from synthetic_model import Shape

ROOT = pathlib.Path(__file__).resolve().parent.parent
LARGE = Shape(32, 4096, 1024, 32, 8, 14336, 128256, 8192)
SMALL = Shape(22, 2048, 256, 32, 4, 5632, 32000, 8192)


def alike(kind, output=None):
    return lambda _, name: output if output and name == "output" else kind


def mixed(layer, name):
    """As llama.cpp's Q4_K_M: the output and half of `down` are longer."""
    return "Q6_K" if name == "output" or (name == "ffn_down" and layer % 2) else "Q4_K"


MODELS = {
    "8b-q4_0": (LARGE, alike("Q4_0", "Q6_K"), (333, 10786)),
    "8b-q4_k": (LARGE, mixed, (274, 9224)),
    "8b-q8_0": (LARGE, alike("Q8_0"), (253, 10647)),
    "8b-f16": (LARGE, alike("F16"), (208, 21576, 49500)),
    "1.1b-q4_0": (SMALL, alike("Q4_0", "Q6_K"), (926, 39900)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "target" / "release" / "ironbridge", help="the command line")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "target" / "gpu-models", help="of the models")
    parser.add_argument("--models", help=f"of {', '.join(MODELS)} (all, or the last with --idle)")
    parser.add_argument("--device", default="nvidia", help="the device (nvidia)")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each measurement (5)")
    parser.add_argument("--prompt", default="512", help="lengths of prompts, with commas (512)")
    parser.add_argument("--tokens", type=int, default=64, help="tokens to decode (64)")
    parser.add_argument("--behind", type=int, default=15, help="tokens that stand before those (15)")
    parser.add_argument("--sequences", type=int, default=16, help="texts that are written together (16)")
    parser.add_argument("--idle", action="store_true", help="without a GPU: the host's work alone")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    environment = idle_driver(arguments.folder) if arguments.idle else os.environ
    models = arguments.models or (list(MODELS)[-1] if arguments.idle else ",".join(MODELS))
    rows, device = [], ""
    for name in models.split(","):
        if name not in MODELS:
            parser.error(f"{name} is none of {', '.join(MODELS)}")
        print(f"bench-gpu: {name}", file=sys.stderr)
        shape, type_of, peer = MODELS[name]
        file = arguments.folder / f"{name}.gguf"
        if not file.exists():
            synthetic_model.write(file, shape, type_of)
        run = measure(arguments, file, environment)
        device = run["device"]
        rows.append((name, run, peer))
    lengths = arguments.prompt.split(",")
    heads = ["model", "load, s", f"decode {arguments.tokens}"]
    heads += [] if arguments.idle else ["GPU idle, µs a token"]
    heads += [f"prompt of {length}" for length in lengths] + [f"{arguments.sequences} texts"]
    heads += [] if arguments.idle else ["GPU idle, µs a step"]
    peers = [] if arguments.idle else ["llama.cpp, decode", "llama.cpp, prompt of 512", "torch, its products alone"]
    beside = "; llama.cpp and torch: one H200, 2026-11-24" if peers else ""
    print(f"{device}, {arguments.rounds} runs each: median (range), tokens/s{beside}\n")
    heads += peers
    print(f"| {' | '.join(heads)} |\n| --- |{' --: |' * (len(heads) - 1)}")
    for name, run, peer in rows:
        cells = [name, f"{run['load_seconds']:.1f}", figure(run["generation"])]
        cells += [] if arguments.idle else [f"{1e6 * run['generation']['idle_seconds']:.1f}"]
        cells += [figure(prompt) for prompt in run["prompts"]] + [figure(run["together"])]
        cells += [] if arguments.idle else [f"{1e6 * run['together']['idle_seconds']:.0f}"]
        cells += [f"{rate:,}" for rate in peer] + [""] * (len(peers) - len(peer)) if peers else []
        print(f"| {' | '.join(cells)} |")


def idle_driver(folder):
    """The environment in which a program finds the driver that computes nothing."""
    driver = folder / "libcuda.so.1"
    source = ROOT / "benches" / "idle_gpu.c"
    subprocess.run(["cc", "-std=c11", "-O2", "-shared", "-fPIC", "-o", driver, source], check=True)
    return os.environ | {"LD_LIBRARY_PATH": str(folder.resolve())}


def measure(arguments, file, environment):
    command = [arguments.program, "bench", "-m", file, "--device", arguments.device, "--json"]
    command += ["--rounds", str(arguments.rounds), "--prompt", arguments.prompt, "--tokens", str(arguments.tokens)]
    command += ["--cache", "f16", "--sequences", str(arguments.sequences), "--behind", str(arguments.behind)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, env=environment)
    if done.returncode != 0:
        sys.exit(f"bench-gpu: {file.name}: the program ended with {done.returncode}")
    return json.loads(done.stdout)["runs"][0]


def figure(measured):
    rates = measured["rates"]
    return f"{statistics.median(rates):,.0f} ({min(rates):,.0f} to {max(rates):,.0f})"


if __name__ == "__main__":
    main()
