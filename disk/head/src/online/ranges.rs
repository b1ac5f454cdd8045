//! Gaps without sector numbers that recur: spare sectors at the end of each group of cylinders.

/// Gaps that are remembered.
const KEPT: usize = 6;

/// Gaps that have to agree: two always do.
const ENOUGH: u64 = 3;

/// Sectors without numbers between two that have some.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gap {
    /// The sector after it: the least and greatest possible one.
    pub end: (u64, u64),
    /// Sectors without numbers.
    pub missing: u32,
    /// Revolutions more than a skew within a cylinder.
    pub turns: f32,
}

/// The last gaps, and where the next ones are expected.
#[derive(Clone, Debug)]
pub struct Ranges {
    gaps: [Gap; KEPT],
    count: usize,
    /// Sectors from one gap to the next, if all agree.
    distance: Option<u64>,
    /// The sector after one of the gaps, on which all agree.
    end: (u64, u64),
}

impl Ranges {
    /// None was seen.
    pub fn new() -> Self {
        Self {
            gaps: [Gap::default(); KEPT],
            count: 0,
            distance: None,
            end: (0, 0),
        }
    }

    /// The last gap.
    pub fn last(&self) -> Option<Gap> {
        self.gaps[..self.count].last().copied()
    }

    /// The gap that may end after `from` and at or before `to`, when tracks have `length` sectors; and whether it
    /// must.
    pub fn between(&self, from: u64, to: u64, length: u64) -> Option<(Gap, bool)> {
        let gap = self.next(from)?;
        let slack = length / 8;
        let must = gap.end.0 > from && gap.end.1 + slack <= to;
        (gap.end.0 <= to + slack).then_some((gap, must))
    }

    /// The first gap that is expected to end after `sector`.
    pub fn next(&self, sector: u64) -> Option<Gap> {
        let distance = self.distance?;
        let last = self.last()?;
        let ahead = (sector + 1).saturating_sub(self.end.1).div_ceil(distance) * distance;
        Some(Gap {
            end: (self.end.0 + ahead, self.end.1 + ahead),
            ..last
        })
    }

    /// Notes that an expected gap was missing, or that the tracks have changed.
    pub fn lost(&mut self) {
        self.distance = None;
        if let Some(last) = self.last() {
            (self.gaps[0], self.count) = (last, 1);
        }
    }

    /// Notes a crossed gap. Tracks have `length` sectors.
    pub fn learn(&mut self, gap: Gap, length: u64) {
        if let Some(last) = self.last()
            && (gap.end.0 <= last.end.1 || gap.missing.abs_diff(last.missing) > 1)
        {
            self.count = 0;
            self.distance = None;
        }
        if self.count == KEPT {
            self.gaps.rotate_left(1);
            self.count -= 1;
        }
        self.gaps[self.count] = gap;
        self.count += 1;
        self.search(length);
    }

    /// The distance on which all remembered gaps agree: whole tracks, less the missing sectors.
    fn search(&mut self, length: u64) {
        let gaps = &self.gaps[..self.count];
        let Some((last, before)) = gaps.split_last() else {
            return;
        };
        self.distance = None;
        self.end = last.end;
        let missing = u64::from(last.missing);
        // Gaps that are close together need the smallest multiples.
        let Some(nearest) = before.last() else {
            return;
        };
        if length == 0 {
            return;
        }
        let low = (last.end.0.saturating_sub(nearest.end.1) + missing) / length;
        let high = (last.end.1.saturating_sub(nearest.end.0) + missing).div_ceil(length);
        let mut best: Option<(u64, u64, (u64, u64))> = None;
        for parts in 1..=3 {
            for tracks in (low / parts).max(2)..=high.div_ceil(parts) {
                // A distance that is mostly missing sectors is wrong.
                let distance = (tracks * length).saturating_sub(missing);
                if distance < length {
                    continue;
                }
                let slack = length / 8;
                let mut end = last.end;
                let mut agree = 1;
                for gap in before.iter().rev() {
                    let middle = gap.end.0.midpoint(gap.end.1);
                    let ahead = end.0.midpoint(end.1).saturating_sub(middle) + distance / 2;
                    let ahead = ahead / distance * distance;
                    let there = (
                        (gap.end.0 + ahead).saturating_sub(slack),
                        gap.end.1 + ahead + slack,
                    );
                    if ahead == 0 || there.0 > end.1 || there.1 < end.0 {
                        break;
                    }
                    end = (end.0.max(there.0), end.1.min(there.1));
                    agree += 1;
                }
                let rank = agree * 8 - parts;
                if agree >= ENOUGH && best.is_none_or(|b| rank > b.0) {
                    best = Some((rank, distance, end));
                }
            }
        }
        if let Some((_, distance, end)) = best {
            self.distance = Some(distance);
            self.end = end;
        }
    }
}

#[cfg(test)]
#[path = "ranges_test.rs"]
mod ranges_test;
