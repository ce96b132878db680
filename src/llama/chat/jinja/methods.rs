//! Python's methods that templates call on strings, lists and mappings. None of them changes its receiver.

use std::rc::Rc;

use super::Failure;
use super::arguments::Arguments;
use super::budget::{Budget, TextBuilder};
use super::evaluator::Evaluator;
use super::format::braces;
use super::operators::equals;
use super::text::is_space;
use super::value::{List, ListBuilder, Map, Value};
use crate::llama::quote::quoted;

fn missing(value: &Value, name: &str) -> Failure {
    Failure::fault(format!("{} has no method {}", value.kind(), quoted(name)))
}

pub fn of_list(
    budget: &Rc<Budget>,
    value: &Value,
    list: &List,
    name: &str,
    arguments: &Arguments,
) -> Result<Value, Failure> {
    match name {
        "count" | "index" => {
            arguments.allow(&["value"])?;
            let wanted = arguments.require(0, "value")?;
            let mut count = 0;
            for (place, item) in list.items.iter().enumerate() {
                if equals(budget, item, wanted)? {
                    if name == "index" {
                        return Ok(Value::Int(place as i64));
                    }
                    count += 1;
                }
            }
            match name {
                "index" => Err(Failure::fault("the value is not in the list")),
                _ => Ok(Value::Int(count)),
            }
        }
        "copy" => Ok(value.clone()),
        // transformers' sandbox refuses them as well.
        "append" | "clear" | "extend" | "insert" | "pop" | "remove" | "reverse" | "sort" => {
            Err(Failure::fault(format!("{name} would change a list")))
        }
        _ => Err(missing(value, name)),
    }
}

/// None where the mapping has no such method.
pub fn of_map(
    budget: &Rc<Budget>,
    value: &Value,
    map: &Rc<Map>,
    name: &str,
    arguments: &Arguments,
) -> Result<Option<Value>, Failure> {
    Ok(Some(match name {
        "get" => {
            arguments.allow(&["key", "default"])?;
            match map.get(budget, arguments.require(0, "key")?)? {
                Some(found) => found.clone(),
                None => arguments.get(1, "default").cloned().unwrap_or(Value::None),
            }
        }
        "items" => items(budget, map)?,
        "keys" | "values" => {
            let mut list = ListBuilder::new(budget)?;
            for (key, value) in &map.entries {
                budget.bytes(size_of::<Value>())?;
                list.push(if name == "keys" { key } else { value }.clone())?;
            }
            list.finish(budget)?
        }
        "copy" => value.clone(),
        "clear" | "pop" | "popitem" | "setdefault" | "update" => {
            return Err(Failure::fault(format!("{name} would change a mapping")));
        }
        _ => return Ok(None),
    }))
}

pub fn items(budget: &Rc<Budget>, map: &Rc<Map>) -> Result<Value, Failure> {
    let mut list = ListBuilder::new(budget)?;
    for (key, value) in &map.entries {
        budget.steps(1)?;
        let mut pair = ListBuilder::new(budget)?;
        pair.push(key.clone())?;
        pair.push(value.clone())?;
        list.push(pair.finish_tuple(budget)?)?;
    }
    list.finish(budget)
}

pub fn of_text(
    evaluator: &Evaluator,
    value: &Value,
    name: &str,
    arguments: &Arguments,
) -> Result<Value, Failure> {
    let budget = &evaluator.budget;
    let text = value.as_str().unwrap_or_default();
    // Each reads its receiver.
    budget.bytes(text.len())?;
    let all = |holds: fn(char) -> bool| Value::Bool(!text.is_empty() && text.chars().all(holds));
    Ok(match name {
        "strip" | "lstrip" | "rstrip" => {
            arguments.allow(&["chars"])?;
            strip(
                budget,
                text,
                arguments.text(0, "chars")?,
                name != "rstrip",
                name != "lstrip",
            )?
        }
        "split" | "rsplit" => split(budget, text, arguments, name == "rsplit")?,
        "splitlines" => {
            let mut list = ListBuilder::new(budget)?;
            for line in lines(text, arguments.is_true(0, "keepends")) {
                list.push(budget.text(line)?)?;
            }
            list.finish(budget)?
        }
        "startswith" | "endswith" => {
            let starts = name == "startswith";
            let one = |affix: &Value| match affix.as_str() {
                Some(affix) if starts => Ok(text.starts_with(affix)),
                Some(affix) => Ok(text.ends_with(affix)),
                None => Err(Failure::fault(format!(
                    "{name} takes a string, not {}",
                    affix.kind()
                ))),
            };
            match arguments.require(0, "prefix")? {
                Value::List(affixes) => {
                    let mut holds = false;
                    for affix in &affixes.items {
                        budget.bytes(affix.as_str().map_or(1, str::len))?;
                        holds |= one(affix)?;
                    }
                    Value::Bool(holds)
                }
                affix => Value::Bool(one(affix)?),
            }
        }
        "replace" => {
            arguments.allow(&["old", "new", "count"])?;
            replace(budget, text, arguments)?
        }
        "removeprefix" => {
            let prefix = arguments.require_text(0, "prefix")?;
            budget.text(text.strip_prefix(prefix).unwrap_or(text))?
        }
        "removesuffix" => {
            let suffix = arguments.require_text(0, "suffix")?;
            budget.text(text.strip_suffix(suffix).unwrap_or(text))?
        }
        "partition" | "rpartition" => {
            let separator = separator(arguments)?;
            let found = match name {
                "partition" => text.split_once(separator),
                _ => text.rsplit_once(separator),
            };
            let parts = match (found, name) {
                (Some((before, behind)), _) => [before, separator, behind],
                (None, "partition") => [text, "", ""],
                (None, _) => ["", "", text],
            };
            let mut list = ListBuilder::new(budget)?;
            for part in parts {
                list.push(budget.text(part)?)?;
            }
            list.finish_tuple(budget)?
        }
        "find" | "rfind" | "index" | "rindex" => {
            let wanted = arguments.require_text(0, "sub")?;
            arguments.allow(&["sub"])?;
            let found = match name {
                "find" | "index" => text.find(wanted),
                _ => text.rfind(wanted),
            };
            match found {
                Some(place) => Value::Int(text[..place].chars().count() as i64),
                None if name.ends_with("find") => Value::Int(-1),
                None => return Err(Failure::fault("the substring is not there")),
            }
        }
        "count" => {
            arguments.allow(&["sub"])?;
            Value::Int(text.matches(arguments.require_text(0, "sub")?).count() as i64)
        }
        "join" => {
            arguments.allow(&["iterable"])?;
            join(
                budget,
                text,
                &*evaluator.iterate(arguments.require(0, "iterable")?)?,
            )?
        }
        "format" => braces(budget, text, arguments)?,
        "lower" | "casefold" => lowercase(budget, text)?,
        "upper" => mapped(budget, text, |character, _| {
            character.to_uppercase().collect::<Vec<_>>()
        })?,
        "swapcase" => mapped(budget, text, |character, _| {
            match character.is_uppercase() {
                true => character.to_lowercase().collect::<Vec<_>>(),
                false => character.to_uppercase().collect(),
            }
        })?,
        "capitalize" => mapped(budget, text, |character, before| match before {
            None => character.to_uppercase().collect::<Vec<_>>(),
            Some(_) => character.to_lowercase().collect(),
        })?,
        "title" => mapped(budget, text, |character, before| {
            match before.is_some_and(char::is_alphabetic) {
                false => character.to_uppercase().collect::<Vec<_>>(),
                true => character.to_lowercase().collect(),
            }
        })?,
        "isdigit" | "isdecimal" | "isnumeric" => all(|c| c.is_numeric()),
        "isalpha" => all(char::is_alphabetic),
        "isalnum" => all(char::is_alphanumeric),
        "isspace" => all(is_space),
        "isascii" => Value::Bool(text.is_ascii()),
        "isupper" => Value::Bool(
            text.chars().any(char::is_uppercase) && !text.chars().any(char::is_lowercase),
        ),
        "islower" => Value::Bool(
            text.chars().any(char::is_lowercase) && !text.chars().any(char::is_uppercase),
        ),
        "center" | "ljust" | "rjust" => {
            arguments.allow(&["width", "fillchar"])?;
            let width = arguments.size(0, "width")?.unwrap_or(0);
            let padding = width.saturating_sub(text.chars().count());
            let fill = arguments.text(1, "fillchar")?.unwrap_or(" ");
            let before = match name {
                // As CPython has it.
                "center" => padding / 2 + (padding & width & 1),
                "rjust" => padding,
                _ => 0,
            };
            let mut padded = TextBuilder::new(budget)?;
            padded.repeat(fill, before)?;
            padded.push(text)?;
            padded.repeat(fill, padding - before)?;
            padded.finish()
        }
        "zfill" => {
            let padding = arguments
                .size(0, "width")?
                .unwrap_or(0)
                .saturating_sub(text.chars().count());
            let (sign, digits) = match text.strip_prefix(['-', '+']) {
                Some(digits) => text.split_at(text.len() - digits.len()),
                None => ("", text),
            };
            let mut padded = TextBuilder::new(budget)?;
            padded.push(sign)?;
            padded.repeat("0", padding)?;
            padded.push(digits)?;
            padded.finish()
        }
        _ => return Err(missing(value, name)),
    })
}

pub fn mapped(
    budget: &Rc<Budget>,
    text: &str,
    map: impl Fn(char, Option<char>) -> Vec<char>,
) -> Result<Value, Failure> {
    let mut changed = TextBuilder::new(budget)?;
    let mut before = None;
    for character in text.chars() {
        budget.bytes(32)?;
        for other in map(character, before) {
            changed.push_char(other)?;
        }
        before = Some(character);
    }
    Ok(changed.finish())
}

pub fn lowercase(budget: &Rc<Budget>, text: &str) -> Result<Value, Failure> {
    let mut lower = TextBuilder::new(budget)?;
    for character in text.chars() {
        for other in character.to_lowercase() {
            lower.push_char(other)?;
        }
    }
    Ok(lower.finish())
}

/// `separator.join(items)`
pub fn join(budget: &Rc<Budget>, separator: &str, items: &List) -> Result<Value, Failure> {
    let mut text = TextBuilder::new(budget)?;
    for (place, item) in items.items.iter().enumerate() {
        budget.bytes(8)?;
        if place > 0 {
            text.push(separator)?;
        }
        super::text::write_str(&mut text, budget, item)?;
    }
    Ok(text.finish())
}

pub fn strip(
    budget: &Rc<Budget>,
    text: &str,
    characters: Option<&str>,
    start: bool,
    end: bool,
) -> Result<Value, Failure> {
    budget.bytes(text.len())?;
    let mut rest = text;
    match characters {
        None => {
            rest = if start {
                rest.trim_start_matches(is_space)
            } else {
                rest
            };
            rest = if end {
                rest.trim_end_matches(is_space)
            } else {
                rest
            };
        }
        Some(characters) => {
            // Each of the text's is looked for among these.
            budget.bytes(rest.len().saturating_mul(characters.len() / 16 + 1))?;
            let among = |character| characters.contains(character);
            rest = if start {
                rest.trim_start_matches(among)
            } else {
                rest
            };
            rest = if end {
                rest.trim_end_matches(among)
            } else {
                rest
            };
        }
    }
    budget.text(rest)
}

fn separator(arguments: &Arguments) -> Result<&str, Failure> {
    match arguments.require_text(0, "sep")? {
        "" => Err(Failure::fault("a separator is empty")),
        separator => Ok(separator),
    }
}

fn split(
    budget: &Rc<Budget>,
    text: &str,
    arguments: &Arguments,
    from_end: bool,
) -> Result<Value, Failure> {
    arguments.allow(&["sep", "maxsplit"])?;
    let most = arguments
        .int(1, "maxsplit")?
        .and_then(|most| usize::try_from(most).ok());
    let mut list = ListBuilder::new(budget)?;
    let mut reversed = Vec::new();
    if arguments.text(0, "sep")?.is_some() {
        let separator = separator(arguments)?;
        let pieces = most.map_or(usize::MAX, |most| most.saturating_add(1));
        if from_end && most.is_some() {
            for piece in text.rsplitn(pieces, separator) {
                reversed.push(budget.text(piece)?);
            }
        } else {
            for piece in text.splitn(pieces, separator) {
                list.push(budget.text(piece)?)?;
            }
        }
    } else {
        // White space, of which any amount is one separator.
        let mut rest = match from_end {
            true => text.trim_end_matches(is_space),
            false => text.trim_start_matches(is_space),
        };
        let mut left = most.unwrap_or(usize::MAX);
        while !rest.is_empty() {
            let place = match from_end {
                _ if left == 0 => None,
                true => rest.rfind(is_space),
                false => rest.find(is_space),
            };
            let piece = match (place, from_end) {
                (None, _) => std::mem::take(&mut rest),
                (Some(place), false) => {
                    let piece = &rest[..place];
                    rest = rest[place..].trim_start_matches(is_space);
                    piece
                }
                (Some(place), true) => {
                    let width = rest[place..].chars().next().map_or(0, char::len_utf8);
                    let piece = &rest[place + width..];
                    rest = rest[..place].trim_end_matches(is_space);
                    piece
                }
            };
            left = left.saturating_sub(1);
            match from_end {
                true => reversed.push(budget.text(piece)?),
                false => list.push(budget.text(piece)?)?,
            }
        }
    }
    for piece in reversed.into_iter().rev() {
        list.push(piece)?;
    }
    list.finish(budget)
}

/// `str.splitlines`
fn lines(text: &str, ends: bool) -> impl Iterator<Item = &str> {
    let is_end = |c: char| {
        matches!(
            c,
            '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (line, end) = match rest.find(is_end) {
            Some(place) if rest[place..].starts_with("\r\n") => (place, place + 2),
            Some(place) => (
                place,
                place + rest[place..].chars().next().map_or(0, char::len_utf8),
            ),
            None => (rest.len(), rest.len()),
        };
        let found = &rest[..if ends { end } else { line }];
        rest = &rest[end..];
        Some(found)
    })
}

pub fn replace(budget: &Rc<Budget>, text: &str, arguments: &Arguments) -> Result<Value, Failure> {
    let old = arguments.require(0, "old")?;
    let old = super::text::to_text(budget, old)?;
    let new = super::text::to_text(budget, arguments.require(1, "new")?)?;
    let (old, new) = (
        old.as_str().unwrap_or_default(),
        new.as_str().unwrap_or_default(),
    );
    let most = arguments
        .int(2, "count")?
        .and_then(|most| usize::try_from(most).ok());
    let mut replaced = TextBuilder::new(budget)?;
    let mut end = 0;
    for (place, _) in text.match_indices(old).take(most.unwrap_or(usize::MAX)) {
        budget.bytes(8)?;
        replaced.push(&text[end..place])?;
        replaced.push(new)?;
        end = place + old.len();
    }
    replaced.push(&text[end..])?;
    Ok(replaced.finish())
}
