"""Kernels of one's own, from Metal source."""

from __future__ import annotations

import re
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from ._handle import Handle
from ._library import ffi, lib, sized
from .device import Device, buffer_of, default_device
from .errors import check



class Texture:
    """An array of :meth:`Device.empty` as a kernel's ``texture2d``: rows of texels, and behind them their components
    where there are several. ``format`` is Metal's name of it, such as ``"RGBA8Unorm"`` or ``"R32Float"``.

    The texels of a row lie one behind the other; the rows may lie apart, as those of a slice do.
    """

    def __init__(self, array: npt.NDArray[Any], format: str) -> None:
        found = re.fullmatch(r"(r|rg|rgba|bgra)(8|16|32)(unorm|snorm|uint|sint|float)(_srgb)?", format.lower())
        native = "IRON_PIXEL_{}{}_{}{}".format(*(part or "" for part in found.groups())) if found else ""
        if found is None or not hasattr(lib, native.upper()):
            raise ValueError(f"{format!r} is no format of texels")
        channels, bits, kind = len(found[1]), int(found[2]), {"f": "f", "s": "i", "u": "u"}[found[3][0]]
        dtype = np.dtype(f"{kind}{bits // 8}")
        texel = channels * dtype.itemsize
        shape, strides = array.shape, array.strides
        fits = len(shape) == 3 if channels > 1 else len(shape) == 2
        inner = (dtype.itemsize,) if channels == 1 else (texel, dtype.itemsize)
        if not (fits and array.dtype == dtype and strides[1:] == inner and (channels == 1 or shape[2] == channels)):
            wanted = "(height, width)" if channels == 1 else f"(height, width, {channels})"
            raise ValueError(f"{format} wants {dtype} of the shape {wanted}, not {array.dtype} of {shape}")
        self.array = array
        self.native = ffi.new(
            "iron_texture *",
            {"format": getattr(lib, native.upper()), "width": shape[1], "height": shape[0], "row_bytes": strides[0]},
        )


class Sampler:
    """A kernel's ``sampler``. ``linear``: between the nearest two texels along each axis, else the nearest one;
    ``pixels``: coordinates count texels, else they are from 0 to 1. ``address`` is what is taken outside, for all axes
    or one for each: ``"clamp_to_edge"``, ``"mirror_clamp_to_edge"``, ``"repeat"``, ``"mirror_repeat"``,
    ``"clamp_to_zero"`` or ``"clamp_to_border"``.
    """

    def __init__(
        self, linear: bool = False, pixels: bool = False, address: Union[str, tuple[str, str, str]] = "clamp_to_edge"
    ) -> None:
        modes = (address,) * 3 if isinstance(address, str) else address
        if len(modes) != 3 or not all(hasattr(lib, f"IRON_ADDRESS_{mode.upper()}") for mode in modes):
            raise ValueError(f"{address!r} is no address mode")
        values = [getattr(lib, f"IRON_ADDRESS_{mode.upper()}") for mode in modes]
        self.native = ffi.new("iron_texture_sampler *", {"address": values, "linear": linear, "pixels": pixels})


Argument = Union[npt.NDArray[Any], int, float, np.generic, Texture, Sampler]
Extents = Union[int, tuple[int, ...]]


def _extents(given: Extents) -> list[int]:
    """Of three dimensions."""
    extents = [given] if isinstance(given, int) else list(given)
    if not 1 <= len(extents) <= 3:
        raise ValueError(f"{given!r} has not one to three dimensions")
    return extents + [1] * (3 - len(extents))


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

    def _texture_access(self, index: int) -> int:
        """What the kernel does with a texture."""
        info = sized("iron_kernel_info")
        check(lib.iron_kernel_describe(self._handle, info))
        for position in range(info.argument_count):
            argument = sized("iron_kernel_argument_info")
            check(lib.iron_kernel_argument(self._handle, position, argument))
            if argument.kind == lib.IRON_ARGUMENT_TEXTURE and argument.index == index:
                return int(argument.access)
        return int(lib.IRON_ACCESS_READ_WRITE)

    def __call__(self, *arguments: Argument, threads: Extents, threadgroup: Extents = 64) -> None:
        """Runs ``threads`` threads in groups of ``threadgroup``, and returns when they are done; both have one to three
        dimensions. The i-th :class:`Texture` is ``[[texture(i)]]``, the i-th :class:`Sampler` ``[[sampler(i)]]``, and
        of the others the i-th is ``[[buffer(i)]]``: an array of :meth:`Device.empty`, which the kernel may read and
        write, or a number, passed as int32, or float32.
        """
        natives = ffi.new("iron_argument[]", len(arguments))
        kept: list[Any] = []
        counts = {Texture: 0, Sampler: 0, None: 0}
        for position, argument in enumerate(arguments):
            kind = type(argument) if isinstance(argument, (Texture, Sampler)) else None
            index = counts[kind]
            counts[kind] += 1
            native = natives[position]
            native.index = index
            if isinstance(argument, Sampler):
                native.kind = lib.IRON_ARGUMENT_SAMPLER
                native.bytes = argument.native
                continue
            if isinstance(argument, (np.ndarray, Texture)):
                texture = isinstance(argument, Texture)
                place = buffer_of(argument.array if isinstance(argument, Texture) else argument)
                if place is None:
                    raise ValueError(f"argument {position} is no array of Device.empty")
                native.kind = lib.IRON_ARGUMENT_TEXTURE if texture else lib.IRON_ARGUMENT_BUFFER
                native.buffer, native.offset = place
                native.access = self._texture_access(index) if texture else lib.IRON_ACCESS_READ_WRITE
                if isinstance(argument, Texture):
                    native.bytes = argument.native
                continue
            if isinstance(argument, np.generic):
                number = argument
            else:
                number = np.float32(argument) if isinstance(argument, float) else np.int32(argument)
            bytes_of = ffi.new("char[]", number.tobytes())
            kept.append(bytes_of)
            native.kind = lib.IRON_ARGUMENT_BYTES
            native.bytes = bytes_of
            native.length = number.nbytes
        grid = _extents(threads)
        dispatch = sized(
            "iron_dispatch",
            arguments=natives,
            argument_count=len(arguments),
            grid=grid,
            threadgroup=[min(pair) for pair in zip(_extents(threadgroup), grid)],
            threads=1,
        )
        place = ffi.new("iron_commands **")
        check(lib.iron_commands_begin(self._device._handle, ffi.NULL, place))
        commands = ffi.gc(place[0], lib.iron_commands_release)
        check(lib.iron_encode_kernel(commands, self._handle, dispatch))
        check(lib.iron_commands_run(commands))
