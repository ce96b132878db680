//! Where messages come from: an editor with history at a terminal, plain lines otherwise.

use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, BufRead, stdin};
use std::path::PathBuf;

use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Context, Editor, Helper};

use super::COMMANDS;
use crate::terminal::STRONG;

pub enum Prompt {
    Editor {
        editor: Box<Editor<Assistance, DefaultHistory>>,
        /// Where lines are remembered.
        history: Option<PathBuf>,
    },
    Lines,
}

/// What was read.
pub enum Line {
    Text(String),
    /// Ctrl-C at the prompt.
    Interrupted,
    /// Ctrl-D, or the end of the input.
    End,
}

/// What the editor knows about messages.
pub struct Assistance;

impl Helper for Assistance {}
impl Highlighter for Assistance {}
impl Hinter for Assistance {
    type Hint = String;
}

/// The tabulator completes commands.
impl Completer for Assistance {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        let fitting = COMMANDS
            .iter()
            .filter(|name| !typed.is_empty() && name.starts_with(typed));
        Ok((0, fitting.map(|name| (*name).to_owned()).collect()))
    }
}

/// A line that ends in a backslash goes on in the next one.
impl Validator for Assistance {
    fn validate(&self, context: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        Ok(match context.input().ends_with('\\') {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

const REMEMBERED_LINES: usize = 1000;

impl Prompt {
    pub fn editor(remembers: bool) -> Result<Prompt, Box<dyn Error>> {
        let config = Config::builder()
            .max_history_size(REMEMBERED_LINES)?
            .history_ignore_space(true)
            .build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Assistance));
        let history = history_file().filter(|_| remembers);
        if let Some(path) = &history {
            // The first time there is none, and one that cannot be read is no reason not to talk.
            let _ = editor.load_history(path);
        }
        Ok(Prompt::Editor {
            editor: Box::new(editor),
            history,
        })
    }

    pub fn lines() -> Prompt {
        Prompt::Lines
    }

    pub fn read(&mut self) -> Result<Line, Box<dyn Error>> {
        match self {
            Prompt::Editor { editor, history } => {
                let styled = format!("\n{STRONG}>{STRONG:#} ");
                match editor.readline(&("\n> ", styled.as_str())) {
                    Ok(line) => {
                        remember(editor, history.as_ref(), &line);
                        Ok(Line::Text(joined(&line)))
                    }
                    Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
                    Err(ReadlineError::Eof) => Ok(Line::End),
                    Err(error) => Err(error.into()),
                }
            }
            Prompt::Lines => {
                let mut text = String::new();
                loop {
                    match stdin().lock().read_line(&mut text) {
                        Ok(0) if text.is_empty() => return Ok(Line::End),
                        Ok(0) => break,
                        Ok(_) if text.trim_end_matches('\n').ends_with('\\') => {}
                        Ok(_) => break,
                        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                            return Err("standard input is not UTF-8 text".into());
                        }
                        Err(error) => {
                            return Err(format!("cannot read standard input: {error}").into());
                        }
                    }
                }
                Ok(Line::Text(joined(&text)))
            }
        }
    }
}

/// Without the backslashes that end lines.
fn joined(text: &str) -> String {
    text.replace("\\\n", "\n")
}

fn remember(editor: &mut Editor<Assistance, DefaultHistory>, file: Option<&PathBuf>, line: &str) {
    // A history that cannot be written is no reason to stop, either.
    let _ = editor.add_history_entry(line);
    if let Some(path) = file {
        if let Some(folder) = path.parent() {
            let _ = fs::create_dir_all(folder);
        }
        let _ = editor.append_history(path);
    }
}

/// As the XDG base directory specification has it.
fn history_file() -> Option<PathBuf> {
    let absolute = |name| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(state.join("ironbridge/chat_history"))
}
