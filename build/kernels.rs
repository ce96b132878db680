//! Embeds the Metal sources as C strings. Metal compiles them from text at run time, where there is no include path, so
//! each header of the folder is pasted in place of its `#include`.

use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = "native/kernels";

/// Writes `kernel_sources.c`, which defines what `native/kernels/sources.h` declares, and returns its path.
pub fn embed(out: &Path) -> Result<PathBuf, String> {
    let mut code = String::from("#include \"sources.h\"\n");
    let mut table = String::new();
    let families = families()?;
    for path in &families {
        let (name, text) = source(path)?;
        // An array and not a literal: C11 promises only 4095 characters for the latter.
        code += &format!("static const char {name}[] = {{{}0}};\n", bytes(&text));
        table += &format!("  {{\"{name}\", {name}, sizeof {name} - 1}},\n");
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
pub fn source(path: &Path) -> Result<(String, String), String> {
    let read = |path: &Path| {
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let name = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .ok_or_else(|| {
            format!(
                "{}: the name of a kernel family must be UTF-8",
                path.display()
            )
        })?;
    let mut text = String::new();
    for (index, line) in read(path)?.lines().enumerate() {
        // `#line` keeps compiler messages on the lines of the file.
        text += &match included(line) {
            Some(header) => format!(
                "{}\n#line {} \"{name}.metal\"\n",
                read(&Path::new(FOLDER).join(header))?,
                index + 2
            ),
            None => format!("{line}\n"),
        };
    }
    Ok((String::from(name), text))
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
