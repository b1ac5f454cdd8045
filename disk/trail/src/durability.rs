//! What is durable: the one object that every rule asks (Durable WAL 5.1 and 5.2).
//!
//! Invariant: `appended >= flushed >= durable`, each only grows. `flushed` is what the device has said
//! done, without gaps; `durable` is what is known to be on the medium. At a start nothing is known to be
//! durable until the first explicit flush (5.3): recovery flushes the log before it trusts it.

use std::collections::VecDeque;
use tonearm_base::{Lsn, RecordSeq};

/// A position in the log: the end of one device write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Last commit that is whole at this point.
    pub lsn: Lsn,
    /// Last record.
    pub seq: RecordSeq,
    /// Count of the track of that record.
    pub track: u64,
    /// Count of the track of the log head that the record names.
    pub head_track: u64,
    /// First commit of the log head that the record names: recovery sees none before it.
    pub head_lsn: Lsn,
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
    /// The administrator's word that the storage keeps order: done is durable.
    ordered: bool,
}

impl Durability {
    /// Everything up to `start` is durable.
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

    /// Commit `lsn` has been queued.
    pub fn append(&mut self, lsn: Lsn) {
        assert!(
            lsn.0 == self.appended.0 + 1,
            "commits are appended in order"
        );
        self.appended = lsn;
    }

    /// A device write that ends at `end` has started; gives its identity.
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

    /// Write `id` is done; `on_medium` when it was written through (FUA). True when `durable` grew.
    pub fn finish_write(&mut self, id: u64, on_medium: bool) -> bool {
        let write = self
            .in_flight
            .iter_mut()
            .find(|write| write.id == id)
            .expect("a write under way");
        (write.done, write.durable) = (true, on_medium);
        let before = self.durable;
        while let Some(write) = self.in_flight.front().filter(|write| write.done) {
            // Written through counts only when nothing before it is still in the cache.
            if self.ordered || (write.durable && self.durable == self.flushed) {
                self.durable = write.end;
            }
            self.flushed = write.end;
            self.in_flight.pop_front();
        }
        assert!(self.appended >= self.flushed.lsn && self.flushed.lsn >= self.durable.lsn);
        self.durable != before
    }

    /// A flush that was issued when `flushed` stood at `covered` has completed.
    pub fn finish_flush(&mut self, covered: Point) {
        assert!(
            covered.seq <= self.flushed.seq,
            "a flush covers only what was done before it"
        );
        if covered.seq > self.durable.seq {
            self.durable = covered;
        }
    }

    /// Last commit queued.
    pub fn appended(&self) -> Lsn {
        self.appended
    }

    /// What the device has said done.
    pub fn flushed(&self) -> Point {
        self.flushed
    }

    /// What is on the medium.
    pub fn durable(&self) -> Point {
        self.durable
    }

    /// Device writes under way.
    pub fn writes_in_flight(&self) -> usize {
        self.in_flight.len()
    }
}
