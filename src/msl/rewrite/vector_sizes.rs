//! `template <typename T, uint N> T first(vec<T, N> v)`: in Metal the size of a vector is deduced as whatever integer
//! type the parameter has, and C++ wants the type that the vector's own parameter has, which is `int`. So the parameter
//! becomes an `int`, and the source's uses of it are converted to the type that it had.

use std::ops::Range;

use super::{Edit, Rewriter};
use crate::msl::error::Error;
use crate::msl::tokens::Kind;

/// What a type of integers is spelled with.
const INTEGER: [&str; 22] = [
    "const", "metal", "::", "unsigned", "signed", "char", "short", "int", "long", "uchar",
    "ushort", "uint", "ulong", "size_t", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t",
    "uint32_t", "int64_t", "uint64_t",
];

impl Rewriter<'_> {
    pub fn deduce_vector_sizes(&mut self) -> Result<(), Error> {
        let mut index = 0;
        while index < self.len() {
            self.check_work()?;
            if self.text(index) == "template"
                && self.next_text(index) == "<"
                && let Some(list) = self.next(index).and_then(|open| self.angles(open))
            {
                self.deduce_sizes_of(list.clone())?;
                index = list.end;
            }
            index += 1;
        }
        Ok(())
    }

    /// From a `<` to the `>` that closes it.
    pub(super) fn angles(&self, open: usize) -> Option<Range<usize>> {
        if self.text(open) != "<" {
            return None;
        }
        let (mut at, mut depth) = (open, 0);
        while at < self.len() {
            match self.text(at) {
                "<" => depth += 1,
                ">" => depth -= 1,
                "(" | "[" | "{" => at = self.closing(at),
                ";" | "}" | ")" | "]" => return None,
                _ => {}
            }
            if depth == 0 {
                self.count_steps(at - open);
                return Some(open..at);
            }
            at += 1;
        }
        None
    }

    /// `list`: the template's parameters.
    fn deduce_sizes_of(&mut self, list: Range<usize>) -> Result<(), Error> {
        let sizes = self.integer_parameters(list.clone());
        if sizes.is_empty() {
            return Ok(());
        }
        let (deducing, end) = self.deducing_part(list.end + 1);
        for (types, name) in sizes {
            let name_text = self.text(name);
            let is_size = |this: &Self, at: usize| {
                this.text(at) == name_text && this.is_size_of_vector(at, list.start)
            };
            if !deducing.clone().any(|at| is_size(self, at)) {
                continue;
            }
            let ty = self.joined(types.clone());
            for at in name + 1..end {
                let before = self.previous(at).map_or("", |before| self.text(before));
                if self.text(at) != name_text
                    || self.edits[at] != Edit::Keep
                    || matches!(before, "." | "->" | "::")
                    || is_size(self, at)
                {
                    continue;
                }
                self.make(ty.len() + name_text.len() + 4)?;
                self.edits[at] = Edit::Replace(format!("(({ty}){name_text})"));
            }
            self.erase(types.clone());
            self.edits[types.start] = Edit::Replace(String::from("int"));
        }
        Ok(())
    }

    /// The parameters `uint N` of a list, with the tokens of their types: those that are integers and no `int`.
    fn integer_parameters(&self, list: Range<usize>) -> Vec<(Range<usize>, usize)> {
        let mut found = Vec::new();
        let mut start = list.start + 1;
        while start < list.end {
            let is_of_type = |at: &usize| INTEGER.contains(&self.text(*at));
            let end = (start..list.end)
                .find(|at| !is_of_type(at))
                .unwrap_or(list.end);
            let plain = (start..end).all(|at| self.edits[at] == Edit::Keep);
            let named = end < list.end && self.token(end).kind == Kind::Identifier;
            if plain && end > start && named && self.joined(start..end) != "int" {
                found.push((start..end, end));
            }
            // The next parameter.
            let mut depth = 0;
            while start < list.end && (depth > 0 || self.text(start) != ",") {
                match self.text(start) {
                    "<" => depth += 1,
                    ">" => depth -= 1,
                    "(" | "[" | "{" => start = self.closing(start),
                    _ => {}
                }
                start += 1;
            }
            start += 1;
        }
        found
    }

    /// Of a template, from behind its parameters on: what its arguments are deduced from, a function's parameters or a
    /// class's own arguments, and the end of its declaration.
    fn deducing_part(&self, start: usize) -> (Range<usize>, usize) {
        let mut deducing = start..start;
        let (mut at, mut angles) = (start, 0);
        let mut class = None;
        while at < self.len() {
            match self.text(at) {
                "struct" | "class" if angles == 0 => class = Some(at),
                "<" => {
                    if angles == 0 && class.is_some_and(|class| at == class + 2) {
                        deducing = at..self.angles(at).map_or(at, |list| list.end);
                    }
                    angles += 1;
                }
                ">" => angles -= 1,
                "(" => {
                    let before = self.previous(at).map_or("", |before| self.text(before));
                    let is_list = !matches!(before, "decltype" | "alignas" | "__attribute__");
                    let close = self.closing(at);
                    if angles == 0 && is_list && class.is_none() && deducing.is_empty() {
                        deducing = at..close;
                    }
                    at = close;
                }
                "[" => at = self.closing(at),
                "{" => {
                    let end = self.closing(at);
                    self.count_steps(end - start);
                    return (deducing, end);
                }
                ";" | "}" | ")" | "]" => break,
                _ => {}
            }
            at += 1;
        }
        self.count_steps(at - start);
        (deducing, at.min(self.len()))
    }

    /// Whether a token is the last argument of `vec<…>` or `packed_vec<…>`, by itself.
    fn is_size_of_vector(&self, index: usize, from: usize) -> bool {
        if self.next_text(index) != ">" && self.next_text(index) != ">>" {
            return false;
        }
        let Some(comma) = self.previous(index).filter(|&at| self.text(at) == ",") else {
            return false;
        };
        let (mut at, mut angles) = (comma, 0);
        while at > from {
            at -= 1;
            match self.text(at) {
                ">" => angles += 1,
                "<" if angles == 0 => {
                    self.count_steps(index - at);
                    let name = self.previous(at).map_or("", |name| self.text(name));
                    return matches!(name, "vec" | "packed_vec");
                }
                "<" => angles -= 1,
                ")" | "]" | "}" => at = self.closing(at),
                "(" | "[" | "{" | ";" => break,
                _ => {}
            }
        }
        false
    }
}
