"""Files that `ironbridge quantize` writes, of each architecture and each type, in llama.cpp.

needs: the environment that fetch.py makes, and a built command line
usage: both_ways.py IRONBRIDGE [--out FILE]

Of each small model in tests/data/models that llama.cpp computes as transformers does, an F32 file: what llama.cpp predicts
from it is held to transformers' reference. Of the model in assets/, widened to F16, a file of each type
and mix, and one of each type that ironbridge reads only: llama.cpp and ironbridge are held to the exact model of that
file, as compare.py does it.
"""
import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from compare import DRAWS, FLOAT, Ironbridge
from exact import Model, Rounding
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFReader, GGUFWriter, GGUFValueType
from gguf.quants import dequantize
from llama_cpp import LlamaCpp

ROOT = Path(__file__).parents[2]
# Of the log-probability of a token of the prompt: float32, of models whose attention is sharp. llama.cpp's GELU is a
# table in F16, whose numbers are off by up to 2^-11.
TO_TRANSFORMERS, WITH_GELU = 1e-4, 4e-3
# What llama.cpp computes otherwise than transformers, whatever the file says.
OTHERWISE = {
    "mistral-window": "no windows in a `llama`", "qwen2-window-tied": "no windows in a `qwen2`",
    "qwen2-layer-types": "no windows in a `qwen2`", "qwen3-max-window-layers": "no windows in a `qwen3`",
    "gemma2-three-layers": "always a cap of the output, and a scale of attention by the size of heads",
    "gemma3-scaled": "always a full layer as the sixth",
}
TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
         "IQ4_XS", "MXFP4", "Q3_K_M", "Q3_K_L", "Q4_K_S", "Q4_K_M", "Q5_K_M"]
# Those that ironbridge reads and does not write: llama.cpp's quantizer makes them here.
READ_ONLY = ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "TQ1_0", "TQ2_0", "NVFP4"]
TEXT = "Ownership is a set of rules that govern how a Rust program manages memory. " * 4
CONTEXT = 64


def quantize(command, source, out, kind):
    found = subprocess.run([command, "quantize", source, out, kind, "--force", "--quiet"], capture_output=True, text=True)
    if found.returncode:
        sys.exit(f"both_ways: quantize {source} {kind}: {found.stderr.strip()}")


def rewrite(source, out, matrix, but=()):
    """The same file, by gguf-py alone, with the matrices that a function makes of numbers: an array and its type. Those
    whose names are in `but` become F16."""
    reader = GGUFReader(source)
    writer = GGUFWriter(out, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if not name.startswith(("GGUF.", "general.architecture", "general.file_type", "general.quantization")):
            kind = field.types[0]
            inner = field.types[-1] if kind == GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kind, inner)
    for tensor in reader.tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        numbers = dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
        if len(shape) == 1:
            writer.add_tensor(tensor.name, numbers)
        elif tensor.name in but:
            writer.add_tensor(tensor.name, numbers.astype(np.float16))
        else:
            array, kind = matrix(numbers)
            writer.add_tensor(tensor.name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def architectures(command, folder, wrong):
    results = {}
    for model in sorted((ROOT / "tests/data/models").iterdir()):
        if model.name in OTHERWISE:
            print(f"  {model.name:30} is left out, where llama.cpp has {OTHERWISE[model.name]}")
            continue
        file = folder / f"{model.name}.gguf"
        quantize(command, model, file, "F32")
        reference = json.loads((model / "reference.json").read_text())
        prompt = reference["prompt"]
        peer = LlamaCpp(file, context=64, threads=1, exact=True)
        scores = peer.log_probabilities(prompt[:-1], 0)[np.arange(len(prompt) - 1), prompt[1:]]
        peer.close()
        off = float(np.abs(scores - reference["log_probabilities"]).max())
        architecture = json.loads((model / "config.json").read_text())["model_type"]
        results[model.name] = {"architecture": architecture, "llama.cpp": off}
        print(f"  {model.name:30} llama.cpp is {off:.2g} from transformers", flush=True)
        if not off <= (WITH_GELU if architecture.startswith("gemma") else TO_TRANSFORMERS):
            wrong.append(f"{model.name}: llama.cpp is {off} from transformers in the file that quantize wrote")
    return results


def by_llama_cpp(name):
    """What llama.cpp's quantizer makes of a matrix, all of whose columns matter alike."""
    kind = GGMLQuantizationType[name]
    length, size = GGML_QUANT_SIZES[kind]

    def matrix(numbers):
        rows, columns = numbers.shape
        numbers, weights = np.ascontiguousarray(numbers), np.ones(columns, np.float32)
        blocks = np.zeros((rows, columns // length * size), np.uint8)
        LlamaCpp.library.ggml_quantize_chunk(kind, numbers.ctypes.data_as(ctypes.c_void_p),
                                             blocks.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(0),
                                             ctypes.c_int64(rows), ctypes.c_int64(columns),
                                             weights.ctypes.data_as(ctypes.c_void_p))
        return blocks, kind

    return matrix


def widened(folder):
    """The model in assets/ in F16, in a file of the folder."""
    wide = folder / "wide.gguf"
    rewrite(ROOT / "assets/tiny-rustbook-q8_0.gguf", wide,
            lambda numbers: (numbers.astype(np.float16), GGMLQuantizationType.F16))
    return wide


def types(command, folder, wrong):
    wide = widened(folder)
    results = {}
    for kind in TYPES + READ_ONLY:
        file = folder / f"{kind}.gguf"
        if kind in READ_ONLY:
            # As its quantizer does, which keeps more bits where every token is looked up or scored.
            rewrite(wide, file, by_llama_cpp(kind), {"token_embd.weight", "output.weight"})
        else:
            quantize(command, wide, file, kind)
        exact, peer = Model(file), LlamaCpp(file, context=CONTEXT, threads=1)
        ids = peer.token_ids(TEXT)
        window = ids[:CONTEXT]
        first, rows = CONTEXT // 2, np.arange(CONTEXT - 1 - CONTEXT // 2)
        picks = np.array(window[first + 1:])
        truth = exact.log_probabilities(window[:-1], first)[rows, picks]
        changes = [exact.log_probabilities(window[:-1], first, Rounding(CONTEXT, seed, every=True))[rows, picks] - truth
                   for seed in range(DRAWS)]
        bound = 2 * float(np.abs(changes).mean()) + FLOAT
        theirs = peer.log_probabilities(window[:-1], first)[rows, picks]
        peer.close()
        ours = Ironbridge(command, file).run("perplexity", "-f", "-", "--context", str(CONTEXT), "--chunks", "--json", "-q",
                                             text=text_of(command, file, window))
        ours = json.loads(ours)["mean_log_probability"]
        off = {"ironbridge": abs(float(ours - truth.mean())), "llama.cpp": abs(float(theirs.mean() - truth.mean()))}
        results[kind] = {"perplexity": float(np.exp(-truth.mean())), "bound": bound, **off}
        print(f"  {kind:7} perplexity {np.exp(-truth.mean()):8.4f}; its logarithm is off by: ironbridge "
              f"{off['ironbridge']:.5f}, llama.cpp {off['llama.cpp']:.5f}; bound {bound:.5f}", flush=True)
        if max(off.values()) > bound:
            wrong.append(f"{kind}: the perplexity's logarithm is {off} off, where the bound is {bound:.5f}")
        file.unlink()
    return results


def text_of(command, file, window):
    return Ironbridge(command, file).run("tokenize", "--decode", "-f", "-", text=" ".join(map(str, window))).removesuffix("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ironbridge")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        print("files of quantize in llama.cpp: the largest distance of a log-probability")
        results = {"architectures": architectures(options.ironbridge, Path(folder), wrong),
                   "types": types(options.ironbridge, Path(folder), wrong)}
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
