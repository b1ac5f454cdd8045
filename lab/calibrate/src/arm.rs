//! The arm: head switch and seek times, and the overheads of commands.

use crate::error::Error;
use crate::layout::{EstimatedLayout, Layout};
use crate::least::{Act, Pair, TRIALS_MAX};
use crate::probe::{Method, Probe};

/// Up to this distance all are measured.
const NEAR: u32 = 10;
/// Factor from one distance to the next, beyond these.
const GROWTH: f64 = 1.12;
/// Additional sectors of a write, to find the speed of the bus.
const MORE: u32 = 8;
/// Places where two requests on one track are measured, so that none meets buffered sectors of another.
const PLACES: u64 = 5;
/// Adjacent tracks that are tried when skews do not show where cylinders end.
const NEIGHBOURS: u64 = 36;

/// Times of the arm, in ms.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Arm {
    /// Distances in cylinders, and the time of a seek.
    pub seeks: Vec<(u32, f64)>,
    /// Time from one track to another of the same cylinder; `None` if it could not be measured.
    pub head_switch: Option<f64>,
    /// Additional time of a write, compared with a read, after a move.
    pub write_settle: Option<f64>,
}

/// Overheads of commands, in ms; `None` if they could not be measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Commands {
    /// Write after a write, until the arm may move.
    pub write_after_write: Option<f64>,
    /// Write after a read.
    pub write_after_read: Option<f64>,
    /// Read after a write.
    pub read_after_write: Option<f64>,
    /// Read after a read.
    pub read_after_read: Option<f64>,
    /// End of a read.
    pub read_done: f64,
    /// End of a write.
    pub write_done: f64,
    /// Least time of a write of one sector on the same track, from sending to end. A log must look ahead by this time
    /// (delta; Trail, section 3.1).
    pub write_least: Option<f64>,
    /// The same in sectors of the start of the region.
    pub delta_sectors: Option<u32>,
    /// Time of a sector on the bus, host to drive, if that is slower than the medium.
    pub write_sector: Option<f64>,
}

/// Sectors of a drive by their cylinder.
pub(crate) struct Cylinders<'a> {
    belief: &'a EstimatedLayout,
    region: std::ops::Range<u64>,
}

impl<'a> Cylinders<'a> {
    pub fn new(belief: &'a EstimatedLayout, region: std::ops::Range<u64>) -> Self {
        Self { belief, region }
    }

    fn cylinder(&self, lba: u64) -> u32 {
        self.belief.geometry.extent(lba).cylinder
    }

    /// First whole cylinder of the region, and the last one.
    pub fn range(&self) -> (u32, u32) {
        let first = self.cylinder(self.region.start) + 1;
        let last = self.cylinder(self.region.end - 1).saturating_sub(1);
        (first, last.max(first))
    }

    /// First sector of a cylinder.
    pub fn first(&self, cylinder: u32) -> u64 {
        let (mut low, mut high) = (self.region.start, self.region.end - 1);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.cylinder(middle) < cylinder {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// The first sector of each of the `count` tracks from that of `lba` on.
    pub fn tracks(&self, lba: u64, count: u64) -> Vec<u64> {
        let mut starts = vec![lba];
        let track = |lba: u64| {
            let extent = self.belief.geometry.extent(lba);
            (extent.cylinder, extent.head)
        };
        let mut at = lba;
        while (starts.len() as u64) < count {
            let old = track(at);
            while at < self.region.end && track(at) == old {
                at += u64::from(self.belief.geometry.extent(at).sectors);
            }
            if at >= self.region.end {
                break;
            }
            starts.push(at);
        }
        starts
    }
}

/// Distances at which seeks are measured, up to `most`.
fn distances(most: u32) -> Vec<u32> {
    let mut distances = Vec::new();
    let mut next = 1.0;
    while next <= f64::from(most) {
        distances.push(next as u32);
        next = if next < f64::from(NEAR) {
            next + 1.0
        } else {
            (next * GROWTH).ceil()
        };
    }
    if distances.last().is_some_and(|last| *last < most) {
        distances.push(most);
    }
    distances
}

impl Probe {
    fn kind(&self) -> Act {
        match self.method {
            Method::Read(_) => Act::Read,
            _ => Act::Write,
        }
    }

    /// Finds where cylinders end if all skews are alike: moves to tracks at the same number of cylinders take the same
    /// time, except for the head switch. If this shows the cylinders, `layout` becomes one with cylinders.
    pub async fn find_heads(&mut self, layout: &mut Layout) -> Result<bool, Error> {
        if layout.heads > 1 {
            return Ok(true);
        }
        self.phase("heads", 0.0);
        let belief = layout.belief()?;
        let cylinders = Cylinders::new(&belief, self.region.clone());
        let (first, _) = cylinders.range();
        let act = self.kind();
        let starts = cylinders.tracks(cylinders.first(first), NEIGHBOURS + 1);
        let mut times = Vec::new();
        for start in &starts[1..] {
            let places = |trial| (starts[0] + 4 + trial, start + 4 + trial);
            match self.least(&belief, Pair::of(act, act), places).await? {
                Some(least) => times.push(least.time),
                None => return Ok(false),
            }
        }
        let blur = 3_000.0 + self.spindle.noise;
        let Some((heads, _)) = heads_by_times(&times, blur) else {
            return Ok(false);
        };
        // The first zone's first track is assumed to be a cylinder's first. The other zones must agree with that.
        let whole = |zone: usize| {
            let tracks = (layout.zone_end(zone) - layout.zones[zone].first)
                / u64::from(layout.zones[zone].track_sectors);
            zone + 1 == layout.zones.len() || tracks.is_multiple_of(u64::from(heads))
        };
        if heads == 1 || !(0..layout.zones.len()).all(whole) {
            return Ok(heads == 1);
        }
        layout.heads = heads;
        Ok(true)
    }

    /// Seek curve and head switch, settling of writes, and overheads of commands.
    pub async fn arm(
        &mut self,
        layout: &Layout,
        bus_ms: (Option<f64>, Option<f64>),
    ) -> Result<(Arm, Commands), Error> {
        self.phase("seeks", 0.0);
        let belief = layout.belief()?;
        let cylinders = Cylinders::new(&belief, self.region.clone());
        let (first, last) = cylinders.range();
        let act = self.kind();
        let mut commands = Commands::default();
        let home = cylinders.first(first);
        let track = belief.track_sectors(home);
        let sector_ms = self.spindle.period / track / 1e6;
        // A sector of a write must cross the bus before it is written, and one of a read after it was read.
        let read_bus = bus_ms.0.unwrap_or(0.0);
        let mut write_bus = bus_ms.1.unwrap_or(read_bus);
        // Reads of places that the drive may have read ahead are useless, so each trial has its own track. The second
        // sector lies before the first, which is near the front, so that the drive is still on this track when the
        // second one comes round.
        let spot = home;
        let tracks = cylinders.tracks(spot, PLACES * u64::from(TRIALS_MAX) * 2);
        let place = |which: u64, trial: u64| {
            let index = 2 * (which * u64::from(TRIALS_MAX) + trial);
            let start = tracks[index as usize % tracks.len()];
            (start + track as u64 / 5, start + 4)
        };
        let ms = |time: f64| time / 1e6;
        if act == Act::Write {
            let slower = match bus_ms.1 {
                Some(_) => None,
                None => {
                    self.slow_bus(&belief, |trial| place(0, trial), sector_ms)
                        .await?
                }
            };
            if let Some(slower) = slower {
                write_bus = slower;
                commands.write_sector = Some(slower);
            }
            let pair = Pair::of(Act::Write, Act::Write);
            let places = |trial| place(1, trial);
            if let Some(least) = self.least(&belief, pair, places).await? {
                commands.write_least = Some(ms(least.time));
                commands.delta_sectors = Some((ms(least.time) / sector_ms).ceil() as u32);
                commands.write_after_write = Some(ms(least.time) - sector_ms - write_bus);
            }
            let pair = Pair::of(Act::Write, Act::Read);
            let places = |trial| place(2, trial);
            if let Some(least) = self.least(&belief, pair, places).await? {
                // Reads and writes end at different times after the sector has passed.
                let later = ms(least.later) - read_bus;
                commands.read_done = later.max(0.0);
                commands.write_done = (-later).max(0.0);
                let done = read_bus + commands.read_done;
                commands.read_after_write = Some(ms(least.time) - sector_ms - done);
            }
            let pair = Pair::of(Act::Read, Act::Write);
            let places = |trial| place(3, trial);
            if let Some(least) = self.least(&belief, pair, places).await? {
                let done = commands.write_done;
                commands.write_after_read = Some(ms(least.time) - sector_ms - write_bus - done);
            }
            if let Some(time) = &mut commands.write_after_write {
                *time -= commands.write_done;
            }
        }
        let pair = Pair::of(Act::Read, Act::Read);
        let places = |trial| place(4, trial);
        if let Some(least) = self.least(&belief, pair, places).await? {
            let done = read_bus + commands.read_done;
            commands.read_after_read = Some(ms(least.time) - sector_ms - done);
        }
        // Overhead of the measured kind of request without the move.
        let fixed = match act {
            Act::Write => commands
                .write_after_write
                .map(|time| time + commands.write_done),
            Act::Read => commands
                .read_after_read
                .map(|time| time + read_bus + commands.read_done),
        };
        let Some(fixed) = fixed else {
            return Ok((Arm::default(), commands));
        };
        let mut arm = Arm::default();
        if layout.heads > 1 {
            let tracks = cylinders.tracks(home, 2 * u64::from(layout.heads));
            let count = tracks.len() as u64 - 1;
            let places = |trial: u64| {
                // Within one cylinder.
                let head = trial % (u64::from(layout.heads) - 1);
                let at = head.min(count - 1) as usize;
                (tracks[at] + 4, tracks[at + 1] + 4 + trial)
            };
            if let Some(least) = self.least(&belief, Pair::of(act, act), places).await? {
                let width = self.spindle.period / belief.track_sectors(tracks[1]) / 1e6;
                arm.head_switch = Some((ms(least.time) - width - fixed).max(0.0));
            }
        }
        let distances = distances(last - first);
        for (index, distance) in distances.iter().enumerate() {
            self.phase("seeks", index as f64 / distances.len() as f64);
            // Short and long seeks from the start of the region.
            let from = cylinders.first(first) + 4;
            let to = cylinders.first(first + distance) + 4;
            let places = |trial: u64| (from + trial, to + trial);
            if let Some(least) = self.least(&belief, Pair::of(act, act), places).await? {
                let width = self.spindle.period / belief.track_sectors(to) / 1e6;
                let time = ms(least.time) - width - fixed;
                arm.seeks.push((*distance, time.max(0.0)));
            }
        }
        if act == Act::Write {
            arm.write_settle = self
                .settle(&belief, &cylinders, &commands, read_bus, &arm)
                .await?;
        }
        if let Some(settle) = arm.write_settle {
            for (_, time) in &mut arm.seeks {
                *time = (*time - settle).max(0.0);
            }
            if let Some(time) = &mut arm.head_switch {
                *time = (*time - settle).max(0.0);
            }
        }
        Ok((arm, commands))
    }

    /// Time of a sector on the bus, in ms, if it is longer than on the medium. Then each sector delays a write by it.
    async fn slow_bus(
        &mut self,
        belief: &EstimatedLayout,
        on_track: impl Fn(u64) -> (u64, u64),
        sector_ms: f64,
    ) -> Result<Option<f64>, Error> {
        if !matches!(self.method, Method::Durable) {
            return Ok(None);
        }
        let mut times = [0.0; 2];
        for (time, sectors) in times.iter_mut().zip([1 + MORE, 1 + 2 * MORE]) {
            let pair = Pair {
                sectors,
                ..Pair::of(Act::Write, Act::Write)
            };
            match self.least(belief, pair, &on_track).await? {
                Some(least) => *time = least.time,
                None => return Ok(None),
            }
        }
        let each = (times[1] - times[0]) / f64::from(MORE) / 1e6;
        Ok((each > 1.03 * sector_ms).then_some(each))
    }

    /// Additional time of a write, compared with a read, after a seek of the same distance.
    async fn settle(
        &mut self,
        belief: &EstimatedLayout,
        cylinders: &Cylinders<'_>,
        commands: &Commands,
        read_bus: f64,
        arm: &Arm,
    ) -> Result<Option<f64>, Error> {
        let (first, last) = cylinders.range();
        let Some(read) = commands.read_after_write else {
            return Ok(None);
        };
        let wanted = (last - first) / 3;
        let Some((distance, written)) = arm
            .seeks
            .iter()
            .rev()
            .find(|(distance, _)| *distance <= wanted)
        else {
            return Ok(None);
        };
        let starts: Vec<(u64, u64)> = (0..TRIALS_MAX)
            .map(|trial| first + 2 + 2 * trial)
            .filter(|cylinder| cylinder + distance <= last)
            .map(|cylinder| {
                let to = cylinders.first(cylinder + distance);
                (cylinders.first(cylinder) + 4, to + 4)
            })
            .collect();
        let places = |trial: u64| starts[trial as usize % starts.len()];
        let pair = Pair::of(Act::Write, Act::Read);
        let Some(least) = self.least(belief, pair, places).await? else {
            return Ok(None);
        };
        let width = self.spindle.period / belief.track_sectors(starts[0].1) / 1e6;
        let time = least.time / 1e6 - width - read - read_bus - commands.read_done;
        Ok(Some(written - time))
    }
}

/// The tracks of a cylinder, and the index of the first track in its cylinder, from the least times of moves to the
/// tracks after it: the largest cylinders for which moves of the same distance, with or without a head switch, take
/// the same time.
fn heads_by_times(times: &[f64], blur: f64) -> Option<(u32, u32)> {
    let most = times.len() as u32 / 4;
    let mut best = None;
    for heads in 1..=most {
        for head in 0..heads {
            let mut groups: std::collections::BTreeMap<(u32, bool), (f64, f64)> =
                std::collections::BTreeMap::new();
            for (index, time) in times.iter().enumerate() {
                let to = head + index as u32 + 1;
                let key = (to / heads, to % heads != head);
                let group = groups.entry(key).or_insert((*time, *time));
                *group = (group.0.min(*time), group.1.max(*time));
            }
            let agree = groups.values().all(|(least, most)| most - least <= blur);
            let differ = {
                let all = times.iter().copied();
                all.clone().fold(f64::MIN, f64::max) - all.fold(f64::MAX, f64::min) > 2.0 * blur
            };
            // Without a difference between same head and other head, single tracks agree with any number.
            let is_decided = heads == 1 || {
                let same: f64 = mean(times, |to| (to + head) % heads == head);
                let other: f64 = mean(times, |to| (to + head) % heads != head);
                heads > 2 || other - same > blur
            };
            if agree && differ && is_decided {
                best = Some((heads, head));
            }
        }
    }
    best
}

fn mean(times: &[f64], which: impl Fn(u32) -> bool) -> f64 {
    let chosen: Vec<f64> = times
        .iter()
        .enumerate()
        .filter(|(index, _)| which(*index as u32 + 1))
        .map(|(_, time)| *time)
        .collect();
    chosen.iter().sum::<f64>() / chosen.len().max(1) as f64
}
