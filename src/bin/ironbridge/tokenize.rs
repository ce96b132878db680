//! `ironbridge tokenize`

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use ironbridge::llama::tokenizer::{EncodeOptions, TokenKind};
use ironbridge::llama::{ModelFile, Tokenizer};
use serde_json::{Value as Json, json};

use crate::input::read_text;
use crate::output;

#[derive(Args)]
pub struct TokenizeArguments {
    /// A GGUF file, or a folder with config.json and .safetensors files
    #[arg(short, long, value_name = "FILE")]
    model: PathBuf,
    /// The text, or with --decode the tokens; without it, standard input
    #[arg(value_name = "TEXT", conflicts_with = "file")]
    text: Option<String>,
    /// A file with the text; -: standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Turn tokens back into text: numbers with anything but digits between them, so JSON lists too
    #[arg(long)]
    decode: bool,
    /// Put the tokens for the begin and the end of a text where the model wants them
    #[arg(long, conflicts_with = "decode")]
    special: bool,
    /// Read the names of control tokens, such as </s>, as those tokens
    #[arg(long, conflicts_with = "decode")]
    parse_special: bool,
    /// Write the numbers on one line, and nothing else
    #[arg(long, conflicts_with_all = ["decode", "json"])]
    ids: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &TokenizeArguments) -> Result<(), Box<dyn Error>> {
    let file = ModelFile::open(&arguments.model)?;
    let tokenizer = Tokenizer::from_metadata(file.metadata())?;
    let text = match &arguments.text {
        Some(text) => text.clone(),
        None => read_text(arguments.file.as_deref())?,
    };
    let mut out = output::buffered();
    if arguments.decode {
        let tokens = numbers(&text)?;
        let decoded = tokenizer.decode(&tokens)?;
        match arguments.json {
            true => writeln!(out, "{}", json!({ "tokens": tokens, "text": decoded }))?,
            false => writeln!(out, "{decoded}")?,
        }
    } else {
        let options = EncodeOptions {
            add_special: arguments.special,
            parse_special: arguments.parse_special,
        };
        let tokens = tokenizer.encode_with(&text, options);
        if arguments.json {
            let described: Vec<Json> = tokens
                .iter()
                .map(|token| describe(&tokenizer, *token))
                .collect();
            writeln!(out, "{}", json!({ "text": text, "tokens": described }))?;
        } else if arguments.ids {
            let ids: Vec<String> = tokens.iter().map(u32::to_string).collect();
            writeln!(out, "{}", ids.join(" "))?;
        } else {
            for token in tokens {
                writeln!(out, "{token:>8}  {}", quoted(&tokenizer, token))?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

/// The numbers in a text, whatever separates them.
fn numbers(text: &str) -> Result<Vec<u32>, Box<dyn Error>> {
    if let Some(wrong) = text
        .chars()
        .find(|it| !(it.is_ascii_digit() || it.is_whitespace() || "[],;".contains(*it)))
    {
        return Err(format!(
            "tokens are numbers, and {wrong:?} is not of one; without --decode it is a text"
        )
        .into());
    }
    let words = text.split(|character: char| !character.is_ascii_digit());
    let words = words.filter(|word| !word.is_empty());
    words
        .map(|word| {
            word.parse()
                .map_err(|_| format!("{word} is too large for a token").into())
        })
        .collect()
}

fn quoted(tokenizer: &Tokenizer, token: u32) -> String {
    match tokenizer.piece(token) {
        Some((_, kind @ (TokenKind::Control | TokenKind::Unknown))) => {
            format!("{} ({})", piece(tokenizer, token), name(kind))
        }
        _ => format!("{:?}", piece(tokenizer, token)),
    }
}

/// Bytes that are no UTF-8 by themselves become U+FFFD.
fn piece(tokenizer: &Tokenizer, token: u32) -> String {
    let bytes = tokenizer.piece(token).map_or(&[][..], |(bytes, _)| bytes);
    String::from_utf8_lossy(bytes).into_owned()
}

fn describe(tokenizer: &Tokenizer, token: u32) -> Json {
    let (bytes, kind) = tokenizer.piece(token).unwrap_or((&[], TokenKind::Unknown));
    let mut json = json!({ "id": token, "piece": piece(tokenizer, token), "kind": name(kind) });
    if std::str::from_utf8(bytes).is_err() {
        json["bytes"] = bytes.into();
    }
    json
}

fn name(kind: TokenKind) -> &'static str {
    match kind {
        TokenKind::Normal => "normal",
        TokenKind::Unknown => "unknown",
        TokenKind::Control => "control",
        TokenKind::UserDefined => "user_defined",
        TokenKind::Unused => "unused",
        TokenKind::Byte => "byte",
    }
}
