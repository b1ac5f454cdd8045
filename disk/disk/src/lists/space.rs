//! Finds free identifiers. It prefers the block behind the predecessor, because blocks of one list belong together.

use super::Id;
use crate::disk::Disk;
use crate::error::DiskError;
use crate::lists::bits::Bits;
use crate::lists::replay::words_at;
use std::collections::BTreeSet;
use tonearm_format::{LIST_RECORD_BYTES, Zones};

/// Zones that are searched before the area grows, if the store has space, so that a search does not read all pages.
const PROBES: u64 = 64;

/// Identifiers that are not free although their records are, and zones known to be full.
#[derive(Default)]
pub(crate) struct Space {
    held: BTreeSet<Id>,
    full_of_blocks: Bits,
    full_of_lists: Bits,
    /// Zones where something was found last.
    block_zone: u64,
    list_zone: u64,
}

impl Space {
    /// Keeps identifiers from being given out.
    pub fn hold(&mut self, ids: &[Id]) {
        self.held.extend(ids);
    }

    /// Lets identifiers be given out again, unless they are in use now.
    pub fn release(&mut self, zones: &Zones, ids: &[Id]) {
        for id in ids {
            self.held.remove(id);
            match id {
                Id::Block(block) => self.full_of_blocks.clear(zones.zone_of_block(*block)),
                Id::List(list) => self.full_of_lists.clear(zones.zone_of_list(*list)),
            }
        }
    }

    fn full(&mut self, blocks: bool) -> (&mut Bits, &mut u64) {
        if blocks {
            (&mut self.full_of_blocks, &mut self.block_zone)
        } else {
            (&mut self.full_of_lists, &mut self.list_zone)
        }
    }
}

impl Disk {
    /// Takes a free block: behind block `near` if possible, else in the zone of `list` or near it.
    ///
    /// # Errors
    /// When the store is full, or a page cannot be read.
    pub(crate) async fn take_block(&self, near: u64, list: u64) -> Result<u64, DiskError> {
        let zones = self.list_state().zones;
        let from = match near {
            0 => (zones.zone_of_list(list), 0),
            near => {
                let slot = (near % zones.blocks()).saturating_sub(1);
                (zones.zone_of_block(near), slot)
            }
        };
        match self.take(true, Some(from)).await? {
            Id::Block(block) | Id::List(block) => Ok(block),
        }
    }

    /// Takes a free identifier of a list.
    ///
    /// # Errors
    /// As for [`Disk::take_block`].
    pub(crate) async fn take_list(&self) -> Result<u64, DiskError> {
        match self.take(false, None).await? {
            Id::Block(list) | Id::List(list) => Ok(list),
        }
    }

    async fn take(&self, blocks: bool, from: Option<(u64, u64)>) -> Result<Id, DiskError> {
        let zones = self.list_state().zones;
        if let Some((zone, slot)) = from
            && let Some(id) = self.take_in(blocks, zone, slot).await?
        {
            return Ok(id);
        }
        let mut probes = PROBES;
        loop {
            let have = self.area_blocks();
            let zone_count = have.div_ceil(zones.blocks());
            let start = *self.list_state().space.borrow_mut().full(blocks).1;
            for (mut at, end) in [(start, zone_count), (0, start.min(zone_count))] {
                while probes > 0 {
                    let space = &self.list_state().space;
                    at = space.borrow_mut().full(blocks).0.next_clear(at);
                    if at >= end {
                        break;
                    }
                    if let Some(id) = self.take_in(blocks, at, 0).await? {
                        return Ok(id);
                    }
                    (at, probes) = (at + 1, probes - 1);
                }
            }
            // Others may have enlarged the area since the search began.
            let grown = if self.area_blocks() > have {
                Ok(())
            } else {
                self.grow_area().await
            };
            match grown {
                Ok(()) => {
                    let mut space = self.list_state().space.borrow_mut();
                    *space.full(blocks).1 = have / zones.blocks();
                    probes = probes.max(PROBES);
                }
                // Now the search covers every zone.
                Err(error) if error.is_full() && probes == 0 => probes = u64::MAX,
                // Units that have ended leave the space below them, and open ones hold what others have freed.
                Err(error) if error.is_full() => {
                    if !self.give_back_spill().await? && !self.reclaim() {
                        return Err(error);
                    }
                    probes = u64::MAX;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes a free identifier of a zone. The search starts at record `slot` and wraps around.
    async fn take_in(&self, blocks: bool, zone: u64, slot: u64) -> Result<Option<Id>, DiskError> {
        let zones = self.list_state().zones;
        let page = if blocks {
            zones.block_page(zone)
        } else {
            zones.list_page(zone)
        };
        if page >= self.area_blocks() {
            return Ok(None);
        }
        let page = self.list_page(page).await?;
        let mut space = self.list_state().space.borrow_mut();
        let id_of = |slot| {
            if blocks {
                Id::Block(zones.block(zone, slot))
            } else {
                Id::List(zones.list(zone, slot))
            }
        };
        let area_blocks = self.area_blocks();
        let there = |id: &Id| match id {
            Id::Block(block) => *block < area_blocks,
            Id::List(_) => true,
        };
        let slots = (slot..zones.records()).chain(0..slot.min(zones.records()));
        let is_free = |slot: &u64| words_at(&page, *slot as u32 * LIST_RECORD_BYTES) == [0; 2];
        let mut free = slots.filter(is_free).map(id_of);
        let found = free.find(|id| there(id) && !space.held.contains(id));
        let (full, last) = space.full(blocks);
        match found {
            Some(id) => {
                *last = zone;
                space.held.insert(id);
            }
            // A short zone gets free blocks when the area grows.
            None if (zone + 1) * zones.blocks() <= area_blocks || !blocks => full.set(zone),
            None => {}
        }
        Ok(found)
    }
}
