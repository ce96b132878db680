//! The table of modules in docs/MODULES.md, held against the imports: an arrow that the table does not allow is an
//! error, and so is a circle of files, unless the table of exceptions there names it. An exception that no import needs
//! is an error, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// One row of the table: the paths that the module owns, and the modules that it may use.
struct Row {
    paths: Vec<String>,
    may_use: BTreeSet<String>,
}

/// What docs/MODULES.md promises.
struct Rules {
    rows: Vec<Row>,
    /// (from, to), files or folders.
    arrows: BTreeSet<(String, String)>,
    /// Files that import each other, or one folder of such.
    circles: BTreeSet<BTreeSet<String>>,
}

/// The texts in backquotes.
fn quoted(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(|name| name.trim_end_matches('/').to_string())
        .collect()
}

impl Rules {
    /// Reads the tables below `<!-- modules -->` and `<!-- exceptions -->`.
    fn parse(design: &str) -> Rules {
        let after = |mark: &str| {
            design
                .split_once(mark)
                .unwrap_or_else(|| panic!("docs/MODULES.md has no {mark}"))
                .1
        };
        let mut rows = Vec::new();
        for line in after("<!-- modules -->").trim_start().lines().skip(2) {
            let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
            let [module, _, may_use] = cells[..] else {
                break;
            };
            rows.push(Row {
                paths: quoted(module),
                may_use: quoted(may_use).into_iter().collect(),
            });
        }
        assert!(!rows.is_empty(), "the table of modules is empty");
        let names: BTreeSet<&str> = rows.iter().map(|row| row.paths[0].as_str()).collect();
        for row in &rows {
            for name in &row.may_use {
                assert!(
                    names.contains(name.as_str()),
                    "`{}` may use `{name}`, which is no row of the table",
                    row.paths[0]
                );
            }
        }
        let (mut arrows, mut circles) = (BTreeSet::new(), BTreeSet::new());
        for line in after("<!-- exceptions -->").trim_start().lines().skip(2) {
            let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
            let [files, reason] = cells[..] else {
                break;
            };
            assert!(
                reason.trim().len() > 10,
                "an exception without a reason: {line}"
            );
            let names = quoted(files);
            if files.contains('→') {
                arrows.insert((names[0].clone(), names[1].clone()));
            } else {
                circles.insert(names.into_iter().collect());
            }
        }
        Rules {
            rows,
            arrows,
            circles,
        }
    }

    /// The row that owns a file: the one with the longest path.
    fn owner(&self, file: &str) -> Option<&Row> {
        let length = |row: &Row| {
            let owns = |path: &&String| is_in(file, path);
            row.paths.iter().filter(owns).map(|path| path.len()).max()
        };
        self.rows
            .iter()
            .filter(|row| length(row).is_some())
            .max_by_key(|row| length(row))
    }

    /// Everything that is wrong with these imports.
    fn violations(&self, imports: &Imports) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut needed = BTreeSet::new();
        for (from, to) in imports.pairs() {
            let (Some(user), Some(used)) = (self.owner(from), self.owner(to)) else {
                wrong.push(format!(
                    "{from} → {to}: no row of the table has one of them"
                ));
                continue;
            };
            if user.paths[0] == used.paths[0] || user.may_use.contains(&used.paths[0]) {
                continue;
            }
            let exception = self
                .arrows
                .iter()
                .find(|(a, b)| is_in(from, a) && is_in(to, b));
            match exception {
                Some(exception) => drop(needed.insert(exception.clone())),
                None => wrong.push(format!(
                    "{from} → {to}: `{}` may not use `{}`",
                    user.paths[0], used.paths[0]
                )),
            }
        }
        for (from, to) in self.arrows.difference(&needed) {
            wrong.push(format!("{from} → {to}: an exception that nothing needs"));
        }
        // An exception names the files of a circle, or one folder, whose files may be in one.
        let excuses = |exception: &BTreeSet<String>, circle: &BTreeSet<String>| {
            let folder = exception.first().filter(|_| exception.len() == 1);
            exception == circle
                || folder.is_some_and(|folder| circle.iter().all(|file| is_in(file, folder)))
        };
        let found = imports.circles();
        for circle in &found {
            if !self.circles.iter().any(|known| excuses(known, circle)) {
                wrong.push(format!("a circle of files: {circle:?}"));
            }
        }
        for known in &self.circles {
            if !found.iter().any(|circle| excuses(known, circle)) {
                wrong.push(format!("an exception for a circle that is none: {known:?}"));
            }
        }
        wrong.extend(self.circle_of_rows());
        wrong
    }

    /// The table itself must be without circles.
    fn circle_of_rows(&self) -> Option<String> {
        let mut graph = Imports::default();
        for row in &self.rows {
            for name in &row.may_use {
                graph.add(&row.paths[0], name);
            }
        }
        let circles = graph.circles();
        (!circles.is_empty()).then(|| format!("modules of the table in circles: {circles:?}"))
    }
}

/// Whether `file` is `path`, in it, or, for a Rust module, its file.
fn is_in(file: &str, path: &str) -> bool {
    let rest = file.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || rest == ".rs" || rest.starts_with('/'))
}

/// Which file imports which.
#[derive(Default)]
struct Imports(BTreeMap<String, BTreeSet<String>>);

impl Imports {
    fn add(&mut self, from: &str, to: &str) {
        if from != to {
            self.0
                .entry(from.to_string())
                .or_default()
                .insert(to.to_string());
        }
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .flat_map(|(from, to)| to.iter().map(move |to| (from.as_str(), to.as_str())))
    }

    fn reachable<'a>(&'a self, from: &'a str) -> BTreeSet<&'a str> {
        let (mut found, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(file) = open.pop() {
            for to in self.0.get(file).into_iter().flatten() {
                if found.insert(to.as_str()) {
                    open.push(to);
                }
            }
        }
        found
    }

    /// Largest sets of files of which each reaches each other one.
    fn circles(&self) -> Vec<BTreeSet<String>> {
        let reachable: BTreeMap<&str, BTreeSet<&str>> = self
            .0
            .keys()
            .map(|file| (file.as_str(), self.reachable(file)))
            .collect();
        let mut circles: Vec<BTreeSet<String>> = Vec::new();
        for (file, others) in &reachable {
            if !others.contains(file) || circles.iter().any(|circle| circle.contains(*file)) {
                continue;
            }
            let mutual = others.iter().filter(|other| {
                reachable
                    .get(*other)
                    .is_some_and(|back| back.contains(file))
            });
            circles.push(mutual.map(|other| other.to_string()).collect());
        }
        circles
    }

    /// Reads every source below `root`.
    fn read(root: &Path) -> Imports {
        let mut imports = Imports::default();
        let mut files = Vec::new();
        for folder in ["include", "native", "src"] {
            list(&root.join(folder), &mut files);
        }
        let files: BTreeMap<String, String> = files
            .into_iter()
            .map(|path| {
                let name = path.strip_prefix(root).expect("below the root");
                let name = name.to_str().expect("UTF-8").replace('\\', "/");
                (name, fs::read_to_string(&path).expect("a readable source"))
            })
            .collect();
        for (file, text) in &files {
            if !file.ends_with(".rs") {
                native(file, text, &files, &mut imports);
            }
        }
        rust(&files, &mut imports);
        imports
    }
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            list(&path, files);
            continue;
        }
        let kind = path.extension().and_then(|kind| kind.to_str());
        if matches!(kind, Some("rs" | "h" | "c" | "m" | "metal" | "def")) {
            files.push(path);
        }
    }
}

/// The folders that build.rs, and the compiler of Metal source for the CPU, put on the path of includes.
const INCLUDES: [&str; 8] = [
    "include",
    "native",
    "native/bridge",
    "native/kernels",
    "native/objects",
    "native/softmetal",
    "native/msl",
    "native/msl/cpu",
];

/// `#include "x"` and `#import "x"`: in the file's own folder, else in the first of [`INCLUDES`] that has it.
fn native(file: &str, text: &str, files: &BTreeMap<String, String>, imports: &mut Imports) {
    let own = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    for line in text.lines() {
        let Some(directive) = line.trim_start().strip_prefix('#') else {
            continue;
        };
        let directive = directive.trim_start();
        let name = ["include", "import"]
            .iter()
            .find_map(|word| directive.strip_prefix(word))
            .and_then(|rest| rest.trim_start().strip_prefix('"'))
            .and_then(|rest| rest.split('"').next());
        let Some(name) = name else {
            continue;
        };
        let places = std::iter::once(own).chain(INCLUDES);
        let found = places
            .map(|folder| joined(folder, name))
            .find(|path| files.contains_key(path))
            .unwrap_or_else(|| panic!("{file} includes {name}, which is nowhere"));
        imports.add(file, &found);
    }
}

/// The path of what a file in `folder` includes as `name`.
fn joined(folder: &str, name: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in name.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

type Segments = Vec<String>;

/// A Rust source without comments, strings and tests, in words and signs.
struct Source {
    module: Segments,
    file: String,
    words: Vec<String>,
}

/// Paths of a `use`: (segments, the name that it gives, whether it is `pub`).
type Leaf = (Segments, String, bool);

/// Reads the library's and the command line's modules, and adds an arrow for each path in a `use` or in code.
fn rust(files: &BTreeMap<String, String>, imports: &mut Imports) {
    for root in ["src/bin/ironbridge/main.rs", "src/lib.rs"] {
        let folder = root.rsplit_once('/').expect("a folder").0;
        let mut sources = Vec::new();
        load(&[], root, folder, files, &mut sources);
        let by_module: BTreeMap<Segments, &Source> = sources
            .iter()
            .map(|source| (source.module.clone(), source))
            .collect();
        let leaves: BTreeMap<&Segments, Vec<Leaf>> = sources
            .iter()
            .map(|source| (&source.module, leaves(&source.words)))
            .collect();
        let crates = Crate {
            by_module: &by_module,
            leaves: &leaves,
        };
        for source in &sources {
            let own = &leaves[&source.module];
            for (path, _, public) in own {
                if let Some(target) = crates.target(&source.module, path, 0) {
                    // A parent's list of what its children offer is no use of theirs.
                    let offers = *public && target.starts_with(&source.module);
                    if !offers {
                        imports.add(&source.file, &by_module[&target].file);
                    }
                } else if path[0] == "ironbridge" {
                    imports.add(&source.file, "src/lib.rs");
                }
            }
            for path in code_paths(&source.words) {
                if let Some(target) = crates.target(&source.module, &path, 0) {
                    imports.add(&source.file, &by_module[&target].file);
                }
            }
        }
    }
}

/// A module's file and those of its children, without what is compiled for tests only.
fn load(
    module: &[String],
    file: &str,
    folder: &str,
    files: &BTreeMap<String, String>,
    sources: &mut Vec<Source>,
) {
    let Some(text) = files.get(file) else {
        return; // made by the build
    };
    let words = without_tests(words(text));
    for at in 0..words.len().saturating_sub(2) {
        if words[at] == "mod" && words[at + 2] == ";" {
            let name = &words[at + 1];
            let child: Segments = module.iter().chain([name]).cloned().collect();
            let path = format!("{folder}/{name}.rs");
            load(&child, &path, &format!("{folder}/{name}"), files, sources);
        }
    }
    sources.push(Source {
        module: module.to_vec(),
        file: file.to_string(),
        words,
    });
}

/// Identifiers, `::` and single signs.
fn words(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let (mut words, mut at) = (Vec::new(), 0);
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte > 127;
    while at < bytes.len() {
        let rest = &bytes[at..];
        if rest.starts_with(b"//") {
            at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
        } else if rest.starts_with(b"/*") {
            at += text[at..].find("*/").map_or(rest.len(), |end| end + 2);
        } else if rest[0] == b'"' {
            at += 1;
            while at < bytes.len() && bytes[at] != b'"' {
                at += 1 + usize::from(bytes[at] == b'\\');
            }
            at += 1;
        } else if let Some(length) = raw_string(rest) {
            at += length;
        } else if rest[0] == b'\'' {
            at += character(rest);
        } else if is_word(rest[0]) {
            let length = rest.iter().position(|&b| !is_word(b)).unwrap_or(rest.len());
            words.push(text[at..at + length].to_string());
            at += length;
        } else if rest.starts_with(b"::") {
            words.push("::".into());
            at += 2;
        } else {
            if !rest[0].is_ascii_whitespace() {
                words.push(char::from(rest[0]).to_string());
            }
            at += 1;
        }
    }
    words
}

/// The length of a raw string that starts here.
fn raw_string(rest: &[u8]) -> Option<usize> {
    let prefix = ["br", "cr", "r"]
        .iter()
        .find(|p| rest.starts_with(p.as_bytes()))?;
    let hashes = rest[prefix.len()..]
        .iter()
        .take_while(|&&b| b == b'#')
        .count();
    let start = prefix.len() + hashes;
    if rest.get(start) != Some(&b'"') {
        return None;
    }
    let end = format!("\"{}", "#".repeat(hashes));
    let text = &rest[start + 1..];
    let length = text.windows(end.len()).position(|w| w == end.as_bytes())?;
    Some(start + 1 + length + end.len())
}

/// The length of a character or of a lifetime.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return 3 + rest[3..].iter().position(|&b| b == b'\'').unwrap_or(0);
    }
    let close = rest.iter().skip(1).take(6).position(|&b| b == b'\'');
    let one = |length: usize| {
        std::str::from_utf8(&rest[1..1 + length]).is_ok_and(|c| c.chars().count() == 1)
    };
    match close {
        Some(length) if one(length) => length + 2,
        _ => 1,
    }
}

/// Drops what stands below `#[cfg(test)]`: one item, to its end.
fn without_tests(words: Vec<String>) -> Vec<String> {
    let mark = ["#", "[", "cfg", "(", "test", ")", "]"];
    let (mut kept, mut at) = (Vec::new(), 0);
    while at < words.len() {
        if !words[at..].iter().take(mark.len()).eq(mark.iter()) {
            kept.push(words[at].clone());
            at += 1;
            continue;
        }
        at += mark.len();
        let mut depth = 0;
        while at < words.len() {
            match words[at].as_str() {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
            at += 1;
            let ended = matches!(words[at - 1].as_str(), "}" | ";");
            if depth <= 0 && ended {
                break;
            }
        }
    }
    kept
}

/// What the `use` declarations name.
fn leaves(words: &[String]) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    for at in 0..words.len() {
        if words[at] != "use" || words.get(at + 1).is_none_or(|next| next == "<") {
            continue;
        }
        let public = at > 0 && (words[at - 1] == "pub" || words[at - 1] == ")");
        tree(words, at + 1, &[], public, &mut leaves);
    }
    leaves
}

/// One tree of a `use`, from words[at]; returns where it ends.
fn tree(
    words: &[String],
    mut at: usize,
    base: &[String],
    public: bool,
    out: &mut Vec<Leaf>,
) -> usize {
    let mut path = base.to_vec();
    loop {
        match words[at].as_str() {
            "{" => {
                at += 1;
                while words[at] != "}" {
                    at = tree(words, at, &path, public, out);
                    at += usize::from(words[at] == ",");
                }
                return at + 1;
            }
            "*" => {
                out.push((path, "*".into(), public));
                return at + 1;
            }
            "::" => at += 1,
            word => {
                if word != "self" || path.is_empty() {
                    path.push(word.to_string());
                }
                at += 1;
                if words[at] == "::" {
                    continue;
                }
                let mut name = path.last().cloned().unwrap_or_default();
                if words[at] == "as" {
                    name = words[at + 1].clone();
                    at += 2;
                }
                out.push((path, name, public));
                return at;
            }
        }
    }
}

/// Paths in code that start at the crate, here or above.
fn code_paths(words: &[String]) -> Vec<Segments> {
    let mut paths = Vec::new();
    let mut at = 0;
    while at + 2 < words.len() {
        if words[at] == "use" {
            while at < words.len() && words[at] != ";" {
                at += 1;
            }
        }
        // `pub(in crate::a)` says who may see, and imports nothing.
        let starts = matches!(words[at].as_str(), "crate" | "super" | "self")
            && (at == 0 || words[at - 1] != "in");
        if !starts || words.get(at + 1).is_none_or(|next| next != "::") {
            at += 1;
            continue;
        }
        let mut path = vec![words[at].clone()];
        while at + 2 < words.len() && words[at + 1] == "::" {
            path.push(words[at + 2].clone());
            at += 2;
        }
        paths.push(path);
        at += 1;
    }
    paths
}

struct Crate<'a> {
    by_module: &'a BTreeMap<Segments, &'a Source>,
    leaves: &'a BTreeMap<&'a Segments, Vec<Leaf>>,
}

impl Crate<'_> {
    /// The module that a path leads to, through what modules re-export; none for another crate's.
    fn target(&self, module: &[String], path: &[String], hops: usize) -> Option<Segments> {
        let (mut at, mut rest) = match path[0].as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (module.to_vec(), &path[1..]),
            "super" => (module.to_vec(), path),
            first => {
                let child: Segments = module.iter().chain([&first.to_string()]).cloned().collect();
                if !self.by_module.contains_key(&child) {
                    return None;
                }
                (module.to_vec(), path)
            }
        };
        while rest.first().is_some_and(|segment| segment == "super") {
            at.pop()?;
            rest = &rest[1..];
        }
        while let Some(segment) = rest.first() {
            let child: Segments = at.iter().chain([segment]).cloned().collect();
            if self.by_module.contains_key(&child) {
                (at, rest) = (child, &rest[1..]);
                continue;
            }
            let through = self
                .leaves
                .get(&at)?
                .iter()
                .find(|(_, name, _)| name == segment);
            if let Some((path, _, _)) = through
                && hops < 8
            {
                let onward: Segments = path.iter().chain(&rest[1..]).cloned().collect();
                return self.target(&at, &onward, hops + 1);
            }
            break;
        }
        Some(at)
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn imports_follow_the_table_of_modules() {
    let design = fs::read_to_string(root().join("docs/MODULES.md")).expect("docs/MODULES.md");
    let imports = Imports::read(root());
    assert!(
        imports.pairs().count() > 500,
        "too few imports were found for this to mean anything"
    );
    let wrong = Rules::parse(&design).violations(&imports);
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

/// A small tree with what each kind of rule is there to find.
fn planted(changed: &[(&str, &str)]) -> Vec<String> {
    let design = "<!-- modules -->\n\
        | module | holds | may use |\n\
        | --- | --- | --- |\n\
        | `native/low` | | nothing |\n\
        | `native/high` | | `native/low` |\n\
        | `src/low` | | nothing |\n\
        | `src/high` | | `src/low` |\n\
        | `src/lib.rs` | | `src/low`, `src/high` |\n\n\
        <!-- exceptions -->\n\
        | files | reason |\n\
        | --- | --- |\n\
        | `src/low/known.rs` → `src/high` | a reason that is long enough |\n\n";
    let mut files = BTreeMap::from([
        ("src/lib.rs", "mod low;\nmod high;\npub use high::Top;\n"),
        (
            "src/low.rs",
            "mod known;\nmod other;\npub use other::Thing;\n",
        ),
        ("src/low/known.rs", "use crate::high::Top;\n"),
        ("src/low/other.rs", "pub struct Thing;\n"),
        ("src/high.rs", "use crate::low::Thing;\npub struct Top;\n"),
        ("native/low/a.h", "int a;\n"),
        ("native/high/b.m", "#import \"low/a.h\"\n"),
    ]);
    files.extend(changed.iter().copied());
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    Rules::parse(design).violations(&Imports::read(folder.path()))
}

#[test]
fn a_right_tree_has_nothing_wrong() {
    assert_eq!(planted(&[]), Vec::<String>::new());
}

#[test]
fn an_arrow_upwards_is_found_however_it_is_written() {
    for text in [
        "use crate::high::Top;\npub struct Thing;\n",
        "use crate::{high::{self, Top}};\npub struct Thing;\n",
        "use super::super::high::*;\npub struct Thing;\n",
        "pub struct Thing(crate::high::Top);\n",
        "use crate::Top;\npub struct Thing;\n",
    ] {
        let wrong = planted(&[("src/low/other.rs", text)]);
        let expected = "src/low/other.rs → src/high.rs: `src/low` may not use `src/high`";
        assert!(
            wrong.iter().any(|line| line == expected),
            "{text}: {wrong:?}"
        );
    }
    let wrong = planted(&[
        ("native/low/a.h", "#include \"high/b.h\"\n"),
        ("native/high/b.h", ""),
    ]);
    let expected = "native/low/a.h → native/high/b.h: `native/low` may not use `native/high`";
    assert!(wrong.iter().any(|line| line == expected), "{wrong:?}");
}

#[test]
fn a_test_may_import_what_it_likes() {
    let text = "pub struct Thing;\n#[cfg(test)]\nmod tests {\n    use crate::high::Top;\n}\n";
    assert_eq!(planted(&[("src/low/other.rs", text)]), Vec::<String>::new());
}

#[test]
fn comments_and_strings_are_no_imports() {
    let text = "// use crate::high::Top;\n/// [`Top`](crate::high::Top)\npub struct Thing;\n\
                const A: &str = \"crate::high::Top\"; const B: &str = r#\"\" crate::high::Top\"#; const C: char = '\"';\n";
    assert_eq!(planted(&[("src/low/other.rs", text)]), Vec::<String>::new());
}

#[test]
fn a_circle_of_files_is_found_within_a_module() {
    let wrong = planted(&[
        (
            "src/low/other.rs",
            "use super::third::Third;\npub struct Thing;\n",
        ),
        (
            "src/low/third.rs",
            "use super::other::Thing;\npub struct Third;\n",
        ),
        (
            "src/low.rs",
            "mod known;\nmod other;\nmod third;\npub use other::Thing;\n",
        ),
    ]);
    assert_eq!(
        wrong,
        [r#"a circle of files: {"src/low/other.rs", "src/low/third.rs"}"#]
    );
}

#[test]
fn an_exception_that_nothing_needs_is_found() {
    let wrong = planted(&[("src/low/known.rs", "")]);
    assert_eq!(
        wrong,
        ["src/low/known.rs → src/high: an exception that nothing needs"]
    );
}

#[test]
fn a_file_without_a_row_is_found() {
    let wrong = planted(&[
        (
            "src/lib.rs",
            "mod low;\nmod high;\nmod new;\npub use high::Top;\n",
        ),
        ("src/new.rs", "use crate::low::Thing;\n"),
    ]);
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert!(wrong[0].starts_with("src/new.rs → src/low"), "{wrong:?}");
}
