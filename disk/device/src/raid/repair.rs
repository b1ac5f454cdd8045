//! Corrects parity: where a crash interrupted writes, or everywhere.

use super::array::{Array, Raid5};
use super::io::JOINED_BYTES_MAX;
use super::read::Unreadable;
use super::rows::RowSet;
use super::state::{RaidError, is_refusal};
use super::xor::xor_into;
use crate::device::DirtyRanges;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{Buf, is_zero};
use tonearm_rt::{Data, IoError, Semaphore};

/// Steps of a recovery at the same time. Each takes up to [`JOINED_BYTES_MAX`] bytes, or a stripe unit, of every member.
const REPAIRS_MAX: u64 = 4;

/// Most bytes of a member that an orderly end reads for [`Raid5::correct_left_stripes`].
const SETTLED_BYTES_MAX: u64 = 1 << 30;

impl Raid5 {
    /// Corrects the parity of the stripes that recovery has left to its caller, and that the caller has not zeroed as a
    /// whole. Otherwise an array that is closed in order would still need all members at its next opening. Stripes that
    /// cannot be read stay suspect, and so do those beyond a bound, so that the end does not take hours.
    pub(super) async fn correct_left_stripes(&self) {
        // Without a member nothing can be compared, and without recovery any stripe may be wrong.
        if self.is_suspect() || self.state().missing.is_some() {
            return;
        }
        let step = (JOINED_BYTES_MAX / self.stripes.unit).max(1);
        let mut left = SETTLED_BYTES_MAX / self.stripes.unit;
        while left > 0 {
            let next = self.health.borrow().suspect.runs().next();
            let Some(run) = next else {
                return;
            };
            let rows = run.start..run.end.min(run.start + step.min(left));
            left -= rows.end - rows.start;
            if self.compare_rows(rows.clone(), true).await.is_err() {
                return;
            }
            self.health.borrow_mut().suspect.remove(rows);
        }
    }

    /// Compares the parity of all stripes with their data, and corrects it. `progress` gets the number of stripes done,
    /// and of all. A stripe without one of its units cannot be compared and is skipped. The number of stripes that were
    /// wrong.
    ///
    /// # Errors
    /// When a stripe cannot be read or written.
    pub async fn resync(&self, progress: impl FnMut(u64, u64)) -> Result<u64, RaidError> {
        self.compare_all(true, progress).await
    }

    /// As [`Raid5::resync`], but changes nothing.
    ///
    /// # Errors
    /// When a stripe cannot be read.
    pub async fn check_parity(&self, progress: impl FnMut(u64, u64)) -> Result<u64, RaidError> {
        self.compare_all(false, progress).await
    }

    async fn compare_all(
        &self,
        repair: bool,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<u64, RaidError> {
        if repair {
            let begun = self.begin_write().await;
            begun.map_err(|error| self.error(error))?;
        }
        let (mut at, end, mut wrong) = (0, self.stripes.rows, 0);
        let step = (JOINED_BYTES_MAX / self.stripes.unit).max(1);
        while at < end {
            let rows = at..end.min(at + step);
            wrong += self.compare_rows(rows.clone(), repair).await?;
            at = rows.end;
            if repair {
                let mut health = self.health.borrow_mut();
                health.suspect.remove(rows.clone());
            }
            progress(at, end);
        }
        if repair {
            self.health.borrow_mut().suspect_anywhere = false;
            let flushed = self.flush().await;
            flushed.map_err(|error| self.error(error))?;
        }
        Ok(wrong)
    }

    async fn compare_rows(&self, rows: Range<u64>, repair: bool) -> Result<u64, RaidError> {
        let _lock = self.locks.lock(rows.clone()).await;
        let _note = self.unguarded();
        let mut wrong = 0;
        for (row, compared) in self.wrong_rows(rows).await {
            if compared && repair {
                // What is computed from wrong parity is wrong, and is not written to a suspect stripe. The caller trusts
                // the rows again.
                self.health.borrow_mut().suspect.insert(row..row + 1);
            }
            let is_wrong = match (repair, compared) {
                (true, _) => {
                    let unit = 0..self.stripes.unit;
                    self.fix_parity(row, unit, Unreadable::GivenUp).await?
                }
                (false, true) => true,
                (false, false) => {
                    return Err(RaidError::Unreadable {
                        row,
                        member: self.name.clone(),
                        offset: row * self.stripes.unit,
                        error: IoError::EIO,
                    });
                }
            };
            wrong += u64::from(is_wrong);
        }
        Ok(wrong)
    }

    /// Those of `rows` whose parity does not match the data, with true, or that cannot be read, with false. Stripes
    /// without one of their units are left out. The caller holds the lock of the stripes.
    pub(super) async fn wrong_rows(&self, rows: Range<u64>) -> Vec<(u64, bool)> {
        let there = |row: &u64| self.absent(*row).is_none();
        let count = rows.clone().filter(there).count() as u64;
        if count == rows.end - rows.start
            && let Some(xor) = self.xor_of_rows(rows.clone()).await
        {
            let units = xor.chunks_exact(self.stripes.unit as usize);
            let wrong = rows.zip(units).filter(|(_, xor)| !is_zero(xor));
            return wrong.map(|(row, _)| (row, true)).collect();
        }
        // One stripe at a time, to compare as many as possible.
        let mut wrong = Vec::new();
        for row in rows.filter(there) {
            match self.xor_of_rows(row..row + 1).await {
                Some(xor) if is_zero(&xor) => {}
                Some(_) => wrong.push((row, true)),
                None => wrong.push((row, false)),
            }
        }
        wrong
    }

    /// The XOR of all units of `rows`; `None` when one of them cannot be read.
    async fn xor_of_rows(&self, rows: Range<u64>) -> Option<Buf> {
        let all: Vec<usize> = (0..self.stripes.members).collect();
        let len = (rows.end - rows.start) * self.stripes.unit;
        let mut xor = self.pool.alloc_zeroed(len as usize);
        let mut whole = true;
        for read in self.start_reads(rows.start, &all, 0..len) {
            match read.await {
                (Ok(got), data) if got == xor.len() => xor_into(&mut xor, &data.into_buf()),
                _ => whole = false,
            }
        }
        whole.then_some(xor)
    }

    /// Corrects parity where writes were interrupted. Whole stripes that the caller zeroes again stay suspect until then;
    /// all others are trusted from now on.
    pub(super) async fn recover_from(self, interrupted: DirtyRanges) -> Result<(), RaidError> {
        if !self.is_suspect() {
            return Ok(());
        }
        let begun = self.begin_write().await;
        begun.map_err(|error| self.error(error))?;
        let (suspect, work) = self.uncertain(interrupted);
        // The first error. The others would say the same of other stripes.
        let failed: Rc<RefCell<Option<RaidError>>> = Rc::default();
        let at_once = Semaphore::new(&self.rt, REPAIRS_MAX);
        for part in work {
            let permit = at_once.acquire(1).await;
            if failed.borrow().is_some() {
                break;
            }
            let (array, failed) = (self.clone(), failed.clone());
            self.rt.spawn_detached(async move {
                let done = match part {
                    Uncertain::Whole(rows) => array.compare_rows(rows, true).await.map(|_| ()),
                    Uncertain::Part(row, range) => array.correct_part(row, range).await,
                };
                if let Err(error) = done {
                    failed.borrow_mut().get_or_insert(error);
                }
                drop(permit);
            });
        }
        let _all_ended = at_once.acquire(REPAIRS_MAX).await;
        if let Some(error) = failed.take() {
            return Err(error);
        }
        self.trust_all_but(suspect);
        // The corrections are durable before the caller forgets the crash.
        let flushed = self.flush().await;
        flushed.map_err(|error| self.error(error))
    }

    /// The stripes whose parity is compared: whole ones in steps, and of the others the smallest range of a stripe unit
    /// that contains all interrupted writes. The set has the whole stripes that the caller zeroes again.
    fn uncertain(&self, interrupted: DirtyRanges) -> (RowSet, impl Iterator<Item = Uncertain>) {
        let (row_bytes, end) = (self.stripes.row_bytes(), self.stripes.size_bytes());
        let mut parts: BTreeMap<u64, Range<u64>> = BTreeMap::new();
        let mut cut = |range: &Range<u64>, whole: &mut RowSet| {
            let range = range.start.min(end)..range.end.min(end);
            let mut ends = vec![range.clone()];
            let rows = range.start.div_ceil(row_bytes)..range.end / row_bytes;
            if !rows.is_empty() {
                ends = vec![
                    range.start..rows.start * row_bytes,
                    rows.end * row_bytes..range.end,
                ];
                whole.insert(rows);
            }
            for part in ends.into_iter().flat_map(|range| self.stripes.parts(range)) {
                let hull = parts.entry(part.row).or_insert(part.range.clone());
                *hull = hull.start.min(part.range.start)..hull.end.max(part.range.end);
            }
        };
        let (mut changed, mut zeroed) = (RowSet::default(), RowSet::default());
        interrupted
            .changed
            .iter()
            .for_each(|range| cut(range, &mut changed));
        interrupted
            .zeroed
            .iter()
            .for_each(|range| cut(range, &mut zeroed));
        parts.retain(|row, _| !changed.contains(*row));
        let step = (JOINED_BYTES_MAX / self.stripes.unit).max(1);
        let runs: Vec<Range<u64>> = changed.runs().collect();
        let steps = runs.into_iter().flat_map(move |run| {
            let starts = run.clone().step_by(step as usize);
            starts.map(move |at| Uncertain::Whole(at..run.end.min(at + step)))
        });
        let parts = parts
            .into_iter()
            .map(|(row, range)| Uncertain::Part(row, range));
        (zeroed, steps.chain(parts))
    }

    /// Corrects `range` of the parity of `row`. Without one of its units, the parity of a stripe cannot be compared.
    async fn correct_part(&self, row: u64, range: Range<u64>) -> Result<(), RaidError> {
        let _lock = self.locks.lock(row..row + 1).await;
        let _note = self.unguarded();
        if self.absent(row).is_none() {
            self.fix_parity(row, range, Unreadable::GivenUp).await?;
        }
        Ok(())
    }
}

/// Stripes whose parity a crash may have left wrong.
enum Uncertain {
    Whole(Range<u64>),
    /// A range of the units of one stripe.
    Part(u64, Range<u64>),
}

impl Array {
    fn trust_all_but(&self, suspect: RowSet) {
        let mut health = self.health.borrow_mut();
        (health.suspect_anywhere, health.suspect) = (false, suspect);
    }

    /// Corrects `range` of the parity of `row`. True if it was wrong. At an opening, sectors that cannot be read or computed
    /// are given up, or it would end there for ever. The caller holds the stripe's lock, and no unit of the stripe is
    /// missing.
    pub(super) async fn fix_parity(
        &self,
        row: u64,
        range: Range<u64>,
        unreadable: Unreadable,
    ) -> Result<bool, RaidError> {
        let of_parity = self.stripes.parity_member(row);
        let others = (0..self.stripes.members).filter(|member| *member != of_parity);
        let len = (range.end - range.start) as usize;
        let mut parity = self.pool.alloc_zeroed(len);
        for member in others {
            let bytes = self.read_cell(row, member, range.clone(), unreadable).await;
            xor_into(
                &mut parity,
                &bytes.map_err(|failed| self.unreadable(failed))?,
            );
        }
        let Some(device) = self.member(of_parity) else {
            return Ok(false);
        };
        let offset = row * self.stripes.unit + range.start;
        let found = device.read(offset, self.pool.alloc(len)).await;
        if found.is_ok_and(|found| found[..] == parity[..]) {
            return Ok(false);
        }
        let data = Data::whole(parity);
        let written = device.write(offset, data).await;
        match written {
            Err(error) if is_refusal(error) => return Err(self.error(error)),
            Err(error) => self.mark_failed(of_parity, error),
            Ok(()) => {}
        }
        self.count(|stats| stats.parity_fixed += 1);
        self.check_lost().map_err(|error| self.error(error))?;
        Ok(true)
    }

    /// Corrects the parity of a stripe that a refused write has changed in part. Without one of its units, the stripe has
    /// a parity record if the missing unit depends on it. The caller holds the stripe's lock.
    pub(super) async fn repair_row(&self, row: u64) -> Result<(), IoError> {
        let repaired = match (self.absent(row), &self.records) {
            (None, _) => {
                let unit = 0..self.stripes.unit;
                let fixed = self.fix_parity(row, unit, Unreadable::GivenUp).await;
                fixed.map(|_| ())
            }
            (Some(_), Some(records)) => records.apply_torn(self, row).await,
            (Some(_), None) => Ok(()),
        };
        repaired.map_err(|error| error.io_error())?;
        if let Some(records) = &self.records {
            records.repaired(row);
        }
        self.health.borrow_mut().torn.remove(row..row + 1);
        Ok(())
    }

    /// As [`Array::repair_row`], where a unit is to be computed that no member holds.
    pub(super) async fn repair_degraded_row(&self, row: u64) -> Result<(), IoError> {
        let torn = self.health.borrow().torn.contains(row);
        if torn && self.absent(row).is_some() {
            self.repair_row(row).await
        } else {
            Ok(())
        }
    }

    /// Corrects those of `rows` that refused writes have torn.
    pub(super) async fn repair_rows(
        &self,
        rows: impl IntoIterator<Item = u64>,
    ) -> Result<(), IoError> {
        for row in rows {
            let _lock = self.locks.lock(row..row + 1).await;
            if self.health.borrow().torn.contains(row) {
                self.repair_row(row).await?;
            }
        }
        Ok(())
    }
}
