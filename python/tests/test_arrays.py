"""Arrays in the device's memory, products and kernels."""

from pathlib import Path
from typing import Any, Union

import numpy as np
import pytest

import ironbridge
from ironbridge.device import buffer_of


def test_products_are_right(balanced: None) -> None:
    random = np.random.default_rng(1)
    for m, n, k in ((1, 5, 3), (7, 33, 64), (40, 40, 100)):
        a = random.uniform(-1, 1, (m, k)).astype(np.float32)
        b = random.uniform(-1, 1, (k, n)).astype(np.float32)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        # The error of k sums in float32: Higham, Accuracy and Stability of Numerical Algorithms, 3.1.
        bound = k * np.finfo(np.float32).eps * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
        assert (np.abs(ironbridge.matmul(a, b) - exact) <= bound).all()


def test_device_memory_is_used_in_place(balanced: None) -> None:
    device = ironbridge.default_device()
    a = device.array([[1, 2], [3, 4]], dtype=np.float32)
    b = device.array([[0, 1], [1, 0]], dtype=np.float32)
    out = device.empty((2, 2))
    result = ironbridge.matmul(a, b, out=out)
    assert result is out
    assert out.tolist() == [[2, 1], [4, 3]]
    # The device reads what NumPy writes.
    a[0, 0] = 10
    ironbridge.matmul(a, b, out=out)
    assert out.tolist() == [[2, 10], [4, 3]]
    # A view of rows is used where it is.
    rows = device.empty((3, 2))
    ironbridge.matmul(a, b, out=rows[1:])
    assert rows.tolist() == [[0, 0], [2, 10], [4, 3]]


def test_an_array_keeps_its_memory(balanced: None) -> None:
    view = ironbridge.default_device().array(np.arange(10, dtype=np.float32))[5:]
    assert view.tolist() == [5, 6, 7, 8, 9]


class Foreign:
    """An array of another library: it speaks DLPack alone."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __dlpack__(self, **options: object) -> object:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_dlpack_shares_the_memory_and_keeps_it(balanced: None) -> None:
    device = ironbridge.default_device()
    a = device.array([[1, 2], [3, 4]], dtype=np.float32)
    seen = np.from_dlpack(Foreign(a))
    assert seen.__array_interface__["data"][0] == a.__array_interface__["data"][0]
    a[0, 0] = 10
    assert seen[0, 0] == 10
    # Back again it is still the device's own memory: nothing is copied.
    assert buffer_of(seen) == buffer_of(a)
    out = device.empty((2, 2))
    ironbridge.matmul(Foreign(seen), Foreign(np.eye(2, dtype=np.float32)), out=out)
    assert out.tolist() == [[10, 2], [3, 4]]
    # The array that it was made of may go.
    del a
    assert seen.tolist() == [[10, 2], [3, 4]]
    ironbridge.matmul(seen, seen, out=out)
    assert out.tolist() == [[106, 28], [42, 22]]


def test_operands_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        ironbridge.matmul(np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32))
    with pytest.raises(ValueError, match="float64 is no type"):
        ironbridge.matmul(np.zeros((2, 2)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="out must be"):
        ironbridge.matmul(np.zeros((2, 2), np.float32), np.zeros((2, 2), np.float32), out=np.zeros((2, 2), np.float32))
    with pytest.raises(ironbridge.DeviceError, match="no device"):
        ironbridge.Device("99")


SOURCE = """
#include <metal_stdlib>
using namespace metal;
kernel void scale(device float *values [[buffer(0)]], constant float &factor [[buffer(1)]],
                  constant int &offset [[buffer(2)]], uint index [[thread_position_in_grid]]) {
  values[index] = values[index] * factor + offset;
}
"""


TEXTURES = """
#include <metal_stdlib>
using namespace metal;
kernel void shift(texture2d<float> in [[texture(0)]], texture2d<uint, access::write> out [[texture(1)]],
                  sampler s [[sampler(0)]], constant float &by [[buffer(0)]], uint2 i [[thread_position_in_grid]]) {
  out.write(uint4(round(in.sample(s, float2(i) + float2(0.5f + by, 0.5f)) * 255)), i);
}
"""


def test_textures_of_a_kernel(balanced: None) -> None:
    device = ironbridge.default_device()
    texels = device.array(np.arange(60, dtype=np.uint8).reshape(3, 5, 4))
    wide = device.empty((3, 8), np.uint16)
    out = wide[:, :5]
    with ironbridge.Kernel(TEXTURES, "shift") as kernel:
        source, target = ironbridge.Texture(texels, "RGBA8Unorm"), ironbridge.Texture(out, "R16Uint")
        sampler = ironbridge.Sampler(pixels=True, address="clamp_to_zero")
        kernel(source, target, sampler, 1.0, threads=(5, 3), threadgroup=(4, 4))
        assert (out[:, :4] == texels[:, 1:, 0]).all() and (out[:, 4] == 0).all()
        assert (wide[:, 5:] == 0).all()
        kernel(source, target, ironbridge.Sampler(linear=True, pixels=True), 0.5, threads=(5, 3))
        assert (out[:, :4] == (texels[:, 1:, 0] + texels[:, :4, 0].astype(int)) // 2).all()
        with pytest.raises(ValueError, match="argument 0"):
            kernel(ironbridge.Texture(np.zeros((3, 5, 4), np.uint8), "RGBA8Unorm"), threads=(5, 3))
        with pytest.raises(ValueError, match="dimensions"):
            kernel(source, target, sampler, 1.0, threads=(1, 1, 1, 1))
    for array, name in ((texels, "R8Unorm"), (texels, "RGBA8Sint"), (texels[:, ::2], "RGBA8Uint"), (texels, "BC1")):
        with pytest.raises(ValueError, match=name):
            ironbridge.Texture(array, name)
    with pytest.raises(ValueError, match="address"):
        ironbridge.Sampler(address="wrap")


SHAPES = """
#include <metal_stdlib>
using namespace metal;
kernel void line(texture1d<uint, access::read_write> t [[texture(0)]], uint i [[thread_position_in_grid]]) {
  t.write(t.read(i) + i, i);
}
kernel void lines(texture1d_array<uint, access::read_write> t [[texture(0)]], uint2 i [[thread_position_in_grid]]) {
  t.write(t.read(i.x, i.y) + i.x + 10 * i.y, i.x, i.y);
}
kernel void sheets(texture2d_array<uint, access::read_write> t [[texture(0)]], uint3 i [[thread_position_in_grid]]) {
  t.write(t.read(i.xy, i.z) + i.x + 10 * i.y + 100 * i.z, i.xy, i.z);
}
kernel void solid(texture3d<uint, access::read_write> t [[texture(0)]], uint3 i [[thread_position_in_grid]]) {
  t.write(t.read(i) + i.x + 10 * i.y + 100 * i.z, i);
}
kernel void faces(texturecube<uint, access::read_write> t [[texture(0)]], uint3 i [[thread_position_in_grid]]) {
  t.write(t.read(i.xy, i.z) + i.x + 10 * i.y + 100 * i.z, i.xy, i.z);
}
kernel void cubes(texturecube_array<uint, access::read_write> t [[texture(0)]],
                  uint3 i [[thread_position_in_grid]]) {
  t.write(t.read(i.xy, i.z % 6, i.z / 6) + i.x + 10 * i.y + 100 * i.z, i.xy, i.z % 6, i.z / 6);
}
kernel void row(texture_buffer<uint, access::read_write> t [[texture(0)]], uint i [[thread_position_in_grid]]) {
  t.write(t.read(i) + i, i);
}
"""


@pytest.mark.parametrize(
    ("name", "shape", "extents"),
    [
        ("line", "1d", (7,)),
        ("row", "buffer", (9,)),
        ("lines", "1d_array", (3, 5)),
        ("sheets", "2d_array", (2, 3, 4)),
        ("solid", "3d", (4, 2, 3)),
        ("faces", "cube", (6, 3, 3)),
        ("cubes", "cube_array", (2, 6, 2, 2)),
    ],
)
@pytest.mark.parametrize("components", [1, 2])
def test_textures_of_every_shape(
    balanced: None, name: str, shape: str, extents: tuple[int, ...], components: int
) -> None:
    device = ironbridge.default_device()
    # Rows lie apart where there are several.
    apart = (*extents[:-1], extents[-1] + 3 * (len(extents) > 1), *[2] * (components == 2))
    whole = device.array((np.arange(np.prod(apart)) % 251).astype(np.uint32).reshape(apart))
    part = whole[..., : extents[-1], :] if components == 2 else whole[..., : extents[-1]]
    before = whole.copy()
    texture = ironbridge.Texture(part, "R32Uint" if components == 1 else "RG32Uint", shape)
    threads = (*(n for n in extents[:-3:-1]), int(np.prod(extents[:-2]))) if len(extents) > 1 else extents
    with ironbridge.Kernel(SHAPES, name) as kernel:
        kernel(texture, threads=threads[: 3 if len(extents) > 2 else len(extents)], threadgroup=(4, 2, 2))
    added = np.zeros(extents, np.uint32)
    for axis, factor in zip(range(1, 4), (1, 10, 100)):
        if axis > len(extents):
            break
        index = np.arange(np.prod(extents[:-2]) if axis == 3 else extents[-axis], dtype=np.uint32)
        if axis == 3:
            added += factor * index.reshape((*extents[:-2], 1, 1))
        else:
            added += factor * index.reshape((-1, *[1] * (axis - 1)))
    expected = before.copy()
    target = expected[..., : extents[-1], :] if components == 2 else expected[..., : extents[-1]]
    target += added[..., None] if components == 2 else added
    assert (whole == expected).all()


def test_arrays_that_are_no_textures(balanced: None) -> None:
    device = ironbridge.default_device()
    array = device.empty((5, 4, 4), np.uint8)
    for shape in ("1d", "2d", "cube", "cube_array", "buffer"):
        with pytest.raises(ValueError, match="wants uint8 of the shape"):
            ironbridge.Texture(array, "R8Uint", shape)
    with pytest.raises(ValueError, match="no shape of textures"):
        ironbridge.Texture(array, "R8Uint", "4d")
    for wrong in (array[::-1], array[:, ::-1], array[:, :, ::2], array[:0], np.broadcast_to(array[:1], (5, 4, 4))):
        with pytest.raises(ValueError, match="elements, height, width"):
            ironbridge.Texture(wrong, "R8Uint", "2d_array")
    with ironbridge.Kernel(SHAPES, "solid") as kernel:
        with pytest.raises(ironbridge.ArgumentError, match="its shape is 2D array, and the kernel takes 3D"):
            kernel(ironbridge.Texture(array, "R8Uint", "2d_array"), threads=(1, 1, 1))


CONSTANTS = """
#include "shape.h"
using namespace metal;
constant float scale [[function_constant(0)]];
constant bool twice [[function_constant(1)]];
constant short3 shifts [[function_constant(2)]];
constant half2 halves [[function_constant(3)]];
kernel void show(device float *out [[buffer(0)]], constant uint &count [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  if (i < count) out[i] = (twice ? 2 : 1) * scale * SIZE + shifts[i % 3] + float(halves.x - halves.y) + MORE;
}
kernel void other(device half4 *out [[buffer(2)]], const device float *in [[buffer(0)]],
                  threadgroup float *shared [[threadgroup(1)]]) {}
"""


def test_a_library_of_kernels(balanced: None, tmp_path: Path) -> None:
    (tmp_path / "shape.h").write_text("#include <metal_stdlib>\n#define SIZE 10\n")
    values = ironbridge.default_device().empty(6, np.float32)
    with ironbridge.Library(CONSTANTS, include=[tmp_path], macros={"MORE": 100, "NONE": None}, version=300) as library:
        assert library.kernels == ["show", "other"]
        constants: dict[Union[int, str], Any] = {
            "scale": 0.5,
            1: True,
            "shifts": np.array([-1, 0, 7], np.int16),
            3: np.array([2.5, 0.5], np.float16),
        }
        with library.kernel("show", constants) as kernel:
            kernel(values, np.uint32(6), threads=6)
            assert values.tolist() == [111.0, 112.0, 119.0] * 2
        arguments = library.kernel("other").arguments
        found = [(one.kind, one.index, one.access, one.bytes, one.alignment) for one in arguments]
        assert found[:2] == [("buffer", 2, "read_write", 0, 8), ("buffer", 0, "read", 0, 4)]
        assert found[2][:2] == ("threadgroup", 1)
        with pytest.raises(ironbridge.CompileError, match="scale.*is a float and was given int"):
            library.kernel("show", {"scale": 1})
        with pytest.raises(ironbridge.NotFoundError, match="hide"):
            library.kernel("hide")
        for wrong in (np.zeros(5, np.int16), np.zeros((2, 2), np.int16), np.zeros(2), np.complex64(1)):
            with pytest.raises(ValueError, match="'shifts' cannot be"):
                library.kernel("show", {"shifts": wrong})
    with pytest.raises(ironbridge.CompileError, match="shape.h"):
        ironbridge.Library(CONSTANTS)
    with pytest.raises(ValueError, match="math"):
        ironbridge.Library(CONSTANTS, math="quick")
    with pytest.raises(ironbridge.UnsupportedError):
        ironbridge.Library(SOURCE, version=990)


def test_a_kernel_of_ones_own(balanced: None) -> None:
    device = ironbridge.default_device()
    values = device.array(np.arange(1000, dtype=np.float32))
    with ironbridge.Kernel(SOURCE, "scale") as kernel:
        kernel(values, 0.5, 3, threads=1000)
        assert (values == np.arange(1000, dtype=np.float32) * 0.5 + 3).all()
        with pytest.raises(ValueError, match="argument 0"):
            kernel(np.zeros(4, np.float32), 0.5, 3, threads=4)
    with pytest.raises(ironbridge.CompileError, match="error"):
        ironbridge.Kernel("kernel void broken(device float *x) { y }", "broken")
    with pytest.raises(ironbridge.NotFoundError):
        ironbridge.Kernel(SOURCE, "none")
