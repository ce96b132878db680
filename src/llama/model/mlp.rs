//! The feed-forward network: down(silu(gate(x)) · up(x)). Shazeer 2020, arXiv:2002.05202.

use crate::llama::Config;
use crate::llama::activations::Activations;
use crate::llama::weights::{Weight, Weights};
use crate::ops::{Elementwise, Matmul};
use crate::{Commands, Result};

#[derive(Debug)]
pub(super) struct Mlp {
    gate: Weight, // feed_forward × width
    up: Weight,   // feed_forward × width
    down: Weight, // width × feed_forward
}

impl Mlp {
    pub fn load(weights: &mut Weights, config: &Config, prefix: &str) -> Result<Mlp> {
        let (width, inner) = (config.width, config.feed_forward);
        Ok(Mlp {
            gate: weights.matrix(&format!("{prefix}.ffn_gate.weight"), width, inner)?,
            up: weights.matrix(&format!("{prefix}.ffn_up.weight"), width, inner)?,
            down: weights.matrix(&format!("{prefix}.ffn_down.weight"), inner, width)?,
        })
    }

    /// `state.normed` to `state.delta`, both tokens × width.
    pub fn forward(
        &self,
        commands: &mut Commands,
        config: &Config,
        state: &Activations,
        tokens: usize,
    ) -> Result<()> {
        let (width, inner) = (config.width, config.feed_forward);
        let (gate, up) = (state.gate.tensor(), state.up.tensor()); // tokens × feed_forward
        for (weight, out) in [(&self.gate, gate), (&self.up, up)] {
            commands.matmul(&Matmul {
                m: tokens,
                n: inner,
                k: width,
                a: state.normed.tensor(),
                b: weight.tensor(),
                transpose_b: true,
                c: out,
                ..Default::default()
            })?;
        }
        commands.silu_mul(&Elementwise {
            count: tokens * inner,
            a: gate,
            b: up,
            out: gate,
        })?;
        commands.matmul(&Matmul {
            m: tokens,
            n: width,
            k: inner,
            a: gate,
            b: self.down.tensor(),
            transpose_b: true,
            c: state.delta.tensor(),
            ..Default::default()
        })
    }
}
