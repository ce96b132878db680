//! The feed-forward network: down(f(gate(x)) · up(x)), f SiLU or GELU. Shazeer 2020, arXiv:2002.05202.

use super::activations::Activations;
use super::linear::Linear;
use super::weights::Weights;
use crate::commands::Commands;
use crate::error::Result;
use crate::llama::arch::config::Config;
use crate::llama::arch::spec::Gate;
use crate::ops::Elementwise;

#[derive(Clone, Debug)]
pub(super) struct Mlp {
    gate: Linear, // width to feed_forward
    up: Linear,   // width to feed_forward
    down: Linear, // feed_forward to width
}

impl Mlp {
    pub fn load(weights: &mut Weights, config: &Config, prefix: &str) -> Result<Mlp> {
        let (width, inner) = (config.width, config.feed_forward);
        let names = ["ffn_gate", "ffn_up"].map(|name| format!("{prefix}.{name}.weight"));
        weights.together(&names)?;
        Ok(Mlp {
            gate: Linear::load(weights, &format!("{prefix}.ffn_gate"), width, inner)?,
            up: Linear::load(weights, &format!("{prefix}.ffn_up"), width, inner)?,
            down: Linear::load(weights, &format!("{prefix}.ffn_down"), inner, width)?,
        })
    }

    /// The matrix of weights that GGUF calls so.
    pub fn linear(&mut self, part: &str) -> Option<&mut Linear> {
        match part {
            "ffn_gate" => Some(&mut self.gate),
            "ffn_up" => Some(&mut self.up),
            "ffn_down" => Some(&mut self.down),
            _ => None,
        }
    }

    /// `state.normed` to `state.delta`, both rows × width.
    pub fn forward(
        &self,
        commands: &mut Commands,
        config: &Config,
        state: &Activations,
        rows: usize,
    ) -> Result<()> {
        let normed = state.normed.tensor();
        let gate = state.gate_up.matrix(rows, config.feed_forward); // and so is up
        let up = gate
            .skip(rows * config.feed_forward)
            .matrix(rows, config.feed_forward);
        let low = state.low.tensor();
        let linears = [&self.gate, &self.up];
        Linear::forward_all(&linears, commands, rows, normed, gate, low)?;
        let gated = Elementwise::new(gate, up, gate);
        match config.spec().gate {
            Gate::Silu => commands.silu_mul(&gated)?,
            Gate::Gelu => commands.gelu_mul(&gated)?,
        }
        self.down
            .forward(commands, rows, gate, state.delta.tensor(), low)
    }
}
