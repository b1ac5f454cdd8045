//! How many reads a driver hands to the kernel at once.
//!
//! A virtual disk may work through all requests that it finds, and interrupt once at the end. Then the host is idle while the server
//! and its clients handle a batch of answers, and they are idle while the host reads the next batch. So where most of the
//! reads under way end together, a quarter of them is held back. It is submitted when the others end, and the host works on
//! it meanwhile. Why, and what it brings: docs/decisions/0035-reads-are-held-back-where-a-disk-answers-in-batches.md.
//!
//! Disks that answer one by one are seldom held up: their reads end together where the server is slower than they are, and where
//! the kernel has merged them.
//!
//! The files of a driver are counted together.

use std::collections::VecDeque;

/// Fewest reads under way of which some are held back. It brought nothing for 4.
const SPLIT_MIN: usize = 8;

/// Reads that end before the answers in batches must show again.
const LASTS: usize = 1024;

/// The reads under way.
#[derive(Default)]
pub(crate) struct Reads {
    /// In the kernel, or in the backlog for it.
    submitted: usize,
    /// Slots of the others, in the order in which they came.
    held: VecDeque<u32>,
    /// Ended since [`Reads::note_ends`].
    ended: usize,
    split: Option<Split>,
}

#[derive(Clone, Copy)]
struct Split {
    /// Most that are submitted.
    most: usize,
    /// Reads that end until this is over.
    lasts: usize,
}

impl Reads {
    /// A read begins. True when it is to be submitted now, false when it is held back.
    pub fn begin(&mut self, slot: u32) -> bool {
        let submits = has_room(self.submitted, self.split);
        if submits {
            self.submitted += 1;
        } else {
            self.held.push_back(slot);
        }
        submits
    }

    /// A submitted read has ended.
    pub fn end(&mut self) {
        self.ended += 1;
    }

    /// All ends that the kernel has reported are noted.
    pub fn note_ends(&mut self) {
        let ended = std::mem::take(&mut self.ended);
        let all = self.submitted + self.held.len();
        let together = 4 * ended >= 3 * self.submitted;
        self.submitted -= ended;
        self.split = match self.split {
            _ if all >= SPLIT_MIN && together => Some(Split {
                most: all * 3 / 4,
                lasts: LASTS,
            }),
            Some(split) if split.lasts > ended => Some(Split {
                lasts: split.lasts - ended,
                ..split
            }),
            _ => None,
        };
    }

    /// A slot whose read is to be submitted now. None is left behind without a submitted read.
    pub fn next(&mut self) -> Option<u32> {
        let slot = self
            .held
            .pop_front_if(|_| has_room(self.submitted, self.split))?;
        self.submitted += 1;
        Some(slot)
    }

    /// Removes the slots that are held back; none of them is in the kernel.
    pub fn take_held(&mut self) -> impl Iterator<Item = u32> {
        self.held.drain(..)
    }
}

fn has_room(submitted: usize, split: Option<Split>) -> bool {
    split.is_none_or(|split| submitted < split.most)
}
