"""The truth: what a model's stored weights compute in float32, by numpy and in the order of the papers.

Weights are dequantized by gguf-py, the format's own reader. Nothing is rounded on the way but to float32, unless a
`Rounding` is given: then what the software device's rounding of activations may do is done, at random.
"""
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize

F32 = np.float32
FLOATS = (GGMLQuantizationType.F32, GGMLQuantizationType.F16, GGMLQuantizationType.BF16)
# Elements of a row of activations that share a scale (src/backend/cpu/quants).
GROUP = 32
# Largest integer of 8 bits and of 15 (src/backend/cpu/gemm/quant/quantize_a.rs).
LARGEST_8, LARGEST_15 = 127, 127 * 128
# A batch of up to EXACT_ROWS tokens has all of its 15 bits, and so have groups of a larger one whose squared step is
# above OUTLIERS times the average over their tile of TILE_ROWS rows (the same file).
EXACT_ROWS, OUTLIERS, TILE_ROWS = 8, 2, 4


class Rounding:
    """Errors as those of the software device's rounding to integers: even over a step, which is the largest element of
    a group over the largest integer. Rows of a prompt have 8 bits where the device gives them no more; rows that were
    written one by one have 15.
    """

    def __init__(self, prompt, seed, every=False):
        """`every`: all groups of a prompt have 8 bits, and products with weights of floats are rounded, too: no less than
        what other engines round."""
        self.prompt, self.random, self.every = prompt if prompt > EXACT_ROWS else 0, np.random.default_rng(seed), every

    def __call__(self, x):
        groups = x.reshape(len(x), -1, GROUP)
        largest = np.abs(groups).max(-1)  # rows x groups
        integers = np.full(largest.shape, LARGEST_15, F32)
        for first in range(0, self.prompt, TILE_ROWS):
            tile = slice(first, min(first + TILE_ROWS, self.prompt))
            energy = (largest[tile] ** 2).sum(0)
            integers[tile, (energy <= OUTLIERS * energy.mean()) | self.every] = LARGEST_8
        step = (largest / integers)[..., None]
        return (groups + step * self.random.uniform(-0.5, 0.5, groups.shape).astype(F32)).reshape(x.shape)


class Model:
    def __init__(self, path):
        reader = GGUFReader(path)
        self.fields = reader.fields
        self.metadata = {name: field.contents() for name, field in reader.fields.items() if len(field.data) < 1000}
        self.stored = {tensor.name: tensor for tensor in reader.tensors}
        self.tensors = {}
        self.name = self.metadata["general.architecture"]
        self.gemma = self.name == "gemma3"
        self.layers = self.key("block_count")
        self.heads, self.kv_heads = self.key("attention.head_count"), self.key("attention.head_count_kv")
        self.head_dim = self.key("attention.key_length", self.key("embedding_length") // self.heads)
        self.epsilon = F32(self.key("attention.layer_norm_rms_epsilon"))
        self.rounding = None

    def token(self, number):
        """The token of that number as the file has it, or nothing."""
        return "" if number is None else self.fields["tokenizer.ggml.tokens"].contents(int(number))

    def key(self, name, default=None):
        return self.metadata.get(f"{self.name}.{name}", default)

    def weight(self, name):
        if name not in self.tensors:
            tensor = self.stored[name]
            shape = tuple(int(size) for size in reversed(tensor.shape))
            self.tensors[name] = dequantize(tensor.data, tensor.tensor_type).astype(F32).reshape(shape)
        return self.tensors[name]

    def product(self, x, name, first=0):
        """Of the rows from `first` on with the transposed matrix. They are rounded where weights are integers."""
        weight = self.weight(name)
        if self.rounding and (self.rounding.every or self.stored[name].tensor_type not in FLOATS):
            x = self.rounding(x)
        return x[first:] @ weight.T

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
        q, k, v = (self.product(x, f"{part}attn_{name}.weight") for name in "qkv")
        q, k, v = (y.reshape(tokens, -1, self.head_dim) for y in (q, k, v))
        base, window = self.key("rope.freq_base", 10000.0), tokens
        if self.gemma:
            q, k = self.norm(q, f"{part}attn_q_norm.weight"), self.norm(k, f"{part}attn_k_norm.weight")
            if (layer + 1) % 6:
                base, window = 10000.0, self.key("attention.sliding_window")
        q, k = self.rotate(q, base), self.rotate(k, base)
        k, v = (np.repeat(y, self.heads // self.kv_heads, 1) for y in (k, v))
        scores = np.matmul(q.transpose(1, 0, 2), k.transpose(1, 2, 0)) / np.sqrt(F32(self.head_dim))
        back = np.arange(tokens)[:, None] - np.arange(tokens)
        scores = np.where((back >= 0) & (back < window), scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        attended = np.matmul(scores, v.transpose(1, 0, 2)).transpose(1, 0, 2).reshape(tokens, -1)
        return self.product(attended, f"{part}attn_output.weight")

    def feed_forward(self, x, layer):
        part = f"blk.{layer}.ffn_"
        gate, up = self.product(x, f"{part}gate.weight"), self.product(x, f"{part}up.weight")
        if self.gemma:
            gate = gate * F32(0.5) * (1 + np.tanh(F32(np.sqrt(2 / np.pi)) * (gate + F32(0.044715) * gate**3)))
        else:
            gate = gate / (1 + np.exp(-gate))
        return self.product(gate * up, f"{part}down.weight")

    def log_probabilities(self, tokens, first, rounding=None):
        """Of what follows each of the tokens from the one at `first` on: rows x vocabulary, in float64."""
        self.rounding = rounding
        x = self.weight("token_embd.weight")[tokens]
        if self.gemma:
            x = x * np.sqrt(F32(x.shape[1]))
        for layer in range(self.layers):
            part = f"blk.{layer}."
            added = self.attention(self.norm(x, f"{part}attn_norm.weight"), layer)
            x = x + (self.norm(added, f"{part}post_attention_norm.weight") if self.gemma else added)
            added = self.feed_forward(self.norm(x, f"{part}ffn_norm.weight"), layer)
            x = x + (self.norm(added, f"{part}post_ffw_norm.weight") if self.gemma else added)
        output = "output.weight" if "output.weight" in self.stored else "token_embd.weight"
        logits = self.product(self.norm(x, "output_norm.weight"), output, first)
        logits -= logits.max(-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True, dtype=np.float64))
