//! `ironbridge embed`

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ironbridge::llama::{Model, Pooling, Session};
use serde_json::json;

use crate::input::read_text;
use crate::model_options::RunOptions;
use crate::output;

#[derive(Args)]
pub struct EmbedArguments {
    #[command(flatten)]
    model: RunOptions,
    /// The texts; without any, each line of --file or of standard input is one
    #[arg(value_name = "TEXT", conflicts_with = "file")]
    texts: Vec<String>,
    /// A file with one text on each line; -: standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How the states of a text's tokens become one vector
    #[arg(long, value_enum, default_value_t = PoolingName::Mean)]
    pooling: PoolingName,
    /// Write how near each text is to each other, from -1 to 1, and not the vectors
    #[arg(long)]
    similarity: bool,
    /// Write one JSON object
    #[arg(long)]
    json: bool,
    /// Write vectors and errors, no progress
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum PoolingName {
    /// Their mean
    Mean,
    /// That of the last token, which has seen all the others
    Last,
}

struct Embedding {
    text: String,
    tokens: usize,
    vector: Vec<f32>,
}

pub fn run(arguments: &EmbedArguments) -> Result<(), Box<dyn Error>> {
    let texts = match arguments.texts.is_empty() {
        true => {
            let text = read_text(arguments.file.as_deref())?;
            let lines = text.lines().filter(|line| !line.is_empty());
            lines.map(str::to_owned).collect()
        }
        false => arguments.texts.clone(),
    };
    if texts.is_empty() {
        return Err("there is no text to embed".into());
    }
    let model = arguments.model.load(arguments.quiet || arguments.json)?;
    let mut session = Session::new(&model, arguments.model.session_options())?;
    let embeddings = texts
        .into_iter()
        .map(|text| embed(&model, &mut session, text, arguments.pooling));
    let embeddings: Vec<Embedding> = embeddings.collect::<Result<_, _>>()?;
    write(arguments, &embeddings)?;
    Ok(())
}

fn embed(
    model: &Model,
    session: &mut Session,
    text: String,
    pooling: PoolingName,
) -> Result<Embedding, Box<dyn Error>> {
    let pooling = match pooling {
        PoolingName::Mean => Pooling::Mean,
        PoolingName::Last => Pooling::Last,
    };
    let tokens = model.encode_prompt(&text);
    session.rewind(0);
    Ok(Embedding {
        vector: session.embed(&tokens, pooling)?,
        tokens: tokens.len(),
        text,
    })
}

fn write(arguments: &EmbedArguments, embeddings: &[Embedding]) -> Result<(), Box<dyn Error>> {
    let similarity: Vec<Vec<f32>> = embeddings
        .iter()
        .map(|one| embeddings.iter().map(|other| cosine(one, other)).collect())
        .collect();
    let mut out = output::buffered();
    if arguments.json {
        let described: Vec<_> = embeddings
            .iter()
            .map(|it| json!({ "text": it.text, "tokens": it.tokens, "vector": it.vector }))
            .collect();
        let json = match arguments.similarity {
            true => {
                let texts: Vec<&str> = embeddings.iter().map(|it| it.text.as_str()).collect();
                json!({ "texts": texts, "similarity": similarity })
            }
            false => json!({ "embeddings": described }),
        };
        writeln!(out, "{json}")?;
    } else if arguments.similarity {
        for row in similarity {
            let cells: Vec<String> = row.iter().map(|cell| format!("{cell:7.4}")).collect();
            writeln!(out, "{}", cells.join(" "))?;
        }
    } else {
        for Embedding { vector, .. } in embeddings {
            let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
            writeln!(out, "{}", numbers.join(" "))?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Of vectors of length 1.
fn cosine(one: &Embedding, other: &Embedding) -> f32 {
    let pairs = one.vector.iter().zip(&other.vector);
    pairs
        .map(|(a, b)| f64::from(*a) * f64::from(*b))
        .sum::<f64>() as f32
}
