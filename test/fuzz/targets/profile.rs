//! Files that a user supplies for a log drive: a profile in bytes, and a drive file as text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tonearm_base::crc32c;
use tonearm_drive_file::DriveSpec;
use tonearm_head::{Mimic, Profile, Table};

fuzz_target!(init: tonearm_fuzz::write_seeds("profile"), |data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else {
        return;
    };
    if choice & 1 == 1 {
        let _ = DriveSpec::parse("drive.toml", &String::from_utf8_lossy(rest));
        return;
    }
    let _ = Profile::decode(rest);
    let mut bytes = rest.to_vec();
    if bytes.len() < 16 {
        return;
    }
    // A valid signature, version and checksum let the decoder reach the fields after them.
    let body = bytes.len() - 4;
    bytes[..12].copy_from_slice(b"TONEPROF\x01\0\0\0");
    let crc = crc32c(&bytes[..body]);
    bytes[body..].copy_from_slice(&crc.to_le_bytes());
    let Ok(profile) = Profile::decode(&bytes) else {
        return;
    };
    assert!(Profile::decode(&profile.encode()).is_ok(), "an encoded profile decodes");
    if let Ok(table) = Table::best(&profile) {
        let again = Table::of_skips(*table.grid(), table.skips().to_vec());
        assert!(again.is_ok(), "the skips of a table fit the table's grid");
        let _ = Mimic::new(*table.grid(), table);
    }
});
