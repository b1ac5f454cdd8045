//! Opening a store: recovery if it was not shut down in order, and the superblock of the new epoch.

use crate::access::Access;
use crate::archived::Archived;
use crate::engine::{Counters, Engine, Inner};
use crate::error::EngineError;
use crate::images::Images;
use crate::indirect::Sink;
use crate::log_drives::LogDrives;
use crate::members::{Assembled, assemble};
use crate::options::OpenOptions;
use crate::pinned::Pinned;
use crate::recovery::{Progress, Recovery, RecoveryReport};
use crate::redundancy::Footprint;
use crate::shared::{Shared, array_of, events_of};
use crate::superblocks::{self, MemberDevice};
use crate::write_back::WriteBack;
use async_recursion::async_recursion as boxed;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::{BufPool, Lsn};
use tonearm_device::Device;
use tonearm_format::{State as StoreState, Superblock};
use tonearm_layout::layouts;
use tonearm_rt::{Notify, Rt, Semaphore};
use tonearm_trail::{Trail, TrailOptions, TrailStart, WriteCache};

impl Engine {
    /// Opens the store of `members` (the first is the primary one); recovers it if need be.
    ///
    /// # Errors
    /// When the members are no store, do not belong together, are truncated or damaged, or when the log
    /// lacks a record that was durable.
    pub async fn open(
        rt: &Rt,
        pool: &BufPool,
        members: Vec<MemberDevice>,
        options: OpenOptions,
        mut progress: impl FnMut(Progress),
    ) -> Result<Engine, EngineError> {
        let devices: Vec<_> = members.iter().map(|member| member.device.clone()).collect();
        let opened = open(rt, pool, members, options, &mut progress).await;
        // An operation on a lost array ends with an error that names no member.
        let lost = || array_of(&devices).and_then(|array| array.lost);
        opened.map_err(|error| lost().map_or(error, EngineError::Raid))
    }
}

#[boxed(?Send)]
async fn open(
    rt: &Rt,
    pool: &BufPool,
    members: Vec<MemberDevice>,
    options: OpenOptions,
    progress: &mut dyn FnMut(Progress),
) -> Result<Engine, EngineError> {
    let started = rt.now();
    let Assembled {
        superblock,
        devices,
        unreadable,
    } = assemble(pool, members, &options).await?;
    let mut superblock = placed(superblock, &options)?;
    let home = layouts::open(rt, pool, &superblock, &devices, options.home()).await?;
    let memory = Semaphore::new(rt, options.memory_bytes);
    let log_drives = LogDrives::load(pool, &superblock, &devices).await?;
    let mut report = RecoveryReport {
        clean: superblock.state == StoreState::Clean,
        unreadable,
        ..Default::default()
    };
    let pinned = RefCell::new(Pinned::default());
    let footprint = RefCell::new(Footprint::new(&devices));
    let (mut log, mut live) = (superblock.log, Vec::new());
    if !report.clean {
        if options.read_only {
            return Err(EngineError::NeedsRecovery);
        }
        let recovery = Recovery {
            pool,
            home: &*home,
            memory: &memory,
            log: &log_drives,
            superblock: &superblock,
            options: &options,
            pinned: &pinned,
            images: Images::default(),
            moves: Cell::new(false),
            footprint: &footprint,
        };
        (log, live) = recovery.run(&mut report, progress).await?;
    }
    home.indirect().inspect(|indirect| indirect.end_recovery());
    report.pinned_blocks = pinned.borrow().block_count() as u64;
    if !options.read_only {
        let footprint = footprint.into_inner();
        footprint.recover(&superblock, &devices, &*home).await?;
        superblock.log = log;
        begin_epoch(pool, &devices, &log_drives, &mut superblock, &options).await?;
    }
    let start = TrailStart {
        epoch: superblock.epoch,
        state: log,
        live,
        heads: log_drives.heads(),
    };
    let trail = start_trail(rt, pool, log_drives, start, &options);
    pinned.borrow().hold_all(&trail);
    trail.advance();
    report.duration = rt.now().since(started);
    let shared = Shared {
        events: events_of(rt, &devices),
        rt: rt.clone(),
        pool: pool.clone(),
        options,
        members: devices,
        shape: Cell::new(home.shape()),
        home,
        opened_at: trail.appended(),
        trail,
        memory,
        pinned,
        access: Rc::new(Access::new(rt)),
        life: RefCell::default(),
        work: Notify::new(rt),
        refusals: Notify::new(rt),
    };
    Ok(Engine::start(Rc::new(shared), superblock, report))
}

/// `superblock` with the placement that the caller wants from now on.
fn placed(mut superblock: Superblock, options: &OpenOptions) -> Result<Superblock, EngineError> {
    if let Some(placement) = options.placement {
        superblock.layout = layouts::placed(superblock.layout, placement)?;
    }
    Ok(superblock)
}

/// Writes the superblock of a new epoch: records of earlier ones after the log's end are dead from now on.
async fn begin_epoch(
    pool: &BufPool,
    devices: &[Rc<dyn Device>],
    log_drives: &LogDrives,
    superblock: &mut Superblock,
    options: &OpenOptions,
) -> Result<(), EngineError> {
    log_drives.restore_sheets(pool).await?;
    superblock.epoch += 1;
    superblock.generation += 1;
    superblock.state = StoreState::Open;
    let flush = options.write_cache == WriteCache::Volatile;
    if flush {
        superblocks::make_durable(devices).await?;
    }
    superblocks::store(pool, devices, superblock, flush).await
}

fn start_trail(
    rt: &Rt,
    pool: &BufPool,
    log: LogDrives,
    start: TrailStart,
    options: &OpenOptions,
) -> Trail {
    let trail_options = TrailOptions {
        write_cache: options.write_cache,
        commit_delay: options.commit_delay,
        large_commit_bytes: options.large_commit_bytes,
        large_commit_quiet: options.large_commit_quiet,
        delay_max: options.max_delay,
        threshold_percent: options.track_threshold_percent,
        ..TrailOptions::default()
    };
    Trail::start(rt, pool, log.devices, log.geometry, start, trail_options)
}

impl Engine {
    /// Starts the work of an open store in the background.
    fn start(shared: Rc<Shared>, superblock: Superblock, recovery: RecoveryReport) -> Self {
        let rt = shared.rt.clone();
        let read_only = shared.options.read_only;
        let write_back = Rc::new(WriteBack::new(&shared));
        if !read_only {
            write_back.start();
            // The log may fail while nobody waits for it.
            let log = shared.clone();
            rt.spawn(async move {
                if let Some(error) = log.trail.failure().await {
                    log.fail(error.into());
                }
            });
        }
        let checkpoint_every = shared.options.checkpoint_every;
        let engine = Engine(Rc::new(Inner {
            shared,
            write_back,
            superblock: RefCell::new(superblock),
            counters: Counters::default(),
            checkpointed: Cell::new(Lsn(0)),
            growth: Semaphore::new(&rt, 1),
            recovery,
            archived: Archived::none(&rt),
        }));
        if !read_only {
            Sink::install(&engine.0);
        }
        if let Some(interval) = checkpoint_every.filter(|_| !read_only) {
            rt.spawn(engine.clone().checkpoint_loop(interval));
        }
        engine
    }
}
