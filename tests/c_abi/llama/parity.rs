//! Every Rust function of `llama` has its C form, or a reason why it has none.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::arguments::declarations;

/// The C functions of a Rust one: `Type::function = functions`.
const FORMS: &str = include_str!("forms.txt");

/// The public functions of `src/llama`: of types that `src/llama.rs` hands out, by the impl block that they stand in.
fn rust_functions() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let exports = fs::read_to_string(root.join("llama.rs")).expect("it can be read");
    let tokenizer = fs::read_to_string(root.join("llama/tokenizer.rs")).expect("it can be read");
    let uses = [&exports, &tokenizer].map(|source| source.split("\npub use ").skip(1));
    let exported: BTreeSet<&str> = uses
        .into_iter()
        .flatten()
        .filter_map(|rest| rest.split(';').next())
        .flat_map(|names| names.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
        .filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
        .collect();
    let mut found = BTreeSet::new();
    let mut folders = vec![root.join("llama")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("it can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "rs") {
                let source = fs::read_to_string(&path).expect("it can be read");
                found.extend(functions(&source, &exported));
            }
        }
    }
    found
}

/// `Type::function` for each public function of an exported type.
fn functions(source: &str, exported: &BTreeSet<&str>) -> Vec<String> {
    let mut found = Vec::new();
    let mut current = None;
    for line in source.lines() {
        if let Some(rest) = line.strip_prefix("impl") {
            let head = rest.rsplit(" for ").next().unwrap_or_default();
            let head = match head.starts_with('<') {
                true => head.split_once("> ").map_or("", |(_, name)| name),
                false => head.trim_start(),
            };
            let name = head.split(['<', ' ', '{']).next().unwrap_or_default();
            current = exported
                .get(name)
                .copied()
                .filter(|_| !rest.contains(" for "));
        } else if line.starts_with('}') {
            current = None;
        } else if let (Some(name), Some(rest)) = (current, line.strip_prefix("    pub ")) {
            let rest = rest.trim_start_matches("const ");
            if let Some(function) = rest.strip_prefix("fn ") {
                let function = function.split(['(', '<']).next().unwrap_or_default();
                found.push(format!("{name}::{function}"));
            }
        } else if let Some(function) = line.strip_prefix("pub fn ")
            && source.contains("pub fn quantize(")
        {
            let function = function.split(['(', '<']).next().unwrap_or_default();
            found.push(function.to_owned());
        }
    }
    found
}

fn forms() -> BTreeMap<&'static str, &'static str> {
    let lines = FORMS
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            line.split_once(" = ")
                .unwrap_or_else(|| panic!("no form: {line}"))
        })
        .collect()
}

#[test]
fn every_rust_function_has_its_c_form() {
    let forms = forms();
    let rust = rust_functions();
    assert!(
        rust.contains("Session::generate_with") && rust.len() > 90,
        "{rust:#?}"
    );
    let listed: BTreeSet<String> = forms.keys().map(|name| name.to_string()).collect();
    let missing: Vec<_> = rust.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&rust).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "tests/c_abi/llama/forms.txt lacks {missing:#?}\nand has what is gone: {gone:#?}"
    );
}

#[test]
fn every_c_function_stands_for_something() {
    let declared: BTreeSet<String> = declarations().into_iter().map(|(name, _)| name).collect();
    let forms = forms();
    let used: BTreeSet<String> = forms
        .values()
        .filter(|forms| !forms.starts_with("none: "))
        .flat_map(|forms| forms.split(' ').map(String::from))
        .collect();
    let unknown: Vec<_> = used.difference(&declared).collect();
    assert!(
        unknown.is_empty(),
        "forms.txt names {unknown:?}, which the header lacks"
    );
    let idle: Vec<_> = declared
        .difference(&used)
        .filter(|name| !name.ends_with("_retain") && !name.ends_with("_release"))
        .collect();
    assert!(idle.is_empty(), "no Rust function has the form {idle:?}");
    for reason in forms
        .values()
        .filter_map(|form| form.strip_prefix("none: "))
    {
        assert!(reason.len() > 10, "{reason}");
    }
}
