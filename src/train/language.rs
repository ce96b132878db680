//! What language models record on a tape.

use crate::dtype::DType;
use crate::train::error::TrainError;
use crate::train::rotation::Rotation;
use crate::train::tape::{Gate, Operation, Source, Tape, Variable};

/// Elements of a head that attention has room for.
const LARGEST_HEAD: usize = 256;

impl Tape {
    /// A row of a table for each of `rows` rows, U32, which the caller writes before a step
    /// ([`Trainer::write_ids`](super::Trainer::write_ids)).
    ///
    /// # Errors
    /// [`TrainError::Name`], [`TrainError::Size`].
    pub fn ids(&mut self, name: &str, rows: usize) -> Result<Variable, TrainError> {
        self.tensor(name, [rows, 1], DType::U32, Source::Ids)
    }

    /// The position of each of `rows` rows, U32, in sequences of `sequence` rows: 0, 1 and so on, and from 0 again.
    ///
    /// # Errors
    /// [`TrainError::Name`], [`TrainError::Size`], and when the rows are not whole sequences.
    pub fn positions(
        &mut self,
        name: &str,
        rows: usize,
        sequence: usize,
    ) -> Result<Variable, TrainError> {
        if sequence == 0 || !rows.is_multiple_of(sequence) {
            return Err(TrainError::Size {
                tensor: name.to_owned(),
                rows,
                width: sequence,
            });
        }
        self.tensor(name, [rows, 1], DType::U32, Source::Positions(sequence))
    }

    /// Records the rows of a table, vocabulary × width, that have these ids. The table may be
    /// [`frozen`](Tape::frozen).
    ///
    /// # Errors
    /// [`TrainError::Shape`], [`TrainError::Name`], [`TrainError::ForeignVariable`].
    pub fn embedding(
        &mut self,
        name: &str,
        table: Variable,
        ids: Variable,
    ) -> Result<Variable, TrainError> {
        self.scaled_embedding(name, table, ids, 1.0)
    }

    /// Records the same times a factor, as Gemma's.
    ///
    /// # Errors
    /// [`TrainError::Option`] when the factor is 0 or not finite, and those of [`embedding`](Tape::embedding).
    pub fn scaled_embedding(
        &mut self,
        name: &str,
        table: Variable,
        ids: Variable,
        scale: f32,
    ) -> Result<Variable, TrainError> {
        check_factor("scale", scale)?;
        let table = self.weights("embedding", table)?;
        let ids = self.index(ids)?;
        let rows = self.tensors[ids].shape[0];
        if !matches!(self.sources[ids], Source::Ids) {
            return Err(self.misfit("embedding", ids, format!("{rows} ids of Tape::ids")));
        }
        let width = self.tensors[table].shape[1];
        self.record(name, [rows, width], |out| Operation::Embedding {
            table,
            ids,
            scale,
            out,
        })
    }

    /// Records the root mean square normalization ([`ops::RmsNorm`](crate::ops::RmsNorm)) of rows; the weight is 1 ×
    /// width. A shorter weight, as long as a head, normalizes each head of a row by itself.
    ///
    /// # Errors
    /// [`TrainError::Option`] when `eps` is below 0 or not finite, [`TrainError::Shape`], [`TrainError::Name`],
    /// [`TrainError::ForeignVariable`].
    pub fn rms_norm(
        &mut self,
        name: &str,
        x: Variable,
        weight: Variable,
        eps: f32,
    ) -> Result<Variable, TrainError> {
        let (x, weight) = (
            self.floats("rms_norm", x)?,
            self.floats("rms_norm", weight)?,
        );
        let shape = self.tensors[x].shape;
        let [count, length] = self.tensors[weight].shape;
        if count != 1 || !shape[1].is_multiple_of(length) {
            let expected = format!("1 × a divisor of {} F32", shape[1]);
            return Err(self.misfit("rms_norm", weight, expected));
        }
        if !(eps >= 0.0 && eps.is_finite()) {
            return Err(TrainError::Option {
                option: "eps",
                value: eps,
                expected: "finite and at least 0",
            });
        }
        self.record(name, shape, |out| Operation::RmsNorm {
            x,
            weight,
            eps,
            out,
        })
    }

    /// Records `silu(a) · b` ([`Commands::silu_mul`](crate::Commands::silu_mul)), of the same shape.
    ///
    /// # Errors
    /// [`TrainError::Shape`], [`TrainError::Name`], [`TrainError::ForeignVariable`].
    pub fn silu_mul(
        &mut self,
        name: &str,
        a: Variable,
        b: Variable,
    ) -> Result<Variable, TrainError> {
        self.gated(name, "silu_mul", Gate::Silu, [a, b])
    }

    /// Records `gelu(a) · b` ([`Commands::gelu_mul`](crate::Commands::gelu_mul)). Errors as for
    /// [`silu_mul`](Tape::silu_mul).
    pub fn gelu_mul(
        &mut self,
        name: &str,
        a: Variable,
        b: Variable,
    ) -> Result<Variable, TrainError> {
        self.gated(name, "gelu_mul", Gate::Gelu, [a, b])
    }

    fn gated(
        &mut self,
        name: &str,
        operation: &'static str,
        gate: Gate,
        [a, b]: [Variable; 2],
    ) -> Result<Variable, TrainError> {
        let (a, b) = (self.floats(operation, a)?, self.floats(operation, b)?);
        let shape = self.tensors[a].shape;
        self.expect(operation, b, shape)?;
        self.record(name, shape, |out| Operation::Gated { gate, a, b, out })
    }

    /// Records `silu(x) = x / (1 + exp(-x))`. All of one shape share memory for as many ones.
    ///
    /// # Errors
    /// [`TrainError::Name`], [`TrainError::ForeignVariable`].
    pub fn silu(&mut self, name: &str, x: Variable) -> Result<Variable, TrainError> {
        self.ungated(name, "silu", Gate::Silu, x)
    }

    /// Records `gelu(x)`, with the formula of [`Commands::gelu_mul`](crate::Commands::gelu_mul). As
    /// [`silu`](Tape::silu).
    pub fn gelu(&mut self, name: &str, x: Variable) -> Result<Variable, TrainError> {
        self.ungated(name, "gelu", Gate::Gelu, x)
    }

    fn ungated(
        &mut self,
        name: &str,
        operation: &'static str,
        gate: Gate,
        x: Variable,
    ) -> Result<Variable, TrainError> {
        let a = self.floats(operation, x)?;
        let b = self.ones_like(name, a)?;
        let shape = self.tensors[a].shape;
        self.record(name, shape, |out| Operation::Gated { gate, a, b, out })
    }

    /// Records the softmax of each row.
    ///
    /// # Errors
    /// [`TrainError::Name`], [`TrainError::ForeignVariable`].
    pub fn softmax(&mut self, name: &str, x: Variable) -> Result<Variable, TrainError> {
        let x = self.floats("softmax", x)?;
        let shape = self.tensors[x].shape;
        self.record(name, shape, |out| Operation::Softmax { x, out })
    }

    /// Records a rotation of all heads by their row's position, of [`positions`](Tape::positions).
    ///
    /// # Errors
    /// [`TrainError::Shape`] when a row is no whole number of heads or a head is odd, [`TrainError::Option`] when the
    /// base is not above 0, [`TrainError::Name`], [`TrainError::ForeignVariable`].
    pub fn rope(
        &mut self,
        name: &str,
        x: Variable,
        positions: Variable,
        rotation: Rotation,
    ) -> Result<Variable, TrainError> {
        self.rotate(name, x, positions, rotation, None)
    }

    /// Records a rotation whose frequencies are divided by `factors`, 1 × pairs: an input of the caller's. Only as many
    /// pairs of each head are rotated as there are factors.
    ///
    /// # Errors
    /// Those of [`rope`](Tape::rope).
    pub fn rope_with_factors(
        &mut self,
        name: &str,
        x: Variable,
        positions: Variable,
        rotation: Rotation,
        factors: Variable,
    ) -> Result<Variable, TrainError> {
        self.rotate(name, x, positions, rotation, Some(factors))
    }

    fn rotate(
        &mut self,
        name: &str,
        x: Variable,
        positions: Variable,
        rotation: Rotation,
        factors: Option<Variable>,
    ) -> Result<Variable, TrainError> {
        let x = self.floats("rope", x)?;
        let positions = self.index(positions)?;
        let shape = self.tensors[x].shape;
        let head_dim = rotation.head_dim;
        if head_dim == 0 || !head_dim.is_multiple_of(2) || !shape[1].is_multiple_of(head_dim) {
            let expected = format!(
                "{} × a multiple of an even head_dim, not {head_dim}",
                shape[0]
            );
            return Err(self.misfit("rope", x, expected));
        }
        let are_positions = matches!(self.sources[positions], Source::Positions(_));
        if !are_positions || self.tensors[positions].shape != [shape[0], 1] {
            let expected = format!("{} positions of Tape::positions", shape[0]);
            return Err(self.misfit("rope", positions, expected));
        }
        if !(rotation.base > 0.0 && rotation.base.is_finite()) {
            return Err(TrainError::Option {
                option: "base",
                value: rotation.base,
                expected: "finite and above 0",
            });
        }
        let factors = factors
            .map(|factors| self.floats("rope", factors))
            .transpose()?;
        if let Some(factors) = factors {
            let [count, pairs] = self.tensors[factors].shape;
            if count != 1 || 2 * pairs > head_dim {
                let expected = format!("1 × at most {} F32", head_dim / 2);
                return Err(self.misfit("rope", factors, expected));
            }
        }
        self.record(name, shape, |out| Operation::Rope {
            x,
            positions,
            rotation,
            factors,
            out,
        })
    }

    /// Records causal attention within each sequence of `sequence` rows. q is rows × heads · head_dim, k and v are rows
    /// × kv_heads · head_dim, and heads are a multiple of kv_heads.
    ///
    /// # Errors
    /// [`TrainError::Shape`], [`TrainError::Name`], [`TrainError::ForeignVariable`].
    pub fn attention(
        &mut self,
        name: &str,
        operands: [Variable; 3],
        head_dim: usize,
        sequence: usize,
    ) -> Result<Variable, TrainError> {
        self.attend(name, operands, head_dim, sequence, None)
    }

    /// Records attention whose scores are multiplied by `scale`, and not by `1 / sqrt(head_dim)`.
    ///
    /// # Errors
    /// [`TrainError::Option`] when the scale is 0 or not finite, and those of [`attention`](Tape::attention).
    pub fn scaled_attention(
        &mut self,
        name: &str,
        operands: [Variable; 3],
        head_dim: usize,
        sequence: usize,
        scale: f32,
    ) -> Result<Variable, TrainError> {
        check_factor("scale", scale)?;
        self.attend(name, operands, head_dim, sequence, Some(scale))
    }

    fn attend(
        &mut self,
        name: &str,
        [q, k, v]: [Variable; 3],
        head_dim: usize,
        sequence: usize,
        scale: Option<f32>,
    ) -> Result<Variable, TrainError> {
        let [q, k, v] = [
            self.floats("attention", q)?,
            self.floats("attention", k)?,
            self.floats("attention", v)?,
        ];
        let shape = self.tensors[q].shape;
        let [keys, narrow] = self.tensors[k].shape;
        if head_dim == 0 || head_dim > LARGEST_HEAD || !shape[1].is_multiple_of(head_dim) {
            let expected = format!(
                "{} × a multiple of head_dim {head_dim}, at most {LARGEST_HEAD}",
                shape[0]
            );
            return Err(self.misfit("attention", q, expected));
        }
        if sequence == 0 || !shape[0].is_multiple_of(sequence) {
            let expected = format!("whole sequences of {sequence} rows × {}", shape[1]);
            return Err(self.misfit("attention", q, expected));
        }
        if keys != shape[0] || !narrow.is_multiple_of(head_dim) || !shape[1].is_multiple_of(narrow)
        {
            let expected = format!("{} × whole heads that divide {}", shape[0], shape[1]);
            return Err(self.misfit("attention", k, expected));
        }
        self.expect("attention", v, [keys, narrow])?;
        self.record(name, shape, |out| Operation::Attention {
            q,
            k,
            v,
            head_dim,
            sequence,
            scale,
            out,
        })
    }
}

/// What something is multiplied by.
fn check_factor(option: &'static str, value: f32) -> Result<(), TrainError> {
    match value.is_finite() && value != 0.0 {
        true => Ok(()),
        false => Err(TrainError::Option {
            option,
            value,
            expected: "finite and not 0",
        }),
    }
}
