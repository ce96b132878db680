"""The speed of ironbridge beside llama.cpp on real models, alternately.

needs: the environment that fetch.py makes, and a command line built with optimization
usage: bench.py FOLDER IRONBRIDGE [--rounds N] [--threads 1,2] [--only MODEL] [--types Q4_0,Q8_0]

Both engines compute a prompt of 134 tokens and then write 64, one after the other, N times. It prints a table. Files of
other types are made from SmolLM2. Its width of 576 is no multiple of 256, which K types and IQ4_XS need: they are made
from random weights of width 1024 with SmolLM2's vocabulary.
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
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from llama_cpp import LlamaCpp

PROMPT, TOKENS = 134, 64
LAYERS, WIDTH, HEADS, KV_HEADS, FEED_FORWARD = 12, 1024, 16, 4, 3072


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


def needs_super_blocks(dtype):
    """Of a type, or of a mix such as Q4_K_M."""
    kind = GGMLQuantizationType[dtype if dtype in GGMLQuantizationType.__members__ else dtype.rpartition("_")[0]]
    return GGML_QUANT_SIZES[kind][0] == 256


def write_random(smollm2, out):
    """A `llama` of random weights in F16 whose rows are whole super-blocks, with the vocabulary of SmolLM2."""
    sizes = {
        "llama.block_count": LAYERS, "llama.embedding_length": WIDTH, "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS, "llama.feed_forward_length": FEED_FORWARD,
        "llama.rope.dimension_count": WIDTH // HEADS}
    writer, fields = GGUFWriter(out, "llama"), GGUFReader(smollm2).fields
    for name, field in fields.items():
        if name.startswith(("GGUF.", "general.architecture", "general.file_type", "general.quantization")):
            continue
        kind = field.types[0]
        inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(name, sizes.get(name, field.contents()), kind, inner)
    random = np.random.default_rng(1)

    def matrix(name, rows, columns):
        numbers = random.standard_normal((rows, columns), np.float32) / 32
        writer.add_tensor(f"{name}.weight", numbers.astype(np.float16))

    def norm(name):
        writer.add_tensor(f"{name}.weight", np.ones(WIDTH, np.float32))

    kv_width = WIDTH // HEADS * KV_HEADS
    matrix("token_embd", fields["llama.vocab_size"].contents(), WIDTH)
    norm("output_norm")
    for layer in range(LAYERS):
        for name, rows, columns in [
                ("attn_q", WIDTH, WIDTH), ("attn_k", kv_width, WIDTH), ("attn_v", kv_width, WIDTH),
                ("attn_output", WIDTH, WIDTH), ("ffn_gate", FEED_FORWARD, WIDTH), ("ffn_up", FEED_FORWARD, WIDTH),
                ("ffn_down", WIDTH, FEED_FORWARD)]:
            matrix(f"blk.{layer}.{name}", rows, columns)
        norm(f"blk.{layer}.attn_norm")
        norm(f"blk.{layer}.ffn_norm")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


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
        smollm2 = options.folder / "smollm2.gguf"
        wide, random = Path(made) / "wide.gguf", Path(made) / "random.gguf"
        for dtype in types:
            super_blocks = needs_super_blocks(dtype)
            source = random if super_blocks else wide
            if not source.exists() and super_blocks:
                write_random(smollm2, source)
            elif not source.exists():
                rewrite(smollm2, source, lambda numbers: (numbers.astype(np.float16), GGMLQuantizationType.F16))
            files.append(Path(made) / f"{'random' if super_blocks else 'smollm2'} as {dtype}.gguf")
            quantize(options.ironbridge, source, files[-1], dtype)
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
