"""Writes the tables of docs/MODELS.md from what `make test-models` found.

usage: tables.py FOLDERS.json REAL.json BOTH_WAYS.json
"""
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/MODELS.md"


def table(head, rows):
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines)


def architectures(folders, real, both_ways):
    of_real = {}
    for model in real:
        texts = model["texts"]
        of_real.setdefault(model["architecture"], []).append(
            f"{model['model']}: {texts['ironbridge']:.2g} (llama.cpp {texts['llama.cpp']:.2g})")
    rows = {}
    for name, off in folders.items():
        config = json.loads((ROOT / "tests/data/models" / name / "config.json").read_text())
        kind = config["model_type"]
        row = rows.setdefault(kind, {"folders": 0, "folder": 0.0, "gguf": None})
        row["folders"] += 1
        row["folder"] = max(row["folder"], off)
        theirs = both_ways["architectures"].get(name)
        if theirs:
            row["gguf"] = max(row["gguf"] or 0.0, theirs["llama.cpp"])
    names = {"gemma3_text": "gemma3"}
    return table(
        ["architecture", "folders", "folder beside transformers, of the largest logit",
         "llama.cpp on our GGUF of it, beside transformers, of a log-probability", "real files, largest log-probability"],
        [[f"`{names.get(kind, kind)}`", str(row["folders"]), f"{row['folder']:.1e}",
          "not tried" if row["gguf"] is None else f"{row['gguf']:.1e}", "; ".join(of_real.get(names.get(kind, kind), ["none"]))]
         for kind, row in rows.items()])


def real_files(real):
    rows = []
    for model in real:
        for what in ["texts", "chat", "perplexity"]:
            if found := model.get(what):
                name = f"{model['model']}, {found['prompts']} prompts" if what == "texts" else f"{model['model']}, {what}"
                rows.append([name, *(f"{found[key]:.4f}" for key in ["bound", "ironbridge", "llama.cpp"])])
        rows.append([f"{model['model']}, {model['token_ids']} texts' token ids", "equal", "equal", "equal"])
    return table(["", "bound", "ironbridge", "llama.cpp"], rows)


def types(both_ways):
    made = both_ways["types"]
    rows = [[f"`{kind}`", f"{found['perplexity']:.4f}", *(f"{found[key]:.5f}" for key in ["bound", "ironbridge", "llama.cpp"])]
            for kind, found in made.items()]
    return table(["type", "perplexity", "bound", "ironbridge", "llama.cpp"], rows)


def pre_tokenizers():
    source = (ROOT / "src/llama/pre_tokenizer/table.rs").read_text()
    families = re.findall(r"PreTokenizer::new\(\s*&\[(.*?)\]", source, re.S)
    names = [re.findall(r'"([^"]+)"', family) for family in families]
    return table(["names in GGUF that cut text alike"], [[", ".join(f"`{name}`" for name in family)] for family in names])


def main():
    folders, real, both_ways = (json.loads(Path(path).read_text()) for path in sys.argv[1:4])
    page = PAGE.read_text()
    for name, text in {"architectures": architectures(folders, real, both_ways), "real files": real_files(real),
                       "types": types(both_ways), "pre-tokenizers": pre_tokenizers()}.items():
        begin, end = f"<!-- {name} -->\n", "<!-- end -->"
        assert begin in page, name
        before, rest = page.split(begin, 1)
        page = before + begin + text + "\n" + rest[rest.index(end):]
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
