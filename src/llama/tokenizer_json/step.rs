//! One step of a normalizer or a pre-tokenizer, as JSON.

use serde_json::Value as Json;

/// A step that is not known, or not with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::llama) struct UnknownStep {
    /// The step's type.
    pub kind: String,
    pub reason: &'static str,
}

/// The step's type, `null` for none.
pub(super) fn kind(step: &Json) -> &str {
    step["type"].as_str().unwrap_or("null")
}

pub(super) fn unknown(step: &Json, reason: &'static str) -> UnknownStep {
    UnknownStep {
        kind: kind(step).to_owned(),
        reason,
    }
}

/// The steps of a sequence.
pub(super) fn steps<'a>(sequence: &'a Json, list: &str) -> Result<&'a [Json], UnknownStep> {
    let steps = sequence[list].as_array();
    steps
        .map(Vec::as_slice)
        .ok_or_else(|| unknown(sequence, "it has no list of steps"))
}

/// A setting that is on or off, with the package's default.
pub(super) fn flag(step: &Json, name: &str, default: bool) -> Result<bool, UnknownStep> {
    match &step[name] {
        Json::Null => Ok(default),
        value => value
            .as_bool()
            .ok_or_else(|| unknown(step, "a setting of it is neither true nor false")),
    }
}

pub(super) fn text<'a>(step: &'a Json, name: &str) -> Result<&'a str, UnknownStep> {
    step[name]
        .as_str()
        .ok_or_else(|| unknown(step, "a text that it needs is missing"))
}
