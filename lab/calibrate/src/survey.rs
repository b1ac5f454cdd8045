//! Measures adjacent tracks: the sectors of a revolution, the end of each track, and the skew to the next one.
//!
//! On a track, angles advance by the same amount from sector to sector; at its end they jump (Schindler and Ganger,
//! CMU-CS-99-176, section 4). This is the only assumption about the drive.

use crate::error::Error;
use crate::probe::Probe;
use crate::spindle::centred;
use tonearm_drive_file::Sparing;

/// Tracks that are measured until the first cylinder is found.
const TRACKS_MAX: usize = 72;

/// Part of a sector to which angles are measured.
const SHARP: f64 = 0.12;

/// Tracks in a row.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    /// A sector's part of a revolution.
    pub width: f64,
    /// First sector of each, and the sector after the last one.
    pub starts: Vec<u64>,
    /// At the end of each: the skew to the next one, in sectors, beyond the advance on a track.
    pub jumps: Vec<f64>,
}

/// The shape of the tracks at a place.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Shape {
    pub track_sectors: u32,
    pub track_spares: u32,
    /// Sectors that are missing on the last track of a cylinder.
    pub cylinder_spares: u32,
    pub track_skew: f64,
    pub cylinder_skew: f64,
    /// Tracks of a cylinder; 1 if skews do not show them.
    pub heads: u32,
    /// Place of the first track in its cylinder.
    pub head: u32,
}

impl Probe {
    /// Whether the angle of sector `base + ahead` is right for a sector of the track of `base`, with sectors of width
    /// `width`.
    async fn follows(&mut self, base: u64, ahead: u64, width: f64) -> Result<bool, Error> {
        Ok(self.off(base, ahead, width).await?.is_some())
    }

    /// The same, with the error in revolutions; `None` when it is not right.
    async fn off(&mut self, base: u64, ahead: u64, width: f64) -> Result<Option<f64>, Error> {
        let tolerance = (0.35 * width).max(4.0 * self.blur());
        let expected = ahead as f64 * width;
        let found = self.turn(base, base + ahead, expected, tolerance).await?;
        let off = centred(found - expected);
        Ok((off.abs() <= tolerance).then_some(off))
    }

    /// Standard deviation of a measured angle, in revolutions.
    pub fn blur(&self) -> f64 {
        let one = self.spindle.noise / self.spindle.period;
        one * (2.0 / f64::from(self.repeats)).sqrt()
    }

    /// From now on measures as often as an error of at most `share` of a sector of `width` needs.
    pub fn sharpen(&mut self, width: f64, share: f64) {
        let one = 1.4 * self.spindle.noise / self.spindle.period;
        let wanted = (one / (share * width)).powi(2).ceil();
        self.repeats = wanted.clamp(1.0, 100.0) as u32;
    }

    /// Width of the sectors from `start` on, and the first sector, `start + n`, that is not on the same track.
    async fn first_track(&mut self, start: u64) -> Result<(f64, u64), Error> {
        let room = self.region.end - start - 1;
        let mut width = self.turn_surely(start, start + 1).await?;
        if centred(width) < -4.0 * self.blur() {
            return Err(Error::Layout {
                lba: start,
                why: "no sectors in a row begin there",
            });
        }
        if width > 0.5 {
            // Not positive because of noise.
            width = self.blur();
        }
        self.sharpen(width.max(1e-4), SHARP);
        let (mut good, mut bad) = (1, 2);
        while bad <= room {
            let expected = bad as f64 * width;
            // The error of an angle is twice that at half the distance.
            let tolerance = (0.35 * width).max(8.0 * self.blur());
            let error = centred(self.turn_surely(start, start + bad).await? - expected);
            if error.abs() > tolerance {
                break;
            }
            width = (expected + error) / bad as f64;
            self.sharpen(width, SHARP);
            good = bad;
            bad *= 2;
        }
        bad = bad.min(room + 1);
        while bad - good > 1 {
            let middle = good.midpoint(bad);
            if let Some(off) = self.off(start, middle, width).await? {
                good = middle;
                width += off / middle as f64;
            } else {
                bad = middle;
            }
        }
        let expected = good as f64 * width;
        let error = centred(self.turn_surely(start, start + good).await? - expected);
        width = (expected + error) / good as f64;
        Ok((width, bad))
    }

    /// Distance of sector `lba` from the place after `lba - 1`, in sectors, at least -0.5.
    async fn jump(&mut self, lba: u64, width: f64) -> Result<f64, Error> {
        let turn = self.turn_surely(lba - 1, lba).await?;
        let jump = (turn / width - 1.0).rem_euclid(1.0 / width);
        Ok(if jump > 1.0 / width - 0.5 {
            jump - 1.0 / width
        } else {
            jump
        })
    }

    /// The first sector after `base` that is not on its track. `likely` is that sector if the track is like others.
    async fn next_break(
        &mut self,
        base: u64,
        likely: u64,
        width: f64,
    ) -> Result<Option<u64>, Error> {
        let last = self.region.end - 1;
        if likely > base + 1 && likely <= last {
            let before = self.follows(base, likely - 1 - base, width).await?;
            if before && !self.follows(base, likely - base, width).await? {
                return Ok(Some(likely));
            }
        }
        let (mut good, mut bad) = (0, (1.25 / width) as u64);
        if base + bad > last || self.follows(base, bad, width).await? {
            bad = last + 1 - base;
            if bad as f64 * width > 3.0 {
                return Err(Error::Layout {
                    lba: base,
                    why: "angles go on without a break at the end of a track",
                });
            }
            if bad <= 1 || self.follows(base, bad - 1, width).await? {
                return Ok(None);
            }
            bad -= 1;
        }
        while bad - good > 1 {
            let middle = good.midpoint(bad);
            if self.follows(base, middle, width).await? {
                good = middle;
            } else {
                bad = middle;
            }
        }
        Ok(Some(base + bad))
    }

    /// Tracks from the track that begins at `start` on, until `enough` holds or the region ends.
    async fn walk(
        &mut self,
        start: u64,
        mut enough: impl FnMut(&Tracks) -> bool,
    ) -> Result<Tracks, Error> {
        let (width, first) = self.first_track(start).await?;
        let mut tracks = Tracks {
            width,
            starts: vec![start],
            jumps: Vec::new(),
        };
        let (mut base, mut at) = (start, start + first);
        let mut length = None;
        while at < self.region.end {
            let jump = self.jump(at, width).await?;
            // One additional sector in between is a slipped defect, so the track continues.
            if (0.5..1.5).contains(&jump) {
                base = at;
            } else {
                length = length.or(Some(at - base));
                tracks.starts.push(at);
                tracks.jumps.push(jump);
                base = at;
                if enough(&tracks) {
                    break;
                }
            }
            let begun = tracks.starts[tracks.starts.len() - 1];
            let likely = begun + length.unwrap_or_else(|| (1.0 / width).round() as u64);
            match self.next_break(base, likely, width).await? {
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(tracks)
    }

    /// The start of the first track after `from`.
    pub async fn next_track(&mut self, from: u64) -> Result<u64, Error> {
        let tracks = self.walk(from, |tracks| !tracks.jumps.is_empty()).await?;
        match tracks.starts.get(1) {
            Some(start) => Ok(*start),
            None => Err(Error::Layout {
                lba: from,
                why: "no track ends after it",
            }),
        }
    }

    /// The shape of the tracks from the track that begins at `start` on. Cylinders have `heads` tracks, if that is
    /// known. `None` when too few tracks are left.
    pub async fn shape(&mut self, start: u64, heads: Option<u32>) -> Result<Option<Shape>, Error> {
        let tracks = match heads {
            Some(heads) => {
                let wanted = heads as usize + 2;
                self.walk(start, |tracks| tracks.jumps.len() >= wanted)
                    .await?
            }
            None => {
                self.walk(start, |tracks| {
                    tracks.jumps.len() >= TRACKS_MAX || heads_of(&tracks.jumps).is_some()
                })
                .await?
            }
        };
        let lengths = tracks.starts.windows(2).map(|pair| pair[1] - pair[0]);
        let lengths: Vec<u64> = lengths.collect();
        let Some(length) = most_common(&lengths) else {
            return Ok(None);
        };
        let by_angle = 1.0 / tracks.width;
        // Only the angles show the spares of a track. If they are too inexact, the track is assumed to have none.
        let blur = self.blur() / tracks.width;
        let track_sectors = if (by_angle - length as f64).abs() < 0.5 + 4.0 * blur {
            length as u32
        } else {
            by_angle.round() as u32
        };
        let exact = |jump: f64| {
            // The width was measured. The whole number of sectors is more exact.
            let turn = (jump + 1.0) * tracks.width * f64::from(track_sectors) - 1.0;
            let whole = turn.round();
            if (turn - whole).abs() < 0.05 + 3.0 * blur {
                whole
            } else {
                turn
            }
        };
        let jumps: Vec<f64> = tracks.jumps.iter().map(|jump| exact(*jump)).collect();
        let rounded: Vec<u64> = jumps.iter().map(|jump| jump.round() as u64).collect();
        let track_spares = u64::from(track_sectors).saturating_sub(length) as u32;
        let (heads, changes) = match heads {
            Some(1) => (1, Vec::new()),
            Some(heads) => (heads, changes_of(&rounded, heads)),
            None => match heads_of(&tracks.jumps) {
                Some((heads, changes)) => (heads, changes),
                None => (1, Vec::new()),
            },
        };
        let is_change = |index: &usize| changes.contains(index);
        let usual: Vec<u64> = (0..rounded.len())
            .filter(|index| !is_change(index))
            .map(|index| rounded[index])
            .collect();
        let Some(usual) = most_common(&usual) else {
            return Ok(None);
        };
        let mean = |wanted: u64| {
            let near: Vec<f64> = jumps
                .iter()
                .copied()
                .filter(|jump| jump.round() as u64 == wanted)
                .collect();
            near.iter().sum::<f64>() / near.len() as f64
        };
        let spares = f64::from(track_spares);
        let track_skew = mean(usual) - spares;
        let mut cylinder_spares = 0;
        let mut cylinder_skew = track_skew;
        if let Some(change) = changes.first() {
            let shortest = changes
                .iter()
                .filter_map(|change| lengths.get(*change))
                .min();
            let short = length.saturating_sub(*shortest.unwrap_or(&length)) as u32;
            // Slips also shorten a track; spares do so in every cylinder.
            let always = changes.iter().filter(|change| lengths[**change] < length);
            if always.count() == changes.len() {
                cylinder_spares = short;
            }
            let lacked = length.saturating_sub(lengths[*change]) as f64;
            cylinder_skew = jumps[*change] - spares - lacked;
        }
        let head = match changes.first() {
            Some(change) => heads - 1 - (*change as u32 % heads),
            None => 0,
        };
        Ok(Some(Shape {
            track_sectors,
            track_spares,
            cylinder_spares,
            track_skew,
            cylinder_skew,
            heads,
            head,
        }))
    }
}

impl Shape {
    /// Where the spares are, as far as a few tracks show.
    pub fn sparing(&self) -> Sparing {
        if self.track_spares > 0 {
            Sparing::Track
        } else if self.cylinder_spares > 0 {
            Sparing::Cylinder
        } else {
            Sparing::Zone
        }
    }
}

/// Tracks of a cylinder, and after which of the tracks a cylinder ends, from the jumps between tracks: the rarer kind
/// of jump, at equal distances, is that between cylinders.
fn heads_of(jumps: &[f64]) -> Option<(u32, Vec<usize>)> {
    let rounded: Vec<u64> = jumps.iter().map(|jump| jump.round() as u64).collect();
    if rounded.len() < 4 {
        return None;
    }
    // Every other one: the larger jump is that between cylinders, because it must cover more.
    let (a, b) = (rounded[0], rounded[1]);
    let alternate = |(index, jump): (usize, &u64)| *jump == if index % 2 == 0 { a } else { b };
    if a != b && rounded.iter().enumerate().take(4).all(alternate) {
        let first = usize::from(b > a);
        return Some((2, (first..rounded.len()).step_by(2).collect()));
    }
    let usual = most_common(&rounded)?;
    let odd: Vec<usize> = (0..rounded.len())
        .filter(|index| rounded[*index] != usual)
        .collect();
    let (first, second) = (*odd.first()?, *odd.get(1)?);
    let heads = second - first;
    // Spares at the end of a group of cylinders change one of the jumps; a third one decides.
    let again = rounded[first] == rounded[second]
        || odd.get(2).is_some_and(|third| third - second == heads);
    (heads >= 2 && first < heads && again).then_some((heads as u32, odd))
}

/// After which tracks a cylinder ends, when cylinders have `heads` tracks.
fn changes_of(jumps: &[u64], heads: u32) -> Vec<usize> {
    let heads = heads as usize;
    let firsts = 0..heads.min(jumps.len());
    let first = if heads == 2 {
        firsts.max_by_key(|index| (jumps[*index], usize::MAX - index))
    } else {
        let usual = most_common(jumps);
        let again = |index: &usize| {
            let later = jumps.get(index + heads);
            later.is_none_or(|later| *later == jumps[*index])
        };
        let odd = |index: &usize| Some(jumps[*index]) != usual;
        firsts.clone().find(|index| odd(index) && again(index))
    };
    match first {
        Some(first) if jumps.iter().any(|jump| *jump != jumps[0]) => {
            (first..jumps.len()).step_by(heads).collect()
        }
        _ => Vec::new(),
    }
}

/// The most frequent value; of equals, the first.
fn most_common(values: &[u64]) -> Option<u64> {
    let count = |value: &u64| values.iter().filter(|other| *other == value).count();
    let most = values.iter().map(count).max()?;
    values.iter().find(|value| count(value) == most).copied()
}
