//! Where sectors pass under the head: from a map of the tracks, or as learned.

use super::lead::Step;
use super::learned::Learned;
use super::spindle::fraction;
use crate::{TrackMap, TrackRun};

/// A write over more revolutions is not looked at.
const MOST_TURNS: f64 = 256.0;

/// Sectors in a row on one track, as far as it is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stretch {
    /// First sector.
    pub first: u64,
    /// The sector behind the last one.
    pub end: u64,
    /// Angle of the first sector, in revolutions.
    pub angle: f64,
    /// Sectors of a revolution.
    pub turn: f64,
    /// Number of the track; tracks in a row have numbers in a row.
    pub track: u64,
    /// Number of the first track of its cylinder.
    pub cylinder: u64,
    /// Tracks of a cylinder.
    pub group: u64,
}

impl Stretch {
    /// A place of which nothing is known but that it is far from all tracks.
    pub const ELSEWHERE: Self = Self {
        first: 0,
        end: 0,
        angle: 0.0,
        turn: 1.0,
        track: u64::MAX,
        cylinder: u64::MAX,
        group: 0,
    };

    /// Angle at which `sector`, on this track or right behind it, begins.
    pub fn angle_of(&self, sector: u64) -> f64 {
        let within = sector as f64 - self.first as f64;
        fraction(self.angle + within / self.turn)
    }
}

/// The way along the sectors of a write, in revolutions.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// From the beginning to the end.
    pub turns: f64,
    /// The last skew, of those that are crossed.
    pub skew: f64,
    /// Angle at the end.
    pub angle: f64,
}

/// What the head does to come from one sector to another.
pub fn step(from: (u64, &Stretch), to: (u64, &Stretch)) -> Step {
    if from.1.track == to.1.track {
        Step::Same
    } else if from.1.cylinder == to.1.cylinder {
        Step::Switch
    } else if from.1.cylinder.abs_diff(to.1.cylinder) <= from.1.group {
        Step::Cylinder
    } else {
        Step::Far(from.0.abs_diff(to.0))
    }
}

/// The angle function of a drive.
#[derive(Clone, Debug)]
pub enum Angles {
    /// Of a calibrated drive.
    Map(TrackMap),
    /// Learned from the writes.
    Learned(Box<Learned>),
}

impl Angles {
    /// The track that `sector` lies on, if it is known.
    pub fn find(&self, sector: u64) -> Option<Stretch> {
        match self {
            Self::Map(map) => on_map(map, sector),
            Self::Learned(learned) => learned.find(sector),
        }
    }

    /// The first sector behind `sector`, which is not known, from which on tracks are known again.
    pub fn next_known(&self, sector: u64) -> Option<u64> {
        match self {
            Self::Map(map) => {
                let runs = map.runs();
                let next = runs.partition_point(|run| run.first <= sector);
                runs.get(next).map(|run| run.first)
            }
            Self::Learned(_) => None,
        }
    }

    /// Goes along `sectors` sectors from `first`, on `on`. `mark` is told of the end of each track that is
    /// left and of the last sector: sectors so far, and revolutions from the beginning of `first` to there.
    /// `None` where the tracks are not known.
    pub fn walk(
        &self,
        on: &Stretch,
        first: u64,
        sectors: u32,
        mut mark: impl FnMut(f64, f64),
    ) -> Option<Walk> {
        let end = first + u64::from(sectors);
        let mut skew = 0.0;
        let mut at = *on;
        let mut turns = 0.0;
        let mut from = first;
        if (end - first) as f64 > MOST_TURNS * on.turn {
            return None;
        }
        while at.end < end {
            turns += (at.end - from) as f64 / at.turn;
            mark((at.end - first) as f64, turns);
            let over = at.angle_of(at.end);
            from = at.end;
            at = self.find(at.end)?;
            // A skew of nothing may come out a trifle below it.
            skew = fraction(at.angle - over + 0.01) - 0.01;
            turns += skew;
        }
        turns += (end - from) as f64 / at.turn;
        mark(f64::from(sectors), turns);
        Some(Walk {
            turns,
            skew,
            angle: at.angle_of(end),
        })
    }

    /// Bytes of what lies elsewhere in memory.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Map(map) => map.memory_bytes() - size_of::<TrackMap>(),
            Self::Learned(_) => size_of::<Learned>(),
        }
    }
}

fn on_map(map: &TrackMap, sector: u64) -> Option<Stretch> {
    let track = map.find(sector)?;
    let runs = map.runs();
    let run: &TrackRun = &runs[runs.partition_point(|run| run.first <= sector) - 1];
    let before = map.find(run.first)?.index;
    let place = (track.index - before + u64::from(run.at)) % u64::from(run.group);
    Some(Stretch {
        first: track.first,
        end: track.end(),
        angle: f64::from(track.angle) / 4_294_967_296.0,
        turn: f64::from(track.turn_sectors),
        track: track.index,
        cylinder: track.index.saturating_sub(place),
        group: u64::from(run.group),
    })
}
