//! Finds free identifiers. It prefers the block after the predecessor, because blocks of one list belong together.

use super::Id;
use crate::core::Core;
use crate::error::DiskError;
use std::rc::Rc;

/// Zones that are searched before the area grows, if the store has space, so that a search does not read all pages.
const PROBES: u64 = 64;

impl Core {
    /// Takes a free block: after block `near` if possible, else in the zone of `list` or near it.
    ///
    /// # Errors
    /// When the store is full, or a page cannot be read.
    pub async fn take_block(self: &Rc<Self>, near: u64, list: u64) -> Result<u64, DiskError> {
        let zones = self.lists.zones;
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
    /// As for [`Core::take_block`].
    pub async fn take_list(self: &Rc<Self>) -> Result<u64, DiskError> {
        match self.take(false, None).await? {
            Id::Block(list) | Id::List(list) => Ok(list),
        }
    }

    async fn take(
        self: &Rc<Self>,
        blocks: bool,
        from: Option<(u64, u64)>,
    ) -> Result<Id, DiskError> {
        let zones = self.lists.zones;
        if let Some((zone, slot)) = from
            && let Some(id) = self.take_in(blocks, zone, slot).await?
        {
            return Ok(id);
        }
        let mut probes = PROBES;
        loop {
            let have = self.lists.pages.blocks();
            let zone_count = have.div_ceil(zones.blocks());
            let start = *self.lists.space.borrow_mut().full(blocks).1;
            for (mut at, end) in [(start, zone_count), (0, start.min(zone_count))] {
                while probes > 0 {
                    let space = &self.lists.space;
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
            let grown = if self.lists.pages.blocks() > have {
                Ok(())
            } else {
                self.grow_lists().await
            };
            match grown {
                Ok(()) => {
                    let mut space = self.lists.space.borrow_mut();
                    *space.full(blocks).1 = have / zones.blocks();
                    probes = probes.max(PROBES);
                }
                // Now the search covers every zone.
                Err(error) if error.is_full() && probes == 0 => probes = u64::MAX,
                // Units that have ended leave the space below them, and open ones hold what others have freed.
                Err(error) if error.is_full() => {
                    if !self.shadows.spill.give_back().await? && !self.reclaim() {
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
        let zones = self.lists.zones;
        let page = if blocks {
            zones.block_page(zone)
        } else {
            zones.list_page(zone)
        };
        if page >= self.lists.pages.blocks() {
            return Ok(None);
        }
        let page = self.lists.pages.load(page).await?;
        let area_blocks = self.lists.pages.blocks();
        let mut space = self.lists.space.borrow_mut();
        Ok(space.take(&zones, area_blocks, &page, blocks, zone, slot))
    }
}
