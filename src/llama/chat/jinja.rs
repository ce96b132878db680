//! Jinja, as far as chat templates use it, with a budget for everything that a template can make large.
//!
//! A chat template is a program in a file from a stranger, and it runs in the process of whoever opens that file. It
//! must end, in bounded time and memory, whatever it says. The engines that exist do not give that. `minijinja`,
//! which this replaced, counts instructions, but one instruction may concatenate, repeat, pad or compare values of
//! any size; its values nest without bound; and its parser, its evaluation and the dropping of its values recurse on
//! the caller's stack. It has no hook for what an instruction allocates. A child process would bound all of that, but
//! a library does not fork.
//!
//! - **Source.** The [`parser`] counts open brackets and blocks. What only repeats, `a + b + c` or `x.a.b()`, is one
//!   node and takes no level. Nodes lie in vectors ([`syntax`]), so that dropping them does not recurse.
//! - **Values** do not change once made ([`value`]). A list or a mapping holds what was there before it, so there are
//!   no cycles, and it knows its depth. A namespace changes, hence a value only has its number.
//! - **Memory.** Every allocation for a value asks the [`budget`] first and gives back when it is dropped.
//! - **Time** is steps, which the same budget counts: each expression, and each 64 bytes copied, compared or searched.
//! - **Stack.** The [`evaluator`] counts its levels, and runs on a thread whose stack is large enough for all that are
//!   allowed ([`super::template`]).

pub mod arguments;
pub mod budget;
pub mod evaluator;
mod filters;
mod format;
mod functions;
mod lexer;
mod methods;
mod operators;
pub mod parser;
mod predicates;
pub mod syntax;
pub mod text;
pub mod value;

use super::limits::ChatTemplateLimit;

/// Why a template ends without text.
#[derive(Debug)]
pub enum Failure {
    /// It called `raise_exception`.
    Refused(String),
    Limit(ChatTemplateLimit),
    Fault(String),
}

impl Failure {
    pub fn fault(reason: impl Into<String>) -> Failure {
        Failure::Fault(reason.into())
    }
}

/// Why a template cannot be read.
#[derive(Debug)]
pub struct SyntaxError {
    pub line: u32,
    /// None where it nests too deep.
    pub reason: Option<String>,
}

impl SyntaxError {
    fn new(line: u32, reason: impl Into<String>) -> SyntaxError {
        SyntaxError {
            line,
            reason: Some(reason.into()),
        }
    }

    fn nesting(line: u32) -> SyntaxError {
        SyntaxError { line, reason: None }
    }
}
