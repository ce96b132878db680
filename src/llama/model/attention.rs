//! Grouped-query attention with rotary positions.

use crate::llama::Config;
use crate::llama::activations::Activations;
use crate::llama::kv_cache::LayerCache;
use crate::llama::weights::{Weight, Weights};
use crate::ops::{self, AttentionProjections, Projected, Projection, Rope, WeightLayout};
use crate::{Commands, Result, Tensor};

#[derive(Debug)]
pub(super) struct Attention {
    wq: Weight, // query_dim × width
    wk: Weight, // kv_dim × width
    wv: Weight, // kv_dim × width
    wo: Weight, // width × query_dim
    /// Divisors of the rotation's frequencies, rotary_dim / 2: models stretched to a longer context have them.
    rope_factors: Option<Weight>,
}

impl Attention {
    pub fn load(
        weights: &mut Weights,
        config: &Config,
        prefix: &str,
        rope_factors: Option<Weight>,
    ) -> Result<Attention> {
        let (width, query_dim, kv_dim) = (config.width, config.query_dim(), config.kv_dim());
        Ok(Attention {
            wq: weights.matrix(&format!("{prefix}.attn_q.weight"), width, query_dim)?,
            wk: weights.matrix(&format!("{prefix}.attn_k.weight"), width, kv_dim)?,
            wv: weights.matrix(&format!("{prefix}.attn_v.weight"), width, kv_dim)?,
            wo: weights.matrix(&format!("{prefix}.attn_output.weight"), query_dim, width)?,
            rope_factors,
        })
    }

    /// `state.normed` to `state.delta`, both tokens × width.
    pub fn forward(
        &self,
        commands: &mut Commands,
        config: &Config,
        state: &Activations,
        cache: &LayerCache,
        position: usize,
        tokens: usize,
    ) -> Result<()> {
        let projections = AttentionProjections {
            d_model: config.width,
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            layout: WeightLayout::OutputByInput,
            wq: self.wq.tensor(),
            wk: self.wk.tensor(),
            wv: self.wv.tensor(),
            wo: self.wo.tensor(),
        };
        let (q, k, v) = (state.q.tensor(), state.k.tensor(), state.v.tensor());
        projections.record_qkv(
            commands,
            tokens,
            state.normed.tensor(),
            Projected { q, k, v },
        )?;

        let positions = state.positions.tensor().skip(position);
        self.rotate(commands, config, tokens, config.heads, positions, q)?;
        self.rotate(commands, config, tokens, config.kv_heads, positions, k)?;
        cache.store(commands, position, tokens, k, v)?;

        let attended = state.attended.tensor(); // tokens × query_dim
        commands.attention(&ops::Attention {
            tokens,
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            first_position: position,
            window: config.window,
            q,
            k: cache.keys(),
            v: cache.values(),
            out: attended,
            ..Default::default()
        })?;
        projections.record(
            commands,
            Projection::O,
            tokens,
            attended,
            state.delta.tensor(),
        )
    }

    /// `x`: tokens × heads × head_dim, changed in place.
    fn rotate(
        &self,
        commands: &mut Commands,
        config: &Config,
        tokens: usize,
        heads: usize,
        positions: Tensor<'_>,
        x: Tensor<'_>,
    ) -> Result<()> {
        commands.rope(&Rope {
            tokens,
            heads,
            head_dim: config.head_dim,
            rotary_dim: config.rotary_dim,
            x,
            positions,
            factors: self.rope_factors.as_ref().map(Weight::tensor),
            pairing: config.rope_pairing,
            frequency_base: config.rope_base,
            frequency_scale: config.rope_scale,
        })
    }
}
