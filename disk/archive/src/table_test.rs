use super::VolumeTable;
use crate::extract::{Extract, Place};
use crate::plan::Plan;
use crate::source::StoreShape;
use tonearm_base::Lsn;
use tonearm_format::{Extent, FileExtent, VolumeEntry, VolumeKind};

const BLOCK: usize = 4096;

fn plan() -> Plan {
    Plan {
        lsn: Lsn(7),
        shape: StoreShape {
            store: [0; 16],
            block_size: BLOCK as u32,
            size_blocks: 2000,
        },
        objects: Vec::new(),
        left_out: Vec::new(),
        base: 3,
        folder: 1,
    }
}

fn extent(start: u64, count: u64) -> Extent {
    Extent { start, count }
}

/// A table whose area of lists has three runs of blocks.
fn table() -> VolumeTable {
    let lists = VolumeEntry {
        uuid: [0; 16],
        name: ".lists".into(),
        size_bytes: 115 * BLOCK as u64,
        kind: VolumeKind::Lists,
        read_only: false,
        created_unix_s: 0,
        extents: vec![extent(1000, 10), extent(300, 5), extent(500, 100)],
    };
    VolumeTable {
        volumes: Vec::new(),
        tree: None,
        lists: Some(lists),
    }
}

fn places(block: u64, count: u32) -> Result<Vec<(u64, u64, u64)>, String> {
    let found = table().places(&plan(), "sim://a", 40, FileExtent { block, count });
    let found = found.map_err(|error| error.to_string())?;
    let tuple = |place: Place| (place.extent.start, place.extent.count, place.at);
    Ok(found.into_iter().map(tuple).collect())
}

#[test]
fn file_blocks_map_to_the_area_of_lists() {
    assert_eq!(places(2, 8), Ok(vec![(1002, 8, 40)]));
    assert_eq!(places(9, 1), Ok(vec![(1009, 1, 40)]));
    assert_eq!(places(10, 1), Ok(vec![(300, 1, 40)]));
    assert_eq!(
        places(8, 20),
        Ok(vec![(1008, 2, 40), (300, 5, 42), (500, 13, 47)])
    );
    assert_eq!(places(114, 1), Ok(vec![(599, 1, 40)]));
    for (block, count, named) in [(115, 1, 115), (110, 6, 115), (u64::MAX, 1, u64::MAX)] {
        let text = places(block, count).expect_err("beyond the area");
        let why = format!("a file has block {named} of the area of lists, which has no such block");
        assert!(text.contains(&why), "{text}");
    }
}

#[test]
fn blocks_are_made_at_their_places() {
    let plan = plan();
    let place = |start, count, at| Place {
        extent: extent(start, count),
        at,
    };
    let places = vec![place(50, 2, 7), place(20, 3, 0), place(40, 1, 5)];
    let extract = Extract::at_places(&plan, "sim://a", places).expect("disjoint");
    assert_eq!(extract.size_bytes(), 9 * BLOCK as u64);
    for (blocks, is_touched) in [
        (0..20, false),
        (0..21, true),
        (22..23, true),
        (23..40, false),
        (41..50, false),
        (23..51, true),
        (51..u64::MAX, true),
        (52..u64::MAX, false),
    ] {
        assert_eq!(extract.touches(&blocks), is_touched, "{blocks:?}");
    }
    let twice = vec![place(20, 3, 0), place(22, 1, 9)];
    let error = Extract::at_places(&plan, "sim://a", twice).err();
    let text = error.expect("a block twice").to_string();
    assert!(
        text.contains("a file has block 22 of the store twice"),
        "{text}"
    );
}
