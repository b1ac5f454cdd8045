//! Structures on a member outside of the log: superblocks, volume entries, checksum tables and track sheets.
//!
//! Where the input asks for it, the target writes a valid signature and checksum, as `record` does.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tonearm_base::crc32c;
use tonearm_format::{FORMAT_VERSION, SECTOR, Superblock, TableSlot, TrackSheet, VolumeEntry};

fuzz_target!(init: tonearm_fuzz::write_seeds("superblock"), |data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else {
        return;
    };
    // The decoders accept input of any length.
    let _ = Superblock::decode(rest);
    let _ = VolumeEntry::decode(rest);
    let _ = TableSlot::decode(0, rest);

    let mut sector = vec![0; SECTOR];
    let length = rest.len().min(SECTOR);
    sector[..length].copy_from_slice(&rest[..length]);
    let seals = choice & 4 == 0;
    match choice & 3 {
        3 => {
            if seals {
                seal(&mut sector, b"TNTRACKS");
            }
            // A sheet may be longer than a sector.
            let mut bytes = sector.clone();
            bytes.extend(&rest[length..]);
            if let Ok(sheet) = TrackSheet::decode(&bytes) {
                let again = TrackSheet::decode(&sheet.encode());
                assert_eq!(again, Ok(sheet), "an encoded sheet decodes to the same sheet");
            }
        }
        0 => {
            if seals {
                seal(&mut sector, b"TONEARM\0");
            }
            if let Ok(superblock) = Superblock::decode(&sector) {
                assert!(superblock.log_tracks > 0, "a store has a log");
                let again = Superblock::decode(&superblock.encode());
                assert_eq!(again, Ok(superblock), "an encoded superblock decodes to the same superblock");
            }
        }
        1 => {
            if seals {
                seal(&mut sector, b"TNVOLUME");
            }
            if let Ok(Some(entry)) = VolumeEntry::decode(&sector) {
                let again = VolumeEntry::decode(&entry.encode());
                assert_eq!(again, Ok(Some(entry)), "an encoded entry decodes to the same entry");
            }
        }
        _ => {
            if seals {
                sector[0..4].copy_from_slice(&0x4c42_5401u32.to_le_bytes());
                sector[4..8].fill(0);
                sector[16..24].fill(0);
                let crc = crc32c(&sector);
                sector[4..8].copy_from_slice(&crc.to_le_bytes());
            }
            if let Ok(Some(slot)) = TableSlot::decode(0, &sector) {
                let mut again = vec![0; SECTOR];
                slot.encode(0, &mut again);
                assert_eq!(TableSlot::decode(0, &again), Ok(Some(slot)), "an encoded slot decodes to the same slot");
            }
        }
    }
});

/// Writes a signature, the version and a valid checksum.
fn seal(sector: &mut [u8], magic: &[u8; 8]) {
    sector[0..8].copy_from_slice(magic);
    sector[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    sector[12..16].fill(0);
    let crc = crc32c(sector);
    sector[12..16].copy_from_slice(&crc.to_le_bytes());
}
