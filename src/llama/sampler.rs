//! Picks the next token from a model's logits.

/// How to pick a token. The steps are llama.cpp's, in its order: top-k, top-p, temperature, draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplerOptions {
    /// Divides the logits before the draw: below 1 makes likely tokens likelier. 0 always takes the likeliest.
    pub temperature: f32,
    /// Only the so many likeliest tokens are drawn from; 0: all.
    pub top_k: u32,
    /// Of those, only the fewest whose probabilities sum to at least this; 1: all.
    pub top_p: f32,
    /// The same seed and options give the same tokens for the same logits.
    pub seed: u64,
}

impl Default for SamplerOptions {
    /// Always the likeliest token.
    fn default() -> SamplerOptions {
        SamplerOptions {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            seed: 0,
        }
    }
}

/// Why no token can be picked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SamplerError {
    /// Negative or not finite.
    #[error("the temperature is {0}; it must be a number that is not negative")]
    Temperature(f32),
    /// Not above 0 and up to 1.
    #[error("top-p is {0}; it must be above 0 and at most 1")]
    TopP(f32),
    /// There is no logit.
    #[error("there are no logits to pick from")]
    Empty,
    /// The model computed something that is no number.
    #[error("the logit of token {token} is {logit}")]
    NotFinite {
        /// The first token with such a logit.
        token: usize,
        /// NaN or an infinity.
        logit: f32,
    },
}

/// Picks tokens from logits.
#[derive(Clone, Debug)]
pub struct Sampler {
    options: SamplerOptions,
    random: SplitMix64,
    /// (token, logit, weight), kept to be used again.
    candidates: Vec<Candidate>,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    token: u32,
    logit: f32,
    weight: f64,
}

impl Sampler {
    /// # Errors
    ///
    /// [`SamplerError`] when an option is out of its range.
    pub fn new(options: SamplerOptions) -> Result<Sampler, SamplerError> {
        let SamplerOptions {
            temperature, top_p, ..
        } = options;
        if !(temperature.is_finite() && temperature >= 0.0) {
            return Err(SamplerError::Temperature(temperature));
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(SamplerError::TopP(top_p));
        }
        Ok(Sampler {
            options,
            random: SplitMix64(options.seed),
            candidates: Vec::new(),
        })
    }

    /// The next token, given one logit for each token of the vocabulary.
    ///
    /// # Errors
    ///
    /// [`SamplerError::Empty`] without logits and [`SamplerError::NotFinite`] when one is NaN or infinite.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, SamplerError> {
        if logits.is_empty() {
            return Err(SamplerError::Empty);
        }
        if let Some(token) = logits.iter().position(|logit| !logit.is_finite()) {
            let logit = logits[token];
            return Err(SamplerError::NotFinite { token, logit });
        }
        if self.options.temperature == 0.0 {
            return Ok(likeliest(logits));
        }
        self.keep_top_k(logits);
        self.keep_top_p();
        let total = self.weigh(self.options.temperature.into());
        Ok(self.draw(total))
    }

    /// The `top_k` candidates with the largest logits, largest first and, of equal ones, the lowest token first.
    fn keep_top_k(&mut self, logits: &[f32]) {
        let order =
            |a: &Candidate, b: &Candidate| b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token));
        let candidates = &mut self.candidates;
        candidates.clear();
        candidates.extend((0..).zip(logits).map(|(token, logit)| Candidate {
            token,
            logit: *logit,
            weight: 0.0,
        }));
        let kept = self.options.top_k as usize;
        if kept > 0 && kept < candidates.len() {
            candidates.select_nth_unstable_by(kept - 1, order);
            candidates.truncate(kept);
        }
        candidates.sort_unstable_by(order);
    }

    fn keep_top_p(&mut self) {
        if self.options.top_p == 1.0 {
            return;
        }
        let enough = self.weigh(1.0) * f64::from(self.options.top_p);
        let mut sum = 0.0;
        let last = self.candidates.iter().position(|candidate| {
            sum += candidate.weight;
            sum >= enough
        });
        if let Some(last) = last {
            self.candidates.truncate(last + 1);
        }
    }

    /// Sets each weight to exp((logit - largest logit) / temperature), which is the probability but for a factor;
    /// returns the sum.
    fn weigh(&mut self, temperature: f64) -> f64 {
        let largest = f64::from(self.candidates[0].logit);
        let mut total = 0.0;
        for candidate in &mut self.candidates {
            candidate.weight = ((f64::from(candidate.logit) - largest) / temperature).exp();
            total += candidate.weight;
        }
        total
    }

    /// A candidate, each as likely as its weight is of `total`.
    fn draw(&mut self, total: f64) -> u32 {
        let mut left = self.random.next_unit() * total;
        for candidate in &self.candidates {
            if left < candidate.weight {
                return candidate.token;
            }
            left -= candidate.weight;
        }
        // Rounding may leave a little: the likeliest stands in.
        self.candidates[0].token
    }
}

/// The lowest of the tokens with the largest logit.
fn likeliest(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (token, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = token;
        }
    }
    best as u32
}

/// Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators", figure 4: 64 bits of state, each value
/// once.
#[derive(Clone, Debug)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// From 0 to just below 1, a multiple of 2^-53.
    fn next_unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler(options: SamplerOptions) -> Sampler {
        Sampler::new(options).unwrap()
    }

    /// How often each token is drawn.
    fn counts(options: SamplerOptions, logits: &[f32], draws: usize) -> Vec<f64> {
        let mut sampler = sampler(options);
        let mut counts = vec![0.0; logits.len()];
        for _ in 0..draws {
            counts[sampler.sample(logits).unwrap() as usize] += 1.0 / draws as f64;
        }
        counts
    }

    #[test]
    fn the_generator_is_the_published_one() {
        // The first values for seed 1234567, from https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64.
        let mut random = SplitMix64(1234567);
        for expected in [
            6457827717110365317,
            3203168211198807973,
            9817491932198370423,
            4593380528125082431,
            16408922859458223821,
        ] {
            assert_eq!(random.next(), expected);
        }
    }

    #[test]
    fn without_temperature_the_likeliest_token_is_taken() {
        let mut greedy = sampler(SamplerOptions::default());
        assert_eq!(greedy.sample(&[0.0, 2.0, 1.0]), Ok(1));
        assert_eq!(
            greedy.sample(&[3.0, -1.0, 3.0]),
            Ok(0),
            "the lowest of equals"
        );
        assert_eq!(greedy.sample(&[f32::MIN]), Ok(0));
    }

    #[test]
    fn draws_follow_the_softmax() {
        let logits = [0.0, 1.0, 2.0, -1.0];
        for temperature in [0.5, 1.0, 2.0] {
            let options = SamplerOptions {
                temperature,
                ..Default::default()
            };
            let weights = logits.map(|logit| f64::exp(f64::from(logit) / f64::from(temperature)));
            let total: f64 = weights.iter().sum();
            for (count, weight) in counts(options, &logits, 100_000).iter().zip(weights) {
                // Six standard deviations of the mean of 100,000 draws.
                assert!(
                    (count - weight / total).abs() < 0.01,
                    "{temperature}: {count} {weight}"
                );
            }
        }
    }

    #[test]
    fn top_k_and_top_p_cut_the_tail() {
        let logits = [1.0, 5.0, 3.0, 4.0, 2.0]; // probabilities 0.012, 0.636, 0.086, 0.234, 0.032
        let options = |top_k, top_p| SamplerOptions {
            temperature: 10.0,
            top_k,
            top_p,
            seed: 7,
        };
        let drawn = |options| {
            let counts = counts(options, &logits, 10_000);
            let tokens = counts.iter().enumerate().filter(|(_, count)| **count > 0.0);
            tokens.map(|(token, _)| token).collect::<Vec<_>>()
        };
        assert_eq!(drawn(options(0, 1.0)), [0, 1, 2, 3, 4]);
        assert_eq!(drawn(options(2, 1.0)), [1, 3]);
        assert_eq!(drawn(options(99, 1.0)), [0, 1, 2, 3, 4]);
        assert_eq!(drawn(options(0, 0.5)), [1]);
        assert_eq!(drawn(options(0, 0.8)), [1, 3]);
        assert_eq!(drawn(options(0, 0.9)), [1, 2, 3]);
        assert_eq!(drawn(options(1, 0.9)), [1]);
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let logits: Vec<f32> = (0..100).map(|token| (token % 17) as f32 / 4.0).collect();
        let draw = |seed| {
            let options = SamplerOptions {
                temperature: 1.0,
                top_k: 40,
                top_p: 0.95,
                seed,
            };
            let mut sampler = sampler(options);
            (0..64)
                .map(|_| sampler.sample(&logits).unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn what_cannot_be_sampled_is_an_error() {
        for temperature in [-1.0, f32::NAN, f32::INFINITY] {
            let options = SamplerOptions {
                temperature,
                ..Default::default()
            };
            assert!(matches!(
                Sampler::new(options),
                Err(SamplerError::Temperature(_))
            ));
        }
        for top_p in [0.0, -0.5, 1.01, f32::NAN] {
            let options = SamplerOptions {
                top_p,
                ..Default::default()
            };
            assert!(matches!(Sampler::new(options), Err(SamplerError::TopP(_))));
        }
        for temperature in [0.0, 1.0] {
            let mut sampler = sampler(SamplerOptions {
                temperature,
                ..Default::default()
            });
            assert_eq!(sampler.sample(&[]), Err(SamplerError::Empty));
            for logit in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let found = sampler.sample(&[0.0, logit]);
                assert!(matches!(
                    found,
                    Err(SamplerError::NotFinite { token: 1, .. })
                ));
            }
        }
    }

    #[test]
    fn a_tiny_temperature_is_the_likeliest_token() {
        let options = SamplerOptions {
            temperature: f32::MIN_POSITIVE,
            ..Default::default()
        };
        assert_eq!(sampler(options).sample(&[1.0, 1.5, -1e30]), Ok(1));
    }
}
