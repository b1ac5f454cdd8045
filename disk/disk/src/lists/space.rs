//! Identifiers that are not given out, and where the search for others begins.

use super::Id;
use super::bits::Bits;
use super::records::words_at;
use std::collections::BTreeSet;
use tonearm_format::{LIST_RECORD_BYTES, Zones};

/// Identifiers that are not free although their records are, and zones known to be full.
#[derive(Default)]
pub(crate) struct Space {
    held: BTreeSet<Id>,
    full_of_blocks: Bits,
    full_of_lists: Bits,
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

    /// The zones known to be full, of blocks or of lists, and the one where something was found last.
    pub fn full(&mut self, blocks: bool) -> (&mut Bits, &mut u64) {
        if blocks {
            (&mut self.full_of_blocks, &mut self.block_zone)
        } else {
            (&mut self.full_of_lists, &mut self.list_zone)
        }
    }

    /// Takes a free identifier of a zone with this page of records. The search starts at record `slot` and wraps around.
    pub fn take(
        &mut self,
        zones: &Zones,
        area_blocks: u64,
        page: &[u8],
        blocks: bool,
        zone: u64,
        slot: u64,
    ) -> Option<Id> {
        let id_of = |slot| {
            if blocks {
                Id::Block(zones.block(zone, slot))
            } else {
                Id::List(zones.list(zone, slot))
            }
        };
        let there = |id: &Id| match id {
            Id::Block(block) => *block < area_blocks,
            Id::List(_) => true,
        };
        let slots = (slot..zones.records()).chain(0..slot.min(zones.records()));
        let is_free = |slot: &u64| words_at(page, *slot as u32 * LIST_RECORD_BYTES) == [0; 2];
        let mut free = slots.filter(is_free).map(id_of);
        let found = free.find(|id| there(id) && !self.held.contains(id));
        let (full, last) = self.full(blocks);
        match found {
            Some(id) => {
                *last = zone;
                self.held.insert(id);
            }
            // A short zone gets free blocks when the area grows.
            None if (zone + 1) * zones.blocks() <= area_blocks || !blocks => full.set(zone),
            None => {}
        }
        found
    }
}
