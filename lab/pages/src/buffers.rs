//! Segment buffers: pages that wait in memory until they fill a segment.

use crate::sepbit::Sepbit;
use crate::setup::Layout;

/// A buffer, and where its segments go.
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
    pub fn new(layout: Layout, segment_pages: u32) -> Self {
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
        let (all, users) = match layout {
            Layout::Overwrite | Layout::Lfs => (vec![buffer(1, false, 0), buffer(1, false, 0)], 1),
            Layout::Wolf => (vec![buffer(2, false, 0), buffer(1, false, 0)], 1),
            Layout::Hylog(_) | Layout::Forced(_) => (
                vec![buffer(1, false, 0), buffer(1, false, 0), buffer(1, true, 0)],
                1,
            ),
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
