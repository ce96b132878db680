//! Picks the next token from a model's logits.

use std::collections::HashMap;

/// How to pick a token. The steps are llama.cpp's, in its order: penalties, top-k, top-p, min-p, temperature, draw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SamplerOptions {
    /// Divides the logits before the draw: below 1 makes likely tokens likelier. 0 always takes the likeliest.
    pub temperature: f32,
    /// Only this many of the likeliest tokens are drawn from; `None`: all.
    pub top_k: Option<u32>,
    /// Of those, only the fewest whose probabilities sum to at least this; 1: all.
    pub top_p: f32,
    /// Of those, only the ones that are at least this times as likely as the likeliest; 0: all.
    pub min_p: f32,
    /// Makes tokens that the text has less likely: a positive logit is divided by it, a negative one multiplied; 1:
    /// none. Keskar et al. 2019, [arXiv:1909.05858](https://arxiv.org/abs/1909.05858), section 4.1.
    pub repetition_penalty: f32,
    /// Subtracted from a token's logit for each time that the text has it; 0: none.
    pub frequency_penalty: f32,
    /// Subtracted from a token's logit once if the text has it; 0: none.
    pub presence_penalty: f32,
    /// The penalties look at this many of the last tokens of the text; `None`: at all of it.
    pub penalty_window: Option<usize>,
    /// The same seed and options give the same tokens for the same logits.
    pub seed: u64,
}

impl Default for SamplerOptions {
    /// Always the likeliest token.
    fn default() -> SamplerOptions {
        SamplerOptions {
            temperature: 0.0,
            top_k: None,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            penalty_window: Some(64),
            seed: 0,
        }
    }
}

/// Bars tokens, or makes them likelier or less likely: how a grammar, a schema or a list of words says what may come.
///
/// Any `FnMut(&[u32], &mut [f32])` is one.
pub trait LogitMask: Send {
    /// Changes the logits of the token that comes after `tokens`, the whole text so far. `f32::NEG_INFINITY` bars a
    /// token.
    fn apply(&mut self, tokens: &[u32], logits: &mut [f32]);
}

impl<F: FnMut(&[u32], &mut [f32]) + Send> LogitMask for F {
    fn apply(&mut self, tokens: &[u32], logits: &mut [f32]) {
        self(tokens, logits);
    }
}

/// Why no token can be picked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SamplerError {
    /// Negative or not finite.
    #[error("the temperature is {0}; it must be a number that is not negative")]
    Temperature(f32),
    /// No token would be left to draw from.
    #[error("top-k is 0; it must be at least 1")]
    TopK,
    /// Not above 0 and up to 1.
    #[error("top-p is {0}; it must be above 0 and at most 1")]
    TopP(f32),
    /// Not from 0 to 1.
    #[error("min-p is {0}; it must be from 0 to 1")]
    MinP(f32),
    /// Not above 0, or not finite.
    #[error("the repetition penalty is {0}; it must be a number above 0")]
    RepetitionPenalty(f32),
    /// Not finite.
    #[error("the {name} penalty is {value}; it must be a number")]
    Penalty {
        /// Which one.
        name: &'static str,
        /// NaN or an infinity.
        value: f32,
    },
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
    /// The mask left no token that may come.
    #[error("the logit mask bars every token")]
    NothingAllowed,
}

/// Picks tokens from logits.
#[derive(Clone, Debug)]
pub struct Sampler {
    options: SamplerOptions,
    random: SplitMix64,
    /// Logits after mask and penalties; kept to be used again, like the candidates.
    adjusted: Vec<f32>,
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
            temperature,
            top_k,
            top_p,
            min_p,
            repetition_penalty,
            frequency_penalty,
            presence_penalty,
            ..
        } = options;
        if !(temperature.is_finite() && temperature >= 0.0) {
            return Err(SamplerError::Temperature(temperature));
        }
        if top_k == Some(0) {
            return Err(SamplerError::TopK);
        }
        if !(top_p > 0.0 && top_p <= 1.0) {
            return Err(SamplerError::TopP(top_p));
        }
        if !(0.0..=1.0).contains(&min_p) {
            return Err(SamplerError::MinP(min_p));
        }
        if !(repetition_penalty.is_finite() && repetition_penalty > 0.0) {
            return Err(SamplerError::RepetitionPenalty(repetition_penalty));
        }
        for (name, value) in [
            ("frequency", frequency_penalty),
            ("presence", presence_penalty),
        ] {
            if !value.is_finite() {
                return Err(SamplerError::Penalty { name, value });
            }
        }
        Ok(Sampler {
            options,
            random: SplitMix64(options.seed),
            adjusted: Vec::new(),
            candidates: Vec::new(),
        })
    }

    /// The next token, given one logit for each token of the vocabulary, of a text that does not matter.
    ///
    /// # Errors
    ///
    /// [`SamplerError::Empty`] without logits and [`SamplerError::NotFinite`] when one is NaN or infinite.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32, SamplerError> {
        self.sample_after(&[], logits, None)
    }

    /// The next token of the text `tokens`, which the penalties look at, of those that `mask` leaves.
    ///
    /// # Errors
    ///
    /// As [`sample`](Sampler::sample), and [`SamplerError::NothingAllowed`] when the mask leaves none.
    pub fn sample_after(
        &mut self,
        tokens: &[u32],
        logits: &[f32],
        mask: Option<&mut dyn LogitMask>,
    ) -> Result<u32, SamplerError> {
        if logits.is_empty() {
            return Err(SamplerError::Empty);
        }
        if mask.is_none()
            && self.takes_the_likeliest()
            && let Some(token) = likeliest_of_finite(logits)
        {
            return Ok(token);
        }
        if let Some(token) = logits.iter().position(|logit| !logit.is_finite()) {
            let logit = logits[token];
            return Err(SamplerError::NotFinite { token, logit });
        }
        self.adjusted.clear();
        self.adjusted.extend(logits);
        if let Some(mask) = mask {
            mask.apply(tokens, &mut self.adjusted);
            let barred = |logit: &f32| *logit == f32::NEG_INFINITY;
            if self.adjusted.iter().all(barred) {
                return Err(SamplerError::NothingAllowed);
            }
            let wrong = |logit: &f32| logit.is_nan() || *logit == f32::INFINITY;
            if let Some(token) = self.adjusted.iter().position(wrong) {
                let logit = self.adjusted[token];
                return Err(SamplerError::NotFinite { token, logit });
            }
        }
        self.penalise(tokens);
        if self.options.temperature == 0.0 {
            return Ok(likeliest(&self.adjusted));
        }
        self.keep_top_k();
        self.keep_top_p();
        self.keep_min_p();
        let total = self.weigh(self.options.temperature.into());
        Ok(self.draw(total))
    }

    /// Whether the token is the likeliest one whatever the text is, where there is no mask.
    pub(crate) fn takes_the_likeliest(&self) -> bool {
        self.options.temperature == 0.0 && !self.has_penalties()
    }

    fn has_penalties(&self) -> bool {
        let options = &self.options;
        let penalties = (
            options.repetition_penalty,
            options.frequency_penalty,
            options.presence_penalty,
        );
        penalties != (1.0, 0.0, 0.0)
    }

    fn penalise(&mut self, tokens: &[u32]) {
        let SamplerOptions {
            repetition_penalty,
            frequency_penalty,
            presence_penalty,
            penalty_window,
            ..
        } = self.options;
        if !self.has_penalties() {
            return;
        }
        let start = penalty_window.map_or(0, |window| tokens.len().saturating_sub(window));
        let mut counts: HashMap<u32, u32> = HashMap::new();
        for token in &tokens[start..] {
            *counts.entry(*token).or_default() += 1;
        }
        for (token, count) in counts {
            let Some(logit) = self.adjusted.get_mut(token as usize) else {
                continue;
            };
            match *logit > 0.0 {
                true => *logit /= repetition_penalty,
                false => *logit *= repetition_penalty,
            }
            *logit -= count as f32 * frequency_penalty + presence_penalty;
        }
    }

    /// The `top_k` candidates with the largest logits, largest first and, of equal ones, the lowest token first.
    fn keep_top_k(&mut self) {
        let order =
            |a: &Candidate, b: &Candidate| b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token));
        let candidates = &mut self.candidates;
        candidates.clear();
        let logits = (0..).zip(&self.adjusted);
        let allowed = logits.filter(|(_, logit)| **logit > f32::NEG_INFINITY);
        candidates.extend(allowed.map(|(token, logit)| Candidate {
            token,
            logit: *logit,
            weight: 0.0,
        }));
        if let Some(kept) = self.options.top_k.map(|kept| kept as usize)
            && kept < candidates.len()
        {
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

    /// The candidates are in order: the likeliest first.
    fn keep_min_p(&mut self) {
        if self.options.min_p == 0.0 {
            return;
        }
        let least = f64::from(self.candidates[0].logit) + f64::from(self.options.min_p).ln();
        let kept = |candidate: &Candidate| f64::from(candidate.logit) >= least;
        let count = self.candidates.partition_point(kept);
        self.candidates.truncate(count.max(1));
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

/// The same in one pass, or nothing where a logit is infinite or no number.
fn likeliest_of_finite(logits: &[f32]) -> Option<u32> {
    const BLOCK: usize = 1024;
    const LANES: usize = 16; // which compilers compare several of at once
    let (mut best, mut first) = (f32::NEG_INFINITY, 0);
    for (place, block) in logits.chunks(BLOCK).enumerate() {
        let mut largest = [f32::NEG_INFINITY; LANES];
        let mut poison = [0.0_f32; LANES];
        let (whole, rest) = block.as_chunks::<LANES>();
        let mut tail = [block[0]; LANES];
        tail[..rest.len()].copy_from_slice(rest);
        for logits in whole.iter().chain([&tail]) {
            for lane in 0..LANES {
                let logit = logits[lane];
                largest[lane] = if logit > largest[lane] {
                    logit
                } else {
                    largest[lane]
                };
                poison[lane] += logit * 0.0; // no number, where the logit is none or infinite
            }
        }
        if poison.iter().any(|lane| lane.is_nan()) {
            return None;
        }
        let largest = largest.into_iter().fold(f32::NEG_INFINITY, f32::max);
        if largest > best {
            (best, first) = (largest, place * BLOCK);
        }
    }
    let token = logits
        .get(first..)?
        .iter()
        .position(|logit| *logit == best)?;
    Some((first + token) as u32)
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
    fn the_likeliest_is_found_in_blocks_as_one_by_one() {
        let mut state = SplitMix64(5);
        for length in [1, 2, 15, 16, 17, 31, 32, 33, 1000] {
            for _ in 0..50 {
                let values = [-2.5, -0.0, 0.0, 1e-40, 3.0, 3.5, f32::MAX, f32::MIN];
                let mut value = || values[(state.next() % 8) as usize];
                let mut logits: Vec<f32> = (0..length).map(|_| value()).collect();
                assert_eq!(likeliest_of_finite(&logits), Some(likeliest(&logits)));
                let place = (state.next() as usize) % length;
                for wrong in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                    logits[place] = wrong;
                    assert_eq!(likeliest_of_finite(&logits), None, "{wrong} at {place}");
                }
            }
        }
        assert_eq!(likeliest_of_finite(&[]), None);
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
            ..Default::default()
        };
        let drawn = |options| {
            let counts = counts(options, &logits, 10_000);
            let tokens = counts.iter().enumerate().filter(|(_, count)| **count > 0.0);
            tokens.map(|(token, _)| token).collect::<Vec<_>>()
        };
        assert_eq!(drawn(options(None, 1.0)), [0, 1, 2, 3, 4]);
        assert_eq!(drawn(options(Some(2), 1.0)), [1, 3]);
        assert_eq!(drawn(options(Some(99), 1.0)), [0, 1, 2, 3, 4]);
        assert_eq!(drawn(options(None, 0.5)), [1]);
        assert_eq!(drawn(options(None, 0.8)), [1, 3]);
        assert_eq!(drawn(options(None, 0.9)), [1, 2, 3]);
        assert_eq!(drawn(options(Some(1), 0.9)), [1]);
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let logits: Vec<f32> = (0..100).map(|token| (token % 17) as f32 / 4.0).collect();
        let draw = |seed| {
            let options = SamplerOptions {
                temperature: 1.0,
                top_k: Some(40),
                top_p: 0.95,
                seed,
                ..Default::default()
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
    fn min_p_cuts_what_is_far_less_likely_than_the_likeliest() {
        let logits = [0.0, f32::ln(0.5), f32::ln(0.05), f32::ln(0.2)];
        let drawn = |min_p| {
            let options = SamplerOptions {
                temperature: 5.0,
                min_p,
                ..Default::default()
            };
            let counts = counts(options, &logits, 10_000);
            let tokens = counts.iter().enumerate().filter(|(_, count)| **count > 0.0);
            tokens.map(|(token, _)| token).collect::<Vec<_>>()
        };
        assert_eq!(drawn(0.0), [0, 1, 2, 3]);
        assert_eq!(drawn(0.1), [0, 1, 3]);
        assert_eq!(drawn(0.3), [0, 1]);
        assert_eq!(drawn(1.0), [0]);
    }

    #[test]
    fn penalties_follow_their_formulas() {
        let adjusted = |options, tokens: &[u32]| {
            let mut sampler = sampler(options);
            let logits = [2.0, -2.0, 1.0, 4.0];
            sampler.sample_after(tokens, &logits, None).unwrap();
            sampler.adjusted
        };
        let plain = SamplerOptions::default();
        let repetition = SamplerOptions {
            repetition_penalty: 2.0,
            ..plain
        };
        assert_eq!(adjusted(repetition, &[0, 1, 0, 99]), [1.0, -4.0, 1.0, 4.0]);
        let others = SamplerOptions {
            frequency_penalty: 0.5,
            presence_penalty: 0.25,
            ..plain
        };
        assert_eq!(adjusted(others, &[0, 1, 0]), [0.75, -2.75, 1.0, 4.0]);
        let short = SamplerOptions {
            penalty_window: Some(1),
            ..others
        };
        assert_eq!(adjusted(short, &[0, 1, 0]), [1.25, -2.0, 1.0, 4.0]);
        let whole = SamplerOptions {
            penalty_window: None,
            ..others
        };
        let long = [vec![2], vec![0; 100]].concat();
        assert_eq!(adjusted(whole, &long)[2], 0.25);
    }

    #[test]
    fn a_mask_bars_tokens_and_sees_the_text() {
        let mut seen: Vec<u32> = Vec::new();
        let mut only_even = |tokens: &[u32], logits: &mut [f32]| {
            seen.extend(tokens);
            let odd = logits.iter_mut().skip(1).step_by(2);
            odd.for_each(|logit| *logit = f32::NEG_INFINITY);
        };
        for temperature in [0.0, 10.0] {
            let options = SamplerOptions {
                temperature,
                ..Default::default()
            };
            for _ in 0..50 {
                let token = sampler(options).sample_after(
                    &[7, 8],
                    &[0.0, 9.0, 1.0, 8.0],
                    Some(&mut only_even),
                );
                assert_eq!(token.unwrap() % 2, 0);
            }
        }
        assert_eq!(seen[..2], [7, 8]);
        let mut greedy = sampler(SamplerOptions::default());
        let mut nothing = |_: &[u32], logits: &mut [f32]| logits.fill(f32::NEG_INFINITY);
        let found = greedy.sample_after(&[], &[1.0, 2.0], Some(&mut nothing));
        assert_eq!(found, Err(SamplerError::NothingAllowed));
        let mut spoilt = |_: &[u32], logits: &mut [f32]| logits[1] = f32::NAN;
        let found = greedy.sample_after(&[], &[1.0, 2.0], Some(&mut spoilt));
        assert!(matches!(
            found,
            Err(SamplerError::NotFinite { token: 1, .. })
        ));
    }

    #[test]
    fn what_cannot_be_sampled_is_an_error() {
        let wrong = |options: SamplerOptions| Sampler::new(options).unwrap_err();
        let plain = SamplerOptions::default();
        for min_p in [-0.1, 1.5, f32::NAN] {
            let found = wrong(SamplerOptions { min_p, ..plain });
            assert!(matches!(found, SamplerError::MinP(_)));
        }
        for repetition_penalty in [0.0, -1.0, f32::INFINITY] {
            let found = wrong(SamplerOptions {
                repetition_penalty,
                ..plain
            });
            assert!(matches!(found, SamplerError::RepetitionPenalty(_)));
        }
        let found = wrong(SamplerOptions {
            presence_penalty: f32::NAN,
            ..plain
        });
        assert!(matches!(
            found,
            SamplerError::Penalty {
                name: "presence",
                ..
            }
        ));
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
