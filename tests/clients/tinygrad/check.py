#!/usr/bin/env python3
"""tinygrad's operations on ironbridge against NumPy's: every kernel is one that tinygrad wrote.

    scripts/test-clients.sh runs it, in an environment with tinygrad, numpy and cffi."""

import os
import sys
import time

os.environ["DEV"] = "METAL"
# tinygrad compiles in processes that it forks, and a fork has not the threads of the device.
os.environ["PARALLEL"] = "0"

import ops_metal

ops_metal.install()

import numpy as np
from tinygrad import Tensor, dtypes

RANDOM = np.random.default_rng(30)
FAILED: list[str] = []
CHECKS = 0


def numbers(*shape: int, kind: type = np.float32) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(kind)


def check(name: str, given: Tensor, wanted: np.ndarray, tolerance: float = 1e-5) -> None:
    """Relative to 1 + |wanted|, as float32 sums and functions allow; integers exactly."""
    global CHECKS
    CHECKS += 1
    found = given.numpy()
    wanted = np.asarray(wanted)
    if found.shape != wanted.shape:
        FAILED.append(f"{name}: shape {found.shape} for {wanted.shape}")
    elif wanted.dtype.kind in "iub":
        if not np.array_equal(found, wanted):
            FAILED.append(f"{name}: other integers")
    else:
        error = np.abs(found.astype(np.float64) - wanted) / (1 + np.abs(wanted))
        if not np.all(error <= tolerance):
            FAILED.append(f"{name}: off by {np.nanmax(error)}")


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def elementwise() -> None:
    x, y = numbers(37, 53), numbers(37, 53)
    a, b = Tensor(x), Tensor(y)
    check("add", a + b, x + y)
    check("product", a * b, x * y)
    check("quotient", a / b.abs().maximum(0.1), x / np.maximum(np.abs(y), np.float32(0.1)))
    check("exp", a.exp(), np.exp(x))
    check("log", a.abs().log(), np.log(np.abs(x.astype(np.float64))))
    check("sqrt", a.abs().sqrt(), np.sqrt(np.abs(x)))
    check("sin", (a * 20).sin(), np.sin((x * np.float32(20)).astype(np.float64)), 2e-5)
    check("relu", a.relu(), np.maximum(x, 0))
    check("where", (a > b).where(a, b), np.maximum(x, y))
    check("cast to int", (a * 100).cast(dtypes.int32), (x * np.float32(100)).astype(np.int32))
    i, j = RANDOM.integers(-1000, 1000, (2, 999), dtype=np.int32)
    check("int sum", Tensor(i) + Tensor(j), i + j)
    check("shift", Tensor(i.astype(np.uint32)) >> 3, i.astype(np.uint32) >> 3)
    check("xor", Tensor(i) ^ Tensor(j), i ^ j)
    check("bytes", Tensor(i.astype(np.int8)) * 3, i.astype(np.int8) * np.int8(3))
    check("long", Tensor(i.astype(np.int64)) * 5000000000, i.astype(np.int64) * 5000000000)
    h = numbers(301, kind=np.float16)
    check("half", Tensor(h) * 2 + 1, h.astype(np.float64) * 2 + 1, 1e-3)
    check("bfloat", (Tensor(x).cast(dtypes.bfloat16) * 2).cast(dtypes.float32), x * 2, 2**-7)


def reductions() -> None:
    for shape in [(7,), (1000,), (33, 65), (3, 5, 129), (4096,), (64, 1024)]:
        x = numbers(*shape)
        t = Tensor(x)
        check(f"sum {shape}", t.sum(), x.sum(dtype=np.float64), 1e-4)
        check(f"sum of rows {shape}", t.sum(-1), x.sum(-1, dtype=np.float64), 1e-4)
        check(f"max {shape}", t.max(), x.max())
        check(f"mean {shape}", t.mean(0), x.mean(0, dtype=np.float64), 1e-4)
        check(f"argmax {shape}", t.argmax(-1).cast(dtypes.int32), x.argmax(-1).astype(np.int32))
    x = numbers(9, 100)
    check("softmax", Tensor(x).softmax(), softmax(x))
    check("cumsum", Tensor(x).cumsum(1), x.cumsum(1, dtype=np.float64), 1e-4)
    check("sort", Tensor(x).sort()[0], np.sort(x, -1))
    check("std", Tensor(x).std(1), x.astype(np.float64).std(1, ddof=1), 1e-4)


def movement() -> None:
    x = numbers(6, 7, 8)
    t = Tensor(x)
    check("transpose", t.permute(2, 0, 1).contiguous(), x.transpose(2, 0, 1))
    check("pad", t.pad(((1, 2), (0, 0), (3, 1))), np.pad(x, ((1, 2), (0, 0), (3, 1))))
    check("slices", t[1:5:2, ::-1, 3], x[1:5:2, ::-1, 3])
    check("concatenation", t.cat(t * 2, dim=1), np.concatenate([x, x * 2], 1))
    index = RANDOM.integers(0, 6, 11)
    check("gather", t[Tensor(index.astype(np.int32))], x[index])


def products() -> None:
    for m, k, n in [(1, 1, 1), (1, 64, 100), (3, 5, 7), (64, 64, 64), (33, 129, 65), (128, 256, 64)]:
        x, y = numbers(m, k), numbers(k, n)
        check(f"matmul {m} {k} {n}", Tensor(x) @ Tensor(y), x.astype(np.float64) @ y, 1e-4)
    x, y = numbers(64, 64, kind=np.float16), numbers(64, 64, kind=np.float16)
    check("half matmul", Tensor(x).matmul(Tensor(y), dtype=dtypes.float32), x.astype(np.float64) @ y, 1e-3)
    x, w = numbers(2, 3, 14, 15), numbers(5, 3, 3, 3)
    wanted = np.zeros((2, 5, 12, 13))
    for row in range(3):
        for column in range(3):
            part = x[:, :, row : row + 12, column : column + 13]
            wanted += np.einsum("nchw,oc->nohw", part.astype(np.float64), w[:, :, row, column])
    check("convolution", Tensor(x).conv2d(Tensor(w)), wanted, 1e-4)
    x = numbers(2, 3, 8, 8)
    check("max pool", Tensor(x).max_pool2d(2), x.reshape(2, 3, 4, 2, 4, 2).max((3, 5)))
    q, k, v = numbers(3, 2, 4, 17, 32)
    scores = np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64), k) / np.sqrt(32)
    wanted = np.einsum("bhqk,bhkd->bhqd", softmax(scores), v)
    check("attention", Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v)), wanted, 1e-4)


def learning() -> None:
    x, w = numbers(16, 8), numbers(8, 4)
    t = Tensor(w)
    (gradient,) = (Tensor(x) @ t).relu().square().sum().gradient(t)
    h = np.maximum(x.astype(np.float64) @ w, 0)
    check("gradient", gradient, x.T.astype(np.float64) @ (2 * h), 1e-4)


def main() -> None:
    start = time.monotonic()
    for part in (elementwise, reductions, movement, products, learning):
        part()
    sources = ops_metal.MetalProgram.ran
    with_memory = sum("threadgroup " in source for source in sources)
    print(f"tinygrad: {CHECKS} checks, {len(sources)} kernels, {with_memory} of them with threadgroup memory, "
          f"{time.monotonic() - start:.0f} s")
    # Kernels that ran elsewhere would prove nothing.
    if len(sources) < 40:
        FAILED.append(f"only {len(sources)} kernels ran")
    for failure in FAILED:
        print(f"tinygrad: {failure}", file=sys.stderr)
    sys.exit(bool(FAILED))


if __name__ == "__main__":
    main()
