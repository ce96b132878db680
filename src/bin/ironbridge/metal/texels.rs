//! Textures and samplers of a kernel, as they are typed.

use ironbridge::kernel::{AddressMode, PixelFormat, Sampler};

use super::elements::{Type, Values};
use super::values;

/// A format as it is typed: rgba8unorm_srgb.
fn name(format: PixelFormat) -> String {
    format!("{format:?}")
        .to_lowercase()
        .replace("srgb", "_srgb")
}

/// A two-dimensional texture, and the components of its texels.
#[derive(Clone, Debug)]
pub struct Texels {
    pub format: PixelFormat,
    pub size: [u32; 2],
    pub values: Values,
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

/// `[INDEX=]FORMAT:WIDTHxHEIGHT`, and behind a further colon `ramp`, a list or a .npy file.
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
    let (width, height) = size.split_once('x').ok_or_else(wrong)?;
    let extent = |text: &str| text.parse().ok().filter(|it| (1..=16384).contains(it));
    let (Some(width), Some(height)) = (extent(width), extent(height)) else {
        return Err(format!(
            "{size}: a texture has from 1x1 to 16384x16384 texels"
        ));
    };
    let count = count * width as usize * height as usize;
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
    let size = [width, height];
    Ok((
        index,
        Texels {
            format,
            size,
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
            (None, PixelFormat::R8Uint, [2, 3], "0 0 0 0 0 0".into())
        );
        assert_eq!(
            shown("7=RG32Float:1x2:ramp"),
            (Some(7), PixelFormat::Rg32Float, [1, 2], "0 1 2 3".into())
        );
        assert_eq!(shown("rg8snorm:1x1:[-1,127]").3, "-1 127");
        let wrong = [
            "",
            "r8uint",
            "r8uint:3",
            "r8uint:0x3",
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
