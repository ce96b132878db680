#!/usr/bin/env python3
"""Makes tests/data/training.json: what PyTorch says of gradients, and losses of two networks in 50 steps.

    python3 -m venv venv && venv/bin/pip install torch numpy && venv/bin/python scripts/training_fixtures.py

Gradients are PyTorch's in float64, of inputs that float32 has. Losses are PyTorch's in float32. Inputs and first
weights come from `number`, which tests/facade/training_pytorch.rs has, too.
"""

import json
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

STEPS = 50
OUT = Path(__file__).resolve().parent.parent / "tests/data/training.json"


def number(place, seed):
    """A number from -1 to below 1 that float32 has."""
    return ((place * 7919 + seed * 104729) % 2048) / 1024 - 1


def tensor(shape, seed, scale=1.0, dtype=torch.float64):
    count = 1
    for length in shape:
        count *= length
    values = torch.tensor([number(i, seed) for i in range(count)], dtype=torch.float64) * scale
    return values.to(torch.float32).to(dtype).reshape(shape)


def gradients(function, *inputs):
    """Those of each input, when the gradient of the result is `tensor(…, 99)`."""
    inputs = [it.clone().requires_grad_() for it in inputs]
    out = function(*inputs)
    return [it.flatten().tolist() for it in torch.autograd.grad(out, inputs, tensor(out.shape, 99))]


def turned(x, heads, base, positions):
    """Rotary positions, elements 2i and 2i + 1 together."""
    rows, width = x.shape
    dim = width // heads
    frequencies = base ** (-2 * torch.arange(dim // 2, dtype=x.dtype) / dim)
    angles = positions.to(x.dtype)[:, None, None] * frequencies
    pairs = x.reshape(rows, heads, dim // 2, 2)
    a, b = pairs[..., 0], pairs[..., 1]
    out = torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1)
    return out.reshape(rows, width)


def attention(q, k, v, heads, kv_heads):
    """Causal, of one sequence; rows are tokens."""
    split = lambda x, count: x.reshape(x.shape[0], count, -1).transpose(0, 1)
    k, v = (split(x, kv_heads).repeat_interleave(heads // kv_heads, dim=0) for x in (k, v))
    out = F.scaled_dot_product_attention(split(q, heads), k, v, is_causal=True)
    return out.transpose(0, 1).reshape(q.shape)


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


def of_operations():
    x, weight = tensor((5, 7), 1), tensor((7,), 2)
    ids = torch.tensor([3, 0, 3, 1, 3])
    labels = torch.tensor([6, -100, 0, 3, 3])
    return {
        "relu": gradients(torch.relu, x),
        "sigmoid": gradients(torch.sigmoid, x),
        "tanh": gradients(torch.tanh, x),
        "silu_mul": gradients(lambda a, b: F.silu(a) * b, 4 * x, tensor((5, 7), 3)),
        "gelu_mul": gradients(lambda a, b: F.gelu(a, approximate="tanh") * b, 4 * x, tensor((5, 7), 3)),
        "softmax": gradients(lambda x: F.softmax(x, dim=-1), x),
        "rms_norm": gradients(lambda x, w: rms_norm(x, w, 1e-5), x, weight),
        "embedding": gradients(lambda table: F.embedding(ids, table), tensor((4, 7), 3)),
        "rope": gradients(lambda x: turned(x, 2, 100.0, torch.arange(5)), tensor((5, 8), 1)),
        "attention": gradients(
            lambda q, k, v: attention(q, k, v, 4, 2), tensor((5, 12), 1), tensor((5, 6), 2), tensor((5, 6), 3)
        ),
        "linear": gradients(F.linear, x, tensor((3, 7), 2), tensor((3,), 3)),
        "mse": gradients_of_loss(lambda x: F.mse_loss(x, tensor((5, 7), 3)), x),
        # The mean over all rows, those without a label included.
        "cross_entropy": gradients_of_loss(
            lambda x: F.cross_entropy(x, labels, ignore_index=-100, reduction="sum") / 5, 4 * x
        ),
    }


def gradients_of_loss(function, x):
    x = x.clone().requires_grad_()
    loss = function(x)
    loss.backward()
    return [[loss.item()], x.grad.flatten().tolist()]


def losses(parameters, forward, optimizer, clip=None):
    seen = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = forward()
        seen.append(loss.item())
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(parameters, clip)
        optimizer.step()
    return seen


def parameter(shape, seed):
    """Numbers up to 1 over the root of the inputs."""
    return nn.Parameter(tensor(shape, seed, shape[-1] ** -0.5, torch.float32))


def sine(make, clip):
    points = torch.tensor([2 * i / 63 - 1 for i in range(64)], dtype=torch.float32)[:, None]
    wanted = torch.sin(points * torch.pi)
    shapes = [(64, 1), (1, 64), (64, 64), (1, 64), (1, 64), (1, 1)]
    parameters = [parameter(shape, seed) for seed, shape in enumerate(shapes)]
    w1, b1, w2, b2, w3, b3 = parameters

    def forward():
        hidden = torch.tanh(points @ w1.T + b1)
        hidden = torch.tanh(hidden @ w2.T + b2)
        return F.mse_loss(hidden @ w3.T + b3, wanted)

    return losses(parameters, forward, make(parameters), clip)


def block():
    """One LLaMA block of 32 with an embedding and a head, 2 sequences of 16 tokens out of 20."""
    vocab, width, deep, heads, kv_heads, dim = 20, 32, 48, 4, 2, 8
    ids = torch.tensor([(i * i + 3 * i) % vocab for i in range(33)])
    shapes = [
        (vocab, width), (1, width), (heads * dim, width), (kv_heads * dim, width), (kv_heads * dim, width),
        (width, heads * dim), (1, width), (deep, width), (deep, width), (width, deep), (1, width), (vocab, width),
    ]
    parameters = [parameter(shape, seed) for seed, shape in enumerate(shapes)]
    table, n1, wq, wk, wv, wo, n2, gate, up, down, n3, head = parameters
    with torch.no_grad():
        for norm in (n1, n2, n3):
            norm.fill_(1)
    positions = torch.arange(32) % 16

    def forward():
        x = F.embedding(ids[:32], table)
        normed = rms_norm(x, n1, 1e-5)
        q = turned(normed @ wq.T, heads, 10000.0, positions)
        k = turned(normed @ wk.T, kv_heads, 10000.0, positions)
        v = normed @ wv.T
        parts = [attention(q[at], k[at], v[at], heads, kv_heads) for at in (slice(0, 16), slice(16, 32))]
        x = x + torch.cat(parts) @ wo.T
        normed = rms_norm(x, n2, 1e-5)
        x = x + (F.silu(normed @ gate.T) * (normed @ up.T)) @ down.T
        return F.cross_entropy(rms_norm(x, n3, 1e-5) @ head.T, ids[1:])

    return losses(parameters, forward, torch.optim.Adam(parameters, lr=0.003), 1.0)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    of_networks = {
        "sine with Adam": sine(lambda it: torch.optim.Adam(it, lr=0.01), None),
        "sine with AdamW and clipping": sine(lambda it: torch.optim.AdamW(it, lr=0.01, weight_decay=0.1), 0.05),
        "sine with momentum": sine(lambda it: torch.optim.SGD(it, lr=0.02, momentum=0.9), None),
        "block with Adam and clipping": block(),
    }
    rounded = lambda values: [float(f"{value:.9g}") for value in values]
    made = {
        "torch": torch.__version__.split("+")[0],
        "gradients": {name: [rounded(it) for it in all_] for name, all_ in of_operations().items()},
        "losses": {name: rounded(it) for name, it in of_networks.items()},
    }
    # A line for each, that a change shows what it is of.
    part = lambda of: ",\n".join(f"{json.dumps(name)}: {json.dumps(values)}" for name, values in made[of].items())
    parts = f'"gradients": {{\n{part("gradients")}}},\n"losses": {{\n{part("losses")}}}'
    text = f'{{"torch": "{made["torch"]}",\n{parts}}}\n'
    OUT.write_text(text)
    print(f"{OUT}: {len(text)} bytes")


if __name__ == "__main__":
    main()
