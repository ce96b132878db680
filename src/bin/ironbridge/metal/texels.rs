//! Textures and samplers of a kernel, as they are typed.

use ironbridge::kernel::{AddressMode, PixelFormat, Sampler, Texture};

use super::elements::{Type, Values};
use super::values;

/// A format as it is typed: rgba8unorm_srgb.
fn name(format: PixelFormat) -> String {
    format!("{format:?}")
        .to_lowercase()
        .replace("srgb", "_srgb")
}

/// A texture, and the components of its texels.
#[derive(Clone, Debug)]
pub struct Texels {
    pub format: PixelFormat,
    pub size: [u32; 3],
    pub values: Values,
}

/// The texture that a kernel takes as this MTLTextureType, of as many texels along x, y and z, and how many texels lie
/// in it. What a shape has no extent for counts for nothing. `None`: no argument is such a texture.
pub fn shaped(kind: u32, format: PixelFormat, size: [u32; 3]) -> Option<(Texture, usize)> {
    let [x, y, z] = size;
    let (texture, extents) = match kind {
        0 => (Texture::new_1d(format, x), [x, 1, 1]),
        1 => (Texture::new_1d_array(format, x, y), [x, y, 1]),
        2 => (Texture::new(format, x, y), [x, y, 1]),
        3 => (Texture::new_2d_array(format, x, y, z), [x, y, z]),
        5 => (Texture::new_cube(format, x), [x, x, 6]),
        6 => (Texture::new_cube_array(format, x, z), [x, x, 6 * z]),
        7 => (Texture::new_3d(format, x, y, z), [x, y, z]),
        9 => (Texture::new_buffer(format, x), [x, 1, 1]),
        _ => return None,
    };
    let count = extents.iter().map(|extent| *extent as usize).product();
    Some((texture, count))
}

/// The type of a format's components, and how many there are.
fn components(name: &str) -> Option<(Type, usize)> {
    let digits = name.find(|c: char| c.is_ascii_digit())?;
    let (channels, rest) = name.split_at(digits);
    let letters = rest.find(|c: char| c.is_ascii_alphabetic())?;
    let (bits, kind) = rest.split_at(letters);
    let kind = kind.trim_end_matches("_srgb");
    let letter = match kind {
        "float" => 'f',
        "snorm" | "sint" => 'i',
        _ => 'u',
    };
    Some((Type::named(&format!("{letter}{bits}"))?, channels.len()))
}

/// `[INDEX=]FORMAT:SIZE`, and behind a further colon `ramp`, a list or a .npy file. A size is up to three extents with
/// an `x` between them.
pub fn texture(text: &str) -> Result<(Option<u32>, Texels), String> {
    let wrong = || {
        format!(
            "{text:?} is not of the form rgba8unorm:64x64, r32float:2x2:[1,2,3,4] or r8uint:4x4:FILE.npy"
        )
    };
    let (index, rest) = indexed(text)?;
    let (format, rest) = rest.split_once(':').ok_or_else(wrong)?;
    let lower = format.to_lowercase();
    let known = PixelFormat::ALL.iter();
    let found = known.copied().find(|it| name(*it) == lower);
    let format = found.ok_or_else(|| {
        let names: Vec<String> = PixelFormat::ALL.iter().map(|it| name(*it)).collect();
        let names = names.join(", ");
        format!("{format:?} is no format of texels; there are {names}")
    })?;
    let (kind, count) = components(&lower).ok_or_else(wrong)?;
    let (size, content) = rest.split_once(':').unwrap_or((rest, "zeros"));
    let extent = |text: &str| text.parse().ok().filter(|it| (1..=16384).contains(it));
    let extents: Option<Vec<u32>> = size.split('x').map(extent).collect();
    let [x, y, z] = match extents.as_deref() {
        Some(&[x]) => [x, 1, 1],
        Some(&[x, y]) => [x, y, 1],
        Some(&[x, y, z]) => [x, y, z],
        _ => {
            return Err(format!(
                "{size}: a texture has up to three extents, from 1 to 16384 texels each"
            ));
        }
    };
    let count = [x, y, z]
        .iter()
        .try_fold(count, |count, extent| count.checked_mul(*extent as usize))
        .filter(|count| *count <= 1 << 30)
        .ok_or_else(|| format!("{size}: a texture has at most 2^30 components"))?;
    let kind_name = kind.name();
    let values = values::parse(&match content {
        "ramp" | "zeros" => format!("{kind_name}:{count}:{content}"),
        list if list.starts_with('[') => format!("{kind_name}:{list}"),
        file if file.ends_with(".npy") => String::from(file),
        _ => return Err(wrong()),
    })?;
    if values.kind != kind || values.count() != count {
        let (given, has) = (values.kind.name(), values.count());
        return Err(format!(
            "{lower}:{size} has {count} components of {kind_name}, not {has} of {given}"
        ));
    }
    Ok((
        index,
        Texels {
            format,
            size: [x, y, z],
            values,
        },
    ))
}

/// `[INDEX=]WORDS`: `linear`, `pixels` and what is outside, in any order.
pub fn sampler(text: &str) -> Result<(Option<u32>, Sampler), String> {
    let (index, words) = indexed(text)?;
    let mut sampler = Sampler::default();
    for word in words.split(',') {
        let address = match word {
            "nearest" => continue,
            "linear" => {
                sampler = sampler.linear(true);
                continue;
            }
            "pixels" => {
                sampler = sampler.pixels(true);
                continue;
            }
            "clamp-to-edge" => AddressMode::ClampToEdge,
            "mirror-clamp-to-edge" => AddressMode::MirrorClampToEdge,
            "repeat" => AddressMode::Repeat,
            "mirror-repeat" => AddressMode::MirrorRepeat,
            "clamp-to-zero" => AddressMode::ClampToZero,
            "clamp-to-border" => AddressMode::ClampToBorder,
            _ => {
                return Err(format!(
                    "{word:?} says nothing about a sampler; words are nearest, linear, pixels, clamp-to-edge, \
                     mirror-clamp-to-edge, repeat, mirror-repeat, clamp-to-zero and clamp-to-border"
                ));
            }
        };
        sampler = sampler.address([address; 3]);
    }
    Ok((index, sampler))
}

/// The index before a `=`, if there is one, and the rest.
fn indexed(text: &str) -> Result<(Option<u32>, &str), String> {
    match text.split_once('=') {
        Some((index, rest)) if index.bytes().all(|byte| byte.is_ascii_digit()) => {
            let index = index.parse().map_err(|_| format!("{index} is no index"))?;
            Ok((Some(index), rest))
        }
        _ => Ok((None, text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_components() {
        for format in PixelFormat::ALL {
            let name = name(*format);
            assert!(components(&name).is_some(), "{name}");
        }
        assert_eq!(components("bgra8unorm_srgb"), Some((Type::U8, 4)));
        assert_eq!(components("rg16float"), Some((Type::F16, 2)));
        assert_eq!(components("r32sint"), Some((Type::I32, 1)));
    }

    #[test]
    fn textures_and_samplers_are_read_as_they_are_typed() {
        let shown = |text: &str| {
            let (index, it) = texture(text).expect(text);
            let values: Vec<_> = it.values.elements().collect();
            (index, it.format, it.size, values.join(" "))
        };
        assert_eq!(
            shown("r8uint:2x3"),
            (None, PixelFormat::R8Uint, [2, 3, 1], "0 0 0 0 0 0".into())
        );
        assert_eq!(
            shown("7=RG32Float:1x2:ramp"),
            (Some(7), PixelFormat::Rg32Float, [1, 2, 1], "0 1 2 3".into())
        );
        assert_eq!(shown("r8uint:3").2, [3, 1, 1]);
        assert_eq!(shown("r8uint:1x2x3:ramp").3, "0 1 2 3 4 5");
        assert_eq!(shown("rg8snorm:1x1:[-1,127]").3, "-1 127");
        let wrong = [
            "",
            "r8uint",
            "r8uint:0x3",
            "r8uint:1x1x1x1",
            "r8uint:16384x16384x5",
            "r8uint:16385x1",
            "r9uint:1x1",
            "r8uint:1x1:[1,2]",
            "r8uint:1x1:[256]",
            "r8uint:1x1:rising",
            "r8uint:1x1:none.npy",
            "x=r8uint:1x1",
        ];
        for wrong in wrong {
            assert!(texture(wrong).is_err(), "{wrong}");
        }
        let repeat = Sampler::default()
            .linear(true)
            .address([AddressMode::Repeat; 3]);
        assert_eq!(sampler("1=linear,repeat"), Ok((Some(1), repeat)));
        assert_eq!(
            sampler("nearest,pixels"),
            Ok((None, Sampler::default().pixels(true)))
        );
        assert!(sampler("cubic").is_err());
    }
}
