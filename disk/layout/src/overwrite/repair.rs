//! Repair of one group, as far as the right content is known: for `tonearm check --repair`.
//!
//! | found                         | done                                                       |
//! |-------------------------------|------------------------------------------------------------|
//! | one slot damaged, one not     | the damaged one is written again from the other            |
//! | no valid slot                 | the table is rebuilt from the present blocks, unverified   |
//! | a block fails its checksum    | nothing, or with `accept_data` its content is accepted      |
//! | a block that cannot be read   | nothing                                                    |
//!
//! The log must have been replayed before, because it still has the blocks that a torn write has damaged.

use crate::error::HomeError;
use crate::overwrite::home::Overwrite;
use crate::overwrite::table_cache::Table;
use crate::report::{BadBlock, RepairOptions, RepairReport, SlotReport};
use std::rc::Rc;
use tonearm_format::{HOLE, LOST, TableSlot};

impl Overwrite {
    /// See [`Home::repair_group`](crate::Home::repair_group).
    pub(crate) async fn repair_group(
        &self,
        group: u64,
        options: RepairOptions,
    ) -> Result<RepairReport, HomeError> {
        let _writer = self.writer.acquire(1).await;
        let (found, slot) = self.examine(group).await?;
        let damaged = |slot: &SlotReport| matches!(slot, SlotReport::Damaged(_));
        let mut report = RepairReport {
            slots_rewritten: found.slots.iter().filter(|slot| damaged(slot)).count() as u64,
            unverified: 0,
            accepted: Vec::new(),
            remaining: Vec::new(),
            found,
        };
        let slot = match slot {
            Some(mut slot) => {
                self.accept(group, &mut slot, options, &mut report);
                slot
            }
            None => self.rebuild(group, &mut report).await,
        };
        if report.slots_rewritten > 0 || !report.accepted.is_empty() {
            // The next generation goes to the damaged slot when the other one is valid; when none is,
            // both are written in turn.
            let writes = report.slots_rewritten.max(1);
            self.replace_table(group, slot, writes, &report.found.slots)
                .await?;
        }
        Ok(report)
    }

    fn accept(
        &self,
        group: u64,
        slot: &mut TableSlot,
        options: RepairOptions,
        report: &mut RepairReport,
    ) {
        let first = self.places.blocks_of(group).start;
        for bad in &report.found.bad {
            match bad.error {
                HomeError::Checksum { found, .. } if options.accept_data => {
                    slot.entries[(bad.block - first) as usize] = found;
                    report.accepted.push(bad.block);
                }
                _ => report.remaining.push(bad.clone()),
            }
        }
    }

    /// A table with the checksums of the present blocks of `group`; blocks of zeroes become holes.
    async fn rebuild(&self, group: u64, report: &mut RepairReport) -> TableSlot {
        let mut slot = TableSlot::empty(self.places.block_size as u32);
        let blocks = self.places.blocks_of(group);
        let mut first = blocks.start;
        while first < blocks.end {
            let end = blocks.end.min(first + self.io_blocks());
            for (block, content) in (first..end).zip(self.contents(first, end).await) {
                let entry = &mut slot.entries[(block - blocks.start) as usize];
                match content {
                    Ok(found) if found.is_zero => *entry = HOLE,
                    Ok(found) => {
                        *entry = found.entry;
                        report.unverified += 1;
                    }
                    Err(error) => {
                        *entry = LOST;
                        report.remaining.push(BadBlock { block, error });
                    }
                }
            }
            first = end;
        }
        slot
    }

    /// Writes `slot` as the table of `group`, `writes` times with a flush after each. If there was a valid slot before,
    /// there is one at any time.
    async fn replace_table(
        &self,
        group: u64,
        slot: TableSlot,
        writes: u64,
        before: &[SlotReport; 2],
    ) -> Result<(), HomeError> {
        let members = [self.places.member_of(group)];
        let table = Rc::new(Table::new(slot));
        // An empty slot 1 beside a damaged slot 0: generation 1 would go to the empty one.
        if matches!(before, [SlotReport::Damaged(_), SlotReport::Empty]) {
            table.slot.borrow_mut().generation = 1;
        }
        for _ in 0..writes {
            self.begin(&members).await?;
            self.put_table(group, &table);
            self.cache.borrow_mut().begin_write(group, &table);
            let mut batch = self.batch();
            batch.start(self.table_write(group, table.clone())).await;
            let written = batch.end().await;
            self.forget_tables(group..group + 1);
            written?;
            table.pending.set(false);
            self.finish_batch(&members).await?;
        }
        Ok(())
    }
}
