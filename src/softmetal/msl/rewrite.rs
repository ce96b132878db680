//! From preprocessed Metal source to C++ that clang compiles for the CPU, token by token.
//!
//! What C++ can express stays as it is. Attributes are taken out and remembered, address spaces disappear (their rules
//! are checked elsewhere, see `check`), floating-point literals become floats, kernels are listed with what each
//! parameter is bound to, function constants wait for their values, and threadgroup variables become references into
//! the threadgroup's memory. The line structure is kept exactly, so a compiler message on a line of the result is about
//! that line of the source.

mod address_spaces;
mod attributes;
mod constants;
mod kernels;
mod literals;
#[cfg(test)]
mod opencl;
mod overloads;

use super::error::Error;
use super::tokens::{Token, Tokens, tokenize};
use attributes::Attributes;
pub use constants::{FunctionConstant, Value};
pub use kernels::Kernel;
#[cfg(test)]
pub use opencl::to_opencl;

/// A rewritten source: text with holes for the function constants, and what it defines.
pub struct Program {
    segments: Vec<Segment>,
    pub kernels: Vec<Kernel>,
    pub constants: Vec<FunctionConstant>,
}

enum Segment {
    Text(String),
    /// The storage class of a function constant's declaration.
    ConstantHead(usize),
    /// The initialiser of a function constant's declaration.
    ConstantValue(usize),
    /// Whether a function constant has a value.
    ConstantDefined(usize),
}

/// What becomes of one token. Its gap always stays.
#[derive(Clone, PartialEq)]
enum Edit {
    Keep,
    Erase,
    Replace(String),
    ConstantHead(usize),
    ConstantValue(usize),
    ConstantDefined(usize),
}

/// The state that the passes share: the tokens, what each becomes, and what was taken out.
struct Rewriter<'s> {
    tokens: Tokens<'s>,
    edits: Vec<Edit>,
    attributes: Attributes,
}

impl Program {
    /// Rewrites a preprocessed source. Errors carry its lines.
    pub fn parse(preprocessed: &str) -> Result<Program, Error> {
        let tokens = tokenize(preprocessed)?;
        let edits = vec![Edit::Keep; tokens.list.len()];
        let mut rewriter = Rewriter {
            tokens,
            edits,
            attributes: Attributes::default(),
        };
        rewriter.take_attributes()?;
        let kernels = rewriter.take_kernels()?;
        let constants = rewriter.take_function_constants(&kernels)?;
        rewriter.rewrite_address_spaces()?;
        rewriter.merge_overloads()?;
        rewriter.rewrite_literals();
        Ok(Program {
            segments: rewriter.segments(),
            kernels: kernels.kernels,
            constants,
        })
    }

    /// The C++ text with `values` for the function constants, in the order of `constants`; one without a value is
    /// declared and not defined, so that only a kernel that uses it fails.
    pub fn text(&self, values: &[Option<Value>]) -> String {
        let mut text = String::new();
        for segment in &self.segments {
            match segment {
                Segment::Text(part) => text += part,
                Segment::ConstantHead(index) => {
                    text += if values[*index].is_some() {
                        "static constexpr"
                    } else {
                        // Hidden, so that the linker looks for it and not the loader.
                        "extern __attribute__((visibility(\"hidden\"))) const"
                    }
                }
                Segment::ConstantValue(index) => {
                    if let Some(value) = &values[*index] {
                        text += &value.initialiser(&self.constants[*index]);
                    }
                }
                Segment::ConstantDefined(index) => {
                    text += if values[*index].is_some() {
                        "true"
                    } else {
                        "false"
                    }
                }
            }
        }
        text
    }
}

impl<'s> Rewriter<'s> {
    fn token(&self, index: usize) -> &Token<'s> {
        &self.tokens.list[index]
    }

    fn text(&self, index: usize) -> &'s str {
        self.tokens.list[index].text
    }

    fn len(&self) -> usize {
        self.tokens.list.len()
    }

    /// The text of the next token after `index` that is not erased, "" at the end.
    fn next_text(&self, index: usize) -> &'s str {
        self.next(index).map_or("", |next| self.text(next))
    }

    fn next(&self, index: usize) -> Option<usize> {
        (index + 1..self.len()).find(|&next| self.edits[next] != Edit::Erase)
    }

    fn previous(&self, index: usize) -> Option<usize> {
        (0..index)
            .rev()
            .find(|&before| self.edits[before] != Edit::Erase)
    }

    fn erase(&mut self, range: std::ops::Range<usize>) {
        self.edits[range].fill(Edit::Erase);
    }

    /// The token that closes the bracket at `open`.
    fn closing(&self, open: usize) -> Result<usize, Error> {
        let mut depth = 0usize;
        for index in open..self.len() {
            match self.text(index) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(index);
                    }
                }
                _ => {}
            }
        }
        Err(self.error(open, format!("`{}` is never closed", self.text(open))))
    }

    /// The live tokens of a range on one line, as text.
    fn joined(&self, range: std::ops::Range<usize>) -> String {
        let mut text = String::new();
        for index in range.filter(|&index| self.edits[index] == Edit::Keep) {
            if !text.is_empty() && !self.token(index).gap.is_empty() {
                text.push(' ');
            }
            text += self.text(index);
        }
        text
    }

    fn error(&self, index: usize, what: impl std::fmt::Display) -> Error {
        self.tokens.error(self.token(index).place, what)
    }

    fn segments(&self) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut text = String::new();
        for (token, edit) in self.tokens.list.iter().zip(&self.edits) {
            push_gap(&mut text, token.gap);
            let hole = match edit {
                Edit::Keep => {
                    text += token.text;
                    continue;
                }
                Edit::Replace(other) => {
                    text += other;
                    continue;
                }
                Edit::Erase => continue,
                Edit::ConstantHead(index) => Segment::ConstantHead(*index),
                Edit::ConstantValue(index) => Segment::ConstantValue(*index),
                Edit::ConstantDefined(index) => Segment::ConstantDefined(*index),
            };
            segments.push(Segment::Text(std::mem::take(&mut text)));
            segments.push(hole);
        }
        push_gap(&mut text, self.tokens.tail);
        text.push('\n');
        segments.push(Segment::Text(text));
        segments
    }
}

/// Loop pragmas ask for a GPU's unrolling, which only costs compile time here.
fn push_gap(text: &mut String, gap: &str) {
    if !gap.contains("#pragma") {
        text.push_str(gap);
        return;
    }
    for line in gap.split_inclusive('\n') {
        let pragma = line.trim().strip_prefix("#pragma").map(str::trim_start);
        match pragma {
            Some(rest) if rest.starts_with("unroll") || rest.starts_with("clang loop") => {
                text.push('\n')
            }
            _ => text.push_str(line),
        }
    }
}
