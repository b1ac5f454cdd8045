//! Writes blocks and zeroes home.
//!
//! The order, for one call:
//! 1. Members that are not durable are flushed. A member is durable when everything that reads of its tables return is
//!    durable. It is not known to be durable after the opening, because an earlier process may have ended between a write and its
//!    flush, nor after a failed call.
//! 2. Whole groups that become zero are punched together with their table slots, with one operation for each run of
//!    groups. All of these operations end before anything else is written.
//! 3. Group by group, a bounded number at a time: parts are zeroed, blocks are written, and the table is written once,
//!    to the slot of its next generation.
//! 4. Each touched member is flushed. Only then do the new generations count as durable. While clients read, members are flushed
//!    earlier, too (`queue.rs`), which makes some of the writes durable before others, as a power cut may.
//!
//! A power cut at any moment is harmless. All blocks of the call are in the log until it returns, so their content and
//! entries may be anything. The entries of all other blocks must hold.
//! - A group that is touched in part: the call does not write the slot that was durable before (steps 1 and 4 ensure
//!   that it is durable). So there is always one valid table, and both tables have the same entries for untouched
//!   blocks. The newer table is used if it is whole. Some of the blocks that it describes may not be written; the log
//!   replays them.
//! - A group that is punched whole: every block of it is in the log, so any table is right, and so is none. Without a
//!   table the replay may come in several calls, of which the first touches the group in part (`load.rs`).
//! - Generations start again at 1 after the punch. Before the flush an old slot of a higher generation may come back
//!   and replace the new table. That is also a table of a group of which every block is in the log, and writing
//!   continues from its generation. After the flush only the new slot has content. If the call fails in between, step 1
//!   of the next call makes the punch durable before any slot is written that depends on it.
//!
//! A failed call can be repeated, and so can another call follow it. Every generation that its own call did not make
//! durable stays pending in memory and is written again to the same slot. If its table was evicted meanwhile it is read
//! again, and step 1 has made durable what was read.

use crate::error::HomeError;
use crate::home::{HomeBlock, ZeroRange};
use crate::overwrite::batch::Operation;
use crate::overwrite::home::{IO_BYTES_MAX, Overwrite};
use crate::overwrite::plan::{GroupPart, ZeroPlan};
use crate::overwrite::table_cache::Table;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::Slice;
use tonearm_format::{HOLE, LOST, TableSlot, entry_of_crc};
use tonearm_rt::{Data, Op, SLICES_MAX};

/// The changes of one call to one group.
struct GroupWork {
    group: u64,
    /// The group was punched with its slots in this call.
    fresh: bool,
    parts: Vec<GroupPart>,
    blocks: Vec<HomeBlock>,
}

impl Overwrite {
    /// See [`Home::write_back`](crate::Home::write_back).
    pub(crate) async fn write_back(
        &self,
        zeroes: Vec<ZeroRange>,
        blocks: Vec<HomeBlock>,
    ) -> Result<(), HomeError> {
        let _writer = self.writer.acquire(1).await;
        let size_blocks = self.places.size_blocks.get();
        let plan = ZeroPlan::new(zeroes, self.places.group_blocks, size_blocks);
        self.check_blocks(&blocks);
        let members = self.members_of(&plan, &blocks);
        self.begin(&members).await?;
        self.zero_whole_groups(&plan).await?;
        self.write_groups(plan, blocks).await?;
        self.finish_batch(&members).await
    }

    /// Makes durable what reads return, so that new tables can be based on it.
    pub(crate) async fn begin(&self, members: &[usize]) -> Result<(), HomeError> {
        let not_durable = |index: &usize| !self.places.members[*index].is_durable.get();
        self.flush(members.iter().copied().filter(not_durable))
            .await?;
        self.cache.borrow_mut().begin_batch();
        for index in members {
            self.places.members[*index].is_durable.set(false);
        }
        Ok(())
    }

    /// Ends what [`Overwrite::begin`] began.
    pub(crate) async fn finish_batch(&self, members: &[usize]) -> Result<(), HomeError> {
        self.flush(members.iter().copied()).await?;
        self.cache.borrow_mut().commit_batch();
        for index in members {
            self.places.members[*index].is_durable.set(true);
        }
        Ok(())
    }

    async fn flush(&self, members: impl Iterator<Item = usize>) -> Result<(), HomeError> {
        let flush = |member: usize| {
            self.count(|stats| stats.flushes += 1);
            let queue = self.places.members[member].queue.clone();
            self.rt.spawn(async move { queue.flush().await })
        };
        let mut failed = None;
        for flush in members.map(flush).collect::<Vec<_>>() {
            let result = flush.await;
            failed = failed.or(result.err());
        }
        failed.map_or(Ok(()), Err)
    }

    fn check_blocks(&self, blocks: &[HomeBlock]) {
        assert!(
            blocks.is_sorted_by(|a, b| a.block < b.block),
            "blocks ascend"
        );
        let last = blocks.last().map_or(0, |last| last.block);
        assert!(last < self.places.size_blocks.get(), "block {last} exists");
        let size = self.places.block_size;
        assert!(
            blocks.iter().all(|block| block.data.len() == size),
            "a home block has {size} bytes"
        );
    }

    /// Indexes of the members that the call touches.
    fn members_of(&self, plan: &ZeroPlan, blocks: &[HomeBlock]) -> Vec<usize> {
        let mut touched = vec![false; self.places.members.len()];
        for run in &plan.whole {
            for (member, _) in self.by_member(run.groups.clone()) {
                touched[member] = true;
            }
        }
        for part in &plan.parts {
            touched[self.places.member_of(part.group)] = true;
        }
        let mut rest = blocks;
        while let Some(first) = rest.first() {
            let group = self.places.group_of(first.block);
            touched[self.places.member_of(group)] = true;
            let end = self.places.blocks_of(group).end;
            rest = &rest[rest.partition_point(|block| block.block < end)..];
        }
        (0..touched.len()).filter(|index| touched[*index]).collect()
    }

    pub(crate) fn by_member(
        &self,
        groups: Range<u64>,
    ) -> impl Iterator<Item = (usize, Range<u64>)> {
        let mut next = groups.start;
        std::iter::from_fn(move || {
            let (member, run) =
                (next < groups.end).then(|| self.places.run_on_member(next, groups.end))?;
            next = run.end;
            Some((member, run))
        })
    }

    async fn zero_whole_groups(&self, plan: &ZeroPlan) -> Result<(), HomeError> {
        let mut batch = self.batch();
        for run in &plan.whole {
            for (member, groups) in self.by_member(run.groups.clone()) {
                let start = self.places.slot_offset(groups.start, 0);
                let bytes = (groups.end - groups.start)
                    * self.places.members[member].geometry.get().group_bytes();
                let op = zero_op(run.keep_space);
                let operation = Operation::command(member, op, start..start + bytes);
                batch.start(operation).await;
            }
        }
        let result = batch.end().await;
        // Also after a failure: only the medium shows then what the slots contain.
        for run in &plan.whole {
            self.forget_tables(run.groups.clone());
        }
        result
    }

    async fn write_groups(&self, plan: ZeroPlan, blocks: Vec<HomeBlock>) -> Result<(), HomeError> {
        let whole = ZeroPlan {
            parts: Vec::new(),
            ..plan
        };
        let mut parts = plan.parts.into_iter().peekable();
        let mut blocks = blocks.into_iter().peekable();
        let failed: Rc<RefCell<Option<HomeError>>> = Rc::default();
        while failed.borrow().is_none() {
            let of_part = parts.peek().map(|part| part.group);
            let of_block = blocks.peek().map(|b| self.places.group_of(b.block));
            let Some(group) = of_part.into_iter().chain(of_block).min() else {
                break;
            };
            let end = self.places.blocks_of(group).end;
            let work = GroupWork {
                group,
                fresh: whole.is_whole(group),
                parts: std::iter::from_fn(|| parts.next_if(|part| part.group == group)).collect(),
                blocks: std::iter::from_fn(|| blocks.next_if(|b| b.block < end)).collect(),
            };
            let permit = self.group_jobs.acquire(1).await;
            let (home, failed) = (self.clone(), failed.clone());
            self.rt.spawn_detached(async move {
                if let Err(error) = home.write_group(work).await {
                    failed.borrow_mut().get_or_insert(error);
                }
                drop(permit);
            });
        }
        // All permits are free when all groups have ended.
        drop(self.group_jobs.acquire(self.group_jobs.limit()).await);
        failed.take().map_or(Ok(()), Err)
    }

    async fn write_group(&self, work: GroupWork) -> Result<(), HomeError> {
        let GroupWork {
            group,
            fresh,
            parts,
            blocks,
        } = work;
        let table = self.table_to_change(group, fresh).await?;
        let first = self.places.blocks_of(group).start;
        let mut changed = !blocks.is_empty() || table.pending.get();
        {
            let mut slot = table.slot.borrow_mut();
            for part in &parts {
                let range =
                    (part.blocks.start - first) as usize..(part.blocks.end - first) as usize;
                let entries = &mut slot.entries[range];
                changed |= entries.iter().any(|entry| *entry != HOLE);
                entries.fill(HOLE);
            }
            for block in &blocks {
                slot.entries[(block.block - first) as usize] = entry_of_crc(block.crc);
            }
        }
        if changed {
            // Before anything can fail: a repeated call finds a pending table and writes it, even if nothing more
            // changes.
            self.cache.borrow_mut().begin_write(group, &table);
        }
        let member = self.places.member_of(group);
        if !parts.is_empty() {
            let mut zeroes = self.batch();
            for part in parts {
                let start = self.places.block_offset(part.blocks.start);
                let len = (part.blocks.end - part.blocks.start) * self.places.block_size as u64;
                let op = zero_op(part.keep_space);
                let operation = Operation::command(member, op, start..start + len);
                zeroes.start(operation).await;
            }
            // Ends before the blocks are written, because one of them may lie in a zeroed part.
            zeroes.end().await?;
        }
        let mut writes = self.batch();
        if changed {
            writes.start(self.table_write(group, table)).await;
        }
        for (first, slices) in write_runs(blocks) {
            let offset = self.places.block_offset(first);
            let data = Data::Slices(slices);
            writes.start(Operation::write(member, offset, data)).await;
        }
        writes.end().await
    }

    /// The table of a group that is about to change, for each state of its slots.
    async fn table_to_change(&self, group: u64, fresh: bool) -> Result<Rc<Table>, HomeError> {
        let empty = || TableSlot::empty(self.places.block_size as u32);
        let slot = if fresh {
            empty()
        } else {
            match self.table(group).await {
                Err(HomeError::Table { .. }) => {
                    self.count(|stats| stats.tables_lost += 1);
                    let mut slot = empty();
                    slot.entries.fill(LOST);
                    slot
                }
                other => return other,
            }
        };
        let table = Rc::new(Table::new(slot));
        self.put_table(group, &table);
        Ok(table)
    }

    /// The write of the present table of `group` to the slot of its generation, which `TableCache::begin_write` has
    /// set.
    pub(crate) fn table_write(&self, group: u64, table: Rc<Table>) -> Operation {
        assert!(table.pending.get(), "a durable slot is not overwritten");
        self.count(|stats| stats.table_writes += 1);
        let mut buf = self.pool.alloc(self.places.block_size);
        let slot = table.slot.borrow();
        slot.encode(group, &mut buf);
        let offset = self.places.slot_offset(group, slot.generation % 2);
        drop(slot);
        let member = self.places.member_of(group);
        Operation {
            table: Some(table),
            ..Operation::write(member, offset, Data::whole(buf))
        }
    }
}

fn zero_op(keep_space: bool) -> Op {
    if keep_space { Op::Zero } else { Op::Punch }
}

/// Cuts ascending blocks of one group into device writes of adjacent blocks. Slices that are adjacent in memory are
/// joined.
fn write_runs(blocks: Vec<HomeBlock>) -> Vec<(u64, Vec<Slice>)> {
    let mut runs: Vec<(u64, Vec<Slice>)> = Vec::new();
    let (mut next, mut bytes) = (None, 0);
    for HomeBlock { block, data, .. } in blocks {
        let continues = next == Some(block) && bytes + data.len() <= IO_BYTES_MAX;
        next = Some(block + 1);
        let len = data.len();
        match runs.last_mut() {
            Some((_, slices)) if continues && slices.len() < SLICES_MAX => {
                bytes += len;
                let last = slices.last_mut().expect("a run has a slice");
                if last.is_followed_by(&data) {
                    *last = last.joined(&data);
                } else {
                    slices.push(data);
                }
            }
            _ => {
                bytes = len;
                runs.push((block, vec![data]));
            }
        }
    }
    runs
}
