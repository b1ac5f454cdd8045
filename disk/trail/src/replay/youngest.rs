//! Finds the youngest record of an epoch, which names the log start.

use super::{ReplayStats, read_track};
use crate::geometry::LogGeometry;
use crate::scan::FoundRecord;
use crate::search::Search;
use std::collections::BTreeSet;
use std::rc::Rc;
use tonearm_base::{BufPool, RecordSeq};
use tonearm_device::Device;
use tonearm_format::LogState;

/// The result of [`find_youngest`].
pub(super) struct Youngest {
    /// The youngest record of the epoch, or another one that names a valid log start.
    pub record: Option<FoundRecord>,
    /// Tracks that could not be read, if the result depends on one of them: a younger record may be there.
    pub unreadable: BTreeSet<u64>,
}

/// Searches the log. If a track cannot be read, reads all tracks and searches in what they hold: so the result is the one
/// without errors, also where a torn tail hides its last tracks from the search.
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
    let mut unreadable = BTreeSet::new();
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
                let tracks = (0..).zip(&all).filter(|(_, track)| track.is_none());
                unreadable = tracks.map(|(index, _)| index).collect();
                search.feed(key_between(&all, index as usize));
            }
        }
    }
    Youngest {
        // The search ends on the track with the highest key that it has met.
        record: search.result().and(last),
        unreadable,
    }
}

/// The key of an unreadable track, as far as its neighbours show it: keys grow along the log. A track between the
/// youngest record and the oldest one counts as free.
fn key_between(all: &[Option<Option<FoundRecord>>], index: usize) -> Option<RecordSeq> {
    let keys = all.iter().enumerate().filter_map(|(at, track)| {
        let youngest = track.as_ref()?;
        Some((at, youngest.as_ref().map(|record| record.header.seq)))
    });
    let (before, after): (Vec<_>, Vec<_>) = keys.partition(|(at, _)| *at < index);
    let previous = before.last().or(after.last())?.1;
    let next = after.first().or(before.first())?.1;
    (next > previous).then(|| previous.unwrap_or(RecordSeq(0)))
}

fn younger(one: Option<FoundRecord>, other: Option<FoundRecord>) -> Option<FoundRecord> {
    let both = one.into_iter().chain(other);
    both.max_by_key(|record| record.header.seq)
}
