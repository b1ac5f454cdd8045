//! Addresses on the physical tracks of a sheet.

use crate::{GeometryError, LogGeometry};
use tonearm_format::{
    HeadKind, LogState, MemberEntry, Roles, SheetRun, State, Superblock, TrackSheet,
};

const SECTORS: [u32; 3] = [90, 77, 61];

fn sheet() -> TrackSheet {
    let mut first = 2048;
    let runs = SECTORS.map(|sectors| {
        let run = SheetRun {
            first,
            tracks: 4,
            sectors,
            turn_sectors: sectors,
            group: 4,
            short: 6,
            ..SheetRun::default()
        };
        first += u64::from(4 * sectors - 6) + 5;
        run
    });
    TrackSheet {
        runs: runs.to_vec(),
        ..TrackSheet::default()
    }
}

fn superblock() -> Superblock {
    Superblock {
        store: [5; 16],
        generation: 1,
        epoch: 1,
        state: State::Clean,
        block_size: 4096,
        member_index: 0,
        log_member: 0,
        log_sector_bytes: 512,
        head: HeadKind::Online,
        physical_tracks: true,
        incomplete: false,
        track_bytes: 90 * 512,
        log_offset: 1 << 20,
        log_tracks: 12,
        log: LogState::default(),
        size_blocks: 1,
        created_unix_s: 0,
        trailer_offset: 0,
        layout: tonearm_format::Layout::Overwrite,
        array: None,
        members: vec![MemberEntry {
            uuid: [1; 16],
            roles: Roles {
                log: true,
                data: false,
            },
            data_offset: 2 << 20,
            groups: 0,
            path: String::new(),
        }],
    }
}

#[test]
fn shortest_track_bounds_reservations() {
    let geometry = LogGeometry::of(&superblock(), &[sheet()]).unwrap();
    let lengths: Vec<u64> = (0..12).map(|track| geometry.track_length(track)).collect();
    assert_eq!(lengths, [90, 90, 90, 84, 77, 77, 77, 71, 61, 61, 61, 55]);
    assert_eq!(geometry.track_sectors_min, 55);
    assert_eq!(geometry.track_sectors_usable(), 55 - 2 - 8);
    assert_eq!(geometry.byte_of(4 * 90 + 3), (2048 + 354 + 5 + 3) * 512);
    assert_eq!(geometry.bytes(), lengths.iter().sum::<u64>() * 512);
}

#[test]
fn a_sheet_that_contradicts_the_superblock_is_refused() {
    let changes: [fn(&mut Superblock, &mut TrackSheet); 5] = [
        |s, _| s.log_tracks = 13,
        |s, _| s.track_bytes = 89 * 512,
        |s, _| s.members[0].data_offset = (1 << 20) + 512,
        |_, sheet| sheet.runs[0].first = 2047,
        |_, sheet| sheet.runs[2].short = 51,
    ];
    for (index, change) in changes.iter().enumerate() {
        let (mut superblock, mut sheet) = (superblock(), sheet());
        change(&mut superblock, &mut sheet);
        let found = LogGeometry::of(&superblock, &[sheet]);
        assert!(
            matches!(found, Err(GeometryError::Mismatch(_))),
            "{index}: {found:?}"
        );
    }
}
