#!/usr/bin/env python3
"""A sine, learned by a network of 1, 64, 64 and 1 units through the C ABI, with nothing but ctypes.

    cargo build --release -p ironbridge-capi && python3 examples/python/sine.py [LIBRARY]

LIBRARY is libironbridge.so (.dylib); without it, the release build's. Ends with 1 if the loss stays above 0.0001.
"""

import ctypes
import math
import random
import sys
from array import array
from ctypes import c_float, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

POINTS, UNITS, STEPS = 64, 64, 800
F32 = 1  # IRON_F32
ABI_VERSION = 4  # IRON_ABI_VERSION of the header that the structs below were written from


class Tensor(ctypes.Structure):
    """iron_tensor"""

    _fields_ = [
        ("buffer", c_void_p),
        ("offset", c_uint64),
        ("row_stride", c_uint64),
        ("batch_stride", c_uint64),
        ("dtype", c_uint32),
        ("reserved", c_uint32 * 7),
    ]


def struct(name, numbers, tensors, rest=()):
    """A struct of the header that begins with its size: whole numbers, tensors, and others."""
    fields = [("size", c_size_t)] + [(field, c_uint64) for field in numbers] + [(field, Tensor) for field in tensors]
    return type(name, (ctypes.Structure,), {"_fields_": fields + list(rest)})


Matmul = struct(
    "Matmul", "mnk", ("a", "b", "bias", "c"), [(name, c_uint32) for name in ("batch", "transpose_a", "transpose_b")]
)
Activation = struct("Activation", ("count",), ("x", "out"), [("scale", c_float)])
Elementwise = struct("Elementwise", ("count",), ("a", "b", "out"))
Mse = struct("Mse", ("rows", "width"), ("prediction", "target", "gradient", "loss"), [("scale", c_float)])
LinearBackward = struct(
    "LinearBackward",
    ("rows", "inputs", "outputs"),
    ("x", "weight", "gradient", "x_gradient", "weight_gradient", "bias_gradient"),
)
Adam = struct(
    "Adam",
    ("count", "step"),
    ("gradient", "weights", "first_moment", "second_moment"),
    [(name, c_float) for name in ("learning_rate", "beta1", "beta2", "eps", "weight_decay")],
)


class Device:
    """The device and the functions of the library. A call that fails raises RuntimeError with its sentence."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.iron_last_error.restype = ctypes.c_char_p
        if self.library.iron_abi_version() != ABI_VERSION:
            raise RuntimeError(f"{path} has another ABI version than {ABI_VERSION}")
        self.buffers = []
        self.handle = self.make("device_open", None, None)

    def call(self, name, *arguments):
        if getattr(self.library, "iron_" + name)(*arguments) != 0:
            raise RuntimeError(f"{name}: {self.library.iron_last_error().decode()}")

    def make(self, name, *arguments):
        handle = c_void_p()
        self.call(name, *arguments, ctypes.byref(handle))
        return handle

    def tensor(self, values):
        pointer, count = values.buffer_info()
        length = c_uint64(count * values.itemsize)
        buffer = self.make("buffer_create_with_bytes", self.handle, c_void_p(pointer), length, None)
        self.buffers.append(buffer)
        return Tensor(buffer=buffer, dtype=F32)

    def zeros(self, count):
        return self.tensor(array("f", bytes(4 * count)))

    def read(self, tensor, count):
        values = array("f", bytes(4 * count))
        pointer = c_void_p(values.buffer_info()[0])
        self.call("buffer_read", c_void_p(tensor.buffer), c_uint64(0), pointer, c_uint64(4 * count))
        return values

    def encode(self, commands, name, given):
        given.size = ctypes.sizeof(given)
        self.call("encode_" + name, commands, ctypes.byref(given))

    def close(self):
        for buffer in self.buffers:
            self.call("buffer_release", buffer)
        self.call("device_release", self.handle)


class Parameter:
    """Weights, what Adam keeps for them, and their gradient."""

    def __init__(self, device, count, bound):
        self.count = count
        self.weights = device.tensor(array("f", (random.uniform(-bound, bound) for _ in range(count))))
        self.gradient, self.first, self.second = (device.zeros(count) for _ in range(3))

    def learn(self, device, commands, step):
        rate = 0.005 * (1 + math.cos(math.pi * step / STEPS))  # falls as half a cosine
        adam = Adam(count=self.count, step=step, gradient=self.gradient, weights=self.weights, learning_rate=rate)
        adam.first_moment, adam.second_moment = self.first, self.second
        device.encode(commands, "adam_step", adam)


class Layer:
    """A linear layer with a tanh behind it, unless it is the last one."""

    def __init__(self, device, inputs, outputs, last=False):
        self.device, self.inputs, self.outputs, self.last = device, inputs, outputs, last
        bound = 1 / math.sqrt(inputs)
        self.weight, self.bias = Parameter(device, inputs * outputs, bound), Parameter(device, outputs, bound)
        self.out, self.gradient = device.zeros(POINTS * outputs), device.zeros(POINTS * outputs)

    def forward(self, commands, x):
        matmul = Matmul(m=POINTS, n=self.outputs, k=self.inputs, a=x, c=self.out, transpose_b=1)
        matmul.b, matmul.bias = self.weight.weights, self.bias.weights
        self.device.encode(commands, "matmul", matmul)
        if not self.last:
            in_place = Activation(count=POINTS * self.outputs, x=self.out, out=self.out)
            self.device.encode(commands, "tanh", in_place)
        return self.out

    def backward(self, commands, x, x_gradient):
        if not self.last:
            in_place = Elementwise(count=POINTS * self.outputs, a=self.out, b=self.gradient, out=self.gradient)
            self.device.encode(commands, "tanh_backward", in_place)
        linear = LinearBackward(rows=POINTS, inputs=self.inputs, outputs=self.outputs, x=x, x_gradient=x_gradient)
        linear.weight, linear.gradient = self.weight.weights, self.gradient
        linear.weight_gradient, linear.bias_gradient = self.weight.gradient, self.bias.gradient
        self.device.encode(commands, "linear_backward", linear)


def main():
    release = Path(__file__).resolve().parents[2] / "target/release"
    name = "libironbridge.dylib" if sys.platform == "darwin" else "libironbridge.so"
    device = Device(sys.argv[1] if len(sys.argv) > 1 else release / name)
    random.seed(1)
    points = array("f", (2 * i / (POINTS - 1) - 1 for i in range(POINTS)))
    x, target = device.tensor(points), device.tensor(array("f", (math.sin(math.pi * point) for point in points)))
    layers = [Layer(device, 1, UNITS), Layer(device, UNITS, UNITS), Layer(device, UNITS, 1, last=True)]
    losses = device.zeros(POINTS)
    mse = Mse(rows=POINTS, width=1, prediction=layers[-1].out, target=target, loss=losses, scale=1 / POINTS)
    mse.gradient = layers[-1].gradient

    loss = math.inf
    for step in range(1, STEPS + 1):
        commands = device.make("commands_begin", device.handle, None)
        before = [(x, Tensor())]
        for layer in layers:
            before.append((layer.forward(commands, before[-1][0]), layer.gradient))
        device.encode(commands, "mse", mse)
        for layer, (given, gradient) in reversed(list(zip(layers, before))):
            layer.backward(commands, given, gradient)
        for layer in layers:
            layer.weight.learn(device, commands, step)
            layer.bias.learn(device, commands, step)
        device.call("commands_run", commands)
        device.call("commands_release", commands)
        loss = sum(device.read(losses, POINTS))
        if step % 200 == 0:
            print(f"step {step:4}  loss {loss:.6f}")
    device.close()
    print("learned" if loss < 0.0001 else "NOT LEARNED")
    return 0 if loss < 0.0001 else 1


if __name__ == "__main__":
    sys.exit(main())
