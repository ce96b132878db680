#!/usr/bin/env python3
"""The Q, K and V projections of one LLaMA attention layer through the C ABI, with nothing but ctypes.

    cargo build --release -p ironbridge-capi && python3 examples/python/qkv.py [LIBRARY]

LIBRARY is libironbridge.so (.dylib); without it, the release build's. Each result is checked against double arithmetic.
"""

import ctypes
import random
import sys
from array import array
from pathlib import Path

SEQ, D_MODEL, KV_DIM = 15, 256, 32
F32 = 1  # IRON_F32
ABI_VERSION = 4  # IRON_ABI_VERSION of the header that the structs below were written from
F32_EPSILON = 2.0**-23


class DeviceInfo(ctypes.Structure):
    """iron_device_info"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("kind", ctypes.c_uint32),
        ("index", ctypes.c_uint32),
        ("name", ctypes.c_char * 128),
        ("unified_memory", ctypes.c_uint32),
        ("max_threads_per_threadgroup", ctypes.c_uint32),
        ("max_threadgroup_memory", ctypes.c_uint32),
        ("max_buffer_length", ctypes.c_uint64),
        ("recommended_working_set", ctypes.c_uint64),
        ("allocated", ctypes.c_uint64),
    ]


class Tensor(ctypes.Structure):
    """iron_tensor"""

    _fields_ = [
        ("buffer", ctypes.c_void_p),
        ("offset", ctypes.c_uint64),
        ("row_stride", ctypes.c_uint64),
        ("batch_stride", ctypes.c_uint64),
        ("dtype", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32 * 7),
    ]


class Matmul(ctypes.Structure):
    """iron_matmul"""

    _fields_ = [
        ("size", ctypes.c_size_t),
        ("m", ctypes.c_uint64),
        ("n", ctypes.c_uint64),
        ("k", ctypes.c_uint64),
        ("a", Tensor),
        ("b", Tensor),
        ("bias", Tensor),
        ("c", Tensor),
        ("batch", ctypes.c_uint32),
        ("transpose_a", ctypes.c_uint32),
        ("transpose_b", ctypes.c_uint32),
    ]


class Ironbridge:
    """The library's functions. A call that fails raises RuntimeError with the library's own sentence."""

    POINTER, HANDLE_OUT = ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)
    SIGNATURES = {
        "iron_device_open": [ctypes.c_char_p, POINTER, HANDLE_OUT],
        "iron_device_describe": [POINTER, ctypes.POINTER(DeviceInfo)],
        "iron_device_release": [POINTER],
        "iron_buffer_create": [POINTER, ctypes.c_uint64, POINTER, HANDLE_OUT],
        "iron_buffer_create_with_bytes": [POINTER, POINTER, ctypes.c_uint64, POINTER, HANDLE_OUT],
        "iron_buffer_read": [POINTER, ctypes.c_uint64, POINTER, ctypes.c_uint64],
        "iron_buffer_release": [POINTER],
        "iron_commands_begin": [POINTER, POINTER, HANDLE_OUT],
        "iron_commands_commit": [POINTER],
        "iron_commands_release": [POINTER],
        "iron_encode_matmul": [POINTER, ctypes.POINTER(Matmul)],
    }

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        for name in ("iron_status_name", "iron_last_error", "iron_version"):
            getattr(self.library, name).restype = ctypes.c_char_p
        for name, arguments in self.SIGNATURES.items():
            function = getattr(self.library, name)
            function.argtypes = arguments
            function.errcheck = self._check
        if self.library.iron_abi_version() != ABI_VERSION:
            raise RuntimeError(f"{path} has another ABI version than {ABI_VERSION}")

    def _check(self, status, function, arguments):
        if status != 0:
            name = self.library.iron_status_name(status).decode()
            raise RuntimeError(f"{function.__name__}: {name}: {self.library.iron_last_error().decode()}")
        return arguments

    def __getattr__(self, name):
        return getattr(self.library, "iron_" + name)

    def make(self, name, *arguments):
        """Calls a function whose last parameter is the new handle, and returns that."""
        handle = ctypes.c_void_p()
        getattr(self, name)(*arguments, ctypes.byref(handle))
        return handle


def upload(iron, device, values):
    pointer, count = values.buffer_info()
    return iron.make("buffer_create_with_bytes", device, pointer, count * values.itemsize, None)


def download(iron, buffer, count):
    values = array("f", bytes(4 * count))
    iron.buffer_read(buffer, 0, values.buffer_info()[0], 4 * count)
    return values


def is_right(out, x, weights, width):
    """Each value within the error that f32 accumulation may have: k * epsilon * sum |x| |w|."""
    for i in range(SEQ):
        row = x[i * D_MODEL : (i + 1) * D_MODEL]
        for j in range(width):
            products = [a * b for a, b in zip(row, weights[j::width])]
            bound = D_MODEL * F32_EPSILON * sum(map(abs, products))
            if not abs(out[i * width + j] - sum(products)) <= bound:
                return False
    return True


def main():
    release = Path(__file__).resolve().parents[2] / "target/release"
    name = "libironbridge.dylib" if sys.platform == "darwin" else "libironbridge.so"
    iron = Ironbridge(sys.argv[1] if len(sys.argv) > 1 else release / name)

    device = iron.make("device_open", None, None)
    info = DeviceInfo(size=ctypes.sizeof(DeviceInfo))
    iron.device_describe(device, info)
    print(f"ironbridge {iron.version().decode()} on {info.name.decode()}")

    random.seed(1)
    matrix = lambda rows, columns: array("f", (random.uniform(-1, 1) for _ in range(rows * columns)))
    x = matrix(SEQ, D_MODEL)
    x_on_device = upload(iron, device, x)
    projections = []
    commands = iron.make("commands_begin", device, None)
    for projection, width in (("Q", D_MODEL), ("K", KV_DIM), ("V", KV_DIM)):
        weights = matrix(D_MODEL, width)
        weights_on_device = upload(iron, device, weights)
        out = iron.make("buffer_create", device, 4 * SEQ * width, None)
        matmul = Matmul(
            size=ctypes.sizeof(Matmul),
            m=SEQ,
            n=width,
            k=D_MODEL,
            a=Tensor(buffer=x_on_device, dtype=F32),
            b=Tensor(buffer=weights_on_device, dtype=F32),
            c=Tensor(buffer=out, dtype=F32),
        )
        iron.encode_matmul(commands, matmul)
        iron.buffer_release(weights_on_device)  # the commands keep it alive
        projections.append((projection, width, weights, out))
    iron.commands_commit(commands)
    # Everything but the results goes back while the device works. Reading a result waits for it.
    iron.commands_release(commands)
    iron.buffer_release(x_on_device)
    iron.device_release(device)

    right = True
    for projection, width, weights, buffer in projections:
        out = download(iron, buffer, SEQ * width)
        iron.buffer_release(buffer)
        matches = is_right(out, x, weights, width)
        right &= matches
        start = " ".join(f"{value:9.5f}" for value in out[:3])
        print(f"{projection}  {SEQ} x {width}  starts {start}  {'right' if matches else 'WRONG'}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
