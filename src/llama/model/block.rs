//! One layer: x = x + attention(norm(x)), then x = x + mlp(norm(x)).

use super::attention::Attention;
use super::mlp::Mlp;
use super::norm::Norm;
use crate::llama::Config;
use crate::llama::activations::Activations;
use crate::llama::kv_cache::LayerCache;
use crate::llama::weights::{Weight, Weights};
use crate::ops::Elementwise;
use crate::{Commands, Result};

#[derive(Debug)]
pub(super) struct Block {
    attention_norm: Norm,
    attention: Attention,
    mlp_norm: Norm,
    mlp: Mlp,
}

impl Block {
    pub fn load(
        weights: &mut Weights,
        config: &Config,
        layer: usize,
        rope_factors: Option<Weight>,
    ) -> Result<Block> {
        let prefix = format!("blk.{layer}");
        Ok(Block {
            attention_norm: Norm::load(weights, config, &format!("{prefix}.attn_norm.weight"))?,
            attention: Attention::load(weights, config, &prefix, rope_factors)?,
            mlp_norm: Norm::load(weights, config, &format!("{prefix}.ffn_norm.weight"))?,
            mlp: Mlp::load(weights, config, &prefix)?,
        })
    }

    /// Changes `state.x`, tokens × width.
    pub fn forward(
        &self,
        commands: &mut Commands,
        config: &Config,
        state: &Activations,
        cache: &LayerCache,
        position: usize,
        tokens: usize,
    ) -> Result<()> {
        let (x, normed) = (state.x.tensor(), state.normed.tensor());
        let residual = Elementwise {
            count: tokens * config.width,
            a: x,
            b: state.delta.tensor(),
            out: x,
        };
        self.attention_norm.forward(commands, tokens, x, normed)?;
        self.attention
            .forward(commands, config, state, cache, position, tokens)?;
        commands.add(&residual)?;

        self.mlp_norm.forward(commands, tokens, x, normed)?;
        self.mlp.forward(commands, config, state, tokens)?;
        commands.add(&residual)
    }
}
