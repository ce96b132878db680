//! `#include` of a source's own files, put in place before a device sees the source: Metal takes a text and no folders,
//! and so finds none by itself.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Files within files. Clang's own limit is 200.
const DEEPEST: usize = 64;
/// Bytes of a source with all that it includes.
const LONGEST: usize = 8 << 20;

/// `source` with every `#include` that `folders` have replaced by the file's text, between `#line` directives. An
/// include that none of them has stays, for the compiler to find or to refuse. A file is looked for beside the one that
/// includes it, when it is named in quotes, and then in `folders` in their order.
///
/// # Errors
/// One line, `file:line: error: what`, when files include each other without an end, cannot be read, or are too many.
pub(crate) fn expanded(source: &str, folders: &[PathBuf]) -> Result<String, String> {
    let mut text = Text {
        folders,
        made: String::with_capacity(source.len()),
        files: HashMap::new(),
    };
    let main = File {
        name: "program_source",
        folder: None,
        depth: 0,
        unconditional: true,
    };
    text.append(source, &main)?;
    Ok(text.made)
}

struct Text<'f> {
    folders: &'f [PathBuf],
    made: String,
    /// By their canonical paths.
    files: HashMap<PathBuf, Seen>,
}

/// A file that was included before.
#[derive(Clone, Copy)]
struct Seen {
    /// Of its guard.
    number: usize,
    /// It stands in the text, whatever macros are defined, and wants to be there once.
    complete: bool,
}

/// What is being read.
struct File<'n> {
    name: &'n str,
    folder: Option<&'n Path>,
    depth: usize,
    /// No `#if` decides whether it is read.
    unconditional: bool,
}

impl Text<'_> {
    fn append(&mut self, text: &str, file: &File) -> Result<(), String> {
        let (mut conditions, mut in_comment) = (0usize, false);
        for (index, line) in text.lines().enumerate() {
            let directive = if in_comment { None } else { directive(line) };
            in_comment = ends_in_comment(line, in_comment);
            let place = format!("{}:{}", file.name, index + 1);
            let included = match directive {
                Some((word @ ("include" | "import"), rest)) => {
                    let found = self.find(rest, file.folder);
                    found.map(|path| (path, word == "import"))
                }
                Some(("if" | "ifdef" | "ifndef", _)) => {
                    conditions += 1;
                    None
                }
                Some(("endif", _)) => {
                    conditions = conditions.saturating_sub(1);
                    None
                }
                _ => None,
            };
            let Some((path, once)) = included else {
                self.push(line, &place)?;
                continue;
            };
            if file.depth == DEEPEST {
                let path = path.display();
                return Err(format!(
                    "{place}: error: `{path}` is included within {DEEPEST} other files"
                ));
            }
            let inner = File {
                name: &path.display().to_string().replace(['"', '\\'], "_"),
                folder: path.parent(),
                depth: file.depth + 1,
                unconditional: file.unconditional && conditions == 0,
            };
            self.include(&path, &inner, once, &place)?;
            self.push(&format!("#line {} \"{}\"", index + 2, file.name), &place)?;
        }
        Ok(())
    }

    /// `place`: of the directive.
    fn include(&mut self, path: &Path, file: &File, once: bool, place: &str) -> Result<(), String> {
        let refuse = |what: std::io::Error| {
            format!("{place}: error: cannot read `{}`: {what}", path.display())
        };
        let number = self.files.len();
        let key = path.canonicalize().map_err(refuse)?;
        let seen = *self.files.entry(key.clone()).or_insert(Seen {
            number,
            complete: false,
        });
        if seen.complete {
            return Ok(());
        }
        if fs::metadata(path).map_err(refuse)?.len() > LONGEST as u64 {
            return Err(too_long(place));
        }
        let text = fs::read_to_string(path).map_err(refuse)?;
        let is_pragma =
            |line| matches!(directive(line), Some(("pragma", rest)) if rest.trim() == "once");
        let once = once || text.lines().any(is_pragma);
        if once {
            let complete = file.unconditional;
            self.files.insert(key, Seen { complete, ..seen });
            let guard = format!("ironbridge_included_{}", seen.number);
            self.push(&format!("#ifndef {guard}\n#define {guard}"), place)?;
        }
        self.push(&format!("#line 1 \"{}\"", file.name), place)?;
        self.append(&text, file)?;
        match once {
            true => self.push("#endif", place),
            false => Ok(()),
        }
    }

    fn push(&mut self, line: &str, place: &str) -> Result<(), String> {
        if self.made.len() + line.len() >= LONGEST {
            return Err(too_long(place));
        }
        self.made.push_str(line);
        self.made.push('\n');
        Ok(())
    }

    /// The file that `"name"` or `<name>` names, if there is one.
    fn find(&self, rest: &str, folder: Option<&Path>) -> Option<PathBuf> {
        let rest = rest.trim_start();
        let (close, beside) = match rest.chars().next()? {
            '"' => ('"', folder),
            '<' => ('>', None),
            _ => return None,
        };
        let (name, _) = rest[1..].split_once(close)?;
        if name.is_empty() || Path::new(name).is_absolute() {
            return None;
        }
        let folders = self.folders.iter().map(PathBuf::as_path);
        beside
            .into_iter()
            .chain(folders)
            .map(|folder| folder.join(name))
            .find(|path| path.is_file())
    }
}

fn too_long(place: &str) -> String {
    format!("{place}: error: the source with all that it includes is longer than 8 MiB")
}

/// The word and the rest of a line `# word rest`.
fn directive(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start().strip_prefix('#')?.trim_start();
    let end = line.find(|c: char| !c.is_ascii_alphabetic());
    Some(line.split_at(end.unwrap_or(line.len())))
}

/// Whether a line that begins within a `/* comment */`, or does not, ends within one.
fn ends_in_comment(line: &str, mut within: bool) -> bool {
    let mut rest = line;
    loop {
        if within {
            let Some((_, after)) = rest.split_once("*/") else {
                return true;
            };
            (rest, within) = (after, false);
        }
        let Some(at) = rest.find(['"', '/']) else {
            return false;
        };
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("/*") {
            (rest, within) = (after, true);
        } else if rest.starts_with("//") {
            return false;
        } else if let Some(quoted) = rest.strip_prefix('"') {
            rest = after_quote(quoted);
        } else {
            rest = &rest[1..];
        }
    }
}

fn after_quote(text: &str) -> &str {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            '"' if !escaped => return &text[at + 1..],
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        folder
    }

    fn expand(files: &[(&str, &str)], source: &str) -> Result<String, String> {
        let folder = folder(files);
        let path = folder.path().display().to_string();
        let made = expanded(source, &[folder.path().to_path_buf()]);
        let short = |text: String| text.replace(&format!("{path}/"), "");
        made.map(short).map_err(short)
    }

    #[test]
    fn files_are_found_in_the_folders_and_beside_their_includer() {
        let files = [("a/one.h", "#include \"two.h\"\none"), ("a/two.h", "two\n")];
        let made = expand(&files, "x\n#include <a/one.h>\n#include <metal_stdlib>\ny");
        let want = "x\n#line 1 \"a/one.h\"\n#line 1 \"a/two.h\"\ntwo\n#line 2 \"a/one.h\"\none\n\
            #line 3 \"program_source\"\n#include <metal_stdlib>\ny\n";
        assert_eq!(made.as_deref(), Ok(want));
    }

    #[test]
    fn a_file_that_wants_to_be_there_once_is() {
        let files = [("once.h", "#pragma once\nx")];
        let made = expand(&files, "#include \"once.h\"\n#include \"once.h\"").expect("a text");
        assert_eq!(made.matches("\nx\n").count(), 1, "{made}");
        // Under a condition nobody knows here whether it is there: its guard decides.
        let made = expand(
            &files,
            "#if A\n#include \"once.h\"\n#endif\n#include \"once.h\"",
        );
        let made = made.expect("a text");
        assert_eq!(made.matches("\nx\n").count(), 2, "{made}");
        let guard = "#ifndef ironbridge_included_0\n#define ironbridge_included_0\n";
        assert_eq!(made.matches(guard).count(), 2, "{made}");
    }

    #[test]
    fn comments_and_texts_include_nothing() {
        let source =
            "/* \"\n#include \"a.h\"\n*/ // #include \"a.h\"\nf(\"/*\");\n#include \"b.h\"";
        let made = expand(&[("a.h", "a"), ("b.h", "b")], source).expect("a text");
        assert!(
            made.contains("#include \"a.h\"\n*/") && made.contains("\nb\n"),
            "{made}"
        );
    }

    #[test]
    fn what_has_no_end_is_one_error_with_its_place() {
        let files = [
            ("a.h", "\n#include \"b.h\"\n"),
            ("b.h", "#include \"a.h\"\n"),
        ];
        let error = expand(&files, "#include \"a.h\"").expect_err("a loop");
        assert_eq!(
            error,
            "b.h:1: error: `a.h` is included within 64 other files"
        );
        // Each file twice the one before.
        let bomb: Vec<(String, String)> = (1..40)
            .map(|n| (n, format!("#include \"{0}\"\n#include \"{0}\"\n", n - 1)))
            .map(|(n, text)| (n.to_string(), text))
            .collect();
        let mut bomb: Vec<(&str, &str)> =
            bomb.iter().map(|(name, text)| (&**name, &**text)).collect();
        bomb.push(("0", "float x;\n"));
        let error = expand(&bomb, "#include \"39\"").expect_err("too long");
        assert!(error.ends_with("longer than 8 MiB"), "{error}");
        let error = expand(&[("a.h", "\u{0}")], "#include \"a.h/\"");
        assert!(error.is_ok(), "{error:?}"); // a folder's name is none of a file: the compiler refuses it
    }
}
