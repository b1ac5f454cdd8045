//! Joins the events of each request: its arrival, and the completions that cover it.
//!
//! Invariants:
//! 1. Requests are returned in order of arrival, so one that is done waits for those before it.
//! 2. At most 65,536 requests wait. Beyond that the oldest is returned without its response.
//! 3. A completion applies to the oldest open request at each place that it covers: that of a merged request completes
//!    many, and a split request is done when all its parts are.

use crate::record::{Arrival, Op, Record};
use crate::sink::Sink;
use std::collections::{BTreeMap, VecDeque};
use tonearm_base::Nanos;

const OPEN_MAX: usize = 1 << 16;
/// Dispatches after which the trace is assumed to have no Q events.
const UNDECIDED_MAX: usize = 4096;

/// The subject of an event.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub device: u32,
    pub op: Op,
    pub sector: u64,
    /// 0 for a flush.
    pub sectors: u32,
}

/// Which events are arrivals.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Source {
    /// No Q was seen yet: D events count as arrivals until one is seen.
    #[default]
    Undecided,
    Queued,
    Dispatched,
}

struct Open {
    record: Record,
    at: Nanos,
    covered: u32,
    done: bool,
}

#[derive(Default)]
pub(crate) struct Pairs {
    source: Source,
    open: VecDeque<Open>,
    /// Number of the first of `open`, counted over the whole trace.
    first: u64,
    /// Numbers of the requests that are not done, by place.
    places: BTreeMap<(u32, Op, u64, u64), ()>,
}

impl Pairs {
    /// True if an event of this kind is an arrival. The first Q drops the dispatches before it, because their requests
    /// were queued before the trace began.
    pub fn wants(&mut self, queued: bool) -> bool {
        if queued && self.source != Source::Queued {
            if self.source == Source::Undecided {
                self.first += self.open.len() as u64;
                self.open.clear();
                self.places.clear();
            }
            self.source = Source::Queued;
        }
        queued || self.source != Source::Queued
    }

    /// A request whose completion will be looked for.
    pub fn arrive(&mut self, span: Span, fua: bool, at: Nanos, line: u64) {
        let number = self.first + self.open.len() as u64;
        self.places
            .insert((span.device, span.op, span.sector, number), ());
        self.push(span, fua, at, line, false);
    }

    /// Adds a request that has no completion of its own.
    pub fn arrive_only(&mut self, span: Span, at: Nanos, line: u64) {
        self.push(span, false, at, line, true);
    }

    fn push(&mut self, span: Span, fua: bool, at: Nanos, line: u64, done: bool) {
        let record = Record {
            line,
            arrival: Arrival::At(at),
            device: span.device,
            op: span.op,
            fua,
            sector: span.sector,
            sectors: span.sectors,
            response: None,
        };
        self.open.push_back(Open {
            record,
            at,
            covered: 0,
            done,
        });
    }

    pub fn done(&mut self, span: Span, at: Nanos) {
        let Span {
            device, op, sector, ..
        } = span;
        let end = sector.saturating_add(u64::from(span.sectors).max(1));
        // A part of a request that begins before this place.
        let before = (device, op, 0, 0)..(device, op, sector, 0);
        let nearest = self.places.range(before).next_back().map(|(key, ())| key.2);
        let mut from = nearest.unwrap_or(sector);
        while from < end {
            let rest = (device, op, from, 0)..(device, op, end, 0);
            let Some((key, ())) = self.places.range(rest).next() else {
                break;
            };
            let key = *key;
            self.cover(key, span, at);
            from = key.2 + 1;
        }
    }

    fn cover(&mut self, key: (u32, Op, u64, u64), span: Span, at: Nanos) {
        let index = (key.3 - self.first) as usize;
        let open = &mut self.open[index];
        let record = &mut open.record;
        if span.op != Op::Flush {
            let end = (record.sector + u64::from(record.sectors))
                .min(span.sector + u64::from(span.sectors));
            let start = record.sector.max(span.sector);
            let overlap = end.saturating_sub(start) as u32;
            open.covered = open.covered.saturating_add(overlap);
            if open.covered < record.sectors {
                return;
            }
        }
        open.done = true;
        record.response = Some(at.since(open.at));
        self.places.remove(&key);
    }

    /// Returns the requests that are done, and those that have waited too long.
    pub fn hand_out(&mut self, sink: &mut Sink) {
        if self.source == Source::Undecided {
            if self.open.len() < UNDECIDED_MAX {
                return;
            }
            self.source = Source::Dispatched;
        }
        while let Some(open) = self.open.front() {
            if !open.done && self.open.len() <= OPEN_MAX {
                break;
            }
            self.hand_out_first(sink);
        }
    }

    /// Hands out everything.
    pub fn end(&mut self, sink: &mut Sink) {
        while !self.open.is_empty() {
            self.hand_out_first(sink);
        }
    }

    fn hand_out_first(&mut self, sink: &mut Sink) {
        let Some(open) = self.open.pop_front() else {
            return;
        };
        let Record {
            device, op, sector, ..
        } = open.record;
        self.places.remove(&(device, op, sector, self.first));
        self.first += 1;
        sink.push(open.record);
    }
}
