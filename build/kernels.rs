//! Embeds the Metal sources as C strings. Metal compiles them from text at run time, where there is no include path, so
//! each header of the folder is pasted in place of its `#include`.

use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = "native/kernels";

/// A part of a source: lines of its own, or all of a header.
enum Part {
    Own(String),
    Header(String),
}

/// Writes `kernel_sources.c`, which defines what `native/kernels/sources.h` declares, and returns its path.
pub fn embed(out: &Path) -> Result<PathBuf, String> {
    let mut code = String::from("#include \"sources.h\"\n");
    let mut table = String::new();
    let mut headers = Vec::new();
    let families = families()?;
    for path in &families {
        let (name, parts) = parts(path)?;
        let mut own = 0;
        let mut list = String::new();
        for part in &parts {
            let array = match part {
                Part::Own(text) => {
                    let array = format!("{name}_{own}");
                    own += 1;
                    code += &definition(&array, text);
                    array
                }
                Part::Header(header) => {
                    let known = headers.iter().position(|other| other == header);
                    let number = known.unwrap_or(headers.len());
                    let array = format!("header_{number}");
                    if known.is_none() {
                        code += &definition(&array, &read(&Path::new(FOLDER).join(header))?);
                        headers.push(header.clone());
                    }
                    array
                }
            };
            list += &format!("{{{array}, sizeof {array}}}, ");
        }
        code += &format!("static const kernel_text {name}[] = {{{list}}};\n");
        table += &format!("  {{\"{name}\", {name}, {}}},\n", parts.len());
    }
    let end = "  {0, 0, 0}, /* an array of no entries is not C */\n";
    code += &format!(
        "const kernel_source kernel_sources[] = {{\n{table}{end}}};\nconst size_t kernel_source_count = {};\n",
        families.len()
    );
    let path = out.join("kernel_sources.c");
    fs::write(&path, code).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// An array and not a literal: C11 promises only 4095 characters for the latter.
fn definition(name: &str, text: &str) -> String {
    format!("static const char {name}[] = {{{}}};\n", bytes(text))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The sources of the kernel families, in a stable order.
pub fn families() -> Result<Vec<PathBuf>, String> {
    let mut families: Vec<PathBuf> = fs::read_dir(FOLDER)
        .map_err(|error| format!("{FOLDER}: {error}"))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "metal"))
        .collect();
    families.sort();
    Ok(families)
}

/// A family's name, and its text with the headers pasted in.
#[cfg(all(feature = "nvidia", target_os = "linux"))]
pub fn source(path: &Path) -> Result<(String, String), String> {
    let (name, parts) = parts(path)?;
    let mut text = String::new();
    for part in parts {
        text += &match part {
            Part::Own(lines) => lines,
            Part::Header(header) => read(&Path::new(FOLDER).join(header))?,
        };
    }
    Ok((name, text))
}

/// A family's name, and what its text is made of.
fn parts(path: &Path) -> Result<(String, Vec<Part>), String> {
    let name = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .ok_or_else(|| {
            format!(
                "{}: the name of a kernel family must be UTF-8",
                path.display()
            )
        })?;
    let mut parts = Vec::new();
    let mut own = String::new();
    for (index, line) in read(path)?.lines().enumerate() {
        match included(line) {
            Some(header) => {
                if !own.is_empty() {
                    parts.push(Part::Own(std::mem::take(&mut own)));
                }
                parts.push(Part::Header(header.into()));
                // Keeps compiler messages on the lines of the file.
                own = format!("\n#line {} \"{name}.metal\"\n", index + 2);
            }
            None => own += &format!("{line}\n"),
        }
    }
    parts.push(Part::Own(own));
    Ok((String::from(name), parts))
}

/// The header of this folder that a line includes.
fn included(line: &str) -> Option<&str> {
    line.trim().strip_prefix("#include \"")?.strip_suffix('"')
}

fn bytes(text: &str) -> String {
    // Plain `char` may be signed: a byte above 127 is written as the negative number it stands for.
    text.bytes()
        .map(|byte| format!("{},", byte as i8))
        .collect()
}
