//! Log records: the header's decoder, and the scan of a track of arbitrary bytes.
//!
//! Nearly every input would fail the checksum. Where the input asks for it, the target therefore writes a valid
//! signature, version and checksum into a sector, so that the fuzzer also reaches the checks after the checksum.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tonearm_base::{BufPool, crc32c};
use tonearm_format::{FORMAT_VERSION, LOG_SECTOR_MIN, RecordHeader, SECTOR};
use tonearm_trail::{LogGeometry, scan_track};

const TRACK_SECTORS: usize = 16;

fuzz_target!(init: tonearm_fuzz::write_seeds("record"), |data: &[u8]| {
    let Some((&choice, mut rest)) = data.split_first() else {
        return;
    };
    let block_size = SECTOR << (choice & 3);
    let mut track = vec![0; TRACK_SECTORS * SECTOR];
    // Pieces of the input, each put at the start of a sector. A piece is sector, length, then bytes.
    while let [at, low, high, more @ ..] = rest {
        let start = usize::from(at & 15) * SECTOR;
        let length = usize::from(u16::from_le_bytes([*low, *high]) & 4095).min(more.len());
        track[start..start + length].copy_from_slice(&more[..length]);
        rest = &more[length..];
        if at & 16 == 0 {
            seal(&mut track[start..start + SECTOR]);
        }
    }
    for sector in track.chunks_exact(SECTOR) {
        if let Ok((header, displaced)) = RecordHeader::decode(sector) {
            let mut again = vec![0; SECTOR];
            header.encode(&displaced, &mut again);
            let second = RecordHeader::decode(&again).expect("what was decoded encodes to a valid header");
            assert_eq!(second, (header, displaced), "an encoded header decodes to the same header");
        }
    }
    // The same bytes are also scanned as a log of small sectors.
    let sector = if choice & 4 == 0 { SECTOR } else { LOG_SECTOR_MIN };
    let track_sectors = (track.len() / sector) as u64;
    let geometry = LogGeometry {
        sector,
        ..LogGeometry::even([0; 16], 1 << 20, 8, track_sectors, block_size)
    };
    let pool = BufPool::new(1 << 20);
    for record in scan_track(&geometry, 3, &track) {
        assert_eq!(record.place.sector / geometry.track_sectors, 3, "a record lies on the track that was scanned");
        if let Some(blocks) = record.blocks(&geometry, &pool, &track) {
            assert_eq!(blocks.len(), record.header.data_entries());
        }
    }
    let _ = RecordHeader::decode(data);
    let _ = scan_track(&geometry, u64::MAX / (1 << 20), data);
});

/// Writes the first byte, the signature, the version and a valid checksum.
fn seal(sector: &mut [u8]) {
    sector[0] = 0xff;
    sector[1..8].copy_from_slice(b"TNREC\r\n");
    sector[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    sector[12..16].fill(0);
    let crc = crc32c(sector);
    sector[12..16].copy_from_slice(&crc.to_le_bytes());
}
