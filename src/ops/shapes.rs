//! Whether the shapes of an operation's operands fit each other. The bridge checks all else.

use crate::error::{Error, Result, Status};
use crate::tensor::Tensor;

/// Of this call, which errors name.
pub(super) struct Shapes(pub &'static str);

impl Shapes {
    /// The shape that others follow from.
    pub fn of(&self, name: &str, tensor: Tensor<'_>) -> Result<[usize; 2]> {
        self.straight(name, tensor)?;
        self.oriented_of(name, tensor)
    }

    /// The same of a matrix that may be transposed.
    pub fn oriented_of(&self, name: &str, tensor: Tensor<'_>) -> Result<[usize; 2]> {
        match tensor.is_missing() {
            true => Err(self.error(format!("{name}: there is none"))),
            false => Ok(tensor.shape()),
        }
    }

    /// The number of elements that others follow from.
    pub fn count(&self, name: &str, tensor: Tensor<'_>) -> Result<usize> {
        let [rows, columns] = self.of(name, tensor)?;
        rows.checked_mul(columns)
            .ok_or_else(|| self.error(format!("{name}: {rows} × {columns} elements overflow")))
    }

    /// `tensor` is `rows × columns`, or missing, which the bridge refuses where it may not be.
    pub fn matrix(&self, name: &str, tensor: Tensor<'_>, shape: [usize; 2]) -> Result<()> {
        self.straight(name, tensor)?;
        self.oriented(name, tensor, shape)
    }

    /// The same, and it may be transposed.
    pub fn oriented(&self, name: &str, tensor: Tensor<'_>, shape: [usize; 2]) -> Result<()> {
        if tensor.is_missing() || tensor.shape() == shape {
            return Ok(());
        }
        let ([rows, columns], [needed_rows, needed_columns]) = (tensor.shape(), shape);
        Err(self.error(format!(
            "{name}: is {rows} × {columns}, and {needed_rows} × {needed_columns} is needed"
        )))
    }

    /// `tensor` has `count` elements in whatever shape, or is missing.
    pub fn vector(&self, name: &str, tensor: Tensor<'_>, count: usize) -> Result<()> {
        if tensor.is_missing() {
            return Ok(());
        }
        match self.count(name, tensor)? {
            found if found == count => Ok(()),
            found => Err(self.error(format!(
                "{name}: has {found} elements, and {count} are needed"
            ))),
        }
    }

    /// How many heads of `head_dim` elements a row of `tensor` has.
    pub fn heads(&self, name: &str, tensor: Tensor<'_>, head_dim: usize) -> Result<usize> {
        let [_, width] = tensor.shape();
        match width.checked_rem(head_dim) {
            None => Err(self.error(String::from("head_dim: is 0"))),
            Some(0) => Ok(width / head_dim),
            Some(_) => Err(self.error(format!(
                "{name}: a row has {width} elements, and heads have {head_dim}"
            ))),
        }
    }

    /// The position of the first query, where the queries are those of the last positions.
    pub fn first_position(&self, positions: usize, tokens: usize) -> Result<usize> {
        positions
            .checked_sub(tokens)
            .ok_or_else(|| self.error(format!("k: has {positions} positions, and q has {tokens}")))
    }

    fn straight(&self, name: &str, tensor: Tensor<'_>) -> Result<()> {
        match tensor.is_transposed() {
            true => Err(self.error(format!(
                "{name}: is transposed, which this operation does not take"
            ))),
            false => Ok(()),
        }
    }

    fn error(&self, message: String) -> Error {
        Error::new(self.0, Status::InvalidArgument, message)
    }
}
