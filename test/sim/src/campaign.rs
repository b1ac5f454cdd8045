//! A run of one seed: a workload on the engine in several generations, with a power cut at each I/O.

use crate::counts::Counts;
use crate::cut;
use crate::cuts::{self, Broken, Cuts};
use crate::drives;
use crate::generate::Size;
use crate::oracle::Oracle;
use crate::script::Model;
use crate::store::{Heads, SEPARATION_INTERVAL, Shape, StoreImage};
use crate::workload::{self, SharedOracle, read_stamps};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_engine::{HomeParams, OpenOptions};
use tonearm_world::FaultKind;

/// Result of a seed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Power cuts that were recovered from.
    pub crash_points: u64,
    /// Power cuts that lost commits which had not been acknowledged as durable.
    pub cut_short: u64,
    /// Power cuts before any fault had struck.
    pub faultless: u64,
    /// For each kind of fault, in the order of `FaultKind::ALL`, the power cuts after one had struck.
    pub points: [u64; FaultKind::ALL.len()],
    /// Power cuts after which some blocks could not be read.
    pub damaged: u64,
    /// Power cuts after which some blocks had an earlier version, because a drive had lied.
    pub stale: u64,
    /// Power cuts after which the store could not be opened.
    pub refused: u64,
    /// Events in the runs, which not all kinds of runs count.
    pub met: Counts,
    /// Hash over every operation of the workloads.
    pub trace_hash: u64,
}

impl Outcome {
    /// Adds a power cut before any fault, after which the store has the commits up to `number` of `last`.
    pub(crate) fn recovered(&mut self, number: u64, last: u64) {
        self.faultless += 1;
        self.cut_short += u64::from(number < last);
    }

    /// Adds the counts of `other`, and combines the hashes.
    pub fn add(&mut self, other: &Outcome) {
        self.crash_points += other.crash_points;
        self.cut_short += other.cut_short;
        self.faultless += other.faultless;
        for (own, more) in self.points.iter_mut().zip(other.points) {
            *own += more;
        }
        self.damaged += other.damaged;
        self.stale += other.stale;
        self.refused += other.refused;
        self.met.add(&other.met);
        self.trace_hash = self.trace_hash.rotate_left(1) ^ other.trace_hash;
    }
}

/// A promise that does not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// Generation, step of its I/O (`u64::MAX` is its end), and seed of the power cut.
    pub at: (u32, u64, u64),
    /// The violated promise.
    pub what: String,
}

impl Failure {
    pub(crate) fn at(seed: u64, generation: u32, (step, cut, what): Broken) -> Self {
        let at = (generation, step, cut);
        Self { seed, at, what }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (generation, io, cut) = self.at;
        write!(f, "seed {}: generation {generation}, ", self.seed)?;
        match (cut, io) {
            (_, u64::MAX) => write!(f, "after its end: {}", self.what),
            (0, _) => write!(f, "at step {io}: {}", self.what),
            _ => write!(f, "power cut at step {io} (cut {cut}): {}", self.what),
        }
    }
}

/// Runs one seed. With `heads` the log is on drives of its own, and the store follows their heads.
///
/// # Errors
/// The first promise that does not hold.
pub fn run(seed: u64, size: Size, heads: bool) -> Result<Outcome, Failure> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut shape = shape_of(&mut rng);
    if heads {
        follow_heads(&mut shape, &mut rng);
    }
    shape.home = size.home(seed, shape.block_size);
    let ordered = rng.next_u32().is_multiple_of(5);
    let mut image = shape.create();
    let mut oracle = Oracle::default();
    let mut outcome = Outcome::default();
    for generation in 0..size.generations {
        let mut options = options_of(&mut rng, ordered);
        let world_seed = rng.next_u64();
        options.commit_delay = size.commit_delay(world_seed);
        options.large_commit_bytes = Size::large_commit_bytes(world_seed);
        options.large_commit_quiet = Nanos(0);
        let fail = |at| Failure::at(seed, generation, at);
        let model = (heads && rng.next_u32().is_multiple_of(2)).then(|| Model {
            name: ["st41601n", "atlas10k", "sata2tb"][rng.next_u32() as usize % 3].into(),
            write_cache: rng.next_u32().is_multiple_of(2),
        });
        let world =
            drives::world_of(model.as_ref(), world_seed, image.disks.clone()).map_err(fail)?;
        let shared: SharedOracle = Rc::new(RefCell::new(oracle));
        let (own, seen, state) = (image.clone(), shared.clone(), shared.clone());
        let cuts = Cuts::watch(
            &world,
            cuts::any(world_seed),
            move || state.borrow().clone(),
            move |crash, cut, outcome| {
                let left = own.with(cut::images(crash, cut, ordered));
                let oracle = seen.borrow();
                let number = recover(&left, &oracle, cut, ordered)?;
                outcome.recovered(number, oracle.last());
                Ok(())
            },
        );
        let (operations, image2) = (size.operations, image.clone());
        let orderly = rng.next_u32().is_multiple_of(4);
        let next = cuts.run(orderly, &mut outcome, async move |rt, opened| {
            let engine = image2.open(&rt, options).await;
            let engine = engine.map_err(|error| error.to_string())?;
            *opened.borrow_mut() = Some(engine.clone());
            let (engine2, oracle) = (engine.clone(), shared.clone());
            let worked = workload::run(rt, engine2, oracle, image2.shape, world_seed, operations);
            worked.await.map_err(|stop| stop.to_string())?;
            if orderly {
                let last = shared.borrow().last();
                engine.close().await.map_err(|error| error.to_string())?;
                shared.borrow_mut().acknowledge(last);
            }
            Ok(())
        });
        let next = next.map_err(fail)?;
        image.disks = cut::images(&next.crash, next.cut, ordered);
        oracle = next.state;
        let number = recover(&image, &oracle, world_seed, ordered);
        oracle.go_on(number.map_err(|what| fail((u64::MAX, next.cut, what)))?);
    }
    Ok(outcome)
}

pub(crate) fn shape_of(rng: &mut ChaCha8Rng) -> Shape {
    let block_size = if rng.next_u32().is_multiple_of(6) {
        16384
    } else {
        4096
    };
    Shape {
        block_size,
        track_bytes: [64 << 10, 64 << 10, 128 << 10][rng.next_u32() as usize % 3],
        tracks: 8 + rng.next_u64() % 24,
        blocks: 64 + rng.next_u64() % 200,
        split: rng.next_u32().is_multiple_of(3),
        heads: Heads::None,
        home: HomeParams::Overwrite,
    }
}

/// Puts the log on drives of its own. The predictions of their heads are mostly wrong, which must do no harm.
fn follow_heads(shape: &mut Shape, rng: &mut ChaCha8Rng) {
    let drives = 1 + u64::from(rng.next_u32().is_multiple_of(3));
    shape.follow(Heads::chosen(rng.next_u32(), drives));
}

pub(crate) fn options_of(rng: &mut ChaCha8Rng, ordered: bool) -> OpenOptions {
    let memory_bytes = [256 << 10, 1 << 20, 8 << 20][rng.next_u32() as usize % 3];
    let chance = rng.next_u32();
    OpenOptions {
        memory_bytes,
        map_cache_bytes: 32 << 10,
        separation_interval: SEPARATION_INTERVAL,
        write_cache: cut::cache(ordered),
        write_back_on_recovery: chance.is_multiple_of(3),
        write_back_after: Nanos::from_millis([1, 20, 1000][rng.next_u32() as usize % 3]),
        writes_while_reading: [8, 64][(chance / 3 % 2) as usize],
        ..OpenOptions::default()
    }
}

/// Opens a store after a power cut, and finds the prefix of the commits that it contains.
fn recover(image: &StoreImage, oracle: &Oracle, seed: u64, ordered: bool) -> Result<u64, String> {
    let options = cut::options(seed, ordered);
    let (first, blocks) = (image.shape.first_block(), image.shape.blocks);
    let (found, _) = image.within_time(seed, |_, rt, image| async move {
        let engine = image
            .open(&rt, options)
            .await
            .map_err(|error| error.to_string())?;
        let found = read_stamps(&engine, first, blocks).await;
        found.map_err(|stop| stop.to_string())
    });
    oracle.judge_from(first, &found?)
}
