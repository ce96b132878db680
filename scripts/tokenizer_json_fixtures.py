#!/usr/bin/env python3
"""Makes tests/data/tokenizer_json.json: what the `tokenizers` package does with difficult texts by WordPiece and
unigram models, by each normalizer and pre-tokenizer, and by the rules of added tokens.

needs: pip install tokenizers sentencepiece protobuf

usage: tokenizer_json_fixtures.py OUT.json [RULE]

RULE names a table of characters of SentencePiece's own, such as nmt_nfkc: too large for the repository.

Each tokenizer is a whole `tokenizer.json`, with a vocabulary trained here. Characters that Unicode has since version 9
are not in the texts: the package's tables of them differ from each other.
"""
import io
import json
import struct
import sys
import tempfile
import unicodedata

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers_package_fixtures import CORPUS, split_by, QWEN2, texts

SENTENCES = [
    *CORPUS, "The CAT's na\u00efve caf\u00e9, unaffable; running runner runs.",
    "\u65e5\u672c\u8a9e \u4e2d\u6587 \uff21\uff22\uff23 \ufb01ne \u2460",
    "e\u0301te\u0301 \u00c5ngstr\u00f6m \u212b", "1234 56 7", "\u0130stanbul \u1e9e\u00df \u03a3\u03a3\u03c2",
] * 4
ALSO = [
    "The CAT unaffable runner's", "UNAFFABLE\u00c9", "caf\u00e9 cafe\u0301 CAF\u00c9",
    "\u65e5\u672c the \u4e2d\u6587x", "a\u200bb\u200dc\ufffdd\x00e\x01f",
    "\uff21\uff22\uff23 \ufb01 \u2460 \u00bd \u3392 \u2126", "\u0130I\u0131i \u1e9e \u03a3\u03b1\u03a3",
    "x" * 101 + " the", "x" * 100,
    "hello,world!?...", "[CLS] the [SEP] cat[MASK]dog", "a [MASK] b", "a\n [MASK] \t b", "word<r>  the <r>the",
    "the TOK the TOKEN tok,TOK.TOK",
    "Norm NORM norm norM", "  two  spaces   three ", "\u2581a \u2581 b", "\u00a0the\u2003cat\u3000",
    "\u1100\u1161\u11a8 \uac01\uac02", "\u0958\u0344",
    "- -- --- a-b a_b #a ##b", "\u201cquoted\u201d \u00abtext\u00bb \u2014 \u20ac5 $5 +1",
    "\u0e01\u0e33 \u0e40\u0e01", "\u0928\u093f \u0915\u094d\u0937",
]
RULES = [
    ("\uff21", "A"), ("\uff22", "B"), ("\uff23", "C"), ("\ufb01", "fi"), ("\u2460", "1"), ("\u212b", "\u00c5"),
    ("e\u0301", "\u00e9"),
    ("\u3000", " "), ("\u00a0", " "), ("\t", " "), ("\n", " "), ("\r\n", " "), ("\u200b", " "), ("\x01", ""),
    ("\u1e9e", "ss"),
    ("ab", "b"), ("abab", "\u65e5"), ("\u1100\u1161", "\uac00"), ("\u00bd", " 1\u20442 "),
]
SPECIAL = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]


def settled(text):
    """Whether all its characters are in every table."""
    return all(unicodedata.ucd_3_2_0.category(c) != "Cn" or c in "\u1e9e\ufffd" for c in text)


def word_piece(normalizer, pre_tokenizer=None, added=()):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer or pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=False)
    tokenizer.train_from_iterator(SENTENCES, trainers.WordPieceTrainer(
        vocab_size=260, min_frequency=1, show_progress=False, special_tokens=SPECIAL))
    tokenizer.add_tokens(list(added))
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return tokenizer


def unigram(normalizer, pre_tokenizer, byte_fallback=False, added=(), template=True):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    special = ["<pad>", "</s>", "<unk>"]
    if byte_fallback:
        special += [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator(SENTENCES, trainers.UnigramTrainer(
        vocab_size=170 + len(special), show_progress=False, special_tokens=special, unk_token="<unk>"))
    described = json.loads(tokenizer.to_str())
    described["model"]["byte_fallback"] = byte_fallback
    described["added_tokens"] = described["added_tokens"][:3]
    # As SentencePiece has them: in single precision.
    for piece in described["model"]["vocab"]:
        piece[1] = single(piece[1])
    tokenizer = Tokenizer.from_str(json.dumps(described))
    tokenizer.add_tokens(list(added))
    if template:
        tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def single(number):
    return struct.unpack("f", struct.pack("f", number))[0]


def byte_level(normalizer, added):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = split_by(QWEN2)
    tokenizer.train_from_iterator(SENTENCES, trainers.BpeTrainer(
        vocab_size=340, min_frequency=1, show_progress=False, special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(list(added))
    return tokenizer


def character_map(sentences, **options):
    """A table of characters as SentencePiece makes it: by RULES, or by the name of its own rules, which are large."""
    out = io.BytesIO()
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as rules:
        for source, target in RULES:
            hexadecimal = [" ".join(f"{ord(c):X}" for c in text) for text in (source, target)]
            rules.write("\t".join(hexadecimal) + "\n")
        rules.flush()
        options = options or {"normalization_rule_tsv": rules.name}
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences), model_writer=out, vocab_size=110, hard_vocab_limit=False,
            minloglevel=2, **options)
    proto = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    return bytes(proto.normalizer_spec.precompiled_charsmap)


def tokenizers(options):
    n, p = normalizers, pre_tokenizers
    rules = [
        AddedToken("[MASK]", lstrip=True, special=True, normalized=False),
        AddedToken("<r>", rstrip=True, normalized=False),
        AddedToken("TOK", single_word=True, normalized=False), AddedToken("NORM", normalized=True)]
    metaspace = p.Metaspace()
    table = character_map(SENTENCES, **options)
    spaces = n.Replace(" ", "\u2581")
    yield "WordPiece, uncased", word_piece(n.BertNormalizer())
    yield "WordPiece, cased", word_piece(n.BertNormalizer(lowercase=False))
    yield "WordPiece, cased, no accents", word_piece(n.BertNormalizer(lowercase=False, strip_accents=True,
                                                                      clean_text=False))
    yield "WordPiece, lowercase, no ideographs", word_piece(n.BertNormalizer(handle_chinese_chars=False,
                                                                             strip_accents=False))
    yield "WordPiece, rules", word_piece(n.BertNormalizer(), added=rules)
    yield "WordPiece, NFD and StripAccents", word_piece(n.Sequence([n.NFD(), n.StripAccents(), n.Lowercase()]))
    yield "WordPiece, Digits", word_piece(n.NFKC(), p.Sequence([p.BertPreTokenizer(), p.Digits(True)]))
    yield "Unigram, Metaspace", unigram(None, metaspace)
    yield "Unigram, first, not split", unigram(None, p.Metaspace(prepend_scheme="first", split=False), template=False)
    yield "Unigram, never", unigram(None, p.Metaspace(prepend_scheme="never"))
    yield "Unigram, byte_fallback", unigram(n.NFKC(), metaspace, byte_fallback=True)
    yield "Unigram, rules", unigram(n.Sequence([n.Nmt(), n.NFKC(), n.Replace(Regex(" {2,}"), " ")]), metaspace,
                                    added=rules)
    yield "Unigram, T5's", unigram(n.Precompiled(table), p.Sequence([p.WhitespaceSplit(), metaspace]))
    yield "Unigram, Albert's", unigram(
        n.Sequence([n.Replace("``", '"'), n.NFKD(), n.StripAccents(), n.Lowercase(), n.Precompiled(table),
                    n.Strip(left=False), n.Replace(Regex(" {2,}"), "\u2581")]), metaspace)
    yield "Unigram, Prepend", unigram(n.Sequence([n.Prepend("\u2581"), spaces]), None)
    yield "Unigram, Punctuation and Whitespace", unigram(n.NFC(),
                                                         p.Sequence([p.Whitespace(), p.Punctuation("contiguous")]))
    yield "Unigram, Split", unigram(
        n.Strip(), p.Sequence([p.Split(Regex("[aeiou]+|$"), "merged_with_previous"), p.Split(" ", "merged_with_next"),
                               p.Digits(False)]))
    yield "byte-level, rules", byte_level(None, rules)
    yield "byte-level, NFKC and Lowercase", byte_level(n.Sequence([n.NFKC(), n.Lowercase()]), rules)


def cases(name, tokenizer, all_texts):
    # A model of the package finds the names of its special tokens and of bytes in any text, where `sentencepiece` and
    # ironbridge find none: such texts are left out, or are there with their special tokens alone.
    specials = [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special]
    encode = []
    for text in all_texts:
        parsed = tokenizer.encode(text).ids
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        names_bytes = "byte_fallback" in name and "<0x" in text
        is_plain = not names_bytes and not any(special in text for special in specials)
        encode.append([plain if is_plain else None, None if names_bytes else parsed])
    return {"name": name, "tokenizer": json.loads(tokenizer.to_str()), "encode": encode}


def main():
    out, *rule = sys.argv[1:]
    options = {"normalization_rule_name": rule[0]} if rule else {}
    all_texts = [text for text in [*texts(), *ALSO] if settled(text)]
    fixtures = {"texts": all_texts, "tokenizers": [cases(*each, all_texts) for each in tokenizers(options)]}
    with open(out, "w") as file:
        json.dump(fixtures, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
