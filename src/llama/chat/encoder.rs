//! The tokens of a conversation.

use std::borrow::Cow;
use std::str;

use regex::Regex;
use serde_json::{Map, Value};

use super::template::ChatTemplate;
use super::{BREAK, ChatError, ChatMessage};
use crate::llama::error::LlamaError;
use crate::llama::model::Model;
use crate::llama::tokenizer::{EncodeOptions, TokenKind};

/// Turns conversations into a model's prompts.
///
/// Only the template can write control tokens. A message that has the name of one, say `<|im_end|>`, has that as text:
/// it cannot end its turn and speak for somebody else.
///
/// ```no_run
/// use ironbridge::Device;
/// use ironbridge::llama::{ChatEncoder, ChatMessage, Model, Sampler, SamplerOptions};
///
/// # fn main() -> Result<(), ironbridge::Error> {
/// let model = Model::open(&Device::open("default")?, "a-chat-model.gguf")?;
/// let chat = ChatEncoder::new(&model)?;
/// let mut session = model.session()?;
/// let mut messages = vec![ChatMessage::system("You are brief.")];
/// for question in ["Who was Ada Lovelace?", "When was she born?"] {
///     messages.push(ChatMessage::user(question));
///     let prompt = chat.encode(&messages)?;
///     let kept = session.keep_prefix(&prompt); // what was said before is not computed again
///     let sampler = Sampler::new(SamplerOptions::default())?;
///     let mut answer = String::new();
///     for piece in session.generate(&prompt[kept..], sampler, 256) {
///         answer.push_str(&piece?.text);
///     }
///     messages.push(ChatMessage::assistant(answer));
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ChatEncoder {
    model: Model,
    template: ChatTemplate,
    /// The names of the control tokens, where there are any.
    control: Option<Regex>,
}

impl ChatEncoder {
    /// With the template of the model's file.
    ///
    /// # Errors
    ///
    /// [`ChatError::NoTemplate`] and [`ChatError::Syntax`].
    pub fn new(model: &Model) -> Result<ChatEncoder, LlamaError> {
        let source = model.chat_template().ok_or(ChatError::NoTemplate)?;
        Ok(ChatEncoder::with_template(
            model,
            ChatTemplate::parse(source)?,
        ))
    }

    /// With another template, which gets the variables `bos_token` and `eos_token`.
    pub fn with_template(model: &Model, template: ChatTemplate) -> ChatEncoder {
        let tokenizer = model.tokenizer();
        let name = |token: Option<u32>| {
            let (bytes, _) = tokenizer.piece(token?)?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let template = template
            .with("bos_token", name(tokenizer.bos()).unwrap_or_default())
            .with("eos_token", name(tokenizer.eos()).unwrap_or_default());
        let pieces = (0..tokenizer.vocabulary_size()).filter_map(|token| tokenizer.piece(token));
        let control = pieces.filter(|(_, kind)| *kind == TokenKind::Control);
        let names = control.filter_map(|(bytes, _)| str::from_utf8(bytes).ok());
        ChatEncoder {
            control: any_of(names.filter(|name| !name.is_empty()).collect()),
            model: model.clone(),
            template,
        }
    }

    /// The template.
    pub fn template(&self) -> &ChatTemplate {
        &self.template
    }

    /// The tokens of the conversation up to where the model is to answer, with the token that begins a text where the
    /// model wants one.
    ///
    /// # Errors
    ///
    /// [`ChatError::Refused`] and [`ChatError::Render`].
    pub fn encode(&self, messages: &[ChatMessage]) -> Result<Vec<u32>, ChatError> {
        let guarded: Vec<_> = messages.iter().map(|message| self.guard(message)).collect();
        let text = self.template.render(&guarded, true)?;

        let tokenizer = self.model.tokenizer();
        let mut tokens = Vec::new();
        let mut start = 0;
        for name in self
            .control
            .iter()
            .flat_map(|control| control.find_iter(&text))
        {
            let part = unguarded(&text[start..name.start()]);
            tokenizer.encode_parts(&part, start == 0, false, &mut tokens);
            tokens.extend(tokenizer.token(name.as_str()));
            start = name.end();
        }
        let rest = unguarded(&text[start..]);
        tokenizer.encode_parts(&rest, start == 0, false, &mut tokens);

        // Most templates write it themselves.
        let begin = EncodeOptions {
            add_special: true,
            parse_special: false,
        };
        let begin = tokenizer.encode_with("", begin).first().copied();
        if begin.is_some() && begin == tokenizer.bos() && tokens.first() != begin.as_ref() {
            tokens.splice(..0, begin);
        }
        Ok(tokens)
    }

    /// The message with every name of a control token broken behind its first character.
    fn guard(&self, message: &ChatMessage) -> ChatMessage {
        let mut guarded = ChatMessage::new(
            self.guard_text(&message.role),
            self.guard_text(&message.content),
        );
        guarded.fields = self.guard_fields(&message.fields);
        guarded
    }

    fn guard_text(&self, text: &str) -> String {
        let doubled = text.replace(BREAK, &format!("{BREAK}{BREAK}"));
        let Some(control) = &self.control else {
            return doubled;
        };
        let broken = control.replace_all(&doubled, |name: &regex::Captures| {
            let mut rest = name[0].chars();
            let first = rest.next().expect("a name is not empty");
            format!("{first}{BREAK}{}", rest.as_str())
        });
        broken.into_owned()
    }

    /// The arguments of a tool's call are the model's words, and so are the names in them.
    fn guard_fields(&self, fields: &Map<String, Value>) -> Map<String, Value> {
        let guarded = fields
            .iter()
            .map(|(name, value)| (self.guard_text(name), self.guard_value(value)));
        guarded.collect()
    }

    fn guard_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.guard_text(text).into(),
            Value::Array(items) => items.iter().map(|item| self.guard_value(item)).collect(),
            Value::Object(fields) => self.guard_fields(fields).into(),
            other => other.clone(),
        }
    }
}

/// The text with its breaks taken out again.
fn unguarded(text: &str) -> Cow<'_, str> {
    if !text.contains(BREAK) {
        return text.into();
    }
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            BREAK => plain.extend(characters.next()),
            other => plain.push(other),
        }
    }
    plain.into()
}

/// Matches any of the names, the longest of those that start at one place.
fn any_of(mut names: Vec<&str>) -> Option<Regex> {
    names.sort_unstable_by_key(|name| std::cmp::Reverse(name.len()));
    let alternatives: Vec<_> = names.into_iter().map(regex::escape).collect();
    // A vocabulary whose names are too many for a pattern is none that a model was trained on.
    (!alternatives.is_empty()).then(|| Regex::new(&alternatives.join("|")).ok())?
}
