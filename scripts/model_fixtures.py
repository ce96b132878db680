#!/usr/bin/env python3
"""Makes tests/data/models/: small random models of every variant of the architectures, as `transformers` saves them, each
with a reference.json of what `transformers` computes from it.

needs: pip install torch transformers tokenizers sentencepiece protobuf

usage: model_fixtures.py OUT_FOLDER [VARIANT...]   (all of them, or these)

The references are computed in float64, but for what `transformers` does in float32 whatever the model's type: the
frequencies and angles of the rotation, the softmax and the norms. Weights are drawn so that attention is sharp, and have
8 bits of precision, so that the files compress. Each variant names settings that take its peculiarity away; the script
fails if the logits do not care, because then a test could not see it either.
"""
import json
import math
import shutil
import sys
from io import BytesIO
from pathlib import Path

import sentencepiece as spm
import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma3TextConfig, GemmaConfig, GemmaForCausalLM, LlamaConfig,
    LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM,
)

VOCABULARY = 288
PROMPT = [1, 270, 5, 271, 260, 260, 287, 3, 100, 263, 42, 77, 281, 9, 9, 199, 250, 66, 13, 120, 284, 31, 8, 222]
WHERE = [0, 11, 23]  # positions of the prompt whose logits are written down
GREEDY = 8

SHAPE = dict(
    vocab_size=VOCABULARY, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=0,
    eos_token_id=1, pad_token_id=None, attention_dropout=0.0,
)
LLAMA, MISTRAL = (LlamaConfig, LlamaForCausalLM), (MistralConfig, MistralForCausalLM)
QWEN2, QWEN3 = (Qwen2Config, Qwen2ForCausalLM), (Qwen3Config, Qwen3ForCausalLM)
GEMMA, GEMMA3 = (GemmaConfig, GemmaForCausalLM), (Gemma3TextConfig, Gemma3ForCausalLM)
GEMMA2 = (Gemma2Config, Gemma2ForCausalLM)


def rope(kind, base=10000.0, **settings):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=base, **settings))


def ropes(full, window):
    """Of layers that see all positions, and of layers with a window."""
    both = dict(full_attention=full, sliding_attention=dict(rope_type="default", rope_theta=window))
    return dict(rope_parameters=both)


LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=24)
YARN = dict(factor=4.0, original_max_position_embeddings=16)
# Name: (classes, settings, the same without the peculiarity).
VARIANTS = {
    "llama-1": (LLAMA, dict(num_key_value_heads=4, rms_norm_eps=1e-6, **rope("default")), rope("default", 100.0)),
    "llama-2": (LLAMA, dict(num_key_value_heads=4, **rope("default")), rope("default", 100.0)),
    "llama-grouped-tied": (LLAMA, dict(tie_word_embeddings=True, **rope("default")), None),
    "llama-wide-heads": (LLAMA, dict(head_dim=16, **rope("default")), None),
    "llama-3": (LLAMA, rope("default", 500000.0), rope("default", 100.0)),
    "llama-3-scaled-tied": (  # as 3.2; untied, it is 3.1
        LLAMA, dict(tie_word_embeddings=True, **rope("llama3", 500.0, **LLAMA3)), rope("default", 500.0)),
    "llama-tiny": (LLAMA, dict(num_attention_heads=4, num_key_value_heads=1, **rope("default")), rope("default", 100.0)),
    "llama-3-scaled": (LLAMA, rope("llama3", 500.0, **LLAMA3), rope("default", 500.0)),
    "llama-linear": (LLAMA, rope("linear", factor=4.0), rope("default")),
    "llama-yarn": (LLAMA, rope("yarn", 500.0, **YARN), rope("default", 500.0)),
    "llama-yarn-attention-factor": (
        LLAMA, rope("yarn", 500.0, attention_factor=0.8, beta_fast=8.0, beta_slow=2.0, **YARN),
        rope("yarn", 500.0, **YARN),
    ),
    "llama-biases": (LLAMA, dict(attention_bias=True, mlp_bias=True, **rope("default")), None),
    "mistral-window": (MISTRAL, dict(sliding_window=5, **rope("default")), dict(sliding_window=None)),
    "qwen2": (QWEN2, rope("default", 1e6), None),
    "qwen2-window-tied": (
        QWEN2, dict(tie_word_embeddings=True, use_sliding_window=True, sliding_window=6, max_window_layers=0,
                    **rope("default")),
        dict(use_sliding_window=False),
    ),
    "qwen3": (QWEN3, dict(head_dim=16, **rope("default", 1e6)), None),
    "qwen3-tied-yarn": (QWEN3, dict(head_dim=16, tie_word_embeddings=True, **rope("yarn", 1e4, **YARN)),
                        rope("default", 1e4)),
    "llama-yarn-mscale": (
        LLAMA, rope("yarn", 500.0, mscale=2.0, mscale_all_dim=0.2, **YARN), rope("yarn", 500.0, **YARN)),
    "llama-window-ignored": (LLAMA, dict(sliding_window=5, **rope("default")), None),
    "qwen2-layer-types": (
        QWEN2, dict(use_sliding_window=True, sliding_window=6, max_window_layers=0,
                    layer_types=["sliding_attention", "full_attention"], **rope("default")),
        dict(layer_types=["sliding_attention"] * 2),
    ),
    "qwen3-max-window-layers": (
        QWEN3, dict(head_dim=16, use_sliding_window=True, sliding_window=6, max_window_layers=1, **rope("default", 1e6)),
        dict(max_window_layers=0),
    ),
    "gemma": (GEMMA, dict(head_dim=16, num_key_value_heads=1, tie_word_embeddings=True, **rope("default")), None),
    "gemma2": (  # caps that scores of such a size reach
        GEMMA2, dict(head_dim=16, query_pre_attn_scalar=16, sliding_window=5, attn_logit_softcapping=2.0,
                     final_logit_softcapping=3.0, tie_word_embeddings=True, **rope("default")),
        dict(attn_logit_softcapping=None),
    ),
    "gemma2-three-layers": (  # the third has the window, as the first
        GEMMA2, dict(num_hidden_layers=3, head_dim=40, query_pre_attn_scalar=24, sliding_window=4,
                     num_key_value_heads=1, attn_logit_softcapping=5.0, final_logit_softcapping=None,
                     tie_word_embeddings=True, **rope("default")),
        dict(sliding_window=64),
    ),
    # Its sixth layer sees all positions.
    "gemma3": (
        GEMMA3, dict(num_hidden_layers=6, head_dim=16, query_pre_attn_scalar=16, sliding_window=5,
                     tie_word_embeddings=True, **ropes(dict(rope_type="default", rope_theta=500.0), 100.0)),
        dict(sliding_window=4),
    ),
    "gemma3-scaled": (
        GEMMA3, dict(head_dim=16, query_pre_attn_scalar=24, sliding_window=5, tie_word_embeddings=True,
                     layer_types=["sliding_attention", "full_attention"],
                     **ropes(dict(rope_type="linear", factor=8.0, rope_theta=1e4), 1e4)),
        dict(query_pre_attn_scalar=16),
    ),
}
SHARDED = "qwen3"
SENTENCEPIECE = ["llama-1", "llama-2", "llama-tiny"]


def coarse(tensor):
    """To bfloat16's precision."""
    return tensor.to(torch.bfloat16).to(torch.float32)


def randomise(model, seed):
    # Gemma adds 1 to the weights of its norms, and multiplies embeddings by the root of their width.
    gemma = model.config.model_type.startswith("gemma")
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        if name.endswith("norm.weight"):
            value = 0.2 * noise + (0 if gemma else 1)
        elif name.endswith("bias"):
            value = 0.5 * noise
        elif "embed_tokens" in name:
            value = (0.2 if gemma else 0.7) * noise
        else:
            sharpness = 1.8 if "q_proj" in name or "k_proj" in name else 1.2
            value = sharpness * noise / math.sqrt(parameter.shape[-1])
        parameter.data = coarse(value)


def make(classes, settings, seed=0):
    config_class, model_class = classes
    config = config_class(**{**SHAPE, **settings}, attn_implementation="eager")
    model = model_class(config).eval()
    randomise(model, seed)
    return model


def computed(model):
    """What is compared: logits at WHERE, log-probabilities of the prompt, its embedding and a greedy continuation."""
    model = model.double()
    with torch.no_grad():
        prompt = torch.tensor([PROMPT])
        logits = model(prompt, use_cache=False).logits[0]
        states = model.model(prompt, use_cache=False).last_hidden_state[0]
        mean = states.mean(0)
        tokens, margins = list(PROMPT), []
        for _ in range(GREEDY):
            last = model(torch.tensor([tokens]), use_cache=False).logits[0, -1]
            first, second = last.topk(2).values.tolist()
            margins.append(first - second)
            tokens.append(int(last.argmax()))
    assert min(margins) > 1e-2, f"a greedy token is nearly a draw: {margins}"
    scores = logits.log_softmax(-1)
    return {
        "prompt": PROMPT,
        "logits": [{"position": place, "values": numbers(logits[place])} for place in WHERE],
        "log_probabilities": numbers(torch.stack([scores[i, t] for i, t in enumerate(PROMPT[1:])])),
        "mean_embedding": numbers(mean / mean.norm()),
        "last_embedding": numbers(states[-1] / states[-1].norm()),
        "greedy": tokens[len(PROMPT):],
    }


def numbers(tensor):
    return [float(f"{value:.8g}") for value in tensor.tolist()]


CORPUS = ["the cat and the dog and the bird sat on the mat", "there they then them that this those 1234"] * 20


def byte_level(pattern, compose):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC() if compose else None
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<|begin_of_text|>", "<|end_of_text|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    ))
    if not compose:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", 0)])
    return tokenizer


DIGITS_3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
            r"|\s+(?!\S)|\s+")
DIGITS_1 = DIGITS_3.replace(r"\p{N}{1,3}", r"\p{N}")


def write_tokenizer(folder, name):
    if name in SENTENCEPIECE:
        out = BytesIO()
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(CORPUS), model_writer=out, model_type="bpe", byte_fallback=True, vocab_size=VOCABULARY,
            normalization_rule_name="identity", remove_extra_whitespaces=False, hard_vocab_limit=False, minloglevel=2)
        (folder / "tokenizer.model").write_bytes(out.getvalue())
    else:
        qwen = name.startswith("qwen")
        byte_level(DIGITS_1 if qwen else DIGITS_3, compose=qwen).save(str(folder / "tokenizer.json"), pretty=False)


def relative(found, expected):
    return ((found - expected).abs().max() / expected.abs().max()).item()


def main():
    out = Path(sys.argv[1])
    for name in sys.argv[2:] or VARIANTS:
        classes, settings, without = VARIANTS[name]
        folder = out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        seed = next(seed for seed in range(100) if not is_draw(make(classes, settings, seed)))
        model = make(classes, settings, seed)
        model.save_pretrained(folder, **(dict(max_shard_size="60KB") if name == SHARDED else {}))
        (folder / "generation_config.json").unlink(missing_ok=True)
        write_tokenizer(folder, name)
        reference = computed(make(classes, settings, seed))
        (folder / "reference.json").write_text(json.dumps(reference, separators=(",", ":")) + "\n")
        if without is not None:
            values = torch.tensor(reference["logits"][-1]["values"])
            plain = torch.tensor(computed_logits(make(classes, {**settings, **without}, seed)))
            change = relative(plain, values)
            assert change > 1e-2, f"{name}: the logits do not depend on it ({change})"


def is_draw(model):
    try:
        computed(model)
        return False
    except AssertionError:
        return True


def computed_logits(model):
    with torch.no_grad():
        return model.double()(torch.tensor([PROMPT]), use_cache=False).logits[0, -1].tolist()


main()
