#!/usr/bin/env python3
"""Steps of training beside PyTorch on the CPU: alternately, in one process, with as many threads. The sine network (1,
64, 64 and 1 units) at a batch of 4,096 points, and a LLaMA block (bench_train_block.py).

    make bench-train                      or: python3 scripts/bench_train.py LIBRARY [THREADS]

Prints the median time of a step, the fastest and the slowest: forward, backward and Adam, and one read of the loss.
"""

import importlib.util
import math
import os
import statistics
import sys
import time
from array import array
from pathlib import Path

import bench_train_block
from bench_train_recorder import Recorder

ROOT = Path(__file__).resolve().parent.parent
POINTS, ROUNDS = 4096, 15


def example():
    """The C ABI by ctypes, and the network's layers: examples/python/sine.py."""
    spec = importlib.util.spec_from_file_location("sine", ROOT / "examples/python/sine.py")
    sine = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sine)
    sine.POINTS = POINTS
    return sine


class Ours:
    name = "ironbridge"

    def __init__(self, library, points):
        self.sine = sine = example()
        self.device = device = Recorder(sine.Device(library))
        self.x = device.tensor(array("f", points))
        target = device.tensor(array("f", (math.sin(math.pi * point) for point in points)))
        self.layers = [sine.Layer(device, 1, 64), sine.Layer(device, 64, 64), sine.Layer(device, 64, 1, last=True)]
        self.losses, self.loss = device.zeros(POINTS), device.zeros(1)
        self.mse = sine.Mse(rows=POINTS, width=1, prediction=self.layers[-1].out, target=target, loss=self.losses)
        self.mse.scale, self.mse.gradient = 1 / POINTS, self.layers[-1].gradient
        self.sum = sine.struct("SumRows", ("rows", "width"), ("x", "out"))(rows=POINTS, width=1)
        self.sum.x, self.sum.out = self.losses, self.loss
        self.record(device, None)

    def record(self, device, commands):
        before = [(self.x, self.sine.Tensor())]
        for layer in self.layers:
            before.append((layer.forward(commands, before[-1][0]), layer.gradient))
        device.encode(commands, "mse", self.mse)
        device.encode(commands, "sum_rows", self.sum)
        for layer, (given, gradient) in reversed(list(zip(self.layers, before))):
            layer.backward(commands, given, gradient)
        for layer in self.layers:
            layer.weight.learn(device, commands, 1)
            layer.bias.learn(device, commands, 1)

    def step(self):
        self.device.step()
        return self.device.read(self.loss, 1)[0]

    def close(self):
        self.device.close()


class Theirs:
    def __init__(self, threads, points):
        import torch

        torch.set_num_threads(threads)
        self.name = f"PyTorch {torch.__version__}"
        nn = torch.nn
        self.x = torch.tensor(points, dtype=torch.float32)[:, None]
        self.target = torch.sin(math.pi * self.x)
        self.network = nn.Sequential(nn.Linear(1, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=0.01)
        self.of = nn.functional.mse_loss

    def step(self):
        self.optimizer.zero_grad()
        loss = self.of(self.network(self.x), self.target)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def close(self):
        pass


def compare(description, threads, both, steps, same_weights=False):
    """Steps of both, alternately, and what they took."""
    times, first = {it: [] for it in both}, []
    for it in both:
        first.append(it.step())
        for _ in range(steps):
            it.step()
    if same_weights and abs(first[0] - first[1]) > 1e-4 * abs(first[1]):
        sys.exit(f"the first losses are {first[0]} and {first[1]}")
    for _ in range(ROUNDS):
        for it in both:
            for _ in range(steps):
                start = time.perf_counter()
                loss = it.step()
                times[it].append(time.perf_counter() - start)
            it.last = loss
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{description}; {threads} threads, {ROUNDS} rounds of {steps} steps, alternately; load {load}")
    for it in both:
        ordered = [1e3 * value for value in sorted(times[it])]
        median, least, most = statistics.median(ordered), ordered[0], ordered[-1]
        print(f"{it.name:24} {median:8.2f} ms a step (median; {least:.2f} to {most:.2f}), loss {it.last:.5f}")
    for it in both:
        it.close()


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    library, threads = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count()
    os.environ["IRONBRIDGE_THREADS"] = str(threads)
    points = [2 * i / (POINTS - 1) - 1 for i in range(POINTS)]
    compare(f"the sine network, {POINTS} points", threads, [Ours(library, points), Theirs(threads, points)], 20)
    ours, theirs = bench_train_block.Ours(example(), library), bench_train_block.Theirs(threads)
    compare(bench_train_block.DESCRIPTION, threads, [ours, theirs], 3, same_weights=True)


if __name__ == "__main__":
    main()
