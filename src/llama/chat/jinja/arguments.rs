//! What a filter, a test, a method or a function is called with.

use std::rc::Rc;

use super::Failure;
use super::budget::{Budget, Charge};
use super::value::Value;
use crate::llama::quote::quoted;

#[derive(Debug, Default)]
pub struct Arguments {
    pub positional: Vec<Value>,
    pub keyword: Vec<(Rc<str>, Value)>,
    /// For both.
    pub charge: Option<Charge>,
}

impl Arguments {
    pub fn of(positional: Vec<Value>) -> Arguments {
        Arguments {
            positional,
            ..Arguments::default()
        }
    }

    /// By its name only.
    pub fn named(&self, budget: &Budget, name: &str) -> Result<Option<&Value>, Failure> {
        budget.bytes(8 * self.keyword.len())?;
        let found = self.keyword.iter().find(|(other, _)| &**other == name);
        Ok(found.map(|(_, value)| value))
    }

    /// At the place, or by the name.
    pub fn get(&self, place: usize, name: &str) -> Option<&Value> {
        let by_name = || self.keyword.iter().find(|(other, _)| &**other == name);
        self.positional.get(place).or_else(|| Some(&by_name()?.1))
    }

    pub fn require(&self, place: usize, name: &str) -> Result<&Value, Failure> {
        let missing = || Failure::fault(format!("the argument {name} is missing"));
        self.get(place, name).ok_or_else(missing)
    }

    pub fn text(&self, place: usize, name: &str) -> Result<Option<&str>, Failure> {
        let wrong =
            |value: &Value| Failure::fault(format!("{name} is {}, not a string", value.kind()));
        match self.get(place, name) {
            None | Some(Value::None) => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or_else(|| wrong(value)),
        }
    }

    pub fn require_text(&self, place: usize, name: &str) -> Result<&str, Failure> {
        self.require(place, name)?;
        let none = || Failure::fault(format!("{name} is none, not a string"));
        self.text(place, name)?.ok_or_else(none)
    }

    pub fn int(&self, place: usize, name: &str) -> Result<Option<i64>, Failure> {
        let wrong =
            |value: &Value| Failure::fault(format!("{name} is {}, not an integer", value.kind()));
        match self.get(place, name) {
            None | Some(Value::None) => Ok(None),
            Some(value) => value.as_int().map(Some).ok_or_else(|| wrong(value)),
        }
    }

    /// A length, of which a negative one is zero.
    pub fn size(&self, place: usize, name: &str) -> Result<Option<usize>, Failure> {
        let size = self.int(place, name)?;
        Ok(size.map(|size| usize::try_from(size).unwrap_or(0)))
    }

    pub fn is_true(&self, place: usize, name: &str) -> bool {
        self.get(place, name).is_some_and(Value::is_true)
    }

    /// None but these, in this order where they have no names.
    pub fn allow(&self, names: &[&str]) -> Result<(), Failure> {
        if self.positional.len() > names.len() {
            let most = names.len();
            return Err(Failure::fault(format!("more than {most} arguments")));
        }
        match self
            .keyword
            .iter()
            .find(|(name, _)| !names.contains(&&**name))
        {
            Some((name, _)) => Err(Failure::fault(format!(
                "there is no argument {}",
                quoted(name)
            ))),
            None => Ok(()),
        }
    }
}
