#!/usr/bin/env python3
"""Makes tests/data/hostile/: small whole files of every format that is read, from which fuzzing starts and which tests cut and
change in every place. The two of msl_source are written by hand. Other files there that this does not make are what fuzzing found.

needs: pip install gguf numpy tokenizers sentencepiece protobuf

usage: hostile_seeds.py OUT_FOLDER
"""
import base64
import json
import struct
import sys
from pathlib import Path

import gguf
import numpy as np
from sentencepiece import sentencepiece_model_pb2
from tokenizers import pre_tokenizers

Kind = gguf.GGMLQuantizationType
WIDTH, FEED_FORWARD = 32, 32
random = np.random.default_rng(7)


def llama_tokenizer(writer):
    """SentencePiece's, without byte tokens but for two."""
    pieces = ["<unk>", "<s>", "</s>", "<0x41>", "<0x0A>", "\u2581", "a", "b", "\u2581a", "ab", "\u2581ab", "<tool>"]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(pieces)
    writer.add_token_scores([0.0] * 5 + [-float(id) for id in range(len(pieces) - 5)])
    writer.add_token_types([2, 3, 3, 6, 6, 1, 1, 1, 5, 1, 1, 4])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    return len(pieces)


def byte_level_tokenizer(writer, pre):
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = letters + ["ab", "\u0120a", "<|end|>", "<tool>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(pieces)
    writer.add_token_types([1] * (len(letters) + 2) + [3, 4])
    writer.add_token_merges(["a b", "\u0120 a"])
    writer.add_eos_token_id(len(letters) + 2)
    return len(pieces)


def hyperparameters(writer, name):
    writer.add_block_count(1)
    writer.add_context_length(16)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    if name == "llama":
        writer.add_rope_dimension_count(WIDTH // 2)
    if name == "gemma2":
        writer.add_sliding_window(4)
        writer.add_attn_logit_softcapping(50.0)
        writer.add_final_logit_softcapping(30.0)


def add_weights(writer, vocabulary, kind, biases=False, norms=False, post_norms=False):
    def matrix(name, outputs):
        numbers = random.normal(size=(outputs, WIDTH)).astype(np.float32)
        writer.add_tensor(name, gguf.quants.quantize(numbers, kind), raw_dtype=kind)

    def vector(name, length):
        writer.add_tensor(name, np.ones(length, np.float32))

    matrix("token_embd.weight", vocabulary)
    for name, outputs in [("attn_q", WIDTH), ("attn_k", WIDTH // 2), ("attn_v", WIDTH // 2), ("attn_output", WIDTH),
                          ("ffn_gate", FEED_FORWARD), ("ffn_up", FEED_FORWARD), ("ffn_down", WIDTH)]:
        matrix(f"blk.0.{name}.weight", outputs)
        if biases and name in ("attn_q", "attn_k", "attn_v"):
            vector(f"blk.0.{name}.bias", outputs)
    for name, length in [("attn_norm", WIDTH), ("ffn_norm", WIDTH)]:
        vector(f"blk.0.{name}.weight", length)
    if norms:
        vector("blk.0.attn_q_norm.weight", WIDTH // 2)
        vector("blk.0.attn_k_norm.weight", WIDTH // 2)
    if post_norms:
        vector("blk.0.post_attention_norm.weight", WIDTH)
        vector("blk.0.post_ffw_norm.weight", WIDTH)
    vector("output_norm.weight", WIDTH)


def write_gguf(path, architecture, fill):
    writer = gguf.GGUFWriter(path, architecture)
    fill(writer)
    if "output_norm.weight" not in writer.tensors[0]:
        # It needs no padding behind it, so that every byte of the file counts.
        writer.add_tensor("last", np.ones(16, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def every_value(writer):
    for kind in ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]:
        getattr(writer, f"add_{kind}")(f"a.{kind}", 100)
    writer.add_float32("a.float32", 1.5)
    writer.add_float64("a.float64", 0.25)
    writer.add_bool("a.bool", True)
    writer.add_string("a.string", "na\u00efve")
    writer.add_array("a.integers", [1, -2])
    writer.add_array("a.nested", [[1.5, 2.5], [3.5]])
    writer.add_custom_alignment(64)


def every_type(writer):
    """A row of every type of tensor, of any bits."""
    for kind in [Kind.F32, Kind.F16, Kind.BF16, Kind.Q8_0, Kind.Q4_0, Kind.Q4_1, Kind.Q5_0, Kind.Q5_1, Kind.Q2_K,
                 Kind.Q3_K, Kind.Q4_K, Kind.Q5_K, Kind.Q6_K, Kind.IQ4_NL]:
        length, size = gguf.GGML_QUANT_SIZES[kind]
        writer.add_tensor(kind.name, np.zeros((1, size), np.uint8), raw_dtype=kind)


def whole_model(architecture, tokenizer, kind, **weights):
    def fill(writer):
        vocabulary = tokenizer(writer)
        hyperparameters(writer, architecture)
        add_weights(writer, vocabulary, kind, **weights)
    return fill


def split_gguf(folder):
    """Two parts of a model behind each other, behind the length of the first."""
    parts = []
    for number in range(2):
        path = folder / "part"
        writer = gguf.GGUFWriter(path, "llama")
        writer.add_uint16(gguf.Keys.Split.LLM_KV_SPLIT_NO, number)
        writer.add_uint16(gguf.Keys.Split.LLM_KV_SPLIT_COUNT, 2)
        writer.add_int32(gguf.Keys.Split.LLM_KV_SPLIT_TENSORS_COUNT, 2)
        writer.add_tensor(f"part-{number}", np.ones(16, np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        parts.append(path.read_bytes())
        path.unlink()
    return struct.pack("<I", len(parts[0])) + b"".join(parts)


def safetensors(tensors, metadata=None):
    header = {} if metadata is None else {"__metadata__": metadata}
    offset = 0
    for name, dtype, shape, size in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(offset)


def character_map():
    """"a" becomes "b": a double array by hand. A unit's children are at its offset, exclusive-or their byte."""
    units = [0] * 0x81
    units[ord("a")] = (ord("a") ^ 0x80) << 10 | 1 << 8 | ord("a")
    units[0x80] = 1 << 31
    return struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + b"b\0"


def sentencepiece(normalizes=False):
    model = sentencepiece_model_pb2.ModelProto()
    for text, score, kind in [("<unk>", 0, 2), ("<s>", 0, 3), ("</s>", 0, 3), ("<0x41>", 0, 6), ("\u2581", -1, 1), ("a", -2, 1),
                              ("\u2581a", -3, 1), ("<tool>", 0, 4), ("\u2581aa", -4, 5)]:
        model.pieces.add(piece=text, score=score, type=kind)
    model.trainer_spec.model_type = 2
    model.trainer_spec.eos_id = 2
    model.trainer_spec.pad_id = -1
    model.normalizer_spec.add_dummy_prefix = True
    model.normalizer_spec.remove_extra_whitespaces = False
    if normalizes:
        model.trainer_spec.model_type = 1
        model.normalizer_spec.remove_extra_whitespaces = True
        model.normalizer_spec.precompiled_charsmap = character_map()
    return model.SerializeToString()


def byte_level_json(split, normalizer, ignore_merges=False):
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: id for id, letter in enumerate([*letters, "ab"])}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": split is None}
    steps = [byte_level]
    if split:
        steps.insert(0, {"type": "Split", "pattern": {"Regex": split}, "behavior": "Isolated", "invert": False})
    return {
        "added_tokens": [{"id": 257, "content": "<|end|>", "special": True}, {"id": 258, "content": "<tool>", "special": False}],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end|>"}}, {"Sequence": {}}]},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": ["a b"], "ignore_merges": ignore_merges},
    }


PREPEND = {"normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "\u2581"}]}}
METASPACE = {"pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}}


def converted_json(space):
    return {
        "added_tokens": [{"id": 1, "content": "<s>", "special": True}],
        **space,
        "model": {"type": "BPE", "unk_token": "<unk>", "byte_fallback": True, "merges": [["a", "a"], ["\u2581", "aa"]],
                  "vocab": {"<unk>": 0, "<s>": 1, "<0x41>": 2, "\u2581": 3, "a": 4, "aa": 5, "\u2581aa": 6}},
    }


BERT = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
        "lowercase": True}
ADDED = [
    {"id": 1, "content": "<s>", "special": True, "lstrip": True}, {"id": 7, "content": "<tool>", "rstrip": True},
    {"id": 6, "content": "Ab", "single_word": True, "normalized": True}]


def word_piece_json():
    return {
        "added_tokens": ADDED, "normalizer": BERT, "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["<s>", 1]},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 4,
                  "vocab": {"[UNK]": 0, "<s>": 1, "[SEP]": 2, "a": 3, "##a": 4, "##b": 5, "Ab": 6}},
    }


def unigram_json():
    table = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(character_map()).decode()}
    replace = {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}
    split = {"type": "Split", "pattern": {"String": "<"}, "behavior": "MergedWithNext", "invert": False}
    return {
        "added_tokens": ADDED, "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, replace, table]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, {"type": "Metaspace", "replacement": "\u2581"}]},
        "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": True,
                  "vocab": [["<unk>", 0], ["<s>", 0], ["<0x41>", 0], ["\u2581", -1.5], ["a", -2], ["b", -2.5],
                            ["Ab", -3]]},
    }


def word_pieces(writer):
    """BERT's, and what a tokenizer.json has around it."""
    pieces = ["[UNK]", "[CLS]", "[SEP]", "\u2581a", "a", "b", "\u2581\u65e5", "<tool>"]
    writer.add_tokenizer_model("bert")
    writer.add_token_list(pieces)
    writer.add_token_types([2, 3, 3, 1, 1, 1, 1, 4])
    for name, id in [("unknown", 0), ("cls", 1), ("seperator", 2)]:
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", id)
    writer.add_string("tokenizer.huggingface.normalizer", json.dumps(BERT))
    writer.add_string("tokenizer.huggingface.pre_tokenizer", '{"type":"BertPreTokenizer"}')
    writer.add_string("tokenizer.huggingface.added_tokens", json.dumps(ADDED))


def unigrams(writer):
    writer.add_tokenizer_model("t5")
    writer.add_token_list(["<pad>", "</s>", "<unk>", "\u2581", "a", "b", "<tool>"])
    writer.add_token_scores([0.0, 0.0, 0.0, -1.0, -2.0, -3.0, 0.0])
    writer.add_token_types([3, 3, 2, 1, 1, 1, 4])
    writer.add_bool("tokenizer.ggml.remove_extra_whitespaces", True)
    writer.add_array("tokenizer.ggml.precompiled_charsmap", character_map())


def importance_gguf(writer):
    writer.add_type("imatrix")
    writer.add_array("imatrix.datasets", ["a.txt"])
    writer.add_uint32("imatrix.chunk_count", 3)
    writer.add_tensor("blk.0.ffn_up.weight.in_sum2", np.float32([[1, 2, 3, 4]]))
    writer.add_tensor("blk.0.ffn_up.weight.counts", np.float32([[2]]))


def importance_table():
    text = lambda text: struct.pack("<i", len(text)) + text
    entry = text(b"blk.0.ffn_up.weight") + struct.pack("<ii4f", 2, 4, 1, 2, 3, 4)
    return struct.pack("<i", 1) + entry + struct.pack("<i", 3) + text(b"a.txt")


def folder_settings():
    """config.json, generation_config.json, tokenizer_config.json, an index and a chat template, with zeros between
    them. The weights are those of tests/data/models/llama-grouped-tied."""
    sizes = {
        "hidden_size": 32, "intermediate_size": 40, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 288, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}
    rotation = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
                "high_freq_factor": 4.0, "original_max_position_embeddings": 24}
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 32, "beta_slow": 1,
            "mscale": 1.0, "mscale_all_dim": 0.5}
    of_layers = {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0},
                 "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}
    configs = {
        "llama3": {"model_type": "llama", "hidden_act": "silu", "tie_word_embeddings": True, "bos_token_id": 1,
                   "eos_token_id": [1, 3, 4], "rope_parameters": rotation},
        "qwen2": {"model_type": "qwen2", "tie_word_embeddings": False, "eos_token_id": 1, "rope_theta": 1e6,
                  "use_sliding_window": True, "sliding_window": 6, "max_window_layers": 1, "rope_scaling": yarn},
        "gemma3": {"model_type": "gemma3_text", "hidden_activation": "gelu_pytorch_tanh", "bos_token_id": 1,
                   "eos_token_id": 1, "sliding_window": 5, "query_pre_attn_scalar": 16, "final_logit_softcapping": 30.0,
                   "layer_types": ["sliding_attention", "full_attention"], "rope_parameters": of_layers}}
    templates = [{"name": "default", "template": "{{ messages[0]['content'] }}"}, {"name": "tool_use", "template": ""}]
    parts = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
             "mlp.up_proj", "mlp.down_proj", "input_layernorm", "post_attention_layernorm"]
    names = ["model.embed_tokens.weight", "model.norm.weight",
             *(f"model.layers.{layer}.{part}.weight" for layer in range(2) for part in parts)]
    files = [{"eos_token_id": [1, 6], "temperature": 0.7},
             {"add_bos_token": True, "add_eos_token": False, "add_prefix_space": None, "chat_template": templates},
             {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(names, "model.safetensors")}]
    text = lambda value: json.dumps(value, separators=(",", ":")).encode()
    # The last files need not be there.
    more = {"llama3": [*map(text, files), b"{{ bos_token }}"], "qwen2": list(map(text, files[:2])), "gemma3": []}
    return {name: b"\0".join([text({**sizes, **config}), *more[name]]) for name, config in configs.items()}


QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")


def c_calls(*calls):
    """What tests/llama/hostile_files/c_calls.rs reads: a number for each call, and its arguments."""
    def argument(value):
        if isinstance(value, str):
            value = value.encode()
        if isinstance(value, bytes):
            return struct.pack("<H", len(value)) + value
        if isinstance(value, list):  # tokens
            return argument(bytes(value))
        return struct.pack("<f", value) if isinstance(value, float) else bytes([value])
    return b"".join(argument(value) for call in calls for value in call)


TOOLS = '{"tools": [{"type": "function", "function": {"name": "f"}}]}'
MESSAGES = json.dumps([
    {"role": "user", "content": "a </s> b"},
    {"role": "assistant", "content": None,
     "tool_calls": [{"function": {"name": "f", "arguments": {"x": [1, 2.5, None]}}}]},
    {"role": "tool", "content": "1", "tool_call_id": "c"},
])
CALLING = (
    "{% for m in messages %}{{ m.role }}{{ m.content }}"
    "{% for c in m.tool_calls %}{{ c.function | tojson }}{% endfor %}</s>"
    "{% endfor %}{{ tools | length }}{% if add_generation_prompt %}>{% endif %}"
)
# Temperature, top-k, top-p, min-p, three penalties, their window, and a seed of eight bytes.
SAMPLER = (0.8, 5, 0.9, 0.05, 1.1, 0.1, 0.1, 8, 7, 0, 0, 0, 0, 0, 0, 0)


def main():
    out = Path(sys.argv[1])

    def place(target, name):
        folder = out / target
        folder.mkdir(parents=True, exist_ok=True)
        return folder / name

    byte_level = lambda pre: lambda writer: byte_level_tokenizer(writer, pre)
    place("c_calls", "chats").write_bytes(c_calls(
        (0, CALLING, TOOLS, MESSAGES), (1, 3, "Hello </s>\u00e9", "</s>"), (2, [5, 60, 200]), (3, [5, 200, 201, 60]),
        (13, "Q8_0", struct.pack("<32f", *range(32))),
    ))
    place("c_calls", "sessions").write_bytes(c_calls(
        (4, 0, [1, 5, 6]), (5, 0, [7], 1, [1, 8, 9]), (11, [1, 5], *SAMPLER, struct.pack("<512f", *range(512))),
        (7, 0, 1, 0, 0, 0, 0), (6, 0, [1, 5, 6, 7], 2, 0, 0), (6, 0, [1, 5, 9], 0, 0, 1), (6, 1, [], 1, 2, 2),
        (6, 0, [], 0, 1, 3), (9, *SAMPLER, [5, 6], struct.pack("<16f", *range(16))),
        (10, 0, [1, 5], "the", *SAMPLER, 4, 5), (12, 1, [1, 5, 6], 0), (12, 0, [7, 8], 1), (12, 1, [1, 5, 6, 7], 2),
    ))
    write_gguf(place("gguf", "values"), "llama", every_value)
    write_gguf(place("gguf", "types"), "llama", every_type)
    write_gguf(place("gguf", "sentencepiece"), "llama", lambda writer: (llama_tokenizer(writer), hyperparameters(writer, "llama")))
    write_gguf(place("gguf", "byte-level"), "qwen2", lambda writer: (byte_level_tokenizer(writer, "qwen2"),
                                                                    hyperparameters(writer, "qwen2")))
    write_gguf(place("gguf", "word-pieces"), "llama", word_pieces)
    write_gguf(place("gguf", "unigrams"), "llama", unigrams)
    write_gguf(place("model", "llama"), "llama", whole_model("llama", llama_tokenizer, Kind.Q8_0))
    write_gguf(place("model", "qwen2"), "qwen2", whole_model("qwen2", llama_tokenizer, Kind.F16, biases=True))
    write_gguf(place("model", "qwen3"), "qwen3", whole_model("qwen3", llama_tokenizer, Kind.Q4_0, norms=True))
    write_gguf(place("model", "gemma2"), "gemma2", whole_model("gemma2", llama_tokenizer, Kind.Q5_0, post_norms=True))

    write_gguf(place("importance", "gguf"), "llama", importance_gguf)
    place("importance", "table").write_bytes(importance_table())
    two_parts = place("split_gguf", "two-parts")
    two_parts.write_bytes(split_gguf(two_parts.parent))
    tensors = [("a", "F32", [2, 2], 16), ("b.weight", "BF16", [3], 6), ("none", "I64", [0], 0), ("one", "U8", [], 1)]
    place("safetensors", "plain").write_bytes(safetensors(tensors))
    place("safetensors", "metadata").write_bytes(safetensors(tensors[:2], {"format": "pt"}))
    place("tokenizer_model", "bpe").write_bytes(sentencepiece())
    place("tokenizer_model", "unigram").write_bytes(sentencepiece(normalizes=True))
    for name, settings in folder_settings().items():
        place("folder_settings", name).write_bytes(settings)
    for name, tokenizer in [("gpt-2", byte_level_json(None, None)), ("converted", converted_json(PREPEND)),
                            ("metaspace", converted_json(METASPACE)),
                            ("qwen2", byte_level_json(QWEN2, {"type": "NFC"})),
                            ("word-piece", word_piece_json()), ("unigram", unigram_json())]:
        place("tokenizer_json", name).write_text(json.dumps(tokenizer, separators=(",", ":"), ensure_ascii=False))


main()
