//! How a command picks tokens.

use clap::Args;
use ironbridge::llama::SamplerOptions;

#[derive(Args)]
#[command(next_help_heading = "Sampling")]
pub struct SamplingOptions {
    /// Temperature; 0 always takes the likeliest token [default: 0, in `chat` 0.7]
    #[arg(long = "temp", value_name = "T", allow_negative_numbers = true)]
    temperature: Option<f32>,
    /// Draw from the so many likeliest tokens only; 0: all
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
    /// The same seed gives the same text
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl SamplingOptions {
    /// `temperature` is the command's own where none was asked for.
    pub fn sampler_options(&self, temperature: f32) -> SamplerOptions {
        SamplerOptions {
            temperature: self.temperature.unwrap_or(temperature),
            top_k: (self.top_k > 0).then_some(self.top_k),
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            seed: self.seed,
            ..Default::default()
        }
    }
}
