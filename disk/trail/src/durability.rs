//! Which commits are durable. Every rule that depends on durability asks this object (Durable WAL 5.1 and 5.2).
//!
//! Invariant: `appended >= flushed >= durable`, and each only grows. `flushed` is the end of the longest gap-free
//! run of completed writes. `durable` is what is known to be on the medium. At a start nothing is known to be
//! durable before the first explicit flush (5.3), so recovery flushes the log before it reads it.

use std::collections::VecDeque;
use tonearm_base::{Lsn, RecordSeq};

/// A position in the log: the end of a device write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Last commit that is whole at this point.
    pub lsn: Lsn,
    /// Last record.
    pub seq: RecordSeq,
    /// Count of the track of that record.
    pub track: u64,
    /// Count of the track of the log start that the record names.
    pub log_start_track: u64,
    /// First commit of that log start: recovery replays none before it.
    pub log_start_lsn: Lsn,
}

struct InFlight {
    id: u64,
    end: Point,
    done: bool,
    durable: bool,
}

/// Appended, flushed and durable positions of the log.
pub struct Durability {
    appended: Lsn,
    flushed: Point,
    durable: Point,
    in_flight: VecDeque<InFlight>,
    next_id: u64,
    /// The storage keeps completed writes in order, so that a completed write is durable.
    ordered: bool,
}

impl Durability {
    /// A log that is durable up to `start`.
    pub fn new(start: Point, ordered: bool) -> Self {
        Self {
            appended: start.lsn,
            flushed: start,
            durable: start,
            in_flight: VecDeque::new(),
            next_id: 0,
            ordered,
        }
    }

    /// Notes that commit `lsn` has been queued.
    pub fn append(&mut self, lsn: Lsn) {
        assert!(
            lsn.0 == self.appended.0 + 1,
            "commits are appended in order"
        );
        self.appended = lsn;
    }

    /// Notes the start of a device write that ends at `end`. The identity of the write.
    pub fn start_write(&mut self, end: Point) -> u64 {
        assert!(end.lsn <= self.appended, "written before it was appended");
        let id = self.next_id;
        self.next_id += 1;
        self.in_flight.push_back(InFlight {
            id,
            end,
            done: false,
            durable: false,
        });
        id
    }

    /// Notes the completion of write `id`, which had FUA or not. True when `durable` grew.
    pub fn finish_write(&mut self, id: u64, fua: bool) -> bool {
        let write = self
            .in_flight
            .iter_mut()
            .find(|write| write.id == id)
            .expect("the write is under way");
        (write.done, write.durable) = (true, fua);
        let before = self.durable;
        while let Some(write) = self.in_flight.front().filter(|write| write.done) {
            // FUA counts only when no earlier write is still in the drive's cache.
            if self.ordered || (write.durable && self.durable == self.flushed) {
                self.durable = write.end;
            }
            self.flushed = write.end;
            self.in_flight.pop_front();
        }
        assert!(self.appended >= self.flushed.lsn && self.flushed.lsn >= self.durable.lsn);
        self.durable != before
    }

    /// Notes the completion of a flush that was sent when `flushed` stood at `covered`.
    pub fn finish_flush(&mut self, covered: Point) {
        assert!(
            covered.seq <= self.flushed.seq,
            "a flush covers only writes that completed before it"
        );
        if covered.seq > self.durable.seq {
            self.durable = covered;
        }
    }

    /// Last commit queued.
    pub fn appended(&self) -> Lsn {
        self.appended
    }

    /// End of the longest gap-free run of completed writes.
    pub fn flushed(&self) -> Point {
        self.flushed
    }

    /// End of what is on the medium.
    pub fn durable(&self) -> Point {
        self.durable
    }

    /// Device writes under way.
    pub fn writes_in_flight(&self) -> usize {
        self.in_flight.len()
    }
}
