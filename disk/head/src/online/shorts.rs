//! Finds by how many sectors the last track of each cylinder is shorter, if they are too few for a track of their own.
//! The skew at a cylinder's end hides them, but each cylinder shifts the later ends of tracks.

/// Most sectors that are looked for.
const MOST: usize = 12;
/// A number is dropped when it has so many contradictions more than another.
const WORSE: f32 = 2.5;
/// Share of the contradictions that a cylinder leaves.
const MEMORY: f32 = 0.97;

/// The possibilities that one number of sectors leaves.
#[derive(Clone, Copy, Debug, Default)]
struct Trial {
    /// Sectors from the start of the track to the end of the last write: the least and greatest possible number.
    place: (i32, i32),
    /// Recent contradictions.
    wrong: f32,
}

/// All numbers are tried at once.
#[derive(Clone, Debug)]
pub struct Shorts {
    trials: [Trial; MOST + 1],
    chosen: usize,
}

impl Shorts {
    /// None is known to be missing.
    pub fn new() -> Self {
        Self {
            trials: [Trial::default(); MOST + 1],
            chosen: 0,
        }
    }

    /// The number that contradicts least.
    pub fn sectors(&self) -> u64 {
        self.chosen as u64
    }

    /// Notes that the place within a track of `length` sectors is lost.
    pub fn lost(&mut self, length: u32) {
        for trial in &mut self.trials {
            trial.place = (1, length.cast_signed());
        }
    }

    /// Notes that a write ended `sectors` after the previous one, `tracks` ends of tracks and `changes` ends of
    /// cylinders on.
    pub fn learn(&mut self, sectors: u32, tracks: u32, changes: u32, length: u32) {
        let length = length.cast_signed();
        let moved = sectors.cast_signed() - tracks.cast_signed() * length;
        for (short, trial) in self.trials.iter_mut().enumerate() {
            let moved = moved + short as i32 * changes.cast_signed();
            let place = (
                (trial.place.0 + moved).max(1),
                (trial.place.1 + moved).min(length),
            );
            if changes > 0 {
                trial.wrong *= MEMORY;
            }
            trial.place = if place.0 <= place.1 {
                place
            } else {
                trial.wrong += 1.0;
                (1, length)
            };
        }
        let wrong = |short: usize| self.trials[short].wrong;
        if let Some(best) = (0..=MOST).min_by(|a, b| wrong(*a).total_cmp(&wrong(*b)))
            && wrong(self.chosen) > wrong(best) + WORSE
        {
            self.chosen = best;
        }
    }
}

#[cfg(test)]
#[path = "shorts_test.rs"]
mod shorts_test;
