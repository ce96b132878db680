//! The template: a conversation in, a text out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::{fmt, thread};

use serde::Serialize;
use serde_json::Value as Json;

use super::jinja::{Failure, parser};
use super::limits::{ChatTemplateLimit, ChatTemplateLimits};
use super::{ChatError, ChatMessage, Field};
use crate::llama::chat::jinja::budget::Budget;
use crate::llama::chat::jinja::evaluator::Evaluator;
use crate::llama::chat::jinja::syntax::Template;
use crate::llama::chat::jinja::value::{ListBuilder, MapBuilder, Value, from_json};

/// Stack for each level that may be open: several times what one takes in a build without optimization.
const LEVEL_STACK: usize = 32 << 10;

/// Stack for what nests no further.
const BASE_STACK: usize = 256 << 10;

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
    template: Arc<Template>,
    limits: ChatTemplateLimits,
    variables: BTreeMap<String, Json>,
}

impl ChatTemplate {
    /// Reads a template, which may take what the default limits allow.
    ///
    /// # Errors
    ///
    /// [`ChatError::Syntax`] and [`ChatError::Limit`].
    pub fn parse(source: &str) -> Result<ChatTemplate, ChatError> {
        ChatTemplate::parse_with(source, ChatTemplateLimits::default())
    }

    /// Reads a template, which may take what `limits` allow, now and whenever it is rendered.
    ///
    /// # Errors
    ///
    /// [`ChatError::Syntax`] and [`ChatError::Limit`].
    pub fn parse_with(source: &str, limits: ChatTemplateLimits) -> Result<ChatTemplate, ChatError> {
        if source.len() > limits.source {
            return Err(beyond(&limits, ChatTemplateLimit::Source, 0));
        }
        let template = on_own_stack(&limits, || {
            parser::parse(source, limits.nesting).map_err(|error| match error.reason {
                Some(reason) => ChatError::Syntax {
                    line: error.line as usize,
                    reason,
                },
                None => beyond(&limits, ChatTemplateLimit::Nesting, error.line),
            })
        })?;
        // transformers always gives these, and templates ask whether they are none rather than defined.
        let none = ["tools", "documents"].map(|name| (name.to_owned(), Json::Null));
        Ok(ChatTemplate {
            template: Arc::new(template),
            limits,
            variables: none.into(),
        })
    }

    /// Gives the template a variable: `bos_token` and its like, `tools`, `enable_thinking`, whatever it asks for.
    ///
    /// A value that JSON cannot hold is undefined.
    pub fn with(mut self, name: impl Into<String>, value: impl Serialize) -> ChatTemplate {
        let name = name.into();
        match serde_json::to_value(value) {
            Ok(value) => self.variables.insert(name, value),
            Err(_) => self.variables.remove(&name),
        };
        self
    }

    /// The text of a conversation; with `add_generation_prompt` up to where the model is to speak.
    ///
    /// It is written on a thread of its own, whose stack is large enough for every template within the limits.
    ///
    /// # Errors
    ///
    /// [`ChatError::Refused`] when the template calls `raise_exception`, [`ChatError::Render`] when it does what cannot
    /// be done, [`ChatError::Limit`] when it takes more than it may.
    pub fn render(
        &self,
        messages: &[ChatMessage],
        add_generation_prompt: bool,
    ) -> Result<String, ChatError> {
        on_own_stack(&self.limits, || {
            let rendered = self.evaluate(messages, add_generation_prompt);
            rendered.map_err(|(failure, line)| match failure {
                Failure::Refused(message) => ChatError::Refused(message),
                Failure::Limit(limit) => beyond(&self.limits, limit, line),
                Failure::Fault(reason) => ChatError::Render {
                    line: line as usize,
                    reason,
                },
            })
        })
    }

    fn evaluate(
        &self,
        messages: &[ChatMessage],
        add_generation_prompt: bool,
    ) -> Result<String, (Failure, u32)> {
        let budget = Budget::new(self.limits.clone());
        let evaluator = || {
            let mut evaluator = Evaluator::new(&self.template, budget.clone())?;
            for (name, value) in &self.variables {
                // Others may be large, and would be for nothing.
                if evaluator.knows(name) {
                    evaluator.set_global(name, from_json(&budget, value)?);
                }
            }
            let mut conversation = ListBuilder::new(&budget)?;
            for message in messages {
                let mut fields = MapBuilder::new(&budget)?;
                for (name, field) in message.fields() {
                    let value = match field {
                        Field::Text(text) => budget.text(text)?,
                        Field::Value(value) => from_json(&budget, value)?,
                    };
                    fields.push(budget.text(name)?, value)?;
                }
                conversation.push(fields.finish(&budget)?)?;
            }
            evaluator.set_global("messages", conversation.finish(&budget)?);
            evaluator.set_global("add_generation_prompt", Value::Bool(add_generation_prompt));
            Ok(evaluator)
        };
        evaluator().map_err(|failure| (failure, 0))?.run()
    }
}

impl fmt::Debug for ChatTemplate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ChatTemplate")
            .field("limits", &self.limits)
            .field("variables", &self.variables)
            .finish_non_exhaustive()
    }
}

fn beyond(limits: &ChatTemplateLimits, limit: ChatTemplateLimit, line: u32) -> ChatError {
    ChatError::Limit {
        limit,
        value: limits.value(limit),
        line: line as usize,
    }
}

/// On a thread whose stack suffices for all levels that may be open, whatever the caller's has left.
fn on_own_stack<T: Send>(
    limits: &ChatTemplateLimits,
    run: impl FnOnce() -> Result<T, ChatError> + Send,
) -> Result<T, ChatError> {
    let levels = limits
        .nesting
        .saturating_mul(ChatTemplateLimits::EVALUATION_LEVELS);
    // More than any address space has is as much too large.
    let stack = levels
        .saturating_mul(LEVEL_STACK)
        .saturating_add(BASE_STACK)
        .min(1 << 46);
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("chat template".into());
        match builder.stack_size(stack).spawn_scoped(scope, run) {
            Ok(thread) => match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            },
            Err(error) => Err(ChatError::Thread {
                stack,
                reason: error.to_string(),
            }),
        }
    })
}
