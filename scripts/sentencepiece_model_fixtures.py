#!/usr/bin/env python3
"""Makes tests/data/sentencepiece_models.json: what the `sentencepiece` package does with difficult texts by whole
`tokenizer.model` files that normalize: by a table of characters, and by removing spaces.

needs: pip install tokenizers sentencepiece protobuf

usage: sentencepiece_model_fixtures.py OUT.json [RULE]

RULE names a table of characters of SentencePiece's own, such as nmt_nfkc: too large for the repository.
"""
import base64
import io
import json
import sys

import sentencepiece as spm
from sentencepiece import sentencepiece_model_pb2
from tokenizer_fixtures import CORPUS, TEXTS, USER_DEFINED, id_lists, texts
from tokenizer_json_fixtures import ALSO, SENTENCES, character_map

SPACES = [
    "the cat", " the  cat ", "   ", "\u3000the\u3000\u3000cat\u3000", "\u2581the \u2581", "the\u200b\u200bcat",
    "\x01", "\x01 a", "cat  dog",
    " \u2581dog", "ab abab ababab", "e\u0301", "\u00bd\u00bd x \u00bd", "\u00a0\u00a0", "a\r\nb\r\n", "<sep>  <sep>",
    "\ufb01\uff21 aa",
]


def trained(table, **options):
    out = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter([*CORPUS, *SENTENCES]), model_writer=out, character_coverage=1.0, hard_vocab_limit=False,
        normalization_rule_name="identity", minloglevel=2, **options)
    proto = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    # The same table for all.
    proto.normalizer_spec.precompiled_charsmap = table
    return proto.SerializeToString()


def main():
    out, *rule = sys.argv[1:]
    table = character_map(SENTENCES, **({"normalization_rule_name": rule[0]} if rule else {}))
    kept = {"remove_extra_whitespaces": False}
    models = {
        "unigram": trained(table, model_type="unigram", vocab_size=200),
        "unigram, spaces kept": trained(table, model_type="unigram", vocab_size=200, **kept),
        "unigram, no table": trained(b"", model_type="unigram", vocab_size=200),
        "unigram, bytes, no prefix": trained(
            table, model_type="unigram", vocab_size=420, byte_fallback=True, add_dummy_prefix=False),
        "unigram, user-defined": trained(table, model_type="unigram", vocab_size=200,
                                         user_defined_symbols=USER_DEFINED),
        "pairs": trained(table, model_type="bpe", vocab_size=200),
        "pairs, bytes": trained(table, model_type="bpe", vocab_size=460, byte_fallback=True),
        "pairs, user-defined, spaces kept": trained(
            table, model_type="bpe", vocab_size=200, user_defined_symbols=USER_DEFINED, **kept),
    }
    all_texts = [*TEXTS, *ALSO, *SPACES, *texts(1, 30)]
    described = []
    for name, file in models.items():
        model = spm.SentencePieceProcessor(model_proto=file)
        described.append({
            "name": name, "model": base64.b64encode(file).decode(), "vocabulary": model.vocab_size(),
            "encode": [model.encode(text) for text in all_texts],
            "decode": [[ids, model.decode(ids)] for ids in id_lists(model, 2, 20)]})
    with open(out, "w") as file:
        json.dump({"texts": all_texts, "models": described}, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
