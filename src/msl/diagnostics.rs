//! clang's messages, as the author of a Metal source should see them.

use super::error::Error;

/// Enough to mend a source by; the rest mostly follows from these.
const MOST: usize = 20;

struct Message<'t> {
    file: &'t str,
    line: u32,
    severity: &'t str,
    text: &'t str,
}

/// The error that a failed run of clang on `source` amounts to. Each message is followed by the line of `source` that
/// it is about; one that points into the standard library's headers is moved to the line that led there.
pub fn error(stderr: &str, source: &str) -> Error {
    let messages: Vec<Message> = stderr.lines().filter_map(parse).collect();
    let mut report = report(&messages, source, |message| {
        message.severity.ends_with("error")
    });
    if report.is_empty() {
        report = format!("the Metal compiler failed:\n{}", shortened(stderr));
    }
    Error::Source(String::from(report.trim_end()))
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
    let report = report(&messages, source, |_| at.next().copied().unwrap_or(false));
    (!report.is_empty()).then(|| Error::Source(String::from(report.trim_end())))
}

/// The error that warnings under a flag amount to, if there are any.
pub fn warnings(stderr: &str, flag: &str, source: &str) -> Option<Error> {
    let messages: Vec<Message> = stderr.lines().filter_map(parse).collect();
    let mark = format!(" [{flag}]");
    let report = report(&messages, source, |message| message.text.ends_with(&mark));
    (!report.is_empty()).then(|| Error::Source(String::from(report.replace(&mark, "").trim_end())))
}

fn report(messages: &[Message], source: &str, mut wanted: impl FnMut(&Message) -> bool) -> String {
    let lines: Vec<&str> = source.lines().collect();
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
        report += &format!(
            "{}:{line}: error: {}\n",
            shortened(file),
            shortened(message.text)
        );
        if *file == "program_source"
            && let Some(line) = lines.get(line.saturating_sub(1) as usize)
        {
            report += &format!("    {}\n", shortened(line.trim()));
        }
    }
    report
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
    // The column is that of the rewritten line, which nobody sees.
    let (place, _column) = line[..at].rsplit_once(':')?;
    let (file, number) = place.rsplit_once(':')?;
    Some(Message {
        file,
        line: number.parse().ok()?,
        severity,
        text,
    })
}

fn is_header(file: &str) -> bool {
    file.starts_with('/')
}
