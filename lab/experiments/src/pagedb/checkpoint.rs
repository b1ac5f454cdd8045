//! The checkpoint in the six steps of 5.4.

use super::database::Database;
use super::page::PageState;
use super::record::Boot;
use super::wal::Cause;
use std::rc::Rc;
use tonearm_rt::Semaphore;

/// Bytes of the records of a checkpoint.
const RECORD_BYTES: u64 = 96;
/// Most pages that one write takes.
const RUN: usize = 32;
/// Writes that are under way at a time.
const WRITES: u64 = 8;

impl Database {
    /// Does a checkpoint. The caller has set `checkpointing`, so that there is one at a time.
    pub(super) async fn checkpoint(self: Rc<Self>) {
        // 1. The record of the begin, durable.
        let (position, begin) = self.log.next();
        self.log.append(&[], RECORD_BYTES);
        self.log.make_durable(begin, Cause::Checkpoint).await;
        // 2. MinLSN is the number of that record, since no active transaction has a record. The record of the end and the
        // boot page have it.
        // 3. All dirty pages, each when the log is durable as far as it must be.
        self.write_dirty().await;
        // 4. What was written is made durable, with one flush.
        self.flush_data().await;
        // 5. The record of the end, durable.
        let end = self.log.append(&[], RECORD_BYTES);
        self.log.make_durable(end, Cause::Checkpoint).await;
        // 6. The boot page, durable; only then the log is truncated.
        self.write_boot(Boot {
            epoch: self.epoch,
            position,
            first_lsn: begin,
            reaches: end,
        })
        .await;
        self.log.truncate(position);
        self.count(|counts| counts.checkpoints += 1);
        self.checkpointing.set(false);
        self.changed.notify();
    }

    /// Writes all pages that are dirty now.
    async fn write_dirty(self: &Rc<Self>) {
        let dirty = self.pool.borrow().dirty();
        let (mut left, mut busy) = (dirty.as_slice(), Vec::new());
        let slots = Semaphore::new(&self.rt, WRITES);
        let mut writes = Vec::new();
        while !left.is_empty() {
            let slot = slots.acquire(1).await;
            let run = self.take_run(&mut left, &mut busy);
            if run.is_empty() {
                continue;
            }
            let own = self.clone();
            writes.push(self.rt.spawn(async move {
                own.write_home(&run, Cause::Checkpoint).await;
                drop(slot);
            }));
        }
        for write in writes {
            write.await;
        }
        // Pages that were on their way out, perhaps with an earlier content.
        for (frame, page) in busy {
            loop {
                let there = self.pool.borrow().frame(frame);
                if there.page != page || !there.dirty {
                    break;
                }
                let begun = self.pool.borrow_mut().begin_write(frame);
                match begun {
                    None => self.changed.wait().await,
                    Some((page, state)) => {
                        self.write_home(&[(frame, page, state)], Cause::Checkpoint)
                            .await;
                        break;
                    }
                }
            }
        }
    }

    /// Takes neighbouring pages off `left`, to be written at once. Those that are being written go to `busy`.
    fn take_run(
        &self,
        left: &mut &[u32],
        busy: &mut Vec<(u32, u32)>,
    ) -> Vec<(u32, u32, PageState)> {
        let mut pool = self.pool.borrow_mut();
        let mut run: Vec<(u32, u32, PageState)> = Vec::new();
        while let Some((frame, rest)) = left.split_first() {
            let page = pool.frame(*frame).page;
            let follows = |last: &(u32, u32, PageState)| last.1 + 1 == page;
            if run.len() == RUN || run.last().is_some_and(|last| !follows(last)) {
                break;
            }
            *left = rest;
            match pool.begin_write(*frame) {
                Some((page, state)) => run.push((*frame, page, state)),
                None if pool.frame(*frame).dirty => busy.push((*frame, page)),
                None => {}
            }
        }
        drop(pool);
        self.count(|counts| {
            counts.checkpoint_pages += run.len() as u64;
            counts.checkpoint_writes += u64::from(!run.is_empty());
        });
        run
    }
}
