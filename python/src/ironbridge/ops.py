"""Matrix products."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from ._library import ffi, lib, sized
from .device import Device, as_array, buffer_of, default_device
from .errors import check

_DTYPES = {np.dtype(np.float32): "IRON_F32", np.dtype(np.float16): "IRON_F16", np.dtype(np.uint32): "IRON_U32"}


def _tensor(device: Device, array: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], dict[str, Any]]:
    """The operand of an array: of its own memory where that is the device's, else of a copy."""
    if array.dtype not in _DTYPES:
        raise ValueError(f"{array.dtype} is no type of operands; float32 and float16 are")
    if buffer_of(array) is None or not array.flags.c_contiguous:
        array = device.array(array)
    place = buffer_of(array)
    assert place is not None
    return array, {"buffer": place[0], "offset": place[1], "dtype": getattr(lib, _DTYPES[array.dtype])}


def matmul(
    a: Any, b: Any, out: Optional[npt.NDArray[Any]] = None, device: Optional[Device] = None
) -> npt.NDArray[Any]:
    """``a @ b`` for ``a`` of m × k and ``b`` of k × n, both float32 or both float16, with float32 accumulation.

    ``a`` and ``b`` are arrays, or anything with ``__dlpack__``. Those of :meth:`Device.empty` are used as they are, also
    when they come back through DLPack; others are copied to the device. The result is an array of the
    device's memory, ``out`` where it is given (m × n, of :meth:`Device.empty`).

    Raises ``ValueError`` for shapes and types that do not fit.
    """
    device = device or default_device()
    left, right = as_array(a), as_array(b)
    if left.ndim != 2 or right.ndim != 2 or left.shape[1] != right.shape[0]:
        raise ValueError(f"matmul: {left.shape} and {right.shape} do not fit")
    (m, k), n = left.shape, right.shape[1]
    result = device.empty((m, n), left.dtype) if out is None else out
    if result.shape != (m, n) or result.dtype != left.dtype or buffer_of(result) is None:
        raise ValueError(f"matmul: out must be an array of Device.empty of {(m, n)} and {left.dtype}")
    if not result.flags.c_contiguous:
        raise ValueError("matmul: out must be contiguous")
    left, first = _tensor(device, left)
    right, second = _tensor(device, right)
    _, third = _tensor(device, result)
    described = sized("iron_matmul", m=m, n=n, k=k, a=first, b=second, c=third)
    place = ffi.new("iron_commands **")
    check(lib.iron_commands_begin(device._handle, ffi.NULL, place))
    commands = ffi.gc(place[0], lib.iron_commands_release)
    check(lib.iron_encode_matmul(commands, described))
    check(lib.iron_commands_run(commands))
    return result
