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
kernel void solid(texture3d<float> t [[texture(0)]], device float *out [[buffer(0)]]) { out[0] = t.read(uint3(0)).x; }
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
        Argument::write(0, &floats),
    ];
    refused(&solid, &flat, Status::Unsupported, "only 2D ones");
}
