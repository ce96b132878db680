//! What C++ has and Metal does not, where a compiled kernel could reach beyond itself with it. clang would compile
//! it, so it is refused here, by its line. The object is checked as well (`object`): this is for the message, that
//! for certainty.

use std::ops::Range;

use super::Rewriter;
use crate::msl::error::Error;
use crate::msl::tokens::Kind;

const WORDS: [&str; 12] = [
    "asm",
    "__asm",
    "__asm__",
    "thread_local",
    "_Thread_local",
    "__thread",
    "__declspec",
    "_Pragma",
    "__pragma",
    "new",
    "typeid",
    "dynamic_cast",
];

/// GNU's attributes that say something about one declaration and nothing about the library, without underscores
/// around them.
const ATTRIBUTES: [&str; 34] = [
    "aligned",
    "always_inline",
    "annotate",
    "availability",
    "cold",
    "const",
    "convergent",
    "deprecated",
    "diagnose_if",
    "enable_if",
    "ext_vector_type",
    "fallthrough",
    "flatten",
    "flag_enum",
    "hot",
    "likely",
    "may_alias",
    "minsize",
    "nodebug",
    "noduplicate",
    "noescape",
    "noinline",
    "nonnull",
    "optnone",
    "overloadable",
    "packed",
    "pure",
    "returns_nonnull",
    "transparent_union",
    "unavailable",
    "unlikely",
    "unused",
    "vector_size",
    "warn_unused_result",
];

/// Builtins that compute, by the beginnings of their names after `__builtin_`.
const FAMILIES: [&str; 19] = [
    "bitreverse",
    "bswap",
    "clrsb",
    "clz",
    "ctz",
    "elementwise_",
    "expect",
    "ffs",
    "huge_val",
    "inf",
    "is",
    "nan",
    "nontemporal_",
    "parity",
    "popcount",
    "reduce_",
    "rotate",
    "sadd",
    "signbit",
];
const BUILTINS: [&str; 63] = [
    "COLUMN",
    "FILE",
    "FUNCTION",
    "LINE",
    "acos",
    "add_overflow",
    "addressof",
    "asin",
    "assume",
    "assume_aligned",
    "atan",
    "atan2",
    "bit_cast",
    "canonicalize",
    "ceil",
    "choose_expr",
    "constant_p",
    "convertvector",
    "copysign",
    "cos",
    "cosh",
    "exp",
    "exp10",
    "exp2",
    "fabs",
    "fdim",
    "floor",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "fpclassify",
    "frexp",
    "launder",
    "ldexp",
    "log",
    "log10",
    "log2",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "mul_overflow",
    "nextafter",
    "object_size",
    "offsetof",
    "pow",
    "prefetch",
    "rint",
    "round",
    "shufflevector",
    "sin",
    "sinh",
    "sqrt",
    "sub_overflow",
    "tan",
    "tanh",
    "trunc",
    "types_compatible_p",
    "unreachable",
    "vectorelements",
    "abs",
    "nearbyint",
];

impl Rewriter<'_> {
    /// Before anything is taken out.
    pub fn refuse(&self) -> Result<(), Error> {
        for index in 0..self.len() {
            self.keep_going(self.refuse_at(index))?;
        }
        self.end_pass()
    }

    fn refuse_at(&self, index: usize) -> Result<(), Error> {
        let name = self.text(index);
        if self.token(index).kind != Kind::Identifier {
            let standard = name == "[" && self.list_text(index + 1) == "[";
            return match standard {
                true => self.refuse_standard_attributes(index + 2..self.brackets.other(index)),
                false => Ok(()),
            };
        }
        let deletes = name == "delete" && index > 0 && self.text(index - 1) != "=";
        if WORDS.contains(&name) || deletes {
            return Err(self.error(index, format!("Metal has no `{name}`")));
        }
        if matches!(name, "__attribute__" | "__attribute") {
            self.refuse_attributes(index + 1)?;
        }
        if let Some(builtin) = name.strip_prefix("__builtin_")
            && !is_known_builtin(builtin)
        {
            return Err(self.error(index, format!("`{name}` is not supported")));
        }
        Ok(())
    }

    fn list_text(&self, index: usize) -> &str {
        self.tokens.list.get(index).map_or("", |token| token.text)
    }

    /// `__attribute__((name, name(…)))`, from its first bracket.
    fn refuse_attributes(&self, open: usize) -> Result<(), Error> {
        if self.list_text(open) != "(" {
            return Ok(()); // clang says what is wrong
        }
        let inner = match self.list_text(open + 1) {
            "(" => open + 1,
            _ => open,
        };
        let mut index = inner + 1;
        while index < self.brackets.other(inner) {
            let name = self.text(index);
            if self.token(index).kind == Kind::Identifier && !is_known_attribute(name) {
                return Err(
                    self.error(index, format!("`__attribute__(({name}))` is not supported"))
                );
            }
            // What is between its brackets is its own.
            index = index.max(self.brackets.other(index)) + 1;
        }
        Ok(())
    }

    /// `gnu::name` and `clang::name` within `[[…]]`. Metal's own have no such prefix, and those of others mean nothing.
    fn refuse_standard_attributes(&self, list: Range<usize>) -> Result<(), Error> {
        for index in list.start..list.end.saturating_sub(1) {
            let vendor = self.text(index);
            let scoped = self.text(index + 1) == "::" && index + 2 < list.end;
            let name = if scoped { self.text(index + 2) } else { "" };
            let known = !scoped || !matches!(vendor, "gnu" | "__gnu__" | "clang" | "_Clang");
            if vendor == "using" || !(known || is_known_attribute(name)) {
                return Err(self.error(index, format!("`[[{vendor}::{name}]]` is not supported")));
            }
        }
        Ok(())
    }
}

fn is_known_attribute(name: &str) -> bool {
    let bare = name
        .strip_prefix("__")
        .and_then(|name| name.strip_suffix("__"));
    ATTRIBUTES.contains(&bare.unwrap_or(name))
}

fn is_known_builtin(name: &str) -> bool {
    FAMILIES.iter().any(|family| name.starts_with(family))
        || BUILTINS.contains(&name)
        || name
            .strip_suffix(['f', 'l'])
            .is_some_and(|name| BUILTINS.contains(&name))
}
