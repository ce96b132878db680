//! How a command picks tokens.

use std::hash::{BuildHasher, RandomState};

use clap::Args;
use ironbridge::llama::SamplerOptions;

#[derive(Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingOptions {
    /// Temperature; 0 always takes the likeliest token [default: 0, in `chat` 0.7]
    #[arg(long = "temp", value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Draw from this many of the likeliest tokens only; 0: all
    #[arg(long, default_value_t = 40, value_name = "K")]
    top_k: u32,
    /// Draw from the fewest tokens whose probabilities reach this
    #[arg(
        long,
        default_value_t = 0.95,
        value_name = "P",
        allow_negative_numbers = true
    )]
    top_p: f32,
    /// Draw from tokens that are at least this times as likely as the likeliest
    #[arg(
        long,
        default_value_t = 0.0,
        value_name = "P",
        allow_negative_numbers = true
    )]
    min_p: f32,
    /// Divides the scores of tokens that the text has; 1: none
    #[arg(
        long,
        default_value_t = 1.0,
        value_name = "R",
        allow_negative_numbers = true
    )]
    repetition_penalty: f32,
    /// Subtracted from a token's score for each time that the text has it
    #[arg(
        long,
        default_value_t = 0.0,
        value_name = "F",
        allow_negative_numbers = true
    )]
    frequency_penalty: f32,
    /// Subtracted from a token's score when the text has it
    #[arg(
        long,
        default_value_t = 0.0,
        value_name = "F",
        allow_negative_numbers = true
    )]
    presence_penalty: f32,
    /// The same seed gives the same text; "random" or -1: another one each time, as without it
    #[arg(long, value_name = "SEED", value_parser = seed, allow_negative_numbers = true)]
    seed: Option<Seed>,
}

#[derive(Clone, Copy)]
enum Seed {
    Random,
    Given(u64),
}

fn seed(text: &str) -> Result<Seed, String> {
    match text {
        "random" | "-1" => Ok(Seed::Random),
        number => number
            .parse()
            .map(Seed::Given)
            .map_err(|_| "it should be a number from 0 to 2^64 - 1, or random".to_owned()),
    }
}

impl SamplingOptions {
    /// `temperature` is the command's own where none was asked for. A random seed is drawn here, and is in the result.
    pub fn sampler_options(&self, temperature: f32) -> SamplerOptions {
        SamplerOptions {
            temperature: self.temperature.unwrap_or(temperature),
            top_k: (self.top_k > 0).then_some(self.top_k),
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            seed: match self.seed {
                Some(Seed::Given(seed)) => seed,
                // Whatever is hashed: the keys are the system's random numbers.
                Some(Seed::Random) | None => RandomState::new().hash_one(()),
            },
            ..Default::default()
        }
    }
}
