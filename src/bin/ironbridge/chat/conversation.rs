//! A conversation with a model, kept within the model's context.

use std::error::Error;
use std::io;

use ironbridge::llama::{
    CancelToken, ChatEncoder, ChatMessage, GenerationOptions, GenerationStats, LlamaError, Model,
    Sampler, SamplerError, SamplerOptions, Session, SessionOptions, Stop, WhenFull,
};

pub struct ConversationOptions {
    pub sampler: SamplerOptions,
    /// Tokens in an answer at most.
    pub limit: usize,
    pub stop_strings: Vec<String>,
    pub session: SessionOptions,
}

pub struct Conversation {
    encoder: ChatEncoder,
    session: Session,
    options: ConversationOptions,
    system: Option<String>,
    messages: Vec<ChatMessage>,
    /// How many answers there were, also of conversations before: each draws differently.
    answers: u64,
}

pub struct Answer {
    pub text: String,
    pub stop: Option<Stop>,
    pub stats: GenerationStats,
    /// Tokens of the prompt that were not computed again.
    pub kept_tokens: usize,
    /// Messages that had to go before the prompt fitted.
    pub forgotten_messages: usize,
    /// Whether the context filled up during the answer.
    pub forgotten_tokens: bool,
    /// Tokens that the context holds after it.
    pub position: usize,
}

impl ConversationOptions {
    /// What can be checked before a model is loaded.
    pub fn check(&self) -> Result<(), SamplerError> {
        Sampler::new(self.sampler).map(|_| ())
    }
}

impl Conversation {
    pub fn new(
        model: &Model,
        encoder: ChatEncoder,
        options: ConversationOptions,
    ) -> Result<Conversation, ironbridge::Error> {
        Ok(Conversation {
            session: Session::new(model, options.session)?,
            encoder,
            options,
            system: None,
            messages: Vec::new(),
            answers: 0,
        })
    }

    /// A new conversation with that system prompt.
    pub fn begin(&mut self, system: Option<String>) {
        self.system = system;
        self.clear();
    }

    /// A new conversation with the same system prompt.
    pub fn clear(&mut self) {
        let system = self.system.iter().map(ChatMessage::system);
        self.messages = system.collect();
    }

    pub fn system(&self) -> Option<&str> {
        self.system.as_deref()
    }

    /// How many tokens there is room for.
    pub fn context(&self) -> usize {
        self.session.context()
    }

    /// Takes the last message of the user and its answer back.
    pub fn take_back(&mut self) -> Option<String> {
        let last = self
            .messages
            .iter()
            .rposition(|message| message.role == "user")?;
        let message = self.messages.drain(last..).next()?;
        Some(message.content)
    }

    /// Whether the conversation can go on after this error.
    pub fn survives(error: &(dyn Error + 'static)) -> bool {
        let of_the_model = match error.downcast_ref() {
            Some(ironbridge::Error::Llama(error)) => Some(error),
            _ => error.downcast_ref(),
        };
        matches!(
            of_the_model,
            Some(LlamaError::Chat(_) | LlamaError::ContextFull { .. })
        )
    }

    /// The model's answer to `message`, shown piece by piece. An answer that was cut short stays in the conversation as
    /// far as it came; a message without any answer does not.
    ///
    /// # Errors
    ///
    /// [`LlamaError::Chat`] when the template refuses the conversation, [`LlamaError::ContextFull`] when the message
    /// alone is too long, those of `show` and the device's.
    pub fn answer(
        &mut self,
        message: &str,
        cancel: &CancelToken,
        show: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> Result<Answer, Box<dyn Error>> {
        self.messages.push(ChatMessage::user(message));
        let answer = self.write(cancel, show);
        match &answer {
            Ok(answer) if !answer.text.is_empty() => {
                self.messages.push(ChatMessage::assistant(&answer.text));
            }
            _ => drop(self.messages.pop()),
        }
        answer
    }

    fn write(
        &mut self,
        cancel: &CancelToken,
        show: &mut dyn FnMut(&str) -> io::Result<()>,
    ) -> Result<Answer, Box<dyn Error>> {
        let (prompt, forgotten_messages) = self.fit()?;
        let mut sampler = self.options.sampler;
        sampler.seed = sampler.seed.wrapping_add(self.answers);
        self.answers += 1;
        let options = GenerationOptions {
            limit: Some(self.options.limit),
            stop_strings: self.options.stop_strings.clone(),
            cancel: cancel.clone(),
            when_full: WhenFull::Forget {
                keep: self.beginning(&prompt),
            },
            ..Default::default()
        };
        let kept_tokens = self.session.keep_prefix(&prompt);
        let sampler = Sampler::new(sampler).map_err(LlamaError::from)?;
        let mut generation = self
            .session
            .generate_with(&prompt[kept_tokens..], sampler, options);
        let mut text = String::new();
        for piece in generation.by_ref() {
            let piece = piece?.text;
            // SentencePiece's models begin a turn with a space.
            let piece = match text.is_empty() {
                true => piece.trim_start(),
                false => &piece,
            };
            show(piece)?;
            text.push_str(piece);
        }
        let (stop, stats) = (generation.stop(), generation.stats());
        let position = self.session.position();
        Ok(Answer {
            text,
            stop,
            stats,
            kept_tokens,
            forgotten_messages,
            // The last token that is written is not read.
            forgotten_tokens: stats.generated_tokens > 0
                && position + 1 < prompt.len() + stats.generated_tokens,
            position,
        })
    }

    /// The prompt, after as many of the oldest messages are forgotten as it takes for an answer to have a quarter of
    /// the context, and how many those are.
    fn fit(&mut self) -> Result<(Vec<u32>, usize), LlamaError> {
        let context = self.session.context();
        let room = self.options.limit.min(context / 4).max(1);
        let is = |role: &'static str| move |message: &&ChatMessage| message.role == role;
        let first = self.messages.iter().take_while(is("system")).count();
        // A message that cannot be answered must not cost those before it.
        let mut messages = self.messages.clone();
        let mut forgotten = 0;
        loop {
            let prompt = self.encoder.encode(&messages)?;
            let behind = messages.iter().skip(first + 1);
            let turn = 1 + behind.take_while(|message| !is("user")(message)).count();
            let is_last = first + turn >= messages.len();
            if prompt.len() > context && is_last {
                let tokens = prompt.len();
                return Err(LlamaError::ContextFull { tokens, context });
            }
            // The last message may leave room for less of an answer.
            if prompt.len() + room <= context || is_last {
                self.messages = messages;
                return Ok((prompt, forgotten));
            }
            messages.drain(first..first + turn);
            forgotten += turn;
        }
    }

    /// How many tokens at the start of a prompt come before the user's first word: what no two conversations differ in.
    fn beginning(&self, prompt: &[u32]) -> usize {
        let system = self
            .messages
            .iter()
            .filter(|message| message.role == "system");
        let mut other: Vec<ChatMessage> = system.cloned().collect();
        other.push(ChatMessage::user("\u{2205}"));
        let other = self.encoder.encode(&other).unwrap_or_default();
        prompt
            .iter()
            .zip(&other)
            .take_while(|(one, other)| one == other)
            .count()
    }
}

#[cfg(test)]
mod tests {
    use ironbridge::Device;
    use ironbridge::llama::ChatTemplate;
    use serial_test::serial;

    use super::*;

    fn conversation() -> Conversation {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/assets/tiny-rustbook-q8_0.gguf"
        );
        let model = Model::open(&Device::open("cpu").unwrap(), path).unwrap();
        let template = "{% for message in messages %}{{ message.content }}\n{% endfor %}";
        let template = ChatTemplate::parse(template).unwrap();
        let encoder = ChatEncoder::with_template(&model, template);
        let options = ConversationOptions {
            sampler: SamplerOptions::default(),
            limit: 6,
            stop_strings: Vec::new(),
            session: SessionOptions {
                context: Some(64),
                ..Default::default()
            },
        };
        Conversation::new(&model, encoder, options).unwrap()
    }

    fn say(conversation: &mut Conversation, message: &str) -> Result<Answer, Box<dyn Error>> {
        conversation.answer(message, &CancelToken::new(), &mut |_| Ok(()))
    }

    #[test]
    #[serial]
    fn a_message_that_is_too_long_costs_no_other() {
        let mut conversation = conversation();
        conversation.begin(Some("Be brief.".into()));
        say(&mut conversation, "Ownership is").unwrap();
        let error = say(&mut conversation, &"word ".repeat(64)).err().unwrap();
        assert!(Conversation::survives(error.as_ref()), "{error}");
        assert_eq!(conversation.messages.len(), 3);
        say(&mut conversation, "Unsafe Rust").unwrap();
        assert_eq!(conversation.messages.len(), 5);
        assert_eq!(conversation.take_back().as_deref(), Some("Unsafe Rust"));
        conversation.clear();
        assert_eq!(conversation.messages, [ChatMessage::system("Be brief.")]);
        assert!(conversation.take_back().is_none());
    }

    #[test]
    #[serial]
    fn what_was_not_answered_is_not_said() {
        let mut conversation = conversation();
        let cancel = CancelToken::new();
        cancel.cancel();
        let answer = conversation.answer("Ownership is", &cancel, &mut |_| Ok(()));
        let answer = answer.unwrap();
        assert_eq!(
            (answer.stop, answer.text.as_str()),
            (Some(Stop::Cancelled), "")
        );
        assert!(!answer.forgotten_tokens);
        assert!(conversation.messages.is_empty());
    }

    #[test]
    #[serial]
    fn an_answer_goes_on_through_a_full_context() {
        let mut conversation = conversation();
        conversation.options.limit = 100;
        let answer = say(&mut conversation, "Ownership is").unwrap();
        assert_eq!(answer.stats.generated_tokens, 100);
        assert!(answer.forgotten_tokens && answer.position <= 64);
    }
}
