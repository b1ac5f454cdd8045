//! Segments on a RAID-5 array: nearly all appends end where a stripe ends.

use crate::common::{BLOCK, Numbers, Store};
use std::future::ready;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos, crc32c};
use tonearm_device::raid::{Raid5, Raid5Options, Raid5State, Saving, StateSink};
use tonearm_device::{Device, RawDevice};
use tonearm_format::{Placement, SegmentLayout};
use tonearm_layout::{
    Home as _, HomeBlock, Plugging, Policy, Segments, SegmentsMember, SegmentsOptions,
};
use tonearm_rt::{DeviceId, Rt};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

const MEMBERS: u64 = 5;
const UNIT: u64 = 16 << 10;
/// Data of a stripe.
const STRIPE: u64 = (MEMBERS - 1) * UNIT;
const BLOCKS: u64 = 16_000;

/// Forgets the state of the array.
struct Unkept;

impl StateSink for Unkept {
    fn save(&self, _: Raid5State, _: &[bool]) -> Saving {
        Box::pin(ready(Ok(Vec::new())))
    }
}

/// Updates of whole stripes, and of parts of stripes, by random overwrites of a store of which about 80 % is used, as large
/// as a round may be.
fn updates(segment_bytes: u32) -> (u64, u64) {
    let mut layout = SegmentLayout {
        block_size: BLOCK as u32,
        segment_bytes,
        segments: 0,
    };
    layout.segments = (BLOCKS * 100).div_ceil(85 * layout.payload_blocks()) + 12;
    let first_segment = layout.checkpoint_bytes().next_multiple_of(STRIPE);
    let size = first_segment + layout.segments * u64::from(segment_bytes);
    let images = vec![DiskImage::new(size.div_ceil(STRIPE) * UNIT); MEMBERS as usize];
    let sizes: Vec<u64> = images.iter().map(|image| image.size).collect();
    let world = SimWorld::new(SimOptions::default(), images);
    let (rt, pool) = (Rt::new(world.driver()), BufPool::new(4 << 20));
    let (own, mut numbers) = (rt.clone(), Numbers(7));
    rt.block_on(async move {
        let devices = sizes.into_iter().zip(0..).map(|(size, index)| {
            let raw = RawDevice::new(&own, DeviceId(index), size, BLOCK as u32, "member");
            Some(Rc::new(raw) as Rc<dyn Device>)
        });
        let options = Raid5Options {
            name: "array".into(),
            id: [9; 16],
            unit: UNIT,
            records: None,
            record_always: false,
            read_only: false,
            accept_loss: false,
        };
        let (devices, state) = (devices.collect(), Raid5State::default());
        let array = Raid5::open(&own, &pool, devices, options, state, Rc::new(Unkept)).await;
        let array = array.unwrap();
        let members = || {
            vec![SegmentsMember {
                device: Rc::new(array.clone()),
                first_segment,
                segments: layout.segments,
            }]
        };
        let options = SegmentsOptions {
            store: [9; 16],
            block_size: BLOCK as u32,
            segment_bytes,
            size_blocks: BLOCKS,
            map_cache_bytes: 4 << 20,
            policy: Policy::CostAge,
            plugging: Plugging::Never,
            placement: Placement::Append,
            separation_interval: Nanos::from_secs(1200),
            given: None,
            writes_while_reading: 8,
            read_only: false,
        };
        let made = Segments::create(&own, &pool, members(), &options).await;
        made.unwrap();
        let home = Segments::open(&own, &pool, members(), &options).await;
        let home = home.unwrap();
        let mut version = 0;
        let mut write = async |blocks: Vec<u64>| {
            version += 1;
            let blocks = blocks.into_iter().map(|block| {
                let bytes = Store::content(block, version);
                HomeBlock {
                    block,
                    crc: crc32c(&bytes),
                    data: pool.copy_of(&bytes).share(),
                }
            });
            home.write_back(Vec::new(), blocks.collect()).await.unwrap();
        };
        let round = || home.round_bytes_max() / BLOCK;
        let mut at = 0;
        while at < BLOCKS {
            let end = BLOCKS.min(at + round() as u64);
            write((at..end).collect()).await;
            at = end;
        }
        let before = (array.stats(), home.stats());
        let mut left = 3 * BLOCKS;
        while left > 0 {
            let mut blocks = std::collections::BTreeSet::new();
            while blocks.len() < round() {
                blocks.insert(numbers.below(BLOCKS));
            }
            left = left.saturating_sub(blocks.len() as u64);
            write(blocks.into_iter().collect()).await;
        }
        let after = (array.stats(), home.stats());
        let cleaned = after.1.segments.cleaned_blocks - before.1.segments.cleaned_blocks;
        assert!(cleaned > BLOCKS, "{cleaned} blocks cleaned");
        let (from, to) = (before.0, after.0);
        let parts = |stats: tonearm_device::raid::RaidStats| {
            stats.read_modify_writes + stats.reconstruct_writes
        };
        (to.full_writes - from.full_writes, parts(to) - parts(from))
    })
}

/// A part of a stripe costs reads of old data and parity. When appends ended anywhere, there was a part for every
/// seven whole stripes with segments of 256 KiB.
#[test]
fn rounds_and_passes_end_where_a_stripe_ends() {
    for segment_bytes in [256 << 10, 1 << 20] {
        let (whole, parts) = updates(segment_bytes);
        println!("segments of {segment_bytes} bytes: {whole} whole stripes, {parts} parts");
        assert!(
            20 * parts < whole,
            "segments of {segment_bytes} bytes: {parts} parts of stripes, {whole} whole ones"
        );
    }
}
