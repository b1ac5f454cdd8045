//! Parity records: copies of the data that a power cut in a degraded stripe would destroy, kept until the write is durable.
//!
//! A degraded stripe holds the missing unit only as the XOR of all others. A write to one of these is two writes, data and
//! parity, and between them that XOR is wrong. So the XOR of all data that the write leaves unchanged first goes to a
//! small device, durably. At the next opening parity is computed again from the record and the data that is found.
//! Whatever part of the write arrived, the missing unit is then as before. (The writer's log restores the written bytes.)
//!
//! Invariants:
//! 1. A record is durable before its write begins, and stays until the write is durable.
//! 2. Valid records on the device never overlap, and no other write changes the bytes that a valid record covers:
//!    [`Records::prepare`] makes the previous write durable and erases its record. So records can be applied in any
//!    order, any number of times.

use super::array::{Array, Raid5};
use super::cut::Band;
use super::geometry::Unit;
use super::read::Unreadable;
use super::state::{RaidError, is_refusal};
use super::xor::xor_into;
use crate::device::Device;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{Buf, Slice, crc32c};
use tonearm_format::{PARITY_EXTENTS_MAX, ParityExtent, ParityRecord, SECTOR};
use tonearm_rt::{Data, IoError, Notify, Rt};

/// Most slots that are used.
const SLOTS_MAX: u64 = 256;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// No valid record on the device.
    Free,
    /// The record is being written or erased, or the write of its stripe is under way.
    Busy,
    /// The write has ended and may be in caches.
    Written,
    /// The write is durable. The record is not needed any more, and is harmless until the bytes that it covers change.
    Settled,
    /// A member has refused the write. The record is applied before the stripe is used again.
    Torn,
}

struct Slot {
    used: Use,
    /// Ranges that the record on the device covers, and the record that replaces it.
    covers: Vec<(u64, Range<u64>)>,
    stamp: u64,
}

/// The slots for records.
pub(crate) struct Records {
    device: Rc<dyn Device>,
    slot_bytes: u64,
    array: [u8; 16],
    slots: RefCell<Vec<Slot>>,
    changed: Notify,
    stamp: Cell<u64>,
}

impl Records {
    pub fn new(
        rt: &Rt,
        device: Rc<dyn Device>,
        unit: u64,
        array: [u8; 16],
    ) -> Result<Self, RaidError> {
        let slot_bytes = unit + SECTOR as u64;
        let count = (device.size_bytes() / slot_bytes).min(SLOTS_MAX);
        let block = u64::from(device.block_size());
        if count == 0 || !slot_bytes.is_multiple_of(block) || !(SECTOR as u64).is_multiple_of(block)
        {
            return Err(RaidError::Shape(format!(
                "{} has {} bytes in blocks of {block}; parity records need {slot_bytes} at least",
                device.name(),
                device.size_bytes(),
            )));
        }
        let free = |_| Slot {
            used: Use::Free,
            covers: Vec::new(),
            stamp: 0,
        };
        Ok(Self {
            device,
            slot_bytes,
            array,
            slots: RefCell::new((0..count).map(free).collect()),
            changed: Notify::new(rt),
            stamp: Cell::new(0),
        })
    }

    /// Slots whose write has ended: a flush that begins now makes it durable.
    pub fn flush_begins(&self) -> Vec<(usize, u64)> {
        let slots = self.slots.borrow();
        let written = slots
            .iter()
            .enumerate()
            .filter(|(_, s)| s.used == Use::Written);
        written.map(|(index, slot)| (index, slot.stamp)).collect()
    }

    /// The flush has ended.
    pub fn flush_ended(&self, written: Vec<(usize, u64)>) {
        let mut slots = self.slots.borrow_mut();
        for (index, stamp) in written {
            let slot = &mut slots[index];
            if slot.used == Use::Written && slot.stamp == stamp {
                slot.used = Use::Settled;
            }
        }
        drop(slots);
        self.changed.notify();
    }

    /// The write of the record in slot `index` has ended. It is `durable`, or has torn the stripe, or is in caches.
    pub fn ended(&self, index: usize, durable: bool, torn: bool) {
        let used = match durable {
            true => Use::Settled,
            false if torn => Use::Torn,
            false => Use::Written,
        };
        self.slots.borrow_mut()[index].used = used;
        self.changed.notify();
    }

    /// Stripes that refused writes have torn.
    pub fn torn_rows(&self) -> Vec<u64> {
        let slots = self.slots.borrow();
        let torn = slots.iter().filter(|slot| slot.used == Use::Torn);
        torn.flat_map(|slot| slot.covers.iter().map(|(row, _)| *row))
            .collect()
    }

    /// True when torn stripes keep so many slots that writes to other stripes could run out of them.
    pub fn are_scarce(&self) -> bool {
        let slots = self.slots.borrow();
        let torn = slots.iter().filter(|slot| slot.used == Use::Torn);
        2 * torn.count() >= slots.len()
    }

    /// Applies the records of refused writes to `row`, whose lock the caller has.
    pub async fn apply_torn(&self, array: &Array, row: u64) -> Result<(), RaidError> {
        for index in self.torn_slots(row) {
            let slot = self.read_slot(array, index).await?;
            if let Ok(Some((record, kept))) = ParityRecord::decode(&slot) {
                let kept = array.pool.copy_of(kept).share();
                array.apply_record(&record, &kept).await?;
            }
        }
        Ok(())
    }

    /// The parity of `row` is correct again, perhaps in caches.
    pub fn repaired(&self, row: u64) {
        for index in self.torn_slots(row) {
            self.ended(index, false, false);
        }
    }

    fn torn_slots(&self, row: u64) -> Vec<usize> {
        let slots = self.slots.borrow();
        let of_row = |slot: &Slot| slot.covers.iter().any(|(other, _)| *other == row);
        let slots = slots.iter().enumerate();
        slots
            .filter(|(_, slot)| slot.used == Use::Torn && of_row(slot))
            .map(|(index, _)| index)
            .collect()
    }

    /// Leaves no valid record over `range` of `rows`, whose locks the caller has.
    pub async fn prepare(
        &self,
        array: &Array,
        rows: Range<u64>,
        range: Range<u64>,
    ) -> Result<(), IoError> {
        loop {
            let changed = self.changed.wait();
            let found = {
                let slots = self.slots.borrow();
                let over = |(row, covered): &(u64, Range<u64>)| {
                    rows.contains(row) && covered.start < range.end && range.start < covered.end
                };
                let mut found = slots.iter().enumerate();
                found
                    .find(|(_, slot)| slot.covers.iter().any(over))
                    .map(|(index, slot)| (index, slot.used))
            };
            match found {
                None => return Ok(()),
                Some((_, Use::Written)) => {
                    array.flush_members().await;
                    array.check_lost()?;
                }
                // A torn stripe is about to be written as a whole; any other write has repaired it before.
                Some((index, Use::Settled | Use::Torn)) => self.erase(array, index).await?,
                // Another stripe's record is about to take its place.
                Some((_, Use::Busy | Use::Free)) => changed.await,
            }
        }
    }

    async fn erase(&self, array: &Array, index: usize) -> Result<(), IoError> {
        self.slots.borrow_mut()[index].used = Use::Busy;
        let data = Data::whole(array.pool.alloc_zeroed(SECTOR));
        let offset = index as u64 * self.slot_bytes;
        let erased = self.device.write_durable(offset, data).await;
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[index];
        match erased {
            Ok(()) => {
                slot.covers.clear();
                slot.used = Use::Free;
            }
            Err(_) => slot.used = Use::Settled,
        }
        drop(slots);
        self.changed.notify();
        erased
    }

    /// Writes a record for `band` of `row`: `kept` is the XOR of what the band leaves alone. Gives the
    /// slot, for [`Records::ended`].
    pub async fn record(
        &self,
        array: &Array,
        row: u64,
        band: &Band,
        kept: &[u8],
    ) -> Result<usize, IoError> {
        let index = self.take_slot(array, (row, band.range.clone())).await?;
        let mut extents = Vec::new();
        for column in 0..array.stripes.columns() {
            let extent = |run: Range<u64>| ParityExtent {
                column: column as u32,
                start: run.start as u32,
                len: (run.end - run.start) as u32,
            };
            extents.extend(band.changed(column).into_iter().map(extent));
        }
        assert!(extents.len() <= PARITY_EXTENTS_MAX, "a batch is bounded");
        let header = ParityRecord {
            array: self.array,
            row,
            start: band.range.start as u32,
            len: band.len() as u32,
            payload_crc: crc32c(kept),
            extents,
        };
        let mut slot = array.pool.alloc(SECTOR + kept.len());
        slot[..SECTOR].copy_from_slice(&header.encode());
        slot[SECTOR..].copy_from_slice(kept);
        let offset = index as u64 * self.slot_bytes;
        let written = self.device.write_durable(offset, Data::whole(slot)).await;
        let mut slots = self.slots.borrow_mut();
        let slot = &mut slots[index];
        match written {
            Ok(()) => {
                slot.covers.drain(..slot.covers.len() - 1);
            }
            // The device has the previous record, this one, or none.
            Err(_) => slot.used = Use::Settled,
        }
        drop(slots);
        self.changed.notify();
        array.count(|stats| stats.records += 1);
        written.map(|()| index)
    }

    /// A slot without a needed record.
    async fn take_slot(&self, array: &Array, covers: (u64, Range<u64>)) -> Result<usize, IoError> {
        loop {
            let changed = self.changed.wait();
            let flush = {
                let mut slots = self.slots.borrow_mut();
                let usable = |used: &Use| matches!(used, Use::Free | Use::Settled);
                let best = slots
                    .iter_mut()
                    .enumerate()
                    .filter(|(_, slot)| usable(&slot.used))
                    .min_by_key(|(_, slot)| (slot.used != Use::Free, slot.stamp));
                if let Some((index, slot)) = best {
                    self.stamp.set(self.stamp.get() + 1);
                    slot.stamp = self.stamp.get();
                    slot.used = Use::Busy;
                    slot.covers.push(covers);
                    return Ok(index);
                }
                let any = |used: Use| slots.iter().any(|slot| slot.used == used);
                if !any(Use::Written) && !any(Use::Busy) {
                    // All slots are those of writes that members have refused.
                    return Err(IoError::ENOSPC);
                }
                any(Use::Written)
            };
            if flush {
                array.flush_members().await;
                array.check_lost()?;
            } else {
                changed.await
            }
        }
    }

    /// Keeps the `record` in slot `index`, which could not be applied.
    fn keep_torn(&self, index: usize, record: &ParityRecord) {
        let (start, len) = (u64::from(record.start), u64::from(record.len));
        let slot = &mut self.slots.borrow_mut()[index];
        slot.used = Use::Torn;
        slot.covers = vec![(record.row, start..start + len)];
    }

    async fn read_slot(&self, array: &Array, index: usize) -> Result<Buf, RaidError> {
        let buf = array.pool.alloc(self.slot_bytes as usize);
        let offset = index as u64 * self.slot_bytes;
        let read = self.device.read(offset, buf).await;
        read.map_err(|error| RaidError::RecordUnreadable {
            member: self.device.name().to_string(),
            offset,
            error,
        })
    }

    fn failed(&self, error: IoError) -> RaidError {
        RaidError::Journal {
            member: self.device.name().to_string(),
            error,
        }
    }
}

impl Raid5 {
    /// Applies the records that an unclean end has left, and erases all.
    pub(super) async fn apply_records(&self, unclean: bool) -> Result<(), RaidError> {
        let Some(records) = &self.records else {
            return Ok(());
        };
        let count = records.slots.borrow().len();
        let mut found = Vec::new();
        for index in 0..count {
            let slot = match records.read_slot(self, index).await {
                Ok(slot) => slot,
                // With all members there, nothing depends on the record. The sector is written anew, as an empty one.
                Err(_) if !unclean || self.state().missing.is_none() => {
                    found.push(index);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let record = match ParityRecord::decode(&slot) {
                Ok(Some((record, kept))) if record.array == records.array => {
                    Some((record, self.pool.copy_of(kept).share()))
                }
                Ok(None) => continue,
                // The record is torn, so its write had not begun; or it belongs to another array.
                _ => None,
            };
            if let Some((record, kept)) = record.filter(|_| unclean) {
                match self.apply_record(&record, &kept).await {
                    Err(error) if is_refusal(error.io_error()) => {
                        // The member is full. The stripe stays as it is until it is used.
                        records.keep_torn(index, &record);
                        let rows = record.row..record.row + 1;
                        self.health.borrow_mut().torn.insert(rows);
                        continue;
                    }
                    applied => applied?,
                }
            }
            found.push(index);
        }
        // The parity is durable before the records from which it was computed are erased.
        if unclean && !found.is_empty() {
            self.flush_members().await;
            self.check_lost().map_err(|error| self.error(error))?;
        }
        for index in found {
            let erased = records.erase(self, index).await;
            erased.map_err(|error| records.failed(error))?;
        }
        Ok(())
    }
}

impl Array {
    async fn apply_record(&self, record: &ParityRecord, kept: &Slice) -> Result<(), RaidError> {
        let row = record.row;
        let range = u64::from(record.start)..u64::from(record.start) + u64::from(record.len);
        let columns = self.stripes.columns();
        let fits = row < self.stripes.rows
            && range.end <= self.stripes.unit
            && record.extents.iter().all(|e| (e.column as usize) < columns);
        if !fits {
            let why = format!("a parity record is of stripe {row} and does not fit the array");
            return Err(RaidError::Shape(why));
        }
        let missing = match self.absent(row) {
            // With all units, parity follows from the data. Without parity there is nothing to correct.
            None => {
                let fixed = self.fix_parity(row, range, Unreadable::GivenUp).await;
                return fixed.map(|_| ());
            }
            Some(Unit::Parity) => return Ok(()),
            Some(Unit::Column(column)) => column,
        };
        let mut parity = self.pool.copy_of(kept);
        let mut own = vec![false; kept.len()];
        for extent in &record.extents {
            let from = (extent.start - record.start) as usize;
            let within = from..from + extent.len as usize;
            let column = extent.column as usize;
            if column == missing {
                // These bytes were being written; the writer's log restores them.
                own[within].fill(true);
                continue;
            }
            let place = u64::from(extent.start)..u64::from(extent.start) + u64::from(extent.len);
            // The writer's log restores this data, too, so an unreadable sector of it is no loss.
            let member = self.stripes.member(row, column);
            let data = self
                .read_cell(row, member, place, Unreadable::GivenUp)
                .await;
            xor_into(
                &mut parity[within],
                &data.map_err(|failed| self.unreadable(failed))?,
            );
        }
        let mut at = 0;
        for run in own.chunk_by(|a, b| a == b) {
            let within = at..at + run.len();
            at = within.end;
            if run[0] {
                continue;
            }
            let member = self.stripes.parity_member(row);
            let offset = row * self.stripes.unit + range.start + within.start as u64;
            let data = Data::Buf(self.pool.copy_of(&parity[within.clone()]), 0..within.len());
            let Some(device) = self.member(member) else {
                continue;
            };
            match device.write(offset, data).await {
                Err(error) if is_refusal(error) => return Err(self.error(error)),
                Err(error) => self.mark_failed(member, error),
                Ok(()) => {}
            }
        }
        self.count(|stats| stats.parity_fixed += 1);
        Ok(())
    }
}
