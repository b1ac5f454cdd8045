//! SepBIT (Wang and others, FAST 2022): pages in six classes by the time at which they will probably be written again.
//!
//! A page that a user writes is of class 1 if the version that it replaces lived shorter than the mean segment of class 1,
//! else of class 2. A page that the cleaner moves is of class 3 if it comes from class 1, else of class 4, 5 or 6 by its age.
//! Times are counted in page writes.

/// Collected segments of class 1 whose mean lifespan is the threshold.
const SEGMENTS: u64 = 16;

/// The threshold between short and long lives.
#[derive(Default)]
pub(crate) struct Sepbit {
    /// Mean lifespan of a segment of class 1; none before the first 16 were collected.
    mean: Option<u64>,
    sum: u64,
    count: u64,
}

impl Sepbit {
    /// Classes of pages that users write. The others are of pages that the cleaner moves.
    pub const USER_CLASSES: u8 = 2;
    pub const CLASSES: u8 = 6;

    /// The class, from 0, of a page that a user writes `lifespan` after its last version.
    pub fn of_user(&self, lifespan: Option<u32>) -> u8 {
        let short = match (lifespan, self.mean) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(lifespan), Some(mean)) => u64::from(lifespan) < mean,
        };
        u8::from(!short)
    }

    /// The class, from 0, of a page of class `from` that the cleaner moves `age` after it was written.
    pub fn of_cleaner(&self, from: u8, age: u32) -> u8 {
        let mean = self.mean.unwrap_or(u64::MAX / 16);
        match u64::from(age) {
            _ if from == 0 => 2,
            age if age < 4 * mean => 3,
            age if age < 16 * mean => 4,
            _ => 5,
        }
    }

    /// A segment of class `class` is cleaned `lifespan` after it was filled.
    pub fn collected(&mut self, class: u8, lifespan: u32) {
        if class != 0 {
            return;
        }
        (self.sum, self.count) = (self.sum + u64::from(lifespan), self.count + 1);
        if self.count == SEGMENTS {
            self.mean = Some(self.sum / SEGMENTS);
            (self.sum, self.count) = (0, 0);
        }
    }
}
