"""GGUF files of LLaMA's shapes with made-up weights, for benchmarks: one page of random blocks, repeated.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; blocks: ggml's ggml-common.h.
"""
from dataclasses import dataclass
import random
import struct

UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    kv_width: int
    heads: int
    kv_heads: int
    feed_forward: int
    vocabulary: int
    context: int = 2048


@dataclass(frozen=True)
class Type:
    """`block` makes one block of `weights` weights."""

    number: int
    weights: int
    block: object


def half(value):
    return struct.pack("<e", value)


TYPES = {
    "F32": Type(0, 1, lambda generator: struct.pack("<f", generator.gauss(0, 0.02))),
    "F16": Type(1, 1, lambda generator: half(generator.gauss(0, 0.02))),
    "Q4_0": Type(2, 32, lambda generator: half(0.004) + generator.randbytes(16)),
    "Q8_0": Type(8, 32, lambda generator: half(0.0003) + generator.randbytes(32)),
    "Q4_K": Type(12, 256, lambda generator: half(8e-5) + half(6e-4) + generator.randbytes(140)),
    "Q6_K": Type(14, 256, lambda generator: generator.randbytes(208) + half(1.5e-5)),
}


def string(text):
    return struct.pack("<Q", len(text)) + text


def write(path, shape, type_of):
    """Writes a model. `type_of(layer, name)` is a matrix's type; the layer of those outside of layers is None."""
    unfinished = path.with_suffix(".partial")
    tensors = tensors_of(shape)
    types = {name: TYPES["F32" if len(size) == 1 else type_of(layer, part)] for layer, part, name, size in tensors}
    metadata, infos, offset = metadata_of(shape), [], 0
    for _, _, name, size in tensors:
        described = struct.pack(f"<I{len(size)}QIQ", len(size), *size, types[name].number, offset)
        infos.append(string(name.encode()) + described)
        offset += -(-length_of(size, types[name]) // 32) * 32
    pages = {kind: page_of(kind) for kind in set(types.values())}
    with open(unfinished, "wb") as file:
        file.write(struct.pack("<IIQQ", 0x46554747, 3, len(tensors), len(metadata)))
        file.write(b"".join(metadata) + b"".join(infos))
        file.write(bytes(-file.tell() % 32))
        for _, _, name, size in tensors:
            length = length_of(size, types[name])
            page = struct.pack("<f", 1.0) * size[0] if len(size) == 1 else pages[types[name]]
            for start in range(0, length, len(page)):
                file.write(page[: length - start])
            file.write(bytes(-length % 32))
    unfinished.rename(path)


def page_of(kind):
    generator = random.Random(0)
    return b"".join(kind.block(generator) for _ in range(max(4096, 65536 // kind.weights)))


def length_of(size, kind):
    count = 1
    for dimension in size:
        count *= dimension
    return count // kind.weights * len(kind.block(random.Random(0)))


def tensors_of(shape):
    """Layer, name in it, name and size of each."""
    query, key = (shape.width, shape.width), (shape.width, shape.kv_width)
    up, down = (shape.width, shape.feed_forward), (shape.feed_forward, shape.width)
    layer = [("attn_norm", (shape.width,)), ("attn_q", query), ("attn_k", key), ("attn_v", key)]
    layer += [("attn_output", query), ("ffn_norm", (shape.width,)), ("ffn_gate", up), ("ffn_up", up)]
    layer += [("ffn_down", down)]
    table = (shape.width, shape.vocabulary)
    outside = [("token_embd", table), ("output", table), ("output_norm", (shape.width,))]
    tensors = [(None, name, f"{name}.weight", size) for name, size in outside]
    for index in range(shape.layers):
        tensors += [(index, name, f"blk.{index}.{name}.weight", size) for name, size in layer]
    return tensors


def metadata_of(shape):
    number = lambda key, value: string(key) + struct.pack("<II", UINT32, value)
    real = lambda key, value: string(key) + struct.pack("<If", FLOAT32, value)
    words = lambda key, value: string(key) + struct.pack("<I", STRING) + string(value)
    listing = lambda key, kind, count, data: string(key) + struct.pack("<IIQ", ARRAY, kind, count) + data
    count = shape.vocabulary
    pieces = [b"<unk>", b"<s>", b"</s>"] + [b"<0x%02X>" % byte for byte in range(256)]
    pieces += [b"\xe2\x96\x81%d" % index for index in range(len(pieces), count)]
    kinds = [2, 3, 3] + [6] * 256 + [1] * (count - 259)
    return [
        words(b"general.architecture", b"llama"), words(b"general.name", b"synthetic"),
        number(b"llama.context_length", shape.context), number(b"llama.embedding_length", shape.width),
        number(b"llama.block_count", shape.layers), number(b"llama.feed_forward_length", shape.feed_forward),
        number(b"llama.attention.head_count", shape.heads),
        number(b"llama.attention.head_count_kv", shape.kv_heads),
        number(b"llama.rope.dimension_count", shape.width // shape.heads),
        real(b"llama.attention.layer_norm_rms_epsilon", 1e-5),
        number(b"llama.vocab_size", count), number(b"general.file_type", 1),
        words(b"tokenizer.ggml.model", b"llama"), words(b"tokenizer.ggml.pre", b"default"),
        listing(b"tokenizer.ggml.tokens", STRING, count, b"".join(map(string, pieces))),
        listing(b"tokenizer.ggml.scores", FLOAT32, count, struct.pack(f"<{count}f", *range(0, -count, -1))),
        listing(b"tokenizer.ggml.token_type", INT32, count, struct.pack(f"<{count}i", *kinds)),
        number(b"tokenizer.ggml.bos_token_id", 1), number(b"tokenizer.ggml.eos_token_id", 2),
        number(b"tokenizer.ggml.unknown_token_id", 0),
    ]
