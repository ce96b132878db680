"""Tokens per second of ironbridge's tokenizer beside the `tokenizers` package's, alternately, one thread each.

needs: the environment that fetch.py makes, and the program of benches/tokenizer_speed.rs
usage: tokenizer_speed.py MODEL PROGRAM [--turns N] [--count N]
       tokenizer_speed.py MODEL --package TEXT COUNT

The vocabulary is SmolLM2's, out of its GGUF file. The text is this repository's guides and its Rust sources. In a turn
each side is a process that tokenizes the text once to warm up, and then COUNT times. Processor time counts, so that
other work on the machine does not. Both must give the same tokens. It prints a table.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def text():
    parts = [*sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("src/**/*.rs"))]
    return "\n".join(path.read_text() for path in parts)


def package_of(model):
    """The tokenizer of the file as the package has it."""
    from gguf import GGUFReader
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

    fields = GGUFReader(model).fields

    def strings(key):
        field = fields[f"tokenizer.ggml.{key}"]
        return [bytes(field.parts[part]).decode() for part in field.data]

    if strings("pre") != ["smollm"]:
        sys.exit(f"tokenizer_speed: {model} does not have SmolLM2's pre-tokenizer")
    pieces, kinds = strings("tokens"), fields["tokenizer.ggml.token_type"]
    kinds = [int(kinds.parts[part][0]) for part in kinds.data]
    merges = [tuple(merge.split(" ")) for merge in strings("merges")]
    tokenizer = Tokenizer(models.BPE({piece: id for id, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.add_special_tokens([
        AddedToken(piece, normalized=False) for piece, kind in zip(pieces, kinds) if kind == 3])
    tokenizer.encode_special_tokens = True
    return tokenizer


def measure_package(model, path, count):
    tokenizer, written = package_of(model), Path(path).read_text()
    ids, seconds = tokenizer.encode(written).ids, []
    for _ in range(count):
        start = time.process_time()
        tokenizer.encode(written)
        seconds.append(time.process_time() - start)
    total = 0
    for id in ids:
        total = (total * 31 + id) % 1_000_000_007
    print(json.dumps({"tokens": len(ids), "sum": total, "seconds": seconds}))


def run(command):
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}
    found = subprocess.run(command, capture_output=True, text=True, env=environment)
    if found.returncode:
        sys.exit(f"tokenizer_speed: {found.stderr.strip()}")
    return json.loads(found.stdout)


def main():
    if len(sys.argv) == 5 and sys.argv[2] == "--package":
        return measure_package(sys.argv[1], sys.argv[3], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("program")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--count", type=int, default=3)
    options = parser.parse_args()
    rates = {"ironbridge": [], "tokenizers": []}
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        written = text()
        file.write(written)
        file.flush()
        commands = {
            "ironbridge": [options.program, options.model, file.name, str(options.count)],
            "tokenizers": [sys.executable, __file__, options.model, "--package", file.name, str(options.count)],
        }
        for turn in range(options.turns):
            found = {}
            for side in sorted(commands, reverse=turn % 2 == 1):
                found[side] = run(commands[side])
                rates[side].append(found[side]["tokens"] / statistics.median(found[side]["seconds"]))
            ours, theirs = found["ironbridge"], found["tokenizers"]
            if (ours["tokens"], ours["sum"]) != (theirs["tokens"], theirs["sum"]):
                sys.exit(f"tokenizer_speed: the tokens differ: {ours['tokens']} and {theirs['tokens']} of them")
    print(f"{len(written.encode()) / 1e6:.1f} MB, {ours['tokens']} tokens: medians of {options.turns} turns "
          f"(least to most), million tokens/s of processor time. Load: {os.getloadavg()[0]:.1f}.\n")
    print("| | ironbridge | tokenizers | ratio |\n|---|---|---|---|")
    medians = {side: statistics.median(found) for side, found in rates.items()}
    cells = [f"{medians[side] / 1e6:.2f} ({min(found) / 1e6:.2f} to {max(found) / 1e6:.2f})"
             for side, found in rates.items()]
    ratio = medians["ironbridge"] / medians["tokenizers"]
    print(f"| {Path(options.model).stem} | {' | '.join(cells)} | **{ratio:.2f}** |")


if __name__ == "__main__":
    main()
