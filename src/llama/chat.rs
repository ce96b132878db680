//! Conversations, written as a model was trained to read them.
//!
//! A model file says how in a template in Jinja's language, which the `minijinja` crate runs as Hugging Face's
//! `transformers` does ([`template`]); [`encoder`] makes tokens of the outcome.

mod encoder;
mod python;
mod template;

pub use encoder::ChatEncoder;
pub use template::ChatTemplate;

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
    /// know.
    #[error("the model's chat template refuses the conversation: {0}")]
    Refused(String),
    /// The template does something that cannot be done.
    #[error("the chat template fails in line {line}: {reason}")]
    Render {
        /// From 1; 0 where it is not known.
        line: usize,
        /// What is wrong there.
        reason: String,
    },
}
