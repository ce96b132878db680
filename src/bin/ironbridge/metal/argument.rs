//! What is typed behind options: constants and sizes in three dimensions.

use ironbridge::kernel::Constant;

/// `INDEX=TYPE:VALUE` of a function constant.
pub fn constant(text: &str) -> Result<(u32, Constant), String> {
    let wrong = || format!("{text:?} is not of the form 3=u32:7, with bool, i32, u32 or f32");
    let (index, rest) = text.split_once('=').ok_or_else(wrong)?;
    let (kind, value) = rest.split_once(':').ok_or_else(wrong)?;
    let index = index.parse().map_err(|_| wrong())?;
    let constant = match kind {
        "bool" => value.parse().map(Constant::Bool).map_err(|_| wrong())?,
        "i32" => value.parse().map(Constant::I32).map_err(|_| wrong())?,
        "u32" => value.parse().map(Constant::U32).map_err(|_| wrong())?,
        "f32" => value.parse().map(Constant::F32).map_err(|_| wrong())?,
        _ => return Err(wrong()),
    };
    Ok((index, constant))
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
        assert_eq!(constant("3=u32:7"), Ok((3, Constant::U32(7))));
        assert_eq!(constant("0=bool:true"), Ok((0, Constant::Bool(true))));
        for wrong in ["", "3", "3=7", "3=u8:7", "3=u32:-7", "x=f32:1"] {
            assert!(constant(wrong).is_err(), "{wrong}");
        }
        assert_eq!(extents("4"), Ok([4, 1, 1]));
        assert_eq!(extents("4,5,6"), Ok([4, 5, 6]));
        for wrong in ["", "0", "4,", "4,5,6,7", "-1", "4294967296"] {
            assert!(extents(wrong).is_err(), "{wrong}");
        }
    }
}
