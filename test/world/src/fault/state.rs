//! The faults of one drive: planned faults, lasting states, and faults that wait for a request.

use super::{Fault, FaultKind, Place, Struck};
use crate::image::DiskImage;
use crate::payload::{PAGE, SECTOR};
use std::collections::BTreeSet;
use tonearm_base::Nanos;
use tonearm_rt::{IoError, Op};

/// The effect of a fault on one request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mischief {
    /// It is reported as done and not carried out.
    Lose,
    /// It is carried out at this offset.
    Misdirect(u64),
    /// It reads the medium, past the cache.
    PastCache,
    Fail(IoError),
}

/// A state that lasts.
#[derive(Clone, Copy)]
struct Lasting {
    kind: FaultKind,
    until: Option<Nanos>,
    times: u32,
}

#[derive(Default)]
pub(crate) struct DriveFaults {
    /// Planned faults; the next one is last.
    planned: Vec<Fault>,
    /// Faults that wait for a request that they can change, with the number of requests that they still change.
    armed: Vec<(Fault, u32)>,
    lasting: Vec<Lasting>,
    /// Sectors that cannot be read.
    bad: BTreeSet<u64>,
    requests: u64,
}

impl DriveFaults {
    /// No faults, but the sectors `bad` cannot be read.
    pub fn new(bad: BTreeSet<u64>) -> Self {
        Self {
            bad,
            ..Self::default()
        }
    }

    /// The sectors that cannot be read.
    pub fn bad(&self) -> &BTreeSet<u64> {
        &self.bad
    }

    pub fn plan(&mut self, fault: Fault) {
        self.planned.push(fault);
        // The sort is stable: of faults at one moment, the one planned first comes first.
        self.planned
            .sort_by_key(|fault| std::cmp::Reverse(fault.after));
    }

    /// True without any fault, present or planned: the common case, which must be cheap.
    pub fn is_idle(&self) -> bool {
        self.planned.is_empty()
            && self.armed.is_empty()
            && self.lasting.is_empty()
            && self.bad.is_empty()
    }

    /// Ends lasting states and drops planned faults. Bad sectors stay bad.
    pub fn heal(&mut self) {
        self.planned.clear();
        self.armed.clear();
        self.lasting.clear();
    }

    /// Counts a request. The faults that begin with it.
    pub fn due(&mut self) -> Vec<Fault> {
        let mut due = Vec::new();
        while let Some(fault) = self.planned.pop_if(|fault| fault.after <= self.requests) {
            due.push(fault);
        }
        self.requests += 1;
        due
    }

    /// Begins `fault` at `now`. The caller carries out rot.
    pub fn begin(&mut self, fault: Fault, now: Nanos) {
        if fault.kind.lasts() {
            self.lasting.push(Lasting {
                kind: fault.kind,
                until: (fault.span.0 > 0).then(|| now + fault.span.0),
                times: fault.times,
            });
        } else if !matches!(fault.kind, FaultKind::LatentError | FaultKind::BitRot) {
            self.armed.push((fault, fault.times.max(1)));
        }
    }

    /// Makes the sectors of `offset .. offset + len` unreadable.
    pub fn spoil(&mut self, offset: u64, len: u64) {
        self.bad.extend(sectors(offset, len));
    }

    /// What a waiting fault does to this request, and the report of it.
    pub fn strike(
        &mut self,
        now: Nanos,
        op: Op,
        offset: u64,
        len: u64,
        size: u64,
        image: &DiskImage,
    ) -> Option<(Mischief, Struck)> {
        let write = matches!(op, Op::Write | Op::WriteDurable);
        let fits = |kind: FaultKind| match kind {
            FaultKind::LostWrite | FaultKind::MisdirectedWrite => write,
            FaultKind::MisdirectedRead | FaultKind::StaleRead => op == Op::Read,
            FaultKind::FailedFlush | FaultKind::LyingFlush => op == Op::Flush,
            _ => false,
        };
        let index = self.armed.iter().position(|(fault, _)| fits(fault.kind))?;
        let (fault, left) = &mut self.armed[index];
        let fault = *fault;
        *left -= 1;
        if *left == 0 {
            self.armed.remove(index);
        }
        let mischief = match fault.kind {
            FaultKind::MisdirectedWrite | FaultKind::MisdirectedRead => {
                let to = place(fault.place, size, image) / SECTOR as u64 * SECTOR as u64;
                Mischief::Misdirect(
                    to.min(size.saturating_sub(len) / SECTOR as u64 * SECTOR as u64),
                )
            }
            FaultKind::StaleRead => Mischief::PastCache,
            FaultKind::FailedFlush => Mischief::Fail(IoError::EIO),
            _ => Mischief::Lose,
        };
        let struck = Struck {
            fault,
            at: now,
            op: Some(op),
            offset,
            len,
        };
        Some((mischief, struck))
    }

    /// The error of a request that ends at `now`, by the drive's state.
    pub fn error(&mut self, now: Nanos, op: Op, offset: u64, len: u64) -> Option<IoError> {
        self.expire(now);
        let is = |kind| self.lasting.iter().any(|state| state.kind == kind);
        if is(FaultKind::Failed) {
            return Some(IoError::EIO);
        }
        match op {
            Op::Write | Op::WriteDurable | Op::Zero if is(FaultKind::Full) => {
                return Some(IoError::ENOSPC);
            }
            Op::Read if self.bad.range(sectors(offset, len)).next().is_some() => {
                return Some(IoError::EIO);
            }
            _ => {}
        }
        None
    }

    /// A write of these bytes has reached the medium. The drive remaps its bad sectors.
    pub fn rewritten(&mut self, offset: u64, len: u64) {
        if !self.bad.is_empty() {
            // Partly written sectors stay bad.
            let end = (offset + len) / SECTOR as u64;
            for sector in offset.div_ceil(SECTOR as u64)..end {
                self.bad.remove(&sector);
            }
        }
    }

    /// When the completion of a request is reported that was submitted at `submitted` and done at `done`; `None` is never.
    pub fn reported_at(&mut self, submitted: Nanos, done: Nanos) -> Option<Nanos> {
        self.expire(done);
        let mut at = done;
        for state in &self.lasting {
            match (state.kind, state.until) {
                (FaultKind::Stuck, None) => return None,
                (FaultKind::Stuck, Some(until)) => at = at.max(until),
                (FaultKind::Slow, _) => {
                    let slower = done
                        .since(submitted)
                        .0
                        .saturating_mul(u64::from(state.times));
                    at = at.max(submitted + slower);
                }
                _ => {}
            }
        }
        Some(at)
    }

    fn expire(&mut self, now: Nanos) {
        self.lasting
            .retain(|state| state.until.is_none_or(|until| now < until));
    }
}

/// The byte at `place` on a drive of `size` bytes with this content.
pub(crate) fn place(place: Place, size: u64, image: &DiskImage) -> u64 {
    let byte = match place {
        Place::At(byte) => byte,
        Place::Any(pick) => pick.wrapping_mul(0x9e37_79b9_7f4a_7c15) % size.max(1),
        Place::Used(pick) => {
            let used = image.used_pages();
            match used.len() as u64 {
                0 => 0,
                count => used[(pick % count) as usize] + pick / count % PAGE as u64,
            }
        }
    };
    byte.min(size.saturating_sub(1))
}

fn sectors(offset: u64, len: u64) -> std::ops::Range<u64> {
    offset / SECTOR as u64..(offset + len).div_ceil(SECTOR as u64)
}
