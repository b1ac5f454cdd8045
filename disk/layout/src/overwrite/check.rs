//! Checks one group: both table slots, and every allocated block against its entry.

use crate::error::HomeError;
use crate::overwrite::home::Overwrite;
use crate::overwrite::load::{Choice, Slots, choose, is_zero};
use crate::report::{BadBlock, GroupReport, SlotReport};
use tonearm_base::crc32c;
use tonearm_format::{FormatError, HOLE, TableSlot, entry_of_crc};

/// The content of a block's place.
pub(crate) struct Found {
    /// The entry that fits it.
    pub entry: u32,
    pub is_zero: bool,
}

/// That, or why it cannot be read.
pub(crate) type Content = Result<Found, HomeError>;

impl Overwrite {
    /// See [`Home::check_group`](crate::Home::check_group).
    pub(crate) async fn check_group(&self, group: u64) -> Result<GroupReport, HomeError> {
        let _writer = self.writer.acquire(1).await;
        Ok(self.examine(group).await?.0)
    }

    /// The report of `group`, and its valid table with false holes marked.
    pub(crate) async fn examine(
        &self,
        group: u64,
    ) -> Result<(GroupReport, Option<TableSlot>), HomeError> {
        assert!(group < self.places.groups(), "group {group} exists");
        let slots = self.read_slots(group).await?;
        let mut report = GroupReport {
            group,
            member: self.places.name(self.places.member_of(group)).to_string(),
            offset: self.places.slot_offset(group, 0),
            slots: reports(&slots),
            table_lost: false,
            allocated: 0,
            bad: Vec::new(),
            repaired: 0,
        };
        let slot = match choose(slots, self.places.block_size as u32) {
            Choice::Sound(slot) => slot,
            Choice::Fallback(slot) => self.mark_false_holes(group, slot).await?,
            Choice::Neither => {
                report.table_lost = true;
                return Ok((report, None));
            }
        };
        let blocks = self.places.blocks_of(group);
        let allocated = |block: &u64| slot.entries[(block - blocks.start) as usize] != HOLE;
        let mut block = blocks.start;
        while block < blocks.end {
            let end = blocks.end.min(block + self.io_blocks());
            if (block..end).any(|block| allocated(&block)) {
                for (block, content) in (block..end).zip(self.contents(block, end).await) {
                    let expected = slot.entries[(block - blocks.start) as usize];
                    report.check(self, block, expected, content);
                }
            }
            block = end;
        }
        Ok((report, Some(slot)))
    }

    /// The content of blocks `first..end` of one group. If a large read fails, each block is read alone, to find which
    /// of them cannot be read.
    pub(crate) async fn contents(&self, first: u64, end: u64) -> Vec<Content> {
        let size = self.places.block_size;
        if let Ok(bytes) = self.read_raw(first, end - first).await {
            return bytes.chunks_exact(size).map(|c| Ok(found(c))).collect();
        }
        let mut contents = Vec::new();
        for block in first..end {
            contents.push(self.read_raw(block, 1).await.map(|bytes| found(&bytes)));
        }
        contents
    }
}

impl GroupReport {
    fn check(&mut self, home: &Overwrite, block: u64, expected: u32, content: Content) {
        if expected == HOLE {
            return;
        }
        self.allocated += 1;
        let error = match content {
            Ok(found) if found.entry == expected => return,
            Ok(found) => HomeError::Checksum {
                block,
                member: self.member.clone(),
                offset: home.places.block_offset(block),
                expected,
                found: found.entry,
            },
            Err(error) => error,
        };
        self.bad.push(BadBlock { block, error });
    }
}

fn found(content: &[u8]) -> Found {
    Found {
        entry: entry_of_crc(crc32c(content)),
        is_zero: is_zero(content),
    }
}

pub(crate) fn reports(slots: &Slots) -> [SlotReport; 2] {
    let report = |slot: &Result<Option<TableSlot>, FormatError>| match slot {
        Ok(None) => SlotReport::Empty,
        Ok(Some(slot)) => SlotReport::Valid(slot.generation),
        Err(error) => SlotReport::Damaged(*error),
    };
    [report(&slots[0]), report(&slots[1])]
}
