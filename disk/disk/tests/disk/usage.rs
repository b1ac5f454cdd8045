//! The space that volumes and files have reserved, and what of it holds data.

#![allow(clippy::unwrap_used)]

use crate::common::{BLOCK, cuts, in_world, live, segments, store, with, with_rt};
use crate::images::members;
use std::collections::BTreeMap;
use tonearm_base::BufPool;
use tonearm_disk::{Disk, OpenOptions, Scrub, Space, Usage, Volume};
use tonearm_engine::Inspection;
use tonearm_format::{SYSTEM_BLOCKS, VolumeEntry};
use tonearm_world::{DiskImage, SimOptions};

const B: u64 = BLOCK as u64;

async fn counted(disk: &Disk) -> Usage {
    let usage = disk.usage(&mut |_, _| true).await.unwrap().unwrap();
    assert_eq!(usage.commits_meanwhile, 0);
    let total = usage.total();
    assert_eq!(total.reserved_bytes + disk.free_bytes(), disk.size_bytes());
    assert_eq!(disk.reserved().total().reserved_bytes, total.reserved_bytes);
    usage
}

/// Once all is at home, the blocks that a scrub verifies are those that hold data, and those of the volume table.
async fn assert_nothing_else_is_allocated(disk: &Disk) {
    disk.engine().drain().await.unwrap();
    let used = counted(disk).await.total().used_bytes;
    let report = disk.scrub(Scrub::Look, |_, _| true).await.unwrap();
    // An entry that was given up is a block of zeroes.
    let table = disk.engine().status(0, SYSTEM_BLOCKS).await.unwrap();
    let table = table.iter().filter(|(_, is_data)| *is_data);
    let table: u64 = table.map(|(blocks, _)| blocks).sum();
    assert_eq!(used / B + table, report.blocks);
}

/// Volumes as a model knows them: for each block whether it holds data.
type Model = BTreeMap<String, Vec<bool>>;

fn of_model(model: &Model) -> Vec<(String, Space)> {
    let space = |blocks: &Vec<bool>| Space {
        reserved_bytes: blocks.len() as u64 * B,
        used_bytes: blocks.iter().filter(|is_data| **is_data).count() as u64 * B,
    };
    let volumes = model.iter();
    volumes
        .map(|(name, blocks)| (name.clone(), space(blocks)))
        .collect()
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

async fn write(volume: &Volume, block: u64, data: &[u8]) {
    let data = BufPool::new(1 << 20).copy_of(data).share();
    volume.write(block * B, data, false).await.unwrap();
}

/// A change of one of the volumes, of any kind.
async fn change(disk: &Disk, model: &mut Model, random: &mut Random) {
    let name = ["main", "a", "b"][random.below(3) as usize];
    let Some(blocks) = model.get_mut(name) else {
        let count = 1 + random.below(300);
        let made = disk.create_volume(name, count * B, [3; 16], 0);
        made.await.unwrap();
        model.insert(name.into(), vec![false; count as usize]);
        return;
    };
    let volume = disk.volume(name).unwrap();
    let count = blocks.len() as u64;
    let first = random.below(count);
    let end = first + 1 + random.below((count - first).min(20));
    let (at, len) = (first * B, (end - first) * B);
    let changed = first as usize..end as usize;
    match random.below(16) {
        0 => {
            disk.delete_volume(name).await.unwrap();
            model.remove(name);
        }
        1 | 2 => {
            let count = 1 + random.below(400);
            disk.resize_volume(name, count * B).await.unwrap();
            blocks.resize(count as usize, false);
        }
        3..=5 => {
            volume.trim(at, len, false).await.unwrap();
            blocks[changed].fill(false);
        }
        6 => {
            volume.write_zeroes(at, len, true, false).await.unwrap();
            blocks[changed].fill(false);
        }
        7 | 8 => {
            let mut unit = disk.begin();
            unit.write(&volume, at + 7, &[9; 100]).await.unwrap();
            unit.end().await.unwrap();
            blocks[first as usize] = true;
        }
        9 => disk.engine().drain().await.unwrap(),
        _ => {
            write(&volume, first, &vec![7; len as usize]).await;
            blocks[changed].fill(true);
        }
    }
}

#[test]
fn usage_is_what_a_model_says_to_the_block() {
    for image in [store(8 << 20), segments(8 << 20)] {
        with(&image, OpenOptions::default(), async |disk| {
            let mut random = Random(5);
            let mut model = Model::from([("main".to_string(), vec![false])]);
            for round in 0..300 {
                change(&disk, &mut model, &mut random).await;
                let usage = counted(&disk).await;
                assert_eq!(usage.volumes, of_model(&model), "round {round}");
                assert_eq!((usage.files, usage.units), Default::default());
            }
            assert_nothing_else_is_allocated(&disk).await;
        });
    }
}

#[test]
fn files_and_lists_count_with_their_metadata_and_give_their_space_back() {
    with(&store(8 << 20), OpenOptions::default(), async |disk| {
        let mut unit = disk.begin();
        let list = unit.new_list().await.unwrap();
        let mut last = None;
        for _ in 0..20 {
            let block = unit.new_block(list, last).await.unwrap();
            unit.write_block(block, &[1; BLOCK]).await.unwrap();
            last = Some(block);
        }
        unit.end().await.unwrap();
        let full = counted(&disk).await.files;
        // A page of list records, and one of block records.
        assert_eq!(full.used_bytes, 22 * B);
        assert!(full.reserved_bytes >= full.used_bytes);
        assert_nothing_else_is_allocated(&disk).await;
        disk.delete_list(list).await.unwrap();
        assert_eq!(counted(&disk).await.files.used_bytes, 2 * B);
        assert_nothing_else_is_allocated(&disk).await;
    });
}

#[test]
fn open_units_have_what_they_hold() {
    let options = OpenOptions {
        memory_bytes: 1 << 20,
        ..OpenOptions::default()
    };
    with(&store(8 << 20), options, async |disk| {
        let mut unit = disk.begin();
        let made = unit.create_volume("new", 100 * B, [4; 16], 0).await;
        let volume = made.unwrap();
        let units = counted(&disk).await.units;
        assert_eq!(
            (units.reserved_bytes, units.used_bytes),
            (100 * B, 0),
            "taken, and not committed"
        );
        // More than the memory for open units, so that some of it goes to the store.
        unit.write(&volume, 0, &vec![5; 100 * BLOCK]).await.unwrap();
        let units = counted(&disk).await.units;
        assert!(units.reserved_bytes > 100 * B && units.used_bytes > 0);
        unit.abort();
        disk.engine().drain().await.unwrap();
        let units = counted(&disk).await.units;
        assert_eq!(units.reserved_bytes, disk.spill_bytes());
    });
}

#[test]
fn a_count_ends_when_its_caller_is_not_interested_any_more() {
    with(&store(8 << 20), OpenOptions::default(), async |disk| {
        disk.create_volume("a", 100 * B, [3; 16], 0).await.unwrap();
        let mut seen = Vec::new();
        let mut progress = |done, total| {
            seen.push((done, total));
            done == 0
        };
        assert_eq!(disk.usage(&mut progress).await.unwrap(), None);
        // The volume `a` comes first, and `main` has one block.
        assert_eq!(seen, [(0, 101), (100, 101)]);
    });
}

#[test]
fn commits_during_a_count_are_reported() {
    let (_, closed) = with(&store(8 << 20), OpenOptions::default(), async |disk| {
        disk.resize_volume("main", 1000 * B).await.unwrap();
        write(&disk.volume("main").unwrap(), 0, &[1; BLOCK]).await;
    });
    let sim = SimOptions::default();
    with_rt(&closed, OpenOptions::default(), sim, async |rt, disk| {
        let volume = disk.volume("main").unwrap();
        // No table is in memory, so the count waits for the drive.
        let writer = rt.spawn(async move { write(&volume, 900, &[2; BLOCK]).await });
        let usage = disk.usage(&mut |_, _| true).await.unwrap().unwrap();
        assert_eq!(usage.commits_meanwhile, 1);
        let counted = usage.total().used_bytes / B;
        assert!((1..=2).contains(&counted), "{counted}");
        writer.await;
        assert_eq!(counted_blocks(&disk).await, 2);
    });
}

async fn counted_blocks(disk: &Disk) -> u64 {
    counted(disk).await.total().used_bytes / B
}

/// What an inspection of `image` counts, and the volumes that it finds.
fn inspected(image: &DiskImage) -> (Usage, Vec<VolumeEntry>) {
    let size = image.size;
    let found = crate::images::in_world(image, &[], async move |rt, pool| {
        let look = Inspection::start(&rt, &pool, members(&rt, size), |_, _| {});
        let look = look.await.unwrap();
        let (entries, problems) = look.volumes().await;
        assert!(problems.is_empty(), "{problems:?}");
        let status = async |first, count| look.status(first, count).await;
        let counted = Usage::count(&entries, B, status, |_, _| true).await;
        (counted.unwrap().unwrap(), entries)
    });
    found.0
}

#[test]
fn zeroes_with_space_and_trims_in_the_log_hold_no_data() {
    let work = async |disk: Disk| {
        disk.resize_volume("main", 20 * B).await.unwrap();
        let main = disk.volume("main").unwrap();
        write(&main, 0, &[7; 10 * BLOCK]).await;
        disk.engine().drain().await.unwrap();
        main.write_zeroes(2 * B, 3 * B, true, false).await.unwrap();
        main.trim(7 * B, 2 * B, false).await.unwrap();
        write(&main, 3, &[8; BLOCK]).await;
        disk.flush().await.unwrap();
        (counted(&disk).await, false)
    };
    let (served, crashed) = live(&store(8 << 20), 1, OpenOptions::default(), work);
    assert_eq!(served.total().used_bytes, 6 * B);
    assert_eq!(inspected(&crashed).0, served);
}

/// After each power cut an inspection, which changes nothing, counts what is there after the recovery.
#[test]
fn usage_of_a_crashed_store_is_that_after_its_recovery() {
    for (image, seed) in [(store(8 << 20), 1), (segments(8 << 20), 2)] {
        let work = async move |disk: Disk, _| {
            let mut random = Random(seed);
            let mut model = Model::from([("main".to_string(), vec![false])]);
            for _ in 0..40 {
                change(&disk, &mut model, &mut random).await;
                if random.below(4) == 0 {
                    disk.flush().await.unwrap();
                }
            }
        };
        let images = cuts(&image, seed, work);
        assert!(images.len() > 100, "{} cuts", images.len());
        for (cut, _) in images.iter().step_by(7) {
            let before = inspected(cut).0;
            let recovered = async |open: crate::common::Open| counted(&open.disk).await;
            let (after, _) = in_world(cut, OpenOptions::default(), recovered);
            assert_eq!(before.volumes, after.volumes);
        }
    }
}
