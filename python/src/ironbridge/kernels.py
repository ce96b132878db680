"""Kernels of one's own, from Metal source."""

from __future__ import annotations

from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from ._handle import Handle
from ._library import ffi, lib, sized
from .device import Device, buffer_of, default_device
from .errors import check

Argument = Union[npt.NDArray[Any], int, float, np.generic]


class Kernel(Handle):
    """The kernel ``name`` of a text in the Metal Shading Language.

    Without Apple's Metal the software device compiles it with the clang of the machine, and raises
    ``UnsupportedError`` where there is none. ``CompileError`` has the compiler's messages.
    """

    def __init__(self, source: str, name: str, device: Optional[Device] = None) -> None:
        self._device = device or default_device()
        place = ffi.new("iron_library **")
        check(lib.iron_library_create(self._device._handle, source.encode(), place))
        library = ffi.gc(place[0], lib.iron_library_release)
        super().__init__(
            "iron_kernel",
            lambda kernel: lib.iron_kernel_create(library, name.encode(), ffi.NULL, 0, kernel),
        )

    def __call__(self, *arguments: Argument, threads: int, threadgroup: int = 64) -> None:
        """Runs ``threads`` threads in groups of ``threadgroup``, and returns when they are done. Argument i is
        ``[[buffer(i)]]``: an array of :meth:`Device.empty`, which the kernel may read and write, or a number, passed as
        int32, or float32.
        """
        natives = ffi.new("iron_argument[]", len(arguments))
        kept: list[Any] = []
        for index, argument in enumerate(arguments):
            natives[index].index = index
            if isinstance(argument, np.ndarray):
                place = buffer_of(argument)
                if place is None:
                    raise ValueError(f"argument {index} is no array of Device.empty")
                natives[index].kind = lib.IRON_ARGUMENT_BUFFER
                natives[index].buffer, natives[index].offset = place
                natives[index].access = lib.IRON_ACCESS_READ_WRITE
                continue
            if isinstance(argument, np.generic):
                number = argument
            else:
                number = np.float32(argument) if isinstance(argument, float) else np.int32(argument)
            bytes_of = ffi.new("char[]", number.tobytes())
            kept.append(bytes_of)
            natives[index].kind = lib.IRON_ARGUMENT_BYTES
            natives[index].bytes = bytes_of
            natives[index].length = number.nbytes
        dispatch = sized(
            "iron_dispatch",
            arguments=natives,
            argument_count=len(arguments),
            grid=[threads, 1, 1],
            threadgroup=[min(threadgroup, threads), 1, 1],
            threads=1,
        )
        place = ffi.new("iron_commands **")
        check(lib.iron_commands_begin(self._device._handle, ffi.NULL, place))
        commands = ffi.gc(place[0], lib.iron_commands_release)
        check(lib.iron_encode_kernel(commands, self._handle, dispatch))
        check(lib.iron_commands_run(commands))
