//! Which records on the medium count at recovery. The tests write the records that crashes and earlier recoveries may
//! leave.

use super::fixture::{geometry, replay};
use crate::{Case, LogGeometry, TrailError, unflushed_tracks_max};
use tonearm_base::{Lsn, RecordSeq, crc32c};
use tonearm_format::{Entry, EntryKind, LogState, RecordHeader, escape_payload};
use tonearm_world::DiskImage;

const TRACK: u64 = 16;
const TRACKS: u64 = 8;

/// A log of [`TRACKS`] tracks.
struct Log {
    geometry: LogGeometry,
    image: DiskImage,
}

/// Record `seq` of `epoch` after the one at `prev` (sector, epoch), with one commit of `ranges` trims.
fn record(epoch: u64, seq: u64, prev: (u64, u64), ranges: u64) -> RecordHeader {
    let entry = |block| Entry {
        block,
        kind: EntryKind::Trim { count: 1 },
        last: block + 1 == ranges,
    };
    RecordHeader {
        store: [5; 16],
        epoch,
        seq: RecordSeq(seq),
        prev_sector: prev.0,
        prev_epoch: prev.1,
        log_start_sector: 0,
        log_start_seq: RecordSeq(1),
        durable_seq: RecordSeq(0),
        first_lsn: Lsn(seq),
        continues: false,
        payload_sectors: 0,
        entries: (0..ranges).map(entry).collect(),
    }
}

impl Log {
    fn new() -> Self {
        let geometry = geometry(TRACKS, TRACK);
        let image = DiskImage::new(geometry.byte_of(0) + geometry.bytes());
        Self { geometry, image }
    }

    fn put(&mut self, sector: u64, header: &RecordHeader) {
        let mut out = vec![0; self.geometry.sector];
        header.encode(&[], &mut out);
        self.image.write(self.geometry.byte_of(sector), &out);
    }

    /// Puts a record with one block. A torn one has a block that does not match its checksum.
    fn put_block(&mut self, sector: u64, header: &RecordHeader, torn: bool) {
        let sectors = self.geometry.block_sectors();
        let block = vec![7; self.geometry.block_size];
        let mut payload = vec![0; block.len()];
        let mut displaced = vec![0; sectors as usize];
        escape_payload(&block, &mut payload, &mut displaced);
        let crc = crc32c(&block) ^ u32::from(torn);
        let header = RecordHeader {
            payload_sectors: sectors as u32,
            entries: vec![Entry {
                block: 9,
                kind: EntryKind::Data { crc },
                last: true,
            }],
            ..header.clone()
        };
        let mut out = vec![0; self.geometry.sector];
        header.encode(&displaced, &mut out);
        out.extend_from_slice(&payload);
        self.image.write(self.geometry.byte_of(sector), &out);
    }

    /// The result of an opening after `epoch`: number and changes of each replayed commit, and why the log ended.
    fn replayed(
        &self,
        epoch: u64,
        before: LogState,
    ) -> Result<(Vec<(u64, usize)>, Case), TrailError> {
        let images = vec![self.image.clone()];
        let (commits, tail) = replay(images, &self.geometry, (epoch, before), false, |it| it);
        let commits = commits.iter();
        let commits = commits.map(|commit| (commit.lsn.0, commit.changes.len()));
        Ok((commits.collect(), tail?.case))
    }
}

/// The superblock says that records up to `seq` were there when its epoch began; the last at `sector`, of `epoch`.
fn up_to(seq: u64, sector: u64, epoch: u64) -> LogState {
    LogState {
        log_start_sector: 0,
        log_start_seq: 1,
        log_end_sector: sector,
        log_end_seq: seq,
        log_end_epoch: epoch,
        log_end_lsn: seq,
        start_track: sector / TRACK + 1,
    }
}

/// A log that begins with record 1.
fn start() -> LogState {
    LogState {
        log_start_seq: 1,
        ..LogState::default()
    }
}

fn damaged(result: Result<(Vec<(u64, usize)>, Case), TrailError>) -> u64 {
    match result {
        Err(TrailError::Damaged { seq, .. }) => seq,
        other => panic!("damage is refused: {other:?}"),
    }
}

#[test]
fn missing_durable_record_is_damage() {
    let mut log = Log::new();
    log.put(0, &record(1, 1, (0, 0), 1));
    log.put(2, &record(1, 3, (1, 1), 1));
    assert_eq!(damaged(log.replayed(2, up_to(3, 2, 1))), 2);
    log.put(1, &record(1, 2, (0, 1), 1));
    let all = (vec![(1, 1), (2, 1), (3, 1)], Case::End);
    assert_eq!(log.replayed(2, up_to(3, 2, 1)).unwrap(), all);
}

/// How a durable record may be damaged.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Damage {
    /// Its header: nothing is found in its place.
    Header,
    /// Its payload: the header is found.
    Payload,
}

/// The writer may be as many tracks beyond the last durable record as the log allows when a flush makes a record durable. The
/// next record, the first one that says so, may open one track more.
#[test]
fn a_damaged_record_that_a_later_one_calls_durable_is_damage() {
    for damage in [Damage::Header, Damage::Payload] {
        for track in 0..=unflushed_tracks_max(TRACKS) + 1 {
            for (durable, is_damage) in [(0, false), (1, false), (2, true)] {
                let mut log = Log::new();
                log.put(0, &record(1, 1, (0, 0), 1));
                if damage == Damage::Payload {
                    log.put_block(1, &record(1, 2, (0, 1), 0), true);
                }
                let later = RecordHeader {
                    durable_seq: RecordSeq(durable),
                    ..record(1, 3, (1, 1), 1)
                };
                log.put(4 + track * TRACK, &later);
                let result = log.replayed(1, start());
                let case = (damage, track, durable);
                match is_damage {
                    true => assert_eq!(damaged(result), 2, "{case:?}"),
                    false => {
                        assert_eq!(result.unwrap(), (vec![(1, 1)], Case::TornTail), "{case:?}")
                    }
                }
            }
        }
    }
}

#[test]
fn record_with_wrong_predecessor_is_ignored() {
    for (prev, counts) in [((0, 1), true), ((3, 1), false), ((0, 2), false)] {
        let mut log = Log::new();
        log.put(0, &record(1, 1, (0, 0), 1));
        log.put(1, &record(1, 2, prev, 1));
        let (commits, _) = log.replayed(1, start()).unwrap();
        assert_eq!(commits.len(), if counts { 2 } else { 1 }, "after {prev:?}");
    }
}

#[test]
fn records_that_an_earlier_recovery_cut_off_do_not_return() {
    let mut log = Log::new();
    log.put(0, &record(1, 1, (0, 0), 1));
    // Epoch 2 began after record 1, and has written nothing yet.
    log.put(1, &record(1, 2, (0, 1), 1));
    assert_eq!(log.replayed(2, up_to(1, 0, 1)).unwrap().0, [(1, 1)]);
    // Its record has the number of the record that was cut off. It counts, in its own epoch and in later ones.
    log.put(TRACK, &record(2, 2, (0, 1), 5));
    let both = vec![(1, 1), (2, 5)];
    assert_eq!(log.replayed(2, up_to(1, 0, 1)).unwrap().0, both);
    assert_eq!(log.replayed(3, up_to(2, TRACK, 2)).unwrap().0, both);
}

#[test]
fn later_epoch_wins_between_records_of_equal_number() {
    let mut log = Log::new();
    log.put(0, &record(1, 1, (0, 0), 1));
    log.put(TRACK + 1, &record(1, 2, (0, 1), 1));
    log.put(TRACK + 3, &record(2, 2, (0, 1), 5));
    let before = up_to(2, TRACK + 3, 2);
    assert_eq!(log.replayed(3, before).unwrap().0, [(1, 1), (2, 5)]);
}

#[test]
fn records_of_other_logs_do_not_count() {
    let of_another_store = RecordHeader {
        store: [6; 16],
        ..record(1, 1, (0, 0), 1)
    };
    let mut beyond_its_block = record(1, 1, (0, 0), 1);
    beyond_its_block.entries[0].kind = EntryKind::Patch { at: 4096, value: 1 };
    for header in [of_another_store, beyond_its_block] {
        let mut log = Log::new();
        log.put(0, &header);
        assert_eq!(log.replayed(1, start()).unwrap(), (vec![], Case::End));
    }
}

#[test]
fn torn_commit_does_not_leak_into_the_next_one() {
    let mut log = Log::new();
    let mut torn = record(1, 1, (0, 0), 3);
    torn.entries[2].last = false;
    log.put(0, &torn);
    let next = RecordHeader {
        first_lsn: Lsn(1),
        ..record(2, 2, (0, 1), 2)
    };
    log.put(TRACK, &next);
    let before = LogState {
        log_end_lsn: 0,
        ..up_to(1, 0, 1)
    };
    assert_eq!(log.replayed(2, before).unwrap().0, [(1, 2)]);
}

#[test]
fn a_record_with_a_changed_block_is_torn() {
    for torn in [false, true] {
        let mut log = Log::new();
        log.put_block(0, &record(1, 1, (0, 0), 0), torn);
        let (commits, case) = log.replayed(1, start()).unwrap();
        let whole = usize::from(!torn);
        assert_eq!((commits.len(), case), (whole, Case::End));
    }
}
