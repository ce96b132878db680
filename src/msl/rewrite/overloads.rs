//! Functions that differ only in the address spaces of their parameters are one function once these are erased, and
//! so are specializations of a class template by address space: the first stays. When their bodies differ, either
//! choice would give wrong numbers in some call, so that is an error.

use std::collections::HashMap;
use std::ops::Range;

use super::needed_functions::Definition;
use super::spaces_decide::{Choices, is_space};
use super::{Edit, Rewriter};
use crate::msl::error::Error;
use crate::msl::tokens::Kind;

/// What a pair of braces holds.
#[derive(PartialEq)]
enum Scope {
    /// Declarations that other braces of the same name add to.
    Namespace(String),
    /// Declarations of its own.
    Class,
    Other,
}

/// The scopes of a source by number: two pairs of braces are one scope when what they add to is.
#[derive(Default)]
struct Scopes {
    /// Those that are open, each with the number of the one around it.
    open: Vec<(Scope, usize)>,
    current: usize,
    /// Of namespaces, by the scope that they are in.
    numbers: HashMap<(usize, String), usize>,
    count: usize,
}

impl Scopes {
    fn enter(&mut self, scope: Scope) {
        let outer = self.current;
        let fresh = self.count + 1;
        self.current = match &scope {
            Scope::Namespace(name) => *self.numbers.entry((outer, name.clone())).or_insert(fresh),
            Scope::Class => fresh,
            Scope::Other => outer,
        };
        self.count = fresh;
        self.open.push((scope, outer));
    }

    fn leave(&mut self) {
        if let Some((_, outer)) = self.open.pop() {
            self.current = outer;
        }
    }

    /// Whether braces hold declarations and not statements.
    fn declares(&self) -> bool {
        self.open
            .last()
            .is_none_or(|(scope, _)| *scope != Scope::Other)
    }

    fn in_class(&self) -> bool {
        self.open
            .last()
            .is_some_and(|(scope, _)| *scope == Scope::Class)
    }
}

/// A function that stays.
struct Declared {
    /// Its signature with address spaces.
    signature: String,
    /// The tokens between its braces, when it was defined and not only declared.
    body: Option<Range<usize>>,
}

/// What was declared, by scope and signature without address spaces.
type Known = HashMap<(usize, String), Declared>;

impl Rewriter<'_> {
    pub fn merge_overloads(&mut self) -> Result<(), Error> {
        let mut scopes = Scopes::default();
        let mut known = Known::new();
        let mut choices = Choices::default();
        let mut start = 0;
        let mut index = 0;
        while index < self.len() {
            if self.edits[index] == Edit::Erase {
                // What was taken out before a declaration is no part of it.
                if start == index && !is_space(self.text(index)) {
                    start += 1;
                }
                index += 1;
                continue;
            }
            let (declares, in_class) = (scopes.declares(), scopes.in_class());
            match self.text(index) {
                "(" if declares => index = self.closing(index),
                "}" => {
                    scopes.leave();
                    start = index + 1;
                }
                ";" => {
                    if in_class && self.declares_function(start..index) {
                        let declared = start..index;
                        if self.is_repeated(declared, None, scopes.current, &mut known)? {
                            self.erase(start..index + 1);
                        }
                    }
                    if declares && start < index {
                        self.refuse_variable_by_space(start..index)?;
                    }
                    start = index + 1;
                }
                // `public:` begins a declaration anew; `::` is a token of its own.
                ":" if in_class
                    && index > 0
                    && matches!(self.text(index - 1), "public" | "private" | "protected") =>
                {
                    start = index + 1
                }
                "{" if declares && self.declares_function(start..index) => {
                    let end = self.closing(index);
                    let (declaration, body) = (start..index, index + 1..end);
                    let again = Some(body.clone());
                    if self.is_repeated(declaration.clone(), again, scopes.current, &mut known)? {
                        self.erase(start..end + 1);
                    } else {
                        self.note_function(
                            &mut choices,
                            scopes.current,
                            declaration.clone(),
                            body,
                        )?;
                        self.note_definition(declaration, index..end + 1, in_class);
                    }
                    index = end;
                    start = index + 1;
                }
                "{" if declares && self.specializes_class(start..index) => {
                    let end = self.closing(index);
                    let (declaration, body) = (start..index, index + 1..end);
                    let again = Some(body.clone());
                    self.note_class(&mut choices, scopes.current, declaration.clone(), body)?;
                    if self.is_repeated(declaration, again, scopes.current, &mut known)? {
                        // With the `;` behind it.
                        let after = self.next(end).filter(|&after| self.text(after) == ";");
                        index = after.unwrap_or(end);
                        self.erase(start..index + 1);
                    } else {
                        scopes.enter(Scope::Class);
                    }
                    start = index + 1;
                }
                "{" => {
                    let scope = if declares {
                        self.refuse_variable_by_space(start..index)?;
                        let body = index + 1..self.closing(index);
                        self.note_class(&mut choices, scopes.current, start..index, body)?;
                        self.scope(start..index)
                    } else {
                        Scope::Other
                    };
                    scopes.enter(scope);
                    start = index + 1;
                }
                _ => {}
            }
            index += 1;
        }
        self.check_classes(&choices)
    }

    /// Takes in a function that may be declared only, where nothing needs it.
    fn note_definition(&mut self, declaration: Range<usize>, body: Range<usize>, in_class: bool) {
        let Some((name, _)) = self.function_name(declaration.clone()) else {
            return;
        };
        if !in_class && !name.is_empty() && self.can_be_declared(declaration, &name) {
            self.definitions.push(Definition {
                name: String::from(self.text(name.start)),
                head: name.start,
                body,
            });
        }
    }

    fn scope(&self, declaration: Range<usize>) -> Scope {
        let words = |wanted: &[&str]| {
            declaration
                .clone()
                .any(|at| wanted.contains(&self.text(at)))
        };
        if words(&["namespace"]) {
            Scope::Namespace(self.joined(declaration))
        } else if words(&["class", "struct", "union"])
            && !words(&["enum"])
            && !self.initialises(declaration)
        {
            Scope::Class
        } else {
            Scope::Other
        }
    }

    /// Whether it has a `=` that is not a template parameter's.
    fn initialises(&self, declaration: Range<usize>) -> bool {
        let mut angles = 0;
        for at in declaration {
            match self.text(at) {
                "<" => angles += 1,
                ">" => angles -= 1,
                "=" if angles == 0 => return true,
                _ => {}
            }
        }
        false
    }

    /// Whether it is `template <…> struct name<…>`.
    fn specializes_class(&self, declaration: Range<usize>) -> bool {
        let mut live = declaration.filter(|&at| self.edits[at] != Edit::Erase);
        if live.next().map(|at| self.text(at)) != Some("template") {
            return false;
        }
        let mut angles = 0;
        let parameters = live.by_ref().take_while(|&at| {
            match self.text(at) {
                "<" => angles += 1,
                ">" => angles -= 1,
                _ => {}
            }
            angles > 0
        });
        parameters.for_each(drop);
        let class = live.next().map(|at| self.text(at));
        let name = live.next().map(|at| self.token(at).kind);
        let specialized = live.next().map(|at| self.text(at));
        matches!(class, Some("struct" | "class"))
            && name == Some(Kind::Identifier)
            && specialized == Some("<")
    }

    /// Whether the declaration has a parameter list outside of template arguments and initialisers.
    fn declares_function(&self, declaration: Range<usize>) -> bool {
        let mut angles = 0;
        let mut at = declaration.start;
        while at < declaration.end {
            if self.edits[at] != Edit::Erase {
                match self.text(at) {
                    "<" => angles += 1,
                    ">" => angles -= 1,
                    "=" if angles == 0 => return false,
                    // The name of an operator may hold any of these marks.
                    "operator" => return (at..declaration.end).any(|at| self.text(at) == "("),
                    "(" if angles == 0 && at > declaration.start => match self.text(at - 1) {
                        "decltype" | "alignas" | "__attribute__" => at = self.closing(at),
                        _ => return true,
                    },
                    _ => {}
                }
            }
            at += 1;
        }
        false
    }

    /// Whether a function of this signature was declared with other address spaces before. It is an error when both
    /// have bodies that differ.
    fn is_repeated(
        &self,
        declaration: Range<usize>,
        body: Option<Range<usize>>,
        scope: usize,
        known: &mut Known,
    ) -> Result<bool, Error> {
        let signature: String = declaration
            .clone()
            .map(|at| self.text(at))
            .collect::<Vec<_>>()
            .join(" ");
        let key = (scope, self.signature(declaration.clone()));
        let Some(first) = known.get_mut(&key) else {
            known.insert(key, Declared { signature, body });
            return Ok(false);
        };
        let spaces = has_address_space(&first.signature) | has_address_space(&signature);
        if first.signature == signature || !spaces {
            // A declaration whose definition this may be.
            first.body = first.body.take().or(body);
            return Ok(false);
        }
        let same = match (&first.body, body) {
            (_, None) => true,
            (Some(one), Some(other)) => self.rewritten(one.clone()).eq(self.rewritten(other)),
            (None, Some(_)) => false,
        };
        if !same {
            return Err(self.error(
                self.name(declaration),
                "this and an earlier one of the same name differ in the address spaces of their parameters and in their \
                 bodies: the software device has one address space and cannot tell them apart; give them different names",
            ));
        }
        Ok(true)
    }

    /// The tokens of a range as they will be.
    pub(super) fn rewritten(&self, range: Range<usize>) -> impl Iterator<Item = &str> {
        range.filter_map(|at| match &self.edits[at] {
            Edit::Erase => None,
            Edit::Replace(text) => Some(text.as_str()),
            _ => Some(self.text(at)),
        })
    }

    /// The token that names a function: the one before its parameters.
    fn name(&self, declaration: Range<usize>) -> usize {
        let is_list = |&at: &usize| {
            self.edits[at] != Edit::Erase
                && self.text(at) == "("
                && at > declaration.start
                && !matches!(self.text(at - 1), "decltype" | "alignas" | "__attribute__")
                && self.closing(at) < declaration.end
                && self.token(at - 1).kind == Kind::Identifier
        };
        declaration
            .clone()
            .find(is_list)
            .map_or(declaration.start, |list| list - 1)
    }

    /// The declaration as it will be, without the names of parameters and without repeated `const`.
    fn signature(&self, declaration: Range<usize>) -> String {
        let live: Vec<(Kind, &str)> = declaration
            .filter_map(|at| match &self.edits[at] {
                Edit::Keep => Some((self.token(at).kind, self.text(at))),
                Edit::Replace(text) => Some((Kind::Punctuation, text.as_str())),
                _ => None,
            })
            .collect();
        let mut text = String::new();
        for (at, (kind, word)) in live.iter().enumerate() {
            let next = live.get(at + 1).map_or("", |next| next.1);
            let before = at.checked_sub(1).map_or("", |before| live[before].1);
            let names_parameter = *kind == Kind::Identifier
                && matches!(next, "," | ")" | "[")
                && !matches!(before, "(" | "," | "::" | "const" | "<" | "struct" | "");
            if names_parameter || (*word == "const" && before == "const") {
                continue;
            }
            text += word;
            text.push(' ');
        }
        text
    }
}

fn has_address_space(signature: &str) -> bool {
    signature.split(' ').any(is_space)
}
