//! Where an address space decides what a program means, and nothing else does. Once spaces are erased, C++ decides
//! otherwise, in silence: a `thread float *` goes to `g(device float *)` although `g(thread const float *)` is beside
//! it. So such a choice is an error, unless it makes no difference because the bodies are the same.

use std::collections::HashMap;
use std::ops::Range;

use super::{Edit, Rewriter};
use crate::msl::error::Error;
use crate::msl::tokens::{ADDRESS_SPACES, Kind};

/// Types that have vectors.
const NUMBERS: [&str; 12] = [
    "bool", "char", "uchar", "short", "ushort", "int", "uint", "long", "ulong", "half", "bfloat",
    "float",
];

pub(super) fn is_space(word: &str) -> bool {
    ADDRESS_SPACES.contains(&word)
}

/// A type of a declaration, as the choice among several sees it.
struct Type<'s> {
    /// Its address spaces, in their order.
    spaces: Vec<&'s str>,
    is_const: bool,
    /// Its other words, without a parameter's name.
    words: Vec<&'s str>,
    /// Whether a parameter of the function's own template is in it.
    dependent: bool,
}

/// A function with a body.
struct Function<'s> {
    /// The parameters, and last what qualifies the object of a member function.
    parameters: Vec<Type<'s>>,
    body: Range<usize>,
}

/// A specialization of a class template.
struct Specialization<'s> {
    arguments: Type<'s>,
    body: Range<usize>,
    name: usize,
}

#[derive(Default)]
struct Class<'s> {
    /// The body of the template itself.
    primary: Option<Range<usize>>,
    specializations: Vec<Specialization<'s>>,
}

/// What was declared so far, by scope and name.
#[derive(Default)]
pub(super) struct Choices<'s> {
    functions: HashMap<(usize, String), Vec<Function<'s>>>,
    classes: HashMap<(usize, &'s str), Class<'s>>,
}

impl<'s> Rewriter<'s> {
    /// Takes a function's definition in. It is an error when only an address space tells it from an earlier one.
    pub(super) fn note_function(
        &self,
        choices: &mut Choices<'s>,
        scope: usize,
        declaration: Range<usize>,
        body: Range<usize>,
    ) -> Result<(), Error> {
        let named = self.function_name(declaration.clone());
        let Some((name, list)) = named.filter(|(name, _)| !name.is_empty()) else {
            return Ok(());
        };
        let function = Function {
            parameters: self.parameters(declaration.clone(), list, declaration.end),
            body,
        };
        let specializes = self.text(name.end - 1) == ">";
        let by_space = specializes && name.clone().any(|at| is_space(self.text(at)));
        let plain_name = match specializes {
            true => {
                name.start
                    ..name
                        .clone()
                        .find(|&at| self.text(at) == "<")
                        .unwrap_or(name.end)
            }
            false => name.clone(),
        };
        let words: Vec<&str> = plain_name.map(|at| self.text(at)).collect();
        let others = choices
            .functions
            .entry((scope, words.join(" ")))
            .or_default();
        self.count_steps(others.len());
        self.check_work()?;
        let same = |other: &Function| self.same_text(&other.body, &function.body);
        if by_space && !others.iter().any(same) {
            return Err(self.error(name.start, SPECIALIZED));
        }
        let unclear = |other: &&Function| decided_by_space(&other.parameters, &function.parameters);
        if others.iter().filter(unclear).any(|other| !same(other)) {
            return Err(self.error(
                name.start,
                "this and an earlier one of the same name differ in their bodies, and some calls could tell them apart \
                 by address space only: the software device has one address space; give them different names",
            ));
        }
        if !specializes {
            others.push(function);
        }
        Ok(())
    }

    /// Takes a class template, or a specialization of one, with its body in.
    pub(super) fn note_class(
        &self,
        choices: &mut Choices<'s>,
        scope: usize,
        declaration: Range<usize>,
        body: Range<usize>,
    ) -> Result<(), Error> {
        let Some(class) = self.template_class(declaration.clone()) else {
            return Ok(());
        };
        let name = class + 1;
        let list = self
            .angles(name + 1)
            .filter(|list| list.end < declaration.end);
        // With the bases.
        let after_name = list.as_ref().map_or(name, |list| list.end) + 1;
        let body = after_name..body.end;
        let known = choices.classes.entry((scope, self.text(name))).or_default();
        let Some(list) = list else {
            known.primary = Some(body);
            return Ok(());
        };
        let mut specialization = Specialization {
            arguments: self.read_type(list.start + 1..list.end, &[]),
            body,
            name,
        };
        self.count_steps(known.specializations.len());
        self.check_work()?;
        for other in &known.specializations {
            let (one, two) = (&other.arguments, &specialization.arguments);
            if one.words != two.words || one.spaces == two.spaces {
                continue;
            }
            if !self.same_text(&other.body, &specialization.body) {
                return Err(self.error(name, SPECIALIZED));
            }
            specialization.body = other.body.clone(); // this one may be taken out
        }
        known.specializations.push(specialization);
        Ok(())
    }

    /// At the end: the template itself is for the spaces that have no specialization.
    pub(super) fn check_classes(&self, choices: &Choices<'s>) -> Result<(), Error> {
        let mut problems = Vec::new();
        for ((_, class_name), class) in &choices.classes {
            let Some(primary) = &class.primary else {
                continue;
            };
            // What uses a template without members is an error with it, in Metal and here.
            if self.rewritten(primary.clone()).eq(["{"]) {
                continue;
            }
            for specialization in &class.specializations {
                let arguments = &specialization.arguments;
                let alike = class.specializations.iter().filter(|other| {
                    other.arguments.words == arguments.words && !other.arguments.spaces.is_empty()
                });
                let covered: Vec<&str> = alike
                    .flat_map(|other| other.arguments.spaces.iter().copied())
                    .collect();
                self.count_steps(class.specializations.len());
                self.check_work()?;
                if !arguments.spaces.is_empty()
                    && ADDRESS_SPACES.iter().any(|space| !covered.contains(space))
                    && !self.same_text(primary, &specialization.body)
                    && self.is_used_beyond(class_name, &covered)
                {
                    problems.push(specialization.name);
                }
            }
        }
        match problems.iter().min() {
            Some(&name) => Err(self.error(name, SPECIALIZED)),
            None => Ok(()),
        }
    }

    /// Whether a template of classes is named for another space than those, or for a parameter of another template,
    /// which may be for any.
    fn is_used_beyond(&self, class: &str, spaces: &[&str]) -> bool {
        let is_parameter = |word: &str| {
            (1..self.len()).any(|at| {
                self.text(at) == word && matches!(self.text(at - 1), "typename" | "class")
            })
        };
        (1..self.len()).any(|at| {
            if self.text(at) != class || matches!(self.text(at - 1), "struct" | "class") {
                return false;
            }
            let Some(list) = self.angles(at + 1) else {
                return false;
            };
            let arguments = self.read_type(list.start + 1..list.end, &[]);
            let beyond = |space: &&str| !spaces.contains(space);
            arguments.spaces.iter().any(beyond)
                || (arguments.spaces.is_empty()
                    && arguments.words.iter().any(|it| is_parameter(it)))
        })
    }

    /// It is an error when a declaration specializes a template of variables by address space.
    pub(super) fn refuse_variable_by_space(&self, declaration: Range<usize>) -> Result<(), Error> {
        let Some(equals) = self.equals(declaration.clone()) else {
            return Ok(());
        };
        if self.text(declaration.start) != "template" || self.text(equals - 1) != ">" {
            return Ok(());
        }
        let (mut at, mut angles, mut by_space) = (equals, 0, false);
        while at > declaration.start {
            at -= 1;
            match self.text(at) {
                ">" => angles += 1,
                "<" => angles -= 1,
                text => by_space |= is_space(text),
            }
            if angles == 0 {
                break;
            }
        }
        let specializes = self.text(at) == "<" && self.text(at - 1) != "template";
        match by_space && specializes {
            true => Err(self.error(at - 1, SPECIALIZED)),
            false => Ok(()),
        }
    }

    /// The `struct` or `class` of a class template.
    fn template_class(&self, declaration: Range<usize>) -> Option<usize> {
        let mut live = declaration.filter(|&at| self.edits[at] != Edit::Erase);
        let first = live.next()?;
        (self.text(first) == "template").then_some(())?;
        let mut angles = 0;
        let after = live.find(|&at| {
            match self.text(at) {
                "<" => angles += 1,
                ">" => angles -= 1,
                _ => {}
            }
            angles == 0
        })?;
        let class = self.next(after)?;
        matches!(self.text(class), "struct" | "class").then_some(class)
    }

    /// The `=` that is no default of a template's parameter.
    fn equals(&self, declaration: Range<usize>) -> Option<usize> {
        let mut angles = 0;
        declaration.into_iter().find(|&at| {
            match self.text(at) {
                "<" => angles += 1,
                ">" => angles -= 1,
                _ => {}
            }
            angles == 0 && self.text(at) == "="
        })
    }

    /// The tokens that name a function, with template arguments, and its parameters' `(`.
    pub(super) fn function_name(&self, declaration: Range<usize>) -> Option<(Range<usize>, usize)> {
        let (mut at, mut angles) = (declaration.start, 0);
        while at < declaration.end {
            match self.text(at) {
                "<" => angles += 1,
                ">" => angles -= 1,
                "operator" => {
                    let mut list = at + 1;
                    if self.text(list) == "(" {
                        list = self.closing(list) + 1;
                    }
                    let list = (list..declaration.end).find(|&at| self.text(at) == "(")?;
                    return Some((at..list, list));
                }
                "(" if angles == 0 && at > declaration.start => {
                    let before = self.text(at - 1);
                    if !matches!(before, "decltype" | "alignas" | "__attribute__") {
                        return Some((self.name_before(at, declaration.start), at));
                    }
                    at = self.closing(at);
                }
                "[" | "(" => at = self.closing(at),
                _ => {}
            }
            at += 1;
        }
        None
    }

    /// `a::b`, `c<float>` before a parameter list.
    fn name_before(&self, list: usize, from: usize) -> Range<usize> {
        let (mut at, mut angles) = (list, 0);
        while at > from {
            let text = self.text(at - 1);
            match text {
                ">" => angles += 1,
                "<" => angles -= 1,
                _ if angles > 0 || text == "::" => {}
                _ if self.token(at - 1).kind == Kind::Identifier => {
                    let qualified = at >= from + 2 && self.text(at - 2) == "::";
                    if !qualified {
                        return at - 1..list;
                    }
                }
                _ => break,
            }
            at -= 1;
        }
        at..list
    }

    /// A function's parameters, and what stands between them and its body.
    fn parameters(&self, declaration: Range<usize>, list: usize, end: usize) -> Vec<Type<'s>> {
        let own = self.template_parameters(declaration);
        let close = self.closing(list);
        let mut found = Vec::new();
        let (mut start, mut at, mut angles) = (list + 1, list + 1, 0);
        while at <= close {
            match self.text(at) {
                "<" => angles += 1,
                ">" => angles -= 1,
                "(" | "[" | "{" => at = self.closing(at),
                "," if angles == 0 => {
                    found.push(self.read_type(start..at, &own));
                    start = at + 1;
                }
                _ => {}
            }
            at += 1;
        }
        if start < close {
            found.push(self.read_type(start..close, &own));
        }
        // A constructor's list of members says nothing of its object.
        let after = close + 1..end;
        let colon = after
            .clone()
            .find(|&at| matches!(self.text(at), ":" | "->"));
        let mut object = self.read_type(close + 1..colon.unwrap_or(end), &own);
        object.words.clear();
        found.push(object);
        found
    }

    /// The names that a function's own template declares.
    fn template_parameters(&self, declaration: Range<usize>) -> Vec<&'s str> {
        let mut names = Vec::new();
        if self.text(declaration.start) != "template" {
            return names;
        }
        let mut angles = 0;
        for at in declaration.start + 1..declaration.end {
            match self.text(at) {
                "<" => angles += 1,
                ">" => angles -= 1,
                _ => {}
            }
            if angles == 0 {
                break;
            }
            let next = self.text(at + 1);
            if angles == 1
                && self.token(at).kind == Kind::Identifier
                && matches!(next, "," | ">" | "=")
            {
                names.push(self.text(at));
            }
        }
        names
    }

    /// `own`: the names that make it dependent.
    fn read_type(&self, range: Range<usize>, own: &[&str]) -> Type<'s> {
        let mut read = Type {
            spaces: Vec::new(),
            is_const: false,
            words: Vec::new(),
            dependent: false,
        };
        let mut angles = 0;
        let mut last = None;
        for at in range {
            let text = self.text(at);
            match text {
                _ if is_space(text) => {
                    read.spaces.push(text);
                    read.is_const |= text == "constant";
                    continue;
                }
                "const" => {
                    read.is_const = true;
                    continue;
                }
                "volatile" | "coherent" => continue,
                _ if self.edits[at] == Edit::Erase => continue,
                "<" => angles += 1,
                ">" => angles -= 1,
                "=" if angles == 0 => break,
                _ => {}
            }
            read.dependent |= own.contains(&text);
            // The name in `(&name)[4]`.
            let names_array = text == ")" && matches!(last, Some(Kind::Identifier));
            if names_array
                && read
                    .words
                    .iter()
                    .rev()
                    .nth(1)
                    .is_some_and(|it| matches!(*it, "&" | "*"))
            {
                read.words.pop();
            }
            read.words.push(text);
            last = Some(self.token(at).kind);
        }
        // The parameter's name, before the sizes of an array.
        let end = read
            .words
            .iter()
            .position(|it| *it == "[")
            .unwrap_or(read.words.len());
        if end >= 2 && is_name(read.words[end - 1]) && read.words[end - 2] != "::" {
            read.words.remove(end - 1);
        }
        read
    }

    fn same_text(&self, one: &Range<usize>, other: &Range<usize>) -> bool {
        self.rewritten(one.clone())
            .eq(self.rewritten(other.clone()))
    }
}

const SPECIALIZED: &str = "this template is specialized by address space, and its bodies differ: the software device \
                           has one address space and cannot tell them apart; give them different names";

fn is_name(word: &str) -> bool {
    word.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

impl Type<'_> {
    fn is_pointer(&self) -> bool {
        self.words.iter().any(|word| matches!(*word, "*" | "["))
    }

    /// Which no other type becomes by itself but a number.
    fn is_vector(&self) -> bool {
        let Some(name) = self.words.last() else {
            return false;
        };
        let number = name.trim_end_matches(['2', '3', '4']);
        number.len() + 1 == name.len() && NUMBERS.contains(&number)
    }

    fn is_reference(&self) -> bool {
        self.words.contains(&"&")
    }

    /// Whether their spaces differ, where both have one or could have.
    fn is_elsewhere(&self, other: &Self) -> bool {
        let has_one = |it: &Self| it.dependent || !it.spaces.is_empty() || it.words.is_empty();
        self.spaces != other.spaces && has_one(self) && has_one(other)
    }

    /// Whether one value could be an argument of both, were it not for address spaces.
    fn overlaps(&self, other: &Self) -> bool {
        if self.words == other.words {
            return true;
        }
        match (self.is_pointer(), other.is_pointer()) {
            (true, true) => {
                let any = |it: &Self| it.dependent || it.words.contains(&"void");
                any(self) || any(other)
            }
            (true, false) => other.dependent,
            (false, true) => self.dependent,
            (false, false) => {
                let exact = |it: &Self| it.is_reference() && !it.is_const;
                let class = |it: &Self| it.is_vector() || it.words.contains(&"<");
                let differ = exact(self) && exact(other) || class(self) || class(other);
                self.dependent || other.dependent || !differ
            }
        }
    }

    /// Whether what fits is told by `const` as well: all that is constant is `const`, and no `T` may become so.
    fn is_told_by_const(&self, other: &Self) -> bool {
        let constant = |it: &Self| it.spaces == ["constant"];
        let plain = |it: &Self| !it.is_const && !it.dependent && it.spaces.len() == 1;
        (constant(self) && plain(other)) || (plain(self) && constant(other))
    }
}

/// Whether some call could mean the one or the other by an address space alone.
fn decided_by_space(one: &[Type], other: &[Type]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let pairs = || one.iter().zip(other);
    pairs().any(|(one, other)| one.is_elsewhere(other))
        && pairs().all(|(one, other)| one.overlaps(other))
        && !pairs().any(|(one, other)| one.is_told_by_const(other))
        && !(ties(one, other) || ties(other, one))
}

/// Whether a `T` is one type of the other function's, and must be what its template parameter becomes, too: `g(T, T *)`
/// beside `g(uint3, U *)`. No call fits both that means only one.
fn ties(one: &[Type], other: &[Type]) -> bool {
    let pairs = || one.iter().zip(other);
    pairs().any(|(bare, concrete)| {
        let [name] = bare.words[..] else {
            return false;
        };
        let elsewhere = |(it, its): (&Type, &Type)| {
            it.words.len() > 1 && it.words.contains(&name) && its.dependent
        };
        bare.dependent && !concrete.dependent && pairs().any(elsewhere)
    })
}
