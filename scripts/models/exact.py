"""The truth: what a model's stored weights compute in float32, by numpy and in the order of the papers.

Weights are dequantized by gguf-py, the format's own reader. Nothing is rounded on the way but to float32.
"""
import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

F32 = np.float32


class Model:
    def __init__(self, path):
        reader = GGUFReader(path)
        self.metadata = {name: field.contents() for name, field in reader.fields.items() if len(field.data) < 1000}
        self.stored = {tensor.name: tensor for tensor in reader.tensors}
        self.tensors = {}
        self.name = self.metadata["general.architecture"]
        self.gemma = self.name == "gemma3"
        self.layers = self.key("block_count")
        self.heads, self.kv_heads = self.key("attention.head_count"), self.key("attention.head_count_kv")
        self.head_dim = self.key("attention.key_length", self.key("embedding_length") // self.heads)
        self.epsilon = F32(self.key("attention.layer_norm_rms_epsilon"))

    def key(self, name, default=None):
        return self.metadata.get(f"{self.name}.{name}", default)

    def weight(self, name):
        if name not in self.tensors:
            tensor = self.stored[name]
            shape = tuple(int(size) for size in reversed(tensor.shape))
            self.tensors[name] = dequantize(tensor.data, tensor.tensor_type).astype(F32).reshape(shape)
        return self.tensors[name]

    def norm(self, x, name):
        return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + self.epsilon) * self.weight(name)

    def rotate(self, x, base):
        """x: tokens x heads x head_dim. Pairs of neighbors in files of LLaMA, halves in those of Gemma."""
        half = self.head_dim // 2
        angles = np.arange(len(x))[:, None] * float(base) ** (-np.arange(half) / half)
        cosine, sine = np.cos(angles).astype(F32)[:, None], np.sin(angles).astype(F32)[:, None]
        a, b = (x[..., :half], x[..., half:]) if self.gemma else (x[..., 0::2], x[..., 1::2])
        turned = a * cosine - b * sine, a * sine + b * cosine
        return np.concatenate(turned, -1) if self.gemma else np.stack(turned, -1).reshape(x.shape)

    def attention(self, x, layer):
        tokens, part = len(x), f"blk.{layer}."
        q, k, v = (x @ self.weight(f"{part}attn_{name}.weight").T for name in "qkv")
        q, k, v = (y.reshape(tokens, -1, self.head_dim) for y in (q, k, v))
        base, window = self.key("rope.freq_base", 10000.0), tokens
        if self.gemma:
            q, k = self.norm(q, f"{part}attn_q_norm.weight"), self.norm(k, f"{part}attn_k_norm.weight")
            if (layer + 1) % 6:
                base, window = 10000.0, self.key("attention.sliding_window")
        q, k = self.rotate(q, base), self.rotate(k, base)
        k, v = (np.repeat(y, self.heads // self.kv_heads, 1) for y in (k, v))
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(F32(self.head_dim))
        back = np.arange(tokens)[:, None] - np.arange(tokens)
        scores = np.where((back >= 0) & (back < window), scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        return np.einsum("hts,shd->thd", scores, v).reshape(tokens, -1) @ self.weight(f"{part}attn_output.weight").T

    def feed_forward(self, x, layer):
        part = f"blk.{layer}.ffn_"
        gate, up = x @ self.weight(f"{part}gate.weight").T, x @ self.weight(f"{part}up.weight").T
        if self.gemma:
            gate = gate * F32(0.5) * (1 + np.tanh(F32(np.sqrt(2 / np.pi)) * (gate + F32(0.044715) * gate**3)))
        else:
            gate = gate / (1 + np.exp(-gate))
        return (gate * up) @ self.weight(f"{part}down.weight").T

    def log_probabilities(self, tokens, first):
        """Of what follows each of the tokens from the one at `first` on: rows x vocabulary, in float64."""
        x = self.weight("token_embd.weight")[tokens]
        if self.gemma:
            x = x * np.sqrt(F32(x.shape[1]))
        for layer in range(self.layers):
            part = f"blk.{layer}."
            added = self.attention(self.norm(x, f"{part}attn_norm.weight"), layer)
            x = x + (self.norm(added, f"{part}post_attention_norm.weight") if self.gemma else added)
            added = self.feed_forward(self.norm(x, f"{part}ffn_norm.weight"), layer)
            x = x + (self.norm(added, f"{part}post_ffw_norm.weight") if self.gemma else added)
        x = self.norm(x[first:], "output_norm.weight")
        output = "output.weight" if "output.weight" in self.stored else "token_embd.weight"
        logits = (x @ self.weight(output).T).astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))
