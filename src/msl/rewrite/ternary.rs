//! `condition ? x : y` with a bfloat beside another number: in Metal the arithmetic conversions find a common type. For
//! C++ our bfloat is a class that converts from float and to float, and it takes the expression for ambiguous. So an
//! operand goes through `msl::operand`, which makes a float of a bfloat beside another type and leaves all else.

use std::ops::Range;

use super::{Edit, Rewriter};
use crate::msl::error::Error;
use crate::msl::tokens::Kind;

/// Tokens of an operand, which is written twice. Longer ones stay as they are.
const LONGEST: usize = 32;

impl Rewriter<'_> {
    pub fn match_ternary_operands(&mut self) -> Result<(), Error> {
        if !(0..self.len()).any(|index| self.text(index) == "bfloat") {
            return Ok(());
        }
        for index in 0..self.len() {
            if self.text(index) != "?" || self.edits[index] != Edit::Keep {
                continue;
            }
            let operands = self.operands(index);
            self.check_work()?;
            let Some((second, third)) = operands else {
                continue;
            };
            // One that is void is a call, and then both are.
            let a_value = self.is_certainly_a_value(&second) || self.is_certainly_a_value(&third);
            if a_value && self.is_plain(&second) && self.is_plain(&third) {
                let texts = (self.joined(second.clone()), self.joined(third.clone()));
                self.wrap(second, &texts.1)?;
                self.wrap(third, &texts.0)?;
            }
        }
        Ok(())
    }

    /// The operands behind a `?`, where their ends can be told.
    fn operands(&self, question: usize) -> Option<(Range<usize>, Range<usize>)> {
        let colon = self.operand_end(question + 1)?;
        (self.text(colon) == ":").then_some(())?;
        let end = self.operand_end(colon + 1)?;
        Some((question + 1..colon, colon + 1..end))
    }

    /// What ends an operand that begins at `index`: a colon, a bracket, a semicolon or a comma.
    fn operand_end(&self, mut index: usize) -> Option<usize> {
        let (start, mut has_angle) = (index, false);
        while index < self.len() {
            match self.text(index) {
                "(" | "[" => index = self.closing(index),
                "<" => has_angle = true,
                // It may part template arguments, or end them.
                "," if has_angle => return None,
                ">" | ">>" if !has_angle => return None,
                "?" | "{" => return None,
                ":" | ";" | "," | ")" | "]" | "}" => {
                    self.count_steps(index - start);
                    return Some(index);
                }
                _ => {}
            }
            index += 1;
        }
        None
    }

    /// Whether an operand is short, has its own text only, and assigns nothing.
    fn is_plain(&self, range: &Range<usize>) -> bool {
        let plain = |index: usize| {
            self.edits[index] == Edit::Keep
                && !matches!(self.text(index), "{" | "?" | "=" | "threadgroup")
        };
        (1..=LONGEST).contains(&range.len()) && range.clone().all(plain)
    }

    fn is_certainly_a_value(&self, range: &Range<usize>) -> bool {
        let last = range.clone().next_back();
        last.is_some_and(|last| {
            self.token(last).kind != Kind::Punctuation || self.text(last) == "]"
        })
    }

    /// `other`: the text of the other operand.
    fn wrap(&mut self, range: Range<usize>, other: &str) -> Result<(), Error> {
        let (first, last) = (range.start, range.end - 1);
        let numbers = [first, last].map(|index| self.token(index).kind == Kind::Number);
        if numbers.contains(&true) {
            return Ok(()); // a literal is no bfloat, and its suffix is written later
        }
        let (begin, end) = (self.text(first), self.text(last));
        self.make(begin.len() + end.len() + other.len() + 32)?;
        let open = format!("msl::operand<decltype({other})>(");
        if first == last {
            self.edits[first] = Edit::Replace(format!("{open}{begin})"));
        } else {
            self.edits[first] = Edit::Replace(format!("{open}{begin}"));
            self.edits[last] = Edit::Replace(format!("{end})"));
        }
        Ok(())
    }
}
