//! Rotations other than the model's file states: recipes for a longer context.

use std::error::Error;

use clap::{Args, ValueEnum};
use ironbridge::llama::ModelFile;

#[derive(Args)]
#[command(next_help_heading = "Rotary positions, where they are to be other than the file says")]
pub struct RopeOptions {
    /// How the model is stretched to a longer context
    #[arg(long, value_enum, value_name = "KIND")]
    rope_scaling: Option<Scaling>,
    /// How many times longer the context is than in the training, for linear and yarn
    #[arg(long, value_name = "N", requires = "rope_scaling", value_parser = factor)]
    rope_scale: Option<f32>,
    /// The base of the rotation's frequencies
    #[arg(long, value_name = "BASE", value_parser = positive)]
    rope_freq_base: Option<f32>,
    /// For yarn: the context of the training, in tokens, where the file's is another one
    #[arg(long, value_name = "N", requires = "rope_scaling", value_parser = clap::value_parser!(u32).range(1..))]
    yarn_orig_ctx: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Scaling {
    None,
    Linear,
    Yarn,
}

fn positive(text: &str) -> Result<f32, String> {
    let number: Option<f32> = text.parse().ok();
    let number = number.filter(|number| *number > 0.0 && number.is_finite());
    number.ok_or_else(|| "it should be a number above 0".to_owned())
}

fn factor(text: &str) -> Result<f32, String> {
    let number = positive(text)?;
    match number >= 1.0 {
        true => Ok(number),
        false => Err("it should be a number from 1 on".to_owned()),
    }
}

impl RopeOptions {
    /// Sets what was asked for in the metadata, the context too, which is that many times longer then.
    pub fn apply(&self, file: &mut ModelFile) -> Result<(), Box<dyn Error>> {
        if self.rope_scaling.is_none() && self.rope_freq_base.is_none() {
            return Ok(());
        }
        let name: &str = file.metadata().require("general.architecture")?;
        let key = |rest: &str| format!("{name}.{rest}");
        let (context_key, base) = (key("context_length"), key("rope.freq_base"));
        let (kind, factor, original) = (
            key("rope.scaling.type"),
            key("rope.scaling.factor"),
            key("rope.scaling.original_context_length"),
        );
        let context: u32 = file.metadata().require(&context_key)?;
        if let Some(asked) = self.rope_freq_base {
            file.set_metadata(base, asked)?;
        }
        let Some(scaling) = self.rope_scaling else {
            return Ok(());
        };
        if file.tensor("rope_freqs.weight").is_some() {
            return Err(
                "the model's file has its own frequencies (rope_freqs.weight), which --rope-scaling cannot change".into(),
            );
        }
        let scale = match (scaling, self.rope_scale) {
            (Scaling::None, None) => 1.0,
            (Scaling::None, Some(_)) => {
                return Err("--rope-scale is for --rope-scaling linear and yarn".into());
            }
            (_, Some(scale)) => scale,
            (_, None) => return Err("--rope-scaling linear and yarn need --rope-scale".into()),
        };
        let trained = self.yarn_orig_ctx.unwrap_or(context);
        let name = match scaling {
            Scaling::None => "none",
            Scaling::Linear => "linear",
            Scaling::Yarn => "yarn",
        };
        file.set_metadata(kind, name)?;
        file.set_metadata(factor, scale)?;
        if scaling == Scaling::Yarn {
            file.set_metadata(original, trained)?;
        }
        // A file that was stretched already keeps its longer context.
        let stretched = (f64::from(trained) * f64::from(scale)).min(f64::from(u32::MAX)) as u32;
        file.set_metadata(context_key, stretched.max(context))?;
        Ok(())
    }
}
