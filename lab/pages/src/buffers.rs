//! Segment buffers: pages that wait in memory until they fill a segment.

use crate::sepbit::Sepbit;
use crate::setup::{Layout, Setup};

/// A buffer, and where its segments go.
#[derive(Clone)]
pub(crate) struct Buffer {
    pub pages: Vec<u32>,
    /// Pages of one write: one or two segments.
    pub capacity: usize,
    /// Segments that are being written.
    pub writing: u32,
    /// They go to the cold partition.
    pub cold: bool,
    pub class: u8,
}

/// The buffers of a layout. The first ones are for pages that users write, the others for pages that the cleaner moves.
pub(crate) struct Buffers {
    pub all: Vec<Buffer>,
    pub users: usize,
}

impl Buffers {
    pub fn new(setup: &Setup, segment_pages: u32) -> Self {
        let of_users = if setup.sorts() { 2 } else { 1 };
        let buffer = |segments: u32, cold, class| {
            let capacity = (segments * segment_pages) as usize;
            Buffer {
                pages: Vec::with_capacity(capacity),
                capacity,
                writing: 0,
                cold,
                class,
            }
        };
        let (all, users) = match setup.layout {
            Layout::Overwrite | Layout::Lfs | Layout::Wolf => {
                (vec![buffer(of_users, false, 0), buffer(1, false, 0)], 1)
            }
            Layout::Hylog(_) | Layout::Forced(_) => {
                let cleaner = [buffer(1, false, 0), buffer(1, true, 0)];
                ([&[buffer(of_users, false, 0)][..], &cleaner].concat(), 1)
            }
            Layout::Sepbit => (
                (0..Sepbit::CLASSES)
                    .map(|class| buffer(1, false, class))
                    .collect(),
                usize::from(Sepbit::USER_CLASSES),
            ),
        };
        Self { all, users }
    }

    /// Buffers of the cleaner.
    pub fn cleaners(&self) -> usize {
        self.all.len() - self.users
    }

    #[inline]
    pub fn is_full(&self, at: usize) -> bool {
        self.all[at].pages.len() >= self.all[at].capacity
    }
}
