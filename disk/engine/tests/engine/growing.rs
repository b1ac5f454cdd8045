//! A store grows while it is in use: it keeps what it has, a power cut leaves the old size or the new one, and what was committed to the
//! new blocks is there after it.

#![allow(clippy::unwrap_used)]

use crate::common::{
    HOME, Open, SEGMENTS, bytes, commit, drive, in_world, open_store, params, run, space, store,
    store_of, try_run, writes,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_engine::{Engine, EngineError, HomeParams, OpenOptions, Scrub, load_superblock};
use tonearm_format::{
    SECTOR, SUPERBLOCK_SLOTS, SYSTEM_BLOCKS, Superblock, superblock_offset, trailer_offset,
};
use tonearm_world::{Crash, DiskImage, Fault, FaultKind, Place, SimWorld};

const MIB: u64 = 1 << 20;
/// Blocks that are added at least.
const MORE: u64 = 3000;
/// Commits before the growth.
const COMMITS: u8 = 6;

/// A store on drives whose files become longer when it grows.
struct Files {
    disks: Vec<DiskImage>,
    /// The member that grows, and the bytes that it has then.
    grows: usize,
    long: u64,
    /// Blocks of the store, before and after.
    old: u64,
    new: u64,
}

impl Files {
    fn of(disks: Vec<DiskImage>) -> Self {
        let (superblocks, _) = run_in_files(&disks, async |open: Open| {
            let before = open.engine.superblock();
            open.engine.grow(MORE).await.unwrap();
            [before, open.engine.superblock()]
        });
        let [before, after] = superblocks;
        let grows = disks.len() - 1;
        assert!(after.size_blocks >= before.size_blocks + MORE);
        Self {
            disks,
            grows,
            long: after.member_bytes(grows),
            old: before.size_blocks,
            new: after.size_blocks,
        }
    }

    /// Log and blocks on one member, and on two.
    fn all() -> [Self; 2] {
        let single = store_of(&params(HomeParams::Overwrite), &[space(0, true, true)]);
        [Self::of(single), Self::of(store(HomeParams::Overwrite))]
    }

    /// `images` of files that have the length of before.
    fn short(&self, mut images: Vec<DiskImage>) -> Vec<DiskImage> {
        for (image, disk) in images.iter_mut().zip(&self.disks) {
            image.size = disk.size;
        }
        images
    }

    /// `images`, and the growing member is longer.
    fn lengthened(&self, images: Vec<DiskImage>) -> Vec<DiskImage> {
        let mut images = self.short(images);
        images[self.grows].size = self.long;
        images
    }

    /// True when the growing member has a superblock with the new size. Its length was made durable before.
    fn has_length(&self, images: &[DiskImage]) -> bool {
        let image = &images[self.grows];
        (0..SUPERBLOCK_SLOTS).any(|slot| {
            let mut sector = [0; SECTOR];
            image.read(superblock_offset(slot, self.long), &mut sector);
            Superblock::decode(&sector).is_ok_and(|found| found.size_blocks == self.new)
        })
    }

    /// Place of the trailer area before the growth.
    fn old_trailer(&self) -> u64 {
        trailer_offset(self.disks[self.grows].size)
    }
}

/// Bytes that a drive has behind its member: a file can be longer.
const ROOM: u64 = 32 * MIB;

/// Does `work` on the open store of `disks`, whose files can become longer. Returns its result, and the world.
fn run_in_files<T: 'static>(
    disks: &[DiskImage],
    work: impl AsyncFnOnce(Open) -> T + 'static,
) -> (T, SimWorld) {
    let sizes: Vec<u64> = disks.iter().map(|disk| disk.size).collect();
    let mut roomy = disks.to_vec();
    roomy.iter_mut().for_each(|disk| disk.size += ROOM);
    in_world(&roomy, async move |world, rt, _| {
        let members = sizes.into_iter().enumerate();
        let members = members.map(|(index, bytes)| drive(&rt, index, bytes));
        let opened = open_store(&rt, members.collect(), OpenOptions::default()).await;
        let engine = opened.unwrap().0;
        work(Open { world, rt, engine }).await
    })
}

/// The number of a block after the first `SYSTEM_BLOCKS`.
fn user(block: u64) -> u64 {
    block - SYSTEM_BLOCKS
}

async fn durable(engine: &Engine, first: u64, count: usize, byte: u8) {
    let lsn = commit(engine, vec![writes(first, count, byte)])
        .await
        .unwrap();
    engine.wait_durable(lsn).await.unwrap();
}

#[test]
fn a_store_in_use_grows_and_keeps_what_it_has() {
    for files in Files::all() {
        let (old, new) = (files.old, files.new);
        // The last blocks of the old size and the first ones after it are of one group.
        let border = user(old) - 3;
        let (_, world) = run_in_files(&files.disks, async move |open: Open| {
            let engine = open.engine;
            durable(&engine, 0, 12, 1).await;
            durable(&engine, border, 3, 2).await;
            engine.drain().await.unwrap();
            engine.grow(MORE).await.unwrap();
            assert_eq!(engine.size_blocks(), new);
            assert_eq!(engine.superblock().size_blocks, new);
            assert_eq!(bytes(&engine, border, 5).await.unwrap(), [2, 2, 2, 0, 0]);
            durable(&engine, border + 2, 6, 3).await;
            durable(&engine, user(new) - 1, 1, 4).await;
            engine.drain().await.unwrap();
            let report = engine.scrub(Scrub::Look, |_, _| true).await.unwrap();
            assert!(report.is_sound(), "{report:?}");
            engine.close().await.unwrap();
        });
        let whole = files.lengthened(world.images());
        // The copies of the superblock are at both ends of the longer member.
        for lost in [None, Some(0), Some(files.long - MIB)] {
            let mut images = whole.clone();
            if let Some(at) = lost {
                images[files.grows].zero(at, MIB);
            }
            run(&images, OpenOptions::default(), async move |open: Open| {
                let engine = open.engine;
                assert_eq!(engine.size_blocks(), new);
                assert_eq!(bytes(&engine, 0, 12).await.unwrap(), [1; 12]);
                let found = bytes(&engine, border, 9).await.unwrap();
                assert_eq!(found, [2, 2, 3, 3, 3, 3, 3, 3, 0]);
                assert_eq!(bytes(&engine, user(new) - 1, 1).await.unwrap(), [4]);
            });
        }
    }
}

/// What a power cut may meet.
struct Cut {
    crash: Crash,
    /// The growth had ended.
    grown: bool,
    /// The write to new blocks was durable.
    written: bool,
}

/// Grows the store of `files` while one task writes to old blocks, and another one to new blocks as soon as there are some.
fn cuts(files: &Files) -> Vec<Cut> {
    let (grown, written) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let found = Rc::new(RefCell::new(Vec::new()));
    let (all, old) = (found.clone(), files.old);
    run_in_files(&files.disks, async move |open: Open| {
        let (engine, rt) = (open.engine, open.rt);
        for byte in 1..=COMMITS {
            durable(&engine, u64::from(byte), 1, byte).await;
        }
        let (now, then) = (grown.clone(), written.clone());
        open.world.on_io(move |_, crash| {
            all.borrow_mut().push(Cut {
                crash: crash.clone(),
                grown: now.get(),
                written: then.get(),
            });
        });
        let (own, time) = (engine.clone(), rt.clone());
        let writer = rt.spawn(async move {
            while own.size_blocks() == old {
                time.sleep(Nanos::from_millis(1)).await;
            }
            durable(&own, user(old), 2, 9).await;
            written.set(true);
        });
        let own = engine.clone();
        let other = rt.spawn(async move {
            for byte in 1..=COMMITS {
                durable(&own, 20, 1, byte).await;
            }
        });
        engine.grow(MORE).await.unwrap();
        grown.set(true);
        writer.await;
        other.await;
        engine.drain().await.unwrap();
        open.world.clear_hook();
    });
    found.take()
}

/// Opens `images`, and returns the size of the store. Everything from before the growth is there.
fn look(images: &[DiskImage], case: &str, written: bool, old: u64) -> Result<u64, EngineError> {
    let case = case.to_string();
    let looked = try_run(images, OpenOptions::default(), async move |open: Open| {
        let engine = open.engine;
        for byte in 1..=COMMITS {
            let found = bytes(&engine, u64::from(byte), 1).await.expect(&case);
            assert_eq!(found, [byte], "{case}");
        }
        if written {
            assert_eq!(bytes(&engine, user(old), 3).await.expect(&case), [9, 9, 0]);
        }
        let report = engine.scrub(Scrub::Look, |_, _| true).await.unwrap();
        assert!(report.is_sound(), "{case}: {report:?}");
        engine.size_blocks()
    });
    looked.0
}

#[test]
fn power_cuts_while_a_store_in_use_grows_leave_its_old_or_its_new_size() {
    for files in Files::all() {
        let (mut old, mut new) = (0, 0);
        for (number, cut) in cuts(&files).iter().enumerate() {
            for seed in 0..3 {
                let case = format!("cut {number}, image {seed}");
                let images = cut.crash.images(seed + 10 * number as u64);
                let long = files.lengthened(images.clone());
                let size = look(&long, &case, cut.written, files.old).expect(&case);
                if size == files.old {
                    old += 1;
                    assert!(!cut.grown && !cut.written, "{case}");
                    // A length that was not made durable may be lost with the power.
                    if !files.has_length(&long) {
                        let short = files.short(images);
                        let size = look(&short, &case, false, files.old).expect(&case);
                        assert_eq!(size, files.old, "{case}");
                    }
                } else {
                    new += 1;
                    assert_eq!(size, files.new, "{case}");
                    let mut left = vec![0; MIB as usize];
                    long[files.grows].read(files.old_trailer(), &mut left);
                    let blocks = left.chunks(4096);
                    let of_copies = blocks.filter(|block| block.starts_with(b"TONEARM"));
                    assert_eq!(of_copies.count(), 0, "{case}: copies in the data area");
                }
            }
        }
        assert!(
            old > 20 && new > 20,
            "{old} of the old size, {new} of the new one"
        );
    }
}

fn strike(world: &SimWorld, drive: u32, kind: FaultKind) {
    world.strike(Fault {
        drive,
        after: 0,
        kind,
        place: Place::At(0),
        span: Nanos(0),
        times: 1,
    });
}

#[test]
fn a_member_that_cannot_be_longer_leaves_the_store_as_it_is() {
    let files = Files::of(store(HomeParams::Overwrite));
    let (old, new) = (files.old, files.new);
    let (_, world) = run_in_files(&files.disks, async move |open: Open| {
        let engine = open.engine;
        strike(&open.world, HOME, FaultKind::Full);
        let error = engine.grow(MORE).await.unwrap_err();
        assert!(matches!(error, EngineError::Lengthen { .. }), "{error}");
        assert_eq!(engine.size_blocks(), old);
        open.world.heal();
        durable(&engine, 0, 3, 1).await;
        engine.grow(MORE).await.unwrap();
        assert_eq!(engine.size_blocks(), new);
        durable(&engine, user(new) - 1, 1, 2).await;
        engine.close().await.unwrap();
    });
    let images = files.lengthened(world.images());
    run(&images, OpenOptions::default(), async move |open: Open| {
        assert_eq!(bytes(&open.engine, 0, 3).await.unwrap(), [1; 3]);
        assert_eq!(bytes(&open.engine, user(new) - 1, 1).await.unwrap(), [2]);
    });
}

#[test]
fn a_member_that_cannot_be_longer_keeps_its_copies_at_its_end() {
    let files = Files::of(store(HomeParams::Overwrite));
    let (_, world) = run_in_files(&files.disks, async |open: Open| {
        strike(&open.world, HOME, FaultKind::Full);
        open.engine.grow(MORE).await.unwrap_err();
        open.world.heal();
        open.engine.close().await.unwrap();
    });
    let images = files.short(world.images());
    in_world(&images, async |_, _, drives| {
        let found = load_superblock(&BufPool::new(0), &drives[1]).await;
        assert_eq!(found.unwrap().valid_slots, SUPERBLOCK_SLOTS);
    });
}

#[test]
fn a_growth_whose_superblock_fails_ends_the_use_of_the_store() {
    // The data member gets its superblock first, and the log member last.
    for drive in [HOME, 0] {
        let files = Files::of(store(HomeParams::Overwrite));
        let (old, new) = (files.old, files.new);
        let (_, world) = run_in_files(&files.disks, async move |open: Open| {
            let engine = open.engine;
            durable(&engine, 0, 3, 1).await;
            strike(&open.world, drive, FaultKind::FailedFlush);
            engine.grow(MORE).await.unwrap_err();
            assert!(engine.failure().is_some());
            assert_eq!(engine.size_blocks(), old);
            engine.close().await.unwrap_err();
        });
        let images = files.lengthened(world.images());
        run(&images, OpenOptions::default(), async move |open: Open| {
            let engine = open.engine;
            assert_eq!(bytes(&engine, 0, 3).await.unwrap(), [1; 3]);
            assert!([old, new].contains(&engine.size_blocks()));
            engine.close().await.unwrap();
        });
    }
}

#[test]
fn the_end_of_a_store_waits_for_its_growth() {
    for files in Files::all() {
        let (_, world) = run_in_files(&files.disks, async |open: Open| {
            let engine = open.engine.clone();
            let growth = open.rt.spawn(async move { engine.grow(MORE).await });
            open.rt.sleep(Nanos(1)).await;
            open.engine.close().await.unwrap();
            growth.await.unwrap();
            let late = open.engine.grow(MORE).await;
            assert!(late.is_err());
        });
        let (images, new) = (files.lengthened(world.images()), files.new);
        run(&images, OpenOptions::default(), async move |open: Open| {
            assert!(open.engine.recovery().clean);
            assert_eq!(open.engine.size_blocks(), new);
        });
    }
}

#[test]
fn stores_that_cannot_grow_say_why() {
    run_in_files(&store(SEGMENTS), async |open: Open| {
        let error = open.engine.grow(1).await.unwrap_err();
        assert!(matches!(error, EngineError::CannotGrow(_)), "{error}");
        durable(&open.engine, 0, 1, 1).await;
    });
    let disks = store(HomeParams::Overwrite);
    run_in_files(&disks, async |open: Open| {
        open.engine.begin_archive("file:///a").unwrap();
        let error = open.engine.grow(1).await.unwrap_err();
        assert!(error.to_string().contains("it is archived"), "{error}");
    });
    run_in_files(&disks, async |open: Open| {
        let engine = open.engine.clone();
        let growth = open.rt.spawn(async move { engine.grow(1).await });
        open.rt.sleep(Nanos(1)).await;
        let error = open.engine.begin_archive("file:///a").unwrap_err();
        assert!(matches!(error, EngineError::Growing), "{error}");
        growth.await.unwrap();
        open.engine.begin_archive("file:///a").unwrap();
    });
}
