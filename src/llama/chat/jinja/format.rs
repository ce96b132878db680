//! `"%5.2f" % value`, `"%s"|format(value)` and `"{:>8}".format(value)`.

use std::rc::Rc;

use super::Failure;
use super::arguments::Arguments;
use super::budget::{Budget, TextBuilder};
use super::text::{to_text, write_repr};
use super::value::Value;

/// How one value is to be written.
struct Specification {
    fill: char,
    /// `<`, `>`, `^` or `=`, or what the value has by itself.
    align: Option<char>,
    /// `+` or a space before what is not negative.
    sign: Option<char>,
    width: usize,
    precision: Option<usize>,
    kind: Option<char>,
    /// `,` or `_` between thousands.
    separator: Option<char>,
}

/// Digits of a fraction at most: a float has no more that are not zero.
const MOST_DIGITS: usize = 1100;

/// printf's formats, of a tuple's values or of one.
pub fn percent(budget: &Rc<Budget>, format: &str, values: &Value) -> Result<Value, Failure> {
    let one = std::slice::from_ref(values);
    let mut rest = match values {
        Value::List(list) if list.tuple => list.items.iter(),
        _ => one.iter(),
    };
    let mut text = TextBuilder::new(budget)?;
    let mut behind = format;
    while let Some(place) = behind.find('%') {
        text.push(&behind[..place])?;
        behind = &behind[place + 1..];
        if let Some(rest) = behind.strip_prefix('%') {
            text.push("%")?;
            behind = rest;
            continue;
        }
        let mut value = None;
        if let Some(named) = behind.strip_prefix('(') {
            let Some((name, rest)) = named.split_once(')') else {
                return Err(Failure::fault("a format has no end"));
            };
            behind = rest;
            let Value::Map(map) = values else {
                return Err(Failure::fault("a format with names takes a mapping"));
            };
            value = map.get_str(budget, name)?;
        }
        let mut wanted = Specification {
            fill: ' ',
            align: Some('>'),
            sign: None,
            width: 0,
            precision: None,
            kind: None,
            separator: None,
        };
        while let Some(flag @ ('-' | '+' | ' ' | '0' | '#')) = behind.chars().next() {
            match flag {
                '-' => wanted.align = Some('<'),
                '0' if wanted.align != Some('<') => (wanted.fill, wanted.align) = ('0', Some('=')),
                '+' | ' ' => wanted.sign = Some(flag),
                _ => {}
            }
            behind = &behind[1..];
        }
        wanted.width = number(&mut behind).unwrap_or(0);
        if let Some(rest) = behind.strip_prefix('.') {
            behind = rest;
            wanted.precision = Some(number(&mut behind).unwrap_or(0));
        }
        let Some(kind) = behind.chars().next() else {
            return Err(Failure::fault("a format has no end"));
        };
        behind = &behind[kind.len_utf8()..];
        let Some(value) = value.or_else(|| rest.next()) else {
            return Err(Failure::fault("a format has too few values"));
        };
        wanted.kind = Some(kind);
        match kind {
            's' => write(&mut text, budget, &to_text(budget, value)?, &wanted)?,
            'r' | 'a' => {
                let mut repr = TextBuilder::new(budget)?;
                write_repr(&mut repr, budget, value)?;
                wanted.kind = Some('s');
                write(&mut text, budget, &repr.finish(), &wanted)?;
            }
            'i' | 'u' | 'd' => {
                wanted.kind = Some('d');
                let whole = match value {
                    Value::Float(number) => Value::Int(*number as i64),
                    _ => value.clone(),
                };
                write(&mut text, budget, &whole, &wanted)?;
            }
            _ => write(&mut text, budget, value, &wanted)?,
        }
    }
    text.push(behind)?;
    Ok(text.finish())
}

/// `str.format`
pub fn braces(budget: &Rc<Budget>, format: &str, arguments: &Arguments) -> Result<Value, Failure> {
    let mut text = TextBuilder::new(budget)?;
    let mut behind = format;
    let mut next = 0;
    while let Some(place) = behind.find(['{', '}']) {
        text.push(&behind[..place])?;
        let brace = &behind[place..place + 1];
        behind = &behind[place + 1..];
        if let Some(rest) = behind.strip_prefix(brace) {
            text.push(brace)?;
            behind = rest;
            continue;
        }
        let Some((field, rest)) = behind.split_once('}').filter(|_| brace == "{") else {
            return Err(Failure::fault("a brace of a format has no other"));
        };
        behind = rest;
        let (field, specification) = field.split_once(':').unwrap_or((field, ""));
        let (name, conversion) = field.split_once('!').unwrap_or((field, ""));
        let value = match name.parse::<usize>() {
            Ok(place) => arguments.positional.get(place),
            Err(_) if name.is_empty() => {
                next += 1;
                arguments.positional.get(next - 1)
            }
            Err(_) => arguments.named(budget, name)?,
        };
        let Some(value) = value else {
            return Err(Failure::fault("a format has too few values"));
        };
        let value = match conversion {
            "r" => {
                let mut repr = TextBuilder::new(budget)?;
                write_repr(&mut repr, budget, value)?;
                repr.finish()
            }
            "s" => to_text(budget, value)?,
            _ => value.clone(),
        };
        write(&mut text, budget, &value, &specified(specification)?)?;
    }
    text.push(behind)?;
    Ok(text.finish())
}

/// `[[fill]align][sign][0][width][,][.precision][type]`
fn specified(mut text: &str) -> Result<Specification, Failure> {
    let mut wanted = Specification {
        fill: ' ',
        align: None,
        sign: None,
        width: 0,
        precision: None,
        kind: None,
        separator: None,
    };
    let mut characters = text.chars();
    let (first, second) = (characters.next(), characters.next());
    let is_align =
        |character: Option<char>| character.filter(|c| matches!(c, '<' | '>' | '^' | '='));
    if let (Some(fill), Some(align)) = (first, is_align(second)) {
        (wanted.fill, wanted.align) = (fill, Some(align));
        text = &text[fill.len_utf8() + 1..];
    } else if let Some(align) = is_align(first) {
        wanted.align = Some(align);
        text = &text[1..];
    }
    if let Some(sign @ ('+' | '-' | ' ')) = text.chars().next() {
        wanted.sign = Some(sign).filter(|sign| *sign != '-');
        text = &text[1..];
    }
    if let Some(rest) = text.strip_prefix('0') {
        if wanted.align.is_none() {
            (wanted.fill, wanted.align) = ('0', Some('='));
        }
        text = rest;
    }
    wanted.width = number(&mut text).unwrap_or(0);
    if let Some(separator @ (',' | '_')) = text.chars().next() {
        wanted.separator = Some(separator);
        text = &text[1..];
    }
    if let Some(rest) = text.strip_prefix('.') {
        text = rest;
        wanted.precision = Some(number(&mut text).unwrap_or(0));
    }
    let mut characters = text.chars();
    wanted.kind = characters.next();
    match characters.next() {
        Some(_) => Err(Failure::fault("a format cannot be read")),
        None => Ok(wanted),
    }
}

fn number(text: &mut &str) -> Option<usize> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = text.split_at(digits);
    *text = rest;
    // One that is too large for a number is too large for memory, too.
    (digits > 0).then(|| number.parse().unwrap_or(usize::MAX))
}

fn write(
    text: &mut TextBuilder,
    budget: &Rc<Budget>,
    value: &Value,
    wanted: &Specification,
) -> Result<(), Failure> {
    let kind = wanted.kind;
    let wrong = || {
        let kind = kind.unwrap_or('s');
        Failure::fault(format!("a format of {kind:?} cannot take {}", value.kind()))
    };
    let digits = || wanted.precision.unwrap_or(6).min(MOST_DIGITS);
    let (negative, body) = match (kind, value) {
        (None | Some('d' | 'n'), Value::Int(number)) => {
            (*number < 0, number.unsigned_abs().to_string())
        }
        (Some('d'), Value::Bool(value)) => (false, u8::from(*value).to_string()),
        (Some(kind @ ('x' | 'X' | 'o' | 'b')), _) => {
            let number = value.as_int().ok_or_else(wrong)?;
            let absolute = number.unsigned_abs();
            let body = match kind {
                'x' => format!("{absolute:x}"),
                'X' => format!("{absolute:X}"),
                'o' => format!("{absolute:o}"),
                _ => format!("{absolute:b}"),
            };
            (number < 0, body)
        }
        (Some(kind @ ('f' | 'F' | '%')), _) => {
            let number = value.as_float().ok_or_else(wrong)?;
            let scale = if kind == '%' { 100.0 } else { 1.0 };
            let mut body = format!("{:.*}", digits(), number.abs() * scale);
            if kind == '%' {
                body.push('%');
            }
            (number.is_sign_negative(), body.to_lowercase())
        }
        (Some(kind @ ('e' | 'E')), _) => {
            let number = value.as_float().ok_or_else(wrong)?;
            let body = exponent(format!("{:.*e}", digits(), number.abs()));
            (
                number.is_sign_negative(),
                if kind == 'E' {
                    body.to_uppercase()
                } else {
                    body
                },
            )
        }
        (Some('g' | 'G'), _) | (None, Value::Float(_)) => {
            let number = value.as_float().ok_or_else(wrong)?;
            let body = match (kind, wanted.precision) {
                (None, None) => super::text::float(number.abs()),
                (_, precision) => {
                    general(number.abs(), precision.unwrap_or(6).clamp(1, MOST_DIGITS))
                }
            };
            (number.is_sign_negative(), body)
        }
        (Some('c'), _) => {
            let code = value.as_int().and_then(|code| u32::try_from(code).ok());
            (
                false,
                code.and_then(char::from_u32).ok_or_else(wrong)?.to_string(),
            )
        }
        (None | Some('s'), Value::Text(_)) => return write_text(text, budget, value, wanted),
        (None, _) => return write_text(text, budget, &to_text(budget, value)?, wanted),
        _ => return Err(wrong()),
    };
    let sign = if negative { Some('-') } else { wanted.sign };
    let body = match wanted.separator {
        Some(separator) => separated(&body, separator),
        None => body,
    };
    let length = body.len() + sign.iter().count();
    let padding = wanted.width.saturating_sub(length);
    let (before, inside, behind) = match wanted.align {
        Some('<') => (0, 0, padding),
        Some('^') => (padding / 2, 0, padding - padding / 2),
        Some('=') => (0, padding, 0),
        _ => (padding, 0, 0),
    };
    let fill = wanted.fill.to_string();
    text.repeat(&fill, before)?;
    text.push(&sign.map(String::from).unwrap_or_default())?;
    text.repeat(&fill, inside)?;
    text.push(&body)?;
    text.repeat(&fill, behind)
}

fn write_text(
    text: &mut TextBuilder,
    budget: &Rc<Budget>,
    value: &Value,
    wanted: &Specification,
) -> Result<(), Failure> {
    let mut body = value.as_str().unwrap_or_default();
    budget.bytes(body.len())?;
    if let Some(precision) = wanted.precision
        && let Some((end, _)) = body.char_indices().nth(precision)
    {
        body = &body[..end];
    }
    let padding = wanted.width.saturating_sub(body.chars().count());
    let before = match wanted.align {
        Some('>' | '=') => padding,
        Some('^') => padding / 2,
        _ => 0,
    };
    // Zeros are for numbers.
    let fill = if wanted.align == Some('=') {
        ' '
    } else {
        wanted.fill
    }
    .to_string();
    text.repeat(&fill, before)?;
    text.push(body)?;
    text.repeat(&fill, padding - before)
}

/// Python writes two digits of an exponent at least, and its sign.
fn exponent(scientific: String) -> String {
    match scientific.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = match exponent.strip_prefix('-') {
                Some(exponent) => ('-', exponent),
                None => ('+', exponent),
            };
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => scientific,
    }
}

/// `%g`: this many digits, without zeros at the end.
fn general(number: f64, precision: usize) -> String {
    let scientific = format!("{:.*e}", precision - 1, number);
    let Some((digits, power)) = scientific.split_once('e') else {
        return scientific.to_lowercase();
    };
    let power: i64 = power.parse().unwrap_or(0);
    let short = |digits: &str| match digits.contains('.') {
        true => digits
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_owned(),
        false => digits.to_owned(),
    };
    if power < -4 || power >= precision as i64 {
        return exponent(format!("{}e{power}", short(digits)));
    }
    let decimals = (precision as i64 - 1 - power).max(0) as usize;
    short(&format!("{number:.decimals$}"))
}

fn separated(body: &str, separator: char) -> String {
    let digits = body.bytes().take_while(u8::is_ascii_digit).count();
    let mut text = String::new();
    for (place, digit) in body[..digits].chars().enumerate() {
        if place > 0 && (digits - place) % 3 == 0 {
            text.push(separator);
        }
        text.push(digit);
    }
    text + &body[digits..]
}
