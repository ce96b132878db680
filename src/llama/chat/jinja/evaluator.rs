//! Runs a template: its statements and expressions, one call deeper for each level that they nest.

use std::rc::Rc;

use super::arguments::Arguments;
use super::budget::{Budget, Charge, TextBuilder};
use super::functions::Function;
use super::syntax::*;
use super::value::{List, ListBuilder, Map, MapBuilder, Value};
use super::{Failure, filters, methods, operators, predicates, text};
use crate::llama::chat::limits::{ChatTemplateLimit, ChatTemplateLimits};
use crate::llama::quote::quoted;

pub struct Evaluator<'t> {
    template: &'t Template,
    pub budget: Rc<Budget>,
    names: Vec<Rc<str>>,
    /// What the language itself assigns.
    loop_name: Option<Name>,
    caller_name: Option<Name>,
    /// The variables of the template itself, by the number of their name.
    globals: Vec<Value>,
    /// Those of loops and macros that run, the innermost last.
    locals: Vec<(Name, Value)>,
    /// Where those of the macro that runs begin.
    frame: usize,
    /// Where those of the innermost block begin; the template itself has none.
    scope: Option<usize>,
    /// For locals, namespaces and loops.
    charge: Charge,
    namespaces: Vec<Vec<(Rc<str>, Value)>>,
    loops: Vec<Loop<'t>>,
    callers: Vec<Caller>,
    /// How many loops and calls with a block there have been.
    turns: u32,
    /// What the template writes, and what blocks that are values write.
    output: String,
    captures: Vec<TextBuilder>,
    levels: usize,
    /// Of what is being done.
    pub line: u32,
}

struct Loop<'t> {
    turn: u32,
    items: Rc<List>,
    place: usize,
    /// From 1; more in a loop that calls itself.
    depth: usize,
    parts: &'t For,
    /// What `loop.changed` was last called with.
    changed: Option<Value>,
}

/// The block of a call, with the variables that it sees.
struct Caller {
    turn: u32,
    macro_number: u32,
    frame: usize,
    end: usize,
}

/// What is done next.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    Next,
    Break,
    Continue,
}

type Outcome<T> = Result<T, Failure>;

impl<'t> Evaluator<'t> {
    pub fn new(template: &'t Template, budget: Rc<Budget>) -> Outcome<Evaluator<'t>> {
        let names: Vec<Rc<str>> = template
            .names
            .iter()
            .map(|name| Rc::from(&**name))
            .collect();
        Ok(Evaluator {
            template,
            charge: budget.take(0)?,
            budget,
            loop_name: number(&names, "loop"),
            caller_name: number(&names, "caller"),
            names,
            globals: vec![Value::Undefined; template.names.len()],
            locals: Vec::new(),
            frame: 0,
            scope: None,
            namespaces: Vec::new(),
            loops: Vec::new(),
            callers: Vec::new(),
            turns: 0,
            output: String::new(),
            captures: Vec::new(),
            levels: 0,
            line: 0,
        })
    }

    /// Whether the template has the name at all.
    pub fn knows(&self, name: &str) -> bool {
        number(&self.names, name).is_some()
    }

    pub fn set_global(&mut self, name: &str, value: Value) {
        if let Some(name) = number(&self.names, name) {
            self.globals[name.0 as usize] = value;
        }
    }

    pub fn run(mut self) -> Result<String, (Failure, u32)> {
        match self.block(self.template.body) {
            Ok(_) => Ok(self.output),
            Err(failure) => Err((failure, self.line)),
        }
    }

    fn name(&self, name: Name) -> &Rc<str> {
        &self.names[name.0 as usize]
    }

    /// One level deeper. Nothing goes on after a failure, hence nothing is put right then.
    fn enter(&mut self) -> Outcome<()> {
        self.budget.steps(1)?;
        self.levels += 1;
        let most = self
            .budget
            .limits
            .nesting
            .saturating_mul(ChatTemplateLimits::EVALUATION_LEVELS);
        match self.levels > most {
            true => Err(Failure::Limit(ChatTemplateLimit::Nesting)),
            false => Ok(()),
        }
    }

    // -------------------------------------------------------------------------------------------------------- output

    fn write(&mut self, text: &str) -> Outcome<()> {
        if let Some(capture) = self.captures.last_mut() {
            return capture.push(text);
        }
        self.budget.bytes(text.len())?;
        if text.len() > self.budget.limits.output.saturating_sub(self.output.len()) {
            return Err(Failure::Limit(ChatTemplateLimit::Output));
        }
        self.output.push_str(text);
        Ok(())
    }

    fn capture(&mut self, write: impl FnOnce(&mut Self) -> Outcome<()>) -> Outcome<Value> {
        let capture = TextBuilder::new(&self.budget)?;
        self.captures.push(capture);
        write(self)?;
        let written = self.captures.pop().expect("each is taken once");
        Ok(written.finish())
    }

    // ----------------------------------------------------------------------------------------------------- variables

    fn push_local(&mut self, name: Name, value: Value) -> Outcome<()> {
        self.charge.grow(size_of::<(Name, Value)>())?;
        self.locals.push((name, value));
        Ok(())
    }

    fn pop_locals(&mut self, end: usize) {
        let gone = self.locals.len() - end;
        self.locals.truncate(end);
        self.charge.shrink(gone * size_of::<(Name, Value)>());
    }

    fn scoped<T>(&mut self, run: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        let (outer, end) = (self.scope, self.locals.len());
        self.scope = Some(end);
        let result = run(self)?;
        self.pop_locals(end);
        self.scope = outer;
        Ok(result)
    }

    fn variable(&self, name: Name) -> Outcome<Value> {
        let visible = &self.locals[self.frame..];
        let found = visible.iter().rposition(|(other, _)| *other == name);
        self.budget
            .bytes(4 * (visible.len() - found.unwrap_or(0)))?;
        if let Some(place) = found {
            return Ok(visible[place].1.clone());
        }
        Ok(match &self.globals[name.0 as usize] {
            Value::Undefined => match Function::named(self.name(name)) {
                Some(function) => Value::Function(function),
                None => Value::Undefined,
            },
            value => value.clone(),
        })
    }

    fn assign(&mut self, name: Name, value: Value) -> Outcome<()> {
        let Some(scope) = self.scope else {
            self.globals[name.0 as usize] = value;
            return Ok(());
        };
        let own = &mut self.locals[scope..];
        self.budget.bytes(4 * own.len())?;
        match own.iter_mut().find(|(other, _)| *other == name) {
            Some((_, old)) => *old = value,
            None => self.push_local(name, value)?,
        }
        Ok(())
    }

    fn assign_target(&mut self, target: &Target, value: Value) -> Outcome<()> {
        match target {
            Target::Name(name) => self.assign(*name, value),
            Target::Names(names) => {
                let items = self.iterate(&value)?;
                if items.items.len() != names.len() {
                    let (wanted, found) = (names.len(), items.items.len());
                    return Err(Failure::fault(format!("{wanted} names for {found} values")));
                }
                for (name, item) in names.iter().zip(&items.items) {
                    self.assign(*name, item.clone())?;
                }
                Ok(())
            }
            Target::Attribute(namespace, attribute) => {
                let Value::Namespace(number) = self.variable(*namespace)? else {
                    let name = quoted(self.name(*namespace)).to_string();
                    return Err(Failure::fault(format!("{name} is no namespace")));
                };
                let attribute = self.name(*attribute).clone();
                let attributes = &mut self.namespaces[number as usize];
                self.budget.bytes(8 * attributes.len())?;
                match attributes.iter_mut().find(|(other, _)| *other == attribute) {
                    Some((_, old)) => *old = value,
                    None => {
                        self.charge.grow(size_of::<(Rc<str>, Value)>())?;
                        attributes.push((attribute, value));
                    }
                }
                Ok(())
            }
        }
    }

    pub fn new_namespace(&mut self, attributes: Vec<(Rc<str>, Value)>) -> Outcome<Value> {
        self.charge.grow(64 + size_of_val(&attributes[..]))?;
        self.namespaces.push(attributes);
        Ok(Value::Namespace(self.namespaces.len() as u32 - 1))
    }

    fn turn(&mut self) -> u32 {
        // No budget has steps for all.
        self.turns = self.turns.wrapping_add(1);
        self.turns
    }

    // ---------------------------------------------------------------------------------------------------- statements

    fn block(&mut self, block: BlockId) -> Outcome<Flow> {
        self.enter()?;
        let template = self.template;
        let mut flow = Flow::Next;
        for statement in &template.blocks[block.0 as usize] {
            self.line = statement.line;
            flow = self.statement(&statement.action)?;
            if flow != Flow::Next {
                break;
            }
        }
        self.levels -= 1;
        Ok(flow)
    }

    fn statement(&mut self, action: &'t Action) -> Outcome<Flow> {
        self.budget.steps(1)?;
        match action {
            Action::Text(text) => self.write(text)?,
            Action::Write(value) => {
                let value = self.evaluate(*value)?;
                let text = text::to_text(&self.budget, &value)?;
                self.write(text.as_str().unwrap_or_default())?;
            }
            Action::If {
                branches,
                otherwise,
            } => {
                for (condition, block) in branches {
                    if self.evaluate(*condition)?.is_true() {
                        return self.block(*block);
                    }
                }
                if let Some(block) = otherwise {
                    return self.block(*block);
                }
            }
            Action::For(parts) => {
                let items = self.evaluate(parts.items)?;
                self.run_loop(parts, &items, 1)?;
            }
            Action::Set(target, value) => {
                let value = self.evaluate(*value)?;
                self.assign_target(target, value)?;
            }
            Action::SetBlock(target, filters, block) => {
                let value = self.filtered_block(filters, *block)?;
                self.assign_target(target, value)?;
            }
            Action::FilterBlock(filters, block) => {
                let value = self.filtered_block(filters, *block)?;
                let text = text::to_text(&self.budget, &value)?;
                self.write(text.as_str().unwrap_or_default())?;
            }
            Action::With(assigned, block) => {
                return self.scoped(|evaluator| {
                    for (name, value) in assigned {
                        let value = evaluator.evaluate(*value)?;
                        evaluator.assign(*name, value)?;
                    }
                    evaluator.block(*block)
                });
            }
            Action::Call(parts) => self.call_block(parts)?,
            Action::Scope(block) => return self.scoped(|evaluator| evaluator.block(*block)),
            Action::Plain(block) => return self.block(*block),
            Action::Macro(number) => {
                let name = self.template.macros[*number as usize].name;
                self.assign(name, Value::Macro(*number))?;
            }
            Action::Evaluate(value) => {
                self.evaluate(*value)?;
            }
            Action::Break => return Ok(Flow::Break),
            Action::Continue => return Ok(Flow::Continue),
            Action::Missing(tag) => {
                return Err(Failure::fault(format!(
                    "there are no other templates for {tag}"
                )));
            }
        }
        Ok(Flow::Next)
    }

    fn filtered_block(&mut self, filters: &'t [Operation], block: BlockId) -> Outcome<Value> {
        let mut value = self.capture(|evaluator| {
            evaluator
                .scoped(|evaluator| evaluator.block(block))
                .map(|_| ())
        })?;
        for filter in filters {
            let Operation::Filter(name, arguments) = filter else {
                unreachable!("the parser makes nothing else")
            };
            let arguments = self.arguments(arguments)?;
            let name = self.name(*name).clone();
            value = self.filter(&name, &value, &arguments)?;
        }
        Ok(value)
    }

    fn run_loop(&mut self, parts: &'t For, items: &Value, depth: usize) -> Outcome<()> {
        let mut items = self.iterate(items)?;
        if let Some(condition) = parts.condition {
            let mut kept = ListBuilder::new(&self.budget)?;
            for item in &items.items {
                let keep = self.scoped(|evaluator| {
                    evaluator.assign_target(&parts.target, item.clone())?;
                    Ok(evaluator.evaluate(condition)?.is_true())
                })?;
                if keep {
                    kept.push(item.clone())?;
                }
            }
            items = kept.into_list(&self.budget, false)?;
        }
        if items.items.is_empty() {
            if let Some(otherwise) = parts.otherwise {
                self.scoped(|evaluator| evaluator.block(otherwise))?;
            }
            return Ok(());
        }
        let (slot, turn) = (self.loops.len(), self.turn());
        let itself = Value::Loop(slot as u32, turn);
        self.charge.grow(size_of::<Loop>())?;
        self.loops.push(Loop {
            turn,
            items: items.clone(),
            place: 0,
            depth,
            parts,
            changed: None,
        });
        for (place, item) in items.items.iter().enumerate() {
            self.budget.steps(1)?;
            self.loops[slot].place = place;
            let flow = self.scoped(|evaluator| {
                if let Some(name) = evaluator.loop_name {
                    evaluator.push_local(name, itself.clone())?;
                }
                evaluator.assign_target(&parts.target, item.clone())?;
                evaluator.block(parts.body)
            })?;
            if flow == Flow::Break {
                break;
            }
        }
        self.loops.pop();
        self.charge.shrink(size_of::<Loop>());
        Ok(())
    }

    /// Once more the loop that the `loop` of this place and turn is of.
    fn recurse(&mut self, slot: u32, turn: u32, items: &Value) -> Outcome<Value> {
        let state = self.running(slot, turn)?;
        let (parts, depth) = (state.parts, state.depth + 1);
        if !parts.recursive {
            return Err(Failure::fault("the loop is not recursive"));
        }
        self.enter()?;
        let written = self.capture(|evaluator| evaluator.run_loop(parts, items, depth))?;
        self.levels -= 1;
        Ok(written)
    }

    fn running(&self, slot: u32, turn: u32) -> Outcome<&Loop<'t>> {
        let state = self
            .loops
            .get(slot as usize)
            .filter(|state| state.turn == turn);
        state.ok_or_else(|| Failure::fault("the loop is over"))
    }

    fn call_block(&mut self, parts: &'t CallBlock) -> Outcome<()> {
        let callee = self.evaluate(parts.callee)?;
        let mut arguments = self.arguments(&parts.arguments)?;
        let (slot, turn) = (self.callers.len(), self.turn());
        self.charge.grow(size_of::<Caller>())?;
        self.callers.push(Caller {
            turn,
            macro_number: parts.caller,
            frame: self.frame,
            end: self.locals.len(),
        });
        arguments
            .keyword
            .push(("caller".into(), Value::Caller(slot as u32, turn)));
        let value = self.call(&callee, &arguments)?;
        self.callers.pop();
        self.charge.shrink(size_of::<Caller>());
        let text = text::to_text(&self.budget, &value)?;
        self.write(text.as_str().unwrap_or_default())
    }

    fn call_macro(&mut self, number: u32, arguments: &Arguments) -> Outcome<Value> {
        self.enter()?;
        let outer = (self.frame, self.locals.len());
        self.frame = outer.1;
        let written = self.macro_in_frame(number, arguments)?;
        self.frame = outer.0;
        self.levels -= 1;
        Ok(written)
    }

    /// With the variables around the block that it was called with.
    fn call_caller(&mut self, slot: u32, turn: u32, arguments: &Arguments) -> Outcome<Value> {
        let caller = self
            .callers
            .get(slot as usize)
            .filter(|caller| caller.turn == turn);
        let Some(caller) = caller else {
            return Err(Failure::fault("the call is over"));
        };
        let (number, visible) = (caller.macro_number, caller.frame..caller.end);
        self.enter()?;
        let outer = (self.frame, self.locals.len());
        self.budget
            .bytes(visible.len() * size_of::<(Name, Value)>())?;
        for place in visible {
            let (name, value) = self.locals[place].clone();
            self.push_local(name, value)?;
        }
        self.frame = outer.1;
        let written = self.macro_in_frame(number, arguments)?;
        self.pop_locals(outer.1);
        self.frame = outer.0;
        self.levels -= 1;
        Ok(written)
    }

    fn macro_in_frame(&mut self, number: u32, arguments: &Arguments) -> Outcome<Value> {
        let template = self.template;
        let called = &template.macros[number as usize];
        let limit = called.parameters.len();
        if arguments.positional.len() > limit {
            let name = quoted(self.name(called.name));
            return Err(Failure::fault(format!(
                "{name} takes {limit} arguments at most"
            )));
        }
        self.scoped(|evaluator| {
            for (name, _) in &arguments.keyword {
                evaluator.budget.bytes(8 * (limit + 1))?;
                let known = |(parameter, _): &(Name, _)| evaluator.name(*parameter) == name;
                if &**name != "caller" && !called.parameters.iter().any(known) {
                    let (callee, name) = (quoted(evaluator.name(called.name)), quoted(name));
                    return Err(Failure::fault(format!("{callee} has no argument {name}")));
                }
            }
            for (place, (name, default)) in called.parameters.iter().enumerate() {
                evaluator.budget.bytes(8 * (arguments.keyword.len() + 1))?;
                let value = match (arguments.get(place, evaluator.name(*name)), default) {
                    (Some(value), _) => value.clone(),
                    (None, Some(default)) => evaluator.evaluate(*default)?,
                    (None, None) => Value::Undefined,
                };
                evaluator.push_local(*name, value)?;
            }
            if let Some((_, caller)) = arguments
                .keyword
                .iter()
                .find(|(name, _)| &**name == "caller")
                && let Some(name) = evaluator.caller_name
            {
                evaluator.assign(name, caller.clone())?;
            }
            evaluator.capture(|evaluator| evaluator.block(called.body).map(|_| ()))
        })
    }

    // --------------------------------------------------------------------------------------------------- expressions

    fn evaluate(&mut self, id: ExpressionId) -> Outcome<Value> {
        self.enter()?;
        let template = self.template;
        let value = self.expression(&template.expressions[id.0 as usize])?;
        self.levels -= 1;
        Ok(value)
    }

    fn expression(&mut self, expression: &'t Expression) -> Outcome<Value> {
        Ok(match expression {
            Expression::None => Value::None,
            Expression::Bool(value) => Value::Bool(*value),
            Expression::Int(number) => Value::Int(*number),
            Expression::Float(number) => Value::Float(*number),
            Expression::Text(text) => self.budget.text(text)?,
            Expression::Name(name) => self.variable(*name)?,
            Expression::List(items) | Expression::Tuple(items) => {
                let mut list = ListBuilder::new(&self.budget)?;
                for item in items {
                    list.push(self.evaluate(*item)?)?;
                }
                let tuple = matches!(expression, Expression::Tuple(_));
                Value::List(list.into_list(&self.budget, tuple)?)
            }
            Expression::Map(entries) => {
                let mut map = MapBuilder::new(&self.budget)?;
                for (key, value) in entries {
                    let key = self.evaluate(*key)?;
                    let value = self.evaluate(*value)?;
                    map.insert(&self.budget, key, value)?;
                }
                map.finish(&self.budget)?
            }
            Expression::Not(value) => Value::Bool(!self.evaluate(*value)?.is_true()),
            Expression::Negative(value) => operators::negative(&self.evaluate(*value)?)?,
            Expression::Positive(value) => operators::positive(&self.evaluate(*value)?)?,
            Expression::And(operands) | Expression::Or(operands) => {
                let stops_at = matches!(expression, Expression::Or(_));
                let mut value = Value::Undefined;
                for operand in operands {
                    value = self.evaluate(*operand)?;
                    if value.is_true() == stops_at {
                        break;
                    }
                }
                value
            }
            Expression::Arithmetic(first, rest) => {
                let mut value = self.evaluate(*first)?;
                for (operator, operand) in rest {
                    let operand = self.evaluate(*operand)?;
                    value = operators::arithmetic(&self.budget, *operator, &value, &operand)?;
                }
                value
            }
            Expression::Concatenate(operands) => {
                let mut whole = TextBuilder::new(&self.budget)?;
                for operand in operands {
                    let operand = self.evaluate(*operand)?;
                    text::write_str(&mut whole, &self.budget, &operand)?;
                }
                whole.finish()
            }
            Expression::Compare(first, rest) => {
                let mut left = self.evaluate(*first)?;
                let mut holds = true;
                for (comparison, right) in rest {
                    let right = self.evaluate(*right)?;
                    holds = operators::compare(&self.budget, *comparison, &left, &right)?;
                    if !holds {
                        break;
                    }
                    left = right;
                }
                Value::Bool(holds)
            }
            Expression::Conditional(branches, otherwise) => {
                for (value, condition) in branches {
                    if self.evaluate(*condition)?.is_true() {
                        return self.evaluate(*value);
                    }
                }
                match otherwise {
                    Some(value) => self.evaluate(*value)?,
                    None => Value::Undefined,
                }
            }
            Expression::Chain {
                line,
                base,
                operations,
            } => self.chain(*line, *base, operations)?,
        })
    }

    fn chain(
        &mut self,
        line: u32,
        base: ExpressionId,
        operations: &'t [Operation],
    ) -> Outcome<Value> {
        let mut value = self.evaluate(base)?;
        let mut rest = operations.iter();
        let base = &self.template.expressions[base.0 as usize];
        if let (Value::Undefined, Expression::Name(name)) = (&value, base)
            && !matches!(
                operations,
                [Operation::Filter(..) | Operation::Test { .. }, ..]
            )
        {
            self.line = line;
            return Err(Failure::fault(format!(
                "{} is undefined",
                quoted(self.name(*name))
            )));
        }
        while let Some(operation) = rest.next() {
            self.budget.steps(1)?;
            value = match operation {
                Operation::Attribute(name) => {
                    let name = self.name(*name).clone();
                    if let Some(Operation::Call(arguments)) = rest.as_slice().first() {
                        rest.next();
                        let arguments = self.arguments(arguments)?;
                        self.line = line;
                        self.method(&value, &name, &arguments)?
                    } else {
                        self.line = line;
                        self.attribute(&value, &name)?
                    }
                }
                Operation::Index(index) => {
                    let index = self.evaluate(*index)?;
                    self.line = line;
                    match (&value, index.as_str()) {
                        (Value::Namespace(_) | Value::Loop(..), Some(name)) => {
                            self.attribute(&value, name)?
                        }
                        _ => operators::index(&self.budget, &value, &index)?,
                    }
                }
                Operation::Slice(parts) => {
                    let mut places = [None; 3];
                    for (place, part) in places.iter_mut().zip(parts) {
                        let Some(part) = part else { continue };
                        *place = match self.evaluate(*part)? {
                            Value::None => None,
                            other => match other.as_int() {
                                Some(number) => Some(number),
                                None => {
                                    return Err(Failure::fault(format!(
                                        "{} is no place",
                                        other.kind()
                                    )));
                                }
                            },
                        };
                    }
                    self.line = line;
                    operators::slice(&self.budget, &value, places)?
                }
                Operation::Call(arguments) => {
                    let arguments = self.arguments(arguments)?;
                    self.line = line;
                    self.call(&value, &arguments)?
                }
                Operation::Filter(name, arguments) => {
                    let arguments = self.arguments(arguments)?;
                    self.line = line;
                    let name = self.name(*name).clone();
                    self.filter(&name, &value, &arguments)?
                }
                Operation::Test {
                    name,
                    arguments,
                    negated,
                } => {
                    let arguments = self.arguments(arguments)?;
                    self.line = line;
                    let name = self.name(*name).clone();
                    Value::Bool(predicates::test(self, &name, &value, &arguments)? != *negated)
                }
            };
        }
        Ok(value)
    }

    fn arguments(&mut self, written: &'t [Argument]) -> Outcome<Arguments> {
        if written.is_empty() {
            return Ok(Arguments::default());
        }
        let mut charge = self.budget.take(0)?;
        let mut arguments = Arguments::default();
        for argument in written {
            charge.grow(size_of::<(Rc<str>, Value)>())?;
            match argument {
                Argument::Positional(value) => arguments.positional.push(self.evaluate(*value)?),
                Argument::Keyword(name, value) => {
                    let value = self.evaluate(*value)?;
                    arguments.keyword.push((self.name(*name).clone(), value));
                }
                Argument::Each(values) => {
                    let values = self.evaluate(*values)?;
                    for value in &self.iterate(&values)?.items {
                        self.budget.steps(1)?;
                        charge.grow(size_of::<Value>())?;
                        arguments.positional.push(value.clone());
                    }
                }
                Argument::EachKeyword(values) => {
                    let Value::Map(map) = self.evaluate(*values)? else {
                        return Err(Failure::fault("** takes a mapping"));
                    };
                    for (name, value) in &map.entries {
                        let name = name.as_str().unwrap_or_default();
                        self.budget.steps(1)?;
                        charge.grow(size_of::<(Rc<str>, Value)>() + 16 + name.len())?;
                        arguments.keyword.push((name.into(), value.clone()));
                    }
                }
            }
        }
        arguments.charge = Some(charge);
        Ok(arguments)
    }

    pub fn filter(&mut self, name: &str, value: &Value, arguments: &Arguments) -> Outcome<Value> {
        self.enter()?;
        let filtered = filters::filter(self, name, value, arguments)?;
        self.levels -= 1;
        Ok(filtered)
    }

    fn call(&mut self, callee: &Value, arguments: &Arguments) -> Outcome<Value> {
        match callee {
            Value::Function(function) => function.call(self, arguments),
            Value::Macro(number) => self.call_macro(*number, arguments),
            Value::Caller(slot, turn) => self.call_caller(*slot, *turn, arguments),
            Value::Loop(slot, turn) => self.recurse(*slot, *turn, arguments.require(0, "items")?),
            other => Err(Failure::fault(format!("{} cannot be called", other.kind()))),
        }
    }

    fn method(&mut self, value: &Value, name: &str, arguments: &Arguments) -> Outcome<Value> {
        let budget = &self.budget;
        match value {
            Value::Text(_) => return methods::of_text(self, value, name, arguments),
            Value::List(list) => return methods::of_list(budget, value, list, name, arguments),
            Value::Map(map) => {
                if let Some(found) = methods::of_map(budget, value, map, name, arguments)? {
                    return Ok(found);
                }
            }
            Value::Loop(slot, turn) if name == "cycle" => {
                let place = self.running(*slot, *turn)?.place;
                let values = &arguments.positional;
                let value = (!values.is_empty()).then(|| values[place % values.len()].clone());
                return value.ok_or_else(|| Failure::fault("cycle takes values"));
            }
            Value::Loop(slot, turn) if name == "changed" => {
                self.running(*slot, *turn)?;
                let mut values = ListBuilder::new(budget)?;
                values.extend(budget, &arguments.positional)?;
                let now = values.finish(budget)?;
                let state = &self.loops[*slot as usize];
                let same = match &state.changed {
                    Some(before) => operators::equals(budget, before, &now)?,
                    None => false,
                };
                self.loops[*slot as usize].changed = Some(now);
                return Ok(Value::Bool(!same));
            }
            _ => {}
        }
        match self.attribute(value, name)? {
            Value::Undefined => {
                let name = quoted(name);
                Err(Failure::fault(format!(
                    "{} has no method {name}",
                    value.kind()
                )))
            }
            callee => self.call(&callee, arguments),
        }
    }

    /// `value.name`; what is not there is undefined.
    pub fn attribute(&self, value: &Value, name: &str) -> Outcome<Value> {
        let found = match value {
            Value::Map(map) => self.entry(map, name)?,
            Value::Namespace(number) => {
                let attributes = &self.namespaces[*number as usize];
                self.budget.bytes(8 * attributes.len())?;
                let found = attributes.iter().find(|(other, _)| &**other == name);
                found.map(|(_, value)| value.clone())
            }
            Value::Loop(slot, turn) => self.loop_attribute(self.running(*slot, *turn)?, name),
            Value::Macro(number) if name == "name" => Some(
                self.budget
                    .text(self.name(self.template.macros[*number as usize].name))?,
            ),
            Value::Undefined => {
                return Err(Failure::fault(format!(
                    "undefined has no attribute {}",
                    quoted(name)
                )));
            }
            _ => None,
        };
        Ok(found.unwrap_or(Value::Undefined))
    }

    fn entry(&self, map: &Map, name: &str) -> Outcome<Option<Value>> {
        Ok(map.get_str(&self.budget, name)?.cloned())
    }

    fn loop_attribute(&self, state: &Loop, name: &str) -> Option<Value> {
        let (place, length) = (state.place as i64, state.items.items.len() as i64);
        let item = |place: Option<usize>| {
            let item = place.and_then(|place| state.items.items.get(place));
            item.cloned().unwrap_or(Value::Undefined)
        };
        Some(match name {
            "index" => Value::Int(place + 1),
            "index0" => Value::Int(place),
            "revindex" => Value::Int(length - place),
            "revindex0" => Value::Int(length - place - 1),
            "first" => Value::Bool(place == 0),
            "last" => Value::Bool(place + 1 == length),
            "length" => Value::Int(length),
            "depth" => Value::Int(state.depth as i64),
            "depth0" => Value::Int(state.depth as i64 - 1),
            "previtem" => item(state.place.checked_sub(1)),
            "nextitem" => item(Some(state.place + 1)),
            _ => return None,
        })
    }

    /// The items of a list, the keys of a mapping, the characters of a string.
    pub fn iterate(&self, value: &Value) -> Outcome<Rc<List>> {
        let budget = &self.budget;
        if let Value::List(list) = value {
            return Ok(list.clone());
        }
        let mut list = ListBuilder::new(budget)?;
        match value {
            Value::Text(_) => {
                for character in value.as_str().unwrap_or_default().chars() {
                    list.push(budget.text(character.encode_utf8(&mut [0; 4]))?)?;
                }
            }
            Value::Map(map) => {
                for (key, _) in &map.entries {
                    budget.bytes(size_of::<Value>())?;
                    list.push(key.clone())?;
                }
            }
            Value::Undefined => {}
            other => {
                return Err(Failure::fault(format!("{} has no items", other.kind())));
            }
        }
        list.into_list(budget, false)
    }
}

fn number(names: &[Rc<str>], name: &str) -> Option<Name> {
    let place = names.iter().position(|other| &**other == name)?;
    Some(Name(place as u32))
}
