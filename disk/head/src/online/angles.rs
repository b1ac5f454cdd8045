//! The angles at which sectors pass under the head, from a map of the tracks or as learned.

use super::lead::Step;
use super::learned::Learned;
use super::spindle::fraction;
use crate::{TrackMap, TrackRun};

/// Writes over more revolutions are ignored.
const MOST_TURNS: f64 = 256.0;

/// Adjacent sectors on one track, as far as known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Stretch {
    /// First sector.
    pub first: u64,
    /// The sector after the last one.
    pub end: u64,
    /// Angle of the first sector, in revolutions.
    pub angle: f64,
    /// Sectors of a revolution.
    pub turn: f64,
    /// Number of the track. Adjacent tracks have consecutive numbers.
    pub track: u64,
    /// Number of the first track of its cylinder.
    pub cylinder: u64,
    /// Tracks of a cylinder.
    pub group: u64,
}

impl Stretch {
    /// An unknown place, far from all tracks.
    pub const ELSEWHERE: Self = Self {
        first: 0,
        end: 0,
        angle: 0.0,
        turn: 1.0,
        track: u64::MAX,
        cylinder: u64::MAX,
        group: 0,
    };

    /// Angle at which `sector`, on this track or right after it, begins.
    pub fn angle_of(&self, sector: u64) -> f64 {
        let within = sector as f64 - self.first as f64;
        fraction(self.angle + within / self.turn)
    }
}

/// The path along the sectors of a write, in revolutions.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// From the beginning to the end.
    pub turns: f64,
    /// The last skew, of those that are crossed.
    pub skew: f64,
    /// Angle at the end.
    pub angle: f64,
}

/// How the head moves from one sector to another.
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
    /// From a calibrated drive.
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

    /// The first sector after the unknown `sector` from which on tracks are known again.
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

    /// Walks along `sectors` sectors from `first`, on `on`. Calls `mark` for the end of each track that it leaves and
    /// for the last sector, with the sectors so far and the revolutions from the start of `first` to there. `None` if
    /// the tracks are not known.
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
            // By rounding, a skew of 0 may become slightly negative.
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
