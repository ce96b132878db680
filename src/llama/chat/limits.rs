//! How much a chat template may take. It is a program in the file of a model, hence a stranger's.

use std::fmt;

/// How much reading and running a chat template may take: a program of a stranger, as it comes with a model.
///
/// A template that goes beyond one of them ends with [`ChatError::Limit`](super::ChatError::Limit). The defaults are
/// far from what the templates of real models take: of 70 published ones the longest has 33 KB, and none nests more
/// than 9 levels.
///
/// ```
/// use ironbridge::llama::{ChatError, ChatMessage, ChatTemplate, ChatTemplateLimit, ChatTemplateLimits};
///
/// # fn main() -> Result<(), ChatError> {
/// let limits = ChatTemplateLimits::default().with_output(10);
/// let template = ChatTemplate::parse_with("{{ messages[0].content }}", limits)?;
/// assert!(template.render(&[ChatMessage::user("ten bytes.")], true).is_ok());
/// let error = template.render(&[ChatMessage::user("eleven byte")], true).unwrap_err();
/// assert!(matches!(error, ChatError::Limit { limit: ChatTemplateLimit::Output, value: 10, .. }));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChatTemplateLimits {
    /// Bytes of the template itself: 1 MiB.
    pub source: usize,
    /// Levels of brackets and blocks in one another, and of values in one another: 100. Macros and recursive loops may
    /// call themselves until [five times](ChatTemplateLimits::EVALUATION_LEVELS) as many levels are open.
    pub nesting: usize,
    /// Bytes of the text that it writes: 16 MiB.
    pub output: usize,
    /// Bytes of the values that exist at one time, among them the conversation: 64 MiB.
    pub memory: usize,
    /// Steps: 5 million, which take less than a second. A statement, an expression, a turn of a loop and 64 bytes that
    /// are copied or compared are one step each. They are counted and not timed, so that a conversation has the same
    /// outcome on every machine.
    pub steps: u64,
}

impl ChatTemplateLimits {
    /// Levels that may be open while a template runs, for each level of [`nesting`](ChatTemplateLimits::nesting).
    pub const EVALUATION_LEVELS: usize = 5;

    /// With another [`source`](ChatTemplateLimits::source).
    pub fn with_source(mut self, bytes: usize) -> ChatTemplateLimits {
        self.source = bytes;
        self
    }

    /// With another [`nesting`](ChatTemplateLimits::nesting). The thread that runs the template reserves 160 KiB of
    /// address space for each level.
    pub fn with_nesting(mut self, levels: usize) -> ChatTemplateLimits {
        self.nesting = levels;
        self
    }

    /// With another [`output`](ChatTemplateLimits::output).
    pub fn with_output(mut self, bytes: usize) -> ChatTemplateLimits {
        self.output = bytes;
        self
    }

    /// With another [`memory`](ChatTemplateLimits::memory).
    pub fn with_memory(mut self, bytes: usize) -> ChatTemplateLimits {
        self.memory = bytes;
        self
    }

    /// With another [`steps`](ChatTemplateLimits::steps).
    pub fn with_steps(mut self, steps: u64) -> ChatTemplateLimits {
        self.steps = steps;
        self
    }

    /// What `limit` is set to.
    pub fn value(&self, limit: ChatTemplateLimit) -> u64 {
        match limit {
            ChatTemplateLimit::Source => self.source as u64,
            ChatTemplateLimit::Nesting => self.nesting as u64,
            ChatTemplateLimit::Output => self.output as u64,
            ChatTemplateLimit::Memory => self.memory as u64,
            ChatTemplateLimit::Steps => self.steps,
        }
    }
}

impl Default for ChatTemplateLimits {
    fn default() -> ChatTemplateLimits {
        ChatTemplateLimits {
            source: 1 << 20,
            nesting: 100,
            output: 16 << 20,
            memory: 64 << 20,
            steps: 5_000_000,
        }
    }
}

/// One of the [`ChatTemplateLimits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChatTemplateLimit {
    /// [`ChatTemplateLimits::source`].
    Source,
    /// [`ChatTemplateLimits::nesting`].
    Nesting,
    /// [`ChatTemplateLimits::output`].
    Output,
    /// [`ChatTemplateLimits::memory`].
    Memory,
    /// [`ChatTemplateLimits::steps`].
    Steps,
}

/// The limit's name and its unit: `output size, in bytes`.
impl fmt::Display for ChatTemplateLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            ChatTemplateLimit::Source => "source length, in bytes",
            ChatTemplateLimit::Nesting => "nesting, in levels",
            ChatTemplateLimit::Output => "output size, in bytes",
            ChatTemplateLimit::Memory => "memory, in bytes",
            ChatTemplateLimit::Steps => "time, in steps",
        })
    }
}
