//! Bounded durability: with `max_delay` a power cut takes back nothing that is older than the bound, although no client
//! flushes. Virtual time.

#![allow(clippy::unwrap_used)]

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::{LooseBuf, Lsn, Nanos};
use tonearm_disk::{Disk, OpenOptions, Piece};
use tonearm_rt::Rt;
use tonearm_sim::{Layout, Shape, StoreImage};
use tonearm_world::{Crash, SimOptions, SimWorld};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 200;
const MAX: Nanos = Nanos::from_millis(5);

/// An answered write: when, its LSN, its block, and the number that fills the block.
#[derive(Clone, Copy)]
struct Answered {
    at: Nanos,
    lsn: Lsn,
    block: u64,
    number: u64,
}

/// A power cut: when, and what it leaves.
struct Cut {
    at: Nanos,
    crash: Crash,
}

fn shape(seed: u64) -> Shape {
    let layouts = [Layout::Overwrite, Layout::Segments, Layout::Hylog];
    Shape {
        split: seed.is_multiple_of(2),
        ..Shape::small(layouts[seed as usize % 3], 24, BLOCKS)
    }
}

fn options(seed: u64, max_delay: Option<Nanos>) -> OpenOptions {
    OpenOptions {
        memory_bytes: 1 << 20,
        write_back_after: Nanos::from_millis([2, 200][seed as usize / 2 % 2]),
        commit_delay: Nanos::from_millis([0, 1][seed as usize % 2]),
        max_delay,
        ..OpenOptions::default()
    }
}

/// Writes of a client that never flushes.
async fn client(rt: Rt, disk: Disk, answered: Rc<RefCell<Vec<Answered>>>, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let volume = disk.volume("main").unwrap();
    for _ in 0..60 {
        let pause = [0, 200, 9_000][rng.next_u32() as usize % 3];
        rt.sleep(Nanos::from_micros(rng.next_u64() % (pause + 1)))
            .await;
        let (block, number) = (rng.next_u64() % BLOCKS, answered.borrow().len() as u64 + 1);
        let mut bytes = vec![0; BLOCK as usize];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        let data = LooseBuf::copy_of(&bytes);
        let before = disk.marks().appended;
        let lsn = disk.write_buf(&volume, block * BLOCK, data).await.unwrap();
        assert!(lsn > before);
        answered.borrow_mut().push(Answered {
            at: rt.now(),
            lsn,
            block,
            number,
        });
    }
}

/// Runs clients without flushes, and cuts the power again and again. Returns what was answered, the cuts, and the worst
/// delay with the number of missed bounds.
fn run(
    seed: u64,
    latency: Nanos,
    max_delay: Option<Nanos>,
) -> (StoreImage, Vec<Answered>, Vec<Cut>, (u64, u64)) {
    let image = shape(seed).create();
    let world_options = SimOptions {
        seed,
        latency,
        ..SimOptions::default()
    };
    let world = SimWorld::new(world_options, image.disks.clone());
    let rt = Rt::new(world.driver());
    let (own, opened, drives) = (rt.clone(), image.clone(), world.clone());
    let (answered, cuts, observed) = rt.block_on(async move {
        let disk = opened.open_disk(&own, options(seed, max_delay)).await;
        let disk = disk.unwrap();
        let answered = Rc::new(RefCell::new(Vec::new()));
        let clients: Vec<_> = (0..3)
            .map(|number| {
                let (rt, disk, answered) = (own.clone(), disk.clone(), answered.clone());
                own.spawn(client(rt, disk, answered, seed * 10 + number))
            })
            .collect();
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0xde1a);
        let mut cuts = Vec::new();
        for _ in 0..60 {
            own.sleep(Nanos(rng.next_u64() % 4_000_000)).await;
            cuts.push(Cut {
                at: own.now(),
                crash: drives.crash(),
            });
        }
        for client in clients {
            client.await;
        }
        own.sleep(MAX).await;
        let stats = disk.stats();
        (
            answered.take(),
            cuts,
            (stats.delay_max_ns, stats.delays_missed),
        )
    });
    rt.shut_down();
    (image, answered, cuts, observed)
}

/// The answered writes older than the bound that a cut has taken back, and all younger ones that it has.
fn lost(image: &StoreImage, answered: &[Answered], cut: &Cut, seed: u64) -> (u64, u64) {
    let mut due: Vec<Answered> = answered.to_vec();
    due.retain(|write| write.at <= cut.at);
    let left = image.with(cut.crash.images(seed));
    let at = cut.at;
    let ((old, young), _) = left.run(seed, move |_, rt, image| async move {
        let disk = image.open_disk(&rt, OpenOptions::default()).await.unwrap();
        let volume = disk.volume("main").unwrap();
        let (mut old, mut young) = (0, 0);
        for write in &due {
            let is_old = write.at + MAX.0 <= at;
            let found = match volume
                .read(write.block * BLOCK, 8)
                .await
                .unwrap()
                .as_slice()
            {
                [Piece::Data(data)] => u64::from_le_bytes(data[..8].try_into().unwrap()),
                _ => 0,
            };
            // A later write of the block has a larger number.
            if found < write.number || disk.marks().appended < write.lsn {
                *(if is_old { &mut old } else { &mut young }) += 1;
            }
        }
        (old, young)
    });
    (old, young)
}

#[test]
fn nothing_older_than_the_bound_is_ever_missing() {
    let (mut cuts_made, mut young_lost) = (0, 0);
    for seed in 0..24 {
        let (image, answered, cuts, (worst, missed)) = run(seed, Nanos::from_micros(70), Some(MAX));
        assert_eq!(missed, 0, "seed {seed}");
        assert!(worst > MAX.0 / 4 && worst <= MAX.0, "seed {seed}: {worst}");
        for (index, cut) in cuts.iter().enumerate() {
            let (old, young) = lost(&image, &answered, cut, index as u64);
            assert_eq!(old, 0, "seed {seed}, cut {index} at {}", cut.at);
            (cuts_made, young_lost) = (cuts_made + 1, young_lost + young);
        }
    }
    assert!(
        cuts_made > 1000 && young_lost > 100,
        "{cuts_made}, {young_lost}"
    );
}

/// Without the bound a power cut takes back older writes, so that the test above shows something.
#[test]
fn without_the_bound_older_writes_are_lost() {
    let mut old_lost = 0;
    for seed in 0..8 {
        let (image, answered, cuts, _) = run(seed, Nanos::from_micros(70), None);
        for (index, cut) in cuts.iter().enumerate() {
            old_lost += lost(&image, &answered, cut, index as u64).0;
        }
    }
    assert!(old_lost > 100, "{old_lost}");
}

/// A device that is too slow for the bound: the misses are counted, and the worst delay shows by how much.
#[test]
fn a_bound_that_cannot_be_kept_is_counted() {
    let (_, answered, _, (worst, missed)) = run(1, Nanos::from_millis(8), Some(MAX));
    assert!(missed > 10 && missed <= answered.len() as u64, "{missed}");
    assert!(worst > MAX.0, "{worst}");
}
