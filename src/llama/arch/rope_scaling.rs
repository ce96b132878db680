//! How a model that was trained on short texts is stretched to long ones: by slower rotations.

use std::f64::consts::TAU;

use crate::llama::error::LlamaError;

/// How the frequencies of the rotation were changed, from the plain `base^(-2i / rotary_dim)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum RopeScaling {
    /// They were not.
    #[default]
    None,
    /// All divided by `factor`. Chen et al. 2023, [arXiv:2306.15595](https://arxiv.org/abs/2306.15595).
    Linear {
        /// How much longer texts are than in the training.
        factor: f32,
    },
    /// Slow ones divided, fast ones kept, a ramp between, and sharper attention.
    Yarn(Yarn),
}

/// Peng et al. 2023, [arXiv:2309.00071](https://arxiv.org/abs/2309.00071), section 3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Yarn {
    /// What slow frequencies are divided by.
    pub factor: f32,
    /// The context of the training, in tokens.
    pub original_context: usize,
    /// A frequency is fast when it turns more often than this in the original context; 32 in the paper.
    pub beta_fast: f32,
    /// And slow when it turns fewer times than this; 1 in the paper.
    pub beta_slow: f32,
    /// What queries and keys are multiplied with besides the paper's `0.1 ln(factor) + 1`; usually 1.
    pub attention_factor: f32,
}

impl RopeScaling {
    /// What every position is multiplied with.
    pub(crate) fn frequency_scale(&self) -> f32 {
        match self {
            RopeScaling::Linear { factor } => 1.0 / factor,
            _ => 1.0,
        }
    }

    /// What each of the `rotary_dim / 2` frequencies is divided by; `None`: by nothing.
    pub(crate) fn frequency_factors(&self, base: f32, rotary_dim: usize) -> Option<Vec<f32>> {
        let pairs = rotary_dim / 2;
        match self {
            RopeScaling::None | RopeScaling::Linear { .. } => None,
            RopeScaling::Yarn(yarn) => {
                let (low, high) = yarn.ramp(base.into(), rotary_dim);
                let factor = |pair| yarn.divisor(pair, low, high) as f32;
                Some((0..pairs).map(factor).collect())
            }
        }
    }

    /// What the products of queries and keys are multiplied with.
    pub(crate) fn score_scale(&self) -> f32 {
        match self {
            RopeScaling::Yarn(yarn) => {
                let sharper = 0.1 * yarn.factor.max(1.0).ln() + 1.0;
                (sharper * yarn.attention_factor).powi(2)
            }
            _ => 1.0,
        }
    }

    /// Holds the numbers against their bounds; `key` is where they are from.
    pub(crate) fn check(&self, key: &str) -> Result<(), LlamaError> {
        let positive = |name: &str, value| above_zero(&format!("{key}.{name}"), value).map(|_| ());
        match self {
            RopeScaling::None => Ok(()),
            RopeScaling::Linear { factor } => positive("factor", *factor),
            RopeScaling::Yarn(yarn) => {
                positive("factor", yarn.factor)?;
                positive("beta_fast", yarn.beta_fast)?;
                positive("beta_slow", yarn.beta_slow)?;
                positive("attn_factor", yarn.attention_factor)
            }
        }
    }
}

impl Yarn {
    /// The first pair that is not wholly fast, and the first that is wholly slow.
    fn ramp(&self, base: f64, rotary_dim: usize) -> (f64, f64) {
        let pair = |turns: f32| {
            let original = self.original_context as f64;
            rotary_dim as f64 * (original / (f64::from(turns) * TAU)).ln() / (2.0 * base.ln())
        };
        let low = pair(self.beta_fast).floor().max(0.0);
        let high = pair(self.beta_slow).ceil().min(rotary_dim as f64 - 1.0);
        (low, high)
    }

    fn divisor(&self, pair: usize, low: f64, high: f64) -> f64 {
        // A ramp of no length is a step.
        let slow = ((pair as f64 - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
        1.0 / (slow / f64::from(self.factor) + 1.0 - slow)
    }
}

pub(super) fn above_zero(key: &str, value: f32) -> Result<f32, LlamaError> {
    match value.is_finite() && value > 0.0 {
        true => Ok(value),
        false => Err(wrong(key, value, "it must be a number above zero")),
    }
}

pub(crate) fn wrong(key: &str, value: impl ToString, reason: &'static str) -> LlamaError {
    LlamaError::Hyperparameter {
        key: key.to_owned(),
        value: value.to_string(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yarn_sharpens_attention_and_divides_the_slow() {
        let scaling = RopeScaling::Yarn(Yarn {
            factor: 4.0,
            original_context: 32_768,
            beta_fast: 32.0,
            beta_slow: 1.0,
            attention_factor: 1.0,
        });
        let factors = scaling.frequency_factors(1e6, 128).unwrap();
        assert_eq!((factors[0], factors[63]), (1.0, 4.0));
        let expected = (0.1 * f32::ln(4.0) + 1.0).powi(2);
        assert!((scaling.score_scale() - expected).abs() < 1e-6);
    }

    #[test]
    fn numbers_that_are_not_above_zero_are_errors() {
        let linear = |factor| RopeScaling::Linear { factor };
        assert!(linear(8.0).check("rope").is_ok());
        for factor in [0.0, -1.0, f32::NAN, f32::INFINITY] {
            let error = linear(factor).check("rope").unwrap_err();
            assert!(error.to_string().contains("rope.factor"), "{error}");
        }
    }
}
