//! Grouped-query attention with rotary positions.

use super::activations::Activations;
use super::linear::Linear;
use super::norm::Norm;
use super::weights::Weights;
use super::{Pass, Span};
use crate::commands::Commands;
use crate::error::Result;
use crate::llama::arch::config::{Config, LayerPlan};
use crate::llama::model::weights::weight::{Placed, Weight};
use crate::ops::{self, Rope};
use crate::tensor::Tensor;

#[derive(Clone, Debug)]
pub(super) struct Attention {
    q: Linear, // width to query_dim
    k: Linear, // width to kv_dim
    v: Linear, // width to kv_dim
    o: Linear, // query_dim to width
    /// Of each head of a query and of a key, before they are rotated.
    head_norms: Option<(Norm, Norm)>,
    /// Divisors of the rotation's frequencies, rotary_dim / 2: models stretched to a longer context have them.
    rope_factors: Option<Weight>,
    plan: LayerPlan,
}

impl Attention {
    pub fn load(
        weights: &mut Weights,
        config: &Config,
        prefix: &str,
        plan: LayerPlan,
        rope_factors: Option<Weight>,
    ) -> Result<Attention> {
        let (width, query_dim, kv_dim) = (config.width, config.query_dim(), config.kv_dim());
        let linear = match config.spec().qkv_bias {
            true => Linear::load_with_bias,
            false => Linear::load,
        };
        let names = ["attn_q", "attn_k", "attn_v"].map(|name| format!("{prefix}.{name}.weight"));
        weights.together(&names)?;
        let q = linear(weights, &format!("{prefix}.attn_q"), width, query_dim)?;
        let k = linear(weights, &format!("{prefix}.attn_k"), width, kv_dim)?;
        let v = linear(weights, &format!("{prefix}.attn_v"), width, kv_dim)?;
        let o = Linear::load(weights, &format!("{prefix}.attn_output"), query_dim, width)?;
        let mut head_norm = |name: &str| {
            let name = format!("{prefix}.{name}.weight");
            Norm::load(weights, config, &name, config.head_dim)
        };
        let head_norms = match config.spec().head_norms {
            true => Some((head_norm("attn_q_norm")?, head_norm("attn_k_norm")?)),
            false => None,
        };
        Ok(Attention {
            q,
            k,
            v,
            o,
            head_norms,
            rope_factors,
            plan,
        })
    }

    /// The matrix of weights that GGUF calls so.
    pub fn linear(&mut self, part: &str) -> Option<&mut Linear> {
        match part {
            "attn_q" => Some(&mut self.q),
            "attn_k" => Some(&mut self.k),
            "attn_v" => Some(&mut self.v),
            "attn_output" => Some(&mut self.o),
            _ => None,
        }
    }

    /// `state.normed` to `state.delta`, both rows × width.
    pub fn forward(
        &self,
        commands: &mut Commands,
        config: &Config,
        state: &Activations,
        layer: usize,
        pass: &Pass,
    ) -> Result<()> {
        let (rows, normed) = (pass.rows, state.normed.tensor());
        let Projected { q, k, .. } = Projected::of(config, state, rows);
        let low = state.low.tensor();
        let linears = [&self.q, &self.k, &self.v];
        Linear::forward_all(&linears, commands, rows, normed, q, low)?;
        if let Some((q_norm, k_norm)) = &self.head_norms {
            q_norm.forward(commands, rows * config.heads, q, q)?;
            k_norm.forward(commands, rows * config.kv_heads, k, k)?;
        }
        let positions = pass.positions.tensor();
        if rows == 1 {
            // The heads of its key follow those of its query.
            let heads = config.heads + config.kv_heads;
            self.rotate(commands, config, rows, heads, positions, q)?;
        } else {
            self.rotate(commands, config, rows, config.heads, positions, q)?;
            self.rotate(commands, config, rows, config.kv_heads, positions, k)?;
        }
        // What is done for each text in turn can be done for all of them at once.
        for span in &pass.spans {
            store(commands, config, state, layer, rows, span)?;
        }
        for span in &pass.spans {
            attend(commands, config, state, layer, rows, span)?;
        }
        let (attended, delta) = (state.attended.tensor(), state.delta.tensor());
        self.o.forward(commands, rows, attended, delta, low)
    }

    /// `x`: rows × heads × head_dim, changed in place.
    fn rotate(
        &self,
        commands: &mut Commands,
        config: &Config,
        rows: usize,
        heads: usize,
        positions: Tensor<'_>,
        x: Tensor<'_>,
    ) -> Result<()> {
        let factors = self.rope_factors.as_ref().map(Weight::place);
        commands.rope(
            &Rope::new(
                x.matrix(rows, heads * config.head_dim),
                positions.vector(rows),
                config.head_dim,
                self.plan.rope_base,
            )
            .with_rotary_dim(config.rotary_dim)
            .with_factors(factors.as_ref().map(Placed::tensor))
            .with_pairing(config.rope_pairing)
            .with_frequency_scale(self.plan.rope_scaling.frequency_scale()),
        )
    }
}

/// Where the queries, keys and values of a pass are, one after another: rows × query_dim, and twice rows × kv_dim.
struct Projected<'a> {
    q: Tensor<'a>,
    k: Tensor<'a>,
    v: Tensor<'a>,
}

impl Projected<'_> {
    fn of<'a>(config: &Config, state: &'a Activations, rows: usize) -> Projected<'a> {
        let q = state.qkv.tensor();
        let k = q.skip(rows * config.query_dim());
        let v = k.skip(rows * config.kv_dim());
        Projected { q, k, v }
    }
}

/// Puts the keys and values of one sequence's rows into its cache.
fn store(
    commands: &mut Commands,
    config: &Config,
    state: &Activations,
    layer: usize,
    rows: usize,
    span: &Span,
) -> Result<()> {
    let Projected { k, v, .. } = Projected::of(config, state, rows);
    let [k, v] = [k, v].map(|of| of.skip(span.row * config.kv_dim()));
    let cache = span.cache.layer(layer);
    cache.store(commands, span.position, span.tokens, k, v)
}

/// Lets the queries of one sequence's rows see its cache.
fn attend(
    commands: &mut Commands,
    config: &Config,
    state: &Activations,
    layer: usize,
    rows: usize,
    span: &Span,
) -> Result<()> {
    let Span {
        cache,
        position,
        row,
        tokens,
    } = *span;
    let (plan, cache) = (&config.plans[layer], cache.layer(layer));
    let (q, attended) = (
        Projected::of(config, state, rows).q,
        state.attended.tensor(),
    );
    let [queries, attended] = [q, attended].map(|of| {
        of.skip(row * config.query_dim())
            .matrix(tokens, config.query_dim())
    });
    let [keys, values] =
        [cache.keys(), cache.values()].map(|of| of.matrix(position + tokens, config.kv_dim()));
    commands.attention(
        &ops::Attention::new(queries, keys, values, attended, config.head_dim)
            .with_window(plan.window)
            .with_scale(plan.rope_scaling.score_scale() * config.attention_scale)
            .with_softcap(config.attention_cap),
    )
}
