"""Devices, and NumPy arrays whose memory is the device's."""

from __future__ import annotations

import weakref
from typing import Any, Optional, Sequence, Union

import numpy as np
import numpy.typing as npt

from ._handle import Handle
from ._library import ffi, lib, sized
from .errors import check

Shape = Union[int, Sequence[int]]


class Device(Handle):
    """A Metal device: Apple's where there is one, else ironbridge's software device on the CPU.

    ``selector`` is ``"default"``, ``"metal"``, ``"cpu"`` or a number of the list of devices.
    """

    def __init__(self, selector: str = "default") -> None:
        super().__init__(
            "iron_device", lambda place: lib.iron_device_open(selector.encode(), ffi.NULL, place)
        )

    @property
    def name(self) -> str:
        """The device's name, for people."""
        info = sized("iron_device_info")
        check(lib.iron_device_describe(self._handle, info))
        return str(ffi.string(info.name).decode())

    def empty(self, shape: Shape, dtype: npt.DTypeLike = np.float32) -> npt.NDArray[Any]:
        """A zeroed array in the device's memory, which products and kernels use without a copy. It must not be read or
        written while a command that uses it is in flight; the functions of this package return after their work.

        It has ``__dlpack__``, so ``torch.from_dlpack(array)`` and the like see the same memory and keep it alive."""
        kind = np.dtype(dtype)
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        length = int(np.prod(sizes, dtype=np.int64)) * kind.itemsize
        place = ffi.new("iron_buffer **")
        check(lib.iron_buffer_create(self._handle, length, ffi.NULL, place))
        owned = ffi.gc(place[0], lib.iron_buffer_release)
        pointer = ffi.new("void **")
        check(lib.iron_buffer_contents(owned, pointer))
        address = int(ffi.cast("uintptr_t", pointer[0]))
        memory = _Memory(address, length, owned)
        array: npt.NDArray[Any] = np.asarray(memory).view(kind).reshape(sizes)
        _MEMORY[address] = memory
        return array

    def array(self, values: Any, dtype: Optional[npt.DTypeLike] = None) -> npt.NDArray[Any]:
        """A copy of ``values`` in the device's memory: numbers, an array, or anything with ``__dlpack__``."""
        source = np.asarray(as_array(values), dtype=dtype)
        target = self.empty(source.shape, source.dtype)
        target[...] = source
        return target


class _Memory:
    """A buffer's memory by NumPy's array interface. An array of it keeps it alive."""

    def __init__(self, address: int, length: int, owned: Any) -> None:
        self.owned = owned
        self.address = address
        self.length = length
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (length,),
            "data": (address, False),
        }


_MEMORY: "weakref.WeakValueDictionary[int, _Memory]" = weakref.WeakValueDictionary()

_DEFAULT: Optional[Device] = None


def default_device() -> Device:
    """The device that functions use which are given none; opened at the first use."""
    global _DEFAULT
    if _DEFAULT is None or not _DEFAULT._handle:
        _DEFAULT = Device()
    return _DEFAULT


def buffer_of(array: npt.NDArray[Any]) -> Optional[tuple[Any, int]]:
    """The buffer behind an array of :meth:`Device.empty` or a view of one, and the array's offset in bytes."""
    root: Any = array
    while isinstance(root, np.ndarray) and root.base is not None:
        root = root.base
    address = int(array.__array_interface__["data"][0])
    if isinstance(root, _Memory):
        return root.owned, address - root.address
    # What came back through DLPack has a capsule for its base: memory that is alive is known by its address.
    for memory in list(_MEMORY.values()):
        if memory.address <= address and address + array.nbytes <= memory.address + memory.length:
            return memory.owned, address - memory.address
    return None


def as_array(values: Any) -> npt.NDArray[Any]:
    """``values`` as a NumPy array: without a copy where they speak the buffer protocol, NumPy's array interface or
    DLPack (an array of PyTorch, JAX or CuPy whose memory the host can see).

    Raises ``BufferError`` or ``RuntimeError``, NumPy's own, for memory of a GPU that the host cannot see.
    """
    if not hasattr(values, "__array_interface__") and hasattr(values, "__dlpack__"):
        return np.from_dlpack(values)
    return np.asarray(values)
