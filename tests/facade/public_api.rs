//! What other crates declare stays out of what this one promises.

use std::fs;
use std::path::{Path, PathBuf};

/// The facade's sources. The backend and bindgen's output are not public.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the crate") {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        match path.is_dir() {
            true if ["backend", "bin", "ffi", "msl", "stress"].contains(&name.as_str()) => (),
            true => sources(&path, found),
            false if name == "ffi.rs" => (),
            false => found.push(path),
        }
    }
}

/// Public signatures and fields, and heads of implementations, of a source.
fn public_items(source: &str) -> Vec<String> {
    let lines: Vec<&str> = source
        .lines()
        .map(str::trim)
        .take_while(|line| *line != "#[cfg(test)]")
        .collect();
    let starts = |line: &str| {
        ["pub ", "impl", "unsafe impl"]
            .iter()
            .any(|head| line.starts_with(head))
    };
    let item = |(index, line): (usize, &&str)| {
        let is_field = line.ends_with(',');
        let goes_on = |line: &&&str| !is_field && !line.ends_with(['{', ';', '}']);
        let length = 1 + lines[index..].iter().take_while(goes_on).count();
        lines[index..]
            .iter()
            .take(length)
            .copied()
            .collect::<Vec<_>>()
            .join(" ")
    };
    let all = lines.iter().enumerate().filter(|(_, line)| starts(line));
    all.map(item).collect()
}

#[test]
fn no_type_of_bindgen_or_of_a_private_dependency_is_public() {
    let mut files = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut files,
    );
    // What C calls has C's types. Rust programs do not see it: its module is private.
    let c_functions = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/capi");
    let library = fs::read_to_string(c_functions.with_file_name("lib.rs")).expect("a source");
    assert!(library.contains("\nmod capi;\n"));
    files.retain(|file| !file.starts_with(&c_functions));
    let mut count = 0;
    for file in files {
        let source = fs::read_to_string(&file).expect("a source");
        for item in public_items(&source) {
            count += 1;
            // A constant's value may come from anywhere, and so may a field that is not public itself.
            let item = item.split(" = ").next().expect("a part");
            let hides = item.starts_with("pub struct") && !item.contains("(pub ");
            let is_public = item.starts_with("pub ") && !hides;
            for foreign in ["memmap2::", "libc::", "once_cell::"] {
                let implements = item.contains(&format!("for {foreign}"));
                assert!(
                    !(implements || is_public && item.contains(foreign)),
                    "{}: {item}",
                    file.display()
                );
            }
            // An `impl` may name a handle's type: `Handle` is private. `pub` items may not.
            assert!(
                !(is_public && item.contains("ffi::")),
                "{}: {item}",
                file.display()
            );
        }
    }
    assert!(count > 500, "{count}");
}
