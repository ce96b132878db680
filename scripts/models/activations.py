"""Activations of 8 bits beside the exact model, and beside llama.cpp, which has as many bits.

needs: the environment that fetch.py makes, and a built command line
usage: activations.py IRONBRIDGE [--device DEVICE] [--prompts N]

Of the model in assets/, widened to F16, a file of each type whose kernels for GPUs may have such activations. Each
engine writes 64 tokens greedily behind each prompt, and its log-probabilities of the five best at each step are held to
the exact model over its own text. Without a GPU the processor runs the GPU's kernels, which takes half a minute a text.
"""
import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
from both_ways import quantize, widened
from compare import TOKENS, Ironbridge, distances
from corpus import PROMPTS
from exact import Model
from llama_cpp import LlamaCpp

TYPES = ["Q4_0", "Q8_0", "Q4_K"]
CONTEXT = 512
# A device of many cores and much threadgroup memory, as the kernels of bytes want.
PROCESSOR = "cpu:cores=132,threadgroup_memory=227"
# Of the mean distance: texts differ, and with them how much a rounding changes.
NOISE = 1.1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ironbridge")
    parser.add_argument("--device", default=PROCESSOR)
    parser.add_argument("--prompts", type=int, default=2)
    options = parser.parse_args()
    wrong = []
    print("activations of 8 bits: the mean distance of a log-probability from the exact one, and the largest")
    with tempfile.TemporaryDirectory() as folder:
        wide = widened(Path(folder))
        for kind in TYPES:
            file = Path(folder) / f"{kind}.gguf"
            quantize(options.ironbridge, wide, file, kind)
            exact, engine = Model(file), Ironbridge(options.ironbridge, file)
            peer = LlamaCpp(file, context=CONTEXT, threads=1)
            found = {"ironbridge": [], "llama.cpp": []}
            for prompt in PROMPTS[:options.prompts]:
                ids = peer.token_ids(prompt)
                own = engine.write(prompt, "--device", options.device, "--activations", "bytes", context=CONTEXT)[1:]
                for name, (written, best) in {"ironbridge": own, "llama.cpp": peer.write(ids, TOKENS)}.items():
                    truth = exact.log_probabilities(ids + written[:-1], len(ids) - 1)
                    found[name] += distances(truth, best)
            peer.close()
            mean = {name: np.mean(off) for name, off in found.items()}
            print(f"  {kind:5}" + "".join(f" {name} {mean[name]:.4f} ({max(off):.3f});" for name, off in found.items()),
                  flush=True)
            if not mean["ironbridge"] <= NOISE * mean["llama.cpp"]:
                wrong.append(f"{kind}: a log-probability is off by {mean['ironbridge']:.4f}, "
                             f"where llama.cpp is by {mean['llama.cpp']:.4f}")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
