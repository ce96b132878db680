//! Function constants: `constant T name [[function_constant(index)]];` becomes a compile-time constant of each
//! specialisation.

use super::kernels::Kernels;
use super::{Edit, Rewriter};
use crate::msl::error::Error;
use crate::msl::tokens::Kind;

/// A function constant that the source declares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionConstant {
    pub name: String,
    pub index: u32,
    pub line: u32,
    /// As it is declared: `bool`, `uint3`.
    pub ty: String,
}

/// A function constant's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// The bytes of an MTLDataType.
    Bytes(Vec<u8>),
    /// One that stands in for any other while a source is checked.
    Sample,
    /// Zero, of a constant that nobody set and that counts as not defined.
    Unset,
}

impl Value {
    /// ` = …` for the constant's declaration.
    pub(super) fn initialiser(&self, constant: &FunctionConstant) -> String {
        let ty = &constant.ty;
        let bytes = match self {
            Value::Bytes(bytes) => bytes,
            Value::Sample => return format!(" = ({ty})1"),
            Value::Unset => return format!(" = ({ty})0"),
        };
        let list: Vec<String> = bytes.iter().map(u8::to_string).collect();
        format!(
            " = msl::constant_value<{ty}, {}>({{{}}})",
            bytes.len(),
            list.join(",")
        )
    }
}

impl Rewriter<'_> {
    pub fn take_function_constants(
        &mut self,
        kernels: &Kernels,
    ) -> Result<Vec<FunctionConstant>, Error> {
        let mut constants: Vec<FunctionConstant> = Vec::new();
        let declared: Vec<(usize, String)> = self
            .attributes
            .all()
            .filter(|(_, attribute)| attribute.name == "function_constant")
            .filter(|(at, _)| {
                self.count_steps(kernels.parameters.len());
                !kernels.parameters.iter().any(|list| list.contains(at))
            })
            .map(|(at, attribute)| (at, attribute.argument.clone().unwrap_or_default()))
            .collect();
        self.check_work()?;
        for (at, argument) in declared {
            let malformed = || {
                self.error(
                    at,
                    "expected `constant T name [[function_constant(index)]];`",
                )
            };
            let name = self.previous(at).ok_or_else(malformed)?;
            let start = (0..name)
                .rev()
                .take_while(|&before| !matches!(self.text(before), ";" | "}" | "{"))
                .find(|&before| self.text(before) == "constant")
                .ok_or_else(malformed)?;
            if self.next_text(at) != ";" || self.token(name).kind != Kind::Identifier {
                return Err(malformed());
            }
            let index = evaluate(&argument).ok_or_else(|| {
                self.error(
                    at,
                    format!(
                        "`{argument}` is not an integer: function constants need literal indices"
                    ),
                )
            })?;
            // What C++ says of a constant besides its type is said anew.
            let first = (0..start)
                .rev()
                .take_while(|&before| matches!(self.text(before), "static" | "inline" | "const"))
                .last()
                .unwrap_or(start);
            self.erase(first..start);
            for word in start + 1..name {
                if matches!(self.text(word), "static" | "constexpr" | "const") {
                    self.edits[word] = Edit::Erase;
                }
            }
            let position = constants.len();
            constants.push(FunctionConstant {
                name: String::from(self.text(name)),
                index,
                line: self.token(name).place.line,
                ty: self.joined(start + 1..name),
            });
            self.edits[start] = Edit::ConstantHead(position);
            self.edits[at] = Edit::ConstantValue(position);
        }
        self.take_defined_questions(&constants)?;
        Ok(constants)
    }

    /// `is_function_constant_defined(name)` is known when a specialisation is compiled.
    fn take_defined_questions(&mut self, constants: &[FunctionConstant]) -> Result<(), Error> {
        for index in 0..self.len() {
            if self.text(index) != "is_function_constant_defined" {
                continue;
            }
            let end = match index + 1 < self.len() && self.text(index + 1) == "(" {
                true => self.closing(index + 1),
                false => continue,
            };
            self.count_steps(constants.len());
            self.check_work()?;
            let name = self.joined(index + 2..end);
            let position = constants
                .iter()
                .position(|constant| constant.name == name)
                .ok_or_else(|| self.error(index, format!("`{name}` is not a function constant")))?;
            self.erase(index + 1..end + 1);
            self.edits[index] = Edit::ConstantDefined(position);
        }
        Ok(())
    }
}

/// The value of a sum or product of integer literals, which is what macros make of an index.
fn evaluate(expression: &str) -> Option<u32> {
    let tokens = crate::msl::tokens::tokenize(expression).ok()?;
    let mut rest = tokens.list.iter().map(|token| token.text).peekable();
    let value = sum(&mut rest)?;
    rest.next().is_none().then_some(value)
}

fn sum<'t>(tokens: &mut std::iter::Peekable<impl Iterator<Item = &'t str>>) -> Option<u32> {
    let mut value = product(tokens)?;
    while let Some(sign) = tokens.next_if(|text| matches!(*text, "+" | "-")) {
        let term = product(tokens)?;
        value = match sign {
            "+" => value.checked_add(term)?,
            _ => value.checked_sub(term)?,
        };
    }
    Some(value)
}

fn product<'t>(tokens: &mut std::iter::Peekable<impl Iterator<Item = &'t str>>) -> Option<u32> {
    let mut value = factor(tokens)?;
    while tokens.next_if_eq(&"*").is_some() {
        value = value.checked_mul(factor(tokens)?)?;
    }
    Some(value)
}

fn factor<'t>(tokens: &mut std::iter::Peekable<impl Iterator<Item = &'t str>>) -> Option<u32> {
    let text = tokens.next()?;
    if text == "(" {
        let value = sum(tokens)?;
        return tokens.next_if_eq(&")").map(|_| value);
    }
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    match digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::evaluate;

    #[test]
    fn indices_are_evaluated() {
        assert_eq!(evaluate("7"), Some(7));
        assert_eq!(evaluate("(300 + 0x10u) * 2"), Some(632));
        assert_eq!(evaluate("((1))"), Some(1));
        for wrong in ["", "a", "1 +", "(1", "1 2", "0 - 1", "4294967296"] {
            assert_eq!(evaluate(wrong), None, "{wrong}");
        }
    }
}
