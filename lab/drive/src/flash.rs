//! A drive without moving parts: fixed times, several commands at once, a volatile cache.

use crate::timing::nanos;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use tonearm_base::Nanos;
use tonearm_drive_file::{FlashSpec, WriteCacheSpec};
use tonearm_world::{Done, DriveRequest, Kind, Timing};

const SECTORS_PER_MIB: u64 = 2048;

/// A flash drive.
pub struct Flash {
    spec: FlashSpec,
    cache_on: bool,
    /// When each channel is free.
    channels: Vec<Nanos>,
    /// When the link is free, which all channels share.
    link: Nanos,
    /// Completions to come: time, order, caller's name.
    done: BinaryHeap<Reverse<(Nanos, u64, u64)>>,
    order: u64,
    /// Sectors in the cache, and most that it can hold.
    dirty: u64,
    capacity: u64,
    /// Requests queued after a flush that waits.
    waiting: VecDeque<DriveRequest>,
    /// A flush is under way, so no other request begins.
    flushing: bool,
}

impl Flash {
    /// The drive of `spec`, with its cache on or off. The size of the cache counts unless it is 0.
    pub fn new(spec: &FlashSpec, cache: &WriteCacheSpec, cache_on: bool) -> Self {
        Self {
            spec: spec.clone(),
            // It makes no difference with power-loss protection.
            cache_on,
            channels: vec![Nanos(0); spec.channels as usize],
            link: Nanos(0),
            done: BinaryHeap::new(),
            order: 0,
            dirty: 0,
            capacity: match cache.sectors {
                0 => u64::MAX,
                sectors => u64::from(sectors),
            },
            waiting: VecDeque::new(),
            flushing: false,
        }
    }

    fn finish(&mut self, id: u64, at: Nanos) {
        self.done.push(Reverse((at, self.order, id)));
        self.order += 1;
    }

    fn begin(&mut self, now: Nanos) {
        while let Some(request) = self.waiting.front().copied() {
            // A flush of a cache that is not volatile has nothing to wait for.
            let is_barrier = request.kind == Kind::Flush && !self.spec.power_loss_protection;
            if self.flushing || (is_barrier && !self.done.is_empty()) {
                return;
            }
            self.waiting.pop_front();
            self.serve(now, request);
        }
    }

    fn serve(&mut self, now: Nanos, request: DriveRequest) {
        let bytes = f64::from(request.sectors) * 512.0 / f64::from(1 << 20);
        let (medium, rate) = match request.kind {
            Kind::Read => (self.spec.read_ms, self.spec.read_mib_per_s),
            Kind::Write if self.spec.power_loss_protection => {
                (self.spec.write_cached_ms, self.spec.write_mib_per_s)
            }
            Kind::Write if self.cache_on && !request.fua => {
                // Older sectors are on the medium when the cache has no space for them any more.
                self.dirty = (self.dirty + u64::from(request.sectors)).min(self.capacity);
                (self.spec.write_cached_ms, self.spec.write_mib_per_s)
            }
            Kind::Write => (self.spec.write_ms, self.spec.write_mib_per_s),
            Kind::Flush => {
                let mib = self.dirty as f64 / SECTORS_PER_MIB as f64;
                let time = nanos(self.spec.flush_ms + mib * self.spec.flush_ms_per_mib).0;
                self.dirty = 0;
                self.flushing = !self.spec.power_loss_protection;
                self.finish(request.id, Nanos(now.0 + time));
                return;
            }
        };
        let transfer = (bytes / rate * 1e9) as u64;
        let first = |channels: &[Nanos]| {
            let free = channels.iter().enumerate().min_by_key(|(_, free)| **free);
            free.map_or(0, |(index, _)| index)
        };
        let channel = first(&self.channels);
        let begins = self.channels[channel].max(now);
        let there = begins.0 + nanos(medium).0;
        let done = Nanos(there.max(self.link.0) + transfer);
        // The link is taken only for the transfer.
        self.link = Nanos(self.link.0.max(begins.0) + transfer);
        self.channels[channel] = done;
        self.finish(request.id, done);
    }
}

impl Timing for Flash {
    fn submit(&mut self, now: Nanos, request: DriveRequest) {
        self.waiting.push_back(request);
        self.begin(now);
    }

    fn next(&self) -> Option<Nanos> {
        self.done.peek().map(|Reverse((at, _, _))| *at)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        while let Some(Reverse((at, _, id))) = self.done.peek().copied() {
            if at > now {
                return;
            }
            self.done.pop();
            self.flushing = false;
            done.push(Done { id, at });
            self.begin(at);
        }
    }
}
