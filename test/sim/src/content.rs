//! Contents of writes. A stamp determines them, and some look like log records of this store.

use crate::store::STORE;
use tonearm_base::{Lsn, RecordSeq};
use tonearm_format::{RecordHeader, SECTOR};

/// Fills `bytes`, which begin at byte `offset` of a volume, with the content of `stamp`.
pub fn fill(bytes: &mut [u8], stamp: u64, offset: u64) {
    let mut state = stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for chunk in bytes.chunks_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = (state ^ (state >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
    if !stamp.is_multiple_of(8) {
        return;
    }
    // The first whole log sector of the write becomes a valid record, younger than any real one.
    let at = (offset.next_multiple_of(SECTOR as u64) - offset) as usize;
    if let Some(sector) = bytes.get_mut(at..at + SECTOR) {
        forged(stamp).encode(&[], sector);
    }
}

/// A valid log record of this store, younger than any real one.
pub fn forged(stamp: u64) -> RecordHeader {
    RecordHeader {
        store: STORE,
        epoch: 1 + stamp % 7,
        seq: RecordSeq(1_000_000 + stamp),
        prev_sector: 0,
        prev_epoch: 1,
        log_start_sector: 0,
        log_start_seq: RecordSeq(1),
        durable_seq: RecordSeq(999_999 + stamp),
        first_lsn: Lsn(stamp),
        continues: false,
        payload_sectors: 0,
        entries: Vec::new(),
    }
}
