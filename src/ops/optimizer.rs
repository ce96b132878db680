//! Steps of optimizers, in place.

use crate::commands::Commands;
use crate::error::{Result, check};
use crate::ffi;
use crate::ops::optional_factor;
use crate::ops::shapes::Shapes;
use crate::tensor::Tensor;

/// A step of gradient descent with momentum: `g = gradient + weight_decay · weights`,
/// `velocity = momentum · velocity + g`, `weights -= learning_rate · velocity` (`iron_sgd`).
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Sgd<'a> {
    /// As many elements as `weights`, packed; F32.
    pub gradient: Tensor<'a>,
    /// Any shape, packed; F32. They change.
    pub weights: Tensor<'a>,
    /// As many elements as `weights`, packed; F32, zeros at first. They change.
    pub velocity: Tensor<'a>,
    /// At least 0.
    pub learning_rate: f32,
    /// From 0, which is the default, to below 1.
    pub momentum: f32,
    /// At least 0, which is the default.
    pub weight_decay: f32,
}

impl<'a> Sgd<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(
        weights: Tensor<'a>,
        gradient: Tensor<'a>,
        velocity: Tensor<'a>,
        learning_rate: f32,
    ) -> Self {
        Sgd {
            weights,
            gradient,
            velocity,
            learning_rate,
            ..Default::default()
        }
    }

    /// Sets [`momentum`](Self::momentum).
    #[must_use]
    pub fn with_momentum(self, momentum: f32) -> Self {
        Sgd { momentum, ..self }
    }

    /// Sets [`weight_decay`](Self::weight_decay).
    #[must_use]
    pub fn with_weight_decay(self, weight_decay: f32) -> Self {
        Sgd {
            weight_decay,
            ..self
        }
    }
}

/// A step of Adam; with a weight decay it is AdamW (`iron_adam`).
///
/// `m = beta1 · m + (1 - beta1) · gradient`, `v = beta2 · v + (1 - beta2) · gradient²`, and `weights = (1 -
/// learning_rate · weight_decay) · weights - learning_rate · m̂ / (√v̂ + eps)` with `m̂ = m / (1 - beta1^step)` and
/// `v̂ = v / (1 - beta2^step)`.
///
/// Kingma and Ba 2014, [arXiv:1412.6980](https://arxiv.org/abs/1412.6980), algorithm 1; Loshchilov and Hutter 2017,
/// [arXiv:1711.05101](https://arxiv.org/abs/1711.05101), algorithm 2.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Adam<'a> {
    /// Which step it is, from 1 on.
    pub step: u64,
    /// As many elements as `weights`, packed; F32.
    pub gradient: Tensor<'a>,
    /// Any shape, packed; F32. They change.
    pub weights: Tensor<'a>,
    /// `m`, as many elements as `weights`, packed; F32, zeros at first. They change.
    pub first_moment: Tensor<'a>,
    /// `v`, as many elements as `weights`, packed; F32, zeros at first. They change.
    pub second_moment: Tensor<'a>,
    /// At least 0.
    pub learning_rate: f32,
    /// Between 0 and 1. `None`: 0.9.
    pub beta1: Option<f32>,
    /// Between 0 and 1. `None`: 0.999.
    pub beta2: Option<f32>,
    /// Above 0. `None`: 1e-8.
    pub eps: Option<f32>,
    /// At least 0, which is the default.
    pub weight_decay: f32,
}

impl<'a> Adam<'a> {
    /// Of these operands; everything else takes its default.
    pub fn new(
        weights: Tensor<'a>,
        gradient: Tensor<'a>,
        first_moment: Tensor<'a>,
        second_moment: Tensor<'a>,
        step: u64,
        learning_rate: f32,
    ) -> Self {
        Adam {
            weights,
            gradient,
            first_moment,
            second_moment,
            step,
            learning_rate,
            ..Default::default()
        }
    }

    /// Sets [`beta1`](Self::beta1).
    #[must_use]
    pub fn with_beta1(self, beta1: impl Into<Option<f32>>) -> Self {
        Adam {
            beta1: beta1.into(),
            ..self
        }
    }

    /// Sets [`beta2`](Self::beta2).
    #[must_use]
    pub fn with_beta2(self, beta2: impl Into<Option<f32>>) -> Self {
        Adam {
            beta2: beta2.into(),
            ..self
        }
    }

    /// Sets [`eps`](Self::eps).
    #[must_use]
    pub fn with_eps(self, eps: impl Into<Option<f32>>) -> Self {
        Adam {
            eps: eps.into(),
            ..self
        }
    }

    /// Sets [`weight_decay`](Self::weight_decay).
    #[must_use]
    pub fn with_weight_decay(self, weight_decay: f32) -> Self {
        Adam {
            weight_decay,
            ..self
        }
    }
}

impl Commands {
    /// Records a step of gradient descent (`iron_encode_sgd_step`).
    #[track_caller]
    pub fn sgd_step(&mut self, sgd: &Sgd<'_>) -> Result<()> {
        let call = "Commands::sgd_step";
        let shapes = Shapes(call);
        let count = shapes.count("weights", sgd.weights)?;
        shapes.vector("gradient", sgd.gradient, count)?;
        shapes.vector("velocity", sgd.velocity, count)?;
        let native = ffi::iron_sgd {
            size: size_of::<ffi::iron_sgd>(),
            count: count as u64,
            gradient: sgd.gradient.native(),
            weights: sgd.weights.native(),
            velocity: sgd.velocity.native(),
            learning_rate: sgd.learning_rate,
            momentum: sgd.momentum,
            weight_decay: sgd.weight_decay,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_sgd_step(self.recorder(), &native)
        })
    }

    /// Records a step of Adam (`iron_encode_adam_step`).
    #[track_caller]
    pub fn adam_step(&mut self, adam: &Adam<'_>) -> Result<()> {
        let call = "Commands::adam_step";
        let shapes = Shapes(call);
        let count = shapes.count("weights", adam.weights)?;
        shapes.vector("gradient", adam.gradient, count)?;
        shapes.vector("first_moment", adam.first_moment, count)?;
        shapes.vector("second_moment", adam.second_moment, count)?;
        let native = ffi::iron_adam {
            size: size_of::<ffi::iron_adam>(),
            count: count as u64,
            step: adam.step,
            gradient: adam.gradient.native(),
            weights: adam.weights.native(),
            first_moment: adam.first_moment.native(),
            second_moment: adam.second_moment.native(),
            learning_rate: adam.learning_rate,
            beta1: optional_factor(call, "beta1", adam.beta1)?,
            beta2: optional_factor(call, "beta2", adam.beta2)?,
            eps: optional_factor(call, "eps", adam.eps)?,
            weight_decay: adam.weight_decay,
        };
        // SAFETY: the handle is live, and the struct starts with its size and outlives the call.
        check(call, unsafe {
            ffi::iron_encode_adam_step(self.recorder(), &native)
        })
    }
}
