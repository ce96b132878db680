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
        let low = state.low.tensor();
        let linears = [&self.q, &self.k, &self.v];
        let together =
            state.projects_together && self.head_norms.is_none() && Linear::are_one(&linears);
        let projected = Projected::of(config, state, rows, together);
        match together {
            true => Linear::forward_one(&linears, commands, rows, normed, projected.q)?,
            false => Linear::forward_all(&linears, commands, rows, normed, projected.q, low)?,
        }
        if let Some((q_norm, k_norm)) = &self.head_norms {
            let Projected { q, k, .. } = projected;
            q_norm.forward(commands, rows * config.heads, q, q)?;
            k_norm.forward(commands, rows * config.kv_heads, k, k)?;
        }
        let positions = pass.positions.tensor();
        if rows == 1 || together {
            // The heads of a row's key follow those of its query.
            let heads = config.heads + config.kv_heads;
            let [stride, _] = projected.strides;
            let both = projected.q.matrix(rows, heads * config.head_dim);
            let both = both.row_stride(stride);
            self.rotate(commands, config, positions, both)?;
        } else {
            let (q, k) = (projected.queries(0, rows), projected.keys(0, rows));
            self.rotate(commands, config, positions, q)?;
            self.rotate(commands, config, positions, k)?;
        }
        // What is done for each text in turn can be done for all of them at once.
        for span in &pass.spans {
            let keys = projected.keys(span.row, span.tokens);
            let values = projected.values(span.row, span.tokens);
            let cache = span.cache.layer(layer);
            cache.store(commands, span.position, keys, values)?;
        }
        for span in &pass.spans {
            let queries = projected.queries(span.row, span.tokens);
            attend(commands, config, state, layer, queries, span)?;
        }
        let (attended, delta) = (state.attended.tensor(), state.delta.tensor());
        self.o.forward(commands, rows, attended, delta, low)
    }

    /// `x`: rows × (heads · head_dim), changed in place.
    fn rotate(
        &self,
        commands: &mut Commands,
        config: &Config,
        positions: Tensor<'_>,
        x: Tensor<'_>,
    ) -> Result<()> {
        let factors = self.rope_factors.as_ref().map(Weight::place);
        commands.rope(
            &Rope::new(
                x,
                positions.vector(x.shape()[0]),
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

/// Where the queries, keys and values of a pass are: rows × query_dim, and twice rows × kv_dim, one after another. Or
/// those of a row are, and then those of the next one.
struct Projected<'a> {
    q: Tensor<'a>,
    k: Tensor<'a>,
    v: Tensor<'a>,
    query_dim: usize,
    kv_dim: usize,
    /// From row to row, of queries and of the others.
    strides: [usize; 2],
}

impl<'a> Projected<'a> {
    fn of(config: &Config, state: &'a Activations, rows: usize, together: bool) -> Projected<'a> {
        let (query_dim, kv_dim) = (config.query_dim(), config.kv_dim());
        let (apart, strides) = match together || rows == 1 {
            true => (1, [query_dim + 2 * kv_dim; 2]),
            false => (rows, [query_dim, kv_dim]),
        };
        let q = state.qkv.tensor();
        let k = q.skip(apart * query_dim);
        let v = k.skip(apart * kv_dim);
        Projected {
            q,
            k,
            v,
            query_dim,
            kv_dim,
            strides,
        }
    }

    /// Those of `rows` rows from `first` on.
    fn queries(&self, first: usize, rows: usize) -> Tensor<'a> {
        let [stride, _] = self.strides;
        let from = self.q.skip(first * stride);
        from.matrix(rows, self.query_dim).row_stride(stride)
    }

    fn keys(&self, first: usize, rows: usize) -> Tensor<'a> {
        self.of_cache(self.k, first, rows)
    }

    fn values(&self, first: usize, rows: usize) -> Tensor<'a> {
        self.of_cache(self.v, first, rows)
    }

    fn of_cache(&self, of: Tensor<'a>, first: usize, rows: usize) -> Tensor<'a> {
        let [_, stride] = self.strides;
        let from = of.skip(first * stride);
        from.matrix(rows, self.kv_dim).row_stride(stride)
    }
}

/// Lets the queries of one sequence's rows, tokens × query_dim, see its cache.
fn attend(
    commands: &mut Commands,
    config: &Config,
    state: &Activations,
    layer: usize,
    queries: Tensor<'_>,
    span: &Span,
) -> Result<()> {
    let (plan, cache) = (&config.plans[layer], span.cache.layer(layer));
    let query_dim = config.query_dim();
    let attended = state.attended.tensor().skip(span.row * query_dim);
    let [keys, values] = [cache.keys(), cache.values()]
        .map(|of| of.matrix(span.position + span.tokens, config.kv_dim()));
    commands.attention(
        &ops::Attention::new(
            queries,
            keys,
            values,
            attended.matrix(span.tokens, query_dim),
            config.head_dim,
        )
        .with_window(plan.window)
        .with_scale(plan.rope_scaling.score_scale() * config.attention_scale)
        .with_softcap(config.attention_cap),
    )
}
