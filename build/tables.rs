//! Makes Rust of the tables in `native/kernels/*.def`: macros that call another macro with the rows. `src/tables.rs`
//! includes what this writes to OUT_DIR.

use std::fmt::Write;
use std::fs;
use std::path::Path;

const DTYPES: &str = "native/kernels/dtypes.def";

/// Writes `tables.rs`.
pub fn write(out: &Path) -> Result<(), String> {
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
    for (name, what, holds) in LISTS {
        let rows = rows.iter().filter(|row| holds(row)).map(DType::tokens);
        let rows: String = rows.collect();
        code += &format!(
            "/// Calls a macro with the rows of `{DTYPES}` {what}.\n\
             macro_rules! {name} {{\n    ($with:ident) => {{ $with! {{\n{rows}    }} }};\n}}\n\
             pub(crate) use {name};\n"
        );
    }
    let path = out.join("tables.rs");
    fs::write(&path, code).map_err(|error| format!("{}: {error}", path.display()))
}

/// A list of rows: its macro, which rows it has, and whether a row is one of them.
type List = (&'static str, &'static str, fn(&DType) -> bool);

const LISTS: [List; 3] = [
    ("dtypes", "that operations take", |row| row.class != "FILE"),
    ("block_dtypes", "that are blocks", |row| {
        row.class == "BLOCK"
    }),
    ("tensor_types", "that files hold", |row| row.ggml >= 0),
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
