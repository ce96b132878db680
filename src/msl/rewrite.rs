//! From preprocessed Metal source to C++ that clang compiles for the CPU, token by token.
//!
//! What C++ can express stays as it is. Attributes are taken out and remembered, address spaces disappear (their rules
//! are checked elsewhere, see `check`), floating-point literals become floats, kernels are listed with what each
//! parameter is bound to, function constants wait for their values, and threadgroup variables become references into
//! the threadgroup's memory. The line structure is kept exactly, so a compiler message on a line of the result is about
//! that line of the source.

mod address_spaces;
mod attributes;
mod brackets;
mod constants;
mod definitions;
mod graphics;
mod kernels;
mod literals;
mod needed_functions;
pub mod opencl;
mod overloads;
mod refusals;
mod spaces_decide;
mod ternary;
mod vector_sizes;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashSet;

use super::error::Error;
use super::tokens::{Token, Tokens, after_word, tokenize};
use attributes::Attributes;
use brackets::Brackets;
pub use constants::{FunctionConstant, Value};
pub use graphics::Skipped;
pub use kernels::Kernel;
use needed_functions::{Definition, Needs};

/// A rewritten source: text with holes for the function constants, and what it defines.
pub struct Program {
    segments: Vec<Segment>,
    needs: Needs,
    pub kernels: Vec<Kernel>,
    pub constants: Vec<FunctionConstant>,
    /// Functions that were taken out because this device computes only.
    pub skipped: Vec<Skipped>,
}

enum Segment {
    Text(String),
    /// The storage class of a function constant's declaration.
    ConstantHead(usize),
    /// The initialiser of a function constant's declaration.
    ConstantValue(usize),
    /// Whether a function constant has a value.
    ConstantDefined(usize),
    /// A loop pragma, for those targets that follow it.
    LoopPragma(String),
    /// What follows is the body of a function, by its number: one that is not needed is declared only.
    BodyStart(usize),
    BodyEnd,
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
    brackets: Brackets,
    edits: Vec<Edit>,
    attributes: Attributes,
    /// Tokens that were passed over in search of others.
    steps: Cell<usize>,
    /// Bytes that the passes have made.
    made: Cell<usize>,
    /// What a pass found wrong so far.
    problems: RefCell<Vec<String>>,
    /// The functions whose bodies can be left out, in the source's order.
    definitions: Vec<Definition>,
}

/// A second's work. The searches of the passes are short in any source that a person wrote.
const MOST_STEPS: usize = 500_000_000;
/// Bytes that a rewritten source may have more than it had.
const MOST_MADE: usize = 64 << 20;
/// Kernels that are worth a compiler of their own.
const LEAST_OF_A_PART: usize = 64;
/// Errors of one source that are told at once.
const MOST_PROBLEMS: usize = 20;

impl Program {
    /// Rewrites a preprocessed source. Errors carry its lines.
    pub fn parse(preprocessed: &str) -> Result<Program, Error> {
        let mut rewriter = Rewriter::new(preprocessed)?;
        rewriter.refuse()?;
        rewriter.take_attributes()?;
        let skipped = rewriter.skip_graphics()?;
        let kernels = rewriter.take_kernels()?;
        let constants = rewriter.take_function_constants(&kernels)?;
        rewriter.rewrite_address_spaces()?;
        rewriter.deduce_vector_sizes()?;
        rewriter.merge_overloads()?;
        rewriter.match_ternary_operands()?;
        rewriter.rewrite_literals();
        let needs = rewriter.needs(&rewriter.definitions);
        let program = Program {
            segments: rewriter.segments(),
            kernels: kernels.kernels,
            needs,
            constants,
            skipped,
        };
        // What was taken out may have stood between two halves of something.
        Rewriter::new(&program.text(&program.samples()))?.refuse()?;
        Ok(program)
    }

    /// What makes the compiler instantiate every kernel.
    pub fn mentions(&self) -> String {
        kernels::mentions(&self.kernels)
    }

    /// The same in at most `count` parts, for compilers that run at once. Neighbors, which share most of what they
    /// call, stay together, and none gets few: each has the whole source to read first.
    pub fn mentions_in_parts(&self, count: usize) -> Vec<String> {
        let count = count.min(self.kernels.len() / LEAST_OF_A_PART).max(1);
        let size = self.kernels.len().div_ceil(count).max(1);
        self.kernels.chunks(size).map(kernels::mentions).collect()
    }

    /// A value for each function constant: any will do to check a source, as long as its type is right.
    pub fn samples(&self) -> Vec<Option<Value>> {
        self.constants.iter().map(|_| Some(Value::Sample)).collect()
    }

    /// The C++ text with `values` for the function constants, in the order of `constants`; one without a value is
    /// declared and not defined, so that only a kernel that uses it fails.
    pub fn text(&self, values: &[Option<Value>]) -> String {
        self.text_with(values, false, None)
    }

    /// The same, with the source's loop pragmas if `unrolls`: a GPU keeps arrays in registers when the loops over them
    /// are unrolled; on the CPU it mostly costs compile time. `only`: without the bodies of functions that this kernel
    /// does not need.
    pub fn text_with(
        &self,
        values: &[Option<Value>],
        unrolls: bool,
        only: Option<&Kernel>,
    ) -> String {
        let needed = only.map(|kernel| self.needs.of(kernel.texts()));
        let mut text = String::new();
        let mut left_out = false;
        for segment in &self.segments {
            match segment {
                Segment::BodyStart(number) => {
                    left_out = needed.as_ref().is_some_and(|needed| !needed[*number]);
                    text += if left_out { ";" } else { "" };
                }
                Segment::BodyEnd => left_out = false,
                Segment::Text(part) if left_out => text += &needed_functions::lines_of(part),
                _ if left_out => {}
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
                Segment::LoopPragma(line) if unrolls => text += line,
                Segment::LoopPragma(_) => {}
                Segment::ConstantDefined(index) => {
                    text += match values[*index] {
                        Some(Value::Bytes(_) | Value::Sample) => "true",
                        Some(Value::Unset) | None => "false",
                    }
                }
            }
        }
        text
    }
}

impl<'s> Rewriter<'s> {
    fn new(preprocessed: &'s str) -> Result<Rewriter<'s>, Error> {
        let tokens = tokenize(preprocessed)?;
        Ok(Rewriter {
            brackets: Brackets::pair(&tokens)?,
            edits: vec![Edit::Keep; tokens.list.len()],
            tokens,
            attributes: Attributes::default(),
            steps: Cell::new(0),
            made: Cell::new(0),
            problems: RefCell::default(),
            definitions: Vec::new(),
        })
    }

    /// Counts work; whoever does much of it asks `check_work` whether to go on.
    fn count_steps(&self, steps: usize) {
        self.steps.set(self.steps.get().saturating_add(steps));
    }

    /// An error when rewriting takes far longer than any source should.
    fn check_work(&self) -> Result<(), Error> {
        match self.steps.get() > MOST_STEPS {
            true => Err(Error::Limit(String::from(
                "reading this source takes too long: its declarations are too long or too many",
            ))),
            false => Ok(()),
        }
    }

    /// An error when the passes make too much text of a short source; asked before each part is made.
    fn make(&self, bytes: usize) -> Result<(), Error> {
        self.made.set(self.made.get().saturating_add(bytes));
        match self.made.get() > MOST_MADE {
            true => Err(Error::Limit(format!(
                "this source becomes longer by more than {} MiB when it is rewritten",
                MOST_MADE >> 20
            ))),
            false => Ok(()),
        }
    }

    /// Keeps an error for the end of the pass, so that it finds the others, too.
    fn keep_going(&self, result: Result<(), Error>) -> Result<(), Error> {
        if let Err(Error::Source(problem)) = result {
            let mut problems = self.problems.borrow_mut();
            problems.push(problem);
            return match problems.len() < MOST_PROBLEMS {
                true => Ok(()),
                false => Err(Error::Source(problems.join("\n"))),
            };
        }
        result
    }

    /// The end of a pass that kept going.
    fn end_pass(&self) -> Result<(), Error> {
        let problems = self.problems.borrow();
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Error::Source(problems.join("\n"))),
        }
    }

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
        let next = (index + 1..self.len()).find(|&next| self.edits[next] != Edit::Erase);
        self.count_steps(next.unwrap_or(self.len()) - index);
        next
    }

    fn previous(&self, index: usize) -> Option<usize> {
        let previous = (0..index)
            .rev()
            .find(|&before| self.edits[before] != Edit::Erase);
        self.count_steps(index - previous.unwrap_or(0));
        previous
    }

    fn erase(&mut self, range: std::ops::Range<usize>) {
        self.edits[range].fill(Edit::Erase);
    }

    /// The token that closes the bracket at `open`.
    fn closing(&self, open: usize) -> usize {
        self.brackets.other(open)
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
        let names = OnceCell::new();
        let is_name = |word: &str| {
            let all = || self.tokens.list.iter().map(|token| token.text);
            names
                .get_or_init(|| all().collect::<HashSet<_>>())
                .contains(word)
        };
        let mut bodies = self.definitions.iter().enumerate().peekable();
        for (index, (token, edit)) in self.tokens.list.iter().zip(&self.edits).enumerate() {
            // A body's end is that of its last token.
            if bodies.next_if(|(_, it)| it.body.end == index).is_some() {
                push_hole(&mut segments, &mut text, Segment::BodyEnd);
            }
            push_gap(&mut segments, &mut text, token.gap, &is_name);
            if let Some((number, _)) = bodies.peek().filter(|(_, it)| it.body.start == index) {
                push_hole(&mut segments, &mut text, Segment::BodyStart(*number));
            }
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
            push_hole(&mut segments, &mut text, hole);
        }
        if bodies.next().is_some() {
            push_hole(&mut segments, &mut text, Segment::BodyEnd);
        }
        push_gap(&mut segments, &mut text, self.tokens.tail, &is_name);
        text.push('\n');
        segments.push(Segment::Text(text));
        segments
    }
}

fn push_hole(segments: &mut Vec<Segment>, text: &mut String, hole: Segment) {
    segments.push(Segment::Text(std::mem::take(text)));
    segments.push(hole);
}

/// The preprocessor leaves macros in pragmas as they are, and nothing defines them afterwards: a number of iterations
/// that has one is not told.
fn loop_pragma(pragma: &str, is_name: &dyn Fn(&str) -> bool) -> Segment {
    let words = pragma.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let unroll = |word: &&str| !matches!(*word, "unroll" | "nounroll");
    let mut names = words.filter(unroll).filter(|word| {
        let first = word.chars().next();
        first.is_some_and(|first| !first.is_ascii_digit())
    });
    let is_clangs = pragma.trim_start().starts_with("clang");
    let directive = match is_clangs || names.all(is_name) {
        true => format!("#pragma{pragma}"),
        false => String::from("#pragma unroll"),
    };
    Segment::LoopPragma(directive)
}

/// Of directives only line markers and the pragmas that change what code means are passed on, so that clang acts on
/// nothing else; loop pragmas are kept apart. `is_name`: whether the source has it, and it is no macro.
fn push_gap(
    segments: &mut Vec<Segment>,
    text: &mut String,
    gap: &str,
    is_name: &dyn Fn(&str) -> bool,
) {
    const PRAGMAS: [&str; 4] = ["pack", "STDC", "clang fp", "METAL"];
    const LOOPS: [&str; 3] = ["unroll", "nounroll", "clang loop"];
    if !gap.contains('#') {
        text.push_str(gap);
        return;
    }
    for line in gap.split_inclusive('\n') {
        let directive = line.trim().strip_prefix('#').map(str::trim_start);
        let starts = |pragma: &str, with: &[&str]| {
            let pragma = pragma.trim_start();
            with.iter().any(|word| pragma.starts_with(word))
        };
        let kept = match directive {
            None => true,
            Some(rest) => match after_word(rest, "pragma") {
                Some(pragma) => {
                    if starts(pragma, &LOOPS) {
                        push_hole(segments, text, loop_pragma(pragma, is_name));
                    }
                    starts(pragma, &PRAGMAS)
                }
                None => after_word(rest, "ident").is_none(),
            },
        };
        match kept {
            true => text.push_str(line),
            false if line.ends_with('\n') => text.push('\n'),
            false => {}
        }
    }
}
