//! How weights learn from their gradients.

use crate::train::error::TrainError;

/// Adam's numbers; with a weight decay it is AdamW ([`ops::Adam`](crate::ops::Adam) has the formula).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    /// Between 0 and 1.
    pub beta1: f32,
    /// Between 0 and 1.
    pub beta2: f32,
    /// Above 0.
    pub eps: f32,
    /// At least 0.
    pub weight_decay: f32,
}

impl Default for Adam {
    /// 0.9, 0.999, 1e-8, and no decay.
    fn default() -> Adam {
        Adam {
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0.0,
        }
    }
}

/// The numbers of gradient descent ([`ops::Sgd`](crate::ops::Sgd) has the formula). The default has no momentum and no
/// decay.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sgd {
    /// From 0 to below 1.
    pub momentum: f32,
    /// At least 0.
    pub weight_decay: f32,
}

/// An optimizer and its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Optimizer {
    /// Adam or AdamW.
    Adam(Adam),
    /// Gradient descent.
    Sgd(Sgd),
}

impl From<Adam> for Optimizer {
    fn from(adam: Adam) -> Optimizer {
        Optimizer::Adam(adam)
    }
}

impl From<Sgd> for Optimizer {
    fn from(sgd: Sgd) -> Optimizer {
        Optimizer::Sgd(sgd)
    }
}

impl Optimizer {
    /// The names of what it keeps for each parameter.
    pub(super) fn state(&self) -> &'static [&'static str] {
        match self {
            Optimizer::Adam(_) => &["first_moment", "second_moment"],
            Optimizer::Sgd(_) => &["velocity"],
        }
    }

    pub(super) fn check(&self) -> Result<(), TrainError> {
        let check = |option, value: f32, right: bool, expected| match right {
            true => Ok(()),
            false => Err(TrainError::Option {
                option,
                value,
                expected,
            }),
        };
        let between = |option, value: f32| {
            let right = value > 0.0 && value < 1.0;
            check(option, value, right, "between 0 and 1")
        };
        let decay = |value: f32| {
            let right = value >= 0.0 && value.is_finite();
            check("weight_decay", value, right, "finite and at least 0")
        };
        match *self {
            Optimizer::Adam(adam) => {
                between("beta1", adam.beta1)?;
                between("beta2", adam.beta2)?;
                let right = adam.eps > 0.0 && adam.eps.is_finite();
                check("eps", adam.eps, right, "finite and above 0")?;
                decay(adam.weight_decay)
            }
            Optimizer::Sgd(sgd) => {
                let right = (0.0..1.0).contains(&sgd.momentum);
                check("momentum", sgd.momentum, right, "from 0 to below 1")?;
                decay(sgd.weight_decay)
            }
        }
    }
}
