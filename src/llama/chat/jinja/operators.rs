//! What Python's operators do.

use std::cmp::Ordering;
use std::rc::Rc;

use super::Failure;
use super::budget::{Budget, TextBuilder};
use super::format::percent;
use super::syntax::{Comparison, Operator};
use super::value::{ListBuilder, Value};

/// As many bytes take the time that passing one character does.
const CHARACTER_BYTES: usize = 4;

pub fn arithmetic(
    budget: &Rc<Budget>,
    operator: Operator,
    left: &Value,
    right: &Value,
) -> Result<Value, Failure> {
    match (operator, left, right) {
        (Operator::Add, Value::Text(_), Value::Text(_)) => {
            return concatenate(budget, &[left.clone(), right.clone()]);
        }
        (Operator::Add, Value::List(a), Value::List(b)) if a.tuple == b.tuple => {
            let mut list = ListBuilder::new(budget)?;
            list.extend(budget, &a.items)?;
            list.extend(budget, &b.items)?;
            return Ok(Value::List(list.into_list(budget, a.tuple)?));
        }
        (Operator::Multiply, Value::Text(_) | Value::List(_), Value::Int(_) | Value::Bool(_)) => {
            return repeat(budget, left, right.as_int().unwrap_or(0));
        }
        (Operator::Multiply, Value::Int(_) | Value::Bool(_), Value::Text(_) | Value::List(_)) => {
            return repeat(budget, right, left.as_int().unwrap_or(0));
        }
        (Operator::Remainder, Value::Text(_), _) => {
            return percent(budget, left.as_str().unwrap_or_default(), right);
        }
        _ => {}
    }
    if let (Some(a), Some(b)) = (left.as_int(), right.as_int()) {
        return integers(operator, a, b);
    }
    if let (Some(a), Some(b)) = (left.as_float(), right.as_float()) {
        return floats(operator, a, b).map(Value::Float);
    }
    let sign = match operator {
        Operator::Add => "+",
        Operator::Subtract => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::FloorDivide => "//",
        Operator::Remainder => "%",
        Operator::Power => "**",
    };
    let (left, right) = (left.kind(), right.kind());
    Err(Failure::fault(format!(
        "{sign} cannot take {left} and {right}"
    )))
}

fn integers(operator: Operator, a: i64, b: i64) -> Result<Value, Failure> {
    let result = match operator {
        Operator::Add => a.checked_add(b),
        Operator::Subtract => a.checked_sub(b),
        Operator::Multiply => a.checked_mul(b),
        Operator::Divide | Operator::Power if operator == Operator::Divide || b < 0 => {
            return floats(operator, a as f64, b as f64).map(Value::Float);
        }
        Operator::Power => match u32::try_from(b) {
            Ok(power) => a.checked_pow(power),
            Err(_) => matches!(a, 0 | 1).then_some(a),
        },
        _ if b == 0 => return Err(Failure::fault("division by zero")),
        // Rounded down, where Rust rounds towards zero.
        Operator::FloorDivide => a.checked_div(b).map(|quotient| {
            let inexact = a.checked_rem(b) != Some(0);
            quotient - i64::from(inexact && (a < 0) != (b < 0))
        }),
        _ => Some(match a.checked_rem(b).unwrap_or(0) {
            0 => 0,
            remainder if (remainder < 0) != (b < 0) => remainder + b,
            remainder => remainder,
        }),
    };
    let overflow = || Failure::fault("an integer has more than 64 bits");
    result.map(Value::Int).ok_or_else(overflow)
}

fn floats(operator: Operator, a: f64, b: f64) -> Result<f64, Failure> {
    let divides = matches!(
        operator,
        Operator::Divide | Operator::FloorDivide | Operator::Remainder
    );
    if divides && b == 0.0 || operator == Operator::Power && a == 0.0 && b < 0.0 {
        return Err(Failure::fault("division by zero"));
    }
    Ok(match operator {
        Operator::Add => a + b,
        Operator::Subtract => a - b,
        Operator::Multiply => a * b,
        Operator::Divide => a / b,
        Operator::FloorDivide => (a / b).floor(),
        Operator::Remainder => a - b * (a / b).floor(),
        Operator::Power => a.powf(b),
    })
}

pub fn negative(value: &Value) -> Result<Value, Failure> {
    match value {
        Value::Float(number) => Ok(Value::Float(-number)),
        other => integers(Operator::Subtract, 0, number(other)?),
    }
}

pub fn positive(value: &Value) -> Result<Value, Failure> {
    match value {
        Value::Float(_) => Ok(value.clone()),
        other => number(other).map(Value::Int),
    }
}

fn number(value: &Value) -> Result<i64, Failure> {
    let wrong = || Failure::fault(format!("a sign cannot stand before {}", value.kind()));
    value.as_int().ok_or_else(wrong)
}

/// `a ~ b ~ c`
pub fn concatenate(budget: &Rc<Budget>, values: &[Value]) -> Result<Value, Failure> {
    let mut text = TextBuilder::new(budget)?;
    for value in values {
        super::text::write_str(&mut text, budget, value)?;
    }
    Ok(text.finish())
}

fn repeat(budget: &Rc<Budget>, value: &Value, count: i64) -> Result<Value, Failure> {
    let count = usize::try_from(count).unwrap_or(0);
    if let Value::List(list) = value {
        let mut repeated = ListBuilder::new(budget)?;
        for _ in 0..if list.items.is_empty() { 0 } else { count } {
            repeated.extend(budget, &list.items)?;
        }
        return Ok(Value::List(repeated.into_list(budget, list.tuple)?));
    }
    let mut text = TextBuilder::new(budget)?;
    text.repeat(value.as_str().unwrap_or_default(), count)?;
    Ok(text.finish())
}

pub fn compare(
    budget: &Rc<Budget>,
    comparison: Comparison,
    left: &Value,
    right: &Value,
) -> Result<bool, Failure> {
    Ok(match comparison {
        Comparison::Equal => equals(budget, left, right)?,
        Comparison::NotEqual => !equals(budget, left, right)?,
        Comparison::In => contains(budget, right, left)?,
        Comparison::NotIn => !contains(budget, right, left)?,
        Comparison::Less => order(budget, left, right)? == Some(Ordering::Less),
        Comparison::Greater => order(budget, left, right)? == Some(Ordering::Greater),
        Comparison::LessOrEqual => order(budget, left, right)?.is_some_and(Ordering::is_le),
        Comparison::GreaterOrEqual => order(budget, left, right)?.is_some_and(Ordering::is_ge),
    })
}

pub fn equals(budget: &Budget, left: &Value, right: &Value) -> Result<bool, Failure> {
    budget.bytes(16)?;
    match (left, right) {
        (Value::Text(_), Value::Text(_)) => {
            let (a, b) = (
                left.as_str().unwrap_or_default(),
                right.as_str().unwrap_or_default(),
            );
            if a.len() == b.len() {
                budget.bytes(a.len())?;
            }
            Ok(a == b)
        }
        (Value::List(a), Value::List(b)) => {
            if a.items.len() != b.items.len() || a.tuple != b.tuple {
                return Ok(false);
            }
            for (a, b) in a.items.iter().zip(&b.items) {
                if !equals(budget, a, b)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.entries.len() != b.entries.len() {
                return Ok(false);
            }
            for (key, value) in &a.entries {
                match b.get(budget, key)? {
                    Some(other) if equals(budget, value, other)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        _ => Ok(match (left.as_int(), right.as_int()) {
            (Some(a), Some(b)) => a == b,
            _ => match (left.as_float(), right.as_float()) {
                (Some(a), Some(b)) => a == b,
                _ => left.same(right),
            },
        }),
    }
}

/// None for what is in no order, as NaN is.
pub fn order(budget: &Budget, left: &Value, right: &Value) -> Result<Option<Ordering>, Failure> {
    budget.bytes(8)?;
    if let (Some(a), Some(b)) = (left.as_int(), right.as_int()) {
        return Ok(Some(a.cmp(&b)));
    }
    if let (Some(a), Some(b)) = (left.as_float(), right.as_float()) {
        return Ok(a.partial_cmp(&b));
    }
    match (left, right) {
        (Value::Text(_), Value::Text(_)) => {
            let (a, b) = (
                left.as_str().unwrap_or_default(),
                right.as_str().unwrap_or_default(),
            );
            budget.bytes(a.len().min(b.len()))?;
            Ok(Some(a.cmp(b)))
        }
        (Value::List(a), Value::List(b)) => {
            for (a, b) in a.items.iter().zip(&b.items) {
                if !equals(budget, a, b)? {
                    return order(budget, a, b);
                }
            }
            Ok(Some(a.items.len().cmp(&b.items.len())))
        }
        _ => {
            let (left, right) = (left.kind(), right.kind());
            Err(Failure::fault(format!(
                "{left} and {right} are in no order"
            )))
        }
    }
}

pub fn contains(budget: &Rc<Budget>, container: &Value, item: &Value) -> Result<bool, Failure> {
    match (container, item.as_str()) {
        (Value::Text(_), Some(item)) => {
            let text = container.as_str().unwrap_or_default();
            budget.bytes(text.len().saturating_add(item.len()))?;
            Ok(text.contains(item))
        }
        (Value::List(list), _) => {
            for other in &list.items {
                if equals(budget, other, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        (Value::Map(map), _) => Ok(map.get(budget, item)?.is_some()),
        (Value::Undefined, _) => Ok(false),
        _ => {
            let (item, container) = (item.kind(), container.kind());
            Err(Failure::fault(format!("{item} cannot be in {container}")))
        }
    }
}

/// `value[index]`; what is not there is undefined.
pub fn index(budget: &Rc<Budget>, value: &Value, index: &Value) -> Result<Value, Failure> {
    match (value, index.as_int()) {
        (Value::Undefined, _) => Err(Failure::fault("undefined has no items")),
        (Value::Map(map), _) => Ok(map.get(budget, index)?.cloned().unwrap_or(Value::Undefined)),
        (Value::List(list), Some(place)) => {
            let place = from_end(place, list.items.len());
            let item = place.and_then(|place| list.items.get(place));
            Ok(item.cloned().unwrap_or(Value::Undefined))
        }
        (Value::Text(_), Some(place)) => {
            let text = value.as_str().unwrap_or_default();
            // Characters are passed one by one, from the nearer end.
            let passed = usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX);
            budget.bytes(passed.min(text.len()).saturating_mul(CHARACTER_BYTES) + 8)?;
            let character = match usize::try_from(place) {
                Ok(place) => text.chars().nth(place),
                Err(_) => usize::try_from(place.unsigned_abs() - 1)
                    .ok()
                    .and_then(|place| text.chars().nth_back(place)),
            };
            match character {
                Some(character) => budget.text(character.encode_utf8(&mut [0; 4])),
                None => Ok(Value::Undefined),
            }
        }
        _ => Ok(Value::Undefined),
    }
}

fn from_end(place: i64, length: usize) -> Option<usize> {
    match usize::try_from(place) {
        Ok(place) => Some(place),
        Err(_) => length.checked_sub(usize::try_from(place.unsigned_abs()).ok()?),
    }
}

/// `value[start:stop:step]`
pub fn slice(
    budget: &Rc<Budget>,
    value: &Value,
    parts: [Option<i64>; 3],
) -> Result<Value, Failure> {
    match value {
        Value::List(list) => {
            budget.bytes(8)?;
            let mut picked = ListBuilder::new(budget)?;
            if let [start, stop, None | Some(1)] = parts {
                let places = places([start, stop, None], list.items.len())?;
                let range = places.first..places.first + places.count;
                picked.extend(budget, list.items.get(range).unwrap_or_default())?;
            } else {
                for place in places(parts, list.items.len())? {
                    budget.bytes(size_of::<Value>())?;
                    picked.push(list.items[place].clone())?;
                }
            }
            Ok(Value::List(picked.into_list(budget, list.tuple)?))
        }
        Value::Text(_) => {
            let text = value.as_str().unwrap_or_default();
            budget.bytes(text.len())?;
            if let [start, stop, None | Some(1)] = parts {
                let places = places([start, stop, None], text.chars().count())?;
                budget.bytes((places.first + places.count) * CHARACTER_BYTES)?;
                let mut offsets = text
                    .char_indices()
                    .map(|(offset, _)| offset)
                    .chain([text.len()]);
                let start = offsets.nth(places.first).unwrap_or(text.len());
                let stop = match places.count {
                    0 => start,
                    count => offsets.nth(count - 1).unwrap_or(text.len()),
                };
                return budget.text(&text[start..stop]);
            }
            let _characters = budget.take(text.len().saturating_mul(size_of::<char>()))?;
            let characters: Vec<char> = text.chars().collect();
            let mut picked = TextBuilder::new(budget)?;
            for place in places(parts, characters.len())? {
                picked.push_char(characters[place])?;
            }
            Ok(picked.finish())
        }
        Value::Undefined => Ok(ListBuilder::new(budget)?.finish(budget)?),
        other => Err(Failure::fault(format!("{} has no items", other.kind()))),
    }
}

/// The places of a slice, as CPython's `PySlice_AdjustIndices` has them.
struct Places {
    first: usize,
    count: usize,
    step: i64,
}

fn places([start, stop, step]: [Option<i64>; 3], length: usize) -> Result<Places, Failure> {
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Failure::fault("the step of a slice is zero"));
    }
    let length = length as i64;
    let (low, high) = if step > 0 {
        (0, length)
    } else {
        (-1, length - 1)
    };
    let adjust = |place: Option<i64>, default: i64| match place {
        None => default,
        Some(place) if place < 0 => place.saturating_add(length).max(low),
        Some(place) => place.min(high),
    };
    let (start, stop) = match step > 0 {
        true => (adjust(start, 0), adjust(stop, length)),
        false => (adjust(start, length - 1), adjust(stop, -1)),
    };
    // A default of -1 is no place from the end.
    let span = if step > 0 { stop - start } else { start - stop };
    let count = match span > 0 {
        true => (span - 1) as u64 / step.unsigned_abs() + 1,
        false => 0,
    };
    Ok(Places {
        first: if count > 0 { start as usize } else { 0 },
        count: count as usize,
        step,
    })
}

impl Iterator for Places {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.count = self.count.checked_sub(1)?;
        let place = self.first;
        // Beyond the last there is none.
        self.first = (place as i64).saturating_add(self.step).max(0) as usize;
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_pythons() {
        // list(range(5))[start:stop:step]
        for (parts, expected) in [
            ([None, None, None], vec![0, 1, 2, 3, 4]),
            ([Some(1), None, None], vec![1, 2, 3, 4]),
            ([None, Some(-1), None], vec![0, 1, 2, 3]),
            ([Some(-2), None, None], vec![3, 4]),
            ([Some(-9), Some(9), Some(2)], vec![0, 2, 4]),
            ([None, None, Some(-1)], vec![4, 3, 2, 1, 0]),
            ([Some(3), Some(0), Some(-2)], vec![3, 1]),
            ([Some(9), Some(1), Some(-1)], vec![4, 3, 2]),
            ([None, Some(-9), Some(-1)], vec![4, 3, 2, 1, 0]),
            ([Some(3), Some(1), None], vec![]),
            ([Some(9), None, None], vec![]),
            ([Some(i64::MIN), Some(i64::MAX), Some(i64::MIN)], vec![]),
            ([None, None, Some(i64::MIN)], vec![4]),
        ] {
            let found: Vec<usize> = places(parts, 5).unwrap().collect();
            assert_eq!(found, expected, "{parts:?}");
        }
        assert!(places([None, None, Some(0)], 5).is_err());
        assert_eq!(places([None, None, Some(-1)], 0).unwrap().count(), 0);
    }

    #[test]
    fn integers_divide_as_pythons_do() {
        let int = |operator, a, b| match integers(operator, a, b) {
            Ok(Value::Int(number)) => Some(number),
            _ => None,
        };
        for (a, b, quotient, remainder) in [
            (7, 2, 3, 1),
            (-7, 2, -4, 1),
            (7, -2, -4, -1),
            (-7, -2, 3, -1),
            (6, -2, -3, 0),
        ] {
            assert_eq!(int(Operator::FloorDivide, a, b), Some(quotient));
            assert_eq!(int(Operator::Remainder, a, b), Some(remainder));
        }
        assert_eq!(int(Operator::FloorDivide, i64::MIN, -1), None);
        assert_eq!(int(Operator::Remainder, i64::MIN, -1), Some(0));
        assert_eq!(int(Operator::Remainder, 1, 0), None);
        assert_eq!(int(Operator::Power, 10, i64::MAX), None);
        assert_eq!(int(Operator::Power, -1, 3), Some(-1));
        assert_eq!(int(Operator::Add, i64::MAX, 1), None);
    }
}
