//! Layers that multiply numbers of 16 bits, and what keeps their gradients from vanishing.

use crate::dtype::DType;

/// What the products of a tape's parameters are made of. Parameters, the optimizer's state, sums and all other
/// operations are F32 in each case (Micikevicius et al. 2017, [arXiv:1710.03740](https://arxiv.org/abs/1710.03740)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Precision {
    /// F32.
    #[default]
    F32,
    /// Inputs, copies of weights and gradients are F16, and the losses are scaled so that gradients do not vanish.
    F16,
    /// Copies of weights are BF16; inputs and gradients stay F32, and nothing is scaled.
    Bf16,
}

impl Precision {
    /// The type of the weights' copies, if there are any.
    pub(super) fn of_weights(self) -> Option<DType> {
        match self {
            Precision::F32 => None,
            Precision::F16 => Some(DType::F16),
            Precision::Bf16 => Some(DType::Bf16),
        }
    }
}

/// What a loss is multiplied by, so that the gradients of a backward pass in F16 are neither 0 nor infinite.
///
/// It is a power of two unless the caller sets another number, so that it changes no digit of a gradient. The rules and
/// numbers are those of PyTorch's `GradScaler`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LossScale {
    pub factor: f32,
    /// Updates since it last changed.
    pub steady: u32,
}

impl LossScale {
    /// Its tensor in a checkpoint.
    pub const NAME: &str = "optimizer.loss_scale";

    /// Of a tape that is planned with this precision.
    pub fn of(precision: Precision) -> Option<LossScale> {
        (precision == Precision::F16).then_some(LossScale {
            factor: 65536.0,
            steady: 0,
        })
    }

    /// Updates after which it is doubled.
    const PATIENCE: u32 = 2000;
    /// Gradients of F32 that are scaled by more could be infinite before they are F16.
    const MOST: f32 = 16_777_216.0;

    pub fn saved(self) -> Vec<f32> {
        vec![self.factor, self.steady as f32]
    }

    /// What was saved, if it is a scale.
    pub fn restored(saved: &[f32]) -> Option<LossScale> {
        let [factor, steady] = *saved else {
            return None;
        };
        let is_scale = (1.0..=f32::MAX).contains(&factor)
            && (0.0..LossScale::PATIENCE as f32).contains(&steady);
        is_scale.then_some(LossScale {
            factor,
            steady: steady as u32,
        })
    }

    /// The weights learned from finite gradients.
    pub fn learned(&mut self) {
        self.steady += 1;
        if self.steady == LossScale::PATIENCE {
            *self = LossScale {
                factor: (2.0 * self.factor).min(LossScale::MOST),
                steady: 0,
            };
        }
    }

    /// Gradients were not finite.
    pub fn lower(&mut self) {
        *self = LossScale {
            factor: (self.factor / 2.0).max(1.0),
            steady: 0,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_doubles_with_patience_and_halves_at_once() {
        let mut scale = LossScale::of(Precision::F16).unwrap();
        for _ in 0..LossScale::PATIENCE - 1 {
            scale.learned();
        }
        assert_eq!(scale.factor, 65536.0);
        scale.learned();
        assert_eq!((scale.factor, scale.steady), (131_072.0, 0));
        scale.learned();
        scale.lower();
        assert_eq!((scale.factor, scale.steady), (65536.0, 0));
        for _ in 0..16 {
            scale.lower();
        }
        assert_eq!(scale.factor, 1.0);
        for _ in 0..30 * LossScale::PATIENCE {
            scale.learned();
        }
        assert_eq!(scale.factor, LossScale::MOST);
        assert_eq!(LossScale::of(Precision::Bf16), None);
    }
}
