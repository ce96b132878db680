//! Texts to learn.

use serde::Deserialize;

use crate::finetune::error::FinetuneError;

/// Documents that a model is to learn, each a text of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainingText {
    documents: Vec<String>,
}

/// A line of a file of JSON lines. Other fields are left alone.
#[derive(Deserialize)]
struct Line {
    text: String,
}

impl TrainingText {
    /// A document.
    ///
    /// # Errors
    ///
    /// [`FinetuneError::NoText`] when it is empty.
    pub fn from_plain(text: &str) -> Result<TrainingText, FinetuneError> {
        match text.trim().is_empty() {
            true => Err(FinetuneError::NoText),
            false => Ok(TrainingText {
                documents: vec![text.to_owned()],
            }),
        }
    }

    /// A document in each line: a JSON object whose `text` it is (<https://jsonlines.org>).
    ///
    /// # Errors
    ///
    /// [`FinetuneError::Line`] for a line that is empty, no such object, or without text;
    /// [`FinetuneError::NoText`] when there is no line.
    pub fn from_json_lines(lines: &str) -> Result<TrainingText, FinetuneError> {
        let mut documents = Vec::new();
        for (index, line) in lines.lines().enumerate() {
            let wrong = |reason: String| FinetuneError::Line {
                line: index + 1,
                reason,
            };
            if line.trim().is_empty() {
                return Err(wrong("it is empty".to_owned()));
            }
            let Line { text } = serde_json::from_str(line).map_err(|error| {
                // The parser counts lines, too, and knows of one.
                let text = error.to_string();
                wrong(text.replace("at line 1 column", "at column"))
            })?;
            if text.trim().is_empty() {
                return Err(wrong("its text is empty".to_owned()));
            }
            documents.push(text);
        }
        match documents.is_empty() {
            true => Err(FinetuneError::NoText),
            false => Ok(TrainingText { documents }),
        }
    }

    /// The documents in their order.
    pub fn documents(&self) -> &[String] {
        &self.documents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_a_document() {
        let text = "{\"text\": \"one\\ntwo\", \"id\": 7}\n{\"text\": \"three\"}\n";
        let text = TrainingText::from_json_lines(text).unwrap();
        assert_eq!(text.documents(), ["one\ntwo", "three"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let of = |text: &str| TrainingText::from_json_lines(text).unwrap_err().to_string();
        let good = "{\"text\": \"a\"}\n";
        assert_eq!(of(&format!("{good}\n{good}")), "line 2: it is empty");
        assert_eq!(
            of(&format!("{good}{{\"text\": \" \"}}")),
            "line 2: its text is empty"
        );
        let broken = of(&format!("{good}{good}{{\"text\": \"a"));
        assert!(
            broken.starts_with("line 3: EOF while parsing a string at column"),
            "{broken}"
        );
        assert!(of("[1]").starts_with("line 1: "));
        assert!(of("{\"content\": \"a\"}").contains("missing field `text`"));
        assert!(of("{\"text\": 5}").contains("expected a string"));
        for nothing in ["", "\n"] {
            assert!(TrainingText::from_json_lines(nothing).is_err());
        }
        assert_eq!(of(""), "there is no text to learn");
        assert!(TrainingText::from_plain(" \n").is_err());
    }
}
