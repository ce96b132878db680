"""A step of a LLaMA block through the C ABI and in PyTorch: forward, backward and Adam, and one read of the loss.

512 tokens of one sequence, a width of 512, 8 heads, 1,408 hidden units: RMSNorm, attention with rotary positions, and
a gated MLP, each added to what it was given. The block learns to answer with another random tensor.
"""

import math
import random
from array import array
from ctypes import c_float, c_uint32, c_uint64

from bench_train_recorder import Recorder

TOKENS, WIDTH, HEADS, HIDDEN = 512, 512, 8, 1408
HEAD_DIM = WIDTH // HEADS
EPS, RATE, BASE = 1e-5, 0.001, 10000.0
ROPE_HALF = 1  # IRON_ROPE_HALF
PARAMETERS = {
    "attention_norm": (1, WIDTH),
    "q": (WIDTH, WIDTH),
    "k": (WIDTH, WIDTH),
    "v": (WIDTH, WIDTH),
    "o": (WIDTH, WIDTH),
    "mlp_norm": (1, WIDTH),
    "gate": (HIDDEN, WIDTH),
    "up": (HIDDEN, WIDTH),
    "down": (WIDTH, HIDDEN),
}
DESCRIPTION = f"a LLaMA block, {TOKENS} tokens, width {WIDTH}, {HEADS} heads, {HIDDEN} hidden units"


def numbers():
    """The block's input, what it learns, and its first weights; each time the same."""
    drawn = random.Random(1)
    normal = lambda count, size: array("f", (drawn.gauss(0, size) for _ in range(count)))
    given, target = (normal(TOKENS * WIDTH, 1) for _ in range(2))
    weights = {
        name: array("f", [1] * inputs) if rows == 1 else normal(rows * inputs, 1 / math.sqrt(inputs))
        for name, (rows, inputs) in PARAMETERS.items()
    }
    return given, target, weights


class Ours:
    name = "ironbridge"

    def __init__(self, sine, library):
        self.sine, self.device = sine, Recorder(sine.Device(library))
        device, struct = self.device, sine.struct
        self.Norm = struct("Norm", ("rows", "width"), ("x", "weight", "out"), [("eps", c_float)])
        self.NormBackward = struct(
            "NormBackward", ("rows", "width"), ("x", "weight", "gradient", "x_gradient", "products"), [("eps", c_float)]
        )
        numbers_of_rope = [("pairing", c_uint32), ("frequency_base", c_float), ("frequency_scale", c_float)]
        self.Rope = struct(
            "Rope", ("tokens", "heads", "head_dim", "rotary_dim"), ("x", "positions", "factors"), numbers_of_rope
        )
        of_heads = ("tokens", "heads", "kv_heads", "head_dim")
        strides = [("k_head_stride", c_uint64), ("v_head_stride", c_uint64)]
        self.Attention = struct(
            "Attention",
            of_heads + ("first_position", "window"),
            ("q", "k", "v", "out"),
            strides + [("scale", c_float), ("padding", c_uint32), ("softcap", c_float)],
        )
        self.AttentionBackward = struct(
            "AttentionBackward",
            of_heads,
            ("q", "k", "v", "out", "gradient", "q_gradient", "k_gradient", "v_gradient"),
            [("scale", c_float)],
        )
        self.Gated = struct("Gated", ("count",), ("a", "b", "gradient", "a_gradient", "b_gradient"))
        self.Rows = struct("Rows", ("rows", "width"), ("x", "out"))

        given, target, weights = numbers()
        self.given, self.target = device.tensor(given), device.tensor(target)
        self.positions = device.tensor(array("I", range(TOKENS)))
        self.positions.dtype = 4  # IRON_U32
        self.weights = {name: device.tensor(values) for name, values in weights.items()}
        shapes = {name: rows * inputs for name, (rows, inputs) in PARAMETERS.items()}
        make = lambda: {name: device.zeros(count) for name, count in shapes.items()}
        self.gradients, self.first, self.second, self.counts = make(), make(), make(), shapes
        wide = ("normed", "q", "k", "v", "heads", "attended", "x", "normed_again", "fed", "out")
        self.t = {name: device.zeros(TOKENS * WIDTH) for name in wide}
        self.t |= {name: device.zeros(TOKENS * HIDDEN) for name in ("gate", "up", "hidden")}
        # Gradients by the tensor that they are of, and sums of several.
        self.g = {name: device.zeros(TOKENS * WIDTH) for name in wide + ("products", "part", "sum")}
        self.g |= {name: device.zeros(TOKENS * HIDDEN) for name in ("gate", "up", "hidden")}
        self.losses, self.loss = device.zeros(TOKENS), device.zeros(1)
        self.forward()
        self.backward()
        self.learn()

    def encode(self, operation, struct, **fields):
        self.device.encode(None, operation, struct(**fields))

    def norm(self, x, weight, out):
        self.encode("rms_norm", self.Norm, rows=TOKENS, width=WIDTH, x=x, weight=weight, out=out, eps=EPS)

    def linear(self, x, name, out):
        outputs, inputs = PARAMETERS[name]
        self.encode(
            "matmul", self.sine.Matmul, m=TOKENS, n=outputs, k=inputs, a=x, b=self.weights[name], c=out, transpose_b=1
        )

    def rope(self, x, scale):
        self.encode(
            "rope",
            self.Rope,
            tokens=TOKENS,
            heads=HEADS,
            head_dim=HEAD_DIM,
            x=x,
            positions=self.positions,
            pairing=ROPE_HALF,
            frequency_base=BASE,
            frequency_scale=scale,
        )

    def add(self, a, b, out):
        self.encode("add", self.sine.Elementwise, count=TOKENS * WIDTH, a=a, b=b, out=out)

    def linear_backward(self, x, name, gradient, x_gradient):
        outputs, inputs = PARAMETERS[name]
        self.encode(
            "linear_backward",
            self.sine.LinearBackward,
            rows=TOKENS,
            inputs=inputs,
            outputs=outputs,
            x=x,
            weight=self.weights[name],
            gradient=gradient,
            x_gradient=x_gradient,
            weight_gradient=self.gradients[name],
        )

    def norm_backward(self, x, name, gradient, x_gradient):
        products = self.g["products"]
        self.encode(
            "rms_norm_backward",
            self.NormBackward,
            rows=TOKENS,
            width=WIDTH,
            x=x,
            weight=self.weights[name],
            gradient=gradient,
            x_gradient=x_gradient,
            products=products,
            eps=EPS,
        )
        self.encode("sum_rows", self.Rows, rows=TOKENS, width=WIDTH, x=products, out=self.gradients[name])

    def forward(self):
        t, heads = self.t, {"tokens": TOKENS, "heads": HEADS, "kv_heads": HEADS, "head_dim": HEAD_DIM}
        self.norm(self.given, self.weights["attention_norm"], t["normed"])
        for name in "qkv":
            self.linear(t["normed"], name, t[name])
        self.rope(t["q"], 1)
        self.rope(t["k"], 1)
        self.encode("attention", self.Attention, **heads, q=t["q"], k=t["k"], v=t["v"], out=t["heads"])
        self.linear(t["heads"], "o", t["attended"])
        self.add(self.given, t["attended"], t["x"])
        self.norm(t["x"], self.weights["mlp_norm"], t["normed_again"])
        self.linear(t["normed_again"], "gate", t["gate"])
        self.linear(t["normed_again"], "up", t["up"])
        gated = {"count": TOKENS * HIDDEN, "a": t["gate"], "b": t["up"], "out": t["hidden"]}
        self.encode("silu_mul", self.sine.Elementwise, **gated)
        self.linear(t["hidden"], "down", t["fed"])
        self.add(t["x"], t["fed"], t["out"])
        mse = {"prediction": t["out"], "target": self.target, "gradient": self.g["out"], "loss": self.losses}
        self.encode("mse", self.sine.Mse, rows=TOKENS, width=WIDTH, scale=1 / (TOKENS * WIDTH), **mse)
        self.encode("sum_rows", self.Rows, rows=TOKENS, width=1, x=self.losses, out=self.loss)

    def backward(self):
        t, g = self.t, self.g
        self.linear_backward(t["hidden"], "down", g["out"], g["hidden"])
        gated = {"gradient": g["hidden"], "a_gradient": g["gate"], "b_gradient": g["up"]}
        self.encode("silu_mul_backward", self.Gated, count=TOKENS * HIDDEN, a=t["gate"], b=t["up"], **gated)
        self.linear_backward(t["normed_again"], "gate", g["gate"], g["normed_again"])
        self.linear_backward(t["normed_again"], "up", g["up"], g["part"])
        self.add(g["normed_again"], g["part"], g["normed_again"])
        self.norm_backward(t["x"], "mlp_norm", g["normed_again"], g["x"])
        self.add(g["x"], g["out"], g["x"])
        self.linear_backward(t["heads"], "o", g["x"], g["heads"])
        self.encode(
            "attention_backward",
            self.AttentionBackward,
            tokens=TOKENS,
            heads=HEADS,
            kv_heads=HEADS,
            head_dim=HEAD_DIM,
            q=t["q"],
            k=t["k"],
            v=t["v"],
            out=t["heads"],
            gradient=g["heads"],
            q_gradient=g["q"],
            k_gradient=g["k"],
            v_gradient=g["v"],
        )
        self.rope(g["q"], -1)
        self.rope(g["k"], -1)
        # Of the block's input nobody asks for a gradient, but the norm's weight needs that of what it made.
        self.linear_backward(t["normed"], "q", g["q"], g["normed"])
        for name in "kv":
            self.linear_backward(t["normed"], name, g[name], g["part"])
            self.add(g["normed"], g["part"], g["normed"])
        self.norm_backward(self.given, "attention_norm", g["normed"], g["sum"])

    def learn(self):
        for name, count in self.counts.items():
            state = {"first_moment": self.first[name], "second_moment": self.second[name]}
            weights = {"weights": self.weights[name], "gradient": self.gradients[name]}
            self.encode("adam_step", self.sine.Adam, count=count, step=1, learning_rate=RATE, **weights, **state)

    def step(self):
        self.device.step()
        return self.device.read(self.loss, 1)[0]

    def close(self):
        self.device.close()


class Theirs:
    def __init__(self, threads):
        import torch

        torch.set_num_threads(threads)
        self.torch, self.name = torch, f"PyTorch {torch.__version__}"
        given, target, weights = numbers()
        shaped = lambda values, shape: torch.tensor(values, dtype=torch.float32).reshape(shape)
        self.given, self.target = shaped(given, (TOKENS, WIDTH)), shaped(target, (TOKENS, WIDTH))
        self.weights = {
            name: shaped(values, PARAMETERS[name] if PARAMETERS[name][0] > 1 else WIDTH).requires_grad_()
            for name, values in weights.items()
        }
        frequencies = BASE ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
        angles = torch.arange(TOKENS)[:, None] * frequencies
        self.cos, self.sin = (of(torch.cat([angles, angles], -1)) for of in (torch.cos, torch.sin))
        self.optimizer = torch.optim.Adam(self.weights.values(), lr=RATE)

    def rope(self, x):
        first, second = x.chunk(2, -1)
        return x * self.cos + self.torch.cat([-second, first], -1) * self.sin

    def forward(self):
        F, w = self.torch.nn.functional, self.weights
        normed = F.rms_norm(self.given, (WIDTH,), w["attention_norm"], EPS)
        heads = lambda name: F.linear(normed, w[name]).view(TOKENS, HEADS, HEAD_DIM).transpose(0, 1)
        q, k, v = self.rope(heads("q")), self.rope(heads("k")), heads("v")
        attended = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]
        x = self.given + F.linear(attended.transpose(0, 1).reshape(TOKENS, WIDTH), w["o"])
        normed = F.rms_norm(x, (WIDTH,), w["mlp_norm"], EPS)
        hidden = F.silu(F.linear(normed, w["gate"])) * F.linear(normed, w["up"])
        return F.mse_loss(x + F.linear(hidden, w["down"]), self.target)

    def step(self):
        self.optimizer.zero_grad()
        loss = self.forward()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def close(self):
        pass
