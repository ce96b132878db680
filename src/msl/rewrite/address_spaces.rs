//! Address spaces: erased, but for `constant`, which is `const`, and for variables in threadgroup memory.
//!
//! A `threadgroup` that declares a variable must become a reference into the memory that the threads share, and any
//! other must not. A mistake in either direction compiles and gives wrong numbers, so every `threadgroup` is positively
//! one of: the pointee of a pointer or reference, a member function's qualifier, or a variable. Anything else is an
//! error.

use std::ops::Range;

use super::{Edit, Rewriter};
use crate::msl::error::Error;
use crate::msl::tokens::Kind;

impl Rewriter<'_> {
    pub fn rewrite_address_spaces(&mut self) -> Result<(), Error> {
        for index in 0..self.len() {
            if self.edits[index] != Edit::Keep || self.token(index).kind != Kind::Identifier {
                continue;
            }
            self.check_work()?;
            let before = self.previous(index).map_or("", |before| self.text(before));
            if matches!(before, "." | "->" | "::") {
                continue; // a member's name
            }
            let rewritten = match self.text(index) {
                "device" | "thread" => {
                    self.edits[index] = Edit::Erase;
                    Ok(())
                }
                "constant" => {
                    self.edits[index] = match before {
                        // After a parameter list it qualifies a member function.
                        ")" | "const" => Edit::Erase,
                        _ => Edit::Replace(String::from("const")),
                    };
                    Ok(())
                }
                "threadgroup" => self.rewrite_threadgroup(index),
                "coherent" => {
                    self.rewrite_coherent(index);
                    Ok(())
                }
                space @ ("threadgroup_imageblock" | "object_data" | "ray_data") => {
                    let what = "is not supported: this device computes only";
                    Err(self.error(index, format!("the address space `{space}` {what}")))
                }
                _ => Ok(()),
            };
            self.keep_going(rewritten)?;
        }
        self.end_pass()
    }

    /// `coherent device float *p`, `coherent(device) …`: a macro of the target's, where it is not a name.
    fn rewrite_coherent(&mut self, index: usize) {
        let mut after = index + 1;
        if after < self.len() && self.text(after) == "(" {
            after = self.closing(after) + 1;
        }
        if after < self.len() && matches!(self.text(after), "device" | "const" | "volatile") {
            self.erase(index..after);
            self.edits[index] = Edit::Replace(String::from("MSL_COHERENT"));
        }
    }

    fn rewrite_threadgroup(&mut self, index: usize) -> Result<(), Error> {
        let declaration = match self.meaning_of_threadgroup(index)? {
            Meaning::Qualifier => {
                self.edits[index] = Edit::Erase;
                return Ok(());
            }
            Meaning::Variables(declaration) => declaration,
        };
        let (base, alignments) = (&declaration.base, &declaration.alignments);
        let mut start = declaration.tokens.start;
        for variable in &declaration.variables {
            let Variable { name, extents, .. } = variable;
            self.make(base.len() + alignments.len() + 8 * name.len() + extents.len() + 400)?;
            let alias = format!("msl_type_{index}_{name}");
            let tag = format!("msl_tag_{index}_{name}");
            let mut text = format!(
                "using {alias} {alignments} = {base}{extents}; struct {tag} {{}}; \
                 {alias} &{name} = msl::threadgroup_variable<{alias}, {tag}>("
            );
            // An initializer stays where it is, for the passes after this one.
            let (erased, end) = match variable.equals {
                Some(equals) => {
                    text += &format!("[&]({alias} &msl_place) {{ {alias} msl_initial ");
                    (
                        start..equals,
                        "; __builtin_memcpy((void *)&msl_place, &msl_initial, sizeof msl_place); });",
                    )
                }
                None => (start..variable.end, ");"),
            };
            self.erase(erased);
            self.edits[start] = Edit::Replace(text);
            self.edits[variable.end] = Edit::Replace(String::from(end));
            start = variable.end + 1;
        }
        Ok(())
    }

    pub(super) fn meaning_of_threadgroup(&self, index: usize) -> Result<Meaning, Error> {
        // Qualifiers and alignments may stand before the address space.
        let mut first = index;
        while let Some(before) = self.previous(first) {
            match self.text(before) {
                "const" | "volatile" => first = before,
                ")" => match self.previous(self.closing(before)) {
                    Some(name) if matches!(self.text(name), "alignas" | "__attribute__") => {
                        first = name
                    }
                    _ => break,
                },
                _ => break,
            }
        }
        let before = self.previous(first).map_or(";", |before| self.text(before));
        let starts_statement = matches!(before, ";" | "{" | "}" | ")" | ":");
        let qualifies_method =
            before == ")" && matches!(self.next_text(index), "{" | ";" | "=" | "const" | ":");
        if qualifies_method || self.declares_pointer(index, matches!(before, "(" | ",")) {
            return Ok(Meaning::Qualifier);
        }
        if starts_statement {
            return self.variables(first, index).map(Meaning::Variables);
        }
        Err(self.error(
            index,
            format!(
                "cannot tell what `threadgroup` means after `{before}`: write it first in a variable's declaration, or before \
                 the type of a pointer or reference"
            ),
        ))
    }

    /// Whether the declaration that goes on after `index` reaches a `*` or `&` before a name ends it.
    fn declares_pointer(&self, index: usize, parameter: bool) -> bool {
        let mut angles = 0;
        let mut at = index;
        while let Some(next) = self.next(at) {
            at = next;
            match self.text(at) {
                "<" => angles += 1,
                ">" if angles == 0 => return false,
                ">" => angles -= 1,
                "*" | "&" if angles == 0 => return true,
                "[" if angles == 0 => return parameter, // an array parameter is a pointer
                "(" if angles == 0 => return matches!(self.next_text(at), "*" | "&"),
                "(" | "[" | "{" if angles > 0 => at = self.closing(at),
                ";" | "," | "=" | "{" | ")" | "}" if angles == 0 => return false,
                _ => {}
            }
        }
        false
    }

    /// The attributes of a range, those of C++ in GNU's form, which an alias takes.
    fn alignments(&self, range: Range<usize>) -> String {
        let mut text = String::new();
        for at in range.filter(|&at| matches!(self.text(at), "alignas" | "__attribute__")) {
            let Some(open) = self.next(at) else { break };
            let inside = self.joined(open..self.closing(open) + 1);
            text += &match self.text(at) {
                "alignas" => format!("__attribute__((aligned{inside})) "),
                _ => format!("__attribute__{inside} "),
            };
        }
        text
    }

    /// Reads `threadgroup T a[4], b;`, which starts at `first` with its qualifiers.
    fn variables(&self, first: usize, index: usize) -> Result<Declaration, Error> {
        let unfinished = || self.error(index, "this threadgroup declaration does not end");
        // The type ends before the first declared name: the identifier that `[`, `,` or `;` follows.
        let mut at = self.next(index).ok_or_else(unfinished)?;
        let mut alignments = self.alignments(first..index);
        let mut type_start = at;
        while matches!(self.text(type_start), "alignas" | "__attribute__") {
            let open = self.next(type_start).ok_or_else(unfinished)?;
            let close = self.closing(open);
            alignments += &self.alignments(type_start..close + 1);
            at = self.next(close).ok_or_else(unfinished)?;
            type_start = at;
        }
        let mut angles = 0;
        let mut name = loop {
            match self.text(at) {
                "<" => angles += 1,
                ">" => angles -= 1,
                "{" if matches!(self.text(type_start), "struct" | "union") => at = self.closing(at),
                "=" | "{" | "(" if angles == 0 => {
                    return Err(self.error(at, "a threadgroup variable is initialized by `=` only"));
                }
                _ => {}
            }
            let next = self.next(at).ok_or_else(unfinished)?;
            if angles == 0 && matches!(self.text(next), "[" | "," | ";" | "=") {
                break at;
            }
            at = next;
        };
        if name == type_start {
            return Err(self.error(index, "a threadgroup variable needs a type and a name"));
        }
        let qualifiers = (first..index)
            .map(|at| self.text(at))
            .filter(|text| matches!(*text, "const" | "volatile"))
            .collect::<Vec<_>>()
            .join(" ");
        let base = format!("{qualifiers} {}", self.joined(type_start..name));
        let mut variables = Vec::new();
        loop {
            if self.token(name).kind != Kind::Identifier {
                return Err(self.error(name, "expected the name of a threadgroup variable"));
            }
            let extents = self.next(name).ok_or_else(unfinished)?;
            let mut end = extents;
            while self.text(end) == "[" {
                end = self.next(self.closing(end)).ok_or_else(unfinished)?;
            }
            let extents = self.joined(extents..end);
            let equals = (self.text(end) == "=").then_some(end);
            while equals.is_some() && !matches!(self.text(end), "," | ";") {
                let opens = matches!(self.text(end), "(" | "[" | "{");
                let last = if opens { self.closing(end) } else { end };
                end = self.next(last).ok_or_else(unfinished)?;
            }
            variables.push(Variable {
                name: String::from(self.text(name)),
                extents,
                equals,
                end,
            });
            match self.text(end) {
                ";" => {
                    return Ok(Declaration {
                        tokens: first..end,
                        base: String::from(base.trim()),
                        alignments,
                        variables,
                    });
                }
                "," => name = self.next(end).ok_or_else(unfinished)?,
                _ => {
                    return Err(
                        self.error(end, "a threadgroup variable is initialized by `=` only")
                    );
                }
            }
        }
    }
}

/// What a `threadgroup` is there for.
pub(super) enum Meaning {
    /// It says where something points to.
    Qualifier,
    Variables(Declaration),
}

/// A declaration of variables in threadgroup memory.
pub(super) struct Declaration {
    /// All of it but the `;`.
    pub tokens: Range<usize>,
    /// Their type.
    pub base: String,
    /// Attributes of GNU's that align them, or nothing.
    pub alignments: String,
    pub variables: Vec<Variable>,
}

/// A variable in threadgroup memory.
pub(super) struct Variable {
    pub name: String,
    pub extents: String,
    /// The `=` of its initializer.
    equals: Option<usize>,
    /// The `,` or `;` behind it.
    end: usize,
}
