//! What passes are made of.

use crate::train::rotation::Rotation;
use crate::train::tape::{Function, Gate};

/// Where a tensor lies: in a buffer of its own, or in the arena that those share which do not always live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Of the tape's tensor of that index.
    Own(usize),
    /// The life of that index.
    Arena(usize),
}

/// An operation of the forward or backward pass.
#[derive(Debug, Clone, Copy)]
pub(super) enum Instruction {
    /// `c = alpha · op(a) · op(b) + bias`.
    Product {
        shape: ProductShape,
        a: Place,
        transpose_a: bool,
        b: Place,
        transpose_b: bool,
        bias: Option<Place>,
        alpha: f32,
        c: Place,
    },
    /// A frozen weight as F32.
    Unpack {
        shape: EmbeddingShape,
        weight: Place,
        rows: Place,
        out: Place,
    },
    LinearBackward {
        shape: LinearShape,
        x: Place,
        weight: Place,
        gradient: Place,
        of_x: Option<Place>,
        of_weight: Option<Place>,
        of_bias: Option<Place>,
    },
    Activation {
        function: Function,
        count: usize,
        x: Place,
        out: Place,
    },
    ActivationBackward {
        function: Function,
        count: usize,
        y: Place,
        gradient: Place,
        out: Place,
    },
    Add {
        count: usize,
        a: Place,
        b: Place,
        out: Place,
    },
    /// Also from one type to another.
    Copy {
        count: usize,
        from: Place,
        to: Place,
    },
    Mse {
        shape: [usize; 2],
        prediction: Place,
        target: Place,
        gradient: Place,
        loss: Place,
    },
    CrossEntropy {
        shape: [usize; 2],
        logits: Place,
        labels: Place,
        gradient: Place,
        loss: Place,
    },
    Embedding {
        shape: EmbeddingShape,
        table: Place,
        ids: Place,
        scale: f32,
        out: Place,
    },
    EmbeddingBackward {
        shape: EmbeddingShape,
        ids: Place,
        gradient: Place,
        scale: f32,
        out: Place,
    },
    RmsNorm {
        shape: [usize; 2],
        x: Place,
        weight: Place,
        eps: f32,
        out: Place,
    },
    /// The products' sum over rows is the gradient of the weight.
    RmsNormBackward {
        shape: [usize; 2],
        x: Place,
        weight: Place,
        eps: f32,
        gradient: Place,
        of_x: Place,
        products: Place,
    },
    Gated {
        gate: Gate,
        count: usize,
        a: Place,
        b: Place,
        out: Place,
    },
    GatedBackward {
        gate: Gate,
        count: usize,
        a: Place,
        b: Place,
        gradient: Place,
        of_a: Place,
        of_b: Place,
    },
    Softmax {
        shape: [usize; 2],
        x: Place,
        out: Place,
    },
    SoftmaxBackward {
        shape: [usize; 2],
        y: Place,
        gradient: Place,
        out: Place,
    },
    /// A copy, rotated by the positions or back.
    Rope {
        shape: [usize; 2],
        rotation: Rotation,
        back: bool,
        positions: Place,
        factors: Option<(Place, usize)>,
        from: Place,
        to: Place,
    },
    Attention {
        shape: AttentionShape,
        q: Place,
        k: Place,
        v: Place,
        out: Place,
    },
    AttentionBackward {
        shape: AttentionShape,
        q: Place,
        k: Place,
        v: Place,
        out: Place,
        gradient: Place,
        of_q: Place,
        of_k: Place,
        of_v: Place,
    },
    SumRows {
        shape: [usize; 2],
        x: Place,
        out: Place,
    },
    /// Of each row, written from element `skip` of `out` on.
    SumSquares {
        shape: [usize; 2],
        x: Place,
        out: Place,
        skip: usize,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct EmbeddingShape {
    pub rows: usize,
    pub width: usize,
    pub vocab: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct AttentionShape {
    /// Rows of a sequence, and how many sequences there are.
    pub sequence: usize,
    pub sequences: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub scale: Option<f32>,
}

/// `c` is `m × n`, and each element of it a sum of `k` products.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProductShape {
    pub m: usize,
    pub n: usize,
    pub k: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct LinearShape {
    pub rows: usize,
    pub inputs: usize,
    pub outputs: usize,
}
