//! The array of a store: RAID-0 or RAID-5 over files or devices that have no superblock of their own, but a descriptor.
//!
//! The engine sees a store of two members: the primary one with the log, and the array. The array is put together here
//! from its members, before the store is opened. Who belongs to it, and which member is missing, is in the descriptor
//! ([`tonearm_format::ArrayDescriptor`]). The copy on the primary member decides.
//!
//! Invariants ([decision 24](../../../docs/decisions/0024-the-state-of-an-array.md)):
//! 1. A member that lacks an acknowledged write is never used: the descriptor on the primary member says that it is
//!    missing before the write is acknowledged (`keeper.rs`).
//! 2. Each opening for writing and each change of the state has a generation of its own. The members in use save it
//!    before the primary member. So a member whose generation is lower than that of the primary member was away while
//!    the array was in use, and counts as missing (`open.rs`).
//! 3. A replacement has an identity of its own, so the member that it replaces is never taken for it. It may take its
//!    place while the array is in use. Nothing on it is overwritten before the failure of its predecessor is saved, and
//!    no save is under way when the identities change.
//! 4. An array that was not closed in order is not opened for writing without a member that had data then, unless the
//!    caller accepts the loss of blocks ([`ArrayAccess::WriteDegraded`]). Else the failure of such a member is not saved
//!    before the parity is corrected.

mod create;
mod keeper;
mod open;

pub use create::{ArrayParams, ArrayPlan, create_array, plan_array};
pub use open::{ArrayAccess, Candidate, load_descriptor, open_array};

use crate::create::clear_member;
use crate::superblocks::MemberDevice;
use keeper::Keeper;
use std::ops::Range;
use std::rc::Rc;
use tonearm_device::raid::{ArrayStatus, MemberState, Raid0, Raid5, RaidError, RebuildRate};
use tonearm_device::{
    ArrayFuture, Device, DeviceIo, DirtyRanges, Events, Known, OnProgress, Redundancy,
    RepairOutcome, Section,
};
use tonearm_format::{ArrayDescriptor, ArrayMember, HEADER_AREA_BYTES, PATH_MAX, Uuid};
use tonearm_rt::{Data, Op};

/// The array of an open store, as a device. Clones are handles of the same array.
#[derive(Clone)]
pub struct StoreArray(Rc<Inner>);

struct Inner {
    kind: Kind,
    keeper: Rc<Keeper>,
    name: String,
    read_only: bool,
}

enum Kind {
    Raid0(Raid0),
    Raid5(Raid5),
}

impl StoreArray {
    fn new(kind: Kind, keeper: Rc<Keeper>, access: ArrayAccess) -> Self {
        let name = name_of(&keeper.descriptor());
        Self(Rc::new(Inner {
            kind,
            keeper,
            name,
            read_only: access == ArrayAccess::Read,
        }))
    }

    fn device(&self) -> &dyn Device {
        match &self.0.kind {
            Kind::Raid0(array) => array,
            Kind::Raid5(array) => array,
        }
    }

    /// The array as a member of its store.
    pub fn member(&self) -> MemberDevice {
        MemberDevice::new(Rc::new(self.clone()))
    }

    /// True when `device` is a member in use.
    pub fn uses(&self, device: &MemberDevice) -> bool {
        self.0.keeper.uses(device)
    }

    /// What the descriptor says now.
    pub fn descriptor(&self) -> ArrayDescriptor {
        self.0.keeper.descriptor()
    }

    /// Puts `device` in the place of the missing member ([`Redundancy::replace`]).
    async fn run_replace(
        self,
        device: Rc<dyn Device>,
        path: String,
        uuid: Uuid,
    ) -> Result<(), RaidError> {
        let refuse = |why: String| RaidError::Replacement {
            member: device.name().to_string(),
            why,
        };
        if self.0.read_only {
            return Err(refuse("the store is open only for reading".into()));
        }
        let Kind::Raid5(array) = &self.0.kind else {
            return Err(refuse("raid0 has no redundancy to rebuild from".into()));
        };
        let Some(missing) = array.state().missing else {
            return Err(refuse("all members are in use".into()));
        };
        if array.is_rebuilding() {
            return Err(refuse(
                "the replacement in its place is being rebuilt; wait until that has ended".into(),
            ));
        }
        if path.len() > PATH_MAX {
            return Err(refuse(format!("its path has more than {PATH_MAX} bytes")));
        }
        let keeper = &self.0.keeper;
        let needed = keeper.descriptor().member_bytes();
        let found = device.size_bytes();
        if found < needed {
            return Err(refuse(format!(
                "it has {found} bytes of the {needed} that are needed"
            )));
        }
        let block = u64::from(device.block_size());
        if !HEADER_AREA_BYTES.is_multiple_of(block) || !needed.is_multiple_of(block) {
            return Err(refuse(format!(
                "its blocks of {block} bytes do not divide a member of {needed} bytes"
            )));
        }
        // The device may be the failed member itself. Until the failure is saved, an opening after a power cut needs it.
        array.save().await?;
        // What an earlier store or array has left there must not be found.
        // The flush keeps a power cut from bringing it back after the new descriptor.
        let cleared = match clear_member(&device, HEADER_AREA_BYTES, |_| {}).await {
            Ok(()) => device.flush().await,
            failed => failed,
        };
        cleared.map_err(|error| refuse(format!("its header area cannot be written: {error}")))?;
        if let MemberState::Rebuilding { .. } = array.member_states()[missing.member] {
            // The replacement that is being rebuilt is itself replaced.
            let failed = array.fail(missing.member).await;
            failed.map_err(|error| match error {
                RaidError::Unrecovered { .. } => refuse(
                    "after a crash the replacement that is being rebuilt is needed until the store has been opened; serve \
                     it once, or give --degraded"
                        .into(),
                ),
                error => error,
            })?;
        }
        let member = MemberDevice::new(device.clone());
        let section = section_of(&member, keeper.descriptor().stripes_end());
        let placed = || keeper.put(missing.member, member, ArrayMember { uuid, path });
        array.replace_and_save(section, placed).await?;
        match array.member_states()[missing.member] {
            MemberState::Missing => Err(refuse("its header area cannot be written".into())),
            _ => Ok(()),
        }
    }

    async fn run_rebuild(self, rate: RebuildRate, progress: OnProgress) -> Result<(), RaidError> {
        let Kind::Raid5(array) = &self.0.kind else {
            return Ok(());
        };
        if let Some(missing) = array.state().missing
            && array.member_states()[missing.member] == MemberState::Missing
        {
            return Err(RaidError::NoReplacement {
                member: self.0.keeper.name(missing.member),
            });
        }
        array.rebuild(&rate, progress).await
    }
}

/// The part of a member that holds stripes.
fn section_of(member: &MemberDevice, stripes_end: u64) -> Rc<dyn Device> {
    let range = HEADER_AREA_BYTES..stripes_end;
    Rc::new(Section::new(member.device.clone(), range))
}

/// The array's name in messages.
fn name_of(descriptor: &ArrayDescriptor) -> String {
    let paths: Vec<&str> = descriptor.members.iter().map(|m| m.path.as_str()).collect();
    format!("{} of {}", descriptor.level.name(), paths.join(", "))
}

impl Device for StoreArray {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn size_bytes(&self) -> u64 {
        self.device().size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.device().block_size()
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        self.device().io(op, offset, len, data)
    }

    fn redundancy(&self) -> Option<&dyn Redundancy> {
        Some(self)
    }
}

impl Redundancy for StoreArray {
    fn is_suspect(&self) -> bool {
        match &self.0.kind {
            Kind::Raid0(_) => false,
            Kind::Raid5(array) => array.is_suspect(),
        }
    }

    fn recover(&self, interrupted: DirtyRanges) -> ArrayFuture<()> {
        match &self.0.kind {
            Kind::Raid0(_) => Box::pin(std::future::ready(Ok(()))),
            Kind::Raid5(array) => array.recover(interrupted),
        }
    }

    fn close(&self) -> ArrayFuture<()> {
        let own = self.clone();
        Box::pin(async move {
            if own.0.read_only {
                return Ok(());
            }
            match &own.0.kind {
                Kind::Raid5(array) => array.close().await,
                Kind::Raid0(_) => own.0.keeper.save_clean().await,
            }
        })
    }

    fn stripe_bytes(&self) -> Option<u64> {
        match &self.0.kind {
            Kind::Raid0(_) => None,
            Kind::Raid5(array) => array.stripe_bytes(),
        }
    }

    fn status(&self) -> Option<ArrayStatus> {
        let descriptor = self.descriptor();
        let keeper = &self.0.keeper;
        Some(match &self.0.kind {
            Kind::Raid0(array) => ArrayStatus {
                level: descriptor.level,
                stripes: array.stripes(),
                member_bytes: descriptor.member_bytes(),
                members: keeper.describe(vec![MemberState::InUse; descriptor.members.len()], &[]),
                stats: Default::default(),
                lost: None,
            },
            Kind::Raid5(array) => ArrayStatus {
                level: descriptor.level,
                stripes: array.stripes(),
                member_bytes: descriptor.member_bytes(),
                members: keeper.describe(array.member_states(), &array.member_errors()),
                stats: array.stats(),
                lost: array.failure(),
            },
        })
    }

    fn events(&self) -> Option<Events> {
        Some(self.0.keeper.events())
    }

    fn resync(&self, progress: OnProgress) -> ArrayFuture<u64> {
        let own = self.clone();
        Box::pin(async move {
            match &own.0.kind {
                Kind::Raid0(_) => Ok(0),
                Kind::Raid5(array) => array.resync(progress).await,
            }
        })
    }

    fn compare(&self, range: Range<u64>) -> ArrayFuture<Vec<Range<u64>>> {
        match &self.0.kind {
            Kind::Raid0(array) => array.compare(range),
            Kind::Raid5(array) => array.compare(range),
        }
    }

    fn repair(&self, known: Vec<Known>, stripes: Range<u64>) -> ArrayFuture<RepairOutcome> {
        match &self.0.kind {
            Kind::Raid0(array) => array.repair(known, stripes),
            Kind::Raid5(array) => array.repair(known, stripes),
        }
    }

    fn replace(&self, device: Rc<dyn Device>, path: String, uuid: Uuid) -> ArrayFuture<()> {
        Box::pin(self.clone().run_replace(device, path, uuid))
    }

    fn rebuild(&self, rate: RebuildRate, progress: OnProgress) -> ArrayFuture<()> {
        Box::pin(self.clone().run_rebuild(rate, progress))
    }
}
