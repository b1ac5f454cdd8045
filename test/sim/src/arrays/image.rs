//! Stores over arrays on simulated drives: the primary member, the members of the array, and one drive more that may
//! replace a member.

use crate::store::{Image, Shape};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::raid::{ArrayStatus, MemberState};
use tonearm_device::{RawDevice, Redundancy};
use tonearm_engine::{
    ArrayAccess, ArrayParams, Candidate, Engine, EngineError, MemberDevice, MemberSpace, NewMember,
    OpenOptions, StoreArray, create_array, open_array, plan_array,
};
use tonearm_format::{ArrayLevel, Roles};
use tonearm_rt::{DeviceId, Rt};
use tonearm_world::DiskImage;

/// Layout of a simulated store over an array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArrayShape {
    /// The store. Its log is on the primary member, and all of its blocks are on the array.
    pub store: Shape,
    /// RAID-0 or RAID-5.
    pub level: ArrayLevel,
    /// Number of members.
    pub members: usize,
    /// Bytes of a stripe unit.
    pub stripe_bytes: u64,
}

/// The drives of a store over an array: the primary member, those that were the members of the new array, and the spare one.
pub type ArrayImage = Image<ArrayShape>;

/// An open store over an array.
#[derive(Clone)]
pub struct OpenArray {
    /// The store.
    pub engine: Engine,
    /// The array.
    pub array: StoreArray,
}

impl ArrayShape {
    /// Creates an empty store.
    ///
    /// # Panics
    /// When the shape is invalid.
    pub fn create(&self) -> ArrayImage {
        let space = |index: usize| MemberSpace {
            roles: Roles::default(),
            available_bytes: None,
            uuid: [index as u8; 16],
            path: path_of(index),
        };
        let of_array = ArrayParams {
            level: self.level,
            stripe_bytes: self.stripe_bytes,
            uuid: [99; 16],
        };
        let members: Vec<MemberSpace> = (1..=self.members).map(space).collect();
        let (of_store, of_array) = plan_array(&self.store.params(), &of_array, &space(0), &members)
            .expect("an array can be planned");
        let mut disks = vec![DiskImage::new(of_array.primary_bytes)];
        disks.resize(self.members + 2, DiskImage::new(of_array.member_bytes));
        let shape = *self;
        let image = ArrayImage { shape, disks };
        let (made, world) = image.run(0, |_, rt, own| async move {
            let new = |index: usize| NewMember::blank(own.device(&rt, index).device);
            let members: Vec<NewMember> = (1..=shape.members).map(new).collect();
            let pool = BufPool::new(0);
            let made = create_array(&rt, &pool, &of_array, new(0), &members, |_, _| {}).await?;
            tonearm_engine::create(&rt, &pool, &of_store, &made, |_, _| {}).await
        });
        made.expect("an array can be made");
        image.with(world.images())
    }
}

/// The path of a drive, by which the descriptor names it.
fn path_of(drive: usize) -> String {
    format!("disk.{drive}")
}

/// The drive of a path.
pub(super) fn drive_of(path: &str) -> Option<usize> {
    path.strip_prefix("disk.")?.parse().ok()
}

impl ArrayImage {
    /// The drives of an array: all but the primary member's.
    pub fn drives(&self) -> std::ops::Range<usize> {
        1..self.disks.len()
    }

    /// The drive that is no member of a new array.
    pub fn spare(&self) -> usize {
        self.shape.members + 1
    }

    /// A drive in the world of `rt`.
    pub fn device(&self, rt: &Rt, drive: usize) -> MemberDevice {
        let (id, bytes) = (DeviceId(drive as u32), self.disks[drive].size);
        let device = RawDevice::new(rt, id, bytes, 512, &path_of(drive));
        MemberDevice::new(Rc::new(device))
    }

    /// The array of the drives that are not `away`, which are offered in descending order.
    ///
    /// # Errors
    /// The errors of the engine.
    pub async fn array(
        &self,
        rt: &Rt,
        away: &[usize],
        access: ArrayAccess,
    ) -> Result<StoreArray, EngineError> {
        let there = self.drives().rev().filter(|drive| !away.contains(drive));
        let candidates = there.map(|drive| Candidate {
            device: self.device(rt, drive),
            // Each is known by its identity. A drive that is no member is no error where a member may be.
            expected: Some(drive % self.shape.members),
        });
        let (pool, primary) = (BufPool::new(1 << 20), self.device(rt, 0));
        let candidates = candidates.collect();
        open_array(rt, &pool, &primary, candidates, Vec::new(), access).await
    }

    /// Opens the store without the drives that are `away`.
    ///
    /// # Errors
    /// The errors of the engine.
    pub async fn open(
        &self,
        rt: &Rt,
        away: &[usize],
        options: OpenOptions,
    ) -> Result<OpenArray, EngineError> {
        let access = match options.read_only {
            true => ArrayAccess::Read,
            false => ArrayAccess::Write,
        };
        let array = self.array(rt, away, access).await?;
        let members = vec![self.device(rt, 0), array.member()];
        let pool = BufPool::new(1 << 20);
        let engine = Engine::open(rt, &pool, members, options, |_| {}).await?;
        Ok(OpenArray { engine, array })
    }

    /// What an opening of all drives for reading says of the array, and whether it was closed in order.
    ///
    /// # Errors
    /// The errors of the engine.
    pub fn look(&self) -> Result<(ArrayStatus, bool), EngineError> {
        let (looked, _) = self.run(1, |_, rt, own| async move {
            let array = own.array(&rt, &[], ArrayAccess::Read).await?;
            let status = array.status().expect("an array has a status");
            Ok((status, array.descriptor().clean))
        });
        looked
    }

    /// The states of the members, with all drives there.
    ///
    /// # Panics
    /// When the array does not open for reading.
    pub fn states(&self) -> Vec<MemberState> {
        let (status, _) = self.look().expect("the array can be looked at");
        status
            .members
            .into_iter()
            .map(|member| member.state)
            .collect()
    }

    /// Puts `drive` in the place of the missing member of `array`, with identity `uuid`.
    ///
    /// # Errors
    /// When it does not fit or fails.
    pub async fn replace(
        &self,
        rt: &Rt,
        array: &StoreArray,
        drive: usize,
        uuid: [u8; 16],
    ) -> Result<(), tonearm_device::raid::RaidError> {
        array
            .replace(self.device(rt, drive).device, path_of(drive), uuid)
            .await
    }
}
