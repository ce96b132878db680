#!/usr/bin/env python3
"""Makes tests/data/finetune.json: the losses of 50 steps of fine-tuning the tiny model, by PyTorch.

    python3 -m venv venv && venv/bin/pip install torch numpy gguf xllamacpp
    venv/bin/python scripts/finetune_fixtures.py

The model is computed as Touvron et al. 2023 (arXiv:2302.13971) have it, in float32, over the file's weights as float32,
and changed by LoRA (arXiv:2106.09685). Tokens are llama.cpp's. First weights, the order of documents and how they are
packed are those of `ironbridge::finetune`: random numbers are SplitMix64's of the seed, which this script has again.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from torch.nn import functional as F

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts/models"))
from llama_cpp import LlamaCpp  # noqa: E402

MODEL = ROOT / "assets/tiny-rustbook-q8_0.gguf"
OUT = ROOT / "tests/data/finetune.json"
DOCUMENTS = [
    "The crab met the gopher at the edge of the sea and asked what it carried in its little bag.",
    "A gopher carries acorns, said the gopher, and every acorn has one owner, as you well know.",
    "Then lend me one, said the crab, and I shall give it back before the tide comes in tonight.",
    "So the gopher lent an acorn, and the crab gave it back, and both slept well until the morning.",
]
OPTIONS = {"rank": 4, "alpha": 8.0, "sequence": 24, "batch": 2, "steps": 50, "warmup": 5, "learning_rate": 2e-3,
           "clip_norm": 1.0, "seed": 7}
MATRICES = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]
MASK = 2**64 - 1


class Random:
    """SplitMix64."""

    def __init__(self, seed):
        self.state = seed

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK
        return z ^ z >> 31

    def uniform(self, count, bound):
        unit = np.array([self.bits() >> 40 for _ in range(count)], np.float32) / np.float32(1 << 23)
        return (unit - np.float32(1)) * np.float32(bound)

    def order(self, count):
        order = list(range(count))
        for last in range(count - 1, 0, -1):
            other = self.bits() * (last + 1) >> 64
            order[last], order[other] = order[other], order[last]
        return order


def batches(documents):
    """Pieces of documents, packed without gaps: lists of (tokens, next tokens)."""
    random, rows = Random(OPTIONS["seed"]), OPTIONS["sequence"] * OPTIONS["batch"]
    batch, room = [], rows
    while True:
        for index in random.order(len(documents)):
            tokens, at = documents[index], 0
            while at + 1 < len(tokens):
                count = min(len(tokens) - 1 - at, OPTIONS["sequence"], room)
                batch.append((tokens[at:at + count], tokens[at + 1:at + count + 1]))
                at, room = at + count, room - count
                if room == 0:
                    yield batch
                    batch, room = [], rows


class Model:
    def __init__(self):
        reader = GGUFReader(MODEL)
        self.weights = {it.name: torch.tensor(np.array(dequantize(it.data, it.tensor_type), np.float32))
                        for it in reader.tensors}
        number = lambda key: reader.get_field(f"llama.{key}").contents()
        self.layers, self.heads = number("block_count"), number("attention.head_count")
        self.kv_heads, self.base = number("attention.head_count_kv"), number("rope.freq_base")
        self.eps = number("attention.layer_norm_rms_epsilon")
        self.changes, random, rank = {}, Random(OPTIONS["seed"]), OPTIONS["rank"]
        for layer in range(self.layers):
            for matrix in MATRICES:
                name = f"blk.{layer}.{matrix}.weight"
                outputs, inputs = self.weights[name].shape
                down = torch.tensor(random.uniform(rank * inputs, 1 / math.sqrt(inputs)).reshape(rank, inputs))
                self.changes[name] = [down.requires_grad_(), torch.zeros(outputs, rank, requires_grad=True)]

    def parameters(self):
        return [it for change in self.changes.values() for it in change]

    def linear(self, name, x):
        down, up = self.changes[name]
        return x @ self.weights[name].T + OPTIONS["alpha"] / OPTIONS["rank"] * (x @ down.T @ up.T)

    def norm(self, name, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weights[f"{name}.weight"]

    def turn(self, x):
        """Tokens x heads x head_dim; neighbors are a pair."""
        tokens, _, width = x.shape
        frequencies = self.base ** -(torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.arange(tokens, dtype=torch.float32), frequencies)
        sine, cosine = angles.sin()[:, None], angles.cos()[:, None]
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2)

    def attention(self, layer, x):
        tokens, width = x.shape
        split = lambda matrix, heads: self.linear(f"blk.{layer}.{matrix}.weight", x).view(tokens, heads, -1)
        q, k = self.turn(split("attn_q", self.heads)), self.turn(split("attn_k", self.kv_heads))
        v = split("attn_v", self.kv_heads)
        k, v = (it.repeat_interleave(self.heads // self.kv_heads, 1) for it in (k, v))
        scores = torch.einsum("ihd,jhd->hij", q, k) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), -math.inf)
        found = torch.einsum("hij,jhd->ihd", scores.softmax(-1), v).reshape(tokens, -1)
        return self.linear(f"blk.{layer}.attn_output.weight", found)

    def logits(self, tokens):
        x = self.weights["token_embd.weight"][torch.tensor(tokens)]
        for layer in range(self.layers):
            x = x + self.attention(layer, self.norm(f"blk.{layer}.attn_norm", x))
            normed = self.norm(f"blk.{layer}.ffn_norm", x)
            part = lambda matrix: self.linear(f"blk.{layer}.{matrix}.weight", normed)
            hidden = F.silu(part("ffn_gate")) * part("ffn_up")
            x = x + self.linear(f"blk.{layer}.ffn_down.weight", hidden)
        return self.norm("output_norm", x) @ self.weights["output.weight"].T


def rate(step):
    peak, warmup, end = OPTIONS["learning_rate"], OPTIONS["warmup"], OPTIONS["steps"]
    if step < warmup:
        return peak * step / warmup
    if step >= end:
        return peak / 10
    share = (1 + math.cos(math.pi * (step - warmup) / (end - warmup))) / 2
    return peak / 10 + (peak - peak / 10) * share


def main():
    torch.manual_seed(0)
    peer = LlamaCpp(MODEL, context=512)
    end = GGUFReader(MODEL).get_field("tokenizer.ggml.eos_token_id").contents()
    documents = [peer.token_ids(document) + [end] for document in DOCUMENTS]
    model, losses = Model(), []
    optimizer = torch.optim.Adam(model.parameters(), eps=1e-8)
    for step, batch in enumerate(batches(documents), 1):
        if step > OPTIONS["steps"]:
            break
        logits = torch.cat([model.logits(tokens) for tokens, _ in batch])
        labels = torch.tensor([token for _, following in batch for token in following])
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.sqrt(sum(it.grad.pow(2).sum() for it in model.parameters()))
        for it in model.parameters():
            it.grad.mul_(min(1.0, OPTIONS["clip_norm"] / float(norm)))
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.step()
        losses.append(float(loss))
        print(f"{step:3} {losses[-1]:.5f}", flush=True)
    found = {"documents": DOCUMENTS, "options": OPTIONS, "losses": losses}
    OUT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
