//! One layer: x = x + attention(norm(x)), then x = x + mlp(norm(x)). Some families have a norm around either, too.

use super::Pass;
use super::activations::Activations;
use super::attention::Attention;
use super::linear::Linear;
use super::mlp::Mlp;
use super::norm::Norm;
use super::weights::Weights;
use crate::commands::Commands;
use crate::error::Result;
use crate::llama::arch::config::Config;
use crate::llama::model::weights::weight::Weight;
use crate::ops::Elementwise;

#[derive(Clone, Debug)]
pub(super) struct Block {
    attention_norm: Norm,
    attention: Attention,
    /// Of what attention adds.
    post_attention_norm: Option<Norm>,
    mlp_norm: Norm,
    mlp: Mlp,
    /// Of what the feed-forward network adds.
    post_mlp_norm: Option<Norm>,
}

impl Block {
    pub fn load(
        weights: &mut Weights,
        config: &Config,
        layer: usize,
        rope_factors: Option<Weight>,
    ) -> Result<Block> {
        weights.next_part();
        let prefix = format!("blk.{layer}");
        let mut norm = |name| {
            let name = format!("{prefix}.{name}.weight");
            Norm::load(weights, config, &name, config.width)
        };
        let (attention_norm, mlp_norm) = (norm("attn_norm")?, norm("ffn_norm")?);
        let (post_attention_norm, post_mlp_norm) = match config.spec().post_norms {
            true => (
                Some(norm("post_attention_norm")?),
                Some(norm("post_ffw_norm")?),
            ),
            false => (None, None),
        };
        Ok(Block {
            attention_norm,
            mlp_norm,
            post_attention_norm,
            post_mlp_norm,
            attention: Attention::load(
                weights,
                config,
                &prefix,
                config.plans[layer],
                rope_factors,
            )?,
            mlp: Mlp::load(weights, config, &prefix)?,
        })
    }

    /// The matrix of weights that GGUF calls so.
    pub fn linear(&mut self, part: &str) -> Option<&mut Linear> {
        let attention = &mut self.attention;
        match part.starts_with("attn_") {
            true => attention.linear(part),
            false => self.mlp.linear(part),
        }
    }

    /// Changes `state.x`, rows × width.
    pub fn forward(
        &self,
        commands: &mut Commands,
        config: &Config,
        state: &Activations,
        layer: usize,
        pass: &Pass,
    ) -> Result<()> {
        let [x, normed, delta] = [&state.x, &state.normed, &state.delta]
            .map(|buffer| buffer.matrix(pass.rows, config.width));
        let residual = Elementwise::new(x, delta, x);
        self.attention_norm
            .forward(commands, pass.rows, x, normed)?;
        self.attention
            .forward(commands, config, state, layer, pass)?;
        if let Some(norm) = &self.post_attention_norm {
            norm.forward(commands, pass.rows, delta, delta)?;
        }
        commands.add(&residual)?;

        self.mlp_norm.forward(commands, pass.rows, x, normed)?;
        self.mlp.forward(commands, config, state, pass.rows)?;
        if let Some(norm) = &self.post_mlp_norm {
            norm.forward(commands, pass.rows, delta, delta)?;
        }
        commands.add(&residual)
    }
}
