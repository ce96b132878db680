//! From preprocessed Metal source to C++ for OpenCL, for the check of address spaces: there they stay, under OpenCL's
//! names.

use super::address_spaces::{Meaning, Variable};
use super::{Edit, Rewriter, Segment};
use crate::msl::error::Error;
use crate::msl::tokens::Kind;

/// The text to read after `native/msl/check/opencl.h`, line for line. Kernels become functions, so that their
/// templates are instantiated like any other.
pub fn to_opencl(preprocessed: &str) -> Result<String, Error> {
    let mut rewriter = Rewriter::new(preprocessed)?;
    rewriter.take_attributes()?;
    rewriter.skip_graphics()?;
    for mark in rewriter.marks()? {
        rewriter.edits[mark] = Edit::Erase;
    }
    rewriter.name_address_spaces()?;
    rewriter.name_vector_constructors();
    rewriter.name_matrix_elements();
    rewriter.rewrite_literals();
    let segments = rewriter
        .segments()
        .into_iter()
        .map(|segment| match segment {
            Segment::Text(text) => text,
            // OpenCL's compiler follows it, and need not.
            Segment::LoopPragma(_) | Segment::BodyStart(_) | Segment::BodyEnd => String::new(),
            _ => unreachable!("function constants were not taken out"),
        });
    Ok(segments.collect())
}

impl Rewriter<'_> {
    fn name_address_spaces(&mut self) -> Result<(), Error> {
        for index in 0..self.len() {
            if self.edits[index] != Edit::Keep || self.token(index).kind != Kind::Identifier {
                continue;
            }
            let before = self.previous(index).map_or("", |before| self.text(before));
            let name = match self.text(index) {
                _ if matches!(before, "." | "->" | "::") => continue,
                "device" => "__global",
                "constant" => "__constant",
                "thread" => "__private",
                "threadgroup" => match self.meaning_of_threadgroup(index)? {
                    Meaning::Qualifier => "__local",
                    Meaning::Variables(declaration) => {
                        // OpenCL has such variables in kernels only; a reference into nowhere has the right type.
                        let base = &declaration.base;
                        let variables = declaration.variables.iter().map(|Variable { name, extents, .. }| {
                            format!("typedef {base} {name}_type{extents}; __local {name}_type &{name} = *(__local {name}_type *)0")
                        });
                        let text = variables.collect::<Vec<_>>().join("; ");
                        self.erase(declaration.tokens.clone());
                        self.edits[declaration.tokens.start] = Edit::Replace(text);
                        continue;
                    }
                },
                _ => continue,
            };
            self.edits[index] = Edit::Replace(String::from(name));
        }
        Ok(())
    }

    /// `m.thread_elements()` is `m` where a vector stands for a matrix.
    fn name_matrix_elements(&mut self) {
        for index in 1..self.len() {
            if self.text(index) != "thread_elements" || self.next_text(index) != "(" {
                continue;
            }
            let call: Option<Vec<usize>> = (|| {
                let dot = self.previous(index)?;
                let open = self.next(index)?;
                Some(vec![dot, index, open, self.next(open)?])
            })();
            for token in call.into_iter().flatten() {
                self.edits[token] = Edit::Erase;
            }
        }
    }

    /// `float4(a, b)` is MSL's way to make a vector, OpenCL's is a cast; a function will do.
    fn name_vector_constructors(&mut self) {
        const SCALARS: [&str; 10] = [
            "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "float",
        ];
        for index in 0..self.len() {
            let text = self.text(index);
            let scalar = text.trim_end_matches(['2', '3', '4']);
            let is_vector = scalar.len() + 1 == text.len() && SCALARS.contains(&scalar);
            if is_vector && self.edits[index] == Edit::Keep && self.next_text(index) == "(" {
                self.edits[index] = Edit::Replace(format!("make_{text}"));
            }
        }
    }
}
