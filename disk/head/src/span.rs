//! Free ranges of a log.

/// A range of sectors, `start` included, `end` not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// First sector.
    pub start: u64,
    /// The sector after the last one.
    pub end: u64,
}

impl Span {
    /// Number of sectors.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// True when `sectors` sectors from `sector` on lie within.
    pub fn holds(&self, sector: u64, sectors: u32) -> bool {
        self.start <= sector && sector + u64::from(sectors) <= self.end
    }
}

/// The first sector from `target` on at which `sectors` sectors fit into one of `free`: if the place itself is taken,
/// the write goes farther down the track (Disk Mimic 2.2). If the write fits nowhere after the target, the first place
/// at which it fits.
pub fn first_fit(free: &[Span], target: u64, sectors: u32) -> Option<u64> {
    let after = free
        .iter()
        .map(|span| Span {
            start: span.start.max(target),
            end: span.end,
        })
        .find(|span| span.holds(span.start, sectors));
    after
        .or_else(|| {
            free.iter()
                .copied()
                .find(|span| span.holds(span.start, sectors))
        })
        .map(|span| span.start)
}
