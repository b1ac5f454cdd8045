//! Opening a store: which members belong together, recovery if it was not shut down in order, and the
//! superblock of the new epoch.

use crate::MemberDevice;
use crate::engine::{Counters, Engine, Inner, OpenOptions, State};
use crate::error::EngineError;
use crate::log_drives::LogDrives;
use crate::ordered::Ordered;
use crate::images::Images;
use crate::pinned::Pinned;
use crate::recovery::Recovery;
use crate::redundancy::Footprint;
use crate::superblocks::{self, UnreadableSlot};
use crate::throttle::Throttle;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tonearm_base::{BufPool, Lsn, Nanos};
use tonearm_device::{Device, FlushFence};
use tonearm_format::{State as StoreState, Superblock};
use tonearm_layout::layouts;
use tonearm_rt::{Boxed, Notify, Rt, Semaphore};
use tonearm_trail::{Case, GivenUp, Trail, TrailOptions, TrailStart, WriteCache};

/// What recovery is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Reading the log: tracks done and expected.
    Replay {
        /// Tracks read.
        done: u64,
        /// Tracks to read.
        total: u64,
    },
    /// Writing home: blocks left.
    WriteBack {
        /// Blocks left.
        left: u64,
    },
}

/// What happened at the opening.
#[derive(Clone, Debug, Default)]
pub struct RecoveryReport {
    /// The store had been shut down in order.
    pub clean: bool,
    /// Superblock slots that could not be read. Opening for writing has written them anew.
    pub unreadable: Vec<UnreadableSlot>,
    /// Tracks read to find the youngest record.
    pub search_tracks: u64,
    /// Tracks read to replay.
    pub replay_tracks: u64,
    /// Records replayed.
    pub records: u64,
    /// Commits recovered.
    pub commits: u64,
    /// Records behind a hole of the ragged tail, dropped.
    pub discarded_records: u64,
    /// What was given up of a damaged log ([`OpenOptions::give_up_damaged_log`]).
    pub given_up: Option<GivenUp>,
    /// Where the log ended, in the words of recovery's decision table.
    pub end: String,
    /// Blocks that are pinned after it.
    pub pinned_blocks: u64,
    /// Time from the first read to the new superblock.
    pub duration: Nanos,
}

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
        Self::opened(rt, pool, members, options, &mut progress).await
    }

    fn opened<'a>(
        rt: &'a Rt,
        pool: &'a BufPool,
        members: Vec<MemberDevice>,
        options: OpenOptions,
        progress: &'a mut dyn FnMut(Progress),
    ) -> Boxed<'a, Result<Engine, EngineError>> {
        Box::pin(Self::recover_and_start(
            rt, pool, members, options, progress,
        ))
    }

    async fn recover_and_start(
        rt: &Rt,
        pool: &BufPool,
        members: Vec<MemberDevice>,
        options: OpenOptions,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Engine, EngineError> {
        let started = rt.now();
        let Assembled {
            mut superblock,
            mut devices,
            unreadable,
        } = assemble(pool, members).await?;
        if options.write_cache == WriteCache::Ordered {
            let ordered = |device| Rc::new(Ordered(device)) as Rc<dyn Device>;
            devices = devices.into_iter().map(ordered).collect();
        }
        if options.grow_blocks > 0 {
            let (larger, index, needed) = layouts::grown(&superblock, options.grow_blocks)?;
            let found = devices[index].size_bytes();
            if found < needed {
                let member = devices[index].name().to_string();
                return Err(EngineError::Truncated {
                    member,
                    found,
                    needed,
                });
            }
            superblock = larger;
        }
        let cache = options.map_cache_bytes;
        let home = layouts::open(rt, pool, &superblock, &devices, cache, options.read_only).await?;
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
        report.pinned_blocks = pinned.borrow().block_count() as u64;
        if !options.read_only {
            let footprint = footprint.into_inner();
            footprint.recover(&superblock, &devices, &*home).await?;
            superblock.epoch += 1;
            superblock.generation += 1;
            superblock.state = StoreState::Open;
            superblock.log = log;
            let flush = options.write_cache == WriteCache::Volatile;
            superblocks::store(pool, &devices, &superblock, flush).await?;
        }
        let start = TrailStart {
            epoch: superblock.epoch,
            state: log,
            live,
            heads: log_drives.heads(),
        };
        let trail_options = TrailOptions {
            write_cache: options.write_cache,
            linger: options.linger,
            ..TrailOptions::default()
        };
        let LogDrives {
            devices: log_devices,
            geometry,
            ..
        } = log_drives;
        let trail = Trail::start(rt, pool, log_devices, geometry, start, trail_options);
        let pinned = pinned.into_inner();
        pinned.hold_all(&trail);
        trail.advance();
        report.duration = rt.now().since(started);
        let pinned_since = (!pinned.is_empty()).then(|| rt.now());
        let engine = Engine(Rc::new(Inner {
            rt: rt.clone(),
            pool: pool.clone(),
            shape: home.shape(),
            home,
            trail,
            members: devices,
            options,
            memory,
            throttle: Throttle::default(),
            state: RefCell::new(State {
                pinned,
                cursor: 0,
                queue: VecDeque::new(),
                reads: BTreeMap::new(),
                next_read: 0,
                failed: None,
                no_space: false,
                full: None,
                last_trim: Lsn(0),
                pinned_since,
                draining: 0,
                spilling: Vec::new(),
                round_under_way: false,
                superblock,
                closing: false,
                closed: false,
            }),
            work: Notify::new(rt),
            idle: Notify::new(rt),
            rounds: Notify::new(rt),
            refusals: Notify::new(rt),
            counters: Counters::default(),
            recovery: report,
        }));
        if !engine.0.options.read_only {
            engine.start_write_back();
        }
        Ok(engine)
    }
}

/// A store whose members belong together.
pub(crate) struct Assembled {
    /// The superblock that counts.
    pub superblock: Superblock,
    /// The members in the store's order.
    pub devices: Vec<Rc<dyn Device>>,
    /// Superblock slots that could not be read.
    pub unreadable: Vec<UnreadableSlot>,
}

/// Brings the members into the store's order and checks that they belong together.
pub(crate) async fn assemble(
    pool: &BufPool,
    members: Vec<MemberDevice>,
) -> Result<Assembled, EngineError> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for member in members {
        let loaded = superblocks::load(pool, &member).await?;
        unreadable.extend(loaded.unreadable_slots);
        found.push((member, loaded.superblock));
    }
    let wrong = |member: &MemberDevice, why: String| EngineError::WrongMember {
        member: member.path.clone(),
        why,
    };
    let (primary, first) = found
        .first()
        .ok_or(EngineError::Create("no member was given".into()))?;
    let (store, count) = (first.store, first.members.len());
    let mut ordered: Vec<Option<(MemberDevice, Superblock)>> = (0..count).map(|_| None).collect();
    let names: Vec<String> = first
        .members
        .iter()
        .map(|member| member.path.clone())
        .collect();
    let primary = primary.path.clone();
    for (member, superblock) in found {
        if superblock.store != store {
            let why = format!(
                "is a member of another store than {primary}; name the right file with --member"
            );
            return Err(wrong(&member, why));
        }
        let index = usize::from(superblock.member_index);
        match ordered.get_mut(index) {
            Some(slot @ None) => *slot = Some((member, superblock)),
            _ => {
                return Err(wrong(
                    &member,
                    format!("member {index} of the store was given twice"),
                ));
            }
        }
    }
    let mut members = Vec::new();
    for (index, slot) in ordered.into_iter().enumerate() {
        match slot {
            Some(pair) => members.push(pair),
            None => {
                return Err(EngineError::WrongMember {
                    member: names[index].clone(),
                    why: format!(
                        "member {index} of the store is missing; name its place with --member"
                    ),
                });
            }
        }
    }
    let log_index = usize::from(members[0].1.log_member);
    let log = members[log_index].1.clone();
    for (member, superblock) in &members {
        // The data members are written first, so they may be one update ahead, never behind.
        let ahead = superblock.generation.checked_sub(log.generation);
        if !matches!(ahead, Some(0 | 1)) {
            let why = format!(
                "was not in use together with the rest of the store (update {}, the log has {}): \
                 it is an old copy, or the others are; restore members of one moment",
                superblock.generation, log.generation
            );
            return Err(wrong(member, why));
        }
        check_size(member, superblock, usize::from(superblock.member_index))?;
    }
    // The log member's superblock counts. A data member that is ahead has seen an update that never reached
    // the log member: the next update takes the same number and replaces it.
    let fenced = |device| Rc::new(FlushFence::new(device)) as Rc<dyn Device>;
    let devices = members.into_iter();
    let devices = devices.map(|(member, _)| fenced(member.device));
    Ok(Assembled {
        superblock: log,
        devices: devices.collect(),
        unreadable,
    })
}

fn check_size(
    member: &MemberDevice,
    superblock: &Superblock,
    index: usize,
) -> Result<(), EngineError> {
    let entry = &superblock.members[index];
    let mut needed = tonearm_format::HEADER_AREA_BYTES;
    needed = needed.max(superblock.log_range(index).end);
    if entry.roles.data {
        needed = needed.max(superblock.data_end(index));
    }
    let found = member.device.size_bytes();
    if found < needed {
        return Err(EngineError::Truncated {
            member: member.path.clone(),
            found,
            needed,
        });
    }
    Ok(())
}

pub(crate) fn describe(case: Case) -> &'static str {
    match case {
        Case::Replay | Case::AbandonedCommit => "under way",
        Case::End => "end of the log",
        Case::RaggedTail => "ragged tail: records behind a hole were never durable and are dropped",
        Case::DamagedBeforeTail | Case::DamagedProven => {
            "damage: durable records behind it were given up"
        }
        Case::Unreadable => "unreadable place: records behind it were given up",
        Case::BrokenCommit => "records that do not fit together: given up",
    }
}
