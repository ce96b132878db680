#!/usr/bin/env python3
"""Makes tests/data/unigram.json: what the `sentencepiece` package does with difficult texts by unigram models.

needs: pip install sentencepiece protobuf

usage: unigram_fixtures.py OUT.json
"""
import json
import sys

from tokenizer_fixtures import USER_DEFINED, described, train


def main():
    extra = ["the cat sat", "catdog cat dog catcat", "a<sep>b <sep> c", "\U0001f980\U0001f980cat", "aaaa aaa aaaaaaa a"]

    def trained(size, **options):
        return train(model_type="unigram", vocab_size=size, **options)

    models = {
        "unigram": described(trained(110), True, extra),
        "unigram, no space prefix": described(trained(110, add_dummy_prefix=False), False, extra),
        "unigram, bytes and user-defined pieces": described(
            trained(360, byte_fallback=True, user_defined_symbols=USER_DEFINED), True, extra),
        "unigram, unused pieces": described(
            trained(360, byte_fallback=True, unused=lambda piece: len(piece) > 2), True, extra),
    }
    for model in models.values():
        model["unigram"] = True
    with open(sys.argv[1], "w") as file:
        json.dump(models, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
