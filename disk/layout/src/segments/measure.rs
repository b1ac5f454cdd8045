//! Which blocks are overwritten or appended only to measure E, in two rounds of each interval of the separator.
//!
//! The time of an overwritten block depends on how close to it others lie that are overwritten in the same sweep. So one
//! round overwrites a part of the sweep that would overwrite all blocks which could be written back now: those of them that are
//! neighbours on the device. The blocks of the other round lie far from each other.

use crate::home::HomeBlock;
use crate::segments::Segments;
use crate::segments::intervals::{Sample, Separation};
use crate::segments::sizes::ROUND_BYTES;
use crate::separation::cost::LEAST_HOT_WRITES;
use crate::separation::{Kind, PAGES_MAX, PAGES_MIN};
use tonearm_base::Nanos;

/// Time of a sample, once the time of a block is known. Writers may wait for it.
const SAMPLE: Nanos = Nanos::from_millis(100);
/// Blocks that a sample overwrites before that.
const PAGES_UNKNOWN: usize = 128;
/// Parts of the device from which neighbours come. Blocks that are written often lie closer to each other.
const PARTS: usize = 4;
/// Rounds of appended blocks in a sample, where nothing is known of them.
const APPENDED_ROUNDS: usize = 4;
/// When the store has this many times the blocks of a sweep, their distance is no longer of use: to pass all of the
/// device takes longer than any way of appending.
const SPARSE: u64 = 128;

/// The blocks of a call.
pub(crate) struct Measured {
    /// To be overwritten with a flush before and after them.
    pub sweep: Vec<HomeBlock>,
    pub kind: Kind,
    /// To be appended, with a flush after each round.
    pub appended: Vec<HomeBlock>,
    /// The others.
    pub others: Vec<HomeBlock>,
}

impl Segments {
    /// See [`Home::sample_max`](crate::Home::sample_max).
    pub(crate) fn sample_max(&self) -> usize {
        match self.unmeasured() {
            Some(_) => (ROUND_BYTES / self.block_size()) * (1.0 / LEAST_HOT_WRITES) as usize,
            None => 0,
        }
    }

    fn unmeasured(&self) -> Option<Kind> {
        let state = self.state.borrow();
        let separation = state.separation.as_ref().filter(|_| self.given.is_none());
        separation.and_then(Separation::unmeasured)
    }

    /// See [`Home::sample`](crate::Home::sample).
    pub(crate) async fn sample(&self, mut ready: Vec<u64>) -> Vec<u64> {
        // With less than that, little is written, and the layout matters little.
        let (Some(kind), true) = (self.unmeasured(), ready.len() >= 2 * PAGES_MIN) else {
            return Vec::new();
        };
        let (known, appended) = {
            let times = self.media.times.borrow();
            (times.page_nanos(kind), times.page_nanos(Kind::Append))
        };
        let pages = known.map_or(PAGES_UNKNOWN, |nanos| (SAMPLE.0 as f64 / nanos) as usize);
        let pages = if self.is_all_cold() && kind == Kind::Many {
            ready.len()
        } else {
            pages.clamp(PAGES_MIN, PAGES_MAX).min(ready.len() / 2)
        };
        // Not beside neighbours, whose distance depends on how many blocks are ready.
        let appended = match (kind, appended) {
            (Kind::Many, _) | (_, Some(_)) => Vec::new(),
            _ => {
                let blocks = (APPENDED_ROUNDS * self.appended()).min(ready.len() - pages);
                ready.split_off(ready.len() - blocks)
            }
        };
        let sparse = self.size_blocks > SPARSE * ready.len() as u64;
        if sparse {
            // Few pages of the map are read for it.
            let every = ready.len() / pages;
            ready = ready.into_iter().step_by(every).collect();
        }
        let mut placed = Vec::with_capacity(ready.len());
        for block in ready {
            if let Ok(Some(place)) = self.place_of(block).await {
                placed.push((place, block));
            }
        }
        placed.sort_unstable();
        let mut state = self.state.borrow_mut();
        let blocks = placed.iter().map(|(_, block)| *block);
        let pages = pages.min(placed.len());
        let overwritten = match kind {
            Kind::Many if !sparse => {
                // Other parts of the device in each interval.
                let (part, of) = (placed.len() / PARTS, pages.div_ceil(PARTS));
                let from = state.seq as usize % (part.saturating_sub(of) + 1);
                let blocks = placed
                    .chunks(part.max(1))
                    .flat_map(|part| part.iter().skip(from).take(of));
                blocks.map(|(_, block)| *block).collect()
            }
            _ => {
                let every = (placed.len() / pages.max(1)).max(1);
                blocks.step_by(every).take(pages).collect()
            }
        };
        let sample = Sample {
            kind,
            overwritten,
            appended: appended.into_iter().collect(),
        };
        let all = sample
            .overwritten
            .union(&sample.appended)
            .copied()
            .collect();
        if let Some(separation) = &mut state.separation {
            separation.begin_sample(sample);
        }
        all
    }

    /// True when all blocks are overwritten, so that an ordinary round is a sample.
    fn is_all_cold(&self) -> bool {
        let state = self.state.borrow();
        let separation = state.separation.as_ref();
        let decision = separation.and_then(|separation| separation.decision);
        decision.is_some_and(|(decision, _)| decision.hot_writes == 0.0)
    }

    /// Takes the blocks of the sample out of those of a call.
    pub(crate) fn measured(&self, blocks: Vec<HomeBlock>) -> Measured {
        let mut state = self.state.borrow_mut();
        let separation = state.separation.as_mut();
        let sample = separation.and_then(Separation::take_sample);
        let mut measured = Measured {
            sweep: Vec::new(),
            kind: Kind::Sweep,
            appended: Vec::new(),
            others: Vec::new(),
        };
        let Some(sample) = sample else {
            measured.others = blocks;
            return measured;
        };
        measured.kind = sample.kind;
        for block in blocks {
            if sample.overwritten.contains(&block.block) {
                measured.sweep.push(block);
            } else if sample.appended.contains(&block.block) {
                measured.appended.push(block);
            } else {
                measured.others.push(block);
            }
        }
        measured
    }
}
