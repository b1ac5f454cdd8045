//! RAID-5: the array, its members and their health.
//!
//! Invariants:
//! 1. Code that reads parity, or changes data or parity, holds the stripe's lock (`locks.rs`).
//! 2. A failed member is never read again. A replacement is read only below the rebuild's watermark. With two members
//!    gone nothing is computed any more: the result is [`ARRAY_LOST`], never wrong data.
//! 3. A write succeeds when data and parity are written, or when the one member that failed meanwhile is marked as
//!    failed and that state is saved.
//! 4. After an unclean start parity may differ from the data. No parity is computed from such parity: every update of
//!    a stripe reads the data that it leaves unchanged, until [`Redundancy::recover`] or [`Raid5::resync`] has
//!    corrected the parity. Until then no member may fail ([`RaidError::Unrecovered`]), and nothing but an unreadable
//!    sector is computed from parity, except where nothing is written at all. In a degraded stripe the parity cannot be
//!    compared. It is right by the parity records (`records.rs`), or the writer's log rewrites the data of the stripe.

use super::geometry::{RAID5_MEMBERS_MAX, Stripes, Unit};
use super::io::{Failed, min_size};
use super::locks::RowLocks;
use super::member::{GONE, Member};
use super::pending::Queue;
use super::records::Records;
use super::rows::RowSet;
use super::state::{ARRAY_LOST, MemberState, Missing, Raid5State, RaidError, RaidStats, StateSink};
#[cfg(doc)]
use crate::device::Redundancy;
use crate::device::{Device, DeviceIo};
use crate::events::StoreEvent;
use std::cell::{Cell, RefCell};
use std::ops::{Deref, Range};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_rt::{Data, IoError, Notify, Op, Rt, Semaphore};

/// Places that are named of those that were given up.
const PLACES_MAX: usize = 16;
/// Stripe updates of one array under way.
const JOBS_MAX: u64 = 256;

/// Options of an array.
#[derive(Clone)]
pub struct Raid5Options {
    /// Its name in messages.
    pub name: String,
    /// Its identity, in parity records.
    pub id: [u8; 16],
    /// Bytes of a stripe unit.
    pub unit: u64,
    /// A small device for parity records that fails independently of the members: 4096 bytes and a stripe unit for each
    /// update under way. Without it, a power cut of a degraded array can destroy blocks that were not being written.
    pub records: Option<Rc<dyn Device>>,
    /// Write nothing: no unreadable range is rewritten, and the sink is not called. The state must be clean, or what is
    /// read may be wrong where a crash interrupted writes to a degraded array.
    pub read_only: bool,
    /// Write records even while all members are there. Then a member that fails in a power cut costs no block either, for
    /// one more write to each small write.
    pub record_always: bool,
    /// Go on without a member that fails after a crash, before the parity is corrected: its blocks in stripes that were being
    /// written may be lost then. Otherwise such a failure ends the use of the array, and is not saved.
    pub accept_loss: bool,
}

/// A RAID-5 array. Clones are handles of the same array.
#[derive(Clone)]
pub struct Raid5(pub(super) Rc<Array>);

/// The state that all handles share.
pub struct Array {
    pub(super) rt: Rt,
    pub(super) pool: BufPool,
    pub(super) name: String,
    pub(super) stripes: Stripes,
    pub(super) block_size: u32,
    pub(super) locks: RowLocks,
    pub(super) jobs: Semaphore,
    pub(super) pending: Queue,
    pub(super) records: Option<Records>,
    pub(super) record_always: bool,
    pub(super) read_only: bool,
    accept_loss: bool,
    members: RefCell<Vec<Option<Rc<Member>>>>,
    names: RefCell<Vec<String>>,
    pub(super) health: RefCell<Health>,
    sink: Rc<dyn StateSink>,
    publishing: Semaphore,
    /// Updates of a part of a stripe that began with all members, and have no parity record.
    unguarded: Cell<u64>,
    unguarded_ended: Notify,
    /// A rebuild is running.
    pub(super) rebuilding: Cell<bool>,
    stats: Cell<RaidStats>,
    /// The first of the places that were given up.
    given_up: RefCell<Vec<Failed>>,
}

/// An update that a power cut could tear although a member is missing, because it began before the member failed. The
/// failure is saved when all of them have ended: until then the next opening takes the member for a good one.
pub(super) struct UnloggedUpdate(Rc<Array>);

impl Drop for UnloggedUpdate {
    fn drop(&mut self) {
        self.0.unguarded.set(self.0.unguarded.get() - 1);
        self.0.unguarded_ended.notify();
    }
}

pub(super) struct Health {
    pub state: Raid5State,
    /// The array does not know where a crash interrupted writes.
    pub suspect_anywhere: bool,
    /// Stripes whose parity may be stale.
    pub suspect: RowSet,
    /// Stripes that a refused write has changed in part.
    pub torn: RowSet,
    pub lost: Option<RaidError>,
    /// The first error of each member that has failed since the opening.
    failures: Vec<Option<IoError>>,
    /// Stripes of the replacement that a flush has made durable: the watermark that is saved.
    pub durable_rows: u64,
    /// The state that was saved last, with which the array opens after a crash.
    pub saved: Raid5State,
    /// Counts changes of `state`.
    pub version: u64,
    published: u64,
    /// A member has failed, and earlier writes may be only in the caches of the others.
    flush_wanted: bool,
}

impl Health {
    /// That of an array which opens with `state`; the one that was saved last is `before`.
    fn new(before: Raid5State, state: Raid5State, stripes: &Stripes) -> Self {
        Self {
            state,
            suspect_anywhere: !state.clean,
            suspect: if state.clean {
                RowSet::default()
            } else {
                RowSet::of(0..stripes.rows)
            },
            torn: RowSet::default(),
            lost: None,
            failures: vec![None; stripes.members],
            saved: state,
            durable_rows: state.missing.map_or(0, |missing| missing.rebuilt_rows),
            version: u64::from(state != before),
            published: 0,
            flush_wanted: false,
        }
    }
}

impl Deref for Raid5 {
    type Target = Array;
    fn deref(&self) -> &Array {
        &self.0
    }
}

impl Raid5 {
    /// Opens the array of `members`, in their order, with `None` for a missing one. `state` is the state that the sink
    /// saved last, or the default for new members; the parity of new members is right if they read as zeroes.
    ///
    /// # Errors
    /// When the members do not form an array, two of them are gone, or parity records cannot be read.
    pub async fn open(
        rt: &Rt,
        pool: &BufPool,
        mut members: Vec<Option<Rc<dyn Device>>>,
        options: Raid5Options,
        state: Raid5State,
        sink: Rc<dyn StateSink>,
    ) -> Result<Self, RaidError> {
        let count = members.len();
        if !(3..=RAID5_MEMBERS_MAX).contains(&count) {
            return Err(RaidError::Shape(format!(
                "it has {count} members; RAID-5 takes 3 to {RAID5_MEMBERS_MAX}"
            )));
        }
        let name_of = |index: usize, member: &Option<Rc<dyn Device>>| match member {
            Some(member) => member.name().to_string(),
            None => format!("member {index} of {}", options.name),
        };
        let names: Vec<String> = members
            .iter()
            .enumerate()
            .map(|(i, m)| name_of(i, m))
            .collect();
        let is_there: Vec<bool> = members.iter().map(Option::is_some).collect();
        let (before, state) = (state, state.at_opening(&is_there, &names)?);
        if let Some(missing) = state.missing.filter(|missing| missing.rebuilt_rows == 0) {
            // It may be the failed member itself, whose content is old.
            members[missing.member] = None;
        }
        let there = members.iter().flatten().map(|member| &**member);
        let (size, block_size) = min_size(there, count - 1, options.unit)?;
        let stripes = Stripes {
            members: count,
            unit: options.unit,
            rows: size / options.unit,
            parity: true,
        };
        let records = match options.records {
            Some(device) => Some(Records::new(rt, device, options.unit, options.id)?),
            None => None,
        };
        let in_use = |device: Option<Rc<dyn Device>>| device.map(Member::new);
        let array = Self(Rc::new(Array {
            rt: rt.clone(),
            pool: pool.clone(),
            name: options.name,
            stripes,
            block_size,
            locks: RowLocks::new(rt),
            jobs: Semaphore::new(rt, JOBS_MAX),
            pending: Queue::default(),
            records,
            record_always: options.record_always,
            read_only: options.read_only,
            accept_loss: options.accept_loss,
            members: RefCell::new(members.into_iter().map(in_use).collect()),
            names: RefCell::new(names),
            health: RefCell::new(Health::new(before, state, &stripes)),
            sink,
            publishing: Semaphore::new(rt, 1),
            unguarded: Cell::new(0),
            unguarded_ended: Notify::new(rt),
            rebuilding: Cell::default(),
            stats: Cell::default(),
            given_up: RefCell::default(),
        }));
        if !array.read_only {
            array.apply_records(!state.clean).await?;
        }
        Ok(array)
    }

    /// Corrects the stripes that refused writes have torn, makes all writes durable and saves a clean state. No write may
    /// be under way or follow.
    ///
    /// # Errors
    /// When the array has failed, a member still refuses the correction, or the state cannot be saved.
    pub async fn close(&self) -> Result<(), RaidError> {
        self.correct_left_stripes().await;
        let torn: Vec<Range<u64>> = self.health.borrow().torn.runs().collect();
        let repaired = self.repair_rows(torn.into_iter().flatten()).await;
        let done = repaired.and(self.flush().await);
        done.map_err(|error| self.error(error))?;
        {
            let mut health = self.health.borrow_mut();
            if !health.suspect.is_empty() {
                // Their parity may be wrong, and the next opening is to doubt it, too.
                return Ok(());
            }
            health.state.clean = true;
            health.version += 1;
        }
        let saved = self.publish().await;
        saved.map_err(|error| self.error(error))
    }

    /// Saves the present state, also if it is saved already.
    ///
    /// # Errors
    /// When it cannot be saved.
    pub async fn save(&self) -> Result<(), RaidError> {
        self.health.borrow_mut().version += 1;
        let saved = self.publish().await;
        saved.map_err(|error| self.error(error))
    }

    /// Notes that an update begins that has all members and no parity record. The caller drops the note when the writes
    /// have ended, before it waits for a save of the state.
    pub(super) fn unguarded(&self) -> UnloggedUpdate {
        self.unguarded.set(self.unguarded.get() + 1);
        UnloggedUpdate(self.0.clone())
    }

    /// The present state, which is saved or about to be.
    pub fn state(&self) -> Raid5State {
        self.health.borrow().state
    }

    /// What the array does with each member.
    pub fn member_states(&self) -> Vec<MemberState> {
        let missing = self.state().missing;
        let state = |(index, member): (usize, &Option<Rc<Member>>)| match missing {
            Some(missing) if missing.member == index => match member {
                None => MemberState::Missing,
                Some(_) => MemberState::Rebuilding {
                    rebuilt_rows: missing.rebuilt_rows,
                },
            },
            _ => MemberState::InUse,
        };
        let members = self.members.borrow();
        members.iter().enumerate().map(state).collect()
    }

    /// Why the array is lost, if it is.
    pub fn failure(&self) -> Option<RaidError> {
        self.health.borrow().lost.clone()
    }

    /// The first error of each member that has failed since the opening, and was not replaced since.
    pub fn member_errors(&self) -> Vec<Option<IoError>> {
        self.health.borrow().failures.clone()
    }

    /// True after an unclean start, until the parity has been corrected ([`Redundancy::recover`], [`Raid5::resync`]).
    pub fn is_suspect(&self) -> bool {
        self.health.borrow().suspect_anywhere
    }

    /// Counters.
    pub fn stats(&self) -> RaidStats {
        self.stats.get()
    }

    /// Its division into stripes.
    pub fn stripes(&self) -> Stripes {
        self.stripes
    }

    /// Marks `member` as failed, so that it is not used any more.
    ///
    /// # Errors
    /// When another member has failed already, or the state cannot be saved.
    pub async fn fail(&self, member: usize) -> Result<(), RaidError> {
        self.mark_failed(member, IoError::EIO);
        let saved = self.publish().await;
        saved.map_err(|error| self.error(error))?;
        self.failure().map_or(Ok(()), Err)
    }
}

impl Array {
    pub(super) fn count(&self, change: impl FnOnce(&mut RaidStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }

    /// Counts and reports `bytes` at a place that neither its member nor the others can give.
    pub(super) fn note_given_up(&self, place: Failed, bytes: u64) {
        self.count(|stats| stats.given_up += 1);
        self.sink.note(StoreEvent::SectorsLost {
            member: self.member_name(place.member),
            offset: place.offset,
            bytes,
        });
        let mut places = self.given_up.borrow_mut();
        if places.len() < PLACES_MAX {
            places.push(place);
        }
    }

    /// Forgets the places that were given up.
    pub(super) fn forget_given_up(&self) {
        self.given_up.borrow_mut().clear();
    }

    /// The error for the first places that were given up, of `count` places.
    pub(super) fn rebuilt_in_part(&self, count: u64) -> RaidError {
        let unit = self.stripes.unit;
        let place = |place: &Failed| {
            let (row, member) = (place.offset / unit, self.member_name(place.member));
            format!("stripe {row}, {member} at byte {}", place.offset)
        };
        let mut places: Vec<String> = self.given_up.borrow().iter().map(place).collect();
        if (places.len() as u64) < count {
            places.push("...".into());
        }
        RaidError::RebuiltInPart {
            count,
            places: places.join("; "),
        }
    }

    /// The error of the array for the `error` of an operation.
    pub(super) fn error(&self, error: IoError) -> RaidError {
        let lost = self.health.borrow().lost.clone();
        lost.unwrap_or_else(|| RaidError::Array {
            array: self.name.clone(),
            error,
        })
    }

    pub(super) fn member(&self, member: usize) -> Option<Rc<dyn Device>> {
        let member = self.members.borrow()[member].clone();
        member.map(|member| member as Rc<dyn Device>)
    }

    pub(super) fn member_name(&self, member: usize) -> String {
        self.names.borrow()[member].clone()
    }

    /// Puts a replacement in the place of the missing member, with nothing rebuilt.
    pub(super) fn put_replacement(&self, member: usize, device: Rc<dyn Device>) {
        self.names.borrow_mut()[member] = device.name().to_string();
        self.health.borrow_mut().failures[member] = None;
        self.members.borrow_mut()[member] = Some(Member::new(device));
    }

    /// True when `member` holds the array's data of `row`.
    pub(super) fn alive(&self, member: usize, row: u64) -> bool {
        if self.members.borrow()[member].is_none() {
            return false;
        }
        match self.health.borrow().state.missing {
            Some(missing) if missing.member == member => row < missing.rebuilt_rows,
            _ => true,
        }
    }

    /// The unit of `row` that no member holds.
    pub(super) fn absent(&self, row: u64) -> Option<Unit> {
        let missing = self.health.borrow().state.missing?;
        if self.alive(missing.member, row) {
            return None;
        }
        Some(match self.stripes.column(row, missing.member) {
            None => Unit::Parity,
            Some(column) => Unit::Column(column),
        })
    }

    /// True when `row` would be a degraded stripe after a crash, because its rebuild is not saved yet.
    pub(super) fn is_unsaved_row(&self, row: u64) -> bool {
        let missing = self.health.borrow().saved.missing;
        missing.is_some_and(|missing| row >= missing.rebuilt_rows)
    }

    /// True when the parity of `row` may differ from its data.
    pub(super) fn is_suspect_row(&self, row: u64) -> bool {
        let health = self.health.borrow();
        health.suspect.contains(row) || health.torn.contains(row)
    }

    /// Marks `member` as failed permanently. If another member is missing, the array is lost. So it is when the parity is not
    /// corrected yet after a crash: in a stripe that was being written, the unit of `member` cannot be computed. As that
    /// failure is not saved, the next opening uses the member, if it works again. The error of an operation that began
    /// before an earlier failure ([`GONE`]) says nothing about a replacement.
    pub(super) fn mark_failed(&self, member: usize, error: IoError) {
        if error == GONE {
            return;
        }
        let mut health = self.health.borrow_mut();
        health.failures[member].get_or_insert(error);
        let missing = health.state.missing;
        let had_data = missing.is_none_or(|it| it.member == member && it.rebuilt_rows > 0);
        if health.suspect_anywhere && had_data && !self.accept_loss {
            let member = self.member_name(member);
            self.lose(&mut health, RaidError::Unrecovered { member, error });
            return;
        }
        match health.state.missing {
            None => {
                health.state.missing = Some(Missing {
                    member,
                    rebuilt_rows: 0,
                });
            }
            Some(missing) if missing.member == member => {
                if self.members.borrow()[member].is_none() {
                    return;
                }
                health.state.missing = Some(Missing {
                    member,
                    rebuilt_rows: 0,
                });
            }
            Some(missing) => {
                let lost = RaidError::Lost {
                    first: self.member_name(missing.member),
                    second: self.member_name(member),
                    error,
                };
                self.lose(&mut health, lost);
                return;
            }
        }
        self.sink.note(StoreEvent::MemberFailed {
            member: self.member_name(member),
            error,
        });
        health.durable_rows = 0;
        health.version += 1;
        health.flush_wanted = true;
        if let Some(failed) = self.members.borrow_mut()[member].take() {
            failed.leave();
        }
    }

    /// The array cannot be used any more. The first reason stays.
    fn lose(&self, health: &mut Health, lost: RaidError) {
        if health.lost.is_none() {
            self.sink.note(StoreEvent::ArrayLost {
                why: lost.to_string(),
            });
            health.lost = Some(lost);
        }
    }

    pub(super) fn check_lost(&self) -> Result<(), IoError> {
        match self.health.borrow().lost {
            Some(_) => Err(ARRAY_LOST),
            None => Ok(()),
        }
    }

    /// True when a member has failed and that state is not saved.
    pub(super) fn has_unsaved_failure(&self) -> bool {
        self.health.borrow().flush_wanted
    }

    /// Prepares a change of the array: the saved state says that the array is in use, and names the failed member.
    pub(super) async fn begin_write(&self) -> Result<(), IoError> {
        self.check_lost()?;
        {
            let mut health = self.health.borrow_mut();
            if health.state.clean {
                health.state.clean = false;
                health.version += 1;
            }
        }
        self.publish().await?;
        self.check_lost()
    }

    /// Runs `change` while no save of the state is under way, and saves the state after it.
    pub(super) async fn change_members(
        &self,
        change: impl FnOnce() -> Result<(), RaidError>,
    ) -> Result<(), RaidError> {
        {
            let _one = self.publishing.acquire(1).await;
            change()?;
            self.health.borrow_mut().version += 1;
        }
        let saved = self.publish().await;
        saved.map_err(|error| self.error(error))
    }

    /// Saves the state if it has changed. After a failure, updates that began before it end first, and the other members
    /// are flushed, because a power cut could tear writes that were made with all members and without parity records.
    ///
    /// Nothing is saved once the array is lost. A second member that failed in one of these updates, or in the flush, may
    /// lack writes. If the next opening took the first member for a failed one, it would compute the first member's units
    /// from these stripes. With both members in use, all writes that they lack are in the writer's log.
    pub(super) async fn publish(&self) -> Result<(), IoError> {
        if self.read_only {
            return Ok(());
        }
        let is_current = || {
            let health = self.health.borrow();
            health.published == health.version
        };
        if is_current() {
            return Ok(());
        }
        let _one = self.publishing.acquire(1).await;
        while !is_current() {
            let flush = std::mem::take(&mut self.health.borrow_mut().flush_wanted);
            if flush {
                self.await_unguarded().await;
                self.flush_members().await;
            }
            self.check_lost()?;
            let present: Vec<bool> = self.members.borrow().iter().map(Option::is_some).collect();
            let (version, state) = {
                let health = self.health.borrow();
                let mut state = health.state;
                if let Some(missing) = &mut state.missing {
                    missing.rebuilt_rows = missing.rebuilt_rows.min(health.durable_rows);
                }
                (health.version, state)
            };
            let saving = self.sink.save(state, &present);
            let unsaved = saving.await?;
            if unsaved.is_empty() {
                let mut health = self.health.borrow_mut();
                (health.published, health.saved) = (version, state);
            }
            for (member, error) in unsaved {
                self.mark_failed(member, error);
            }
        }
        Ok(())
    }

    async fn await_unguarded(&self) {
        loop {
            let ended = self.unguarded_ended.wait();
            if self.unguarded.get() == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Flushes every member, and marks those that fail. Writes with a parity record count as durable only if the array has
    /// not lost two members.
    pub(super) async fn flush_members(&self) {
        let written = self.records.as_ref().map(Records::flush_begins);
        let flushes: Vec<(usize, DeviceIo)> = {
            let members = self.members.borrow();
            let there = members.iter().enumerate();
            there
                .filter_map(|(index, member)| Some((index, member.as_ref()?)))
                .map(|(index, member)| (index, member.io(Op::Flush, 0, 0, Data::None)))
                .collect()
        };
        for (member, flush) in flushes {
            if let (Err(error), _) = flush.await {
                self.mark_failed(member, error);
            }
        }
        if let (Some(records), Some(written), Ok(())) = (&self.records, written, self.check_lost())
        {
            records.flush_ended(written);
        }
    }

    pub(super) async fn flush(&self) -> Result<(), IoError> {
        self.check_lost()?;
        self.flush_members().await;
        self.publish().await?;
        self.check_lost()
    }
}
