//! Keeps the descriptor of an array on its members and on the primary member of the store.
//!
//! Invariants:
//! 1. A save has the next generation. It goes to the members in use first, and to the primary member last. It has taken
//!    effect when the primary member has it durably; a power cut before that leaves the state before.
//! 2. A save goes to one pair of the four copies on each device first, at its front or at its end, and to the other pair when
//!    the first one is durable.
//!    The first pair is the one that was written last, or the one that lacked the newest descriptor at the opening: it may be
//!    torn. So a torn save leaves a whole copy of the state before, also when it repeats one that was torn or that failed
//!    at either pair. When it has ended, all four copies have it, and damage to two of them does not bring an older state back.
//! 3. A save that too few members could take does not reach the primary member. Otherwise members that have all data
//!    would count as stale. [`Keeper::save_on_all`] needs every member that is there.
//!    A save that any of them could not take does not reach it either: the next save names the member as missing. Before
//!    that the member would count as stale, and an array that was not closed in order would not open with it.
//! 4. When the primary member cannot be written, no later save is tried: what it holds is not known.

use crate::superblocks::MemberDevice;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::raid::{
    MemberState, MemberStatus, Raid5State, RaidError, Saving, StateSink, Trouble,
};
use tonearm_device::{Device, DeviceIo, Events, StoreEvent};
use tonearm_format::{
    ArrayDescriptor, ArrayMember, ArrayMissing, SUPERBLOCK_SLOTS, array_offset, trailer_offset,
};
use tonearm_rt::{Data, IoError, Op, Rt};

/// The members of an array, and the descriptor that was saved last.
pub(super) struct Keeper {
    pool: BufPool,
    primary: MemberDevice,
    descriptor: RefCell<ArrayDescriptor>,
    /// The whole devices of the members in use.
    members: RefCell<Vec<Option<MemberDevice>>>,
    /// Why a member was not taken at the opening.
    troubles: RefCell<Vec<Option<Trouble>>>,
    pairs: Pairs,
    failed: Cell<Option<IoError>>,
    events: Events,
}

/// The first slots that had the newest descriptor at the opening.
#[derive(Clone)]
pub(super) struct Newest {
    /// That of the primary member.
    pub primary: u64,
    /// Those of the members.
    pub members: Vec<u64>,
}

/// The first slot of the pair on each device that may be torn. A save begins with it.
struct Pairs {
    primary: Cell<u64>,
    members: Vec<Cell<u64>>,
}

impl From<Newest> for Pairs {
    fn from(newest: Newest) -> Self {
        let torn = |newest: u64| Cell::new(other_pair(newest / 2 * 2));
        Self {
            primary: torn(newest.primary),
            members: newest.members.into_iter().map(torn).collect(),
        }
    }
}

/// Why a save has not taken effect.
pub(super) struct Unsaved {
    /// The member that could not be written; `None` for the primary member.
    pub member: Option<usize>,
    /// Its path.
    pub device: String,
    /// What it said.
    pub error: IoError,
}

impl Keeper {
    pub fn new(
        rt: &Rt,
        pool: &BufPool,
        primary: MemberDevice,
        descriptor: ArrayDescriptor,
        members: Vec<Option<MemberDevice>>,
        troubles: Vec<Option<Trouble>>,
        newest: Newest,
    ) -> Self {
        Self {
            pool: pool.clone(),
            primary,
            descriptor: RefCell::new(descriptor),
            members: RefCell::new(members),
            troubles: RefCell::new(troubles),
            pairs: newest.into(),
            failed: Cell::new(None),
            events: Events::new(rt),
        }
    }

    pub fn descriptor(&self) -> ArrayDescriptor {
        self.descriptor.borrow().clone()
    }

    /// What happens to the members, and to the store that is opened over the array.
    pub fn events(&self) -> Events {
        self.events.clone()
    }

    /// True when `device` is a member in use.
    pub fn uses(&self, device: &MemberDevice) -> bool {
        let members = self.members.borrow();
        let mut members = members.iter().flatten();
        members.any(|member| Rc::ptr_eq(&member.device, &device.device))
    }

    /// Path of a member, for messages.
    pub fn name(&self, index: usize) -> String {
        match &self.members.borrow()[index] {
            Some(member) => member.path.clone(),
            None => self.descriptor.borrow().members[index].path.clone(),
        }
    }

    /// Name, state and trouble of each member. `failures` are those since the opening.
    pub fn describe(
        &self,
        states: Vec<MemberState>,
        failures: &[Option<IoError>],
    ) -> Vec<MemberStatus> {
        let troubles = self.troubles.borrow();
        let status = |(index, state): (usize, MemberState)| {
            let failed = failures.get(index).copied().flatten();
            // The member with whose failure the array was lost has failed, too.
            let state = match failed {
                Some(_) => MemberState::Missing,
                None => state,
            };
            let trouble = match failed {
                Some(error) => Some(Trouble::Failed(error)),
                None => troubles[index].clone(),
            };
            MemberStatus {
                name: self.name(index),
                state,
                trouble: trouble.filter(|_| state == MemberState::Missing),
            }
        };
        states.into_iter().enumerate().map(status).collect()
    }

    /// Takes a replacement; the next save makes it durable.
    pub fn put(&self, index: usize, device: MemberDevice, member: ArrayMember) {
        self.members.borrow_mut()[index] = Some(device);
        self.troubles.borrow_mut()[index] = None;
        self.descriptor.borrow_mut().members[index] = member;
    }

    /// Gives back the devices of members that are not used any more, so that an administrator can take a drive out, or a
    /// drive that has failed for a moment may replace itself.
    fn release_all_but(&self, present: &[bool]) {
        let mut members = self.members.borrow_mut();
        for (member, present) in members.iter_mut().zip(present) {
            if let Some(member) = member.take_if(|_| !present) {
                member.device.release();
            }
        }
    }

    /// The member is not used any more, for this reason.
    pub fn drop_member(&self, index: usize, why: Trouble) {
        self.members.borrow_mut()[index] = None;
        self.troubles.borrow_mut()[index] = Some(why);
    }

    /// Saves `changed` with the next generation. Returns the members on which it could not be saved. If there are any, the
    /// primary member is not written, and nothing is saved.
    ///
    /// # Errors
    /// When the primary member cannot be written, or the array cannot do without those on which it could not be saved.
    pub async fn save(
        &self,
        changed: ArrayDescriptor,
        present: &[bool],
    ) -> Result<Vec<(usize, IoError)>, Unsaved> {
        self.save_on(changed, present, false).await
    }

    /// Saves `changed` with the next generation on every member that is there.
    ///
    /// # Errors
    /// When one of them, or the primary member, cannot be written. What the primary member says has not changed if it
    /// was a member.
    pub async fn save_on_all(&self, changed: ArrayDescriptor) -> Result<(), Unsaved> {
        let present: Vec<bool> = self.members.borrow().iter().map(Option::is_some).collect();
        self.save_on(changed, &present, true).await.map(drop)
    }

    async fn save_on(
        &self,
        changed: ArrayDescriptor,
        present: &[bool],
        on_all: bool,
    ) -> Result<Vec<(usize, IoError)>, Unsaved> {
        let of_primary = |error| Unsaved {
            member: None,
            device: self.primary.path.clone(),
            error,
        };
        if let Some(error) = self.failed.get() {
            return Err(of_primary(error));
        }
        let next = ArrayDescriptor {
            generation: self.descriptor.borrow().generation + 1,
            own_index: None,
            ..changed
        };
        if next.check().is_err() {
            return Err(of_primary(IoError::EINVAL));
        }
        let unsaved = self.save_on_members(&next, present).await;
        if let Some((index, error)) = refusal(&next, &unsaved, on_all) {
            return Err(Unsaved {
                member: Some(index),
                device: self.name(index),
                error,
            });
        }
        if !unsaved.is_empty() {
            return Ok(unsaved);
        }
        let torn = &self.pairs.primary;
        for pair in [torn.get(), other_pair(torn.get())] {
            torn.set(pair);
            for write in self.write_pair(&self.primary.device, &next, pair) {
                if let (Err(error), _) = write.await {
                    self.failed.set(Some(error));
                    return Err(of_primary(error));
                }
            }
        }
        *self.descriptor.borrow_mut() = next;
        Ok(unsaved)
    }

    /// Writes `next` to the members that are `present`. Returns those on which it could not be saved.
    async fn save_on_members(
        &self,
        next: &ArrayDescriptor,
        present: &[bool],
    ) -> Vec<(usize, IoError)> {
        let in_use: Vec<(usize, Rc<dyn Device>)> = {
            let members = self.members.borrow();
            let members = members.iter().zip(present).enumerate();
            members
                .filter_map(|(index, (member, present))| Some((index, member.as_ref()?, present)))
                .filter(|(_, _, present)| **present)
                .map(|(index, member, _)| (index, member.device.clone()))
                .collect()
        };
        let mut unsaved: Vec<(usize, IoError)> = Vec::new();
        for is_first in [true, false] {
            let mut under_way = Vec::new();
            // The second pair of a member that has failed the first is its only whole copy.
            let is_good = |index: usize| unsaved.iter().all(|(other, _)| *other != index);
            for (index, device) in in_use.iter().filter(|(index, _)| is_good(*index)) {
                let own = ArrayDescriptor {
                    own_index: Some(*index as u16),
                    ..next.clone()
                };
                let torn = &self.pairs.members[*index];
                if !is_first {
                    torn.set(other_pair(torn.get()));
                }
                let writes = self.write_pair(device, &own, torn.get());
                under_way.extend(writes.into_iter().map(|write| (*index, write)));
            }
            for (index, write) in under_way {
                if let (Err(error), _) = write.await
                    && unsaved.iter().all(|(other, _)| *other != index)
                {
                    unsaved.push((index, error));
                }
            }
        }
        unsaved
    }

    /// Saves that an array without redundancy was closed in order.
    pub async fn save_clean(&self) -> Result<(), RaidError> {
        let clean = ArrayDescriptor {
            clean: true,
            ..self.descriptor()
        };
        let saved = self.save_on_all(clean).await;
        saved.map_err(|unsaved| RaidError::Array {
            array: unsaved.device,
            error: unsaved.error,
        })
    }

    fn write_pair(
        &self,
        device: &Rc<dyn Device>,
        descriptor: &ArrayDescriptor,
        pair: u64,
    ) -> Vec<DeviceIo> {
        let size = device.size_bytes();
        let own = ArrayDescriptor {
            trailer_offset: trailer_offset(size),
            ..descriptor.clone()
        };
        let bytes = own.encode();
        let write = |slot| {
            let data = Data::whole(self.pool.copy_of(&bytes));
            device.io(Op::WriteDurable, array_offset(slot, size), 0, data)
        };
        [pair, pair + 1].map(write).into()
    }
}

/// The member for which a save of `next` fails, if those that are `unsaved` are too many.
fn refusal(
    next: &ArrayDescriptor,
    unsaved: &[(usize, IoError)],
    on_all: bool,
) -> Option<(usize, IoError)> {
    if on_all {
        return unsaved.first().copied();
    }
    let missing = next.missing.map(|missing| usize::from(missing.member));
    let others = unsaved.iter().filter(|(index, _)| Some(*index) != missing);
    let lacking = others.clone().count() + usize::from(missing.is_some());
    let first = others.copied().next();
    first.filter(|_| lacking > next.level.spare_members())
}

/// The first slot of the other pair.
fn other_pair(pair: u64) -> u64 {
    (pair + 2) % SUPERBLOCK_SLOTS
}

/// The keeper as the place where an array keeps its state.
pub(super) struct Sink(pub Rc<Keeper>);

impl StateSink for Sink {
    fn save(&self, state: Raid5State, present: &[bool]) -> Saving {
        let (keeper, present) = (self.0.clone(), present.to_vec());
        let changed = ArrayDescriptor {
            clean: state.clean,
            missing: state.missing.map(|missing| {
                let replaced = present[missing.member];
                ArrayMissing {
                    member: missing.member as u16,
                    replaced,
                    rebuilt_rows: if replaced { missing.rebuilt_rows } else { 0 },
                }
            }),
            ..keeper.descriptor()
        };
        Box::pin(async move {
            let saved = keeper.save(changed, &present).await;
            let unsaved = saved.map_err(|unsaved| unsaved.error)?;
            keeper.release_all_but(&present);
            Ok(unsaved)
        })
    }

    fn note(&self, event: StoreEvent) {
        self.0.events.note(event);
    }
}
