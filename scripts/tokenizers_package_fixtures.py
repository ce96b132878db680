#!/usr/bin/env python3
"""Makes tests/data/tokenizers_package.json: what the `tokenizers` package does with difficult texts and tokens.

needs: pip install tokenizers sentencepiece protobuf

usage: tokenizers_package_fixtures.py OUT.json

Each tokenizer has the pre-tokenizer of the published models of its kind, and a vocabulary trained here on a few sentences.
"default" is what llama.cpp does for files that do not name a pre-tokenizer; its patterns are those of `llama-vocab.cpp`.
The ones without GGUF's name for a pre-tokenizer are SentencePiece's, as `transformers` converts it for the LLaMA models: with
the older Prepend, which puts a space before every part of a text, and with Metaspace, which newer Llama 2 and Mistral have.
Their decoding is not here: the package strips any first space, and joins bytes across special tokens, where `sentencepiece`
does neither.
"""
import json
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizer_fixtures import TEXTS, train as train_sentencepiece

SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>"]
USER_DEFINED = ["<tool>", "<tool_call>", "<too"]
CORPUS = [
    "the cat and the dog and the bird sat on the mat", "It's what they'll do, we've said; I'm sure you'd DON'T",
    "fn main() {\n    println!(\"Hello, world!\");\n}\n\n", "x = 123456 + 42;  // 2024-11-21\n\n\n", "caf\u00e9 na\u00efve",
    "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8", "\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440", "    four\t\ttabs",
    "\U0001f980\U0001f980 \U0001f600 crab", "e\u0301a\u0300 n\u0303", "aaa aaaa aaaaa", "$$$ <<=>> ~~ ^^ ||| ...", "\r\n\r\n",
]
MORE = [
    "it's IT'S it'S 'tis 'RE'LL ''''s 's't're've'm'll'd", "'\u017f '\u017fT I'\u212a", "1 12 123 1234 12345 1234567890",
    "\u0661\u0662\u0663\u0664 \u00b2\u00b3\u00b9 \u2167 \u00bd 1\u00b22", " \n", "\n ", " \n ", "\n\n x", "\n\n  x", "a\n", "a \n b",
    "a  \n\n  b", "\r\n", "\r\r\n\nx", "!\n", "!\n\n x", "! \n", "...\r\n\r\nx", " !", "  !", "  !!\n\n", "\t!", "\t\tx", "\t x", " \tx",
    "x\u00a0y", "x\u00a0\u00a0y", "\u00a0x", "\u2003\u2003x", "\u3000\u3000x", "\u0085x", "\u0085\u0085", "\u2028x", "\u2029\u2029y",
    "\u200bx", "\u200dx", "\ufeffx", "\u180ex", "\x0bx", "\x0c\x0cx", "\x1cx", "\x1f", "a\u0301\u0301b", " \u0301a", "\u0301", "\u0927\u094d\u092f",
    "\u0e01\u0e33", "\u1100\u1161\u11a8", "\uac01", "\u212b\u2126", "\u0344", "\u0958", "\ufb1d", "\u2f800", "\U0002f800",
    "\U0001d15e", "_a_b __c", "a_1", "$a $1 +1 <a> a=b a|b ~a ^a `a", "a$+<=>^~|b", "(1)(22)(333)(4444)", "12.34,567",
    "<|im_start|>user\nhi<|im_end|>\n", "<|im_start|", "a<|end_of_text|> b", " <|im_end|> ", "<|im_end|><|im_end|>", "<tool><tool_call><too<tool",
    "x <tool> y", " <tool_call>\n\n", "e<tool>\u0301", "<|im_start|>\u0301", "\u0301<|im_end|>", "caf\u00e9's", "cafe\u0301's",
    "don\u2019t", "\U0001f468\u200d\U0001f469\u200d\U0001f467 x", "\U0001f1e9\U0001f1ea1", "1\ufe0f\u20e3", "\U0001f44d\U0001f3fd",
    "the" * 200, "\u65e5" * 150, "\u0301" * 60, " " * 33 + "x", "\n" * 17 + " x", "1" * 100, "!" * 70 + "\n" * 5, "\t" * 9,
]
AROUND_SPECIAL = [
    "<s>the cat", "<s> the cat", "<s>  the", "the<s>the </s> the", " <s>the", "</s></s>\u2581the", "\u2581the", "\u2581\u2581the \u2581",
    "<s>[INST] the cat [/INST] the dog </s><s>[INST] the", "<s>\n<s>", "<unk>the",
]
ALPHABET = [
    "a", "b", "the", "S", "'s", "'T", "'", "1", "23", "\u0663", "\u00b2", " ", "  ", "\n", "\r", "\t", "\u00a0", "\u3000", "\u0085",
    "\u0301", "\u00e9", "e\u0301", "\u65e5", "\U0001f980", "\u200d", "!", "...", "$", "<", "|", "_", "\0", "\x1b", "\u1e9e", "\u01c5",
]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
DEFAULT = [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"]


def split_by(*patterns):
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train(pre_tokenizer, normalizer=None, begins=False, whole_words=()):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=420, min_frequency=1, show_progress=False, special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    if whole_words:
        tokenizer = with_whole_words(tokenizer, whole_words)
    tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(name, normalized=False) for name in USER_DEFINED])
    if begins:
        tokenizer.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single=f"{SPECIAL[0]} $A", special_tokens=[(SPECIAL[0], 0)])])
    return tokenizer


def with_whole_words(tokenizer, words):
    """Adds tokens that no merges lead to, as tiktoken's vocabularies have them."""
    described = json.loads(tokenizer.to_str())
    model = described["model"]
    for word in words:
        model["vocab"][word] = len(model["vocab"])
    model["ignore_merges"] = True
    return Tokenizer.from_str(json.dumps(described))


def converted_sentencepiece(scheme=None):
    """The `LlamaConverter` of transformers' convert_slow_tokenizer.py, with Metaspace of that scheme where there is one."""
    _, pieces = train_sentencepiece(vocab_size=400, byte_fallback=True)
    vocabulary = {piece.piece: id for id, piece in enumerate(pieces)}
    merges = []
    for piece in pieces:
        halves = [(piece.piece[:cut], piece.piece[cut:]) for cut in range(1, len(piece.piece))]
        known = [pair for pair in halves if pair[0] in vocabulary and pair[1] in vocabulary]
        known.sort(key=lambda pair: (vocabulary[pair[0]], vocabulary[pair[1]]))
        merges += [(piece.score, pair) for pair in known]
    merges.sort(key=lambda merge: merge[0], reverse=True)
    tokenizer = Tokenizer(models.BPE(
        vocabulary, [pair for _, pair in merges], unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.add_special_tokens([AddedToken(name, normalized=False) for name in ["<unk>", "<s>", "</s>"]])
    if scheme:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    else:
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def texts():
    rng = random.Random(1)
    made = ["".join(rng.choices(ALPHABET, k=rng.randint(2, 14))) for _ in range(120)]
    return [*TEXTS, *MORE, *AROUND_SPECIAL, " catdog zebra catdog \u00e9 789 1789", *made]


def id_lists(tokenizer, seed):
    rng = random.Random(seed)
    size = tokenizer.get_vocab_size()
    lists = [[rng.randrange(size) for _ in range(rng.randint(1, 10))] for _ in range(40)]
    # The first tokens after the special ones are single bytes.
    lists += [[rng.randrange(len(SPECIAL), 260) for _ in range(rng.randint(1, 8))] for _ in range(60)]
    byte = {bytes_: tokenizer.token_to_id(letter) for bytes_, letter in letters()}
    for text in ["\u20ac", "\U0001f600", "\u00e9"]:  # characters cut short, and with a special token inside
        data = text.encode()
        for cut in range(1, len(data)):
            lists.append([byte[b] for b in data[:cut]])
            lists.append([byte[b] for b in data[:cut]] + [byte[0x41]])
            lists.append([byte[b] for b in data[:cut]] + [1] + [byte[b] for b in data[cut:]])
    return lists


def letters():
    """Each byte and the character that stands for it: `bytes_to_unicode` of GPT-2's encoder.py."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in plain]
    return [(b, chr(b)) for b in plain] + [(b, chr(256 + i)) for i, b in enumerate(others)]


def cases(pre, tokenizer, all_texts):
    """`pre` is GGUF's name of the pre-tokenizer, if it has one."""
    tokenizer.encode_special_tokens = True
    plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in all_texts]
    tokenizer.encode_special_tokens = False
    parsed = [tokenizer.encode(text).ids for text in all_texts]
    # The second is there where names of special tokens in the text matter, or a token is put before it.
    encode = [[a, b] if a != b else [a] for a, b in zip(plain, parsed)]
    decode = [[ids, tokenizer.decode(ids)] for ids in id_lists(tokenizer, 2)] if pre else []
    return {"pre": pre, "tokenizer": json.loads(tokenizer.to_str()), "encode": encode, "decode": decode}


def main():
    gpt2 = train(pre_tokenizers.ByteLevel(add_prefix_space=False))
    whole_words = ["\u0120catdog", "zebra", "\u0120\u00c3\u00a9", "789"]
    llama3 = train(split_by(LLAMA3), begins=True, whole_words=whole_words)
    all_texts = texts()
    tokenizers = [
        ("gpt-2", gpt2),
        ("llama-bpe", llama3),
        ("qwen2", train(split_by(QWEN2), normalizers.NFC())),
        ("deepseek-r1-qwen", train(split_by(QWEN2), begins=True)),
        ("default", train(split_by(*DEFAULT))),
        *((None, converted_sentencepiece(scheme)) for scheme in [None, "first", "always", "never"]),
    ]
    fixtures = {
        "texts": all_texts,
        "tokenizers": [cases(pre, tokenizer, all_texts) for pre, tokenizer in tokenizers],
    }
    with open(sys.argv[1], "w") as file:
        json.dump(fixtures, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
