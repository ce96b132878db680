//! Textures and samplers of kernels: texels in a buffer, and how they are sampled.

use crate::ffi;

macro_rules! pixel_formats {
    ($($metal:literal $name:ident = $constant:ident,)*) => {
        /// How a texel lies in memory (`iron_pixel_format`). Components are in the order of the name, and as wide as
        /// its number of bits.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u32)]
        pub enum PixelFormat {
            $(
                #[doc = concat!("`MTLPixelFormat", $metal, "`")]
                $name = ffi::$constant,
            )*
        }

        impl PixelFormat {
            /// Every format.
            pub const ALL: &'static [PixelFormat] = &[$(PixelFormat::$name),*];
        }
    };
}

pixel_formats! {
    "R8Unorm" R8Unorm = IRON_PIXEL_R8_UNORM,
    "R8Snorm" R8Snorm = IRON_PIXEL_R8_SNORM,
    "R8Uint" R8Uint = IRON_PIXEL_R8_UINT,
    "R8Sint" R8Sint = IRON_PIXEL_R8_SINT,
    "R16Unorm" R16Unorm = IRON_PIXEL_R16_UNORM,
    "R16Snorm" R16Snorm = IRON_PIXEL_R16_SNORM,
    "R16Uint" R16Uint = IRON_PIXEL_R16_UINT,
    "R16Sint" R16Sint = IRON_PIXEL_R16_SINT,
    "R16Float" R16Float = IRON_PIXEL_R16_FLOAT,
    "RG8Unorm" Rg8Unorm = IRON_PIXEL_RG8_UNORM,
    "RG8Snorm" Rg8Snorm = IRON_PIXEL_RG8_SNORM,
    "RG8Uint" Rg8Uint = IRON_PIXEL_RG8_UINT,
    "RG8Sint" Rg8Sint = IRON_PIXEL_RG8_SINT,
    "R32Uint" R32Uint = IRON_PIXEL_R32_UINT,
    "R32Sint" R32Sint = IRON_PIXEL_R32_SINT,
    "R32Float" R32Float = IRON_PIXEL_R32_FLOAT,
    "RG16Unorm" Rg16Unorm = IRON_PIXEL_RG16_UNORM,
    "RG16Snorm" Rg16Snorm = IRON_PIXEL_RG16_SNORM,
    "RG16Uint" Rg16Uint = IRON_PIXEL_RG16_UINT,
    "RG16Sint" Rg16Sint = IRON_PIXEL_RG16_SINT,
    "RG16Float" Rg16Float = IRON_PIXEL_RG16_FLOAT,
    "RGBA8Unorm" Rgba8Unorm = IRON_PIXEL_RGBA8_UNORM,
    "RGBA8Unorm_sRGB" Rgba8UnormSrgb = IRON_PIXEL_RGBA8_UNORM_SRGB,
    "RGBA8Snorm" Rgba8Snorm = IRON_PIXEL_RGBA8_SNORM,
    "RGBA8Uint" Rgba8Uint = IRON_PIXEL_RGBA8_UINT,
    "RGBA8Sint" Rgba8Sint = IRON_PIXEL_RGBA8_SINT,
    "BGRA8Unorm" Bgra8Unorm = IRON_PIXEL_BGRA8_UNORM,
    "BGRA8Unorm_sRGB" Bgra8UnormSrgb = IRON_PIXEL_BGRA8_UNORM_SRGB,
    "RG32Uint" Rg32Uint = IRON_PIXEL_RG32_UINT,
    "RG32Sint" Rg32Sint = IRON_PIXEL_RG32_SINT,
    "RG32Float" Rg32Float = IRON_PIXEL_RG32_FLOAT,
    "RGBA16Unorm" Rgba16Unorm = IRON_PIXEL_RGBA16_UNORM,
    "RGBA16Snorm" Rgba16Snorm = IRON_PIXEL_RGBA16_SNORM,
    "RGBA16Uint" Rgba16Uint = IRON_PIXEL_RGBA16_UINT,
    "RGBA16Sint" Rgba16Sint = IRON_PIXEL_RGBA16_SINT,
    "RGBA16Float" Rgba16Float = IRON_PIXEL_RGBA16_FLOAT,
    "RGBA32Uint" Rgba32Uint = IRON_PIXEL_RGBA32_UINT,
    "RGBA32Sint" Rgba32Sint = IRON_PIXEL_RGBA32_SINT,
    "RGBA32Float" Rgba32Float = IRON_PIXEL_RGBA32_FLOAT,
}

impl PixelFormat {
    fn native(self) -> ffi::iron_pixel_format {
        self as ffi::iron_pixel_format
    }
}

/// Rows of texels in a buffer, which a kernel has as a texture of one level (`iron_texture`). Extents are texels, 1 to
/// 16384 each, and to 2048 of `new_3d`.
///
/// The kernel works on the buffer's own bytes in textures of [`Texture::new`] and [`Texture::new_buffer`]. Those of
/// other shapes are copies, made before the kernel runs, and copied back after it when it may write: other arguments of
/// the same dispatch do not see what it writes there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a texture does nothing by itself"]
pub struct Texture {
    format: PixelFormat,
    shape: ffi::iron_texture_shape,
    width: u32,
    height: u32,
    layers: u32,
    row_bytes: u32,
    slice_bytes: u32,
}

impl Texture {
    /// `texture2d`: `width` by `height` texels, without gaps between the rows.
    pub fn new(format: PixelFormat, width: u32, height: u32) -> Texture {
        Texture {
            format,
            shape: ffi::IRON_TEXTURE_SHAPE_2D,
            width,
            height,
            layers: 0,
            row_bytes: 0,
            slice_bytes: 0,
        }
    }

    fn shaped(self, shape: ffi::iron_texture_shape, layers: u32) -> Texture {
        Texture {
            shape,
            layers,
            ..self
        }
    }

    /// `texture1d`
    pub fn new_1d(format: PixelFormat, width: u32) -> Texture {
        Texture::new(format, width, 1).shaped(ffi::IRON_TEXTURE_SHAPE_1D, 0)
    }

    /// `texture1d_array`: rows one behind the other, 1 to 2048.
    pub fn new_1d_array(format: PixelFormat, width: u32, layers: u32) -> Texture {
        Texture::new(format, width, 1).shaped(ffi::IRON_TEXTURE_SHAPE_1D_ARRAY, layers)
    }

    /// `texture2d_array`: 2D textures one behind the other, 1 to 2048.
    pub fn new_2d_array(format: PixelFormat, width: u32, height: u32, layers: u32) -> Texture {
        Texture::new(format, width, height).shaped(ffi::IRON_TEXTURE_SHAPE_2D_ARRAY, layers)
    }

    /// `texture3d`: planes one behind the other, 1 to 2048.
    pub fn new_3d(format: PixelFormat, width: u32, height: u32, depth: u32) -> Texture {
        Texture::new(format, width, height).shaped(ffi::IRON_TEXTURE_SHAPE_3D, depth)
    }

    /// `texturecube`: six faces of `size` by `size` texels, in the order +x, -x, +y, -y, +z, -z.
    pub fn new_cube(format: PixelFormat, size: u32) -> Texture {
        Texture::new(format, size, size).shaped(ffi::IRON_TEXTURE_SHAPE_CUBE, 0)
    }

    /// `texturecube_array`: cubes one behind the other, 1 to 341.
    pub fn new_cube_array(format: PixelFormat, size: u32, cubes: u32) -> Texture {
        Texture::new(format, size, size).shaped(ffi::IRON_TEXTURE_SHAPE_CUBE_ARRAY, cubes)
    }

    /// `texture_buffer`: 1 to 2^28 texels in a row.
    pub fn new_buffer(format: PixelFormat, width: u32) -> Texture {
        Texture::new(format, width, 1).shaped(ffi::IRON_TEXTURE_SHAPE_BUFFER, 0)
    }

    /// Bytes from one row to the next: a multiple of a texel's, and of what the device says for `new` on a GPU.
    pub fn row_bytes(mut self, bytes: u32) -> Self {
        self.row_bytes = bytes;
        self
    }

    /// Bytes from one plane, element of an array or face to the next: a multiple of a texel's; else there are no gaps.
    pub fn slice_bytes(mut self, bytes: u32) -> Self {
        self.slice_bytes = bytes;
        self
    }

    pub(super) fn native(self) -> ffi::iron_texture {
        ffi::iron_texture {
            format: self.format.native(),
            width: self.width,
            height: self.height,
            row_bytes: self.row_bytes,
            shape: self.shape,
            layers: self.layers,
            slice_bytes: self.slice_bytes,
            ..Default::default()
        }
    }
}

/// What is taken where a coordinate is outside a texture (`iron_address_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum AddressMode {
    /// The texel at the edge.
    #[default]
    ClampToEdge,
    /// The texture mirrored once, and then the texel at its edge.
    MirrorClampToEdge,
    /// The texture again.
    Repeat,
    /// The texture mirrored, again and again.
    MirrorRepeat,
    /// Zeroes; an alpha of 1 where the format has none.
    ClampToZero,
    /// Zeroes.
    ClampToBorder,
}

/// A `sampler` of a kernel (`iron_texture_sampler`). The default takes the nearest texel, and the one at the edge for
/// what is outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[must_use = "a sampler does nothing by itself"]
pub struct Sampler {
    address: [AddressMode; 3],
    linear: bool,
    pixels: bool,
}

impl Sampler {
    /// What is outside, along x, y and z.
    pub fn address(mut self, modes: [AddressMode; 3]) -> Self {
        self.address = modes;
        self
    }

    /// Whether it takes a mean between the nearest two texels along each axis.
    pub fn linear(mut self, linear: bool) -> Self {
        self.linear = linear;
        self
    }

    /// Whether coordinates count texels; else they are from 0 to 1.
    pub fn pixels(mut self, pixels: bool) -> Self {
        self.pixels = pixels;
        self
    }

    pub(super) fn native(self) -> ffi::iron_texture_sampler {
        ffi::iron_texture_sampler {
            address: self.address.map(|mode| match mode {
                AddressMode::ClampToEdge => ffi::IRON_ADDRESS_CLAMP_TO_EDGE,
                AddressMode::MirrorClampToEdge => ffi::IRON_ADDRESS_MIRROR_CLAMP_TO_EDGE,
                AddressMode::Repeat => ffi::IRON_ADDRESS_REPEAT,
                AddressMode::MirrorRepeat => ffi::IRON_ADDRESS_MIRROR_REPEAT,
                AddressMode::ClampToZero => ffi::IRON_ADDRESS_CLAMP_TO_ZERO,
                AddressMode::ClampToBorder => ffi::IRON_ADDRESS_CLAMP_TO_BORDER,
            }),
            linear: self.linear.into(),
            pixels: self.pixels.into(),
            ..Default::default()
        }
    }
}

/// What a kernel takes a texture for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct TextureInfo {
    /// MTLTextureType. An [`Argument`](super::Argument) can be 0: `texture1d`, 1: `texture1d_array`, 2: `texture2d`, 3:
    /// `texture2d_array`, 5: `texturecube`, 6: `texturecube_array`, 7: `texture3d` and 9: `texture_buffer`.
    pub kind: u32,
    /// Of its components.
    pub value: TextureValue,
}

impl TextureInfo {
    pub(super) fn of(kind: u32, value: u32) -> TextureInfo {
        TextureInfo {
            kind,
            value: match value {
                ffi::IRON_TEXTURE_UINT => TextureValue::Unsigned,
                ffi::IRON_TEXTURE_SINT => TextureValue::Signed,
                _ => TextureValue::Float,
            },
        }
    }
}

/// The numbers that a kernel takes a texture's components for (`iron_texture_value`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TextureValue {
    /// `float` or `half`
    Float,
    /// `uint` or `ushort`
    Unsigned,
    /// `int` or `short`
    Signed,
}
