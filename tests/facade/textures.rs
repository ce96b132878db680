//! Textures of kernels, from a buffer to a kernel of Metal source and back.

use ironbridge::kernel::{
    AddressMode, Argument, ArgumentKind, Dispatch, Grid, Kernel, Library, PixelFormat, Sampler,
    Texture, TextureValue,
};
use ironbridge::{Device, Error, Status};

use crate::support::assert_status;

const SOURCE: &str = "#include <metal_stdlib>
using namespace metal;
kernel void invert(texture2d<half, access::read> from [[texture(0)]], texture2d<half, access::write> to [[texture(1)]],
                   uint2 i [[thread_position_in_grid]]) {
  half4 color = from.read(i);
  to.write(half4(1 - color.rgb, color.a), i);
}
kernel void twice_as_large(texture2d<float> from [[texture(0)]], texture2d<float, access::write> to [[texture(5)]],
                           sampler s [[sampler(3)]], uint2 i [[thread_position_in_grid]]) {
  to.write(from.sample(s, (float2(i) + 0.5) / float2(to.get_width(), to.get_height())), i);
}
kernel void count(texture2d<uint, access::read_write> t [[texture(0)]], uint2 i [[thread_position_in_grid]]) {
  t.write(t.read(i) + 1, i);
}
kernel void line(texture1d<float, access::read_write> t [[texture(0)]], uint3 i [[thread_position_in_grid]]) {
  if (i.x < t.get_width() - 1) t.write(t.read(i.x) * 2 + float(i.x), i.x);
}
kernel void lines(texture1d_array<int, access::read_write> t [[texture(0)]], uint3 i [[thread_position_in_grid]]) {
  t.write(t.read(i.x, i.y) + int(i.x + 100 * i.y), i.x, i.y);
}
kernel void sheets(texture2d_array<uint, access::read_write> t [[texture(0)]], uint3 i [[thread_position_in_grid]]) {
  t.write(t.read(i.xy, i.z) + i.x + 10 * i.y + 100 * i.z, i.xy, i.z);
}
kernel void solid(texture3d<float> from [[texture(0)]], texture3d<float, access::write> to [[texture(1)]],
                  sampler s [[sampler(0)]], uint3 i [[thread_position_in_grid]]) {
  float3 size = float3(from.get_width(), from.get_height(), from.get_depth());
  to.write(from.sample(s, (float3(i) + 1) / size), i);
}
kernel void faces(texturecube<float> t [[texture(0)]], device float *out [[buffer(0)]], sampler s [[sampler(0)]],
                  uint i [[thread_position_in_grid]]) {
  const float3 axes[] = {float3(1, 0, 0), float3(-1, 0, 0), float3(0, 1, 0), float3(0, -1, 0), float3(0, 0, 1),
                         float3(0, 0, -1)};
  out[i] = t.sample(s, axes[i]).x;
}
kernel void cubes(texturecube_array<uint, access::read_write> t [[texture(0)]], uint3 i [[thread_position_in_grid]]) {
  t.write(t.read(i.xy, i.z % 6, i.z / 6) + i.x + 10 * i.y + 100 * i.z, i.xy, i.z % 6, i.z / 6);
}
kernel void row(texture_buffer<float, access::read_write> t [[texture(0)]], uint3 i [[thread_position_in_grid]]) {
  if (i.x < t.get_width()) t.write(1 - t.read(i.x), i.x);
}
kernel void many(texture2d_ms<float> t [[texture(0)]], device float *out [[buffer(0)]]) {
  out[0] = t.read(uint2(0), 0).x;
}
";

fn kernel(device: &Device, name: &str) -> Kernel {
    let library = Library::from_source(device, SOURCE).unwrap();
    library.kernel(name).unwrap()
}

fn run(
    device: &Device,
    kernel: &Kernel,
    arguments: &[Argument],
    grid: [u32; 3],
) -> ironbridge::Result<()> {
    let mut commands = device.commands()?;
    let dispatch = Dispatch {
        arguments,
        grid: Grid::Threads(grid),
        threadgroup: [8, 4, 1],
    };
    // SAFETY: these kernels touch their textures alone, which drop what is outside.
    unsafe { commands.dispatch(kernel, &dispatch)? };
    commands.run()
}

#[test]
fn pictures_go_through_a_kernel() {
    let device = Device::open("cpu").unwrap();
    let invert = kernel(&device, "invert");
    // Rows of 5 BGRA texels, 24 bytes apart, behind 4 others; more threads than texels.
    let bytes: Vec<u8> = (0..4 + 24 * 3).map(|i| (i * 7 % 256) as u8).collect();
    let from = device.buffer_from(&bytes).unwrap();
    let to = device.buffer_from(&[9u8; 5 * 3 * 4]).unwrap();
    let padded = Texture::new(PixelFormat::Bgra8Unorm, 5, 3).row_bytes(24);
    let packed = Texture::new(PixelFormat::Rgba8Unorm, 5, 3);
    let arguments = [
        Argument::read(0, &from).texture(padded).offset(4),
        Argument::write(1, &to).texture(packed),
    ];
    run(&device, &invert, &arguments, [8, 4, 1]).unwrap();
    let expected: Vec<u8> = (0..3)
        .flat_map(|y| (0..5).map(move |x| 4 + 24 * y + 4 * x))
        .flat_map(|at| {
            let [b, g, r, a]: [u8; 4] = bytes[at..at + 4].try_into().unwrap();
            [255 - r, 255 - g, 255 - b, a]
        })
        .collect();
    let near = |(x, y): (&u8, &u8)| x.abs_diff(*y) <= 1; // half has fewer steps near 1
    assert!(to.to_vec().unwrap().iter().zip(&expected).all(near));
}

#[test]
fn samplers_filter_and_repeat() {
    let device = Device::open("cpu").unwrap();
    let larger = kernel(&device, "twice_as_large");
    let from = device.buffer_from(&[0.0f32, 4.0]).unwrap();
    let to = device.buffer_from(&[9f32; 4]).unwrap();
    let small = Texture::new(PixelFormat::R32Float, 2, 1);
    let large = Texture::new(PixelFormat::R32Float, 4, 1);
    let with = |sampler| {
        let arguments = [
            Argument::read(0, &from).texture(small),
            Argument::write(5, &to).texture(large),
            Argument::sampler(3, sampler),
        ];
        run(&device, &larger, &arguments, [4, 1, 1]).unwrap();
        to.to_vec().unwrap()
    };
    assert_eq!(with(Sampler::default()), [0.0, 0.0, 4.0, 4.0]);
    let linear = Sampler::default().linear(true);
    assert_eq!(with(linear), [0.0, 1.0, 3.0, 4.0]);
    let repeats = linear.address([AddressMode::Repeat; 3]);
    assert_eq!(with(repeats), [1.0, 1.0, 3.0, 3.0]);
}

#[test]
fn dispatches_of_one_texture_are_in_order() {
    let device = Device::open("cpu").unwrap();
    let count = kernel(&device, "count");
    let texels = device.buffer_from(&[5u8; 6]).unwrap();
    let texture = Texture::new(PixelFormat::R8Uint, 3, 2);
    let mut commands = device.commands().unwrap();
    for _ in 0..40 {
        let dispatch = Dispatch {
            arguments: &[Argument::read_write(0, &texels).texture(texture)],
            grid: Grid::Threads([3, 2, 1]),
            threadgroup: [3, 2, 1],
        };
        // SAFETY: as in `run`.
        unsafe { commands.dispatch(&count, &dispatch).unwrap() };
    }
    commands.run().unwrap();
    assert_eq!(texels.to_vec().unwrap(), [45; 6]);
}

#[test]
fn a_kernel_says_which_textures_it_takes() {
    let device = Device::open("cpu").unwrap();
    let wanted = kernel(&device, "twice_as_large").arguments().unwrap();
    let kinds: Vec<_> = wanted.iter().map(|it| (it.kind, it.index)).collect();
    assert_eq!(
        kinds,
        [
            (ArgumentKind::Texture, 0),
            (ArgumentKind::Texture, 5),
            (ArgumentKind::Sampler, 3)
        ]
    );
    assert!(wanted[0].readable && !wanted[0].writable);
    assert!(!wanted[1].readable && wanted[1].writable);
    let texture = wanted[0].texture.unwrap();
    assert_eq!((texture.kind, texture.value), (2, TextureValue::Float));
    let counted = kernel(&device, "count").arguments().unwrap();
    assert!(counted[0].readable && counted[0].writable);
    assert_eq!(counted[0].texture.unwrap().value, TextureValue::Unsigned);
    assert_eq!(wanted[2].texture, None);
}

#[test]
fn what_is_no_texture_of_a_kernels_is_refused() {
    let device = Device::open("cpu").unwrap();
    let (count, solid) = (kernel(&device, "count"), kernel(&device, "solid"));
    let bytes = device.buffer_from(&[0u8; 64]).unwrap();
    let floats = device.buffer_from(&[0f32; 4]).unwrap();
    let byte = |width, height| Texture::new(PixelFormat::R8Uint, width, height);
    let refused = |kernel: &Kernel, arguments: &[Argument], status, text: &str| {
        let error = run(&device, kernel, arguments, [1, 1, 1]).unwrap_err();
        assert!(error.to_string().contains(text), "{text}: {error}");
        assert_status(Err::<(), Error>(error), status);
    };
    let given = |index, texture| [Argument::read_write(index, &bytes).texture(texture)];
    let invalid = Status::InvalidArgument;
    let far = Status::OutOfRange;
    refused(&count, &[], invalid, "texture index 0");
    refused(&count, &given(128, byte(1, 1)), far, "the last one is 127");
    refused(&count, &given(0, byte(0, 1)), far, "width 0");
    refused(&count, &given(0, byte(1, 16385)), far, "height 16385");
    refused(&count, &given(0, byte(13, 5)), far, "65 bytes");
    refused(
        &count,
        &given(0, byte(8, 1).row_bytes(7)),
        far,
        "row_bytes 7",
    );
    let wide = Texture::new(PixelFormat::R32Uint, 2, 2).row_bytes(10);
    refused(&count, &given(0, wide), invalid, "multiples of 4");
    let float = Texture::new(PixelFormat::R8Unorm, 1, 1);
    refused(&count, &given(0, float), invalid, "takes unsigned integers");
    let twice = [given(0, byte(1, 1))[0], given(0, byte(1, 1))[0]];
    refused(&count, &twice, invalid, "given twice");
    let pixels = Sampler::default()
        .pixels(true)
        .address([AddressMode::Repeat; 3]);
    let sampled = [given(0, byte(1, 1))[0], Argument::sampler(0, pixels)];
    refused(&count, &sampled, invalid, "repeats");
    let beyond = [
        given(0, byte(1, 1))[0],
        Argument::sampler(16, Sampler::default()),
    ];
    refused(&count, &beyond, far, "the last one is 15");
    let flat = [
        Argument::read(0, &bytes).texture(float),
        Argument::write(1, &floats).texture(float),
        Argument::sampler(0, Sampler::default()),
    ];
    refused(
        &solid,
        &flat,
        invalid,
        "its shape is 2D, and the kernel takes 3D",
    );
    let many = kernel(&device, "many");
    let unsupported = Status::Unsupported;
    refused(&many, &flat[..1], unsupported, "MTLTextureType 4");
}

#[test]
fn what_is_no_texture_of_another_shape_is_refused() {
    let device = Device::open("cpu").unwrap();
    let bytes = device.buffer_from(&[0u8; 64]).unwrap();
    let sheets = kernel(&device, "sheets");
    let format = PixelFormat::R8Uint;
    let refused = |texture: Texture, status, text: &str| {
        let arguments = [Argument::read_write(0, &bytes).texture(texture)];
        let error = run(&device, &sheets, &arguments, [1, 1, 1]).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("arguments[0]: ") && message.contains(text),
            "{text}: {message}"
        );
        assert_status(Err::<(), Error>(error), status);
    };
    let (far, invalid) = (Status::OutOfRange, Status::InvalidArgument);
    let sheet = |layers| Texture::new_2d_array(format, 4, 4, layers);
    refused(sheet(0), far, "layers 0, 1 to 2048");
    refused(sheet(2049), far, "layers 2049");
    refused(sheet(5), far, "a texture of 80 bytes");
    refused(
        sheet(2).slice_bytes(15),
        far,
        "slice_bytes 15, a slice has 16",
    );
    refused(sheet(2).slice_bytes(49), far, "a texture of 65 bytes");
    refused(sheet(2).slice_bytes(u32::MAX), far, "the buffer has 64");
    refused(sheet(2048).row_bytes(u32::MAX), far, "at most 32767 texels");
    let wide = Texture::new_2d_array(PixelFormat::R32Uint, 1, 1, 2);
    refused(
        wide.slice_bytes(6),
        invalid,
        "slice_bytes 6 are to be multiples of 4",
    );
    refused(Texture::new_3d(format, 2049, 1, 1), far, "width 2049");
    refused(Texture::new_3d(format, 1, 1, 0), far, "layers 0");
    refused(Texture::new_cube(format, 0), far, "width 0");
    refused(Texture::new_cube_array(format, 1, 342), far, "layers 342");
    refused(Texture::new_1d(format, 16385), far, "width 16385");
    refused(
        Texture::new_buffer(format, (1 << 28) + 1),
        far,
        "width 268435457",
    );
    refused(
        Texture::new_buffer(format, 65),
        far,
        "a texture of 65 bytes",
    );
    let most = Texture::new_cube_array(PixelFormat::Rgba32Uint, 16384, 341);
    refused(most, far, "the buffer has 64");
    for (texture, name) in [
        (Texture::new_1d(format, 4), "1D"),
        (Texture::new_1d_array(format, 4, 2), "1D array"),
        (Texture::new(format, 4, 4), "2D"),
        (Texture::new_3d(format, 4, 4, 2), "3D"),
        (Texture::new_cube(format, 2), "cube"),
        (Texture::new_cube_array(format, 2, 2), "cube array"),
        (Texture::new_buffer(format, 4), "buffer"),
    ] {
        let text = format!("its shape is {name}, and the kernel takes 2D array");
        refused(texture, invalid, &text);
    }
    let float = Texture::new_2d_array(PixelFormat::R8Unorm, 1, 1, 1);
    refused(float, invalid, "takes unsigned integers");
}

#[test]
fn lines_and_rows_of_texels_are_textures() {
    let device = Device::open("cpu").unwrap();
    let floats: Vec<f32> = (0..9).map(|i| i as f32 * 0.5 - 1.0).collect();
    let buffer = device.buffer_from(&floats).unwrap();
    let texture = Texture::new_1d(PixelFormat::R32Float, 6);
    let argument = Argument::read_write(0, &buffer).texture(texture).offset(8);
    run(&device, &kernel(&device, "line"), &[argument], [6, 1, 1]).unwrap();
    let mut expected = floats.clone();
    for i in 0..5 {
        expected[2 + i] = floats[2 + i] * 2.0 + i as f32; // the sixth texel is not written
    }
    assert_eq!(buffer.to_vec().unwrap(), expected);

    let argument = Argument::read_write(0, &buffer);
    let texture = Texture::new_buffer(PixelFormat::R32Float, 7);
    let arguments = [argument.texture(texture).offset(4)];
    run(&device, &kernel(&device, "row"), &arguments, [9, 1, 1]).unwrap();
    for texel in &mut expected[1..8] {
        *texel = 1.0 - *texel;
    }
    assert_eq!(buffer.to_vec().unwrap(), expected);

    // Three rows of four, five apart.
    let numbers: Vec<i8> = (0..15).map(|i| 7 * i - 40).collect();
    let buffer = device.buffer_from(&numbers).unwrap();
    let texture = Texture::new_1d_array(PixelFormat::R8Sint, 4, 3).slice_bytes(5);
    let arguments = [Argument::read_write(0, &buffer).texture(texture)];
    run(&device, &kernel(&device, "lines"), &arguments, [4, 3, 1]).unwrap();
    let expected: Vec<i8> = (0..15)
        .map(|i| match i % 5 {
            4 => numbers[i],
            x => (i32::from(numbers[i]) + (x + 100 * (i / 5)) as i32).min(127) as i8,
        })
        .collect();
    assert_eq!(buffer.to_vec().unwrap(), expected);
}

/// What kernels of the form `t[x, y, z] += x + 10 y + 100 z` leave of bytes, rows and slices so far apart.
fn counted(before: &[u8], offset: usize, size: [usize; 3], row: usize, slice: usize) -> Vec<u8> {
    let mut after = before.to_vec();
    for (z, y, x) in (0..size[2])
        .flat_map(|z| (0..size[1]).flat_map(move |y| (0..size[0]).map(move |x| (z, y, x))))
    {
        let sum =
            u32::from(before[offset + z * slice + y * row + x]) + (x + 10 * y + 100 * z) as u32;
        after[offset + z * slice + y * row + x] = sum.min(255) as u8;
    }
    after
}

#[test]
fn arrays_and_cubes_are_copied_there_and_back() {
    let device = Device::open("cpu").unwrap();
    let before: Vec<u8> = (0..400).map(|i| (i * 31 % 97) as u8).collect();
    let format = PixelFormat::R8Uint;
    for (name, texture, offset, size, row, slice) in [
        (
            "sheets",
            Texture::new_2d_array(format, 5, 3, 2),
            0,
            [5, 3, 2],
            5,
            15,
        ),
        (
            "sheets",
            Texture::new_2d_array(format, 5, 3, 2).row_bytes(8),
            3,
            [5, 3, 2],
            8,
            24,
        ),
        (
            "sheets",
            Texture::new_2d_array(format, 5, 3, 2)
                .row_bytes(7)
                .slice_bytes(40),
            1,
            [5, 3, 2],
            7,
            40,
        ),
        (
            "cubes",
            Texture::new_cube_array(format, 3, 2).slice_bytes(30),
            2,
            [3, 3, 12],
            3,
            30,
        ),
    ] {
        let buffer = device.buffer_from(&before).unwrap();
        let arguments = [Argument::read_write(0, &buffer)
            .texture(texture)
            .offset(offset)];
        let grid = size.map(|extent| extent as u32);
        run(&device, &kernel(&device, name), &arguments, grid).unwrap();
        let expected = counted(&before, offset, size, row, slice);
        assert_eq!(buffer.to_vec().unwrap(), expected, "{texture:?}");
    }
    // One after the other in the same commands.
    let buffer = device.buffer_from(&before).unwrap();
    let sheets = kernel(&device, "sheets");
    let texture = Texture::new_2d_array(format, 2, 2, 2);
    let mut commands = device.commands().unwrap();
    for _ in 0..3 {
        let dispatch = Dispatch {
            arguments: &[Argument::read_write(0, &buffer).texture(texture)],
            grid: Grid::Threads([2, 2, 2]),
            threadgroup: [2, 2, 2],
        };
        // SAFETY: as in `run`.
        unsafe { commands.dispatch(&sheets, &dispatch).unwrap() };
    }
    commands.run().unwrap();
    let mut expected = before;
    for _ in 0..3 {
        expected = counted(&expected, 0, [2, 2, 2], 2, 4);
    }
    assert_eq!(buffer.to_vec().unwrap(), expected);
}

#[test]
fn solids_and_cubes_are_sampled() {
    let device = Device::open("cpu").unwrap();
    const SIZE: [usize; 3] = [4, 3, 5];
    let [width, height, depth] = SIZE;
    let texel = |x: usize, y: usize, z: usize| (x * x + 3 * y + 7 * z * y) as f64 / 8.0;
    let each = || {
        (0..depth).flat_map(|z| (0..height).flat_map(move |y| (0..width).map(move |x| [x, y, z])))
    };
    let from: Vec<f32> = each().map(|[x, y, z]| texel(x, y, z) as f32).collect();
    let from = device.buffer_from(&from).unwrap();
    let to = device
        .buffer_from(&vec![9f32; width * height * depth])
        .unwrap();
    let [w, h, d] = SIZE.map(|extent| extent as u32);
    let texture = Texture::new_3d(PixelFormat::R32Float, w, h, d);
    let arguments = [
        Argument::read(0, &from).texture(texture),
        Argument::write(1, &to).texture(texture),
        Argument::sampler(0, Sampler::default().linear(true)),
    ];
    run(&device, &kernel(&device, "solid"), &arguments, [w, h, d]).unwrap();
    // Halfway between a texel and the next along each axis; the last one again at the edge.
    for ([x, y, z], sampled) in each().zip(to.to_vec().unwrap()) {
        let next = |at: usize, most: usize| [at, (at + 1).min(most - 1)];
        let mut mean = 0.0;
        for x in next(x, width) {
            for y in next(y, height) {
                mean += next(z, depth).map(|z| texel(x, y, z)).iter().sum::<f64>() / 8.0;
            }
        }
        // Seven sums and products of seven weights, all of them at most the largest texel, rounded to f32.
        let bound = 16.0 * f64::from(f32::EPSILON) * texel(width - 1, height - 1, depth - 1);
        assert!(
            (f64::from(sampled) - mean).abs() <= bound,
            "{x} {y} {z}: {sampled}, {mean}"
        );
    }

    let faces: Vec<f32> = (0..6).flat_map(|face| [face as f32; 9]).collect();
    let faces = device.buffer_from(&faces).unwrap();
    let out = device.buffer_from(&[9f32; 6]).unwrap();
    let arguments = [
        Argument::read(0, &faces).texture(Texture::new_cube(PixelFormat::R32Float, 3)),
        Argument::write(0, &out),
        Argument::sampler(0, Sampler::default()),
    ];
    run(&device, &kernel(&device, "faces"), &arguments, [6, 1, 1]).unwrap();
    assert_eq!(out.to_vec().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn copies_of_textures_count_as_memory_of_the_device() {
    let device = Device::open("cpu:memory_limit=1M").unwrap();
    let sheets = kernel(&device, "sheets");
    let buffer = device.buffer_from(&vec![0u8; 640 << 10]).unwrap();
    let texture = Texture::new_2d_array(PixelFormat::R8Uint, 1024, 640, 1);
    let arguments = [Argument::read_write(0, &buffer).texture(texture)];
    let refused = run(&device, &sheets, &arguments, [1, 1, 1]);
    assert_status(refused, Status::OutOfMemory);
    let fits = Texture::new_2d_array(PixelFormat::R8Uint, 1024, 64, 1);
    let arguments = [Argument::read_write(0, &buffer).texture(fits)];
    for _ in 0..20 {
        run(&device, &sheets, &arguments, [1, 1, 1]).unwrap();
    }
}
