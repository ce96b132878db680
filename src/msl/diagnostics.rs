//! clang's messages, as the author of a Metal source should see them.

use std::collections::HashMap;

use super::error::Error;

/// Enough to mend a source by; the rest mostly follows from these.
const MOST: usize = 20;

struct Message<'t> {
    file: &'t str,
    line: u32,
    column: u32,
    severity: &'t str,
    text: &'t str,
}

/// The error that a failed run of clang on `source` amounts to. Each message is followed by the line of `source` that
/// it is about; one that points into the standard library's headers is moved to the line that led there.
pub fn error(stderr: &str, source: &str) -> Error {
    error_in(stderr, source, "")
}

/// The same, with a caret below each line whose place in what clang read, `rewritten`, tells the one in the source.
pub fn error_in(stderr: &str, source: &str, rewritten: &str) -> Error {
    let messages: Vec<Message> = stderr.lines().filter_map(parse).collect();
    let mut report = report(&messages, source, rewritten, |message| {
        message.severity.ends_with("error")
    });
    if report.is_empty() {
        report = format!("the Metal compiler failed:\n{}", shortened(stderr));
    }
    Error::Source(String::from(report.trim_end()))
}

/// The error of a failed run of clang that did not come to read a source, as without clang's own headers.
pub fn before_the_source(stderr: &str) -> Option<Error> {
    let messages = stderr.lines().filter_map(parse);
    let mut errors = messages.filter(|message| message.severity.ends_with("error"));
    let has_read = errors.any(|message| message.file != "<built-in>");
    let text = shortened(stderr.trim_end());
    (!has_read).then(|| Error::host("the compiler cannot check address spaces", text))
}

/// The error that messages of ours about a preprocessed source amount to, with its lines and carets.
pub fn placed(messages: &str, source: &str, preprocessed: &str) -> Error {
    let parsed: Vec<Message> = messages.lines().filter_map(parse).collect();
    let report = report(&parsed, source, preprocessed, |_| true);
    let text = if report.is_empty() {
        messages
    } else {
        report.trim_end()
    };
    Error::Source(String::from(text))
}

/// The error that those errors amount to that are `wanted`, and that `is_about` takes by their own text or by a note's
/// of theirs. `None`: there are none.
pub fn errors_about(
    stderr: &str,
    source: &str,
    wanted: impl Fn(&str) -> bool,
    is_about: impl Fn(&str) -> bool,
) -> Option<Error> {
    let messages: Vec<Message> = stderr.lines().filter_map(parse).collect();
    let notes = |index: usize| {
        let after = messages[index + 1..].iter();
        after.take_while(|note| note.severity == "note")
    };
    let chosen: Vec<bool> = (0..messages.len())
        .map(|index| {
            messages[index].severity.ends_with("error")
                && wanted(messages[index].text)
                && (is_about(messages[index].text) || notes(index).any(|note| is_about(note.text)))
        })
        .collect();
    let mut at = chosen.iter();
    let report = report(&messages, source, "", |_| {
        at.next().copied().unwrap_or(false)
    });
    (!report.is_empty()).then(|| Error::Source(String::from(report.trim_end())))
}

/// The error that warnings under a flag amount to, if there are any.
pub fn warnings(stderr: &str, flag: &str, source: &str) -> Option<Error> {
    let messages: Vec<Message> = stderr.lines().filter_map(parse).collect();
    let mark = format!(" [{flag}]");
    let report = report(&messages, source, "", |message| {
        message.text.ends_with(&mark)
    });
    (!report.is_empty()).then(|| Error::Source(String::from(report.replace(&mark, "").trim_end())))
}

fn report(
    messages: &[Message],
    source: &str,
    rewritten: &str,
    mut wanted: impl FnMut(&Message) -> bool,
) -> String {
    let (lines, rewritten) = (Lines::of(source), Lines::of(rewritten));
    let mut report = String::new();
    let chosen = messages
        .iter()
        .enumerate()
        .filter(|(_, message)| wanted(message));
    for (index, message) in chosen.take(MOST) {
        let notes = messages[index + 1..]
            .iter()
            .take_while(|note| note.severity == "note");
        let place = std::iter::once(message)
            .chain(notes)
            .find(|place| !is_header(place.file))
            .unwrap_or(message);
        let Message { file, line, .. } = place;
        let quoted = lines.find(file, *line);
        let at = quoted.and_then(|quoted| {
            let rewritten = rewritten.find(file, *line)?;
            same_place(rewritten, place.column, quoted)
        });
        let column = at.map_or(String::new(), |at| format!("{}:", at + 1));
        report += &format!(
            "{}:{line}:{column} error: {}\n",
            shortened(file),
            shortened(message.text)
        );
        if let Some(line) = quoted {
            report += &format!("    {}\n", shortened(line.trim()));
            let indent = line.len() - line.trim_start().len();
            if let Some(at) = at.and_then(|at| at.checked_sub(indent)) {
                report += &format!("    {:at$}^\n", "");
            }
        }
    }
    report
}

/// The lines of a source by the names and numbers that its `#line` directives give them.
struct Lines<'s>(HashMap<(&'s str, u32), &'s str>);

impl<'s> Lines<'s> {
    fn of(source: &'s str) -> Lines<'s> {
        let mut lines = HashMap::new();
        let (mut file, mut number) = ("program_source", 1u32);
        for line in source.lines() {
            match place(line) {
                Some((next, named)) => (file, number) = (named.unwrap_or(file), next),
                None => {
                    lines.insert((file, number), line);
                    number = number.saturating_add(1);
                }
            }
        }
        Lines(lines)
    }

    fn find(&self, file: &str, line: u32) -> Option<&'s str> {
        self.0.get(&(file, line)).copied()
    }
}

/// The byte of a source's line that a column of the rewritten one means: where the same token stands, when the lines
/// have it equally often.
fn same_place(rewritten: &str, column: u32, line: &str) -> Option<usize> {
    let column = (column as usize).checked_sub(1)?;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let rest = rewritten.get(column..)?;
    let length = match rest.chars().next()? {
        first if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
        first if first.is_whitespace() => return None,
        first => first.len_utf8(),
    };
    let token = &rest[..length];
    let ends_a_word = |text: &str| text.chars().next_back().is_some_and(is_word);
    let begins_a_word = |text: &str| text.chars().next().is_some_and(is_word);
    let places = |text: &str| -> Vec<usize> {
        let found = text.match_indices(token).map(|(at, _)| at);
        let whole = |at: &usize| {
            !begins_a_word(token)
                || !(ends_a_word(&text[..*at]) || begins_a_word(&text[at + length..]))
        };
        found.filter(whole).collect()
    };
    let (theirs, ours) = (places(rewritten), places(line));
    let index = theirs.iter().position(|at| *at == column)?;
    (theirs.len() == ours.len()).then(|| ours[index])
}

/// What `#line number "file"`, or the preprocessor's `# number "file"`, says of the next line.
fn place(line: &str) -> Option<(u32, Option<&str>)> {
    let rest = line.strip_prefix("#line ").or(line.strip_prefix("# "))?;
    let (number, file) = rest.trim().split_once(' ').unwrap_or((rest.trim(), ""));
    // The preprocessor's flags stand behind the name.
    let file = file.trim_end_matches(|c: char| c.is_ascii_digit() || c == ' ');
    let file = file
        .trim()
        .strip_prefix('"')
        .and_then(|file| file.strip_suffix('"'));
    Some((number.parse().ok()?, file))
}

/// As much of a text as helps; a source can be one line, and a template's name as long as one likes.
fn shortened(text: &str) -> &str {
    const MOST: usize = 2000;
    let end = (0..=text.len().min(MOST))
        .rev()
        .find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

/// `name:line:column: severity: text`.
fn parse(line: &str) -> Option<Message<'_>> {
    let (severity, text) = ["fatal error", "error", "warning", "note"]
        .into_iter()
        .find_map(|severity| {
            let mark = format!(": {severity}: ");
            line.find(&mark)
                .map(|at| ((at, severity), &line[at + mark.len()..]))
        })?;
    let (at, severity) = severity;
    let (place, column) = line[..at].rsplit_once(':')?;
    let (file, number) = place.rsplit_once(':')?;
    Some(Message {
        file,
        line: number.parse().ok()?,
        column: column.parse().ok()?,
        severity,
        text,
    })
}

fn is_header(file: &str) -> bool {
    file == "/opencl.h" || (file.starts_with('/') && super::headers::is_of_the_library(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_quoted_by_the_place_that_directives_give_it() {
        let source = "#define A 1\n#line 1\nfirst\n#line 1 \"dir/a.h\"\nincluded\n#line 3 \"program_source\"\nthird\n";
        let stderr = "program_source:3:1: error: what\ndir/a.h:1:9: fatal error: that\nprogram_source:1:1: error: it\n";
        let text = error(stderr, source).to_string();
        let want = "program_source:3: error: what\n    third\ndir/a.h:1: error: that\n    included\n\
            program_source:1: error: it\n    first";
        assert_eq!(text, want);
    }

    #[test]
    fn a_run_that_did_not_read_the_source_is_the_hosts_error() {
        let header = "<built-in>:1:10: fatal error: 'opencl-c-base.h' file not found\n";
        for said in [header, "clang: error: unknown argument: '-x'\n", ""] {
            assert!(matches!(before_the_source(said), Some(Error::Host(_))));
        }
        let about = "program_source:3:1: error: what\n";
        assert!(before_the_source(about).is_none());
    }

    #[test]
    fn a_caret_stands_below_the_token_that_the_message_is_about() {
        let source = "\tdevice float x = a + a + missing;\n";
        let rewritten = "# 1 \"program_source\" 2\n\t float x = a + a + missing;\n";
        let at = |column: u32| {
            let stderr = format!("program_source:1:{column}: error: what\n");
            let text = error_in(&stderr, source, rewritten).to_string();
            let place = text
                .split_once(" error")
                .map(|(place, _)| String::from(place));
            let caret = text.lines().nth(2).map(|line| line.len() - 5);
            (place.unwrap_or_default(), caret)
        };
        let place = |column: &str| format!("program_source:1:{column}");
        assert_eq!(at(21), (place("27:"), Some(25))); // missing
        assert_eq!(at(17), (place("23:"), Some(21))); // the second a
        assert_eq!(at(1), (place(""), None));
        assert_eq!(at(99), (place(""), None));
    }

    #[test]
    fn an_error_in_the_library_is_moved_to_the_line_that_led_there() {
        let stderr = "/home/x/ironbridge/msl/headers-1/library/math.h:7:1: error: what\nprogram_source:2:1: note: here\n\
            /home/x/include/mine.h:5:2: error: that\nprogram_source:1:1: note: there\n";
        let text = error(stderr, "one\ntwo\n").to_string();
        let want = "program_source:2: error: what\n    two\n/home/x/include/mine.h:5: error: that";
        assert_eq!(text, want);
    }
}
