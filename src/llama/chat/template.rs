//! The template: a conversation in, a text out.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, ErrorKind};
use regex::Regex;
use serde::Serialize;

use super::{ChatError, ChatMessage, python};

/// Instructions of the template's language that one conversation may take: a hundred times what long ones take.
const FUEL: u64 = 10_000_000;

/// The name that the environment knows the template by.
const NAME: &str = "chat";

/// A chat template, with the meaning that Hugging Face's `apply_chat_template` gives it.
///
/// ```
/// use ironbridge::llama::{ChatMessage, ChatTemplate};
///
/// # fn main() -> Result<(), ironbridge::llama::ChatError> {
/// let template = ChatTemplate::parse(
///     "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}{{ eos_token }}\n{% endfor %}\
///      {% if add_generation_prompt %}<|assistant|>{% endif %}",
/// )?
/// .with("eos_token", "</s>");
/// let text = template.render(&[ChatMessage::user("Hello!")], true)?;
/// assert_eq!(text, "<|user|>Hello!</s>\n<|assistant|>");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    variables: BTreeMap<String, Value>,
}

/// What a template gave to `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refusal(String);

impl ChatTemplate {
    /// Reads a template.
    ///
    /// # Errors
    ///
    /// [`ChatError::Syntax`].
    pub fn parse(source: &str) -> Result<ChatTemplate, ChatError> {
        let mut environment = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        // As transformers sets Jinja up, in utils/chat_template_utils.py.
        syntax.trim_blocks(true).lstrip_blocks(true);
        environment.set_syntax(syntax.build().expect("the delimiters are Jinja's own"));
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_fuel(Some(FUEL));
        environment.add_function(
            "raise_exception",
            |message: String| -> Result<Value, Error> {
                Err(Error::new(ErrorKind::InvalidOperation, "raise_exception")
                    .with_source(Refusal(message)))
            },
        );
        environment.add_function("strftime_now", python::strftime_now);
        environment.add_filter("tojson", python::to_json);
        environment.add_test("iterable", python::is_iterable);
        environment.set_formatter(python::format);
        environment
            .add_template_owned(NAME, without_generation_marks(source))
            .map_err(|error| ChatError::Syntax {
                line: error.line().unwrap_or(1),
                reason: reason(&error),
            })?;
        // transformers always gives these, and templates ask whether they are none rather than defined.
        let none = ["tools", "documents"].map(|name| (name.to_owned(), Value::from(())));
        Ok(ChatTemplate {
            environment,
            variables: none.into(),
        })
    }

    /// Gives the template a variable: `bos_token` and its like, `tools`, `enable_thinking`, whatever it asks for.
    ///
    /// A value that cannot be serialised is undefined.
    pub fn with(mut self, name: impl Into<String>, value: impl Serialize) -> ChatTemplate {
        self.variables
            .insert(name.into(), Value::from(Serde(value)));
        self
    }

    /// The text of a conversation; with `add_generation_prompt` up to where the model is to speak.
    ///
    /// # Errors
    ///
    /// [`ChatError::Refused`] when the template calls `raise_exception`, [`ChatError::Render`] when it does what cannot
    /// be done or does not come to an end.
    pub fn render(
        &self,
        messages: &[ChatMessage],
        add_generation_prompt: bool,
    ) -> Result<String, ChatError> {
        let mut context = self.variables.clone();
        context.insert("messages".into(), Value::from(Serde(messages)));
        context.insert("add_generation_prompt".into(), add_generation_prompt.into());
        let template = self.environment.get_template(NAME);
        let rendered = template.and_then(|template| template.render(context));
        rendered.map_err(|error| match refusal(&error) {
            Some(message) => ChatError::Refused(message),
            None => ChatError::Render {
                line: error.line().unwrap_or(0),
                reason: reason(&error),
            },
        })
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ChatTemplate")
            .field("variables", &self.variables)
            .finish_non_exhaustive()
    }
}

/// `{% generation %}` marks what to train on and changes no text: an extension of transformers' own.
fn without_generation_marks(source: &str) -> String {
    let tag = Regex::new(r"(\{%[-+]?\s*)(end)?generation(\s*[-+]?%\})")
        .expect("the pattern is a constant");
    let replaced = tag.replace_all(source, |captures: &regex::Captures| {
        let (open, close) = (&captures[1], &captures[3]);
        match captures.get(2) {
            Some(_) => format!("{open}endif{close}"),
            None => format!("{open}if true{close}"),
        }
    });
    replaced.into_owned()
}

fn refusal(error: &Error) -> Option<String> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(Refusal(message)) = cause.downcast_ref() {
            return Some(message.clone());
        }
        source = cause.source();
    }
    None
}

/// One line.
fn reason(error: &Error) -> String {
    let kind = error.kind().to_string();
    match error.detail() {
        Some(detail) => format!("{kind}: {detail}"),
        None => kind,
    }
}
