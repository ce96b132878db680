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
    let lines: Vec<&str> = source.lines().collect();
    let mut report = String::new();
    let mut count = 0;
    for (index, message) in messages.iter().enumerate() {
        if !message.severity.ends_with("error") || count == MOST {
            continue;
        }
        count += 1;
        let notes = messages[index + 1..]
            .iter()
            .take_while(|note| note.severity == "note");
        let place = std::iter::once(message)
            .chain(notes)
            .find(|place| !is_header(place.file))
            .unwrap_or(message);
        report += &format!("{}:{}: error: {}\n", place.file, place.line, message.text);
        if place.file == "program_source"
            && let Some(line) = lines.get(place.line.saturating_sub(1) as usize)
        {
            report += &format!("    {}\n", line.trim());
        }
    }
    if report.is_empty() {
        report = format!("the Metal compiler failed:\n{stderr}");
    }
    Error::Source(String::from(report.trim_end()))
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
