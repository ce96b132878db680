//! Jinja's filters: `value|name(arguments)`.

use std::cmp::Ordering;
use std::rc::Rc;

use super::Failure;
use super::arguments::Arguments;
use super::budget::{Budget, TextBuilder};
use super::evaluator::Evaluator;
use super::format::percent;
use super::methods;
use super::operators::{arithmetic, equals, index, order};
use super::predicates;
use super::syntax::Operator;
use super::text::{is_space, to_text, write_repr};
use super::value::{List, ListBuilder, Value};
use crate::llama::chat::python::{JsonOptions, to_json};
use crate::llama::quote::quoted;

const NAMES: [&str; 48] = [
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "center",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "truncate",
    "unique",
    "upper",
    "wordcount",
    "wordwrap",
];

pub fn exists(name: &str) -> bool {
    NAMES.contains(&name)
}

pub fn filter(
    evaluator: &mut Evaluator,
    name: &str,
    value: &Value,
    arguments: &Arguments,
) -> Result<Value, Failure> {
    let budget = evaluator.budget.clone();
    let budget = &budget;
    match name {
        "abs" => match value {
            Value::Float(number) => Ok(Value::Float(number.abs())),
            _ => match value.as_int().map(i64::checked_abs) {
                Some(Some(number)) => Ok(Value::Int(number)),
                _ => Err(Failure::fault(format!("abs cannot take {}", value.kind()))),
            },
        },
        "attr" => evaluator.attribute(value, arguments.require_text(0, "name")?),
        "batch" => batch(evaluator, value, arguments),
        "bool" => Ok(Value::Bool(value.is_true())),
        "count" | "length" => length(budget, value),
        "d" | "default" => {
            arguments.allow(&["default_value", "boolean"])?;
            let absent = matches!(value, Value::Undefined)
                || arguments.is_true(1, "boolean") && !value.is_true();
            match (absent, arguments.get(0, "default_value")) {
                (false, _) => Ok(value.clone()),
                (true, Some(default)) => Ok(default.clone()),
                (true, None) => budget.text(""),
            }
        }
        "dictsort" => dictsort(evaluator, value, arguments),
        "e" | "escape" => escape(budget, value),
        "first" | "last" => {
            let items = evaluator.iterate(value)?;
            let item = if name == "first" {
                items.items.first()
            } else {
                items.items.last()
            };
            Ok(item.cloned().unwrap_or(Value::Undefined))
        }
        "float" => {
            let read = || value.as_str()?.trim().parse().ok();
            let number = value.as_float().or_else(read).map(Value::Float);
            let default = arguments.get(0, "default").cloned();
            Ok(number.or(default).unwrap_or(Value::Float(0.0)))
        }
        "format" => {
            let format = to_text(budget, value)?;
            let mut values = ListBuilder::new(budget)?;
            values.extend(budget, &arguments.positional)?;
            percent(
                budget,
                format.as_str().unwrap_or_default(),
                &values.finish_tuple(budget)?,
            )
        }
        "groupby" => groupby(evaluator, value, arguments),
        "indent" => indent(budget, value, arguments),
        "int" => int(value, arguments),
        "items" => match value {
            Value::Map(map) => methods::items(budget, map),
            Value::Undefined => ListBuilder::new(budget)?.finish(budget),
            other => Err(Failure::fault(format!(
                "items cannot take {}",
                other.kind()
            ))),
        },
        "join" => {
            arguments.allow(&["d", "attribute"])?;
            let separator = match arguments.get(0, "d") {
                Some(separator) => to_text(budget, separator)?,
                None => budget.text("")?,
            };
            let mut items = evaluator.iterate(value)?;
            if let Some(attribute) = arguments.get(1, "attribute") {
                items = each_attribute(evaluator, &items, attribute)?;
            }
            methods::join(budget, separator.as_str().unwrap_or_default(), &items)
        }
        "list" => match value {
            Value::List(list) if !list.tuple => Ok(value.clone()),
            _ => {
                let items = evaluator.iterate(value)?;
                let mut list = ListBuilder::new(budget)?;
                list.extend(budget, &items.items)?;
                list.finish(budget)
            }
        },
        "map" => map(evaluator, value, arguments),
        "max" | "min" => {
            let items = evaluator.iterate(value)?;
            let keys = keys(
                evaluator,
                &items,
                arguments.get(1, "attribute"),
                arguments.is_true(0, "case_sensitive"),
            )?;
            let wanted = if name == "max" {
                Ordering::Greater
            } else {
                Ordering::Less
            };
            let mut best = 0;
            for place in 1..keys.items.len() {
                if order(budget, &keys.items[place], &keys.items[best])? == Some(wanted) {
                    best = place;
                }
            }
            Ok(items.items.get(best).cloned().unwrap_or(Value::Undefined))
        }
        "pprint" => {
            let mut text = TextBuilder::new(budget)?;
            write_repr(&mut text, budget, value)?;
            Ok(text.finish())
        }
        "reject" | "rejectattr" | "select" | "selectattr" => {
            select(evaluator, name, value, arguments)
        }
        "replace" => {
            arguments.allow(&["old", "new", "count"])?;
            let text = to_text(budget, value)?;
            methods::replace(budget, text.as_str().unwrap_or_default(), arguments)
        }
        "reverse" => match value {
            Value::Text(_) => super::operators::slice(budget, value, [None, None, Some(-1)]),
            _ => {
                let items = evaluator.iterate(value)?;
                let mut list = ListBuilder::new(budget)?;
                for item in items.items.iter().rev() {
                    budget.bytes(size_of::<Value>())?;
                    list.push(item.clone())?;
                }
                list.finish(budget)
            }
        },
        "round" => round(value, arguments),
        "safe" | "string" => to_text(budget, value),
        "slice" => slices(evaluator, value, arguments),
        "sort" => {
            arguments.allow(&["reverse", "case_sensitive", "attribute"])?;
            let items = evaluator.iterate(value)?;
            let keys = keys(
                evaluator,
                &items,
                arguments.get(2, "attribute"),
                arguments.is_true(1, "case_sensitive"),
            )?;
            sorted(budget, &items, &keys, arguments.is_true(0, "reverse"))
        }
        "sum" => {
            let mut items = evaluator.iterate(value)?;
            if let Some(attribute) = arguments.get(0, "attribute") {
                items = each_attribute(evaluator, &items, attribute)?;
            }
            let mut sum = arguments.get(1, "start").cloned().unwrap_or(Value::Int(0));
            for item in &items.items {
                budget.steps(1)?;
                sum = arithmetic(budget, Operator::Add, &sum, item)?;
            }
            Ok(sum)
        }
        "tojson" => {
            let indent = match arguments.get(1, "indent") {
                Some(Value::Text(_)) => Some((arguments.require_text(1, "indent")?.to_owned(), 1)),
                _ => arguments
                    .size(1, "indent")?
                    .map(|count| (" ".into(), count)),
            };
            let separators = match arguments.get(2, "separators") {
                Some(Value::List(list)) => match &list.items[..] {
                    [item, key] => Some((
                        item.as_str().unwrap_or_default().to_owned(),
                        key.as_str().unwrap_or_default().to_owned(),
                    )),
                    _ => return Err(Failure::fault("separators are two")),
                },
                _ => None,
            };
            let options = JsonOptions {
                indent,
                ascii: arguments.is_true(0, "ensure_ascii"),
                sorted: arguments.is_true(3, "sort_keys"),
                separators,
            };
            arguments.allow(&["ensure_ascii", "indent", "separators", "sort_keys"])?;
            to_json(budget, value, &options)
        }
        "trim" => {
            arguments.allow(&["chars"])?;
            let text = to_text(budget, value)?;
            methods::strip(
                budget,
                text.as_str().unwrap_or_default(),
                arguments.text(0, "chars")?,
                true,
                true,
            )
        }
        "truncate" => truncate(budget, value, arguments),
        "unique" => {
            let items = evaluator.iterate(value)?;
            let keys = keys(
                evaluator,
                &items,
                arguments.get(1, "attribute"),
                arguments.is_true(0, "case_sensitive"),
            )?;
            let mut kept: Vec<&Value> = Vec::new();
            let mut list = ListBuilder::new(budget)?;
            'items: for (item, key) in items.items.iter().zip(&keys.items) {
                for other in &kept {
                    if equals(budget, other, key)? {
                        continue 'items;
                    }
                }
                list.push(item.clone())?;
                kept.push(key);
            }
            list.finish(budget)
        }
        "wordcount" => {
            let text = to_text(budget, value)?;
            let text = text.as_str().unwrap_or_default();
            budget.bytes(text.len())?;
            Ok(Value::Int(
                text.split(is_space).filter(|word| !word.is_empty()).count() as i64,
            ))
        }
        "wordwrap" => wordwrap(budget, value, arguments),
        // Words begin elsewhere than where the method has them.
        "title" => {
            let text = to_text(budget, value)?;
            let text = text.as_str().unwrap_or_default();
            let begins = |before: char| is_space(before) || "-({[<".contains(before);
            methods::mapped(budget, text, |character, before| {
                match before.is_none_or(begins) {
                    true => character.to_uppercase().collect::<Vec<_>>(),
                    false => character.to_lowercase().collect(),
                }
            })
        }
        "center" | "capitalize" | "lower" | "upper" => {
            let text = to_text(budget, value)?;
            let default;
            let arguments = match (name, arguments.positional.is_empty()) {
                ("center", true) => {
                    let width = arguments.int(0, "width")?.unwrap_or(80);
                    default = Arguments::of(vec![Value::Int(width)]);
                    &default
                }
                _ => arguments,
            };
            methods::of_text(evaluator, &text, name, arguments)
        }
        _ => Err(Failure::fault(format!(
            "there is no filter {}",
            quoted(name)
        ))),
    }
}

pub fn length(budget: &Budget, value: &Value) -> Result<Value, Failure> {
    let length = match value {
        Value::Text(_) => {
            let text = value.as_str().unwrap_or_default();
            budget.bytes(text.len())?;
            text.chars().count()
        }
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.entries.len(),
        Value::Undefined => 0,
        other => return Err(Failure::fault(format!("{} has no length", other.kind()))),
    };
    Ok(Value::Int(length as i64))
}

/// What `attribute="a.b.0"` names of a value.
fn attribute_path(evaluator: &Evaluator, value: &Value, path: &Value) -> Result<Value, Failure> {
    let Some(path) = path.as_str() else {
        return index(&evaluator.budget, value, path);
    };
    let mut found = value.clone();
    for part in path.split('.') {
        evaluator.budget.steps(1)?;
        found = match part.parse() {
            Ok(place) => index(&evaluator.budget, &found, &Value::Int(place))?,
            Err(_) => evaluator.attribute(&found, part)?,
        };
    }
    Ok(found)
}

fn each_attribute(evaluator: &Evaluator, items: &List, path: &Value) -> Result<Rc<List>, Failure> {
    let mut list = ListBuilder::new(&evaluator.budget)?;
    for item in &items.items {
        list.push(attribute_path(evaluator, item, path)?)?;
    }
    list.into_list(&evaluator.budget, false)
}

/// What a list is sorted by: without the difference of capital letters where it is not asked for.
fn keys(
    evaluator: &Evaluator,
    items: &Rc<List>,
    attribute: Option<&Value>,
    case: bool,
) -> Result<Rc<List>, Failure> {
    let budget = &evaluator.budget;
    let attribute = attribute.filter(|attribute| !matches!(attribute, Value::None));
    let keys = match attribute {
        Some(attribute) => each_attribute(evaluator, items, attribute)?,
        None => items.clone(),
    };
    if case || !keys.items.iter().any(|key| key.as_str().is_some()) {
        return Ok(keys);
    }
    let mut list = ListBuilder::new(budget)?;
    for key in &keys.items {
        list.push(match key.as_str() {
            Some(text) => methods::lowercase(budget, text)?,
            None => key.clone(),
        })?;
    }
    list.into_list(budget, false)
}

/// The items in the order of their keys. A comparison can fail, hence not the standard library's.
fn sorted(budget: &Rc<Budget>, items: &List, keys: &List, reverse: bool) -> Result<Value, Failure> {
    let length = items.items.len();
    let _places = budget.take(2 * length * size_of::<usize>())?;
    let mut places: Vec<usize> = (0..length).collect();
    let mut merged: Vec<usize> = Vec::with_capacity(length);
    let mut run = 1;
    while run < length {
        merged.clear();
        for start in (0..length).step_by(2 * run) {
            let (middle, end) = ((start + run).min(length), (start + 2 * run).min(length));
            let (mut left, mut right) = (start, middle);
            while left < middle || right < end {
                budget.bytes(16)?;
                let from_right = left == middle
                    || right < end && {
                        let (a, b) = (&keys.items[places[right]], &keys.items[places[left]]);
                        let wanted = if reverse {
                            Ordering::Greater
                        } else {
                            Ordering::Less
                        };
                        order(budget, a, b)? == Some(wanted)
                    };
                let next = if from_right { &mut right } else { &mut left };
                merged.push(places[*next]);
                *next += 1;
            }
        }
        std::mem::swap(&mut places, &mut merged);
        run *= 2;
    }
    let mut list = ListBuilder::new(budget)?;
    for place in places {
        list.push(items.items[place].clone())?;
    }
    list.finish(budget)
}

fn dictsort(evaluator: &Evaluator, value: &Value, arguments: &Arguments) -> Result<Value, Failure> {
    arguments.allow(&["case_sensitive", "by", "reverse"])?;
    let budget = &evaluator.budget;
    let Value::Map(map) = value else {
        return Err(Failure::fault(format!(
            "dictsort cannot take {}",
            value.kind()
        )));
    };
    let pairs = methods::items(budget, map)?;
    let Value::List(pairs) = &pairs else {
        unreachable!("items are a list")
    };
    let place = i64::from(arguments.text(1, "by")? == Some("value"));
    let keys = keys(
        evaluator,
        pairs,
        Some(&Value::Int(place)),
        arguments.is_true(0, "case_sensitive"),
    )?;
    sorted(budget, pairs, &keys, arguments.is_true(2, "reverse"))
}

fn groupby(evaluator: &Evaluator, value: &Value, arguments: &Arguments) -> Result<Value, Failure> {
    arguments.allow(&["attribute", "default", "case_sensitive"])?;
    let budget = &evaluator.budget;
    let attribute = arguments.require(0, "attribute")?;
    let items = evaluator.iterate(value)?;
    let by = keys(
        evaluator,
        &items,
        Some(attribute),
        arguments.is_true(2, "case_sensitive"),
    )?;
    let sorted_items = sorted(budget, &items, &by, false)?;
    let Value::List(items) = &sorted_items else {
        unreachable!("what is sorted is a list")
    };
    let by = keys(
        evaluator,
        items,
        Some(attribute),
        arguments.is_true(2, "case_sensitive"),
    )?;
    let mut groups = ListBuilder::new(budget)?;
    let mut start = 0;
    while start < items.items.len() {
        let mut group = ListBuilder::new(budget)?;
        let mut end = start;
        while end < items.items.len() && equals(budget, &by.items[start], &by.items[end])? {
            group.push(items.items[end].clone())?;
            end += 1;
        }
        // NaN is not even itself.
        let end = end.max(start + 1);
        let mut pair = ListBuilder::new(budget)?;
        pair.push(attribute_path(evaluator, &items.items[start], attribute)?)?;
        pair.push(group.finish(budget)?)?;
        groups.push(pair.finish_tuple(budget)?)?;
        start = end;
    }
    groups.finish(budget)
}

fn map(evaluator: &mut Evaluator, value: &Value, arguments: &Arguments) -> Result<Value, Failure> {
    let budget = evaluator.budget.clone();
    let items = evaluator.iterate(value)?;
    let mut list = ListBuilder::new(&budget)?;
    if let Some(attribute) = arguments.named(&budget, "attribute")? {
        let default = arguments.named(&budget, "default")?;
        for item in &items.items {
            let found = attribute_path(evaluator, item, attribute)?;
            list.push(match (&found, default) {
                (Value::Undefined, Some(default)) => default.clone(),
                _ => found,
            })?;
        }
        return list.finish(&budget);
    }
    let name = arguments.require_text(0, "filter")?;
    let rest = Arguments {
        positional: arguments.positional.get(1..).unwrap_or_default().to_vec(),
        keyword: arguments.keyword.clone(),
        charge: None,
    };
    for item in &items.items {
        list.push(evaluator.filter(name, item, &rest)?)?;
    }
    list.finish(&budget)
}

fn select(
    evaluator: &mut Evaluator,
    name: &str,
    value: &Value,
    arguments: &Arguments,
) -> Result<Value, Failure> {
    let budget = evaluator.budget.clone();
    let wanted = name.starts_with("select");
    let by_attribute = name.ends_with("attr");
    let first = usize::from(by_attribute);
    let attribute = match by_attribute {
        true => Some(arguments.require(0, "attribute")?),
        false => None,
    };
    let test = arguments.text(first, "test")?.map(predicates::named);
    let rest = Arguments::of(
        arguments
            .positional
            .get(first + 1..)
            .unwrap_or_default()
            .to_vec(),
    );
    let items = evaluator.iterate(value)?;
    let mut list = ListBuilder::new(&budget)?;
    for item in &items.items {
        budget.steps(1)?;
        let tested = match attribute {
            Some(attribute) => attribute_path(evaluator, item, attribute)?,
            None => item.clone(),
        };
        let holds = match test {
            Some(test) => predicates::test(evaluator, test, &tested, &rest)?,
            None => tested.is_true(),
        };
        if holds == wanted {
            list.push(item.clone())?;
        }
    }
    list.finish(&budget)
}

fn batch(evaluator: &Evaluator, value: &Value, arguments: &Arguments) -> Result<Value, Failure> {
    arguments.allow(&["linecount", "fill_with"])?;
    let budget = &evaluator.budget;
    let size = arguments.size(0, "linecount")?.unwrap_or(0).max(1);
    let items = evaluator.iterate(value)?;
    let mut batches = ListBuilder::new(budget)?;
    for part in items.items.chunks(size) {
        let mut batch = ListBuilder::new(budget)?;
        batch.extend(budget, part)?;
        fill(budget, &mut batch, size, arguments.get(1, "fill_with"))?;
        batches.push(batch.finish(budget)?)?;
    }
    batches.finish(budget)
}

fn fill(
    budget: &Budget,
    list: &mut ListBuilder,
    size: usize,
    with: Option<&Value>,
) -> Result<(), Failure> {
    if let Some(with) = with.filter(|with| !matches!(with, Value::None)) {
        while list.len() < size {
            budget.bytes(size_of::<Value>())?;
            list.push(with.clone())?;
        }
    }
    Ok(())
}

fn slices(evaluator: &Evaluator, value: &Value, arguments: &Arguments) -> Result<Value, Failure> {
    arguments.allow(&["slices", "fill_with"])?;
    let budget = &evaluator.budget;
    let count = arguments.size(0, "slices")?.unwrap_or(0).max(1);
    let items = evaluator.iterate(value)?;
    let (each, longer) = (items.items.len() / count, items.items.len() % count);
    let mut slices = ListBuilder::new(budget)?;
    let mut start = 0;
    for place in 0..count {
        budget.steps(1)?;
        let end = start + each + usize::from(place < longer);
        let mut slice = ListBuilder::new(budget)?;
        slice.extend(budget, &items.items[start..end])?;
        if longer > 0 {
            fill(budget, &mut slice, each + 1, arguments.get(1, "fill_with"))?;
        }
        slices.push(slice.finish(budget)?)?;
        start = end;
    }
    slices.finish(budget)
}

fn escape(budget: &Rc<Budget>, value: &Value) -> Result<Value, Failure> {
    let text = to_text(budget, value)?;
    let mut escaped = TextBuilder::new(budget)?;
    for character in text.as_str().unwrap_or_default().chars() {
        match character {
            '&' => escaped.push("&amp;")?,
            '<' => escaped.push("&lt;")?,
            '>' => escaped.push("&gt;")?,
            '"' => escaped.push("&#34;")?,
            '\'' => escaped.push("&#39;")?,
            other => escaped.push_char(other)?,
        }
    }
    Ok(escaped.finish())
}

fn indent(budget: &Rc<Budget>, value: &Value, arguments: &Arguments) -> Result<Value, Failure> {
    arguments.allow(&["width", "first", "blank"])?;
    let (unit, count) = match arguments.get(0, "width") {
        Some(Value::Text(_)) => (arguments.require_text(0, "width")?, 1),
        _ => (" ", arguments.size(0, "width")?.unwrap_or(4)),
    };
    let text = to_text(budget, value)?;
    let mut indented = TextBuilder::new(budget)?;
    for (place, line) in text.as_str().unwrap_or_default().split('\n').enumerate() {
        if place > 0 {
            indented.push("\n")?;
        }
        let wanted = match place {
            0 => arguments.is_true(1, "first"),
            _ => !line.is_empty() || arguments.is_true(2, "blank"),
        };
        if wanted {
            indented.repeat(unit, count)?;
        }
        indented.push(line)?;
    }
    Ok(indented.finish())
}

fn int(value: &Value, arguments: &Arguments) -> Result<Value, Failure> {
    arguments.allow(&["default", "base"])?;
    let base = arguments
        .int(1, "base")?
        .and_then(|base| u32::try_from(base).ok());
    let base = base.filter(|base| (2..=36).contains(base)).unwrap_or(10);
    let whole = |number: f64| (number.abs() < i64::MAX as f64).then_some(number as i64);
    let read = || {
        let text = value.as_str()?.trim().replace('_', "");
        let digits = match base {
            16 => text.trim_start_matches("0x"),
            8 => text.trim_start_matches("0o"),
            2 => text.trim_start_matches("0b"),
            _ => &text,
        };
        i64::from_str_radix(digits, base)
            .ok()
            .or_else(|| whole(text.parse().ok()?))
    };
    let number = match value {
        Value::Float(number) => whole(*number),
        _ => value.as_int().or_else(read),
    };
    let default = || {
        arguments
            .get(0, "default")
            .cloned()
            .unwrap_or(Value::Int(0))
    };
    Ok(number.map_or_else(default, Value::Int))
}

fn round(value: &Value, arguments: &Arguments) -> Result<Value, Failure> {
    arguments.allow(&["precision", "method"])?;
    let Some(number) = value.as_float() else {
        return Err(Failure::fault(format!(
            "round cannot take {}",
            value.kind()
        )));
    };
    let precision = arguments.int(0, "precision")?.unwrap_or(0).clamp(-400, 400) as i32;
    let scale = 10f64.powi(precision);
    let rounded = match arguments.text(1, "method")? {
        None | Some("common") => match precision {
            // The decimal digits of the number itself, half to even, as Python has it.
            0.. => format!("{number:.*}", precision as usize)
                .parse()
                .unwrap_or(number),
            _ => (number * scale).round_ties_even() / scale,
        },
        Some("ceil") => (number * scale).ceil() / scale,
        Some("floor") => (number * scale).floor() / scale,
        Some(_) => return Err(Failure::fault("round takes common, ceil or floor")),
    };
    let rounded = if rounded.is_finite() { rounded } else { number };
    Ok(match (value, arguments.text(1, "method")?) {
        (Value::Int(_), None | Some("common")) => Value::Int(rounded as i64),
        _ => Value::Float(rounded),
    })
}

fn truncate(budget: &Rc<Budget>, value: &Value, arguments: &Arguments) -> Result<Value, Failure> {
    arguments.allow(&["length", "killwords", "end", "leeway"])?;
    let text_value = to_text(budget, value)?;
    let text = text_value.as_str().unwrap_or_default();
    let length = arguments.size(0, "length")?.unwrap_or(255);
    let end = arguments.text(2, "end")?.unwrap_or("...");
    let leeway = arguments.size(3, "leeway")?.unwrap_or(5);
    budget.bytes(text.len().saturating_add(end.len()))?;
    if text.chars().count() <= length.saturating_add(leeway) {
        return Ok(text_value.clone());
    }
    let kept = length.saturating_sub(end.chars().count());
    let kept = text
        .char_indices()
        .nth(kept)
        .map_or(text, |(end, _)| &text[..end]);
    let kept = match arguments.is_true(1, "killwords") {
        true => kept,
        false => kept.rsplit_once(' ').map_or(kept, |(words, _)| words),
    };
    let mut truncated = TextBuilder::new(budget)?;
    truncated.push(kept)?;
    truncated.push(end)?;
    Ok(truncated.finish())
}

fn wordwrap(budget: &Rc<Budget>, value: &Value, arguments: &Arguments) -> Result<Value, Failure> {
    arguments.allow(&[
        "width",
        "break_long_words",
        "wrapstring",
        "break_on_hyphens",
    ])?;
    let text = to_text(budget, value)?;
    let width = arguments.size(0, "width")?.unwrap_or(79).max(1);
    let breaks = arguments
        .get(1, "break_long_words")
        .is_none_or(Value::is_true);
    let end = arguments.text(2, "wrapstring")?.unwrap_or("\n");
    let mut wrapped = TextBuilder::new(budget)?;
    for (place, line) in text.as_str().unwrap_or_default().split('\n').enumerate() {
        if place > 0 {
            wrapped.push(end)?;
        }
        let mut used = 0;
        for word in line.split(is_space).filter(|word| !word.is_empty()) {
            budget.bytes(word.len() + 8)?;
            let length = word.chars().count();
            if used > 0 && used + 1 + length <= width {
                wrapped.push(" ")?;
                used += 1;
            } else if used > 0 {
                wrapped.push(end)?;
                used = 0;
            }
            if !breaks || length <= width {
                wrapped.push(word)?;
                used += length;
                continue;
            }
            for character in word.chars() {
                if used == width {
                    wrapped.push(end)?;
                    used = 0;
                }
                wrapped.push_char(character)?;
                used += 1;
            }
        }
    }
    Ok(wrapped.finish())
}
