//! What is typed behind options: constants and sizes in three dimensions.

use std::str::FromStr;

use ironbridge::kernel::{Constant, ConstantValue};
use ironbridge::{bf16, f16};

/// A function constant's value, and how it was typed.
#[derive(Clone, Debug, PartialEq)]
pub struct TypedConstant {
    pub text: String,
    pub constant: Constant,
}

/// `3=u32:7`, `tile=u16:8,8` of a function constant.
pub fn constant(text: &str) -> Result<TypedConstant, String> {
    let constant = parsed(text).ok_or_else(|| {
        format!(
            "{text:?} is not of the form 3=u32:7 or tile=u16:8,8; types are bool, i8, u8, i16, u16, i32, u32, i64, \
             u64, f16, bf16 and f32"
        )
    })?;
    Ok(TypedConstant {
        text: text.into(),
        constant,
    })
}

fn parsed(text: &str) -> Option<Constant> {
    let (place, rest) = text.split_once('=')?;
    let (kind, values) = rest.split_once(':')?;
    match kind {
        "bool" => of_type::<bool>(place, values),
        "i8" => of_type::<i8>(place, values),
        "u8" => of_type::<u8>(place, values),
        "i16" => of_type::<i16>(place, values),
        "u16" => of_type::<u16>(place, values),
        "i32" => of_type::<i32>(place, values),
        "u32" => of_type::<u32>(place, values),
        "i64" => of_type::<i64>(place, values),
        "u64" => of_type::<u64>(place, values),
        "f16" => of_type::<f16>(place, values),
        "bf16" => of_type::<bf16>(place, values),
        "f32" => of_type::<f32>(place, values),
        _ => None,
    }
}

/// One value, or as many as a vector has.
fn of_type<T>(place: &str, values: &str) -> Option<Constant>
where
    T: Copy + FromStr + ConstantValue,
    [T; 2]: ConstantValue,
    [T; 3]: ConstantValue,
    [T; 4]: ConstantValue,
{
    let values = values.split(',').map(str::parse);
    let values: Vec<T> = values.collect::<Result<_, _>>().ok()?;
    match values[..] {
        [x] => at(place, x),
        [x, y] => at(place, [x, y]),
        [x, y, z] => at(place, [x, y, z]),
        [x, y, z, w] => at(place, [x, y, z, w]),
        _ => None,
    }
}

/// An index, or else a name.
fn at(place: &str, value: impl ConstantValue) -> Option<Constant> {
    match place.parse() {
        Ok(index) => Some(Constant::at(index, value)),
        Err(_) if place.starts_with(|first: char| first.is_alphabetic() || first == '_') => {
            Some(Constant::named(place, value))
        }
        Err(_) => None,
    }
}

/// `X`, `X,Y` or `X,Y,Z`; what is not given is 1.
pub fn extents(text: &str) -> Result<[u32; 3], String> {
    let mut extents = [1; 3];
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err(String::from("there are three dimensions at most: X,Y,Z"));
    }
    for (extent, part) in extents.iter_mut().zip(parts) {
        *extent = part
            .parse()
            .ok()
            .filter(|&extent| extent > 0)
            .ok_or_else(|| format!("{part:?} is no number of threads"))?;
    }
    Ok(extents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_and_extents_are_read() {
        let constant = |text| constant(text).map(|typed| typed.constant);
        assert_eq!(constant("3=u32:7"), Ok(Constant::at(3, 7u32)));
        assert_eq!(constant("0=bool:true"), Ok(Constant::at(0, true)));
        let tile = Constant::named("tile", [8u16, 4]);
        assert_eq!(constant("tile=u16:8,4"), Ok(tile));
        let halves = [1.5, -2.0, 0.25, 3.0].map(f16::from_f32);
        assert_eq!(
            constant("_=f16:1.5,-2,0.25,3"),
            Ok(Constant::named("_", halves))
        );
        assert_eq!(constant("1=i8:1,2,-3"), Ok(Constant::at(1, [1i8, 2, -3])));
        for wrong in [
            "",
            "3",
            "3=7",
            "3=u8:256",
            "3=u32:-7",
            "3=f64:1",
            "-1=f32:1",
            "=f32:1",
            "x=f32:",
            "x=i8:1,2,3,4,5",
        ] {
            assert!(constant(wrong).is_err(), "{wrong}");
        }
        assert_eq!(extents("4"), Ok([4, 1, 1]));
        assert_eq!(extents("4,5,6"), Ok([4, 5, 6]));
        for wrong in ["", "0", "4,", "4,5,6,7", "-1", "4294967296"] {
            assert!(extents(wrong).is_err(), "{wrong}");
        }
    }
}
