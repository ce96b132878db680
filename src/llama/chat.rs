//! Conversations, written as a model was trained to read them.
//!
//! A model file says how in a template in Jinja's language, which is run as Hugging Face's `transformers` does
//! ([`template`], [`jinja`]) and within [`limits`]; [`encoder`] makes tokens of the outcome.

mod encoder;
mod jinja;
mod limits;
mod python;
mod template;

pub use encoder::ChatEncoder;
pub use limits::{ChatTemplateLimit, ChatTemplateLimits};
pub use template::ChatTemplate;

use super::quote::one_line;

/// Characters of a template's refusal that are kept.
const REFUSAL_CHARACTERS: usize = 1000;

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ChatMessage {
    /// Who speaks: `"system"`, `"user"`, `"assistant"`, or whatever else the template knows.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl ChatMessage {
    /// What `role` says.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> ChatMessage {
        ChatMessage {
            role: role.into(),
            content: content.into(),
        }
    }

    /// How the model is to behave.
    pub fn system(content: impl Into<String>) -> ChatMessage {
        ChatMessage::new("system", content)
    }

    /// What the user says.
    pub fn user(content: impl Into<String>) -> ChatMessage {
        ChatMessage::new("user", content)
    }

    /// What the model says.
    pub fn assistant(content: impl Into<String>) -> ChatMessage {
        ChatMessage::new("assistant", content)
    }
}

/// Why a conversation cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChatError {
    /// The model's file has no template: it was likely not trained on conversations.
    #[error("the model file has no chat template")]
    NoTemplate,
    /// The template is not in Jinja's language.
    #[error("the chat template cannot be read, line {line}: {reason}")]
    Syntax {
        /// From 1.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// The template itself refuses the conversation, in its words: roles that do not alternate, a role that it does not
    /// know. The first 1000 characters of them.
    #[error("the model's chat template refuses the conversation: {}", one_line(.0, REFUSAL_CHARACTERS))]
    Refused(String),
    /// The template does something that cannot be done.
    #[error("the chat template fails in line {line}: {reason}")]
    Render {
        /// From 1; 0 where it is not known.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
    /// The template takes more than one of its [`ChatTemplateLimits`] allows.
    #[error("the chat template exceeds its limit of {limit}: {value}{}", in_line(*.line))]
    Limit {
        /// Which.
        limit: ChatTemplateLimit,
        /// What it is set to.
        value: u64,
        /// Where that was, from 1; 0 where it was in no line.
        line: usize,
    },
    /// There is no thread for the template to run on.
    #[error("no thread with a stack of {stack} bytes can run the chat template: {reason}")]
    Thread {
        /// Its bytes.
        stack: usize,
        /// What the system says.
        reason: String,
    },
}

fn in_line(line: usize) -> String {
    match line {
        0 => String::new(),
        _ => format!(", in line {line}"),
    }
}
