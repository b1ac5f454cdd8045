//! Repairs blocks and tables from the parity of an array, where the computed content is right by the checksum that is kept
//! for it. Slots come first: the entries say which blocks are right.

use crate::error::HomeError;
use crate::overwrite::home::Overwrite;
use crate::overwrite::load::{Choice, choose, decode_slot, is_zero};
use crate::report::{GroupReport, SlotReport};
use crate::scrub::{common, repair};
use std::ops::Range;
use tonearm_base::crc32c;
use tonearm_device::{Known, RepairOutcome};
use tonearm_format::{HOLE, TableSlot, entry_of_crc};

impl Overwrite {
    /// See [`ParityHome::scrub_group`](crate::ParityHome::scrub_group).
    pub(crate) async fn scrub_group(&self, group: u64) -> Result<GroupReport, HomeError> {
        let _writer = self.writer.acquire(1).await;
        let (mut report, mut slot) = self.examine(group).await?;
        let member = self.places.member_of(group);
        let device = self.places.members[member].queue.device.clone();
        let damaged = |index: &usize| matches!(report.slots[*index], SlotReport::Damaged(_));
        let slots = (0..2).filter(damaged);
        let slots = slots.map(|index| self.known_slot(group, index, &report.slots[1 - index]));
        let slots: Vec<Known> = slots.collect();
        let mut repaired = 0;
        if !slots.is_empty() {
            repaired = repair(&device, slots, 0..0).await?.places;
        }
        if repaired > 0 {
            self.forget_tables(group..group + 1);
            (report, slot) = self.examine(group).await?;
        }
        if let Some(slot) = slot
            && !report.bad.is_empty()
        {
            let first = self.places.blocks_of(group).start;
            let entry = |block: u64| slot.entries[(block - first) as usize];
            let known = report
                .bad
                .iter()
                .map(|bad| self.known_block(self.places.block_offset(bad.block), entry(bad.block)));
            let of_blocks = repair(&device, known.collect(), 0..0).await?.places;
            if of_blocks > 0 {
                repaired += of_blocks;
                report = self.examine(group).await?.0;
            }
        }
        report.repaired = repaired;
        Ok(report)
    }

    /// See [`ParityHome::scrub_stripes`](crate::ParityHome::scrub_stripes).
    pub(crate) async fn scrub_stripes(
        &self,
        member: usize,
        stripes: Range<u64>,
    ) -> Result<RepairOutcome, HomeError> {
        let _writer = self.writer.acquire(1).await;
        let own = &self.places.members[member];
        let geometry = own.geometry.get();
        let (start, bytes) = (geometry.data_offset, geometry.group_bytes());
        let part = common(&stripes, &(start..geometry.end_offset()));
        let mut known = Vec::new();
        for within in
            part.start.saturating_sub(start) / bytes..part.end.saturating_sub(start).div_ceil(bytes)
        {
            let group = own.first_group + within;
            if group < self.places.groups() {
                self.known_in(group, &stripes, &mut known).await?;
            }
        }
        repair(&own.queue.device, known, stripes).await
    }

    /// Adds the slots and blocks of `group` that lie in `range` of its member.
    async fn known_in(
        &self,
        group: u64,
        range: &Range<u64>,
        known: &mut Vec<Known>,
    ) -> Result<(), HomeError> {
        let slots = self.read_slots(group).await?;
        let reports = super::check::reports(&slots);
        let of_slots = (0..2).map(|index| self.known_slot(group, index, &reports[1 - index]));
        let lies_in = |place: &Known| !common(&place.range, range).is_empty();
        known.extend(of_slots.filter(lies_in));
        let slot = match choose(slots, self.places.block_size as u32) {
            Choice::Sound(slot) | Choice::Fallback(slot) => slot,
            // The slots are among the places, or their own stripe is visited, too.
            Choice::Neither => {
                known.push(crate::scrub::unknown(self.blocks_in(group, range)));
                return Ok(());
            }
        };
        for (block, entry) in self.places.blocks_of(group).zip(&slot.entries) {
            let place = self.known_block(self.places.block_offset(block), *entry);
            if lies_in(&place) {
                known.push(place);
            }
        }
        Ok(())
    }

    /// The part of `range` that belongs to blocks of `group`.
    fn blocks_in(&self, group: u64, range: &Range<u64>) -> Range<u64> {
        let blocks = self.places.blocks_of(group);
        let start = self.places.block_offset(blocks.start);
        let bytes = (blocks.end - blocks.start) * self.places.block_size as u64;
        common(range, &(start..start + bytes))
    }

    /// Slot `index` of `group`, where the other one is `other`. A slot is empty only until generations 1 and 2 are
    /// written. After that, zeroes are as wrong as any other content that is no table.
    fn known_slot(&self, group: u64, index: usize, other: &SlotReport) -> Known {
        let may_be_empty = match other {
            SlotReport::Empty => true,
            SlotReport::Valid(generation) => index == 0 && *generation == 1,
            SlotReport::Damaged(_) => false,
        };
        let offset = self.places.slot_offset(group, index as u64);
        Known {
            range: offset..offset + self.places.block_size as u64,
            is_right: Box::new(move |bytes| match decode_slot(group, index, bytes) {
                Ok(Some(TableSlot { .. })) => true,
                Ok(None) => may_be_empty,
                Err(_) => false,
            }),
        }
    }

    /// The block at `offset` with this entry. The space of a hole reads as zeroes.
    fn known_block(&self, offset: u64, entry: u32) -> Known {
        Known {
            range: offset..offset + self.places.block_size as u64,
            is_right: Box::new(move |bytes| match entry {
                HOLE => is_zero(bytes),
                entry => entry_of_crc(crc32c(bytes)) == entry,
            }),
        }
    }
}
