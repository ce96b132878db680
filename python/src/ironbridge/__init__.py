"""LLaMA models, matrix products and Metal kernels, on Apple's Metal and on any CPU.

    import ironbridge

    with ironbridge.Model("model.gguf") as model:
        for text in model.generate("Once upon a time", limit=64):
            print(text, end="", flush=True)
"""

from ._library import ffi, lib
from .device import Device, default_device
from .errors import (
    ArgumentError,
    CanceledError,
    ChatError,
    CompileError,
    ContextFullError,
    DeviceError,
    Error,
    FileError,
    HandleError,
    MemoryLimitError,
    ModelError,
    NotFoundError,
    StateError,
    UnsupportedError,
)
from .kernels import Kernel, KernelArgument, Library, Sampler, Texture
from .model import Generation, Model, Piece, Session, Stats
from .ops import matmul

__version__: str = ffi.string(lib.iron_version()).decode()

__all__ = [
    "ArgumentError",
    "CanceledError",
    "ChatError",
    "CompileError",
    "ContextFullError",
    "Device",
    "DeviceError",
    "Error",
    "FileError",
    "Generation",
    "HandleError",
    "Kernel",
    "KernelArgument",
    "Library",
    "MemoryLimitError",
    "Model",
    "ModelError",
    "NotFoundError",
    "Piece",
    "Sampler",
    "Session",
    "StateError",
    "Stats",
    "Texture",
    "UnsupportedError",
    "default_device",
    "matmul",
]
