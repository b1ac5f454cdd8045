//! Pairs of writes that follow each other: what the tracks are learned from.

use super::spindle::nearest;

/// Writes that are remembered.
pub const KEPT: usize = 32;
/// Largest error of an angle, in revolutions, that still fits.
pub const FIT: f64 = 0.006;

/// From the end of one write to the end of the next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pair {
    /// End of the first.
    pub from: u64,
    /// Sectors from there to the end of the second.
    pub sectors: u32,
    /// Fraction of a revolution between the two.
    pub delta: f32,
}

impl Pair {
    /// End of the second.
    pub fn to(&self) -> u64 {
        self.from + u64::from(self.sectors)
    }

    /// The part of the angle that `turn` sectors of a revolution do not explain, -0.5 to 0.5.
    pub fn excess(&self, turn: f64) -> f64 {
        nearest(f64::from(self.delta) - f64::from(self.sectors) / turn)
    }
}
