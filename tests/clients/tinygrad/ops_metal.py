"""tinygrad's device METAL over ironbridge: tinygrad's own renderer writes Metal source, which ironbridge compiles and
runs. `install()` puts this module in the place of tinygrad's, which loads Apple's frameworks."""

import os
import sys
from typing import Any

import numpy as np
from ironbridge import Device
from ironbridge._library import ffi, lib, sized
from ironbridge.device import buffer_of
from ironbridge.errors import check
from tinygrad.device import Compiled, Compiler, LRUAllocator, Program
from tinygrad.renderer.cstyle import MetalRenderer


def install() -> None:
    sys.modules["tinygrad.runtime.ops_metal"] = sys.modules[__name__]


class MetalCompiler(Compiler):
    """A source is its own library: it is compiled where it is loaded."""

    def __init__(self) -> None:
        super().__init__(None)


class MetalAllocator(LRUAllocator):
    """Buffers are bytes of the device's memory, and views of them."""

    def _alloc(self, size: int, options: Any) -> Any:
        return self.dev.ironbridge.empty(size, np.uint8)

    def _free(self, opaque: Any, options: Any) -> None:
        pass

    def _as_buffer(self, src: Any) -> memoryview:
        return memoryview(src)

    def _copyin(self, dest: Any, src: memoryview) -> None:
        dest[:] = np.frombuffer(src, np.uint8)

    def _copyout(self, dest: memoryview, src: Any) -> None:
        np.frombuffer(dest, np.uint8)[:] = src

    def _offset(self, buf: Any, size: int, offset: int) -> Any:
        return buf[offset : offset + size]


class MetalProgram(Program):
    ran: set[str] = set()  # sources of the kernels that ran

    def __init__(self, dev: Any, obj: Any) -> None:
        self.dev, self.source, self.signature = dev, obj.lib.decode(), obj.signature
        place = ffi.new("iron_library **")
        check(lib.iron_library_create(dev.ironbridge._handle, obj.lib, place))
        library = ffi.gc(place[0], lib.iron_library_release)
        place = ffi.new("iron_kernel **")
        check(lib.iron_kernel_create(library, obj.name.encode(), ffi.NULL, 0, place))
        self.kernel = ffi.gc(place[0], lib.iron_kernel_release)

    def __call__(
        self,
        *bufs: Any,
        global_size: Any = (1, 1, 1),
        local_size: Any = (1, 1, 1),
        vals: Any = (),
        wait: bool = False,
        **_: Any,
    ) -> Any:
        arguments = ffi.new("iron_argument[]", len(bufs) + len(vals))
        for index, buf in enumerate(bufs):
            arguments[index].kind = lib.IRON_ARGUMENT_BUFFER
            arguments[index].index = index
            arguments[index].buffer, arguments[index].offset = buffer_of(buf)
            arguments[index].access = lib.IRON_ACCESS_READ_WRITE
        kept = []
        for place, (value, described) in enumerate(zip(vals, self.signature[len(bufs) :]), len(bufs)):
            _name, slot, dtype, _shape = described
            kept.append(ffi.new("char[]", int(value).to_bytes(dtype.itemsize, "little", signed=True)))
            arguments[place].kind = lib.IRON_ARGUMENT_BYTES
            arguments[place].index = slot
            arguments[place].bytes = kept[-1]
            arguments[place].length = dtype.itemsize
        dispatch = sized(
            "iron_dispatch",
            arguments=arguments,
            argument_count=len(arguments),
            grid=list(map(int, global_size)),
            threadgroup=list(map(int, local_size)),
            threads=0,
        )
        place = ffi.new("iron_commands **")
        check(lib.iron_commands_begin(self.dev.ironbridge._handle, ffi.NULL, place))
        commands = ffi.gc(place[0], lib.iron_commands_release)
        check(lib.iron_encode_kernel(commands, self.kernel, dispatch))
        check(lib.iron_commands_run(commands))
        MetalProgram.ran.add(self.source)
        return 0.0 if wait else None


class MetalDevice(Compiled):
    def __init__(self, device: str) -> None:
        self.ironbridge = Device(os.environ.get("IRONBRIDGE_DEVICE", "cpu"))
        super().__init__(device, MetalAllocator(self), [MetalRenderer], MetalProgram, None, arch="Apple8")
