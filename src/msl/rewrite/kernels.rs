//! Kernels: definitions, explicit instantiations, and what each parameter is bound to.
//!
//! Only names and attributes are read from a signature. The parameters' types are left to C++
//! (native/msl/cpu/entry.h), which is why `template [[host_name("x")]] kernel decltype(f<int>) f<int>;` needs no
//! treatment of its own.

use std::collections::HashMap;
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
    /// The C++ function's name, without namespaces and template arguments.
    function: String,
    /// A pointer to the C++ function: `&f`, `&f<half, 4>`, `static_cast<void (*)(float *)>(&f)`.
    pointer: String,
    /// The pointer's type.
    pointer_type: String,
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
        let mut text = format!("msl::kernel<{}, ({})", self.pointer_type, self.pointer);
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
    pub fn export_as(&self, number: usize) -> String {
        self.in_its_namespace(format!("MSL_EXPORT_AS({number}, {})", self.exported()))
    }

    /// Whether the source says how many threads a threadgroup has at most.
    pub fn states_threads(&self) -> bool {
        self.max_threads.is_some()
    }

    fn exported(&self) -> String {
        let max_threads = self.max_threads.as_deref().unwrap_or(MAX_THREADS);
        format!("({max_threads}), {}", self.instance())
    }

    /// Makes the compiler instantiate this kernel; `index` tells several of them apart, and `bounds` is the number of
    /// its `state_bounds`. The member is named here, so that what is wrong with it is on the kernel's line.
    fn mention(&self, index: usize, bounds: usize) -> String {
        self.in_its_namespace(format!(
            "static auto *const msl_mention_{index} = msl::mention<msl_bounds_{bounds}>({}).take;",
            self.pointer
        ))
    }

    /// What its parameters are bound to, for all kernels of its template.
    fn state_bounds(&self, number: usize) -> String {
        self.in_its_namespace(format!(
            "struct msl_bounds_{number} {{ using list = msl::bounds<{}>; }};",
            self.bounds.join(", ")
        ))
    }

    /// All that is said of it.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let own = [&self.function, &self.pointer, &self.pointer_type];
        let more = self.bounds.iter().chain(&self.max_threads);
        own.into_iter().chain(more).map(String::as_str)
    }
}

/// Makes the compiler instantiate every kernel. What is the same for all instances of a template is said once: it is
/// most of what there is to compile where a template has many.
pub fn mentions(kernels: &[Kernel]) -> String {
    let mut text = String::new();
    let mut known = HashMap::new();
    for (index, kernel) in kernels.iter().enumerate() {
        let key = (&kernel.function, &kernel.namespaces, &kernel.bounds);
        let fresh = known.len();
        let bounds = *known.entry(key).or_insert_with(|| {
            text += &kernel.state_bounds(fresh);
            fresh
        });
        text += &kernel.mention(index, bounds);
    }
    text
}

/// The kernels of a source, with the parameter lists whose attributes belong to them.
pub struct Kernels {
    pub kernels: Vec<Kernel>,
    pub parameters: Vec<Range<usize>>,
}

/// The argument tables, with the last index of each.
const TABLES: [(&str, u64); 3] = [("buffer", 30), ("texture", 127), ("sampler", 15)];

/// The attributes that bind a parameter to something other than memory; entry.h has one enumerator for each.
const POSITIONS: [&str; 19] = [
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
    "grid_origin",
    "grid_size",
];

/// A function's declarator: its name with template arguments, and its parameter list when it has one.
pub(super) struct Declarator {
    pub name: String,
    arguments: String,
    parameters: Option<Range<usize>>,
    /// The token after it.
    pub end: usize,
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
    max_threads: Option<MaxThreads>,
}

/// What `[[max_total_threads_per_threadgroup(…)]]` of a definition says.
enum MaxThreads {
    /// An expression that is the same for every instance.
    Same(String),
    /// The name of a template of constants.
    Template(String),
}

impl MaxThreads {
    /// The expression for an instance with these template arguments.
    fn of(&self, arguments: &str) -> String {
        match self {
            MaxThreads::Same(expression) => expression.clone(),
            MaxThreads::Template(name) => format!("{name}{arguments}"),
        }
    }
}

/// An explicit instantiation.
struct Instance {
    mark: usize,
    host_name: Option<String>,
    max_threads: Option<String>,
    namespaces: Vec<String>,
    name: String,
    /// `<half, 4>`, or nothing.
    arguments: String,
    /// The parameters' types, when it has a parameter list.
    types: Option<String>,
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
                let parameters = declarator.parameters.clone();
                let types = parameters.clone().map(|list| self.parameter_types(list));
                // Their attributes are those of the definition once more.
                found.parameters.extend(parameters);
                instances.push(Instance {
                    mark,
                    host_name,
                    max_threads,
                    namespaces,
                    name: declarator.name,
                    arguments: declarator.arguments,
                    types,
                });
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
            let mut max_threads = max_threads.map(MaxThreads::Same);
            if before_text == ">"
                && let (Some(MaxThreads::Same(expression)), Some(before)) = (&max_threads, before)
            {
                max_threads = Some(self.template_threads(mark, before, expression)?);
            }
            if before_text != ">" {
                let pointer = format!("&{}", declarator.name);
                found.kernels.push(Kernel {
                    name: host_name.unwrap_or_else(|| declarator.name.clone()),
                    function: declarator.name.clone(),
                    pointer_type: format!("decltype({pointer})"),
                    pointer,
                    namespaces: namespaces.clone(),
                    bounds: bounds.clone(),
                    max_threads: max_threads.as_ref().map(|threads| threads.of("")),
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
        self.end_pass()?;
        for instance in instances {
            let kernel = self.instance(instance, &definitions)?;
            found.kernels.push(kernel);
        }
        Ok(found)
    }

    /// The kernel of an explicit instantiation.
    fn instance(&self, instance: Instance, definitions: &[Definition]) -> Result<Kernel, Error> {
        let name = &instance.name;
        let unqualified = name.rsplit("::").next().unwrap_or(name);
        self.count_steps(definitions.len());
        self.check_work()?;
        let mut named = definitions
            .iter()
            .filter(|definition| definition.name == unqualified);
        let definition = named
            .clone()
            .find(|definition| instance.namespaces.starts_with(&definition.namespaces))
            .or_else(|| named.next())
            .ok_or_else(|| {
                self.error(
                    instance.mark,
                    format!("no kernel template `{name}` is defined"),
                )
            })?;
        let copied = definition.bounds.iter().chain(&definition.namespaces);
        self.make(copied.map(|text| text.len() + 16).sum())?;
        // Named from within the definition's namespace, where its parameters' attributes have their meaning.
        let pointer = format!("&{unqualified}{}", instance.arguments);
        let (pointer, pointer_type) = match instance.types {
            // The arguments follow from the parameters' types.
            Some(types) if instance.arguments.is_empty() => {
                let pointer_type = format!("void (*)({types})");
                (
                    format!("static_cast<{pointer_type}>({pointer})"),
                    pointer_type,
                )
            }
            _ => (pointer.clone(), format!("decltype({pointer})")),
        };
        let max_threads = match (instance.max_threads, &definition.max_threads) {
            (Some(own), _) => Some(own),
            (None, Some(MaxThreads::Template(_))) if instance.arguments.is_empty() => {
                return Err(self.error(
                    instance.mark,
                    "[[max_total_threads_per_threadgroup]] of this template may depend on its arguments: write them behind \
                     the name",
                ));
            }
            (None, threads) => threads
                .as_ref()
                .map(|threads| threads.of(&instance.arguments)),
        };
        Ok(Kernel {
            name: instance
                .host_name
                .unwrap_or_else(|| String::from(unqualified)),
            function: String::from(unqualified),
            pointer,
            pointer_type,
            namespaces: definition.namespaces.clone(),
            bounds: definition.bounds.clone(),
            max_threads,
            place: self.tokens.line_directive(self.token(instance.mark).place),
        })
    }

    /// A constant beside a kernel template that has its number of threads for any arguments. `close`: the angle that
    /// ends the template's parameters.
    fn template_threads(
        &mut self,
        mark: usize,
        close: usize,
        expression: &str,
    ) -> Result<MaxThreads, Error> {
        let open = self.opening_angle(close);
        let template = open.and_then(|open| self.previous(open));
        let (Some(open), Some(template)) = (open, template) else {
            return Err(self.error(mark, "no template where a kernel's should be"));
        };
        let parameters = self.joined(open..close + 1);
        self.make(parameters.len() + expression.len() + 100)?;
        let name = format!("msl_threads_{mark}");
        self.edits[template] = Edit::Replace(format!(
            "template {parameters} constexpr unsigned {name} = ({expression}); template"
        ));
        Ok(MaxThreads::Template(name))
    }

    /// A parameter list as C++ has it, before the address spaces are rewritten.
    fn parameter_types(&self, parameters: Range<usize>) -> String {
        let mut text = String::new();
        for index in parameters.filter(|&index| self.edits[index] == Edit::Keep) {
            text += match self.text(index) {
                "device" | "thread" | "threadgroup" | "coherent" => continue,
                "constant" => "const",
                other => other,
            };
            text.push(' ');
        }
        text
    }

    /// The tokens that make a declaration a kernel's: the keyword, or the bracket that opens `[[kernel]]`.
    pub(super) fn marks(&self) -> Result<Vec<usize>, Error> {
        let mut marks = Vec::new();
        let attributes = self.attributes.all();
        marks.extend(
            attributes
                .filter(|(_, attribute)| attribute.name == "kernel")
                .map(|(at, _)| at),
        );
        for index in 0..self.len() {
            self.check_work()?;
            if self.text(index) == "kernel" && self.begins_function(index) {
                marks.push(index);
            }
        }
        marks.sort_unstable();
        Ok(marks)
    }

    /// Whether a word is the keyword of a stage before a function, and no name.
    pub(super) fn begins_function(&self, index: usize) -> bool {
        let live = self.edits[index] != Edit::Erase && self.token(index).kind == Kind::Identifier;
        let is_member = |before: usize| matches!(self.text(before), "." | "->" | "::");
        let is_word = |next: usize| self.token(next).kind == Kind::Identifier;
        live && !self.previous(index).is_some_and(is_member)
            && self.next(index).is_some_and(is_word)
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
    pub(super) fn declarator(&self, mark: usize) -> Result<Declarator, Error> {
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
                    self.keep_going(self.bound(start..index).map(|bound| bounds.push(bound)))?;
                    start = index + 1;
                }
                _ => {}
            }
        }
        let last = start..parameters.end;
        let named = last.clone().any(|index| self.edits[index] == Edit::Keep);
        let nothing = bounds.is_empty() && self.joined(last.clone()) == "void";
        if named && !nothing {
            self.keep_going(self.bound(last).map(|bound| bounds.push(bound)))?;
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
                name if TABLES.iter().any(|(table, _)| *table == name) => {
                    let table = TABLES.iter().find(|(table, _)| *table == name);
                    let (table, last) = table.copied().unwrap_or(TABLES[0]);
                    (kind, index) = (table, argument()?);
                    if index.parse::<u64>().is_ok_and(|index| index > last) {
                        return Err(self.error(
                            at,
                            format!("[[{table}({index})]]: the last index is {last}"),
                        ));
                    }
                }
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
    matches!(attribute.name.as_str(), "maybe_unused" | "user") || attribute.name.contains("::")
}
