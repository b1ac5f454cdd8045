//! Small stores in simulated worlds: the log on drive 0, the home on drive 1.

#![allow(clippy::unwrap_used)]

use std::rc::Rc;
use tonearm_base::{BufPool, Lsn, Nanos};
use tonearm_device::RawDevice;
use tonearm_engine::{
    ArrayAccess, Candidate, CommitChange, CreateParams, Engine, EngineError, HomeParams,
    MemberDevice, MemberSpace, NewMember, OpenOptions, StoreArray, open_array, plan_create,
};
use tonearm_format::{Placement, Roles, SECTOR, SYSTEM_BLOCKS};
use tonearm_layout::Piece;
use tonearm_rt::{DeviceId, Rt};
use tonearm_world::{DiskImage, Fault, FaultKind, Place, SimOptions, SimWorld};

pub const BLOCK: usize = 4096;
/// The drive of the home.
pub const HOME: u32 = 1;
/// Members of an array.
pub const MEMBERS: usize = 3;

pub const SEGMENTS: HomeParams = placed(Placement::Append);

/// Small segments with this placement.
pub const fn placed(placement: Placement) -> HomeParams {
    HomeParams::Segments {
        segment_bytes: 64 << 10,
        spare_percent: 50,
        placement,
    }
}

/// A drive of the world of `rt`.
pub fn drive(rt: &Rt, index: usize, bytes: u64) -> MemberDevice {
    let path = format!("drive-{index}");
    let raw = RawDevice::new(rt, DeviceId(index as u32), bytes, SECTOR as u32, &path);
    MemberDevice::new(Rc::new(raw))
}

pub fn params(home: HomeParams) -> CreateParams {
    CreateParams {
        size_bytes: 4 << 20,
        log_bytes: Some(1 << 20),
        track_bytes: Some(64 << 10),
        block_size: BLOCK as u32,
        head: None,
        home,
        store: *b"simulated store!",
        created_unix_s: 0,
    }
}

pub fn space(index: u8, log: bool, data: bool) -> MemberSpace {
    MemberSpace {
        roles: Roles { log, data },
        available_bytes: None,
        uuid: [index; 16],
        path: format!("drive-{index}"),
    }
}

/// The drives of an empty store.
pub fn store(home: HomeParams) -> Vec<DiskImage> {
    store_of(
        &params(home),
        &[space(0, true, false), space(1, false, true)],
    )
}

/// The drives of an empty store with these members.
pub fn store_of(params: &CreateParams, members: &[MemberSpace]) -> Vec<DiskImage> {
    let plan = plan_create(params, members).unwrap();
    let disks = plan.member_bytes.iter().copied().map(DiskImage::new);
    let world = SimWorld::new(SimOptions::default(), disks.collect());
    let rt = Rt::new(world.driver());
    let own = rt.clone();
    rt.block_on(async move {
        let sizes = plan.member_bytes.iter().enumerate();
        let members =
            sizes.map(|(index, bytes)| NewMember::blank(drive(&own, index, *bytes).device));
        let members: Vec<NewMember> = members.collect();
        tonearm_engine::create(&own, &BufPool::new(0), &plan, &members, |_, _| {}).await
    })
    .unwrap();
    rt.shut_down();
    world.images()
}

/// An open store and its world.
pub struct Open {
    pub world: SimWorld,
    pub rt: Rt,
    pub engine: Engine,
}

/// The array of all `drives` but the first and the one that is `away`.
pub async fn opened(
    rt: &Rt,
    drives: &[MemberDevice],
    away: Option<usize>,
    access: ArrayAccess,
) -> Result<StoreArray, EngineError> {
    let members = drives.iter().enumerate().skip(1);
    let there = members.filter(|(index, _)| Some(*index) != away);
    let candidates = there.map(|(index, device)| Candidate {
        device: device.clone(),
        expected: Some((index - 1).min(MEMBERS - 1)),
    });
    let pool = BufPool::new(0);
    open_array(
        rt,
        &pool,
        &drives[0],
        candidates.collect(),
        Vec::new(),
        access,
    )
    .await
}

/// Opens the store of `drives`. More than two are a primary member and an array.
pub async fn open_store(
    rt: &Rt,
    mut drives: Vec<MemberDevice>,
    options: OpenOptions,
) -> Result<(Engine, Option<StoreArray>), EngineError> {
    let mut array = None;
    if drives.len() > 2 {
        let of_members = opened(rt, &drives, None, ArrayAccess::Write).await?;
        drives.truncate(1);
        drives.push(of_members.member());
        array = Some(of_members);
    }
    let pool = BufPool::new(1 << 20);
    let engine = Engine::open(rt, &pool, drives, options, |_| {}).await?;
    Ok((engine, array))
}

/// Does `work` on the open store of `disks`. Returns its result, and the world, in which the store was not closed.
pub fn run<T: 'static>(
    disks: &[DiskImage],
    options: OpenOptions,
    work: impl AsyncFnOnce(Open) -> T + 'static,
) -> (T, SimWorld) {
    let (result, world) = try_run(disks, options, work);
    (result.unwrap(), world)
}

/// As [`run`], with the error of the opening.
pub fn try_run<T: 'static>(
    disks: &[DiskImage],
    options: OpenOptions,
    work: impl AsyncFnOnce(Open) -> T + 'static,
) -> (Result<T, EngineError>, SimWorld) {
    in_world(disks, async move |world, rt: Rt, members| {
        let (engine, _) = open_store(&rt, members, options).await?;
        Ok(work(Open { world, rt, engine }).await)
    })
}

/// Does `work` with the drives of a new world. Returns its result, and the world.
pub fn in_world<T: 'static>(
    disks: &[DiskImage],
    work: impl AsyncFnOnce(SimWorld, Rt, Vec<MemberDevice>) -> T + 'static,
) -> (T, SimWorld) {
    with_drives(SimWorld::new(SimOptions::default(), disks.to_vec()), work)
}

/// Does `work` with the drives of `world`.
pub fn with_drives<T: 'static>(
    world: SimWorld,
    work: impl AsyncFnOnce(SimWorld, Rt, Vec<MemberDevice>) -> T + 'static,
) -> (T, SimWorld) {
    let rt = Rt::new(world.driver());
    let sizes: Vec<u64> = world.images().iter().map(|disk| disk.size).collect();
    let (own, drives) = (rt.clone(), world.clone());
    let result = rt.block_on(async move {
        let members = sizes.into_iter().enumerate();
        let members = members
            .map(|(index, bytes)| drive(&own, index, bytes))
            .collect();
        work(drives, own, members).await
    });
    rt.shut_down();
    (result, world)
}

/// Blocks from `first` on, each full of `byte`.
pub fn writes(first: u64, count: usize, byte: u8) -> CommitChange {
    let data = BufPool::new(0).copy_of(&vec![byte; count * BLOCK]).share();
    CommitChange::Write {
        first: SYSTEM_BLOCKS + first,
        data,
    }
}

pub fn trims(first: u64, count: u64) -> CommitChange {
    CommitChange::Trim {
        first: SYSTEM_BLOCKS + first,
        count,
    }
}

pub fn zeroes(first: u64, count: u64) -> CommitChange {
    CommitChange::Zero {
        first: SYSTEM_BLOCKS + first,
        count,
    }
}

pub async fn commit(engine: &Engine, changes: Vec<CommitChange>) -> Result<Lsn, EngineError> {
    let (mut blocks, mut ranges) = (0, 0);
    for change in &changes {
        match change {
            CommitChange::Write { data, .. } => blocks += (data.len() / BLOCK) as u64,
            _ => ranges += 1,
        }
    }
    let admission = engine.admit(blocks, ranges).await?;
    engine.commit(admission, changes)
}

/// The first byte of each block; all bytes of a block are equal.
pub async fn bytes(engine: &Engine, first: u64, count: u64) -> Result<Vec<u8>, EngineError> {
    let mut found = Vec::new();
    for piece in engine.read(SYSTEM_BLOCKS + first, count).await? {
        match piece {
            Piece::Data(data) => found.extend(data.chunks(BLOCK).map(|block| {
                assert!(block.iter().all(|byte| *byte == block[0]), "a torn block");
                block[0]
            })),
            Piece::Zero(bytes) => found.extend(vec![0; bytes / BLOCK]),
        }
    }
    Ok(found)
}

/// From now on requests to the drive of the home take so many times as long, until [`SimWorld::heal`].
pub fn slow(world: &SimWorld, times: u32) {
    world.strike(Fault {
        drive: HOME,
        after: 0,
        kind: FaultKind::Slow,
        place: Place::At(0),
        span: Nanos(0),
        times,
    });
}
