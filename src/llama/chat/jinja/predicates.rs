//! Jinja's tests: `value is name(arguments)`.

use super::Failure;
use super::arguments::Arguments;
use super::evaluator::Evaluator;
use super::operators::compare;
use super::syntax::Comparison;
use super::value::Value;
use crate::llama::quote::quoted;

pub fn test(
    evaluator: &Evaluator,
    name: &str,
    value: &Value,
    arguments: &Arguments,
) -> Result<bool, Failure> {
    let budget = &evaluator.budget;
    let comparison = match name {
        "eq" | "equalto" => Some(Comparison::Equal),
        "ne" => Some(Comparison::NotEqual),
        "lt" | "lessthan" => Some(Comparison::Less),
        "le" => Some(Comparison::LessOrEqual),
        "gt" | "greaterthan" => Some(Comparison::Greater),
        "ge" => Some(Comparison::GreaterOrEqual),
        "in" => Some(Comparison::In),
        _ => None,
    };
    if let Some(comparison) = comparison {
        return compare(budget, comparison, value, arguments.require(0, "other")?);
    }
    let text = value.as_str();
    let whole = |divisor: i64| match value.as_int() {
        Some(number) => Ok(number.checked_rem(divisor)),
        None => Err(Failure::fault(format!("{} is no integer", value.kind()))),
    };
    Ok(match name {
        "defined" => !matches!(value, Value::Undefined),
        "undefined" => matches!(value, Value::Undefined),
        "none" => matches!(value, Value::None),
        "boolean" => matches!(value, Value::Bool(_)),
        "true" => matches!(value, Value::Bool(true)),
        "false" => matches!(value, Value::Bool(false)),
        "integer" => matches!(value, Value::Int(_)),
        "float" => matches!(value, Value::Float(_)),
        "number" => value.as_float().is_some(),
        "string" => text.is_some(),
        "mapping" => matches!(value, Value::Map(_)),
        "sequence" => matches!(
            value,
            Value::Text(_) | Value::List(_) | Value::Map(_) | Value::Undefined
        ),
        "iterable" => matches!(
            value,
            Value::Text(_) | Value::List(_) | Value::Map(_) | Value::Undefined
        ),
        "callable" => matches!(
            value,
            Value::Function(_) | Value::Macro(_) | Value::Caller(..)
        ),
        "sameas" => value.same(arguments.require(0, "other")?),
        "even" => whole(2)? == Some(0),
        "odd" => whole(2)? != Some(0),
        "divisibleby" => match arguments.int(0, "num")? {
            Some(0) | None => return Err(Failure::fault("division by zero")),
            Some(divisor) => whole(divisor)?.unwrap_or(0) == 0,
        },
        "lower" | "upper" => {
            let text = text.unwrap_or_default();
            budget.bytes(text.len())?;
            let wrong = |c: char| {
                if name == "lower" {
                    c.is_uppercase()
                } else {
                    c.is_lowercase()
                }
            };
            text.chars().any(char::is_alphabetic) && !text.chars().any(wrong)
        }
        "filter" => super::filters::exists(text.unwrap_or_default()),
        "test" => exists(text.unwrap_or_default()),
        _ => return Err(Failure::fault(format!("there is no test {}", quoted(name)))),
    })
}

fn exists(name: &str) -> bool {
    const NAMES: [&str; 32] = [
        "boolean",
        "callable",
        "defined",
        "divisibleby",
        "eq",
        "equalto",
        "even",
        "false",
        "filter",
        "float",
        "ge",
        "greaterthan",
        "gt",
        "in",
        "integer",
        "iterable",
        "le",
        "lessthan",
        "lower",
        "lt",
        "mapping",
        "ne",
        "none",
        "number",
        "odd",
        "sameas",
        "sequence",
        "string",
        "test",
        "true",
        "undefined",
        "upper",
    ];
    NAMES.contains(&name)
}

/// A symbol is the name of a test where one is named by a string: `select("==", 1)`.
pub fn named(symbol: &str) -> &str {
    match symbol {
        "==" => "eq",
        "!=" => "ne",
        "<" => "lt",
        "<=" => "le",
        ">" => "gt",
        ">=" => "ge",
        name => name,
    }
}
