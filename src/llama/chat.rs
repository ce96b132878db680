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

use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

use super::quote::one_line;

/// A noncharacter, which no text has: it breaks the names of control tokens in messages while the template runs. A
/// template that writes values as Python or JSON has them must not escape it.
const BREAK: char = '\u{FDD0}';

/// Characters of a template's refusal that are kept.
const REFUSAL_CHARACTERS: usize = 1000;

/// One message of a conversation.
///
/// Templates may read more of it than who speaks and what is said, a call of a tool for one:
///
/// ```
/// use ironbridge::llama::ChatMessage;
/// use serde_json::json;
///
/// let call = json!([{"type": "function", "function": {"name": "weather", "arguments": {"city": "Paris"}}}]);
/// let messages = [
///     ChatMessage::user("How warm is it in Paris?"),
///     ChatMessage::assistant("").with("content", ()).with("tool_calls", call),
///     ChatMessage::new("tool", "21 °C").with("name", "weather"),
/// ];
/// # assert!(serde_json::to_value(&messages[1]).unwrap().get("content").is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChatMessage {
    /// Who speaks: `"system"`, `"user"`, `"assistant"`, or whatever else the template knows.
    pub role: String,
    /// What is said.
    pub content: String,
    /// What a template sees beside these two, or in their place.
    fields: Map<String, Value>,
}

impl ChatMessage {
    /// What `role` says.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> ChatMessage {
        ChatMessage {
            role: role.into(),
            content: content.into(),
            fields: Map::new(),
        }
    }

    /// Gives the template a field of the message: `tool_calls`, `tool_call_id`, `reasoning_content`, whatever it reads.
    /// One named `role` or `content` takes the place of the text; some templates know lists of parts.
    ///
    /// What is none in JSON, `()` for one, is a field that is not there, as transformers has it since its version 5:
    /// templates write "None" otherwise. A value that JSON cannot hold is the same as none.
    pub fn with(mut self, name: impl Into<String>, value: impl Serialize) -> ChatMessage {
        let name = name.into();
        match (
            name.as_str(),
            serde_json::to_value(value).unwrap_or_default(),
        ) {
            ("role", Value::String(text)) => self.role = text,
            ("content", Value::String(text)) => self.content = text,
            (_, value) => {
                self.fields.insert(name, value);
                return self;
            }
        }
        self.fields.remove(&name);
        self
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

    /// All that the template sees, `role` and `content` first.
    fn fields(&self) -> impl Iterator<Item = (&str, Field<'_>)> {
        let texts = [("role", &self.role), ("content", &self.content)];
        let first = texts.map(|(name, text)| match self.fields.get(name) {
            Some(instead) => (name, Field::Value(instead)),
            None => (name, Field::Text(text)),
        });
        let others = self.fields.iter();
        let others = others.map(|(name, value)| (name.as_str(), Field::Value(value)));
        let others = others.filter(|(name, _)| !["role", "content"].contains(name));
        let all = first.into_iter().chain(others);
        all.filter(|(_, field)| !matches!(field, Field::Value(Value::Null)))
    }
}

/// A field of a message.
#[derive(serde::Serialize)]
#[serde(untagged)]
enum Field<'a> {
    Text(&'a str),
    Value(&'a Value),
}

impl Serialize for ChatMessage {
    /// As the template sees it.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields())
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
