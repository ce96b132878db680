//! Textures and samplers of kernels: texels in a buffer, and how they are sampled.

use crate::ffi;

/// How a texel lies in memory (`iron_pixel_format`). Components are in the order of the name, and as wide as its number
/// of bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum PixelFormat {
    /// `MTLPixelFormatR8Unorm`
    R8Unorm = ffi::IRON_PIXEL_R8_UNORM,
    /// `MTLPixelFormatR8Snorm`
    R8Snorm = ffi::IRON_PIXEL_R8_SNORM,
    /// `MTLPixelFormatR8Uint`
    R8Uint = ffi::IRON_PIXEL_R8_UINT,
    /// `MTLPixelFormatR8Sint`
    R8Sint = ffi::IRON_PIXEL_R8_SINT,
    /// `MTLPixelFormatR16Unorm`
    R16Unorm = ffi::IRON_PIXEL_R16_UNORM,
    /// `MTLPixelFormatR16Snorm`
    R16Snorm = ffi::IRON_PIXEL_R16_SNORM,
    /// `MTLPixelFormatR16Uint`
    R16Uint = ffi::IRON_PIXEL_R16_UINT,
    /// `MTLPixelFormatR16Sint`
    R16Sint = ffi::IRON_PIXEL_R16_SINT,
    /// `MTLPixelFormatR16Float`
    R16Float = ffi::IRON_PIXEL_R16_FLOAT,
    /// `MTLPixelFormatRG8Unorm`
    Rg8Unorm = ffi::IRON_PIXEL_RG8_UNORM,
    /// `MTLPixelFormatRG8Snorm`
    Rg8Snorm = ffi::IRON_PIXEL_RG8_SNORM,
    /// `MTLPixelFormatRG8Uint`
    Rg8Uint = ffi::IRON_PIXEL_RG8_UINT,
    /// `MTLPixelFormatRG8Sint`
    Rg8Sint = ffi::IRON_PIXEL_RG8_SINT,
    /// `MTLPixelFormatR32Uint`
    R32Uint = ffi::IRON_PIXEL_R32_UINT,
    /// `MTLPixelFormatR32Sint`
    R32Sint = ffi::IRON_PIXEL_R32_SINT,
    /// `MTLPixelFormatR32Float`
    R32Float = ffi::IRON_PIXEL_R32_FLOAT,
    /// `MTLPixelFormatRG16Unorm`
    Rg16Unorm = ffi::IRON_PIXEL_RG16_UNORM,
    /// `MTLPixelFormatRG16Snorm`
    Rg16Snorm = ffi::IRON_PIXEL_RG16_SNORM,
    /// `MTLPixelFormatRG16Uint`
    Rg16Uint = ffi::IRON_PIXEL_RG16_UINT,
    /// `MTLPixelFormatRG16Sint`
    Rg16Sint = ffi::IRON_PIXEL_RG16_SINT,
    /// `MTLPixelFormatRG16Float`
    Rg16Float = ffi::IRON_PIXEL_RG16_FLOAT,
    /// `MTLPixelFormatRGBA8Unorm`
    Rgba8Unorm = ffi::IRON_PIXEL_RGBA8_UNORM,
    /// `MTLPixelFormatRGBA8Unorm_sRGB`
    Rgba8UnormSrgb = ffi::IRON_PIXEL_RGBA8_UNORM_SRGB,
    /// `MTLPixelFormatRGBA8Snorm`
    Rgba8Snorm = ffi::IRON_PIXEL_RGBA8_SNORM,
    /// `MTLPixelFormatRGBA8Uint`
    Rgba8Uint = ffi::IRON_PIXEL_RGBA8_UINT,
    /// `MTLPixelFormatRGBA8Sint`
    Rgba8Sint = ffi::IRON_PIXEL_RGBA8_SINT,
    /// `MTLPixelFormatBGRA8Unorm`
    Bgra8Unorm = ffi::IRON_PIXEL_BGRA8_UNORM,
    /// `MTLPixelFormatBGRA8Unorm_sRGB`
    Bgra8UnormSrgb = ffi::IRON_PIXEL_BGRA8_UNORM_SRGB,
    /// `MTLPixelFormatRG32Uint`
    Rg32Uint = ffi::IRON_PIXEL_RG32_UINT,
    /// `MTLPixelFormatRG32Sint`
    Rg32Sint = ffi::IRON_PIXEL_RG32_SINT,
    /// `MTLPixelFormatRG32Float`
    Rg32Float = ffi::IRON_PIXEL_RG32_FLOAT,
    /// `MTLPixelFormatRGBA16Unorm`
    Rgba16Unorm = ffi::IRON_PIXEL_RGBA16_UNORM,
    /// `MTLPixelFormatRGBA16Snorm`
    Rgba16Snorm = ffi::IRON_PIXEL_RGBA16_SNORM,
    /// `MTLPixelFormatRGBA16Uint`
    Rgba16Uint = ffi::IRON_PIXEL_RGBA16_UINT,
    /// `MTLPixelFormatRGBA16Sint`
    Rgba16Sint = ffi::IRON_PIXEL_RGBA16_SINT,
    /// `MTLPixelFormatRGBA16Float`
    Rgba16Float = ffi::IRON_PIXEL_RGBA16_FLOAT,
    /// `MTLPixelFormatRGBA32Uint`
    Rgba32Uint = ffi::IRON_PIXEL_RGBA32_UINT,
    /// `MTLPixelFormatRGBA32Sint`
    Rgba32Sint = ffi::IRON_PIXEL_RGBA32_SINT,
    /// `MTLPixelFormatRGBA32Float`
    Rgba32Float = ffi::IRON_PIXEL_RGBA32_FLOAT,
}

impl PixelFormat {
    fn native(self) -> ffi::iron_pixel_format {
        self as ffi::iron_pixel_format
    }
}

/// Rows of texels in a buffer, which a kernel has as `texture2d` (`iron_texture`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[must_use = "a texture does nothing by itself"]
pub struct Texture {
    format: PixelFormat,
    width: u32,
    height: u32,
    row_bytes: u32,
}

impl Texture {
    /// `width` by `height` texels, 1 to 16384 each, without gaps between the rows.
    pub fn new(format: PixelFormat, width: u32, height: u32) -> Texture {
        Texture {
            format,
            width,
            height,
            row_bytes: 0,
        }
    }

    /// Bytes from one row to the next: a multiple of a texel's on the software device, and of what the device says on a
    /// GPU.
    pub fn row_bytes(mut self, bytes: u32) -> Self {
        self.row_bytes = bytes;
        self
    }

    pub(super) fn native(self) -> ffi::iron_texture {
        ffi::iron_texture {
            format: self.format.native(),
            width: self.width,
            height: self.height,
            row_bytes: self.row_bytes,
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
    /// MTLTextureType: 2 is `texture2d`, the one that an [`Argument`](super::Argument) can be.
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
