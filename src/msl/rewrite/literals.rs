//! MSL has no double: a floating-point literal without a suffix is a float.

use super::{Edit, Rewriter};
use crate::msl::tokens::Kind;

impl Rewriter<'_> {
    pub fn rewrite_literals(&mut self) {
        for index in 0..self.len() {
            let token = self.token(index);
            if token.kind != Kind::Number || self.edits[index] != Edit::Keep {
                continue;
            }
            let text = token.text;
            if is_unsuffixed_float(text) {
                self.edits[index] = Edit::Replace(format!("{text}f"));
            } else if let Some(digits) = text.strip_suffix("bf").or(text.strip_suffix("BF"))
                && is_unsuffixed_float(digits)
            {
                // clang takes `bf` for the beginning of a suffix of its own.
                self.edits[index] = Edit::Replace(format!("bfloat({digits}f)"));
            }
        }
    }
}

fn is_unsuffixed_float(literal: &str) -> bool {
    let lower = literal.to_ascii_lowercase();
    let (is_float, last) = match lower.strip_prefix("0x") {
        Some(hex) => (hex.contains('p'), hex.as_bytes().last()),
        None => (lower.contains(['.', 'e']), lower.as_bytes().last()),
    };
    is_float && last.is_some_and(|last| last.is_ascii_digit() || *last == b'.')
}

#[cfg(test)]
mod tests {
    use super::is_unsuffixed_float;

    #[test]
    fn only_floats_without_a_suffix() {
        for literal in ["1.0", ".5", "1.", "1e5", "1E-5", "0x1p3", "0x1.8p-2"] {
            assert!(is_unsuffixed_float(literal), "{literal}");
        }
        for literal in [
            "1", "1u", "0x1e5", "0xf", "1.0f", "1.5h", "2.0bf", "0x1p3f", "1e5F",
        ] {
            assert!(!is_unsuffixed_float(literal), "{literal}");
        }
    }
}
