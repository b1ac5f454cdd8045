//! The write-cost model of HyLog, paper 2, section 3.
//!
//! Costs are the mean time to write one page, in units of `T_seg / N`: the time to write a segment, divided by its
//! pages. So appending without cleaning costs 1.

/// Segment I/O efficiency E (equation 1): how much longer it takes to write the `pages` pages of a segment one by one
/// than together. Both times are of the same unit.
pub fn efficiency(page_time: f64, segment_time: f64, pages: f64) -> f64 {
    pages * page_time / segment_time
}

/// A round is largest when no more than this share of the writes is hot: 64 times as large as one without cold pages.
pub const LEAST_HOT_WRITES: f64 = 1.0 / 64.0;

/// Segment I/O efficiency by the number of pages that are overwritten in one sweep. The larger a sweep is, the closer its
/// pages lie to each other, and a track may have several of them. The paper has one number for all.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Efficiency {
    /// When few pages are overwritten together.
    pub few: f64,
    /// When all pages of the largest round are.
    pub many: f64,
}

impl Efficiency {
    /// The same for any number of pages.
    pub fn constant(efficiency: f64) -> Self {
        Self {
            few: efficiency,
            many: efficiency,
        }
    }

    /// When `hot_writes` of all writes are of hot pages. A round ends when enough hot pages are appended, so the number of
    /// pages that it overwrites follows. In a given time, the drive overwrites more pages the more there are, in a
    /// straight line from `few` to `many`.
    pub fn at(&self, hot_writes: f64) -> f64 {
        let pages = |hot_writes: f64| (1.0 - hot_writes) / hot_writes.max(LEAST_HOT_WRITES);
        let share = pages(hot_writes) / pages(0.0);
        1.0 / ((1.0 - share) / self.few + share / self.many)
    }
}

/// E for `disks` disks that are idle for a share of `idle` of the time (section 4.2): a segment keeps all disks busy, a
/// page only one.
pub fn adjusted(efficiency: f64, disks: f64, idle: f64) -> f64 {
    efficiency / (disks * (1.0 - idle))
}

/// The share of live pages in all segments when the segments that are cleaned have `cleaning`, for uniformly random
/// updates (equation 2).
pub fn disk_utilisation(cleaning: f64) -> f64 {
    if cleaning <= 0.0 {
        0.0
    } else if cleaning >= 1.0 {
        1.0
    } else {
        (cleaning - 1.0) / cleaning.ln()
    }
}

/// The share of live pages in the segments that are cleaned when all segments have `disk` (equation 2, solved by
/// bisection to within 1e-12).
pub fn cleaning_utilisation(disk: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if disk_utilisation(middle) < disk {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// Cost of overwriting in place (equation 3).
pub fn overwrite(efficiency: f64) -> f64 {
    efficiency
}

/// Cost of appending when a cleaner makes the space (equation 4).
pub fn cleaning(cleaning_utilisation: f64) -> f64 {
    2.0 / (1.0 - cleaning_utilisation)
}

/// Cost of appending uniformly random updates when all segments have the share `disk` of live pages (equations 2 and 4).
pub fn appending(disk: f64) -> f64 {
    cleaning(cleaning_utilisation(disk))
}

/// Cost of appending when live pages are moved into holes of other segments (equation 5).
pub fn plugging(cleaning_utilisation: f64, efficiency: f64) -> f64 {
    2.0 + cleaning_utilisation * efficiency
}

/// Bytes of a segment whose efficiency is the share `share` of the largest possible one (equation 6). `positioning` is
/// in seconds, `bandwidth` in bytes a second. A share of 0.8 gives four times their product.
pub fn segment_bytes(share: f64, positioning: f64, bandwidth: f64) -> f64 {
    share / (1.0 - share) * positioning * bandwidth
}

/// The share of live pages in the hot partition when it has all free space (equation 7). `hot_share` of all pages are
/// hot, and `disk` is the share of live pages on the disk.
pub fn hot_utilisation(hot_share: f64, disk: f64) -> f64 {
    let live = hot_share * disk;
    if live <= 0.0 {
        return 0.0;
    }
    live / (live + 1.0 - disk)
}

/// Cost of appending hot pages and overwriting cold ones (equation 8). `hot_writes` of all writes are of hot pages.
pub fn hylog(hot_share: f64, hot_writes: f64, disk: f64, efficiency: f64) -> f64 {
    let hot = cleaning_utilisation(hot_utilisation(hot_share, disk));
    let appended = if hot_writes > 0.0 {
        hot_writes * cleaning(hot)
    } else {
        0.0
    };
    appended + (1.0 - hot_writes) * overwrite(efficiency)
}

/// What one pass of a cleaner costs for each segment that it frees, in segment I/Os. It reads `segments` segments and
/// appends their live pages, which are as many as `live` whole segments. Infinite when nothing is gained.
pub fn cleaning_pass(segments: f64, live: f64) -> f64 {
    if live >= segments {
        return f64::INFINITY;
    }
    (segments + live) / (segments - live)
}

/// The same for a pass that writes the live pages one by one into holes of other segments, which frees all of
/// `segments`.
pub fn plugging_pass(segments: f64, live: f64, efficiency: f64) -> f64 {
    (segments + live * efficiency) / segments
}
