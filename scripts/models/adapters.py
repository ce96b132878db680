"""Holds an adapter that ironbridge learned to llama.cpp: both must find the same text as likely with it.

needs: the environment that fetch.py makes, and a built command line
usage: adapters.py IRONBRIDGE MODEL

The model learns STORY by LoRA. Then its perplexity is measured in llama.cpp's windows, with the adapter and without, by
both. Weights of MODEL may be blocks: products round activations, in each engine in its own way, which is far below what
was learned.
"""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from llama_cpp import LlamaCpp

STORY = [
    "The crab met the gopher at the edge of the sea and asked what it carried in its little bag.",
    "A gopher carries acorns, said the gopher, and every acorn has one owner, as you well know.",
    "Then lend me one, said the crab, and I shall give it back before the tide comes in tonight.",
    "So the gopher lent an acorn, and the crab gave it back, and both slept well until the morning.",
]
WINDOW = 64
# How far the two engines' means of log-probabilities may be apart. Both round activations, so the distance grows with
# the logarithm: the text is one that the model has not seen. What is learned changes it by far more.
CLOSE, RELATIVE = 0.02, 0.005
LEARNED = 1.0


def run(command, *arguments, text=None):
    found = subprocess.run([command, *arguments], input=text, capture_output=True, text=True)
    if found.returncode:
        sys.exit(f"adapters: {' '.join(arguments[:3])}: {found.stderr.strip()}")
    return found.stdout


def ours(command, model, text, *arguments):
    found = run(command, "perplexity", "-m", model, "-f", "-", "--context", str(WINDOW), "--chunks", "--json", "-q",
                *arguments, text=text)
    return json.loads(found)["mean_log_probability"]


def theirs(model, text):
    """As `tools/perplexity` has it: windows of their own, of which the second half is predicted."""
    ids, scores = model.token_ids(text), []
    for start in range(0, len(ids) - WINDOW + 1, WINDOW):
        window = model.begin() + ids[start + len(model.begin()):start + WINDOW]
        first = WINDOW // 2
        found = model.log_probabilities(window[:-1], first)
        scores += [row[token] for row, token in zip(found, window[first + 1:])]
    return float(np.mean(scores))


def main(command, path):
    text = "\n".join(STORY)
    with tempfile.TemporaryDirectory() as folder:
        lines, adapter = Path(folder, "story.jsonl"), Path(folder, "adapter.gguf")
        lines.write_text("".join(json.dumps({"text": line}) + "\n" for line in [text, *STORY]))
        run(command, "finetune", "-m", path, "-f", str(lines), "--out", str(adapter), "--sequence", "64",
            "--steps", "40", "--learning-rate", "0.004", "--hold-out", "0", "--quiet")
        peer = LlamaCpp(path, context=WINDOW, exact=True)
        plain = ours(command, path, text), theirs(peer, text)
        peer.use_adapter(adapter)
        tuned = ours(command, path, text, "--lora", str(adapter)), theirs(peer, text)
        peer.use_adapter(adapter, 0.5)
        half = ours(command, path, text, "--lora", str(adapter), "--lora-scale", "0.5"), theirs(peer, text)
    for name, (own, other) in {"without": plain, "with": tuned, "with half": half}.items():
        print(f"{name:10} mean log-probability: ironbridge {own:.4f}, llama.cpp {other:.4f}")
        if abs(own - other) > CLOSE + RELATIVE * abs(other):
            sys.exit(f"adapters: {name} the adapter they differ by {abs(own - other):.4f}")
    if min(half[0], tuned[0]) < plain[0] + LEARNED:
        sys.exit("adapters: the model learned too little to tell")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    main(*sys.argv[1:])
