//! NumPy's format of one array (numpy.lib.format, versions 1 and 2), little-endian and in C's order.

use super::elements::{Type, Values};

const MAGIC: &[u8] = b"\x93NUMPY";

/// NumPy's name of a type, where it has one.
fn description(kind: Type) -> &'static str {
    match kind {
        Type::F32 => "<f4",
        Type::F16 => "<f2",
        Type::I8 => "|i1",
        Type::U8 => "|u1",
        Type::I16 => "<i2",
        Type::U16 | Type::Bf16 => "<u2", // NumPy has no bfloat16: its bits
        Type::I32 => "<i4",
        Type::U32 => "<u4",
        Type::I64 => "<i8",
        Type::U64 => "<u8",
    }
}

/// The type and the bytes of the array in a file.
pub fn read(file: &[u8]) -> Result<(Type, Vec<u8>), String> {
    let damaged = || String::from("it is no .npy file, or damaged");
    let rest = file.strip_prefix(MAGIC).ok_or_else(damaged)?;
    let (length, start) = match *rest {
        [1, _, a, b, ..] => (u16::from_le_bytes([a, b]).into(), 4),
        [2, _, a, b, c, d, ..] => (u32::from_le_bytes([a, b, c, d]) as usize, 6),
        _ => return Err(damaged()),
    };
    let header = rest.get(start..start + length).ok_or_else(damaged)?;
    let header = std::str::from_utf8(header).map_err(|_| damaged())?;
    let field = |name: &str| {
        let (_, after) = header.split_once(&format!("'{name}':"))?;
        Some(after.trim_start())
    };
    let described = field("descr").and_then(|text| text.strip_prefix('\'')?.split('\'').next());
    let described = described.ok_or_else(damaged)?;
    let kinds = [
        Type::F32,
        Type::F16,
        Type::I8,
        Type::U8,
        Type::I16,
        Type::U16,
        Type::I32,
        Type::U32,
        Type::I64,
        Type::U64,
    ];
    let kind = kinds.into_iter().find(|&it| description(it) == described);
    let kind = kind.ok_or_else(|| format!("its type is {described:?}; try .astype('<f4')"))?;
    if !field("fortran_order").is_some_and(|text| text.starts_with("False")) {
        return Err(String::from(
            "it is in Fortran's order; try numpy.ascontiguousarray",
        ));
    }
    let shape = field("shape").and_then(|text| text.strip_prefix('(')?.split(')').next());
    let count = shape.ok_or_else(damaged)?.split(',').map(str::trim);
    let count = count
        .filter(|extent| !extent.is_empty())
        .try_fold(1usize, |count, extent| {
            count.checked_mul(extent.parse().ok()?)
        });
    let bytes = count.and_then(|count| count.checked_mul(kind.size()));
    let bytes = bytes.ok_or_else(damaged)?;
    let data = rest[start + length..].get(..bytes).ok_or_else(damaged)?;
    if data.is_empty() {
        return Err(String::from("it has no elements"));
    }
    Ok((kind, data.to_vec()))
}

/// A file with the values as an array of one dimension.
pub fn write(values: &Values) -> Vec<u8> {
    let mut header = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}",
        description(values.kind),
        values.count()
    );
    // The data begins at a multiple of 64, behind a line's end.
    while !(MAGIC.len() + 4 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let length = header.len() as u16;
    [
        MAGIC,
        &[1, 0],
        &length.to_le_bytes(),
        header.as_bytes(),
        &values.bytes,
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_damaged_refused() {
        let values = Values {
            kind: Type::I16,
            bytes: vec![1, 0, 254, 255, 3, 0],
        };
        let file = write(&values);
        assert_eq!(read(&file), Ok((values.kind, values.bytes.clone())));
        assert_eq!((file.len() - values.bytes.len()) % 64, 0);
        for length in 0..file.len() {
            assert!(read(&file[..length]).is_err(), "{length}");
        }
        let replaced = |from: &str, to: &str| {
            let at = file
                .windows(from.len())
                .position(|it| it == from.as_bytes());
            let at = at.expect("it is there");
            [&file[..at], to.as_bytes(), &file[at + to.len()..]].concat()
        };
        assert!(read(&replaced("<i2", ">i2")).is_err_and(|it| it.contains(">i2")));
        assert!(read(&replaced("False", "True ")).is_err_and(|it| it.contains("Fortran")));
        assert!(read(&replaced("(3,)", "(0,)")).is_err_and(|it| it.contains("no elements")));
    }
}
