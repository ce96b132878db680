//! What is wrong with a Metal source, and where, as a compiler says it.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::terminal::{STRONG, WRONG, printable, say};

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// The source, or a kernel of it, does not compile.
    Compile,
    /// A kernel fails when it runs: an access outside its buffers, a barrier that some threads do not reach.
    Fault,
    /// What a kernel writes depends on which thread goes first.
    LaneOrder,
}

impl Rule {
    pub const ALL: [Rule; 3] = [Rule::Compile, Rule::Fault, Rule::LaneOrder];

    pub fn name(self) -> &'static str {
        match self {
            Rule::Compile => "compile",
            Rule::Fault => "fault",
            Rule::LaneOrder => "lane-order",
        }
    }

    pub fn summary(self) -> &'static str {
        match self {
            Rule::Compile => "The source does not compile.",
            Rule::Fault => "A kernel fails when it runs, with every access to memory checked.",
            Rule::LaneOrder => {
                "What a kernel writes depends on which thread goes first, or on threadgroup memory that \
                 nobody wrote: a barrier may be missing."
            }
        }
    }

    /// Whether it is an error, and else a warning.
    pub fn is_error(self) -> bool {
        self != Rule::LaneOrder
    }

    pub fn level(self) -> &'static str {
        if self.is_error() { "error" } else { "warning" }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub rule: Rule,
    pub file: String,
    /// From 1; 0: the file as a whole.
    pub line: u32,
    /// From 1; 0: the line as a whole.
    pub column: u32,
    pub message: String,
    pub kernel: Option<String>,
}

/// The findings in the text of a failed compilation of `file`: lines `place:line: error: what`, each followed by the
/// line of the source and perhaps a caret, indented. A text of another form is one finding.
pub fn of_text(text: &str, file: &Path, kernel: Option<&str>) -> Vec<Finding> {
    let main = file.display().to_string();
    let prefix = kernel.map(|name| format!("kernel {name}: "));
    let text = prefix
        .and_then(|prefix| text.strip_prefix(&prefix))
        .unwrap_or(text);
    let mut findings: Vec<Finding> = Vec::new();
    let mut quoted = "";
    for line in text.lines() {
        if let Some((place, number, column, message)) = split(line) {
            findings.push(Finding {
                rule: Rule::Compile,
                file: match place {
                    "program_source" => main.clone(),
                    other => String::from(other),
                },
                line: number,
                column,
                message: String::from(message),
                kernel: kernel.map(String::from),
            });
        } else if let (Some(finding), "^") = (findings.last_mut(), line.trim()) {
            finding.column = column_of(finding, quoted, line);
        }
        quoted = line;
    }
    if findings.is_empty() {
        findings.push(Finding {
            rule: Rule::Compile,
            file: main,
            line: 0,
            column: 0,
            message: text.trim().replace('\n', " "),
            kernel: kernel.map(String::from),
        });
    }
    findings
}

/// The column in the file's line that a caret under the quoted line means, which is quoted without its indent.
fn column_of(finding: &Finding, quoted: &str, caret: &str) -> u32 {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let line = Sources::default().line(&finding.file, finding.line);
    let line = line.unwrap_or_default();
    match line.trim() == quoted.trim() {
        true => (indent(&line) + indent(caret) - indent(quoted).min(indent(caret)) + 1) as u32,
        false => 0,
    }
}

/// `place:line: error: what` or `place:line:column: error: what`.
fn split(line: &str) -> Option<(&str, u32, u32, &str)> {
    let (place, message) = [": error: ", ": fatal error: "]
        .into_iter()
        .find_map(|mark| line.split_once(mark))?;
    let (front, last) = place.rsplit_once(':')?;
    let last: u32 = last.parse().ok()?;
    if let Some((file, number)) = front.rsplit_once(':')
        && let Ok(number) = number.parse()
    {
        return Some((file, number, last, message));
    }
    Some((front, last, 0, message))
}

/// Lines of files that were read once.
#[derive(Default)]
pub struct Sources(HashMap<String, Vec<String>>);

impl Sources {
    fn lines(&mut self, file: &str) -> &[String] {
        self.0.entry(String::from(file)).or_insert_with(|| {
            let text = fs::read_to_string(file).unwrap_or_default();
            text.lines().map(String::from).collect()
        })
    }

    pub fn line(&mut self, file: &str, number: u32) -> Option<String> {
        let index = (number as usize).checked_sub(1)?;
        self.lines(file).get(index).cloned()
    }

    /// Where a source first names `word`, 0 when it does not.
    pub fn first_line_with(&mut self, file: &str, word: &str) -> u32 {
        let is_part = |c: char| c.is_alphanumeric() || c == '_';
        let names = |line: &String| line.split(|c| !is_part(c)).any(|part| part == word);
        let found = self.lines(file).iter().position(names);
        found.map_or(0, |index| index as u32 + 1)
    }
}

impl Finding {
    /// As a compiler prints it, on standard error.
    pub fn print(&self, sources: &mut Sources) {
        let mut place = printable(&self.file).into_owned();
        for number in [self.line, self.column] {
            if number > 0 {
                write!(place, ":{number}").expect("writing to a string succeeds");
            }
        }
        let level = self.rule.level();
        let message = printable(&self.message);
        match &self.kernel {
            Some(kernel) => say(format_args!(
                "{STRONG}{place}:{STRONG:#} {WRONG}{level}:{WRONG:#} {message} [kernel {}]",
                printable(kernel)
            )),
            None => say(format_args!(
                "{STRONG}{place}:{STRONG:#} {WRONG}{level}:{WRONG:#} {message}"
            )),
        }
        let Some(line) = sources.line(&self.file, self.line) else {
            return;
        };
        const WIDEST: usize = 200;
        let shown: String = line.chars().take(WIDEST).collect();
        say(format_args!("{}", printable(&shown)));
        if let Some(before) = (self.column as usize).checked_sub(1)
            && before < shown.len()
        {
            let blank = |c: char| if c == '\t' { '\t' } else { ' ' };
            let indent: String = line.bytes().take(before).map(|b| blank(b.into())).collect();
            say(format_args!("{indent}^"));
        }
    }

    pub fn json(&self) -> Json {
        json!({
            "rule": self.rule.name(),
            "level": self.rule.level(),
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "kernel": self.kernel,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_either_compiler_becomes_findings() {
        let text = "program_source:3: error: what: it\n    x = y;\ndir/a.h:4:5: error: that\n1 error generated";
        let findings = of_text(text, Path::new("k.metal"), None);
        let places: Vec<_> = findings
            .iter()
            .map(|it| (it.file.as_str(), it.line, it.column, it.message.as_str()))
            .collect();
        assert_eq!(
            places,
            [("k.metal", 3, 0, "what: it"), ("dir/a.h", 4, 5, "that")]
        );
        let findings = of_text("kernel f: no\nreason", Path::new("k.metal"), Some("f"));
        assert_eq!(findings[0].message, "no reason");
        assert_eq!((findings[0].line, findings.len()), (0, 1));
    }

    #[test]
    fn a_caret_gives_the_column_in_the_files_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("k.metal");
        fs::write(&path, "\n      x = y;\n").expect("a file");
        let text = "program_source:2: error: no y\n    x = y;\n        ^\n";
        assert_eq!(of_text(text, &path, None)[0].column, 11);
    }
}
