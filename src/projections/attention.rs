//! The four matrices of an attention layer.

use crate::commands::{Commands, Pending};
use crate::device::Device;
use crate::error::{Error, Result, Status};
use crate::ops::matmul::Matmul;
use crate::tensor::Tensor;

/// How a weight that takes `k` inputs to `n` outputs is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WeightLayout {
    /// `k × n`: the output is `x W`.
    InputByOutput,
    /// `n × k`: the output is `x Wᵀ`. GGUF and PyTorch store weights so; block types are always so.
    OutputByInput,
}

/// The Q, K, V and O projections of a grouped-query attention layer, whose weights lie in device buffers.
///
/// With `d = d_model`, `q = heads · head_dim` and `kv = kv_heads · head_dim`, the weights take `d` inputs to `q`, `kv`
/// and `kv` outputs, and `q` inputs back to `d`.
///
/// [`qkv`](Self::qkv) and [`project`](Self::project) make submissions of their own; [`record_qkv`](Self::record_qkv)
/// and [`record`](Self::record) add to commands of the caller's.
#[derive(Debug, Clone, Copy)]
pub struct AttentionProjections<'a> {
    /// Elements of a token.
    pub d_model: usize,
    /// Heads of a query.
    pub heads: usize,
    /// Heads of a key and of a value.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_dim: usize,
    /// How all four weights are stored.
    pub layout: WeightLayout,
    /// `d` to `q`; F32, F16, BF16 or a block type, as all weights here.
    pub wq: Tensor<'a>,
    /// `d` to `kv`.
    pub wk: Tensor<'a>,
    /// `d` to `kv`.
    pub wv: Tensor<'a>,
    /// `q` to `d`.
    pub wo: Tensor<'a>,
}

/// Which projection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Projection {
    /// Queries: `tokens × d_model` to `tokens × heads · head_dim`.
    Q,
    /// Keys: `tokens × d_model` to `tokens × kv_heads · head_dim`.
    K,
    /// Values: `tokens × d_model` to `tokens × kv_heads · head_dim`.
    V,
    /// Attention's output: `tokens × heads · head_dim` to `tokens × d_model`.
    O,
}

impl Projection {
    /// What a product's parts are called here.
    fn names(self) -> &'static [(&'static str, &'static str)] {
        const Q_DIM: &str = "heads · head_dim";
        const KV_DIM: &str = "kv_heads · head_dim";
        macro_rules! names {
            ($weight:literal, $outputs:expr, $inputs:expr) => {
                &[
                    ("a", "x"),
                    ("b", $weight),
                    ("c", "out"),
                    ("m", "tokens"),
                    ("n", $outputs),
                    ("k", $inputs),
                    ("transpose_b", "layout"),
                ]
            };
        }
        match self {
            Projection::Q => names!("wq", Q_DIM, "d_model"),
            Projection::K => names!("wk", KV_DIM, "d_model"),
            Projection::V => names!("wv", KV_DIM, "d_model"),
            Projection::O => names!("wo", "d_model", Q_DIM),
        }
    }
}

/// Where [`AttentionProjections`] put queries, keys and values.
#[derive(Debug, Clone, Copy)]
pub struct Projected<'a> {
    /// `tokens × heads · head_dim`.
    pub q: Tensor<'a>,
    /// `tokens × kv_heads · head_dim`.
    pub k: Tensor<'a>,
    /// `tokens × kv_heads · head_dim`.
    pub v: Tensor<'a>,
}

impl AttentionProjections<'_> {
    /// Q, K and V of `x` (`tokens × d_model`, F32 or F16, the type of all outputs) in one submission. Does not wait.
    pub fn qkv(
        &self,
        device: &Device,
        tokens: usize,
        x: Tensor<'_>,
        out: Projected<'_>,
    ) -> Result<Pending> {
        let mut commands = device.commands()?;
        self.record_qkv(&mut commands, tokens, x, out)?;
        commands.commit()
    }

    /// One projection of `x` in a submission of its own. Does not wait.
    #[track_caller]
    pub fn project(
        &self,
        device: &Device,
        which: Projection,
        tokens: usize,
        x: Tensor<'_>,
        out: Tensor<'_>,
    ) -> Result<Pending> {
        let mut commands = device.commands()?;
        self.record(&mut commands, which, tokens, x, out)?;
        commands.commit()
    }

    /// Records Q, K and V of `x`.
    #[track_caller]
    pub fn record_qkv(
        &self,
        commands: &mut Commands,
        tokens: usize,
        x: Tensor<'_>,
        out: Projected<'_>,
    ) -> Result<()> {
        for (which, out, name) in [
            (Projection::Q, out.q, "q"),
            (Projection::K, out.k, "k"),
            (Projection::V, out.v, "v"),
        ] {
            if let Err(error) = self.record(commands, which, tokens, x, out) {
                return Err(error.renamed("AttentionProjections::record_qkv", &[("out", name)]));
            }
        }
        Ok(())
    }

    /// Records one projection of `x`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when `heads` is no multiple of `kv_heads`, and those of [`Commands::matmul`].
    #[track_caller]
    pub fn record(
        &self,
        commands: &mut Commands,
        which: Projection,
        tokens: usize,
        x: Tensor<'_>,
        out: Tensor<'_>,
    ) -> Result<()> {
        // Each key serves as many queries as every other.
        if self.kv_heads > 0 && !self.heads.is_multiple_of(self.kv_heads) {
            let (heads, kv_heads) = (self.heads, self.kv_heads);
            let message = format!("heads: {heads} is no multiple of kv_heads, which is {kv_heads}");
            return Err(Error::new(
                "AttentionProjections::record",
                Status::Shape,
                message,
            ));
        }
        // A product that overflows is a size that no buffer has, and refused as such.
        let q_dim = self.heads.saturating_mul(self.head_dim);
        let kv_dim = self.kv_heads.saturating_mul(self.head_dim);
        let (inputs, outputs, weight) = match which {
            Projection::Q => (self.d_model, q_dim, self.wq),
            Projection::K => (self.d_model, kv_dim, self.wk),
            Projection::V => (self.d_model, kv_dim, self.wv),
            Projection::O => (q_dim, self.d_model, self.wo),
        };
        let product = Matmul::new(
            x.matrix(tokens, inputs),
            weight.oriented(inputs, outputs, self.layout == WeightLayout::OutputByInput),
            out.matrix(tokens, outputs),
        );
        let recorded = commands.matmul(&product);
        recorded.map_err(|error| error.renamed("AttentionProjections::record", which.names()))
    }
}
