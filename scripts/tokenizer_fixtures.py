#!/usr/bin/env python3
"""Makes tests/data/sentencepiece.json: what the `sentencepiece` package does with difficult texts and tokens.

needs: pip install sentencepiece protobuf

usage: tokenizer_fixtures.py TOKENIZER_MODEL OUT.json

TOKENIZER_MODEL is tiny-rustbook's SentencePiece model, whose vocabulary is in assets/tiny-rustbook-q8_0.gguf. The other
models are trained here, on a few sentences, to have what it lacks: user-defined and unused pieces, no byte fallback, no
space prefix.
"""
import io
import json
import random
import sys

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2

TEXTS = [
    "", " ", "  ", "   a", "a", " a ", "a  b   c    d", "\t\ttabs\tand\r\nlines\n\n\n", "Ownership is a set of rules",
    "fn main() {\n    println!(\"Hello, world!\");\n}\n",
    "let x: Vec<Box<dyn Fn(&str) -> Result<(), Error>>> = vec![];", "\u2581", "\u2581\u2581 \u2581a", "a\u2581b",
    "\u2581Ownership", "<s>", "</s>", "<unk>", "<0x41>", "<0x0A><0xFF>", "<s> a </s>", "\0", "a\0b", "\x01\x7f\x80",
    "e\u0301", "\u00e9", "\u1e9e\u00df", "I\u0307", "\ufb01", "\ufeffBOM", "\u200b\u200d\u2060",
    "\u3000ideographic\u3000space", "no\u00a0break", "\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8",
    "\u0645\u0631\u062d\u0628\u0627", "\u202eright to left", "\U0001f600",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466", "\U0001f1e9\U0001f1ea", "\u2764\ufe0f", "\ufffd",
    "\uffff", "\U0010ffff", "\ud7ff\ue000", "a" * 300, "ab" * 100, " " * 50, "\n" * 40,
    "0123456789 3.14159e-10 0xDEADBEEF", "the the the  the", "THE QUICK brown fOx", "it's don't won't I'll",
    "https://doc.rust-lang.org/book/ch04-01.html?a=b&c=d#e", "!!!???...,,,;;;:::", "(((((([[[[[{{{{{", "=========",
    "----------", "______", "\\\\\\\\ \\n \\t", "'\"`\u2018\u2019\u201c\u201d\u00ab\u00bb", "\u2014\u2013\u2026",
    "\u221e\u2260\u2264\u00b1\u00d7", "mixed \U0001f980 Ferris \u8b83 caf\u00e9 na\u00efve", "aaaaaaab", "baaaaaaa",
    "abababababa", "x" * 17 + " " + "y" * 17,
]
ALPHABET = [
    "a", "b", "e", "t", "h", "the", " ", "  ", "\n", "\u2581", "<", ">", "0", "1", "\u00e9", "\u65e5", "\U0001f980",
    "ing", "own", "ership", "::", "&mut ", "\0", "\t",
]
CORPUS = [
    "the cat and the dog and the bird sat on the mat",
    "a cat is a cat and a dog is a dog",
    "there they then them that this those",
    "sing ring king thing bring string",
    "aa aaa aaaa aaaaa aaaaaa",
    "abab ababab abababab",
] * 20
USER_DEFINED = ["cat", "<sep>", "\u2581dog", "catdog", "\U0001f980", "aa"]


def texts(seed, count):
    rng = random.Random(seed)

    def character():
        ranges = (0x20, 0x7F), (0xA0, 0x3000), (0x10000, 0x1FA00)
        return chr(rng.choice([rng.randrange(*bounds) for bounds in ranges]))

    made = ["".join(rng.choices(ALPHABET, k=rng.randint(1, 40))) for _ in range(count)]
    made += ["".join(character() for _ in range(rng.randint(1, 12))) for _ in range(count // 2)]
    return made


def id_lists(model, seed, count):
    """Random tokens, with many bytes, so that decoding meets text that is no UTF-8."""
    rng = random.Random(seed)
    byte_ids = [i for i in range(model.vocab_size()) if model.is_byte(i)]

    def pick():
        return rng.choice(byte_ids) if byte_ids and rng.random() < 0.6 else rng.randrange(model.vocab_size())

    lists = [[pick() for _ in range(rng.randint(1, 12))] for _ in range(count)]
    for text in ["\u20ac", "\U0001f600", "\u00e9"]:  # characters cut short
        data = text.encode()
        if byte_ids:
            for cut in range(1, len(data) + 1):
                lists.append([byte_ids[0] + b for b in data[:cut]])
    if byte_ids:  # a character with a control token inside
        lists.append([byte_ids[0] + 0xCE, 2, byte_ids[0] + 0x8C])
    return lists


def cases(model, extra=(), count=40):
    encode = [[text, model.encode(text)] for text in [*TEXTS, *extra, *texts(1, count)]]
    decode = [[ids, model.decode(ids)] for ids in id_lists(model, 2, count * 2)]
    return {"encode": encode, "decode": decode}


def train(unused=lambda piece: False, model_type="bpe", **options):
    out = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS),
        model_writer=out,
        model_type=model_type,
        character_coverage=1.0,
        remove_extra_whitespaces=False,
        normalization_rule_name="identity",
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    proto = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    for piece in proto.pieces:
        if piece.type == piece.NORMAL and unused(piece.piece):
            piece.type = piece.UNUSED
    return spm.SentencePieceProcessor(model_proto=proto.SerializeToString()), proto.pieces


def described(trained, space_prefix, extra):
    model, pieces = trained
    return {
        "pieces": [piece.piece for piece in pieces],
        "scores": [piece.score for piece in pieces],
        "kinds": [piece.type for piece in pieces],
        "add_space_prefix": space_prefix,
        **cases(model, extra, 24),
    }


def main():
    tiny, out = sys.argv[1:]
    extra = ["the cat sat", "catdog cat dog catcat", "a<sep>b <sep> c", "\U0001f980\U0001f980cat", "aaaa aaa aaaaaaa a"]
    extra += ["the the there", "thething"]
    models = {"tiny-rustbook": cases(spm.SentencePieceProcessor(model_file=tiny))}
    models["no byte fallback"] = described(train(vocab_size=120, byte_fallback=False), True, extra)
    no_prefix = train(vocab_size=400, byte_fallback=True, add_dummy_prefix=False)
    models["no space prefix"] = described(no_prefix, False, extra)
    with_symbols = train(vocab_size=400, byte_fallback=True, user_defined_symbols=USER_DEFINED)
    models["user-defined pieces"] = described(with_symbols, True, extra)
    # Longer pieces, and some of what they are made of, have to be split again.
    unused = train(lambda p: len(p) > 1 and ("th" in p or "aa" in p or len(p) > 3), vocab_size=400, byte_fallback=True)
    models["unused pieces"] = described(unused, True, extra)
    with open(out, "w") as file:
        json.dump(models, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
