//! `iron_chat`: conversations in JSON, written by a template.

use std::ffi::c_char;

use super::arguments::{Room, optional_string, string};
use super::call::{Failure, Outcome, enter};
use super::handle::{Place, acquire, handled, references};
use super::structs::{self, limit, truth};
use crate::ffi;

#[cfg(feature = "chat")]
type Chat = crate::llama::ChatEncoder;

/// Nothing makes one in a build without chat templates.
#[cfg(not(feature = "chat"))]
pub enum Chat {}

handled!(iron_chat, c"chat", Chat);
references!(iron_chat, iron_chat_retain, iron_chat_release);

/// What the caller's options say.
#[cfg_attr(
    not(feature = "chat"),
    expect(dead_code, reason = "checked, and then refused")
)]
struct Settings<'a> {
    source: Option<&'a str>,
    variables: Option<&'a str>,
    max_source: usize,
    max_nesting: usize,
    max_output: usize,
    max_memory: usize,
    max_steps: u64,
}

/// More levels than any template has, whose stack is still to be had.
const MOST_LEVELS: u64 = 4096;

impl Settings<'_> {
    fn check(given: &ffi::iron_chat_options) -> Outcome<Settings<'_>> {
        if given.max_nesting > MOST_LEVELS {
            return Err(Failure::out_of_range(format!(
                "options.max_nesting: {}, at most {MOST_LEVELS} are possible",
                given.max_nesting
            )));
        }
        Ok(Settings {
            // SAFETY: the caller's pointer, as the header asks.
            source: unsafe { optional_string(given.source, "options.source") }?,
            // SAFETY: as above.
            variables: unsafe { optional_string(given.variables, "options.variables") }?,
            max_source: limit("options.max_source", given.max_source, 1 << 20)?,
            max_nesting: limit("options.max_nesting", given.max_nesting, 100)?,
            max_output: limit("options.max_output", given.max_output, 16 << 20)?,
            max_memory: limit("options.max_memory", given.max_memory, 64 << 20)?,
            max_steps: match given.max_steps {
                0 => 5_000_000,
                steps => steps,
            },
        })
    }
}

#[cfg(feature = "chat")]
mod encoder {
    use serde_json::Value as Json;

    use super::{Chat, Settings};
    use crate::capi::call::{Failure, Outcome};
    use crate::llama::{ChatError, ChatMessage, ChatTemplate, ChatTemplateLimits, Model};

    pub fn make(model: &Model, settings: Settings<'_>) -> Outcome<Chat> {
        let limits = ChatTemplateLimits::default()
            .with_source(settings.max_source)
            .with_nesting(settings.max_nesting)
            .with_output(settings.max_output)
            .with_memory(settings.max_memory)
            .with_steps(settings.max_steps);
        let source = settings.source.or(model.chat_template());
        let source = source.ok_or(ChatError::NoTemplate)?;
        let mut template = ChatTemplate::parse_with(source, limits)?;
        let variables = settings
            .variables
            .map(|text| json(text, "options.variables"));
        match variables.transpose()? {
            None => (),
            Some(Json::Object(variables)) => {
                for (name, value) in variables {
                    template = template.with(name, value);
                }
            }
            Some(_) => return Err(Failure::invalid("options.variables: is no JSON object")),
        }
        Ok(Chat::with_template(model, template))
    }

    pub fn encode(chat: &Chat, messages: &str) -> Outcome<Vec<u32>> {
        Ok(chat.encode(&conversation(messages)?)?)
    }

    pub fn render(chat: &Chat, messages: &str, prompts: bool) -> Outcome<String> {
        Ok(chat.template().render(&conversation(messages)?, prompts)?)
    }

    fn json(text: &str, argument: &str) -> Outcome<Json> {
        serde_json::from_str(text)
            .map_err(|error| Failure::invalid(format!("{argument}: is no JSON: {error}")))
    }

    fn conversation(messages: &str) -> Outcome<Vec<ChatMessage>> {
        let Json::Array(messages) = json(messages, "messages")? else {
            return Err(Failure::invalid("messages: is no JSON array"));
        };
        let messages = messages.iter().enumerate();
        messages
            .map(|(place, value)| message(place, value))
            .collect()
    }

    fn message(place: usize, value: &Json) -> Outcome<ChatMessage> {
        let wrong = |what: &str| Failure::invalid(format!("messages[{place}]{what}"));
        let fields = value
            .as_object()
            .ok_or_else(|| wrong(": is no JSON object"))?;
        let text = |name: &str| fields.get(name).and_then(Json::as_str);
        let role = text("role").ok_or_else(|| wrong(".role: is no text"))?;
        let mut message = ChatMessage::new(role, text("content").unwrap_or_default());
        match fields.get("content") {
            Some(Json::String(_)) => (),
            // Some templates know lists of parts.
            Some(parts @ Json::Array(_)) => message = message.with("content", parts),
            // A message that calls tools may say nothing.
            None | Some(Json::Null) if fields.len() > 1 => message = message.with("content", ()),
            _ => return Err(wrong(".content: is no text or list")),
        }
        for (name, value) in fields {
            if !["role", "content"].contains(&name.as_str()) {
                message = message.with(name, value);
            }
        }
        Ok(message)
    }
}

#[cfg(not(feature = "chat"))]
mod encoder {
    use super::{Chat, Settings};
    use crate::capi::call::{Failure, Outcome};
    use crate::error::Status;
    use crate::llama::Model;

    pub fn make(_: &Model, settings: Settings<'_>) -> Outcome<Chat> {
        let Settings {
            source: _,
            variables: _,
            max_source: _,
            max_nesting: _,
            max_output: _,
            max_memory: _,
            max_steps: _,
        } = settings;
        let message = "this library was built without the feature `chat`";
        Err(Failure::new(Status::Unsupported, message))
    }

    pub fn encode(chat: &Chat, _: &str) -> Outcome<Vec<u32>> {
        match *chat {}
    }

    pub fn render(chat: &Chat, _: &str, _: bool) -> Outcome<String> {
        match *chat {}
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_chat_create(
    model: *mut ffi::iron_model,
    options: *const ffi::iron_chat_options,
    chat: *mut *mut ffi::iron_chat,
) -> ffi::iron_status {
    enter(c"iron_chat_create", || {
        // SAFETY: the caller's pointer, as the header asks.
        let place = unsafe { Place::clear(chat, "chat") }?;
        let model = acquire(model)?;
        // SAFETY: as above.
        let given = unsafe { structs::read(options, c"options") }?;
        place.fill(encoder::make(&model, Settings::check(&given)?)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_chat_encode(
    chat: *mut ffi::iron_chat,
    messages: *const c_char,
    tokens: *mut u32,
    capacity: usize,
    count: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_chat_encode", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room = unsafe { Room::new((tokens, capacity), "tokens", (count, "count")) }?;
        let chat = acquire(chat)?;
        // SAFETY: as above.
        let messages = unsafe { string(messages, "messages") }?;
        room.write(&encoder::encode(&chat, messages)?)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn iron_chat_render(
    chat: *mut ffi::iron_chat,
    messages: *const c_char,
    prompts: u32,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> ffi::iron_status {
    enter(c"iron_chat_render", || {
        // SAFETY: the caller's pointers, as the header asks.
        let room = unsafe { Room::new((text, capacity), "text", (length, "length")) }?;
        let chat = acquire(chat)?;
        let prompts = truth("prompts", prompts)?;
        // SAFETY: as above.
        let messages = unsafe { string(messages, "messages") }?;
        room.write_text(encoder::render(&chat, messages, prompts)?.as_bytes())
    })
}
