//! Repairs rotten content: what a member returns without an error, and is wrong.
//!
//! Only the writer knows what is right, by its checksums. So it names places of the array ([`Known`]). Content that is
//! wrong is computed from the other members, verified, and written to its member alone. A write through the array would
//! be wrong there: a read-modify-write removes the old data from the parity as they were written, not as they are now,
//! and the parity of the stripe would no longer compute its other units.
//!
//! Parity is computed anew only in stripes of which all known places are right. From rotten data it would make them final.

use super::array::{Array, Raid5};
use super::geometry::Part;
use super::io::JOINED_BYTES_MAX;
use super::read::Unreadable;
use super::state::{RaidError, is_refusal};
use crate::device::{Known, RepairOutcome};
use std::ops::Range;
use tonearm_base::Buf;
use tonearm_rt::{Data, IoError};

/// What a known place was found to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Right,
    Repaired,
    /// It is wrong, and the other members do not compute it.
    Wrong,
    /// It lies in a stripe whose parity is not trusted, or that lacks a unit.
    Doubtful,
}

impl Raid5 {
    /// See [`crate::Redundancy::compare`].
    pub(super) async fn differing(self, range: Range<u64>) -> Result<Vec<Range<u64>>, RaidError> {
        self.check_lost().map_err(|error| self.error(error))?;
        let row_bytes = self.stripes.row_bytes();
        let end = range.end.div_ceil(row_bytes).min(self.stripes.rows);
        let step = (JOINED_BYTES_MAX / self.stripes.unit).max(1);
        let (mut at, mut differing) = (range.start.div_ceil(row_bytes), Vec::new());
        while at < end {
            let rows = at..end.min(at + step);
            let _lock = self.locks.lock(rows.clone()).await;
            let found = self.wrong_rows(rows.clone()).await;
            let trusted = found.iter().filter(|(row, _)| !self.is_doubtful(*row));
            differing.extend(trusted.map(|(row, _)| row * row_bytes..(row + 1) * row_bytes));
            at = rows.end;
        }
        Ok(differing)
    }

    /// See [`crate::Redundancy::repair`].
    pub(super) async fn repair_known(
        self,
        known: Vec<Known>,
        stripes: Range<u64>,
    ) -> Result<RepairOutcome, RaidError> {
        let mut repaired = RepairOutcome::default();
        if self.read_only {
            return Ok(repaired);
        }
        let begun = self.begin_write().await;
        begun.map_err(|error| self.error(error))?;
        let mut doubtful = false;
        for place in known {
            match self.repair_place(place).await {
                Found::Right => {}
                Found::Repaired => repaired.places += 1,
                Found::Wrong => repaired.wrong += 1,
                Found::Doubtful => doubtful = true,
            }
        }
        let row_bytes = self.stripes.row_bytes();
        let mut rows = stripes.start.div_ceil(row_bytes)..stripes.end / row_bytes;
        if repaired.wrong > 0 || doubtful {
            rows.end = rows.start;
        }
        for row in rows {
            let _permit = self.jobs.acquire(1).await;
            let _lock = self.locks.lock(row..row + 1).await;
            let _note = self.unguarded();
            if self.is_doubtful(row) {
                continue;
            }
            // What is computed from wrong parity is wrong, and is not written to a suspect stripe.
            self.health.borrow_mut().suspect.insert(row..row + 1);
            let fixed = self.fix_parity(row, 0..self.stripes.unit, Unreadable::Fails);
            let fixed = fixed.await;
            self.health.borrow_mut().suspect.remove(row..row + 1);
            match fixed {
                Ok(fixed) => repaired.stripes += u64::from(fixed),
                Err(_) => repaired.wrong += 1,
            }
        }
        if repaired.places + repaired.stripes > 0 || self.has_unsaved_failure() {
            let flushed = self.flush().await;
            flushed.map_err(|error| self.error(error))?;
        }
        self.check_lost().map_err(|error| self.error(error))?;
        Ok(repaired)
    }

    /// Verifies a place, and repairs it if it is wrong. Where it lies on several members, one of them is taken for wrong,
    /// then all.
    async fn repair_place(&self, place: Known) -> Found {
        let parts: Vec<Part> = self.stripes.parts(place.range.clone()).collect();
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
            return Found::Right;
        };
        let rows = first.row..last.row + 1;
        let _permit = self.jobs.acquire(1).await;
        let _lock = self.locks.lock(rows.clone()).await;
        let _note = self.unguarded();
        if rows.into_iter().any(|row| self.is_doubtful(row)) {
            return Found::Doubtful;
        }
        let mut present = Vec::new();
        for part in &parts {
            present.push(self.read_raw(part).await);
        }
        let is_right = |bytes: Option<Vec<u8>>| bytes.is_some_and(|bytes| (place.is_right)(&bytes));
        if is_right(joined(&present, &[], &[])) {
            return Found::Right;
        }
        let mut computed = Vec::new();
        for part in &parts {
            let member = self.stripes.member(part.row, part.column);
            let cell = self.compute_cell(part.row, member, part.range.clone());
            computed.push(cell.await.ok());
        }
        let all: Vec<usize> = (0..parts.len()).collect();
        let tries = all.iter().map(|index| vec![*index]).chain([all.clone()]);
        for wrong in tries {
            if is_right(joined(&present, &computed, &wrong)) {
                for index in wrong {
                    if let Some(bytes) = computed[index].take()
                        && !self.write_raw(&parts[index], bytes).await
                    {
                        return Found::Wrong;
                    }
                }
                return Found::Repaired;
            }
        }
        Found::Wrong
    }

    /// What the member of `part` has there; none if it cannot be read.
    async fn read_raw(&self, part: &Part) -> Option<Buf> {
        let member = self.stripes.member(part.row, part.column);
        let reads = self.start_reads(part.row, &[member], part.range.clone());
        let len = (part.range.end - part.range.start) as usize;
        match reads.into_iter().next()?.await {
            (Ok(got), data) if got == len => Some(data.into_buf()),
            _ => None,
        }
    }

    /// Writes `bytes` to the member of `part` alone: the parity has them already. True if it has succeeded.
    async fn write_raw(&self, part: &Part, bytes: Buf) -> bool {
        let member = self.stripes.member(part.row, part.column);
        let offset = part.row * self.stripes.unit + part.range.start;
        let written = match self.member(member) {
            Some(device) => device.write(offset, Data::whole(bytes)).await,
            None => Err(IoError::EIO),
        };
        match written {
            Ok(()) => self.count(|stats| stats.repaired += 1),
            Err(error) if is_refusal(error) => {}
            Err(error) => self.mark_failed(member, error),
        }
        written.is_ok()
    }
}

impl Array {
    /// True when nothing follows from the parity of `row`.
    fn is_doubtful(&self, row: u64) -> bool {
        self.absent(row).is_some() || self.is_suspect_row(row)
    }
}

/// The parts of a place, those of `wrong` as `computed`, the others as they are `present`. None if one is not known.
fn joined(present: &[Option<Buf>], computed: &[Option<Buf>], wrong: &[usize]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for (index, part) in present.iter().enumerate() {
        let from = if wrong.contains(&index) {
            &computed[index]
        } else {
            part
        };
        bytes.extend_from_slice(from.as_deref()?);
    }
    Some(bytes)
}
