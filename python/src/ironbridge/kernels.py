"""Kernels of one's own, from Metal source."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from ._handle import Handle
from ._library import ffi, lib, sized
from .device import Device, buffer_of, default_device
from .errors import check


# The axes of texels, the outermost first.
_SHAPES = {
    "1d": ("width",),
    "1d_array": ("elements", "width"),
    "2d": ("height", "width"),
    "2d_array": ("elements", "height", "width"),
    "3d": ("depth", "height", "width"),
    "cube": ("6", "size", "size"),
    "cube_array": ("cubes", "6", "size", "size"),
    "buffer": ("width",),
}


class Texture:
    """An array of :meth:`Device.empty` as a kernel's texture: texels, and behind them their components where there are
    several. ``format`` is Metal's name of it, such as ``"RGBA8Unorm"`` or ``"R32Float"``.

    ``shape`` says what the axes of texels are, the outermost first: ``"2d"`` is (height, width), ``"1d"`` and
    ``"buffer"`` are (width,), ``"1d_array"`` is (elements, width), ``"2d_array"`` is (elements, height, width),
    ``"3d"`` is (depth, height, width), ``"cube"`` is (6, size, size) and ``"cube_array"`` (cubes, 6, size, size).

    The texels of a row lie one behind the other; rows and slices may lie apart, as those of a slice do. Other shapes
    than ``"2d"`` and ``"buffer"`` are copied before the kernel runs, and back when it may write.
    """

    def __init__(self, array: npt.NDArray[Any], format: str, shape: str = "2d") -> None:
        found = re.fullmatch(r"(r|rg|rgba|bgra)(8|16|32)(unorm|snorm|uint|sint|float)(_srgb)?", format.lower())
        native = "IRON_PIXEL_{}{}_{}{}".format(*(part or "" for part in found.groups())) if found else ""
        if found is None or not hasattr(lib, native.upper()):
            raise ValueError(f"{format!r} is no format of texels")
        if shape not in _SHAPES:
            raise ValueError(f"{shape!r} is no shape of textures; {', '.join(_SHAPES)} are possible")
        channels, bits, kind = len(found[1]), int(found[2]), {"f": "f", "s": "i", "u": "u"}[found[3][0]]
        dtype = np.dtype(f"{kind}{bits // 8}")
        texel = channels * dtype.itemsize
        axes = _SHAPES[shape] if channels == 1 else (*_SHAPES[shape], str(channels))
        if array.dtype != dtype or not _has_axes(array, axes, dtype.itemsize, texel):
            wanted = ", ".join(axes) + "," * (len(axes) == 1)
            raise ValueError(f"{format} wants {dtype} of the shape ({wanted}), not {array.dtype} of {array.shape}")
        self.array = array
        extents = dict(zip(axes, array.shape))
        # Of an axis of one, NumPy's stride says nothing.
        strides = {axis: n for axis, n, extent in zip(axes, array.strides, array.shape) if extent > 1}
        width = extents.get("width", extents.get("size"))
        height = extents.get("height", extents.get("size", 1))
        layers = next((extents[axis] for axis in ("elements", "depth", "cubes") if axis in extents), 0)
        row = strides.get("height", 0)
        if "cube" in shape:
            row = array.strides[-2 - (channels > 1)] if height > 1 else 0
        slice_bytes = next((strides[axis] for axis in ("6", "elements", "depth") if axis in strides), 0)
        self.native = ffi.new(
            "iron_texture *",
            {
                "format": getattr(lib, native.upper()),
                "width": width,
                "height": height,
                "row_bytes": row,
                "shape": getattr(lib, f"IRON_TEXTURE_SHAPE_{shape.upper()}"),
                "layers": layers,
                "slice_bytes": slice_bytes,
            },
        )


def _has_axes(array: npt.NDArray[Any], axes: tuple[str, ...], component: int, texel: int) -> bool:
    """Whether the array has the axes of a texture's shape, and texels without gaps in rows that do not overlap."""
    if array.ndim != len(axes) or 0 in array.shape:
        return False
    extents = array.shape
    if any(axis.isdigit() and extent != int(axis) for axis, extent in zip(axes, extents)):
        return False
    sizes = [extent for axis, extent in zip(axes, extents) if axis == "size"]
    if len(set(sizes)) > 1:
        return False
    last = len(axes) - 1 - (texel > component)
    inner = (component,) if texel == component else (texel, component)
    if array.strides[last:] != inner:
        return False
    least = texel * extents[last]
    for axis in reversed(range(last)):
        if extents[axis] > 1 and array.strides[axis] < least:
            return False
        least = array.strides[axis] * extents[axis] if extents[axis] > 1 else least
    # The slices of all cubes are equally far apart.
    return axes[0] != "cubes" or extents[0] == 1 or array.strides[0] == 6 * array.strides[1]


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


ConstantValue = Union[bool, int, float, np.generic, npt.NDArray[Any]]

_MATH = ("default", "safe", "relaxed", "fast")
_CONSTANTS = {
    "bool": "BOOL",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "float16": "F16",
    "float32": "F32",
}


def _set_constant(native: Any, place: Union[int, str], value: ConstantValue, kept: list[Any]) -> None:
    """Fills an ``iron_constant``."""
    if isinstance(value, (bool, int, float)):
        value = np.bool_(value) if isinstance(value, bool) else _number(value)
    values = np.atleast_1d(value)
    scalar = _CONSTANTS.get(values.dtype.name)
    if scalar is None or values.ndim > 1 or not 1 <= len(values) <= 4:
        raise ValueError(f"the constant {place!r} cannot be {value!r}: numbers and vectors of two to four are possible")
    if isinstance(place, str):
        kept.append(ffi.new("char[]", place.encode()))
        native.name = kept[-1]
    else:
        native.index = place
    native.type = getattr(lib, f"IRON_CONSTANT_{scalar}")
    native.components = len(values)
    content = (values.astype(np.uint32) if scalar == "BOOL" else values).tobytes()
    ffi.memmove(ffi.addressof(native, "value"), content, len(content))


def _number(value: Union[int, float]) -> np.generic:
    return np.float32(value) if isinstance(value, float) else np.int32(value)


@dataclass(frozen=True)
class KernelArgument:
    """What a kernel wants bound. ``kind``: ``"buffer"``, ``"threadgroup"``, ``"texture"`` or ``"sampler"``, each with
    an ``index`` of its own; ``access``: ``"read"``, ``"write"`` or ``"read_write"``; ``bytes``: of what a reference
    refers to, 0 for a pointer; ``alignment`` of the address, in bytes."""

    kind: str
    index: int
    access: str
    bytes: int
    alignment: int


class Library(Handle):
    """A text in the Metal Shading Language, compiled.

    ``macros`` are defined before it, with a value or with ``None``; ``include`` are folders of files that it includes;
    ``version`` is the language's, 300 for Metal 3.0, 0 for the device's newest; ``math`` is ``"default"``, ``"safe"``,
    ``"relaxed"`` or ``"fast"``.

    Without Apple's Metal the software device compiles it with the clang of the machine, and raises
    ``UnsupportedError`` where there is none. ``CompileError`` has the compiler's messages, with lines and columns.
    """

    def __init__(
        self,
        source: str,
        device: Optional[Device] = None,
        *,
        include: Sequence[Union[str, os.PathLike[str]]] = (),
        macros: Optional[Mapping[str, Optional[Union[str, int, float]]]] = None,
        version: int = 0,
        math: str = "default",
    ) -> None:
        if math not in _MATH:
            raise ValueError(f"math is {math!r}; {', '.join(_MATH)} are possible")
        self._device = device or default_device()
        kept: list[Any] = []

        def text(value: str) -> Any:
            kept.append(ffi.new("char[]", value.encode()))
            return kept[-1]

        content = text(_with_includes(source, [os.fspath(folder) for folder in include]) if include else source)
        given = list((macros or {}).items())
        natives = ffi.new("iron_macro[]", len(given))
        for native, (name, value) in zip(natives, given):
            native.name = text(name)
            native.value = ffi.NULL if value is None else text(str(value))
        options = sized(
            "iron_library_options",
            language_version=version,
            math_mode=_MATH.index(math),
            macros=natives,
            macro_count=len(given),
        )
        super().__init__(
            "iron_library",
            lambda library: lib.iron_library_create_with_options(self._device._handle, content, options, library),
        )

    @property
    def kernels(self) -> list[str]:
        """The names of its kernels."""
        count = ffi.new("uint32_t *")
        check(lib.iron_library_kernel_count(self._handle, count))
        length = ffi.new("size_t *")
        names = []
        for index in range(count[0]):
            check(lib.iron_library_kernel_name(self._handle, index, ffi.NULL, 0, length))
            place = ffi.new("char[]", length[0] + 1)
            check(lib.iron_library_kernel_name(self._handle, index, place, length[0] + 1, length))
            names.append(ffi.string(place).decode())
        return names

    def kernel(self, name: str, constants: Optional[Mapping[Union[int, str], ConstantValue]] = None) -> Kernel:
        """The kernel ``name``. ``constants`` are values of ``constant T x [[function_constant(i)]]`` by ``i`` or by
        ``"x"``: a Python bool, int (int32) or float (float32), NumPy's scalar of the type, or an array of two to four
        for a vector. ``NotFoundError``: there is no such kernel; ``CompileError``: a value has another type.
        """
        return Kernel(self, name, constants=constants)


def _with_includes(source: str, folders: list[str]) -> str:
    """``source`` with the files of ``folders`` that it includes."""
    content = ffi.new("char[]", source.encode())
    kept = [ffi.new("char[]", folder.encode()) for folder in folders]
    places = ffi.new("char *[]", kept)
    length = ffi.new("size_t *")
    check(lib.iron_source_with_includes(content, places, len(kept), ffi.NULL, 0, length))
    made = ffi.new("char[]", length[0] + 1)
    check(lib.iron_source_with_includes(content, places, len(kept), made, length[0] + 1, length))
    text: str = ffi.string(made).decode()
    return text


class Kernel(Handle):
    """The kernel ``name`` of a :class:`Library`, or of a text that becomes one. ``constants`` as for
    :meth:`Library.kernel`.
    """

    def __init__(
        self,
        source: Union[str, Library],
        name: str,
        device: Optional[Device] = None,
        *,
        constants: Optional[Mapping[Union[int, str], ConstantValue]] = None,
    ) -> None:
        library = Library(source, device) if isinstance(source, str) else source
        self._device = library._device
        kept: list[Any] = []
        given = list((constants or {}).items())
        natives = ffi.new("iron_constant[]", len(given))
        for native, (place, value) in zip(natives, given):
            _set_constant(native, place, value, kept)
        super().__init__(
            "iron_kernel",
            lambda kernel: lib.iron_kernel_create(library._handle, name.encode(), natives, len(given), kernel),
        )
        if isinstance(source, str):
            library.close()

    @property
    def arguments(self) -> list[KernelArgument]:
        """What it wants bound, in the order of its parameters."""
        kinds = {
            lib.IRON_ARGUMENT_BUFFER: "buffer",
            lib.IRON_ARGUMENT_THREADGROUP: "threadgroup",
            lib.IRON_ARGUMENT_TEXTURE: "texture",
            lib.IRON_ARGUMENT_SAMPLER: "sampler",
        }
        accesses = {lib.IRON_ACCESS_READ: "read", lib.IRON_ACCESS_WRITE: "write"}
        info = sized("iron_kernel_info")
        check(lib.iron_kernel_describe(self._handle, info))
        found = []
        for position in range(info.argument_count):
            argument = sized("iron_kernel_argument_info")
            check(lib.iron_kernel_argument(self._handle, position, argument))
            found.append(
                KernelArgument(
                    kinds[argument.kind],
                    int(argument.index),
                    accesses.get(argument.access, "read_write"),
                    int(argument.byte_size),
                    int(argument.alignment),
                )
            )
        return found

    def _texture_access(self, index: int) -> int:
        """What the kernel does with a texture."""
        for argument in self.arguments:
            if argument.kind == "texture" and argument.index == index:
                return int(getattr(lib, f"IRON_ACCESS_{argument.access.upper()}"))
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
            number = argument if isinstance(argument, np.generic) else _number(argument)
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
