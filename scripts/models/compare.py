"""Holds ironbridge and llama.cpp to the exact text of real models, side by side.

needs: the environment that fetch.py makes, and a built command line
usage: compare.py FOLDER IRONBRIDGE [--prompts N] [--tokens N]

For each model in FOLDER and each prompt, both engines write greedily. Each text is then given to the exact model
(exact.py), which says for every position how far the engine's five best log-probabilities are from its own, and
whether the engine's token is the best one. It is an error when ironbridge is farther away than its bound, or picks a
token that is not the best while the two best are further apart than twice the bound.
"""
import argparse
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import numpy as np
from exact import Model

LONG = " ".join(f"Line {line}: the {word} was counted {line * 7} times." for line, word in enumerate(
    ["ferry", "lamp", "river", "owl", "ladder", "stone", "violin", "harbor"] * 6))
PROMPTS = [
    "The capital of France is", "Once upon a time, in a small village by the sea,", "Water boils at",
    "def fibonacci(n):\n    ", "fn main() {\n    let numbers = vec![1, 2, 3];\n", "SELECT name, count(*) FROM",
    "#include <stdio.h>\n\nint main(void) {", '{"name": "Ada", "age": 36, "languages": [',
    "Die Hauptstadt von Deutschland heißt",
    "Les trois couleurs du drapeau français sont", "La casa de mi abuela está", "東京は日本の", "Москва — это",
    "1, 1, 2, 3, 5, 8, 13,", "Q: What is 17 + 25?\nA:", "3.14159265358979", "I love pizza 🍕 and",
    "# Shopping list\n\n- eggs\n- milk\n-", "To be, or not to be, that is", LONG,
]
# What ironbridge may be off by, in the logarithm of a probability: activations of a prompt have 8 bits where weights
# are blocks. It is not derived, and prompts of more than eight tokens exceed it.
BOUND = 0.05


def ironbridge(command, model, prompt, tokens):
    arguments = [command, "generate", "-m", str(model), "-p", prompt, "-n", str(tokens), "--json",
                 "--log-probabilities", "5", "--context", "1024"]
    found = subprocess.run(arguments, capture_output=True, text=True)
    if found.returncode:
        sys.exit(f"compare: {found.stderr.strip()}")
    written = json.loads(found.stdout)["tokens"]
    return [token["id"] for token in written], [
        {best["id"]: best["log_probability"] for best in token["likeliest"]} for token in written]


def token_ids(command, model, text):
    arguments = [command, "tokenize", "-m", str(model), "--special", "--ids", text]
    found = subprocess.run(arguments, capture_output=True, text=True)
    if found.returncode:
        sys.exit(f"compare: {found.stderr.strip()}")
    return [int(number) for number in found.stdout.split()]


class LlamaCpp:
    """The engine in the wheel xllamacpp, by its server."""

    def __init__(self, model):
        import xllamacpp
        parameters = xllamacpp.CommonParams()
        parameters.model.path, parameters.n_ctx, parameters.n_parallel = str(model), 1024, 1
        parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = os.cpu_count()
        parameters.warmup = False
        self.server = xllamacpp.Server(parameters)

    def ask(self, path, body):
        request = urllib.request.Request(self.server.listening_address + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def token_ids(self, text):
        return self.ask("/tokenize", {"content": text, "add_special": True})["tokens"]

    def write(self, prompt, tokens):
        answer = self.ask("/completion", {"prompt": prompt, "n_predict": tokens, "temperature": 0.0, "n_probs": 5,
                                          "cache_prompt": False})
        found = answer["completion_probabilities"]
        return [token["id"] for token in found], [
            {best["id"]: best["logprob"] for best in token["top_logprobs"]} for token in found]


def held(exact, prompt, written, best):
    """The largest distance of a log-probability, and for each token that is not the best how much worse it is."""
    truth = exact.log_probabilities(prompt + written[:-1], len(prompt) - 1)
    distance = max(abs(truth[row, token] - score) for row, found in enumerate(best) for token, score in found.items())
    losses = [float(truth[row].max() - truth[row, token]) for row, token in enumerate(written)]
    return distance, [(row, loss) for row, loss in enumerate(losses) if loss > 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("ironbridge")
    parser.add_argument("--prompts", type=int, default=len(PROMPTS))
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    wrong = []
    for path in sorted(options.folder.glob("*.gguf")):
        exact, peer = Model(path), LlamaCpp(path)
        print(f"{path.name}: distance of log-probabilities from the exact ones, and tokens that are not the best")
        largest = {"ironbridge": 0.0, "llama.cpp": 0.0}
        for number, prompt in enumerate(PROMPTS[:options.prompts], 1):
            ids = token_ids(options.ironbridge, path, prompt)
            if ids != peer.token_ids(prompt):
                wrong.append(f"{path.name}: prompt {number} has other tokens in llama.cpp")
            line = f"  {number:2} {prompt[:24]!r:30}"
            for engine, (written, best) in {
                "ironbridge": ironbridge(options.ironbridge, path, prompt, options.tokens),
                "llama.cpp": peer.write(ids, options.tokens),
            }.items():
                distance, others = held(exact, ids, written, best)
                largest[engine] = max(largest[engine], distance)
                line += f" {engine} {distance:.4f}, {len(others)} of {len(written)};"
                if engine == "ironbridge" and (distance > BOUND or any(loss > 2 * BOUND for _, loss in others)):
                    wrong.append(f"{path.name}: prompt {number} is {distance:.4f} away, and {others} are not the best")
            print(line, flush=True)
        print("  largest: " + ", ".join(f"{engine} {distance:.4f}" for engine, distance in largest.items()))
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
