//! One layer: x = x + attention(norm(x)), then x = x + mlp(norm(x)).

use super::Pass;
use super::activations::Activations;
use super::attention::Attention;
use super::mlp::Mlp;
use super::norm::Norm;
use super::weights::Weights;
use crate::commands::Commands;
use crate::error::Result;
use crate::llama::arch::config::Config;
use crate::llama::model::weights::weight::Weight;
use crate::ops::Elementwise;

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
        weights.next_part();
        let prefix = format!("blk.{layer}");
        let (attention_norm, mlp_norm) = ("attn_norm.weight", "ffn_norm.weight");
        let mut norm =
            |name| Norm::load(weights, config, &format!("{prefix}.{name}"), config.width);
        Ok(Block {
            attention_norm: norm(attention_norm)?,
            mlp_norm: norm(mlp_norm)?,
            attention: Attention::load(weights, config, &prefix, rope_factors)?,
            mlp: Mlp::load(weights, config, &prefix)?,
        })
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
        let (x, normed) = (state.x.tensor(), state.normed.tensor());
        let residual = Elementwise {
            count: pass.rows * config.width,
            a: x,
            b: state.delta.tensor(),
            out: x,
        };
        self.attention_norm
            .forward(commands, pass.rows, x, normed)?;
        self.attention
            .forward(commands, config, state, layer, pass)?;
        commands.add(&residual)?;

        self.mlp_norm.forward(commands, pass.rows, x, normed)?;
        self.mlp.forward(commands, config, state, pass.rows)?;
        commands.add(&residual)
    }
}
