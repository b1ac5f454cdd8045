//! Finds the whole layout: tests an assumed layout at ever farther sectors and corrects it where it fails.

use crate::error::Error;
use crate::layout::{EstimatedLayout, Layout, Zone};
use crate::probe::Probe;
use crate::spindle::centred;
use crate::survey::Shape;
use tonearm_drive_file::Sparing;

/// Sectors by which a measured angle may differ from the expected one.
const TOLERANCE: f64 = 0.1;
/// Part of a sector to which angles are measured. It is coarser where nothing is known yet.
const SHARP: f64 = 0.2;
/// Most adjacent sectors that are taken for slipped.
const SLIPS_MAX: u64 = 16;
/// Sectors right after a slip that confirm it, unless another layout explains all.
const CERTAIN: usize = 4;
/// Most adjacent tracks that are taken for slipped.
const TRACKS_SKIPPED_MAX: u64 = 3;

impl Probe {
    /// The layout of the region.
    pub async fn map(&mut self) -> Result<Layout, Error> {
        let mut start = self.region.start;
        if start > 0 {
            start = self.next_track(start).await?;
        }
        let Some(shape) = self.shape(start, None).await? else {
            return Err(Error::Layout {
                lba: start,
                why: "there is no whole track",
            });
        };
        let mut layout = Layout {
            heads: shape.heads,
            sparing: shape.sparing(),
            zones: Vec::new(),
            sectors: self.sectors(),
            remapped: Vec::new(),
        };
        layout.zones.push(first_zone(start, &shape, &layout));
        let mut good = start;
        loop {
            let belief = layout.belief()?;
            let (verified, failed) = self.try_belief(&layout, &belief, good).await?;
            good = verified;
            let Some(failed) = failed else {
                break;
            };
            good = self.amend(&mut layout, &belief, good, failed).await?;
        }
        Ok(layout)
    }

    /// True when sector `lba` is at its expected angle, as measured from `anchor`.
    async fn agrees(
        &mut self,
        belief: &EstimatedLayout,
        anchor: u64,
        lba: u64,
    ) -> Result<bool, Error> {
        let expected = belief.turn(anchor, lba);
        let track = belief.track_sectors(lba);
        self.sharpen(1.0 / track, SHARP);
        let tolerance = TOLERANCE.max(5.0 * self.blur() * track).min(0.45) / track;
        let found = self.turn(anchor, lba, expected, tolerance).await?;
        Ok(centred(found - expected).abs() <= tolerance)
    }

    /// The same for a sector far beyond `good`, which agrees. One angle may agree by chance, so sectors before it must
    /// agree, too.
    async fn agrees_far(
        &mut self,
        belief: &EstimatedLayout,
        anchor: u64,
        good: u64,
        lba: u64,
    ) -> Result<bool, Error> {
        if !self.agrees(belief, anchor, lba).await? {
            return Ok(false);
        }
        let track = belief.track_sectors(lba) as u64;
        for back in [track * 5 / 8, track * 11 / 8] {
            if lba < good + 2 * track + back {
                continue;
            }
            if !self.agrees(belief, anchor, lba - back).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Tests the layout from `good` on, which agrees, in ever longer steps. Returns the last sector that is known to
    /// agree, and the first that does not.
    async fn try_belief(
        &mut self,
        layout: &Layout,
        belief: &EstimatedLayout,
        good: u64,
    ) -> Result<(u64, Option<u64>), Error> {
        let last = self.region.end - 1;
        // All are measured from the same sector, whose timing becomes more exact with use.
        let (anchor, mut good) = (good, good);
        let zone = &layout.zones[layout.zones.len() - 1];
        // Slips do not show beyond the end of a group with spares of its own.
        let range = match layout.sparing {
            Sparing::Cylinders(_) => zone.region_numbers(layout.heads, layout.sparing),
            _ => None,
        };
        let mut step = u64::from(zone.track_sectors);
        let bad = loop {
            if good >= last {
                return Ok((good, None));
            }
            self.phase("layout", good as f64 / self.region.end as f64);
            let mut target = last.min(good + step);
            if let Some(range) = range {
                let number = good + 1 - zone.first + zone.reserved;
                let end = (number / range + 1) * range - zone.reserved + zone.first;
                target = target.min((end - 1).max(good + 1));
            }
            if !self.agrees_far(belief, anchor, good, target).await? {
                break target;
            }
            good = target;
            step = (2 * step).min(last);
        };
        let known = good;
        let mut bad = bad;
        loop {
            while bad - good > 1 {
                let middle = good.midpoint(bad);
                if self.agrees_far(belief, anchor, good, middle).await? {
                    good = middle;
                } else {
                    bad = middle;
                }
            }
            // One sector may have agreed by chance, so those before it must agree, too.
            match self.earlier_failure(belief, anchor, known, bad).await? {
                Some(earlier) => (good, bad) = (known, earlier),
                None => return Ok((good, Some(bad))),
            }
        }
    }

    /// A sector between `known` and `failed`, not far before `failed`, that is not at its expected angle.
    async fn earlier_failure(
        &mut self,
        belief: &EstimatedLayout,
        anchor: u64,
        known: u64,
        failed: u64,
    ) -> Result<Option<u64>, Error> {
        let reach = 2 * belief.track_sectors(failed) as u64;
        let mut back = 2;
        while back < reach && failed > known + back {
            if !self.agrees(belief, anchor, failed - back).await? {
                return Ok(Some(failed - back));
            }
            back += back.div_ceil(2);
        }
        Ok(None)
    }

    /// How many of some sectors from `from` on, over a cylinder, agree before the first one that does not, and whether
    /// all agree.
    async fn score(&mut self, layout: &Layout, from: u64) -> Result<(usize, bool), Error> {
        let Ok(belief) = layout.belief() else {
            return Ok((0, false));
        };
        let zone = &layout.zones[layout.zone_of(from)];
        let (track, heads) = (f64::from(zone.track_sectors), f64::from(layout.heads));
        let tracks = [
            0.12,
            0.31,
            0.52,
            0.73,
            0.93,
            1.2,
            1.6,
            2.3,
            heads / 2.0 + 0.4,
            heads + 0.3,
            heads + 1.7,
        ];
        let ahead = tracks.iter().map(|tracks| (tracks * track) as u64);
        let mut ahead: Vec<u64> = [0, 1, 2, 5].into_iter().chain(ahead).collect();
        ahead.sort_unstable();
        let mut agreed = 0;
        for lba in ahead.into_iter().map(|ahead| from + ahead) {
            if lba >= self.region.end {
                break;
            }
            if !self.agrees(&belief, from - 1, lba).await? {
                return Ok((agreed, false));
            }
            agreed += 1;
        }
        Ok((agreed, true))
    }

    /// Corrects the layout at `failed`, the first sector that is not at its expected angle. Returns a sector that
    /// agrees from then on.
    async fn amend(
        &mut self,
        layout: &mut Layout,
        belief: &EstimatedLayout,
        good: u64,
        failed: u64,
    ) -> Result<u64, Error> {
        let index = layout.zones.len() - 1;
        let track = belief.track_sectors(failed);
        // With irregular response times, one angle in thousands is wrong twice.
        let back = failed.saturating_sub(2 * track as u64);
        let anchor = back.max(layout.zones[index].first).max(self.region.start);
        if anchor + 1 < failed && self.agrees(belief, anchor, failed).await? {
            return Ok(failed);
        }
        let turn = self.turn_surely(failed - 1, failed).await?;
        let shift = centred(turn - belief.turn(failed - 1, failed)) * track;
        // A small shift is not a defect but the first visible sign of sectors of another width.
        let border = shift.abs() < 0.6;
        if !border && self.is_remapped(belief, good, failed).await? {
            layout.remapped.push(failed);
            return Ok(failed + 1);
        }
        let place = belief.place(failed, index, layout.heads);
        let mut best: Option<(usize, Layout)> = None;
        let zone = &layout.zones[index];
        let spt = u64::from(zone.track_sectors);
        let like_skew = (shift.rem_euclid(track) - zone.track_skew).abs() < 0.5;
        let mut candidates = Vec::new();
        let slipped = shift.rem_euclid(track).round() as u64;
        if (1..=SLIPS_MAX).contains(&slipped) && !border {
            candidates.push(slipped);
        }
        if layout.sparing == Sparing::Zone && !border {
            let rest = spt - place % spt;
            candidates.extend((0..TRACKS_SKIPPED_MAX).map(|tracks| rest + tracks * spt));
        }
        for slips in candidates {
            let mut candidate = layout.clone();
            let zone = &mut candidate.zones[index];
            zone.slips.extend(place..place + slips);
            if !candidate.slips_fit(index) {
                continue;
            }
            if self.consider(candidate, failed, &mut best).await? {
                break;
            }
            // Defects come in clusters, so the next one does not put this one in doubt.
            if slips == slipped
                && !like_skew
                && let Some((score, _)) = &mut best
                && *score >= CERTAIN
            {
                *score = usize::MAX - 1;
            }
        }
        let done = best.as_ref().is_some_and(|(score, _)| *score == usize::MAX);
        if !done {
            // If the first sectors after a border happen to agree, its first track shows it later.
            let begun = belief.track_start(failed, layout.zones[index].first + 1);
            let starts = if border {
                [begun, failed]
            } else {
                [failed, begun]
            };
            for start in starts {
                if let Some(candidate) = self.with_zone(layout, belief, start).await?
                    && self.consider(candidate, start, &mut best).await?
                {
                    break;
                }
            }
        }
        match best {
            Some((score, better)) if score > 0 => {
                *layout = better;
                layout.find_ranges();
                Ok(failed)
            }
            _ => Err(Error::Layout {
                lba: failed,
                why: "neither a defect nor a new zone begins there",
            }),
        }
    }

    /// True when the sectors right after `failed` are at their expected angles, so that only its content is elsewhere.
    async fn is_remapped(
        &mut self,
        belief: &EstimatedLayout,
        good: u64,
        failed: u64,
    ) -> Result<bool, Error> {
        for lba in failed + 1..failed + 4 {
            if lba >= self.region.end || !self.agrees(belief, good, lba).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Keeps the better of two layouts. True when no measurement contradicts the new one.
    async fn consider(
        &mut self,
        candidate: Layout,
        from: u64,
        best: &mut Option<(usize, Layout)>,
    ) -> Result<bool, Error> {
        let (score, all) = self.score(&candidate, from).await?;
        let score = if all { usize::MAX } else { score };
        if best.as_ref().is_none_or(|(most, _)| score > *most) {
            *best = Some((score, candidate));
        }
        Ok(all)
    }

    /// The layout with a new zone from `start` on.
    async fn with_zone(
        &mut self,
        layout: &Layout,
        belief: &EstimatedLayout,
        start: u64,
    ) -> Result<Option<Layout>, Error> {
        let last = layout.zones.len() - 1;
        if start <= layout.zones[last].first {
            return Ok(None);
        }
        let shape = match self.shape(start, Some(layout.heads)).await {
            Ok(Some(shape)) => shape,
            Ok(None) | Err(Error::Layout { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut candidate = layout.clone();
        let mut zone = zone_from(start, &shape, layout);
        if let Sparing::Cylinders(_) = layout.sparing {
            zone.spares = layout.zones[last].spares;
        }
        candidate.zones.push(zone);
        // The angle of the new zone, against the old one's.
        let measured = self.turn_surely(start - 1, start).await? + belief.angle(start - 1);
        let Ok(believed) = candidate.belief() else {
            return Ok(None);
        };
        let lag = (measured - believed.angle(start)).rem_euclid(1.0);
        let track = f64::from(shape.track_sectors);
        let offset = (lag * track * 1000.0).round() / 1000.0;
        let zone = candidate.zones.last_mut().expect("it was just added");
        zone.offset = (zone.offset + offset).rem_euclid(track);
        Ok(Some(candidate))
    }
}

/// The first zone. The part before `start`, the first track that was measured, is assumed to be like it.
fn first_zone(start: u64, shape: &Shape, layout: &Layout) -> Zone {
    let mut zone = zone_from(start, shape, layout);
    let used = u64::from(shape.track_sectors - shape.track_spares);
    let cylinder = used * u64::from(shape.heads) - u64::from(shape.cylinder_spares);
    // Between the zone's first cylinder and the measured one there are whole cylinders.
    zone.reserved += start.div_ceil(cylinder) * cylinder - start;
    zone.first = 0;
    zone
}

/// A zone of that shape, without offset.
fn zone_from(first: u64, shape: &Shape, layout: &Layout) -> Zone {
    let used = u64::from(shape.track_sectors - shape.track_spares);
    Zone {
        first,
        track_sectors: shape.track_sectors,
        spares: match layout.sparing {
            Sparing::Track => shape.track_spares,
            Sparing::Cylinder => shape.cylinder_spares,
            _ => 0,
        },
        track_skew: shape.track_skew,
        cylinder_skew: shape.cylinder_skew,
        offset: 0.0,
        reserved: u64::from(shape.head) * used,
        slips: Vec::new(),
    }
}
