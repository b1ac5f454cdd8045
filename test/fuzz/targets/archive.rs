//! Objects of an archive with changed fields, payloads and names, and valid checksums: anyone who can write to a bucket can put
//! them there. Each archive is read as the commands do that read archives.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tonearm_archive::testing::{archive, read_all};
use tonearm_format::{ArchiveHeader, ArchiveKind};

/// Bytes of an edit: which object, which kind of edit, where, and which value.
const EDIT: usize = 12;
const KINDS: [ArchiveKind; 6] = [
    ArchiveKind::Opening,
    ArchiveKind::Range,
    ArchiveKind::Base,
    ArchiveKind::BasePart,
    ArchiveKind::Mark,
    ArchiveKind::Merged,
];

struct Edit {
    object: usize,
    kind: u8,
    at: usize,
    value: u64,
}

fn edits(data: &[u8]) -> Vec<Edit> {
    let edits = data.as_chunks::<EDIT>().0.iter();
    let edits = edits.map(|bytes| Edit {
        object: usize::from(bytes[0]),
        kind: bytes[1],
        at: usize::from(u16::from_le_bytes([bytes[2], bytes[3]])),
        value: u64::from_le_bytes(bytes[4..].try_into().expect("eight bytes")),
    });
    edits.collect()
}

fn change(edit: &Edit, header: &mut ArchiveHeader, payload: &mut Vec<u8>) {
    let value = edit.value;
    match edit.kind % 16 {
        0 => header.number = value,
        1 => header.epoch = value,
        2 => header.first = value,
        3 => header.last = value,
        4 => header.inexact_from = value,
        5 => header.exact_from = value,
        6 => header.unix_ms = value,
        7 => header.raw_bytes = value,
        8 => header.stored_bytes = value,
        9 => header.base = value,
        10 => {
            let from = edit.at.min(payload.len());
            let to = payload.len().min(from + 8);
            payload[from..to].copy_from_slice(&value.to_le_bytes()[..to - from]);
        }
        11 => header.kind = KINDS[value as usize % KINDS.len()],
        12 => payload.truncate(edit.at),
        13 => header.encrypted = !header.encrypted,
        14 => header.store = [value as u8; 16],
        _ => header.previous_crc = value as u32,
    }
}

fuzz_target!(init: tonearm_fuzz::write_seeds("archive"), |data: &[u8]| {
    let edits = edits(data);
    let (mut names, mut index) = (Vec::new(), 0);
    let bucket = archive(&mut |_, header, payload| {
        for edit in edits.iter().filter(|edit| edit.object % 16 == index) {
            change(edit, header, payload);
        }
        names.push(*header);
        index += 1;
    });
    // Objects under other names.
    for edit in edits.iter().filter(|edit| edit.object % 16 > names.len()) {
        let mut objects = bucket.objects.borrow_mut();
        let object = objects.values().nth(edit.kind as usize % names.len()).cloned();
        let value = edit.value;
        let name = match edit.at % 6 {
            0 => format!("chain/{value:016x}"),
            1 => format!("merged/{:016x}-{value:016x}", value >> 32),
            2 => format!("mark/{value}"),
            3 => format!("base/{value:016x}/00000000"),
            4 => format!("chain/{value}"),
            _ => format!("merged/{value:x}"),
        };
        objects.insert(name, object.expect("it is there"));
    }
    read_all(&bucket);
});
