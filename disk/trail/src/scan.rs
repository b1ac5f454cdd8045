//! Finds the records on a track.

use crate::geometry::LogGeometry;
use crate::pack::RecordPlace;
use tonearm_base::{Buf, BufPool, crc32c};
use tonearm_format::{EntryKind, RecordHeader, unescape_payload};

/// A record whose header is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRecord {
    /// Where the record lies.
    pub place: RecordPlace,
    /// Its header.
    pub header: RecordHeader,
    /// First bytes of the payload's sectors, which the header keeps.
    pub displaced: Vec<u8>,
}

/// The records of this store on the track with index `track`, in sector order, whose log start lies in the log.
/// Records of older laps and epochs are among them; the caller decides which count.
pub fn scan_track(geometry: &LogGeometry, track: u64, bytes: &[u8]) -> Vec<FoundRecord> {
    let mut found = Vec::new();
    for (index, sector) in bytes.chunks_exact(geometry.sector).enumerate() {
        if !RecordHeader::looks_like_one(sector) {
            continue;
        }
        let Ok((header, displaced)) = RecordHeader::decode(sector) else {
            continue;
        };
        let fits = (index as u64 + header.sectors()) * geometry.sector as u64 <= bytes.len() as u64;
        let payload = header.data_entries() as u64 * geometry.block_sectors();
        let patches_fit = header.entries.iter().all(|entry| match entry.kind {
            EntryKind::Patch { at, .. } => (at as usize) < geometry.block_size,
            _ => true,
        });
        let start_fits = geometry.track_of(header.log_start_sector) < geometry.tracks;
        if header.store == geometry.store
            && start_fits
            && fits
            && payload == u64::from(header.payload_sectors)
            && patches_fit
        {
            let at = track * geometry.track_sectors + index as u64;
            found.push(FoundRecord {
                place: RecordPlace::of(&header, at),
                header,
                displaced,
            });
        }
    }
    found
}

impl FoundRecord {
    /// The record's blocks, one buffer each, from the bytes of its track. `None` when a block fails its checksum:
    /// the record is torn.
    pub fn blocks(&self, geometry: &LogGeometry, pool: &BufPool, track: &[u8]) -> Option<Vec<Buf>> {
        let first = (self.place.sector % geometry.track_sectors) as usize + 1;
        let mut payload = track[first * geometry.sector..].chunks_exact(geometry.block_size);
        let mut displaced = self
            .displaced
            .chunks_exact(geometry.block_sectors() as usize);
        let mut blocks = Vec::new();
        for entry in &self.header.entries {
            let EntryKind::Data { crc } = entry.kind else {
                continue;
            };
            let mut block = pool.copy_of(payload.next()?);
            unescape_payload(&mut block, displaced.next()?);
            if crc32c(&block) != crc {
                return None;
            }
            blocks.push(block);
        }
        Some(blocks)
    }
}
