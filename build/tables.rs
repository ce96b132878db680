//! Makes Rust of the tables in `native/kernels/*.def`: macros that call another macro with the rows. `src/tables.rs`
//! includes what this writes to OUT_DIR.

use std::fmt::Write;
use std::fs;
use std::path::Path;

const DTYPES: &str = "native/kernels/dtypes.def";
const OPS: &str = "native/kernels/ops.def";

/// Writes `tables.rs`.
pub fn write(out: &Path) -> Result<(), String> {
    let code = dtypes()? + &operations()?;
    let path = out.join("tables.rs");
    fs::write(&path, code).map_err(|error| format!("{}: {error}", path.display()))
}

/// A macro that calls another one with rows. `user`: the feature whose code uses it, where that is not every build.
fn list(name: &str, of: &str, rows: &str, user: Option<&str>) -> String {
    let condition = user.map_or(String::new(), |feature| {
        format!("#[cfg(feature = \"{feature}\")]\n")
    });
    format!(
        "/// Calls a macro with the rows of `{of}`.\n{condition}\
         macro_rules! {name} {{\n    ($with:ident) => {{ $with! {{\n{rows}    }} }};\n}}\n\
         {condition}pub(crate) use {name};\n"
    )
}

fn dtypes() -> Result<String, String> {
    let text = fs::read_to_string(DTYPES).map_err(|error| format!("{DTYPES}: {error}"))?;
    let rows = (1..)
        .zip(text.lines())
        .filter_map(|(number, line)| {
            DType::parse(line)
                .map_err(|error| format!("{DTYPES}:{number}: {error}"))
                .transpose()
        })
        .collect::<Result<Vec<DType>, String>>()?;
    let mut code = String::new();
    for (name, what, holds, user) in LISTS {
        let rows = rows.iter().filter(|row| holds(row)).map(DType::tokens);
        let rows: String = rows.collect();
        code += &list(name, &format!("{DTYPES} {what}"), &rows, user);
    }
    Ok(code)
}

/// The rows of `ops.def`, each with its form's.
fn operations() -> Result<String, String> {
    let text = fs::read_to_string(OPS).map_err(|error| format!("{OPS}: {error}"))?;
    let rows = calls(&text).map_err(|error| format!("{OPS}: {error}"))?;
    let mut tokens = String::new();
    for (called, cells) in &rows {
        let (name, form, kernel) = match (*called, &cells[..]) {
            ("OP", [_, name, form, family, geometry]) => {
                (name, form, format!("{family} {geometry}"))
            }
            ("OP_OF_TYPES", [_, name, form]) => (name, form, String::new()),
            ("FORM", [_, _, _, _, _, _]) => continue,
            _ => return Err(format!("{OPS}: {called} with {} columns", cells.len())),
        };
        let is_form = |(called, cells): &&(&str, Vec<&str>)| *called == "FORM" && cells[0] == *form;
        let Some((_, form_cells)) = rows.iter().find(is_form) else {
            return Err(format!("{OPS}: {name} has the form {form}, which is none"));
        };
        let (argument, values, operands) = (form_cells[1], form_cells[2], form_cells[3]);
        let _ = writeln!(
            tokens,
            "        {name} {{ form {form} {argument}, encoder iron_encode_{name}(iron_{form}), values [{values}], \
             operands [{operands}], kernel [{kernel}] }}"
        );
    }
    Ok(list("operations", OPS, &tokens, Some("software-device")))
}

/// The calls of macros that begin a line: their names and arguments.
fn calls(text: &str) -> Result<Vec<(&str, Vec<&str>)>, String> {
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n') {
        let is_name = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_uppercase() || byte == b'_')
        };
        match line.split_once('(') {
            Some((name, _)) if is_name(name) => {
                let (cells, end) = arguments(&rest[name.len() + 1..])
                    .ok_or_else(|| format!("{name}( has no end"))?;
                calls.push((name, cells));
                rest = end;
            }
            _ => rest = after,
        }
    }
    Ok(calls)
}

/// What stands between the commas up to the closing parenthesis, and what follows that.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let (mut cells, mut start, mut depth) = (Vec::new(), 0, 0);
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' | b',' if depth == 0 => {
                cells.push(text[start..index].trim());
                start = index + 1;
                if byte == b')' {
                    return Some((cells, &text[start..]));
                }
            }
            b')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// A list of rows: its macro, which rows it has, whether a row is one of them, and the feature that uses it.
type List = (
    &'static str,
    &'static str,
    fn(&DType) -> bool,
    Option<&'static str>,
);

const LISTS: [List; 3] = [
    (
        "dtypes",
        "that operations take",
        |row| row.class != "FILE",
        None,
    ),
    (
        "block_dtypes",
        "that are blocks",
        |row| row.class == "BLOCK",
        Some("software-device"),
    ),
    (
        "tensor_types",
        "that files hold",
        |row| row.ggml >= 0,
        Some("llama"),
    ),
];

/// A row of `dtypes.def`, which documents the fields.
struct DType {
    class: String,
    name: String,
    ggml: i32,
    elements: u32,
    bytes: u32,
    alignment: u32,
    scale: String,
    doc: String,
}

impl DType {
    /// `None` of a line that is no row.
    fn parse(line: &str) -> Result<Option<DType>, String> {
        let Some((class, row)) = line
            .strip_prefix("DTYPE_")
            .and_then(|row| row.split_once('('))
        else {
            return Ok(None);
        };
        let (cells, comment) = row.split_once(')').ok_or("a row ends with )")?;
        let cells: Vec<&str> = cells.split(',').map(str::trim).collect();
        let [_, name, lower, ggml, elements, bytes, alignment, scale] = cells[..] else {
            return Err(format!("{} columns, not 8", cells.len()));
        };
        if name.to_lowercase() != lower {
            return Err(format!("{lower} is not {name} in lower case"));
        }
        let comment = comment
            .trim()
            .trim_start_matches("/*")
            .trim_end_matches("*/");
        let number = |cell: &str| cell.parse().map_err(|_| format!("{cell:?} is no number"));
        Ok(Some(DType {
            class: class.to_owned(),
            name: name.to_owned(),
            ggml: ggml.parse().map_err(|_| format!("{ggml:?} is no number"))?,
            elements: number(elements)?,
            bytes: number(bytes)?,
            alignment: number(alignment)?,
            scale: scale.to_owned(),
            doc: match comment.trim() {
                "" => format!("{elements} weights in {bytes} bytes."),
                text => text.to_owned(),
            },
        }))
    }

    /// The name as Rust writes types: `Q4K` of `Q4_K`, `Iq4Nl` of `IQ4_NL`; an underscore stays between digits.
    fn variant(&self) -> String {
        let mut variant = String::new();
        let mut words = self.name.split('_').peekable();
        while let Some(word) = words.next() {
            let (first, rest) = word.split_at(1);
            variant += &(first.to_owned() + &rest.to_lowercase());
            let digits = |text: &str, at: usize| text.as_bytes()[at].is_ascii_digit();
            if let Some(next) = words.peek()
                && digits(word, word.len() - 1)
                && digits(next, 0)
            {
                variant.push('_');
            }
        }
        variant
    }

    fn tokens(&self) -> String {
        let DType {
            name,
            ggml,
            elements,
            bytes,
            alignment,
            scale,
            doc,
            ..
        } = self;
        let (variant, lower) = (self.variant(), name.to_lowercase());
        let mut tokens = String::new();
        let _ = writeln!(
            tokens,
            "        {variant} {{ block Block{variant}, name {lower:?}, constant IRON_{name}, ggml {name} = {ggml}, \
             {elements} in {bytes}, aligned {alignment}, scale {scale}, {doc:?} }}"
        );
        tokens
    }
}
