#!/usr/bin/env python3
"""Makes tests/data/pre_tokenizers.json: where the `tokenizers` package cuts difficult texts into words.

needs: pip install tokenizers sentencepiece protobuf

usage: pre_tokenizer_fixtures.py OUT.json

Each name is GGUF's (`tokenizer.ggml.pre`), each list of patterns that of the family's published `tokenizer.json`, where
it has one, else that of llama.cpp's `llama-vocab.cpp`. A text's words are given as their lengths in characters.
"missing" is a byte-level tokenizer whose vocabulary lacks some bytes, as SmolLM2's does: its merges, and the tokens of
some texts.
"""
import json
import sys

from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from tokenizers_package_fixtures import DEFAULT, GPT2, LLAMA3, QWEN2, texts

CASES = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def cased(numbers, ending=""):
    return (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{ending}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{ending}"
            rf"|{numbers}|{REST}")


CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
MARKED = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+"""
PATTERNS = {
    "gpt-2": [GPT2],
    "llama-bpe": [LLAMA3],
    "qwen2": [QWEN2],
    "default": DEFAULT,
    "smollm": [r"\p{N}", GPT2],
    "tekken": [cased(r"\p{N}")],
    "gpt-4o": [cased(r"\p{N}{1,3}", CASES + "?")],
    "deepseek-v3": [r"\p{N}{1,3}", CJK, MARKED + r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "spark2_5": [r"\p{N}{1,3}", CJK, MARKED + r"|[\r\n]|\s+(?!\S)|\s+", r"\p{N}"],
    "deepseek-coder": ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}"],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}"
                   r"| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    "seed-coder": [CASES + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+"],
    "exaone-moe": [CASES + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}"
                   r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"],
    "laguna": [r"[^\n]+|[\n]+", QWEN2],
    "minicpm5": [r"\p{N}{1,3}", LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}+")],
    "ufakzeka": [QWEN2.removeprefix(CASES + "|")],
    "viking": [" ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+", r"\p{N}"],
}


def words(patterns, text):
    """The lengths of the words, in characters."""
    split = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns])
    return [end - start for _, (start, end) in split.pre_tokenize_str(text)]


def missing():
    merges = [("!", "!"), ("a", "b"), ("\u0120", "a"), ("!!", "!")]
    pieces = ["!", "a", "b", "\u0120", "!!", "ab", "\u0120a", "!!!", "\u00c3"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    samples = ["ab", "a\4b", "!\4!", "!\4!!", "\4", "", " ab\4", "\u00e9", "a1b", "! a!!\1!"]
    return {"pieces": pieces, "merges": [" ".join(pair) for pair in merges],
            "encode": [[text, tokenizer.encode(text).ids] for text in samples]}


def main():
    all_texts = [text for text in texts() if text]
    fixtures = {
        "texts": all_texts,
        "words": {name: [words(patterns, text) for text in all_texts] for name, patterns in PATTERNS.items()},
        "missing": missing(),
    }
    with open(sys.argv[1], "w") as file:
        json.dump(fixtures, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
