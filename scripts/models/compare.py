"""Holds ironbridge and llama.cpp to the exact text of real models, side by side.

needs: the environment that fetch.py makes, and a built command line
usage: compare.py FOLDER IRONBRIDGE [--short] [--only MODEL] [--out FILE]

For each model in FOLDER: token ids of difficult texts; greedy texts of 64 tokens with the five best log-probabilities at
each step; an answer by the file's chat template; the perplexity of a text in llama.cpp's windows. What an engine says is
held to exact.py over the engine's own tokens.

The bound. Activations are rounded where weights are integers, to 15 bits, and in batches of more than 8 tokens to 8.
The exact model is computed DRAWS times more over the same tokens with errors of that size, even over a rounding step, in
front of every product. Twice the most that a draw changes a log-probability of the text is the text's bound. ironbridge
is wrong when it is farther away, or picks a token that is worse than the best one by more than twice the bound: both may
be off by it.
"""
import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from corpus import CONVERSATION, DIFFICULT, PROMPTS, SHORT_PROMPTS, TEXT
from exact import Model, Rounding
from jinja2.sandbox import ImmutableSandboxedEnvironment
from llama_cpp import LlamaCpp

TOKENS = 64
DRAWS = 2
WINDOW = 256
# Of a log-probability: sums of float32 and its exponentials, which the draws do not vary. A sum over 6144 products, the
# longest, is off by sqrt(6144) * 2^-24 = 5e-6 of its terms' norm. Logits are below 50, a pass has some 200 products.
FLOAT = 50 * 5e-6 * np.sqrt(200)


class Ironbridge:
    def __init__(self, command, model):
        self.command, self.model = command, str(model)

    def run(self, name, *arguments, text=None):
        command = [self.command, name, "-m", self.model, *arguments]
        found = subprocess.run(command, input=text, capture_output=True, text=True)
        if found.returncode:
            sys.exit(f"compare: {' '.join(command[:4])}: {found.stderr.strip()}")
        return found.stdout

    def token_ids(self, text, *arguments):
        found = self.run("tokenize", "--ids", "-f", "-", *arguments, text=text)
        return [int(number) for number in found.split()]

    def write(self, prompt, *arguments, context=1024):
        found = json.loads(self.run("generate", "-n", str(TOKENS), "--json", "--log-probabilities", "5", "--context",
                                    str(context), "-p", prompt, *arguments))
        best = [{best["id"]: best["log_probability"] for best in token["likeliest"]} for token in found["tokens"]]
        return found["text"], [token["id"] for token in found["tokens"]], best

    def chat(self, message):
        found = self.run("chat", "--json", "--temp", "0", "-n", str(TOKENS), text=message + "\n")
        return json.loads(found)["content"]

    def perplexity(self, text):
        found = self.run("perplexity", "-f", "-", "--context", str(WINDOW), "--chunks", "--json", "-q", text=text)
        return -json.loads(found)["mean_log_probability"]


def distances(truth, best):
    return [abs(truth[row, token] - score) for row, found in enumerate(best) for token, score in found.items()]


def held(truth, written, best):
    """The largest distance of a log-probability, and how much worse than the best the worst pick is, with its place."""
    distance = max(distances(truth, best))
    losses = [float(truth[row].max() - truth[row, token]) for row, token in enumerate(written)]
    worst = int(np.argmax(losses))
    return float(distance), losses[worst], next((row for row, loss in enumerate(losses) if loss > 0), None)


def bound_of(model, tokens, first, prompt, truth, rows, picks):
    """Twice the most that a draw changes: of the picks in those rows of the truth."""
    changes = [model.log_probabilities(tokens, first, Rounding(prompt, seed))[rows, picks] - truth[rows, picks]
               for seed in range(DRAWS)]
    return 2 * float(np.abs(changes).max()) + FLOAT, changes


class Comparison:
    def __init__(self, path, options):
        self.name, self.exact = path.stem, Model(path)
        self.ironbridge = Ironbridge(options.ironbridge, path)
        self.peer = LlamaCpp(path, threads=1)
        self.options, self.wrong = options, []
        self.result = {"model": self.name, "architecture": self.exact.name}

    def fail(self, sentence):
        self.wrong.append(f"{self.name}: {sentence}")

    def texts(self):
        result = {"ironbridge": 0.0, "llama.cpp": 0.0, "bound": 0.0, "parted": {"ironbridge": 0, "llama.cpp": 0}}
        print(f"{self.name}: largest distance of a log-probability from the exact one, and where the text first leaves it")
        prompts = PROMPTS[:SHORT_PROMPTS] if self.options.short else PROMPTS
        for number, prompt in enumerate(prompts, 1):
            ids = self.peer.token_ids(prompt)
            if self.ironbridge.token_ids(prompt, "--special") != ids:
                self.fail(f"prompt {number} has other tokens in llama.cpp")
            self.text(f"{number:2} {prompt[:24]!r}", ids, self.ironbridge.write(prompt)[1:], result)
        result["prompts"] = len(prompts)
        self.result["texts"] = result
        print(f"  largest: ironbridge {result['ironbridge']:.4f}, llama.cpp {result['llama.cpp']:.4f}")

    def text(self, name, ids, ironbridge, result):
        line, places, known = f"  {name:30}", {}, {}
        for engine, (written, best) in {"ironbridge": ironbridge, "llama.cpp": self.peer.write(ids, TOKENS)}.items():
            tokens, first = ids + written[:-1], len(ids) - 1
            # Most often both engines write the same.
            truth = known.get(tuple(tokens))
            if truth is None:
                truth = known[tuple(tokens)] = self.exact.log_probabilities(tokens, first)
            distance, loss, place = held(truth, written, best)
            places[engine] = place
            result[engine] = max(result[engine], distance)
            result["parted"][engine] += place is not None
            if engine == "ironbridge":
                rows = np.repeat(np.arange(len(best)), [len(found) for found in best])
                picks = np.array([token for found in best for token in found])
                bound, _ = bound_of(self.exact, tokens, first, len(ids), truth, rows, picks)
                result["bound"] = max(result["bound"], bound)
                line += f" bound {bound:.4f};"
                if distance > bound or loss > 2 * bound:
                    self.fail(f"{name} is {distance:.4f} away and picks a token worse by {loss:.4f}; bound {bound:.4f}")
            line += f" {engine} {distance:.4f}" + ("" if place is None else f", leaves at {place}, worse by {loss:.4f}") + ";"
        print(line, flush=True)

    def chat(self):
        source = self.exact.metadata.get("tokenizer.chat_template")
        if source is None:
            print("  chat: the file has no template", flush=True)
            return
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = lambda message: sys.exit(f"compare: the chat template says {message}")
        template = environment.from_string(source)
        names = {f"{name}_token": self.exact.token(self.exact.metadata.get(f"tokenizer.ggml.{name}_token_id"))
                 for name in ["bos", "eos"]}
        written = template.render(messages=CONVERSATION, add_generation_prompt=True, **names)
        ids = self.peer.token_ids(written, add_special=False, parse_special=True)
        # The template writes the token that begins a text, where there is one.
        begin = names["bos_token"] if self.peer.begin() else ""
        if begin and not written.startswith(begin):
            begin, ids = "", self.peer.begin() + ids
        text, *ironbridge = self.ironbridge.write(written.removeprefix(begin), "--parse-special")
        result = {"ironbridge": 0.0, "llama.cpp": 0.0, "bound": 0.0, "parted": {"ironbridge": 0, "llama.cpp": 0}}
        self.text("chat, by the template", ids, ironbridge, result)
        answer = self.ironbridge.chat(CONVERSATION[0]["content"])
        if answer.strip() != text.strip():
            self.fail(f"chat answers {answer!r}, where the written template goes on {text!r}")
        self.result["chat"] = result

    def perplexity(self):
        wanted, length = WINDOW * (1 if self.options.short else 3), 0
        while len(ids := self.peer.token_ids(TEXT[:length])) < wanted:
            length += 1 + (wanted - len(ids)) // 2
        text = TEXT[:length]
        first, found = WINDOW // 2, {"exact": [], "llama.cpp": [], "draws": []}
        for start in range(0, len(ids) - WINDOW + 1, WINDOW):
            window = self.peer.begin() + ids[start + len(self.peer.begin()):start + WINDOW]
            rows, picks = np.arange(WINDOW - 1 - first), np.array(window[first + 1:])
            truth = self.exact.log_probabilities(window[:-1], first)
            found["exact"] += list(truth[rows, picks])
            found["llama.cpp"] += list(self.peer.log_probabilities(window[:-1], first)[rows, picks])
            _, changes = bound_of(self.exact, window[:-1], first, WINDOW, truth, rows, picks)
            found["draws"] += list(np.abs(changes).mean(0))
        exact = -np.mean(found["exact"])
        # Errors of tokens may go together: then the mean's is the mean of theirs.
        bound = 2 * float(np.mean(found["draws"])) + FLOAT
        off = {"ironbridge": abs(self.ironbridge.perplexity(text) - exact),
               "llama.cpp": abs(-np.mean(found["llama.cpp"]) - exact)}
        print(f"  perplexity {np.exp(exact):.4f}; its logarithm is off by: ironbridge {off['ironbridge']:.5f}, llama.cpp "
              f"{off['llama.cpp']:.5f}; bound {bound:.5f}", flush=True)
        if off["ironbridge"] > bound:
            self.fail(f"the perplexity's logarithm is {off['ironbridge']:.5f} off, where the bound is {bound:.5f}")
        self.result["perplexity"] = {"exact": float(np.exp(exact)), "bound": bound, **{k: float(v) for k, v in off.items()}}

    def tokens(self):
        texts = [(text, special) for text in DIFFICULT for special in (False, True)]
        with ThreadPoolExecutor(2) as pool:
            options = [["--parse-special"] if special else [] for _, special in texts]
            found = pool.map(lambda text, extra: self.ironbridge.token_ids(text[0], "--special", *extra), texts, options)
            for (text, special), ids in zip(texts, found):
                theirs = self.peer.token_ids(text, True, special)
                if ids != theirs:
                    self.fail(f"{text!r} (special tokens read: {special}) has the tokens {ids}, in llama.cpp {theirs}")
        print(f"  token ids: {len(texts)} difficult texts", flush=True)
        self.result["token_ids"] = len(texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("ironbridge")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    wrong, results = [], []
    for path in sorted(options.folder.glob("*.gguf")):
        if options.only in (None, path.stem):
            comparison = Comparison(path, options)
            comparison.texts()
            comparison.chat()
            comparison.perplexity()
            comparison.tokens()
            comparison.peer.close()
            wrong += comparison.wrong
            results.append(comparison.result)
    if not results:
        sys.exit("compare: there is no model to compare")
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n")
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
