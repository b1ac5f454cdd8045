//! Brings requests into the order of their arrivals. They come in the order in which they have ended.

use crate::control::TraceRequest;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use tonearm_base::Nanos;

/// How long a request is held. One that takes longer than this comes too late for its place.
const HELD_FOR: Nanos = Nanos::from_secs(5);

/// Most requests that are held: about 20 MB.
const HELD_MAX: usize = 1 << 18;

/// Requests on their way into the file.
#[derive(Default)]
pub struct Order {
    /// The earliest arrival first; of the same arrival, the one that has ended first.
    held: BinaryHeap<Reverse<Held>>,
    ended: u64,
    last: Nanos,
    /// Requests whose arrival was moved up to that of the one before, because they came too late.
    pub late: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    arrival: u64,
    number: u64,
    request: TraceRequest,
}

impl Order {
    /// Takes a request that has ended after all those before.
    pub fn push(&mut self, request: TraceRequest) {
        self.held.push(Reverse(Held {
            arrival: request.arrival_ns,
            number: self.ended,
            request,
        }));
        self.ended += 1;
    }

    /// The next request, if all that have ended by `until` are here. The arrivals never go back.
    pub fn pop(&mut self, until: Nanos) -> Option<TraceRequest> {
        let Reverse(first) = self.held.peek()?;
        if first.arrival + HELD_FOR.0 > until.0 && self.held.len() <= HELD_MAX {
            return None;
        }
        self.pop_any()
    }

    /// The next request, when no more will come.
    pub fn pop_any(&mut self) -> Option<TraceRequest> {
        let Reverse(Held { mut request, .. }) = self.held.pop()?;
        if request.arrival_ns < self.last.0 {
            request.arrival_ns = self.last.0;
            self.late += 1;
        }
        self.last = Nanos(request.arrival_ns);
        Some(request)
    }
}

#[cfg(test)]
#[path = "order_test.rs"]
mod order_test;
