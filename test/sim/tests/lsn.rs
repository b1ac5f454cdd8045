//! LSNs never go back: not over power cuts, not after a recovery that found everything at home, not over orderly ends.
//! A commit that was durable keeps its number, and no later commit gets it again.

#![allow(clippy::unwrap_used)]

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{LooseBuf, Lsn, Nanos};
use tonearm_disk::{Disk, OpenOptions};
use tonearm_rt::Rt;
use tonearm_sim::{Layout, Shape, StoreImage};
use tonearm_world::DiskImage;

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 256;

/// What the clients of a store have seen.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// The last commit that they have seen as durable.
    durable: Lsn,
    /// The last commit that they have made.
    appended: Lsn,
}

/// One generation: its number, and whether everything is written back, and the log start beyond it, before its end.
struct Generation {
    seed: u64,
    drains: bool,
    /// The I/O at which the power is cut; `None` for an orderly end.
    cut: Option<u64>,
}

/// Runs a generation on `image`. Returns the drives after it, and what the clients had seen by then.
fn run(image: &StoreImage, before: Seen, generation: &Generation) -> (Vec<DiskImage>, Seen) {
    let (world, rt) = image.start(generation.seed);
    let seen = Rc::new(Cell::new(before));
    let taken = Rc::new(RefCell::new(None));
    let (shared, crash, cut) = (seen.clone(), taken.clone(), generation.cut);
    world.on_io(move |io, now| {
        if cut == Some(io) {
            *crash.borrow_mut() = Some((now.clone(), shared.get()));
        }
    });
    let (own, image, client) = (rt.clone(), image.clone(), seen.clone());
    let (seed, drains) = (generation.seed, generation.drains);
    rt.block_on(async move {
        let options = OpenOptions {
            memory_bytes: 1 << 20,
            write_back_after: Nanos::from_millis(5),
            ..OpenOptions::default()
        };
        let disk = image.open_disk(&own, options).await.unwrap();
        check_start(&disk, before);
        work(&own, &disk, &client, seed).await;
        if drains {
            let last = disk.marks().appended;
            // This makes a few commits of its own.
            client.set(Seen {
                appended: last + 10,
                ..client.get()
            });
            disk.engine().retire(last).await.unwrap();
            look(&disk, &client);
            own.sleep(Nanos::from_millis(50)).await;
        }
        disk.close().await.unwrap();
        look(&disk, &client);
    });
    world.clear_hook();
    rt.shut_down();
    match taken.take() {
        Some((crash, seen)) => (crash.images(generation.seed), seen),
        None => (world.images(), seen.get()),
    }
}

/// The marks just after the opening.
fn check_start(disk: &Disk, before: Seen) {
    let marks = disk.marks();
    assert!(
        marks.appended >= before.durable,
        "{marks:?} after {} was durable",
        before.durable
    );
    assert_eq!(
        (marks.flushed, marks.durable),
        (marks.appended, marks.appended)
    );
    assert!(
        marks.appended <= before.appended,
        "{marks:?} after {} was the last one",
        before.appended
    );
}

fn look(disk: &Disk, seen: &Cell<Seen>) {
    let (marks, before) = (disk.marks(), seen.get());
    assert!(marks.appended >= marks.flushed && marks.flushed >= marks.durable);
    assert!(
        marks.durable >= before.durable,
        "{marks:?} after {}",
        before.durable
    );
    seen.set(Seen {
        durable: marks.durable,
        appended: marks.appended,
    });
}

async fn work(rt: &Rt, disk: &Disk, seen: &Cell<Seen>, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let volume = disk.volume("main").unwrap();
    for _ in 0..rng.next_u64() % 60 {
        let block = rng.next_u64() % BLOCKS;
        let data = LooseBuf::copy_of(&[rng.next_u32() as u8; BLOCK as usize]);
        let last = disk.marks().appended;
        // The number counts as given from here on, whether or not the caller comes to see it.
        seen.set(Seen {
            appended: last + 1,
            ..seen.get()
        });
        let lsn = disk.write_buf(&volume, block * BLOCK, data).await.unwrap();
        assert!(lsn > seen.get().durable, "{lsn} has been given before");
        look(disk, seen);
        match rng.next_u32() % 6 {
            0 => disk.wait_durable(lsn).await.unwrap(),
            1 => disk.flush().await.unwrap(),
            2 => rt.sleep(Nanos::from_millis(rng.next_u64() % 8)).await,
            _ => {}
        }
        look(disk, seen);
    }
}

#[test]
fn lsns_never_go_back_over_power_cuts_and_orderly_ends() {
    let (mut cuts, mut orderly, mut lost) = (0, 0, 0);
    for layout in [Layout::Overwrite, Layout::Segments, Layout::Hylog] {
        for seed in 0..40u64 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut image = Shape::small(layout, 16, BLOCKS).create();
            // The store was made with a few commits.
            let mut seen = Seen {
                durable: Lsn(1),
                appended: Lsn(100),
            };
            for number in 0..12u64 {
                let ends = rng.next_u32().is_multiple_of(4);
                let generation = Generation {
                    seed: seed * 100 + number,
                    drains: rng.next_u32().is_multiple_of(2),
                    cut: (!ends).then(|| 1 + rng.next_u64() % 250),
                };
                let (disks, after) = run(&image, seen, &generation);
                image = image.with(disks);
                (cuts, orderly) = (cuts + u64::from(!ends), orderly + u64::from(ends));
                lost += u64::from(after.durable < after.appended);
                seen = after;
            }
        }
    }
    assert!(
        cuts > 800 && orderly > 200 && lost > 100,
        "{cuts} cuts, {orderly} orderly ends, {lost} with commits at risk"
    );
}

/// Everything is at home, and the durable log start is beyond all commits: the recovery replays nothing.
#[test]
fn recovery_with_nothing_to_replay_continues_lsns() {
    for layout in [Layout::Overwrite, Layout::Segments, Layout::Wolf] {
        let mut image = Shape::small(layout, 16, BLOCKS).create();
        for round in 0..6u64 {
            let left = Rc::new(Cell::new((Lsn(0), Lsn(0))));
            let kept = left.clone();
            let ((), world) = image.run(round, |_, rt, image| async move {
                let disk = image.open_disk(&rt, OpenOptions::default()).await.unwrap();
                let before = disk.marks().appended;
                let volume = disk.volume("main").unwrap();
                // In some rounds nothing is committed at all.
                for block in 0..round % 3 {
                    let data = LooseBuf::copy_of(&[round as u8; BLOCK as usize]);
                    disk.write_buf(&volume, block * BLOCK, data).await.unwrap();
                }
                disk.engine().retire(disk.marks().appended).await.unwrap();
                disk.engine().drain().await.unwrap();
                assert_eq!(disk.stats().pinned_blocks, 0);
                kept.set((before, disk.marks().durable));
            });
            let (before, durable) = left.get();
            assert!(durable >= before);
            image = image.with(world.crash().images(round));
            image.run(round, |_, rt, image| async move {
                let disk = image.open_disk(&rt, OpenOptions::default()).await.unwrap();
                assert_eq!(disk.marks().appended, durable, "{layout:?}, round {round}");
            });
        }
    }
}
