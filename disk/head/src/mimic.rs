//! Prediction by skips learned from a profile (Disk Mimic 2.2): the distance from the end of the last write to the next
//! one, by its size and the time since.

use crate::profile::Grid;
use crate::{Access, Head, Place, Span, first_fit};
use tonearm_base::Nanos;

/// The skip for each point of a grid: a table, or a smaller model.
pub trait SkipModel {
    /// Its name in reports and on the command line.
    fn name(&self) -> &'static str;

    /// Sectors to leave out between the last write and the next one, for a size and a think time given by their indexes
    /// on the grid.
    fn skip(&self, size: usize, think: usize) -> u32;

    /// Bytes stored for the points. State of fixed size does not count.
    fn stored_bytes(&self) -> usize;
}

impl<M: SkipModel + ?Sized> SkipModel for Box<M> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn skip(&self, size: usize, think: usize) -> u32 {
        (**self).skip(size, think)
    }

    fn stored_bytes(&self) -> usize {
        (**self).stored_bytes()
    }
}

/// The predictor that uses such a model. Before the first request it takes the first free place.
#[derive(Clone, Debug)]
pub struct Mimic<M> {
    grid: Grid,
    model: M,
    /// Where and when the last request ended.
    last: Option<(u64, Nanos)>,
}

impl<M: SkipModel> Mimic<M> {
    /// A predictor by `model`, which was made from a profile on `grid`.
    pub fn new(grid: Grid, model: M) -> Self {
        Self {
            grid,
            model,
            last: None,
        }
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Sectors to leave out before a write of `sectors` sectors that is sent `think` after the end of the last one.
    pub fn skip(&self, sectors: u32, think: Nanos) -> u32 {
        let (size, think) = self.grid.places(sectors, think);
        self.model.skip(size, think)
    }
}

impl<M: SkipModel> Head for Mimic<M> {
    fn name(&self) -> &'static str {
        self.model.name()
    }

    fn written(&mut self, write: &Access) {
        self.last = Some((write.end(), write.done));
    }

    /// Counts as a write, because the profile has only writes.
    fn read(&mut self, read: &Access) -> bool {
        self.written(read);
        true
    }

    fn place(&mut self, now: Nanos, sectors: u32, free: &[Span]) -> Option<Place> {
        let target = match self.last {
            Some((end, done)) => end + u64::from(self.skip(sectors, now.since(done))),
            None => 0,
        };
        let sector = first_fit(free, target, sectors)?;
        Some(Place {
            sector,
            response: None,
        })
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.model.stored_bytes()
    }
}

#[cfg(test)]
#[path = "mimic_test.rs"]
mod mimic_test;
