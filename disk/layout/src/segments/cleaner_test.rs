use super::LiveBlocks;
use crate::segments::partial::Item;
use crate::segments::{Segments, SegmentsMember, SegmentsOptions};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::RawDevice;
use tonearm_format::{HEADER_AREA_BYTES, Placement, SegmentLayout, SummaryKind};
use tonearm_rt::{DeviceId, Rt};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

/// Segments of the store.
const SEGMENTS: u64 = 60;

/// An empty store with segments of 128 KiB.
fn empty() -> Segments {
    let layout = SegmentLayout {
        block_size: 4096,
        segment_bytes: 128 << 10,
        segments: SEGMENTS,
    };
    let first_segment = HEADER_AREA_BYTES + layout.checkpoint_bytes();
    let size = first_segment + SEGMENTS * (128 << 10);
    let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(size)]);
    let (rt, pool) = (Rt::new(world.driver()), BufPool::new(1 << 20));
    let options = SegmentsOptions {
        store: [9; 16],
        block_size: 4096,
        segment_bytes: layout.segment_bytes,
        size_blocks: 500,
        map_cache_bytes: 1 << 20,
        policy: Default::default(),
        plugging: Default::default(),
        placement: Placement::Hylog,
        separation_interval: Nanos::from_secs(1200),
        given: None,
        writes_while_reading: 8,
        read_only: false,
    };
    rt.clone().block_on(async move {
        let member = || SegmentsMember {
            device: Rc::new(RawDevice::new(&rt, DeviceId(0), size, 4096, "member")),
            first_segment,
            segments: SEGMENTS,
        };
        let made = Segments::create(&rt, &pool, vec![member()], &options).await;
        made.expect("a store");
        let home = Segments::open(&rt, &pool, vec![member()], &options).await;
        home.expect("a store")
    })
}

/// The content of a segment with `blocks` blocks and `notes` notes.
fn living(blocks: u64, notes: u64) -> LiveBlocks {
    let item = |kind, version| Item {
        version: Some(version),
        kind,
        data: None,
    };
    LiveBlocks {
        items: (0..blocks)
            .map(|block| item(SummaryKind::Data { block, crc: 0 }, 1))
            .collect(),
        holes: (0..notes)
            .map(|block| {
                let kind = SummaryKind::Overwritten {
                    block,
                    place: 40,
                    crc: 0,
                };
                item(kind, 2)
            })
            .collect(),
        found: blocks,
        ..LiveBlocks::default()
    }
}

/// A pass that fills segments to their ends empties no segment whose notes end in the middle of one. If it moved nothing
/// then, the store would seem to be full.
#[test]
fn pass_empties_segments_with_too_many_notes() {
    let home = empty();
    // Notes fill a bit more than the first segment. The blocks do not fill the second one.
    let filled = home.filling(4000, 10, 5, 32);
    assert!(0 < filled && filled < 4000, "{filled}");
    let all = vec![(7, living(5, 2000)), (8, living(5, 2000))];
    let (moved, drained) = home.join(all, Some(5));
    assert_eq!(drained, [7, 8]);
    assert_eq!((moved.items.len(), moved.holes.len()), (10, 4000));
    // One of them takes nearly a segment.
    let all = vec![(7, living(5, 2000)), (8, living(5, 2000))];
    assert_eq!(home.join(all, Some(1)).1, [7]);
}

/// On RAID-5 a pass ends at the end of a part of a segment. It must move something also where notes reach beyond that end.
#[test]
fn a_pass_on_an_array_empties_segments_with_many_notes() {
    let mut home = empty();
    let inner = Rc::get_mut(&mut home.0).expect("the only handle");
    inner.part_blocks = Some(32);
    let all = || vec![(7, living(5, 2000)), (8, living(5, 2000))];
    assert!(home.filling(4000, 10, u64::MAX, 32) < 4000);
    let (moved, drained) = home.join(all(), None);
    assert_eq!(drained, [7, 8]);
    assert_eq!((moved.items.len(), moved.holes.len()), (10, 4000));
    // Without notes it ends at the end of a part, in the middle of the second segment.
    let all = vec![(7, living(20, 0)), (8, living(20, 0))];
    let (moved, drained) = home.join(all, None);
    assert_eq!(drained, [7]);
    assert!((21..40).contains(&moved.items.len()));
}

/// Makes free segments such that an opening after a crash would find notes in them, until it would find only `left` free.
fn copy_notes_of_all_but(home: &Segments, left: u64) {
    let table = &mut home.state.borrow_mut().table;
    let taken = left..table.free_after_crash();
    let taken: Vec<u64> = taken.map_while(|_| table.allocate()).collect();
    for segment in &taken {
        table.begin_use(*segment, 1);
        table.add_notes(*segment, 1);
        table.set_drained(*segment);
    }
    table.free_all(&taken);
}

/// Each opening begins with a checkpoint. After a crash it does not know which notes the cleaner had copied.
#[test]
fn cleaner_keeps_enough_segments_free_after_a_crash() {
    let home = Rc::new(empty());
    let (free, limit) = (home.free(), home.pass_limit());
    assert!(limit.is_some());
    copy_notes_of_all_but(&home, 0);
    assert_eq!((home.free(), home.pass_limit()), (free, None));
    assert!(!home.has_space_for_tombstones());
    // A checkpoint says that they are free.
    let writer = home.clone();
    let has_space = home.rt.block_on(async move { writer.make_space(1).await });
    assert!(has_space.unwrap());
    assert_eq!((home.free(), home.pass_limit()), (free, limit));
    assert!(home.has_space_for_tombstones());
}
