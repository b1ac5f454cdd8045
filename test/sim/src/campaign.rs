//! A run of one seed: a workload on the engine in several generations, with a power cut at each I/O.

use crate::counts::Counts;
use crate::cut;
use crate::cuts::{self, Broken, Cuts, Next};
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
use tonearm_engine::{Engine, HomeParams, OpenOptions};
use tonearm_format::HeadKind;
use tonearm_rt::Rt;
use tonearm_world::FaultKind;

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The seed from which everything follows.
    pub seed: u64,
    /// The log is on drives of its own, and the store follows their heads.
    pub heads: bool,
    /// Operations, generations, the layout of the home, and the commit delay.
    pub size: Size,
}

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

/// Runs one seed.
///
/// # Errors
/// The first promise that does not hold.
pub fn run_seed(campaign: &Campaign) -> Result<Outcome, Failure> {
    let mut rng = ChaCha8Rng::seed_from_u64(campaign.seed);
    let mut shape = shape_of(&mut rng);
    if campaign.heads {
        follow_heads(&mut shape, &mut rng);
    }
    shape.home = campaign.size.home(campaign.seed, shape.block_size);
    let ordered = rng.next_u32().is_multiple_of(5);
    let mut image = shape.create();
    let mut oracle = Oracle::default();
    let mut outcome = Outcome::default();
    for generation in 0..campaign.size.generations {
        let mut options = options_of(&mut rng, ordered);
        let seed = rng.next_u64();
        options.commit_delay = campaign.size.commit_delay(seed);
        let fail = |at| Failure::at(campaign.seed, generation, at);
        let model = (campaign.heads && rng.next_u32().is_multiple_of(2)).then(|| Model {
            name: ["st41601n", "atlas10k", "sata2tb"][rng.next_u32() as usize % 3].into(),
            write_cache: rng.next_u32().is_multiple_of(2),
        });
        let world = drives::world_of(model.as_ref(), seed, image.disks.clone())
            .map_err(|what| fail((0, 0, what)))?;
        let shared: SharedOracle = Rc::new(RefCell::new(oracle.clone()));
        let (own, model) = (image.clone(), shared.clone());
        let cuts = Cuts::watch(&world, cuts::any(seed), move || model.borrow().clone(), {
            let model = shared.clone();
            move |crash, cut, outcome| {
                let mut model = model.borrow().clone();
                let last = model.last();
                let left = own.with(cut::images(crash, cut, ordered));
                let prefix = recover(&left, &mut model, cut, ordered)?;
                outcome.faultless += 1;
                outcome.cut_short += u64::from(prefix < last);
                Ok(())
            }
        });
        let rt = Rt::new(world.driver());
        let (rt2, image2, shared2) = (rt.clone(), image.clone(), shared.clone());
        let operations = campaign.size.operations;
        let orderly = rng.next_u32().is_multiple_of(4);
        let opened = Rc::new(RefCell::new(None));
        let shown = opened.clone();
        let result: Result<(), String> = within_time(&rt, opened.clone(), async move {
            let engine = image2
                .open(&rt2, options)
                .await
                .map_err(|error| error.to_string())?;
            *shown.borrow_mut() = Some(engine.clone());
            let (rt, engine2) = (rt2.clone(), engine.clone());
            let worked =
                workload::run(rt, engine2, shared2.clone(), image2.shape, seed, operations);
            worked.await.map_err(|stop| stop.to_string())?;
            if orderly {
                let last = shared2.borrow().last();
                engine.close().await.map_err(|error| error.to_string())?;
                shared2.borrow_mut().acknowledge(last);
            }
            Ok(())
        });
        note_home(&opened, &mut outcome);
        let next = cuts.end(&rt, result, &mut outcome).map_err(fail)?;
        // The next generation starts from one of the cuts or from the end.
        let next = next.filter(|_| !orderly).unwrap_or_else(|| Next {
            crash: world.crash(),
            cut: 0,
            state: shared.borrow().clone(),
        });
        image.disks = cut::images(&next.crash, next.cut, ordered);
        oracle = next.state;
        recover(&image, &mut oracle, seed, ordered)
            .map_err(|what| fail((u64::MAX, next.cut, what)))?;
    }
    Ok(outcome)
}

/// Counts what happened at the home of the store that was opened.
pub(crate) fn note_home(opened: &Rc<RefCell<Option<Engine>>>, outcome: &mut Outcome) {
    if let Some(engine) = opened.borrow().as_ref() {
        outcome.met.met_home(&engine.home().stats());
    }
}

/// Runs `work` to its end. An hour of virtual time counts as a hang and is an error.
pub(crate) fn within_time<T: 'static>(
    rt: &Rt,
    opened: Rc<RefCell<Option<Engine>>>,
    work: impl Future<Output = Result<T, String>> + 'static,
) -> Result<T, String> {
    let (timer, result) = (rt.clone(), Rc::new(RefCell::new(None)));
    let out = result.clone();
    rt.spawn(async move {
        let ended = work.await;
        *out.borrow_mut() = Some(ended);
    });
    rt.block_on(async move {
        let limit = timer.now() + Nanos::from_secs(3600).0;
        while timer.now() < limit {
            if let Some(ended) = result.borrow_mut().take() {
                return ended;
            }
            timer.sleep(Nanos::from_millis(10)).await;
        }
        let stats = opened.borrow().as_ref().map(Engine::stats);
        Err(format!("stuck: an hour has passed; {stats:?}"))
    })
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
    shape.split = true;
    shape.heads = match rng.next_u32() % 4 {
        0 => Heads::Stripes { drives },
        1 => Heads::Tracks {
            kind: HeadKind::Formula,
            drives,
        },
        2 => Heads::Tracks {
            kind: HeadKind::Mimic,
            drives,
        },
        _ => Heads::Tracks {
            kind: HeadKind::Online,
            drives,
        },
    };
    if matches!(shape.heads, Heads::Tracks { .. }) {
        // The log has about the size that it has in other runs, on tracks of at most half their size.
        shape.track_bytes = 40 << 10;
        shape.tracks *= 2 * drives;
    }
}

pub(crate) fn options_of(rng: &mut ChaCha8Rng, ordered: bool) -> OpenOptions {
    OpenOptions {
        memory_bytes: [256 << 10, 1 << 20, 8 << 20][rng.next_u32() as usize % 3],
        map_cache_bytes: 32 << 10,
        separation_interval: SEPARATION_INTERVAL,
        write_cache: cut::cache(ordered),
        write_back_on_recovery: rng.next_u32().is_multiple_of(3),
        write_back_after: Nanos::from_millis([1, 20, 1000][rng.next_u32() as usize % 3]),
        ..OpenOptions::default()
    }
}

/// Opens a store after a power cut, and finds the prefix of the commits that it contains.
fn recover(
    image: &StoreImage,
    oracle: &mut Oracle,
    seed: u64,
    ordered: bool,
) -> Result<u64, String> {
    let (_, rt) = image.start(seed);
    let options = cut::options(seed, ordered);
    let (rt2, image2) = (rt.clone(), image.clone());
    let (first, blocks) = (image.shape.first_block(), image.shape.blocks);
    let found = within_time(&rt, Rc::default(), async move {
        let engine = image2
            .open(&rt2, options)
            .await
            .map_err(|error| error.to_string())?;
        let found = read_stamps(&engine, first, blocks).await;
        found.map_err(|stop| stop.to_string())
    });
    rt.shut_down();
    oracle
        .match_prefix(first, &found?)
        .map_err(|violation| violation.0)
}
