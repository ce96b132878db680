//! What buffers hold before a kernel runs, as it is typed.

use std::fs;
use std::path::Path;

use super::elements::{Type, Values};
use super::npy;

/// The largest buffer, in bytes.
const LARGEST: u64 = 4 << 30;

/// `f32:1024`, `f32:1024:ramp`, `u32:[1,2,3]` or the name of a .npy file.
pub fn parse(text: &str) -> Result<Values, String> {
    if text.ends_with(".npy") {
        let bytes = fs::read(Path::new(text)).map_err(|it| format!("cannot read {text}: {it}"))?;
        let (kind, bytes) = npy::read(&bytes).map_err(|error| format!("{text}: {error}"))?;
        return Ok(Values { kind, bytes });
    }
    let wrong =
        || format!("{text:?} is not of the form f32:1024, f32:1024:ramp, u32:[1,2,3] or FILE.npy");
    let (kind, rest) = text.split_once(':').ok_or_else(wrong)?;
    let kind = Type::named(kind).ok_or_else(|| {
        let names = Type::ALL.map(|(_, name, _)| name).join(", ");
        format!("{kind:?} is no type; there are {names}")
    })?;
    if let Some(list) = rest.strip_prefix('[') {
        let list = list.strip_suffix(']').ok_or_else(wrong)?;
        let read = |number: &str| {
            kind.read(number)
                .ok_or_else(|| format!("{number:?} is no {}", kind.name()))
        };
        let numbers: Result<Vec<_>, _> = list.split(',').map(read).collect();
        let bytes = numbers?.concat();
        return Ok(Values { kind, bytes });
    }
    let (count, ramp) = match rest.split_once(':') {
        None | Some((_, "zeros")) => (rest.trim_end_matches(":zeros"), false),
        Some((count, "ramp")) => (count, true),
        Some(_) => return Err(wrong()),
    };
    let count: u64 = count.parse().map_err(|_| wrong())?;
    let length = count.checked_mul(kind.size() as u64);
    let Some(length @ 1..=LARGEST) = length else {
        return Err(format!("{text}: a buffer has from one element up to 4 GiB"));
    };
    let bytes = match ramp {
        true => (0..count).flat_map(|index| kind.ramp(index)).collect(),
        false => vec![0; length as usize],
    };
    Ok(Values { kind, bytes })
}

/// A buffer's place in the argument table, if it is given, and what it holds: `[INDEX=]VALUES`.
pub fn buffer(text: &str) -> Result<(Option<u32>, Values), String> {
    match text.split_once('=') {
        Some((index, values)) if index.bytes().all(|byte| byte.is_ascii_digit()) => {
            let index = index.parse().map_err(|_| format!("{index} is no index"))?;
            Ok((Some(index), parse(values)?))
        }
        _ => Ok((None, parse(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_read_as_they_are_typed() {
        let shown = |text: &str| {
            let (index, values) = buffer(text).expect(text);
            (
                index,
                values.kind,
                values.elements().collect::<Vec<_>>().join(" "),
            )
        };
        assert_eq!(shown("f32:3"), (None, Type::F32, "0 0 0".into()));
        assert_eq!(shown("2=f16:3:ramp"), (Some(2), Type::F16, "0 1 2".into()));
        assert_eq!(shown("i8:[-128,127]"), (None, Type::I8, "-128 127".into()));
        assert_eq!(
            shown("u64:[18446744073709551615]").2,
            "18446744073709551615"
        );
        assert_eq!(shown("bf16:[0.5,inf]").2, "0.5 inf");
        let wrong = [
            "",
            "f32",
            "f32:",
            "f32:0",
            "f32:-1",
            "f32:x",
            "f33:4",
            "i8:[128]",
            "u8:[-1]",
            "u32:[1",
            "f32:[]",
            "f32:4:rising",
            "f32:4294967296",
            "no-such-file.npy",
            "x=f32:4",
        ];
        for wrong in wrong {
            assert!(buffer(wrong).is_err(), "{wrong}");
        }
    }
}
