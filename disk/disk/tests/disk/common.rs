//! Small stores in simulated worlds.

#![allow(clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use tonearm_base::BufPool;
use tonearm_device::RawDevice;
use tonearm_disk::{
    CreateParams, CreatePlan, Disk, DiskError, HomeParams, MemberDevice, MemberSpace, NewMember,
    OpenOptions, Piece, Scrub, plan_create,
};
use tonearm_format::{Placement, SECTOR};
use tonearm_rt::{DeviceId, Rt};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

pub const BLOCK: usize = 4096;

fn raw(rt: &Rt, bytes: u64) -> Rc<RawDevice> {
    Rc::new(RawDevice::new(
        rt,
        DeviceId(0),
        bytes,
        SECTOR as u32,
        "member",
    ))
}

/// An empty store with `bytes` for volumes, of which `main` has one block.
pub fn store(bytes: u64) -> DiskImage {
    made(bytes, 2 << 20, HomeParams::default(), false)
}

/// As [`store`], with a log of `log_bytes`, and with half of the segments to spare in the segments layout.
pub fn with_log(bytes: u64, log_bytes: u64, segments: bool) -> DiskImage {
    let home = match segments {
        true => with_spare(50),
        false => HomeParams::Overwrite,
    };
    made(bytes, log_bytes, home, false)
}

fn with_spare(spare_percent: u64) -> HomeParams {
    HomeParams::Segments {
        segment_bytes: 64 << 10,
        spare_percent,
        placement: Placement::Append,
    }
}

/// A store of the segments layout, with 15 % of the segments to spare.
pub fn segments(bytes: u64) -> DiskImage {
    made(bytes, 16 << 20, with_spare(15), false)
}

/// A store of the segments layout whose segments would hold all its blocks, with none to spare.
pub fn short_of_segments(bytes: u64) -> DiskImage {
    made(bytes, 2 << 20, with_spare(5), true)
}

fn made(bytes: u64, log_bytes: u64, home: HomeParams, short: bool) -> DiskImage {
    let mut plan = planned(bytes, log_bytes, home);
    if let (true, Some(layout)) = (short, plan.superblock.segments()) {
        let blocks = plan.superblock.size_blocks;
        plan.superblock.members[0].groups = blocks.div_ceil(layout.payload_blocks());
    }
    let world = SimWorld::new(
        SimOptions::default(),
        vec![DiskImage::new(plan.member_bytes[0])],
    );
    create(&world, plan, false);
    world.images().remove(0)
}

/// A store on one member.
pub fn planned(bytes: u64, log_bytes: u64, home: HomeParams) -> CreatePlan {
    let params = CreateParams {
        log_bytes: Some(log_bytes),
        track_bytes: Some(64 << 10),
        home,
        ..CreateParams::new(bytes, *b"simulated store!")
    };
    plan_create(&params, &[MemberSpace::alone([1; 16])]).unwrap()
}

/// Makes the store of `plan` on the drive of `world`, where the log's part was written before or not.
pub fn create(world: &SimWorld, plan: CreatePlan, log_written: bool) {
    let rt = Rt::new(world.driver());
    let own = rt.clone();
    rt.block_on(async move {
        let (pool, main) = (BufPool::new(1 << 20), BLOCK as u64);
        let member = NewMember {
            device: raw(&own, plan.member_bytes[0]),
            blank: true,
            log_written,
        };
        tonearm_disk::create(&own, &pool, &plan, vec![member], main, [2; 16], |_, _| {})
            .await
            .unwrap();
    });
    rt.shut_down();
}

/// Opens the store of `image`, does `work`, and closes it in order; the result, and the closed store.
pub fn with<T: 'static>(
    image: &DiskImage,
    options: OpenOptions,
    work: impl AsyncFnOnce(Disk) -> T + 'static,
) -> (T, DiskImage) {
    let sim = SimOptions::default();
    with_rt(image, options, sim, async move |_, disk| work(disk).await)
}

/// As [`with`], on the drive of `sim`, for work that has tasks of its own.
pub fn with_rt<T: 'static>(
    image: &DiskImage,
    options: OpenOptions,
    sim: SimOptions,
    work: impl AsyncFnOnce(Rt, Disk) -> T + 'static,
) -> (T, DiskImage) {
    let sim = SimOptions { seed: 1, ..sim };
    in_sim(image, sim, options, async move |open: Open| {
        let result = work(open.rt, open.disk.clone()).await;
        open.disk.close().await.unwrap();
        result
    })
}

/// Does `work` on the open store, and cuts the power at each step of its I/O: what the drive holds then, and the
/// number that `work` had acknowledged.
pub fn cuts(
    image: &DiskImage,
    seed: u64,
    work: impl AsyncFnOnce(Disk, Rc<Cell<u64>>) + 'static,
) -> Vec<(DiskImage, u64)> {
    let sim = SimOptions {
        seed,
        ..SimOptions::default()
    };
    let cut = async move |Open { world, disk, .. }: Open| {
        let left = Rc::new(RefCell::new(Vec::new()));
        let acknowledged = Rc::new(Cell::new(0));
        let (found, now) = (left.clone(), acknowledged.clone());
        world.on_io(move |number, crash| {
            let image = crash.images(seed << 32 | number).remove(0);
            found.borrow_mut().push((image, now.get()));
        });
        work(disk, acknowledged).await;
        world.clear_hook();
        left.take()
    };
    in_sim(image, sim, OpenOptions::default(), cut).0
}

/// Does `work` on the open store and cuts the power, or closes the store in order if it says so; the result, and
/// what the drive holds then.
pub fn live<T: 'static>(
    image: &DiskImage,
    seed: u64,
    options: OpenOptions,
    work: impl AsyncFnOnce(Disk) -> (T, bool) + 'static,
) -> (T, DiskImage) {
    let sim = SimOptions {
        seed,
        ..SimOptions::default()
    };
    let lived = async move |open: Open| {
        let (result, orderly) = work(open.disk.clone()).await;
        if orderly {
            open.disk.close().await.unwrap();
        }
        (result, open.world.crash().images(seed).remove(0))
    };
    in_sim(image, sim, options, lived).0
}

/// An open store and the world in which it is.
pub struct Open {
    pub world: SimWorld,
    pub rt: Rt,
    /// The pool of the store's buffers.
    pub pool: BufPool,
    pub disk: Disk,
}

/// Does `work` on the open store of `image`, which may close it; the result, and what the drive holds then.
pub fn in_world<T: 'static>(
    image: &DiskImage,
    options: OpenOptions,
    work: impl AsyncFnOnce(Open) -> T + 'static,
) -> (T, DiskImage) {
    in_sim(image, SimOptions::default(), options, work)
}

fn in_sim<T: 'static>(
    image: &DiskImage,
    sim: SimOptions,
    options: OpenOptions,
    work: impl AsyncFnOnce(Open) -> T + 'static,
) -> (T, DiskImage) {
    let size = image.size;
    let world = SimWorld::new(sim, vec![image.clone()]);
    let rt = Rt::new(world.driver());
    let (own, drives) = (rt.clone(), world.clone());
    let result = rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let disk = open(&own, &pool, size, options).await.unwrap();
        let open = Open {
            world: drives,
            rt: own,
            pool,
            disk,
        };
        work(open).await
    });
    let image = world.images().remove(0);
    rt.shut_down();
    (result, image)
}

async fn open(rt: &Rt, pool: &BufPool, size: u64, options: OpenOptions) -> Result<Disk, DiskError> {
    let member = MemberDevice {
        device: raw(rt, size),
        path: "member".into(),
    };
    Disk::open(rt, pool, vec![member], options, |_| {}).await
}

/// [`with`] on a store of 8 MiB with the usual options.
pub fn on_disk(work: impl AsyncFnOnce(Disk) + 'static) -> DiskImage {
    with(&store(8 << 20), OpenOptions::default(), work).1
}

/// A scrub finds no damage.
pub async fn assert_sound(disk: &Disk) {
    let report = disk.scrub(Scrub::Repair, |_, _| true).await.unwrap();
    assert!(report.is_sound(), "{report:?}");
}

/// The bytes of `pieces`.
pub fn bytes(pieces: Vec<Piece>) -> Vec<u8> {
    Piece::concat(&pieces)
}

/// Begins to wait for `work`, which must have to wait.
pub async fn begun(work: &mut (impl Future + Unpin)) {
    let polled = poll_fn(|context| Poll::Ready(Pin::new(&mut *work).poll(context).is_pending()));
    assert!(polled.await, "it waits for the drive");
}
