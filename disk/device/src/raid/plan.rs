//! How a part of a stripe is updated: decided before any I/O.
//!
//! An update reads the old data and parity (read-modify-write), or the data that it leaves unchanged (reconstruct-write),
//! whichever takes fewer reads. If both take the same, read-modify-write is used, because it uses fewer members.

use super::cut::Band;
use super::geometry::Unit;
use super::state::RaidStats;
use std::ops::Range;

/// From what the new parity is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Method {
    /// There is no parity: its member is missing.
    DataAlone,
    /// The old data and parity.
    ReadModifyWrite,
    /// The data that is left unchanged.
    ReconstructWrite,
    /// The new data.
    FullWrite,
}

impl Method {
    /// Counts an update.
    pub fn count(self, stats: &mut RaidStats) {
        match self {
            Self::DataAlone => {}
            Self::ReadModifyWrite => stats.read_modify_writes += 1,
            Self::ReconstructWrite => stats.reconstruct_writes += 1,
            Self::FullWrite => stats.full_writes += 1,
        }
    }
}

/// What is known of a stripe whose units are all there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StripeNow {
    /// Its parity may differ from its data.
    pub is_suspect: bool,
    /// Updates need a parity record all the same: a power cut may cost a member, too.
    pub is_recorded: bool,
}

/// The plan of an update.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct BandPlan {
    pub method: Method,
    /// What is read. Its XOR is the parity of what the update leaves unchanged.
    pub reads: Vec<(Unit, Range<u64>)>,
    /// A unit that is neither read nor written could be lost in a power cut until both writes are done.
    pub endangers: bool,
}

impl BandPlan {
    /// The update of `band` in a stripe of `columns` data units, without the unit that is `missing`.
    pub fn new(band: &Band, columns: usize, missing: Option<Unit>, now: StripeNow) -> Self {
        let runs = |of: fn(&Band, usize) -> Vec<Range<u64>>| {
            let of_column = |column| of(band, column).into_iter().map(move |run| (column, run));
            let runs = (0..columns).flat_map(of_column);
            let runs = runs.map(|(column, run)| (Unit::Column(column), run));
            runs.collect::<Vec<_>>()
        };
        let (changed, kept) = (runs(Band::changed), runs(Band::kept));
        let (modify, endangers) = match missing {
            Some(Unit::Parity) => {
                return Self {
                    method: Method::DataAlone,
                    reads: Vec::new(),
                    endangers: false,
                };
            }
            Some(column) => {
                let is_kept = changed.iter().all(|(unit, _)| *unit != column);
                (is_kept, is_kept)
            }
            None => {
                let modify = changed.len() < kept.len() && !now.is_suspect;
                (modify, now.is_recorded && !kept.is_empty())
            }
        };
        let (method, reads) = if modify {
            let mut reads = vec![(Unit::Parity, band.range.clone())];
            reads.extend(changed);
            (Method::ReadModifyWrite, reads)
        } else {
            let is_there = |(unit, _): &(Unit, _)| missing != Some(*unit);
            assert!(kept.iter().all(is_there), "bands are cut there");
            let is_full = kept.is_empty();
            let method = if is_full {
                Method::FullWrite
            } else {
                Method::ReconstructWrite
            };
            (method, kept)
        };
        Self {
            method,
            reads,
            endangers,
        }
    }
}
