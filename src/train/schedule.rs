//! Learning rates by step.

/// The learning rate of each step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    peak: f32,
    floor: f32,
    warmup: u64,
    /// The step from which on it is the floor; 0: it never falls.
    end: u64,
}

impl Schedule {
    /// The same rate in every step.
    pub fn constant(rate: f32) -> Schedule {
        Schedule {
            peak: rate,
            floor: rate,
            warmup: 0,
            end: 0,
        }
    }

    /// Half a cosine from `peak` down to `floor` at step `end`, and `floor` from there on. Loshchilov and Hutter 2016,
    /// [arXiv:1608.03983](https://arxiv.org/abs/1608.03983), equation 5.
    pub fn cosine(peak: f32, floor: f32, end: u64) -> Schedule {
        Schedule {
            peak,
            floor,
            warmup: 0,
            end,
        }
    }

    /// Rises in a straight line through the first `steps`, of which the last has the peak, and falls only after them.
    #[must_use]
    pub fn warmup(self, steps: u64) -> Schedule {
        Schedule {
            warmup: steps,
            ..self
        }
    }

    /// The rate of a step, from 1 on.
    pub fn at(&self, step: u64) -> f32 {
        if step < self.warmup {
            return self.peak * (step as f32 / self.warmup as f32);
        }
        if self.end == 0 {
            return self.peak;
        }
        if step >= self.end {
            return self.floor;
        }
        let done = (step - self.warmup.min(step)) as f64;
        let whole = (self.end - self.warmup.min(self.end - 1)) as f64;
        let share = (1.0 + (std::f64::consts::PI * done / whole).cos()) / 2.0;
        self.floor + (self.peak - self.floor) * share as f32
    }
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    #[test]
    fn rates_rise_fall_and_stay() {
        let schedule = Schedule::cosine(1.0, 0.1, 110).warmup(10);
        assert_eq!(schedule.at(1), 0.1);
        assert_eq!(schedule.at(5), 0.5);
        assert_eq!(schedule.at(10), 1.0);
        assert!((schedule.at(60) - 0.55).abs() < 1e-6);
        assert_eq!(schedule.at(110), 0.1);
        assert_eq!(schedule.at(u64::MAX), 0.1);
        let falling = (10..110).all(|step| schedule.at(step + 1) < schedule.at(step));
        assert!(falling);
        assert_eq!(Schedule::constant(0.3).at(1), 0.3);
        assert_eq!(Schedule::constant(0.3).at(u64::MAX), 0.3);
    }

    #[test]
    fn a_warmup_longer_than_the_fall_ends_at_the_floor() {
        let schedule = Schedule::cosine(1.0, 0.0, 5).warmup(10);
        assert_eq!(schedule.at(9), 0.9);
        assert_eq!(schedule.at(10), 0.0);
    }
}
