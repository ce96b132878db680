//! What settings say about the function constants of a source.

use super::error::Error;
use super::rewrite::{FunctionConstant, Value};
use super::setting::Setting;

/// The scalar types of function constants: MTLDataType, name in MSL, bytes. The vectors of two, three and four follow
/// each.
const SCALARS: [(u32, &str, usize); 12] = [
    (3, "float", 4),
    (16, "half", 2),
    (29, "int", 4),
    (33, "uint", 4),
    (37, "short", 2),
    (41, "ushort", 2),
    (45, "char", 1),
    (49, "uchar", 1),
    (53, "bool", 1),
    (81, "long", 8),
    (85, "ulong", 8),
    (121, "bfloat", 2),
];

/// What the settings say about one constant. One by name is preferred to one by index; of several alike the last
/// counts.
fn value(constant: &FunctionConstant, settings: &[Setting]) -> Result<Option<Value>, Error> {
    let by_name = settings
        .iter()
        .rfind(|setting| setting.name == Some(&constant.name));
    let by_index = || {
        settings
            .iter()
            .rfind(|setting| setting.name.is_none() && setting.index == constant.index)
    };
    let Some(setting) = by_name.or_else(by_index) else {
        return Ok(None);
    };
    let refuse = |given: &str| {
        let FunctionConstant {
            name, index, ty, ..
        } = constant;
        Error::Function(format!(
            "function constant `{name}` [[function_constant({index})]] is a {ty} and was given {given}"
        ))
    };
    let Some((ty, length)) = describe(setting.data_type) else {
        return Err(refuse(&format!("MTLDataType {}", setting.data_type)));
    };
    let declared = constant.ty.trim_start_matches("metal::");
    let is_builtin = (0..200)
        .filter_map(describe)
        .any(|(name, _)| name == declared);
    if (is_builtin && declared != ty) || length > setting.bytes.len() {
        return Err(refuse(&ty));
    }
    Ok(Some(Value::Bytes(setting.bytes[..length].to_vec())))
}

/// The same of all constants, in their order; `unset` where nothing is said.
pub fn values(
    constants: &[FunctionConstant],
    settings: &[Setting],
    unset: Option<Value>,
) -> Result<Vec<Option<Value>>, Error> {
    constants
        .iter()
        .map(|constant| Ok(value(constant, settings)?.or_else(|| unset.clone())))
        .collect()
}

/// The name in MSL and the bytes of an MTLDataType.
fn describe(data_type: u32) -> Option<(String, usize)> {
    let (first, name, size) = SCALARS
        .iter()
        .find(|(first, ..)| (*first..first + 4).contains(&data_type))?;
    match data_type - first {
        0 => Some((String::from(*name), *size)),
        more => Some((format!("{name}{}", more + 1), size * (more as usize + 1))),
    }
}
