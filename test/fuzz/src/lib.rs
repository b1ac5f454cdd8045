//! Valid seed inputs for each fuzz target. A target writes its seeds into its corpus before libFuzzer reads the corpus.

/// Shared with the tests of `disk/disk`.
#[path = "../../../disk/disk/tests/disk/images.rs"]
pub mod images;

/// Shared with the tests of `disk/fs`.
#[path = "../../../disk/fs/tests/hostile/trees.rs"]
pub mod trees;

mod machine;

pub use machine::machine;

use std::fs;
use std::path::Path;
use tonearm_format::{
    ArrayLevel, BlockRecord, Entry, EntryKind, Extent, HeadKind, Layout, ListRecord, LogState,
    MemberEntry, RecordHeader, Roles, SECTOR, SheetRun, State, Superblock, TableSlot, TrackSheet,
    VolumeEntry, VolumeKind,
};
use tonearm_head::{Grid, Profile, Steps};

/// Writes the seeds of `target` into its corpus.
///
/// # Panics
/// When the seeds cannot be written. Without seeds a short run covers little.
pub fn write_seeds(target: &str) {
    let seeds = match target {
        "record" => records(),
        "superblock" => superblocks(),
        "nbd_handshake" => handshakes(),
        "nbd_requests" => requests(),
        "nbd_transmission" => sessions(),
        "traces" => traces(),
        "profile" => profiles(),
        "lists" => pages(),
        "files_wire" => frames(),
        "images" => edits(),
        "archive" => archives(),
        "trees" => items(),
        "vhost_ring" => machine::memories(),
        _ => panic!("no seeds for {target}"),
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    fs::create_dir_all(&folder).expect("a folder for seeds");
    for (index, seed) in seeds.iter().enumerate() {
        fs::write(folder.join(format!("seed-{index}")), seed).expect("space for seeds");
    }
}

/// Edits of the objects of a small archive: see `targets/archive.rs`.
fn archives() -> Vec<Vec<u8>> {
    let edit = |object: u8, kind: u8, at: u16, value: u64| {
        let (at, value) = (at.to_le_bytes(), value.to_le_bytes());
        [&[object, kind][..], &at, &value].concat()
    };
    vec![
        Vec::new(),
        edit(0, 0, 0, 1 << 40),
        edit(3, 7, 0, 1 << 32),
        edit(2, 10, 9, u64::MAX),
        [edit(1, 11, 0, 6), edit(4, 2, 0, 0)].concat(),
        edit(5, 12, 40, 7),
        edit(6, 13, 0, 0),
    ]
}

/// A record of data, a record of ranges, a record with patches and a move, and a track with the first two.
fn records() -> Vec<Vec<u8>> {
    let header = |seq: u64, entries: Vec<Entry>, payload_sectors: u32| RecordHeader {
        store: [0; 16],
        epoch: 1,
        seq: tonearm_base::RecordSeq(seq),
        prev_sector: 0,
        prev_epoch: 1,
        log_start_sector: 0,
        log_start_seq: tonearm_base::RecordSeq(1),
        durable_seq: tonearm_base::RecordSeq(seq - 1),
        first_lsn: tonearm_base::Lsn(seq),
        continues: false,
        payload_sectors,
        entries,
    };
    let crc = tonearm_base::crc32c(&[0; SECTOR]);
    let data = |block, last| Entry {
        block,
        kind: EntryKind::Data { crc },
        last,
    };
    let range = |block, kind| Entry {
        block,
        kind,
        last: true,
    };
    let written = header(1, vec![data(7, false), data(8, true)], 2);
    let ranges = vec![
        range(9, EntryKind::Trim { count: 100 }),
        range(3, EntryKind::Zero { count: 2 }),
    ];
    let ranges = header(2, ranges, 0);
    let word = |at, last| Entry {
        block: 6,
        kind: EntryKind::Patch { at, value: 6 },
        last,
    };
    let patched = vec![
        word(16, false),
        word(24, false),
        word(32, true),
        range(7, EntryKind::Patch { at: 16, value: 5 }),
        range(7, EntryKind::Patch { at: 4088, value: 0 }),
        range(8, EntryKind::Move { from: 99, crc }),
        range(10, EntryKind::Indirect { place: 99, crc }),
        data(9, true),
    ];
    let patched = header(3, patched, 1);
    let piece = |sector: u8, header: &RecordHeader| {
        let mut bytes = vec![0; SECTOR];
        header.encode(&vec![0; header.payload_sectors as usize], &mut bytes);
        let mut piece = vec![sector, 0, 1];
        piece.extend_from_slice(&bytes[..256]);
        piece
    };
    let (first, second) = (piece(0, &written), piece(3, &ranges));
    let third = piece(5 + 32, &patched);
    let with_choice = |pieces: &[&[u8]]| [&[0][..], &pieces.concat()].concat();
    vec![
        with_choice(&[&first]),
        with_choice(&[&second]),
        with_choice(&[&first, &second]),
        with_choice(&[&third]),
    ]
}

/// One structure of each kind.
fn superblocks() -> Vec<Vec<u8>> {
    let roles = Roles {
        log: true,
        data: true,
    };
    let member = MemberEntry {
        uuid: [1; 16],
        roles,
        data_offset: 1 << 26,
        groups: 4,
        path: "disk.tonearm".to_owned(),
    };
    let superblock = Superblock {
        store: [2; 16],
        generation: 1,
        trailer_offset: 1 << 30,
        epoch: 1,
        state: State::Clean,
        block_size: 4096,
        member_index: 0,
        log_member: 0,
        log_sector_bytes: SECTOR as u16,
        head: HeadKind::Sequential,
        physical_tracks: false,
        incomplete: false,
        track_bytes: 1 << 20,
        log_offset: 1 << 20,
        log_tracks: 16,
        log: LogState::default(),
        size_blocks: 1024,
        created_unix_s: 0,
        layout: Layout::Overwrite,
        array: None,
        members: vec![member],
    };
    let mut in_segments = superblock.clone();
    in_segments.layout = Layout::Segments {
        segment_bytes: 1 << 20,
        placement: tonearm_format::Placement::Hylog,
    };
    let mut with_head = superblock.clone();
    with_head.head = HeadKind::Online;
    with_head.physical_tracks = true;
    with_head.log_sector_bytes = 512;
    with_head.members.push(MemberEntry {
        roles: Roles {
            log: false,
            data: true,
        },
        ..with_head.members[0].clone()
    });
    with_head.members[0].roles.data = false;
    let mut on_array = with_head.clone();
    (on_array.head, on_array.physical_tracks) = (HeadKind::Sequential, false);
    (on_array.log_sector_bytes, on_array.array) = (SECTOR as u16, Some(ArrayLevel::Raid5));
    let sheet = TrackSheet {
        store: [2; 16],
        period_ps: 11_117_287_382,
        runs: vec![SheetRun {
            first: 2048,
            tracks: 17,
            sectors: 85,
            turn_sectors: 85,
            group: 17,
            short: 6,
            ..SheetRun::default()
        }],
        ..TrackSheet::default()
    };
    let volume = VolumeEntry {
        uuid: [3; 16],
        name: "main".to_owned(),
        size_bytes: 1 << 20,
        kind: VolumeKind::Plain,
        read_only: false,
        created_unix_s: 0,
        extents: vec![Extent {
            start: 256,
            count: 256,
        }],
    };
    let mut table = vec![0; SECTOR];
    TableSlot::empty(4096).encode(0, &mut table);
    let tagged =
        |choice: u8, bytes: &[u8], length: usize| [&[choice][..], &bytes[..length]].concat();
    vec![
        tagged(0, &superblock.encode(), 1024),
        tagged(1, &volume.encode(), 1024),
        tagged(2, &table, 256),
        tagged(4, &superblock.encode(), SECTOR),
        tagged(8, &with_head.encode(), 1024),
        tagged(16, &in_segments.encode(), 1024),
        tagged(24, &on_array.encode(), 1536),
        tagged(3, &sheet.encode(), 256),
    ]
}

/// Sequences of handshake options. The numbers are those of the NBD protocol document.
fn handshakes() -> Vec<Vec<u8>> {
    let option = |number: u32, data: &[u8]| {
        let length = (data.len() as u32).to_be_bytes();
        [b"IHAVEOPT", &number.to_be_bytes()[..], &length, data].concat()
    };
    let go = [
        &4u32.to_be_bytes()[..],
        b"main",
        &1u16.to_be_bytes(),
        &3u16.to_be_bytes(),
    ]
    .concat();
    let meta = [
        &4u32.to_be_bytes()[..],
        b"main",
        &1u32.to_be_bytes(),
        &15u32.to_be_bytes(),
        b"base:allocation",
    ]
    .concat();
    let start = |options: &[Vec<u8>]| [&[254][..], &3u32.to_be_bytes(), &options.concat()].concat();
    vec![
        start(&[option(7, &go)]),
        start(&[option(8, &[]), option(10, &meta), option(7, &go)]),
        start(&[option(3, &[]), option(6, &go), option(2, &[])]),
        start(&[option(5, &[])]),
        start(&[option(1, b"main")]),
    ]
}

/// For each command one request header, followed by a flush.
fn requests() -> Vec<Vec<u8>> {
    (0u16..8)
        .map(|command| {
            let mut seed = vec![4 | 16 | 32, 27];
            seed.extend_from_slice(&request(command, 0, 4096, 512));
            if command == 1 {
                seed.resize(seed.len() + 512, 7);
            }
            seed.extend_from_slice(&request(3, 0, 0, 0));
            seed
        })
        .collect()
}

/// A request header: magic, flags, command, cookie, offset, length.
fn request(command: u16, flags: u16, offset: u64, length: u32) -> Vec<u8> {
    [
        &0x2560_9513u32.to_be_bytes()[..],
        &flags.to_be_bytes(),
        &command.to_be_bytes(),
        &1u64.to_be_bytes(),
        &offset.to_be_bytes(),
        &length.to_be_bytes(),
    ]
    .concat()
}

/// Scripts of `tonearm_nbd::fuzzing::fuzz_transmission`: six bytes of choices, then seven bytes for each request.
fn sessions() -> Vec<Vec<u8>> {
    let step = |kind: u8, length: u8| [kind, 0, 8, 0, length, 4, 0];
    let script = |choices: [u8; 6], steps: &[[u8; 7]]| [&choices[..], &steps.concat()].concat();
    vec![
        script(
            [1, 16, 8, 255, 31, 0],
            &[step(1, 128), step(3, 0), step(0, 128)],
        ),
        script(
            [0, 1, 1, 64, 3, 0],
            &[
                step(0, 255),
                step(4, 64),
                step(6, 64),
                step(5, 9),
                step(7, 9),
            ],
        ),
        script([3, 3, 1, 16, 1, 1], &[step(9, 64), step(2, 0)]),
    ]
}

/// The number of a format in `tonearm_trace::Format::ALL`, then a few lines in that format.
fn traces() -> Vec<Vec<u8>> {
    let texts = [
        "R Hit 3962268 12 6657.00000 64047.00000\nW Miss 8 4 663.0 45422.0\n",
        "13.191135 30 0 5 1\n17.829285 20 576560 6 0\n",
        "0,303567,3584,w,0.000000\n1,55590,3072,r,0.026214\n",
        "128166372003061629,hm,0,Read,383496192,32768,413\n128166372016382155,hm,1,Write,1,512,9\n",
        "8,0 3 1 0.000000000 697 Q W 100 + 8 [a]\n8,0 3 2 0.000000001 697 D W 100 + 16 [a]\n\
         8,0 3 3 0.000000002 697 Q FWFS 108 + 8 [a]\n8,0 3 4 0.5 0 C W 100 + 16 [0]\nTotal (8,0):\n",
        "fio version 2 iolog\n/dev/sdb add\n/dev/sdb read 0 4096\n/dev/sdb wait 1500 0\n/dev/sdb sync 0 0\n",
        "rw,blkno,blocks,measured_ms,think_ms_before_next\nW,4583176,4,0.663000,45.422000\n",
    ];
    let tagged = |(number, text): (usize, &str)| [&[number as u8], text.as_bytes()].concat();
    let mut seeds: Vec<Vec<u8>> = texts.into_iter().enumerate().map(tagged).collect();
    seeds.push(tagged((
        5,
        "fio version 3 iolog\n878 d write 0 16384\n888 d datasync 0 0\n",
    )));
    seeds.push(tagged((
        6,
        "arrival_ms,lba,sectors,rw,response_ms\n0.5,8,16,R,5.25\n1,0,0,F,0.1\n",
    )));
    seeds
}

/// A small profile, and a drive file.
fn profiles() -> Vec<Vec<u8>> {
    let axis = |first, step, count| Steps { first, step, count };
    let grid = Grid {
        sizes: axis(8, 8, 2),
        thinks: axis(0, 100_000, 3),
        skips: axis(0, 2, 4),
        samples: 2,
        turn: Some(tonearm_base::Nanos(300_000)),
    };
    let mut profile = Profile::new(grid).expect("a grid that makes sense");
    for index in 0..grid.cells() {
        profile.add_sample(
            grid.cell(index),
            tonearm_base::Nanos::from_micros(700 + index as u64),
        );
    }
    let drive = tonearm_drive_file::library()[0].text.as_bytes();
    vec![
        [&[0], &profile.encode()[..]].concat(),
        [&[1], drive].concat(),
    ]
}

/// A page of list records and a page of block records, each with a free record.
fn pages() -> Vec<Vec<u8>> {
    let page = |records: &[[u64; 2]]| {
        let words = records.as_flattened().iter().copied();
        [
            &[0][..],
            &words.flat_map(u64::to_le_bytes).collect::<Vec<_>>(),
        ]
        .concat()
    };
    let list = |first, last, count| ListRecord::encode(Some(ListRecord { first, last, count }));
    let block = |next, prev, list| BlockRecord::encode(Some(BlockRecord { next, prev, list }));
    vec![
        page(&[
            list(2, 3, 2),
            [0; 2],
            list(0, 0, 0),
            list(1 << 39, 1 << 30, 1 << 25),
        ]),
        page(&[
            block(3, 0, 1),
            block(0, 2, 1),
            [0; 2],
            block(1 << 39, 1 << 24, 1 << 38),
        ]),
    ]
}

/// Bodies of requests and of answers, and a stream that frames all of them.
fn frames() -> Vec<Vec<u8>> {
    let body = |fields: &[&[u8]]| [&7u32.to_le_bytes()[..], &fields.concat()].concat();
    let bodies = vec![
        // Requests, each with the place of its kind in `Request` first.
        body(&[&[0, 6], b"app.db", &[1, 0]]),
        body(&[&[2]]),
        body(&[&[5, 6], b"app.db", &[6], b"old.db"]),
        body(&[&[7, 1, 0, 0x80, 0x20, 0x80, 4]]),
        body(&[&[8, 1]]),
        body(&[&[9, 1, 1, 1, 0], &[5; 32]]),
        body(&[&[11, 1, 1]]),
        body(&[&[14, 1, 4]]),
        body(&[&[17, 1, 3], b"new"]),
        // Results: a number, data, a list of files, an error.
        body(&[&[0, 9]]),
        body(&[&[0, 1, 2, 3]]),
        body(&[&[0, 1, 6], b"app.db", &[0x80, 0x40, 1]]),
        body(&[&[1, 5, 17], b"others were first"]),
    ];
    let framed = |body: &Vec<u8>| [&(body.len() as u32).to_le_bytes()[..], body].concat();
    let stream = bodies.iter().flat_map(framed).collect();
    [bodies.clone(), vec![stream]].concat()
}

/// For each base store: no edit, single edits of many structures, and pairs of edits.
fn edits() -> Vec<Vec<u8>> {
    let edit = |index: u16, at: u16, op: u8, value: u64| {
        let (index, at) = (index.to_le_bytes(), at.to_le_bytes());
        [&index[..], &at, &[op, 0], &value.to_le_bytes()].concat()
    };
    let mut seeds = Vec::new();
    for base in 0..6 {
        seeds.push(vec![base, 0]);
        for index in 0..24 {
            let (one, other) = (
                edit(
                    index,
                    40 + 8 * index,
                    3 + 4 * (index as u8 % 8),
                    u64::from(index) + 1,
                ),
                edit(3 * index, 96 + index, 4, 7),
            );
            let choice = index as u8;
            seeds.push([&[base, choice][..], &one].concat());
            seeds.push([&[base, choice | 0x40][..], &one, &other].concat());
        }
    }
    seeds
}

/// No edit, and an edit of each field of the first items.
fn items() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new()];
    for index in 0..20u16 {
        for field in 0..12u8 {
            let at = (8 * index % 104).to_le_bytes();
            let op = 3 + 4 * (field % 8);
            let value = u64::from(index) + 40;
            let mut seed = index.to_le_bytes().to_vec();
            seed.extend([field, at[0], at[1], op]);
            seed.extend(value.to_le_bytes());
            // Those of an odd length are for the mount.
            seed.extend((index % 2 == 1).then_some(0));
            seeds.push(seed);
        }
    }
    seeds
}
