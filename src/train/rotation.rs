//! How positions turn heads.

use crate::ops::RopePairing;

/// How heads are rotated ([`ops::Rope`](crate::ops::Rope) has the formula).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rotation {
    /// Elements of a head, even.
    pub head_dim: usize,
    /// The base of the frequencies.
    pub base: f32,
    /// Which elements go together.
    pub pairing: RopePairing,
}
