//! Arrays in simulated worlds.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{Buf, BufPool};
use tonearm_device::raid::{
    Missing, Raid5, Raid5Options, Raid5State, RaidError, Saving, StateSink,
};
use tonearm_device::{Device, DirtyRanges, RawDevice, Redundancy, StoreEvent};
use tonearm_rt::{Data, DeviceId, IoError, Op, Rt};
use tonearm_world::filters::{Counted, Effect, Fault, FaultPlan};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

/// Keeps the states of an array in memory, and what it notes.
#[derive(Clone, Default)]
pub struct Kept(
    pub Rc<RefCell<Vec<Raid5State>>>,
    Rc<RefCell<Vec<StoreEvent>>>,
);

impl Kept {
    pub fn last(&self) -> Raid5State {
        self.0.borrow().last().copied().unwrap_or_default()
    }

    pub fn events(&self) -> Vec<StoreEvent> {
        self.1.borrow().clone()
    }
}

impl StateSink for Kept {
    fn save(&self, state: Raid5State, _: &[bool]) -> Saving {
        self.0.borrow_mut().push(state);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn note(&self, event: StoreEvent) {
        self.1.borrow_mut().push(event);
    }
}

/// A world of equal devices.
pub struct World {
    pub world: SimWorld,
    pub rt: Rt,
    pub plans: Vec<FaultPlan>,
    pub counted: Vec<Rc<Counted>>,
    pub devices: Vec<Rc<dyn Device>>,
    pub kept: Kept,
}

pub const UNIT: u64 = 16 << 10;

impl World {
    pub fn new(seed: u64, devices: usize, bytes: u64) -> Self {
        Self::of(seed, vec![DiskImage::new(bytes); devices])
    }

    pub fn of(seed: u64, images: Vec<DiskImage>) -> Self {
        let options = SimOptions {
            seed,
            ..SimOptions::default()
        };
        let sizes: Vec<u64> = images.iter().map(|image| image.size).collect();
        let world = SimWorld::new(options, images);
        let rt = Rt::new(world.driver());
        let (mut plans, mut counted, mut devices) = (Vec::new(), Vec::new(), Vec::new());
        for (index, bytes) in sizes.into_iter().enumerate() {
            let name = format!("disk-{index}");
            let raw = RawDevice::new(&rt, DeviceId(index as u32), bytes, 512, &name);
            let plan = FaultPlan::new();
            let fault = Rc::new(Fault::new(Rc::new(raw), &plan));
            let device = Rc::new(Counted::new(fault));
            plans.push(plan);
            counted.push(device.clone());
            devices.push(device as Rc<dyn Device>);
        }
        Self {
            world,
            rt,
            plans,
            counted,
            devices,
            kept: Kept::default(),
        }
    }

    /// The first `members` devices.
    pub fn members(&self, members: usize) -> Vec<Option<Rc<dyn Device>>> {
        self.devices[..members].iter().cloned().map(Some).collect()
    }

    /// The same without `away`.
    pub fn members_without(
        &self,
        members: usize,
        away: Option<usize>,
    ) -> Vec<Option<Rc<dyn Device>>> {
        let mut given = self.members(members);
        if let Some(away) = away {
            given[away] = None;
        }
        given
    }

    /// An array of the first `members` devices. With `records`, the device after them takes parity records.
    pub fn open(
        &self,
        members: usize,
        unit: u64,
        state: Raid5State,
        records: bool,
    ) -> Result<Raid5, RaidError> {
        self.open_given(self.members(members), unit, state, records, false)
    }

    pub fn open_given(
        &self,
        given: Vec<Option<Rc<dyn Device>>>,
        unit: u64,
        state: Raid5State,
        records: bool,
        record_always: bool,
    ) -> Result<Raid5, RaidError> {
        let options = Raid5Options {
            record_always,
            ..options(unit, records.then(|| self.devices[given.len()].clone()))
        };
        let (rt, kept) = (self.rt.clone(), Rc::new(self.kept.clone()));
        let pool = BufPool::new(1 << 20);
        self.rt
            .block_on(async move { Raid5::open(&rt, &pool, given, options, state, kept).await })
    }

    /// Reads and writes of all members since the last call.
    pub fn ios(&self, members: usize) -> (u64, u64) {
        let of = |device: &Rc<Counted>| {
            let writes = [Op::Write, Op::WriteDurable].map(|op| device.count(op).started);
            (device.count(Op::Read).started, writes[0] + writes[1])
        };
        let all = self.counted[..members].iter().map(of);
        all.fold((0, 0), |sum, own| (sum.0 + own.0, sum.1 + own.1))
    }
}

/// Options of an array with this stripe unit, and its drive for parity records.
pub fn options(unit: u64, records: Option<Rc<dyn Device>>) -> Raid5Options {
    Raid5Options {
        name: "array".into(),
        id: [9; 16],
        unit,
        records,
        record_always: false,
        read_only: false,
        accept_loss: false,
    }
}

/// Corrects the parity of the stripes of `changed`, as after a cut while these ranges were written.
pub async fn recover(
    array: &Raid5,
    changed: impl IntoIterator<Item = Range<u64>>,
) -> Result<(), RaidError> {
    let (changed, zeroed) = (changed.into_iter().collect(), Vec::new());
    array.recover(DirtyRanges { changed, zeroed }).await
}

/// The same for the whole array.
pub async fn recover_all(array: &Raid5) -> Result<(), RaidError> {
    recover(array, std::iter::once(0..array.size_bytes())).await
}

pub const CLEAN: Raid5State = Raid5State {
    clean: true,
    missing: None,
};

/// A clean array without `member`.
pub fn without(member: usize) -> Raid5State {
    Raid5State {
        clean: true,
        missing: Some(Missing {
            member,
            rebuilt_rows: 0,
        }),
    }
}

pub fn pattern(len: usize, seed: u64) -> Buf {
    let mut buf = BufPool::new(0).alloc(len);
    let mut rng = Random(seed | 1);
    for chunk in buf.chunks_mut(8) {
        let value = rng.next().to_le_bytes();
        chunk.copy_from_slice(&value[..chunk.len()]);
    }
    buf
}

pub fn bytes(len: usize, seed: u64) -> Data {
    Data::whole(pattern(len, seed))
}

/// A small generator, the same on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }
}

/// The byte at `place` of a member cannot be read until it is written again.
pub fn bad_sector(plan: &FaultPlan, place: u64) {
    let mut healed = false;
    plan.on(
        move |access| {
            healed |= access.is_write() && access.touches(place);
            access.op == Op::Read && access.touches(place) && !healed
        },
        Effect::Fail(IoError::EIO),
    );
}

pub async fn read(device: &Rc<dyn Device>, offset: u64, len: usize) -> Buf {
    let buf = BufPool::new(0).alloc(len);
    device.read(offset, buf).await.unwrap()
}
