//! Finds the youngest record of an epoch, which names the log start.

use super::{ReplayStats, read_track};
use crate::geometry::LogGeometry;
use crate::scan::FoundRecord;
use crate::search::Search;
use std::collections::BTreeSet;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Device;
use tonearm_format::LogState;

/// The result of [`find_youngest`].
pub(super) struct Youngest {
    /// The youngest record of the epoch, or another one that names a valid log start.
    pub record: Option<FoundRecord>,
    /// Tracks that could not be read, if the result depends on one of them: a younger record may be there.
    pub unreadable: BTreeSet<u64>,
}

/// Searches the log. If a track cannot be read, reads all tracks and searches in what they hold, so that an error that
/// does not last changes nothing.
pub(super) async fn find_youngest(
    pool: &BufPool,
    devices: &[Rc<dyn Device>],
    geometry: &LogGeometry,
    epoch: u64,
    before: &LogState,
    stats: &mut ReplayStats,
) -> Youngest {
    let own = |record: &FoundRecord| {
        record.header.epoch == epoch && record.header.seq.0 > before.log_end_seq
    };
    let mut youngest_on = async |index| {
        stats.search_tracks += 1;
        let track = read_track(pool, devices, geometry, index).await;
        let found = track.found.into_iter().filter(own);
        let youngest = found.max_by_key(|record| record.header.seq);
        track.bytes.is_some().then_some(youngest)
    };
    let new = || Search::new(geometry.tracks, before.start_track);
    let (mut search, mut last) = (new(), None);
    let mut all: Vec<Option<Option<FoundRecord>>> = Vec::new();
    while let Some(index) = search.probe() {
        let track = match all.get(index as usize) {
            Some(track) => track.clone(),
            None => youngest_on(index).await,
        };
        match track {
            Some(youngest) => {
                search.feed(youngest.as_ref().map(|record| record.header.seq));
                last = younger(last, youngest);
            }
            None if all.is_empty() => {
                for index in 0..geometry.tracks {
                    all.push(youngest_on(index).await);
                }
                (search, last) = (new(), None);
            }
            None => {
                let unreadable = (0..).zip(&all).filter(|(_, track)| track.is_none());
                return Youngest {
                    unreadable: unreadable.map(|(index, _)| index).collect(),
                    record: all.into_iter().flatten().fold(None, younger),
                };
            }
        }
    }
    Youngest {
        // The search ends on the track with the highest key that it has met.
        record: search.result().and(last),
        unreadable: BTreeSet::new(),
    }
}

fn younger(one: Option<FoundRecord>, other: Option<FoundRecord>) -> Option<FoundRecord> {
    let both = one.into_iter().chain(other);
    both.max_by_key(|record| record.header.seq)
}
