//! `ironbridge chat`

mod conversation;
pub mod interrupt;
mod prompt;

use std::error::Error;
use std::io::{self, IsTerminal, Write, stdin};
use std::path::PathBuf;

use clap::Args;
use ironbridge::llama::{ChatEncoder, ChatTemplate, Stop};
use serde_json::json;

use crate::generate::{stop_name, token_limit};
use crate::input::read_text;
use crate::model_options::RunOptions;
use crate::output;
use crate::sampling_options::SamplingOptions;
use crate::terminal::{FAINT, STRONG, printable, report, say};
use conversation::{Answer, Conversation, ConversationOptions};
use interrupt::Interrupt;
use prompt::{Line, Prompt};

#[derive(Args)]
pub struct ChatArguments {
    #[command(flatten)]
    model: RunOptions,
    /// How the model is to behave
    #[arg(short, long, value_name = "TEXT")]
    system: Option<String>,
    /// A chat template in Jinja's language, in place of the model's own
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Tokens in an answer at most; -1: until it ends
    #[arg(
        short = 'n',
        long = "tokens",
        default_value = "1024",
        value_name = "N",
        value_parser = token_limit,
        allow_negative_numbers = true
    )]
    tokens: usize,
    /// End an answer before this text; can be given again
    #[arg(long = "stop", value_name = "TEXT")]
    stop_strings: Vec<String>,
    /// Remember no lines, and know none from before
    #[arg(long)]
    no_history: bool,
    /// Write each answer as a JSON object on one line
    #[arg(long)]
    json: bool,
    /// Write the answers and nothing else
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    sampling: SamplingOptions,
}

/// What `--temp` is when it is not given.
const TEMPERATURE: f32 = 0.7;

/// Those that the tabulator completes.
const COMMANDS: [&str; 5] = ["/help", "/clear", "/system ", "/retry", "/exit"];

const HELP: &str = "\
/help           this list
/clear          begin a new conversation; the system prompt stays
/system TEXT    give the model another system prompt and begin anew; without TEXT, show it
/retry          answer the last message again, differently
/exit           leave, as Ctrl-D does

Ctrl-C stops an answer. A line that ends in \\ goes on in the next one.";

pub fn run(arguments: &ChatArguments) -> Result<(), Box<dyn Error>> {
    let quiet = arguments.quiet || arguments.json;
    let options = ConversationOptions {
        sampler: arguments.sampling.sampler_options(TEMPERATURE),
        limit: arguments.tokens,
        stop_strings: arguments.stop_strings.clone(),
        session: arguments.model.session_options(),
    };
    options.check()?;
    let template = arguments.template.as_deref();
    let template = template.map(|path| read_text(Some(path))).transpose()?;
    let template = template.as_deref().map(ChatTemplate::parse).transpose()?;
    let model = arguments.model.load(quiet)?;
    let encoder = match template {
        Some(template) => ChatEncoder::with_template(&model, template),
        None => ChatEncoder::new(&model)?,
    };
    let mut conversation = Conversation::new(&model, encoder, options)?;
    conversation.begin(arguments.system.clone());

    let at_terminal = stdin().is_terminal() && output::is_terminal() && !arguments.json;
    let prompt = match at_terminal {
        true => Prompt::editor(!arguments.no_history)?,
        false => Prompt::lines(),
    };
    if at_terminal && !quiet {
        let mut out = output::styled();
        writeln!(
            out,
            "{STRONG}{}{STRONG:#} {FAINT}on {}, room for {} tokens{FAINT:#}",
            printable(&arguments.model.name()),
            model.device().info()?.name,
            conversation.context()
        )?;
        writeln!(
            out,
            "{FAINT}/help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves{FAINT:#}"
        )?;
    }
    let chat = Chat {
        conversation,
        interrupt: Interrupt::install()?,
        at_terminal,
        json: arguments.json,
        quiet,
    };
    chat.run(prompt)
}

struct Chat {
    conversation: Conversation,
    interrupt: Interrupt,
    at_terminal: bool,
    json: bool,
    quiet: bool,
}

impl Chat {
    fn run(mut self, mut prompt: Prompt) -> Result<(), Box<dyn Error>> {
        loop {
            let line = match prompt.read()? {
                Line::Text(line) => line,
                Line::Interrupted => {
                    say(format_args!("{FAINT}Ctrl-D or /exit leaves{FAINT:#}"));
                    continue;
                }
                Line::End => return Ok(()),
            };
            let text = line.trim();
            let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            match name {
                "" => {}
                "/exit" | "/quit" => return Ok(()),
                "/help" => self.say(HELP)?,
                "/clear" => {
                    self.conversation.clear();
                    self.say("a new conversation")?;
                }
                "/system" if rest.is_empty() => {
                    let system = self
                        .conversation
                        .system()
                        .unwrap_or("there is no system prompt");
                    self.say(&printable(system))?;
                }
                "/system" => {
                    self.conversation.begin(Some(rest.trim().to_owned()));
                    self.say("a new conversation with this system prompt")?;
                }
                "/retry" => match self.conversation.take_back() {
                    Some(message) => self.answer(&message)?,
                    None => self.say("there is nothing to answer again")?,
                },
                unknown if unknown.starts_with('/') && !unknown[1..].contains('/') => {
                    self.say(&format!(
                        "{} is no command; /help lists them",
                        printable(unknown)
                    ))?;
                }
                _ => self.answer(text)?,
            }
        }
    }

    /// A remark of the program's own. Scripts get it on standard error, so that standard output has answers only.
    fn say(&self, text: &str) -> io::Result<()> {
        match self.at_terminal {
            true => writeln!(output::styled(), "{FAINT}{text}{FAINT:#}"),
            false => writeln!(io::stderr(), "{text}"),
        }
    }

    fn answer(&mut self, message: &str) -> Result<(), Box<dyn Error>> {
        let mut out = output::styled();
        let streams = !self.json;
        let guard = self.interrupt.catch();
        let answered = self
            .conversation
            .answer(message, guard.token(), &mut |piece| {
                if streams {
                    write!(out, "{}", printable(piece))?;
                    out.flush()?;
                }
                Ok(())
            });
        drop(guard);
        let answer = match answered {
            Ok(answer) => answer,
            // What is wrong with a message is no reason to lose the conversation.
            Err(error) if self.at_terminal && Conversation::survives(error.as_ref()) => {
                report(error.as_ref());
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if self.json {
            writeln!(out, "{}", describe(&answer))?;
            return Ok(());
        }
        writeln!(out)?;
        drop(out);
        if !self.quiet {
            for remark in self.remarks(&answer) {
                self.say(&format!("[{remark}]"))?;
            }
        }
        Ok(())
    }

    /// What there is to say about an answer, each on a line.
    fn remarks(&self, answer: &Answer) -> Vec<String> {
        let context = self.conversation.context();
        let mut remarks = Vec::new();
        if answer.forgotten_messages > 0 {
            let count = answer.forgotten_messages;
            remarks.push(format!(
                "the {count} oldest messages had no room in the context any more"
            ));
        }
        if answer.forgotten_tokens {
            remarks.push("the context was full, its older half is forgotten".to_owned());
        }
        let end = match answer.stop {
            Some(Stop::Cancelled) => "stopped; ",
            Some(Stop::Limit) => "cut off, --tokens allows more; ",
            _ => "",
        };
        let stats = &answer.stats;
        remarks.push(format!(
            "{end}{} tokens, {:.1} tokens/s; context {}/{context}",
            stats.generated_tokens,
            stats.generation_rate(),
            answer.position,
        ));
        remarks
    }
}

fn describe(answer: &Answer) -> serde_json::Value {
    let stats = &answer.stats;
    json!({
        "role": "assistant",
        "content": answer.text,
        "stop": answer.stop.map(stop_name),
        "prompt_tokens": answer.kept_tokens + stats.prompt_tokens,
        "cached_tokens": answer.kept_tokens,
        "generated_tokens": stats.generated_tokens,
        "generated_tokens_per_second": stats.generation_rate(),
        "forgotten_messages": answer.forgotten_messages,
    })
}
