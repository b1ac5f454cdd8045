//! What lies on a member apart from the log: superblocks, volume entries and checksum tables.
//!
//! As in `record`, signature and checksum are put right when the input asks for it.

#![no_main]

use tonearm_base::crc32c;
use tonearm_format::{FORMAT_VERSION, SECTOR, Superblock, TableSlot, TrackSheet, VolumeEntry};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: tonearm_fuzz::write_seeds("superblock"), |data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else {
        return;
    };
    // The decoders take any length.
    let _ = Superblock::decode(rest);
    let _ = VolumeEntry::decode(rest);
    let _ = TableSlot::decode(0, rest);

    let mut sector = vec![0; SECTOR];
    let length = rest.len().min(SECTOR);
    sector[..length].copy_from_slice(&rest[..length]);
    let mends = choice & 4 == 0;
    match choice & 3 {
        3 => {
            if mends {
                mend(&mut sector, b"TNTRACKS");
            }
            // The sheet may be longer than a sector.
            let mut bytes = sector.clone();
            bytes.extend(&rest[length..]);
            if let Ok(sheet) = TrackSheet::decode(&bytes) {
                let again = TrackSheet::decode(&sheet.encode());
                assert_eq!(again, Ok(sheet), "nothing is lost on the way");
            }
        }
        0 => {
            if mends {
                mend(&mut sector, b"TONEARM\0");
                match choice >> 3 {
                    0 => {}
                    1 => reversion(&mut sector, 2),
                    _ => reversion(&mut sector, Superblock::VERSION),
                }
            }
            if let Ok(superblock) = Superblock::decode(&sector) {
                assert!(superblock.log_tracks > 0, "a store has a log");
                let again = Superblock::decode(&superblock.encode());
                // What was of an older version is written as one of the newest.
                let written = Superblock { version: Superblock::VERSION, ..superblock };
                assert_eq!(again, Ok(written), "nothing is lost on the way");
            }
        }
        1 => {
            if mends {
                mend(&mut sector, b"TNVOLUME");
            }
            if let Ok(Some(entry)) = VolumeEntry::decode(&sector) {
                let again = VolumeEntry::decode(&entry.encode());
                assert_eq!(again, Ok(Some(entry)), "nothing is lost on the way");
            }
        }
        _ => {
            if mends {
                sector[0..4].copy_from_slice(&0x4c42_5401u32.to_le_bytes());
                sector[4..8].fill(0);
                sector[16..24].fill(0);
                let crc = crc32c(&sector);
                sector[4..8].copy_from_slice(&crc.to_le_bytes());
            }
            if let Ok(Some(slot)) = TableSlot::decode(0, &sector) {
                let mut again = vec![0; SECTOR];
                slot.encode(0, &mut again);
                assert_eq!(TableSlot::decode(0, &again), Ok(Some(slot)), "nothing is lost on the way");
            }
        }
    }
});

/// Puts signature, version and checksum right.
fn mend(sector: &mut [u8], magic: &[u8; 8]) {
    sector[0..8].copy_from_slice(magic);
    reversion(sector, FORMAT_VERSION);
}

/// Puts the version and the checksum right.
fn reversion(sector: &mut [u8], version: u32) {
    sector[8..12].copy_from_slice(&version.to_le_bytes());
    sector[12..16].fill(0);
    let crc = crc32c(sector);
    sector[12..16].copy_from_slice(&crc.to_le_bytes());
}
