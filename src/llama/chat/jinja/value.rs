//! The values of a template's variables. They do not change once they are made and hold no others but those that were
//! there before: none holds itself, and each knows how deep it is.

use std::rc::Rc;

use super::Failure;
use super::budget::{Budget, Charge};
use super::functions::Function;
use crate::llama::chat::limits::ChatTemplateLimit;

#[derive(Clone, Debug)]
pub enum Value {
    Undefined,
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Rc<Text>),
    List(Rc<List>),
    Map(Rc<Map>),
    /// By its number: what it holds changes, hence could be itself.
    Namespace(u32),
    /// A loop's place among those that run, and its number among all.
    Loop(u32, u32),
    Macro(u32),
    /// What a call's block is for the macro that it calls: its place among those that run, and its number among all.
    Caller(u32, u32),
    Function(Function),
}

#[derive(Debug)]
pub struct Text {
    text: String,
    _charge: Charge,
}

impl Text {
    pub fn new(text: String, charge: Charge) -> Text {
        Text {
            text,
            _charge: charge,
        }
    }
}

#[derive(Debug)]
pub struct List {
    pub items: Vec<Value>,
    /// In round brackets.
    pub tuple: bool,
    depth: u32,
    _charge: Charge,
}

#[derive(Debug)]
pub struct Map {
    pub entries: Vec<(Value, Value)>,
    depth: u32,
    _charge: Charge,
}

impl Value {
    pub fn is_true(&self) -> bool {
        match self {
            Value::Undefined | Value::None => false,
            Value::Bool(value) => *value,
            Value::Int(number) => *number != 0,
            Value::Float(number) => *number != 0.0,
            Value::Text(text) => !text.text.is_empty(),
            Value::List(list) => !list.items.is_empty(),
            Value::Map(map) => !map.entries.is_empty(),
            _ => true,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(&text.text),
            _ => None,
        }
    }

    /// Python's truths are numbers.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Bool(value) => Some((*value).into()),
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    pub fn as_float(&self) -> Option<f64> {
        match self {
            Value::Float(number) => Some(*number),
            other => other.as_int().map(|number| number as f64),
        }
    }

    fn depth(&self) -> usize {
        match self {
            Value::List(list) => list.depth as usize,
            Value::Map(map) => map.depth as usize,
            _ => 0,
        }
    }

    /// As Python names it in errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Undefined => "undefined",
            Value::None => "none",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a float",
            Value::Text(_) => "a string",
            Value::List(list) if list.tuple => "a tuple",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
            Value::Namespace(_) => "a namespace",
            Value::Loop(..) => "a loop",
            Value::Macro(_) | Value::Caller(..) => "a macro",
            Value::Function(_) => "a function",
        }
    }

    pub fn same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Text(a), Value::Text(b)) => Rc::ptr_eq(a, b),
            (Value::List(a), Value::List(b)) => Rc::ptr_eq(a, b),
            (Value::Map(a), Value::Map(b)) => Rc::ptr_eq(a, b),
            (Value::Undefined, Value::Undefined) | (Value::None, Value::None) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Namespace(a), Value::Namespace(b)) => a == b,
            _ => false,
        }
    }
}

/// A list in the making.
#[derive(Debug)]
pub struct ListBuilder {
    items: Vec<Value>,
    charge: Charge,
}

impl ListBuilder {
    pub fn new(budget: &Rc<Budget>) -> Result<ListBuilder, Failure> {
        Ok(ListBuilder {
            items: Vec::new(),
            charge: budget.take(size_of::<List>())?,
        })
    }

    pub fn push(&mut self, item: Value) -> Result<(), Failure> {
        self.charge.grow(size_of::<Value>())?;
        self.items.push(item);
        Ok(())
    }

    pub fn extend(&mut self, budget: &Budget, items: &[Value]) -> Result<(), Failure> {
        self.charge.grow(size_of_val(items))?;
        budget.bytes(size_of_val(items))?;
        self.items.extend_from_slice(items);
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn into_list(self, budget: &Budget, tuple: bool) -> Result<Rc<List>, Failure> {
        let deepest = self.items.iter().map(Value::depth).max().unwrap_or(0);
        Ok(Rc::new(List {
            depth: budget.depth(deepest + 1)?,
            items: self.items,
            tuple,
            _charge: self.charge,
        }))
    }

    pub fn finish(self, budget: &Budget) -> Result<Value, Failure> {
        Ok(Value::List(self.into_list(budget, false)?))
    }

    pub fn finish_tuple(self, budget: &Budget) -> Result<Value, Failure> {
        Ok(Value::List(self.into_list(budget, true)?))
    }
}

/// A mapping in the making.
#[derive(Debug)]
pub struct MapBuilder {
    entries: Vec<(Value, Value)>,
    charge: Charge,
}

impl MapBuilder {
    pub fn new(budget: &Rc<Budget>) -> Result<MapBuilder, Failure> {
        Ok(MapBuilder {
            entries: Vec::new(),
            charge: budget.take(size_of::<Map>())?,
        })
    }

    pub fn insert(&mut self, budget: &Budget, key: Value, value: Value) -> Result<(), Failure> {
        if matches!(key, Value::List(_) | Value::Map(_) | Value::Float(_)) {
            return Err(Failure::fault(format!("{} is no key", key.kind())));
        }
        if let Some(place) = find(budget, &self.entries, &key)? {
            self.entries[place].1 = value;
            return Ok(());
        }
        self.push(key, value)
    }

    /// With a key that is not there yet.
    pub fn push(&mut self, key: Value, value: Value) -> Result<(), Failure> {
        self.charge.grow(size_of::<(Value, Value)>())?;
        self.entries.push((key, value));
        Ok(())
    }

    pub fn finish(self, budget: &Budget) -> Result<Value, Failure> {
        let deepest = self.entries.iter().map(|(_, value)| value.depth()).max();
        Ok(Value::Map(Rc::new(Map {
            depth: budget.depth(deepest.unwrap_or(0) + 1)?,
            entries: self.entries,
            _charge: self.charge,
        })))
    }
}

fn find(
    budget: &Budget,
    entries: &[(Value, Value)],
    key: &Value,
) -> Result<Option<usize>, Failure> {
    for (place, (other, _)) in entries.iter().enumerate() {
        if key_equals(budget, other, key)? {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

fn key_equals(budget: &Budget, a: &Value, b: &Value) -> Result<bool, Failure> {
    match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) => {
            budget.bytes(8)?;
            Ok(a.len() == b.len() && {
                budget.bytes(a.len())?;
                a == b
            })
        }
        (None, None) => {
            budget.bytes(8)?;
            Ok(match (a.as_int(), b.as_int()) {
                (Some(a), Some(b)) => a == b,
                _ => a.same(b),
            })
        }
        _ => budget.bytes(8).map(|()| false),
    }
}

impl Map {
    pub fn get(&self, budget: &Budget, key: &Value) -> Result<Option<&Value>, Failure> {
        Ok(find(budget, &self.entries, key)?.map(|place| &self.entries[place].1))
    }

    pub fn get_str(&self, budget: &Budget, key: &str) -> Result<Option<&Value>, Failure> {
        for (other, value) in &self.entries {
            budget.bytes(8)?;
            if let Some(other) = other.as_str()
                && other.len() == key.len()
            {
                budget.bytes(key.len())?;
                if other == key {
                    return Ok(Some(value));
                }
            }
        }
        Ok(None)
    }
}

/// A caller's value, of JSON's types.
pub fn from_json(budget: &Rc<Budget>, json: &serde_json::Value) -> Result<Value, Failure> {
    from_json_within(budget, json, budget.limits.nesting)
}

fn from_json_within(
    budget: &Rc<Budget>,
    json: &serde_json::Value,
    levels: usize,
) -> Result<Value, Failure> {
    budget.steps(1)?;
    let inner = |json| match levels {
        0 => Err(Failure::Limit(ChatTemplateLimit::Nesting)),
        _ => from_json_within(budget, json, levels - 1),
    };
    Ok(match json {
        serde_json::Value::Null => Value::None,
        serde_json::Value::Bool(value) => Value::Bool(*value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Value::Int(number),
            (_, Some(number)) => Value::Float(number),
            _ => Value::Undefined,
        },
        serde_json::Value::String(text) => budget.text(text)?,
        serde_json::Value::Array(items) => {
            let mut list = ListBuilder::new(budget)?;
            for item in items {
                list.push(inner(item)?)?;
            }
            list.finish(budget)?
        }
        serde_json::Value::Object(entries) => {
            let mut map = MapBuilder::new(budget)?;
            for (key, value) in entries {
                map.push(budget.text(key)?, inner(value)?)?;
            }
            map.finish(budget)?
        }
    })
}
