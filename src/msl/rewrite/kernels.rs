//! Kernels: definitions, explicit instantiations, and what each parameter is bound to.
//!
//! Only names and attributes are read from a signature. The parameters' types are left to C++
//! (native/msl/cpu/entry.h), which is why `template [[host_name("x")]] kernel decltype(f<int>) f<int>;` needs no
//! treatment of its own.

use std::ops::Range;

use super::attributes::Attribute;
use super::{Edit, Rewriter};
use crate::msl::error::Error;
use crate::msl::tokens::Kind;

/// A kernel that a library offers.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// The name that it is found by.
    pub name: String,
    /// The C++ function: `f`, `f<half, 4>`.
    function: String,
    /// The namespaces around it, outermost first.
    namespaces: Vec<String>,
    /// A `msl::bound<…>` for each parameter.
    bounds: Vec<String>,
    /// The expression of `[[max_total_threads_per_threadgroup(…)]]`.
    max_threads: Option<String>,
    /// A directive for the line that it is on.
    place: String,
}

/// Threads that a threadgroup may have when a kernel does not say: what Apple7 and later GPUs allow.
pub const MAX_THREADS: &str = "1024";

impl Kernel {
    fn in_its_namespace(&self, what: String) -> String {
        // On one line, the kernel's own, for what is wrong with its signature.
        let mut text = what;
        for name in self.namespaces.iter().rev() {
            text = format!("namespace {name} {{ {text} }}");
        }
        format!("{}{text}\n", self.place)
    }

    fn instance(&self) -> String {
        let mut text = format!("msl::kernel<decltype(&{0}), (&{0})", self.function);
        for bound in &self.bounds {
            text += ", ";
            text += bound;
        }
        text + ">"
    }

    /// Makes this kernel the library's own.
    pub fn export(&self) -> String {
        self.in_its_namespace(format!("MSL_EXPORT({})", self.exported()))
    }

    /// Makes this one of several kernels of a module, for targets that have those.
    #[cfg_attr(
        not(all(feature = "nvidia", target_os = "linux")),
        expect(dead_code, reason = "the CPU has a library for each kernel")
    )]
    pub fn export_as(&self, number: usize) -> String {
        self.in_its_namespace(format!("MSL_EXPORT_AS({number}, {})", self.exported()))
    }

    fn exported(&self) -> String {
        let max_threads = self.max_threads.as_deref().unwrap_or(MAX_THREADS);
        format!("({max_threads}), {}", self.instance())
    }

    /// Makes the compiler instantiate this kernel; `index` tells several of them apart.
    pub fn mention(&self, index: usize) -> String {
        self.in_its_namespace(format!(
            "static auto *const msl_mention_{index} = &{}::run;",
            self.instance()
        ))
    }
}

/// The kernels of a source, with the parameter lists whose attributes belong to them.
pub struct Kernels {
    pub kernels: Vec<Kernel>,
    pub parameters: Vec<Range<usize>>,
}

/// The attributes that bind a parameter to something other than memory; entry.h has one enumerator for each.
const POSITIONS: [&str; 17] = [
    "thread_position_in_grid",
    "threads_per_grid",
    "threadgroup_position_in_grid",
    "threadgroups_per_grid",
    "thread_position_in_threadgroup",
    "threads_per_threadgroup",
    "dispatch_threads_per_threadgroup",
    "thread_index_in_threadgroup",
    "thread_index_in_simdgroup",
    "threads_per_simdgroup",
    "thread_execution_width",
    "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup",
    "dispatch_simdgroups_per_threadgroup",
    "thread_index_in_quadgroup",
    "quadgroup_index_in_threadgroup",
    "quadgroups_per_threadgroup",
];

/// A function's declarator: its name with template arguments, and its parameter list when it has one.
struct Declarator {
    name: String,
    arguments: String,
    parameters: Option<Range<usize>>,
    /// The token after it.
    end: usize,
}

/// The namespaces around a token: (first token, names from the outermost) wherever they change.
struct Namespaces(Vec<(usize, Vec<String>)>);

impl Namespaces {
    fn around(&self, token: usize) -> Vec<String> {
        let after = self.0.partition_point(|(from, _)| *from <= token);
        self.0[after - 1].1.clone()
    }
}

struct Definition {
    name: String,
    namespaces: Vec<String>,
    bounds: Vec<String>,
    max_threads: Option<String>,
}

impl Rewriter<'_> {
    pub fn take_kernels(&mut self) -> Result<Kernels, Error> {
        let namespaces = self.namespaces()?;
        let mut definitions: Vec<Definition> = Vec::new();
        let mut found = Kernels {
            kernels: Vec::new(),
            parameters: Vec::new(),
        };
        let mut instances = Vec::new();
        for mark in self.marks()? {
            self.check_work()?;
            let before = self.previous(mark);
            let before_text = before.map_or("", |before| self.text(before));
            let declarator = self.declarator(mark)?;
            // An instantiation that was erased before this one ends with its `;`.
            let start = (0..mark)
                .rev()
                .find(|&index| matches!(self.text(index), ";" | "{" | "}"));
            self.count_steps(mark - start.unwrap_or(0));
            let around = start.max(before).map_or(0, |start| start + 1)..declarator.end;
            let own = |this: &Self, name: &str| {
                let inside = declarator.parameters.clone().unwrap_or(0..0);
                let found = this
                    .attributes
                    .within(around.clone())
                    .find(|(at, attribute)| attribute.name == name && !inside.contains(at));
                found.map(|(_, attribute)| (attribute.argument.clone(), attribute.string.clone()))
            };
            let host_name = own(self, "host_name").and_then(|(_, name)| name);
            let max_threads =
                own(self, "max_total_threads_per_threadgroup").and_then(|(argument, _)| argument);
            let namespaces = namespaces.around(mark);
            self.make(namespaces.iter().map(|name| name.len() + 16).sum())?;

            if before_text == "template" {
                instances.push((
                    mark,
                    host_name,
                    max_threads,
                    namespaces,
                    declarator.name,
                    declarator.arguments,
                ));
                let end = (declarator.end..self.len())
                    .find(|&index| self.text(index) == ";")
                    .ok_or_else(|| self.error(mark, "an explicit instantiation without its `;`"))?;
                self.count_steps(end - declarator.end);
                self.erase(before.unwrap_or(mark)..end + 1);
                continue;
            }
            self.edits[mark] = Edit::Replace(String::from("static"));
            let Some(parameters) = declarator.parameters else {
                return Err(self.error(mark, "a kernel without a parameter list"));
            };
            found.parameters.push(parameters.clone());
            if self.text(declarator.end) != "{" {
                continue; // a declaration, defined elsewhere
            }
            let bounds = self.bounds(parameters)?;
            self.make(bounds.iter().map(String::len).sum())?;
            if before_text != ">" {
                found.kernels.push(Kernel {
                    name: host_name.unwrap_or_else(|| declarator.name.clone()),
                    function: declarator.name.clone(),
                    namespaces: namespaces.clone(),
                    bounds: bounds.clone(),
                    max_threads: max_threads.clone(),
                    place: self.tokens.line_directive(self.token(mark).place),
                });
            }
            definitions.push(Definition {
                name: declarator.name,
                namespaces,
                bounds,
                max_threads,
            });
        }
        for (mark, host_name, max_threads, namespaces, name, arguments) in instances {
            let unqualified = name.rsplit("::").next().unwrap_or(&name);
            self.count_steps(definitions.len());
            self.check_work()?;
            let definition = definitions
                .iter()
                .find(|definition| {
                    definition.name == unqualified && namespaces.starts_with(&definition.namespaces)
                })
                .or_else(|| {
                    definitions
                        .iter()
                        .find(|definition| definition.name == unqualified)
                })
                .ok_or_else(|| {
                    self.error(mark, format!("no kernel template `{name}` is defined"))
                })?;
            let copied = definition.bounds.iter().chain(&definition.namespaces);
            self.make(copied.map(|text| text.len() + 16).sum())?;
            // Named from within the definition's namespace, where its parameters' attributes have their meaning.
            found.kernels.push(Kernel {
                name: host_name.unwrap_or_else(|| String::from(unqualified)),
                function: format!("{unqualified}{arguments}"),
                namespaces: definition.namespaces.clone(),
                bounds: definition.bounds.clone(),
                max_threads: max_threads.or_else(|| definition.max_threads.clone()),
                place: self.tokens.line_directive(self.token(mark).place),
            });
        }
        Ok(found)
    }

    /// The tokens that make a declaration a kernel's: the keyword, or the bracket that opens `[[kernel]]`.
    pub(super) fn marks(&self) -> Result<Vec<usize>, Error> {
        let mut marks = Vec::new();
        for (at, attribute) in self.attributes.all() {
            match attribute.name.as_str() {
                "kernel" => marks.push(at),
                "vertex" | "fragment" | "object" | "mesh" | "visible" | "intersection" => {
                    return Err(self.error(
                        at,
                        format!(
                            "[[{}]] functions are not supported: this device computes only",
                            attribute.name
                        ),
                    ));
                }
                _ => {}
            }
        }
        for index in 0..self.len() {
            if self.edits[index] == Edit::Erase || self.token(index).kind != Kind::Identifier {
                continue;
            }
            self.check_work()?;
            let keyword = self.text(index);
            if !matches!(keyword, "kernel" | "vertex" | "fragment") {
                continue;
            }
            let member = self
                .previous(index)
                .is_some_and(|before| matches!(self.text(before), "." | "->" | "::"));
            let declares = self
                .next(index)
                .is_some_and(|next| self.token(next).kind == Kind::Identifier);
            if member || !declares {
                continue;
            }
            if keyword != "kernel" {
                return Err(self.error(
                    index,
                    format!("{keyword} functions are not supported: this device computes only"),
                ));
            }
            marks.push(index);
        }
        marks.sort_unstable();
        Ok(marks)
    }

    fn namespaces(&self) -> Result<Namespaces, Error> {
        let mut changes = vec![(0, Vec::new())];
        let mut scopes: Vec<usize> = Vec::new(); // how many names each open brace brought
        let mut names: Vec<String> = Vec::new();
        let mut pending: Option<Vec<String>> = None;
        let changed = |index, names: &[String], changes: &mut Vec<(usize, Vec<String>)>| {
            self.make(names.iter().map(|name| name.len() + 16).sum())?;
            changes.push((index, names.to_vec()));
            Ok::<(), Error>(())
        };
        for index in 0..self.len() {
            match self.text(index) {
                "namespace" => pending = Some(Vec::new()),
                "{" => {
                    let opened = pending.take().unwrap_or_default();
                    scopes.push(opened.len());
                    if !opened.is_empty() {
                        names.extend(opened);
                        changed(index, &names, &mut changes)?;
                    }
                }
                "}" => {
                    let closed = scopes
                        .pop()
                        .ok_or_else(|| self.error(index, "`}` closes nothing"))?;
                    if closed > 0 {
                        names.truncate(names.len() - closed);
                        changed(index, &names, &mut changes)?;
                    }
                }
                ";" | "=" => pending = None, // using namespace a; namespace a = b;
                name => {
                    if let Some(path) = &mut pending
                        && self.token(index).kind == Kind::Identifier
                        && self.edits[index] == Edit::Keep
                    {
                        path.push(String::from(name));
                    }
                }
            }
        }
        Ok(Namespaces(changes))
    }

    /// Reads on from a kernel's mark to its name and parameters.
    fn declarator(&self, mark: usize) -> Result<Declarator, Error> {
        let unfinished = || self.error(mark, "this kernel's declaration does not end");
        let mut angles = 0;
        let mut index = mark;
        let stop = loop {
            index = self.next(index).ok_or_else(unfinished)?;
            match self.text(index) {
                "<" => angles += 1,
                ">" => angles -= 1,
                ";" | "{" if angles == 0 => break index,
                "(" => {
                    let before = self.previous(index).map_or("", |before| self.text(before));
                    if angles == 0 && !matches!(before, "decltype" | "__attribute__") {
                        break index;
                    }
                    index = self.closing(index);
                }
                _ => {}
            }
        };
        let (mut name_end, mut arguments) = (stop, String::new());
        let last = self.previous(stop).ok_or_else(unfinished)?;
        if self.text(last) == ">" {
            let open = self.opening_angle(last).ok_or_else(unfinished)?;
            arguments = self.joined(open..last + 1);
            name_end = open;
        }
        let mut name_start = self.previous(name_end).ok_or_else(unfinished)?;
        if self.token(name_start).kind != Kind::Identifier {
            return Err(self.error(mark, "no name where a kernel's should be"));
        }
        while let Some(scope) = self.previous(name_start)
            && self.text(scope) == "::"
            && let Some(outer) = self.previous(scope)
        {
            name_start = outer;
        }
        let name = self.joined(name_start..name_end);
        if self.text(stop) != "(" {
            return Ok(Declarator {
                name,
                arguments,
                parameters: None,
                end: stop,
            });
        }
        let close = self.closing(stop);
        Ok(Declarator {
            name,
            arguments,
            parameters: Some(stop + 1..close),
            end: self.next(close).ok_or_else(unfinished)?,
        })
    }

    fn opening_angle(&self, close: usize) -> Option<usize> {
        let mut depth = 0;
        let mut index = close;
        loop {
            match self.text(index) {
                ">" => depth += 1,
                "<" => depth -= 1,
                ")" => index = self.brackets.other(index),
                _ => {}
            }
            if depth == 0 {
                return Some(index);
            }
            index = self.previous(index)?;
        }
    }

    fn bounds(&self, parameters: Range<usize>) -> Result<Vec<String>, Error> {
        let mut bounds = Vec::new();
        let (mut depth, mut angles) = (0, 0);
        let mut start = parameters.start;
        for index in parameters.clone() {
            if self.edits[index] == Edit::Erase {
                continue;
            }
            match self.text(index) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                "<" if depth == 0 => angles += 1,
                ">" if depth == 0 => angles -= 1,
                "," if depth == 0 && angles == 0 => {
                    bounds.push(self.bound(start..index)?);
                    start = index + 1;
                }
                _ => {}
            }
        }
        let last = start..parameters.end;
        let named = last.clone().any(|index| self.edits[index] == Edit::Keep);
        let nothing = bounds.is_empty() && self.joined(last.clone()) == "void";
        if named && !nothing {
            bounds.push(self.bound(last)?);
        }
        Ok(bounds)
    }

    /// What one parameter is bound to.
    fn bound(&self, parameter: Range<usize>) -> Result<String, Error> {
        let (mut kind, mut index) = ("buffer", String::from("msl::next_free"));
        let mut given = String::from("true");
        for (at, attribute) in self.attributes.within(parameter) {
            let argument = || {
                attribute.argument.clone().ok_or_else(|| {
                    self.error(at, format!("[[{}]] needs an argument", attribute.name))
                })
            };
            match attribute.name.as_str() {
                "buffer" => index = argument()?,
                "threadgroup" => (kind, index) = ("threadgroup", argument()?),
                "function_constant" => given = argument()?,
                name if POSITIONS.contains(&name) => {
                    kind = POSITIONS[POSITIONS
                        .iter()
                        .position(|other| *other == name)
                        .unwrap_or(0)];
                    index = String::from("0");
                }
                _ if harmless(attribute) => {}
                name => {
                    return Err(self.error(
                        at,
                        format!("[[{name}]] is not supported on a kernel's parameter"),
                    ));
                }
            }
        }
        Ok(format!("msl::bound<msl::{kind}, ({index}), bool({given})>"))
    }
}

/// Attributes that say nothing about a binding.
fn harmless(attribute: &Attribute) -> bool {
    attribute.name == "maybe_unused" || attribute.name.contains("::")
}
