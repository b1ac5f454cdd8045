//! Runs a trace on a drive: requests in, response times out, in the order of the trace.
//!
//! Invariants:
//! 1. The drive's time never goes back, for any trace.
//! 2. A request of an open trace is sent at its time. One of a closed loop is sent when all before it are done and its
//!    think time has passed.
//! 3. Answers are returned in the order of the trace, so memory holds only requests under way and those that were done
//!    before an older one.

use anyhow::{Context, bail};
use std::collections::VecDeque;
use tonearm_base::Nanos;
use tonearm_trace::{Arrival, Op, Record};
use tonearm_world::{Done, DriveRequest, Kind, Timing};

/// The result of a request.
pub struct Answer {
    pub record: Record,
    /// When it was issued.
    pub issued: Nanos,
    pub response: Nanos,
}

struct UnderWay {
    record: Record,
    issued: Nanos,
    done: Option<Nanos>,
}

/// Requests on a drive.
pub struct Run<'a, T> {
    drive: &'a mut T,
    now: Nanos,
    /// When the previous request was done, of those that are done.
    last_done: Nanos,
    under_way: VecDeque<UnderWay>,
    /// How many of those are not done.
    waiting: usize,
    /// Number of the first of those, which is also its number for the drive.
    first: u64,
    done: Vec<Done>,
}

impl<'a, T: Timing> Run<'a, T> {
    pub fn new(drive: &'a mut T) -> Self {
        Self {
            drive,
            now: Nanos(0),
            last_done: Nanos(0),
            under_way: VecDeque::new(),
            waiting: 0,
            first: 0,
            done: Vec::new(),
        }
    }

    /// Sends `record` when its time has come.
    ///
    /// # Errors
    /// When time overflows.
    pub fn issue(&mut self, record: Record) -> anyhow::Result<()> {
        let at = match record.arrival {
            Arrival::At(at) => at,
            Arrival::AfterThink(think) => {
                self.finish()?;
                let at = self.last_done.0.checked_add(think.0);
                Nanos(at.context("the trace runs for more than 584 years")?)
            }
        };
        self.now = self.now.max(at);
        self.advance();
        self.drive.submit(
            self.now,
            DriveRequest {
                id: self.first + self.under_way.len() as u64,
                kind: match record.op {
                    Op::Read => Kind::Read,
                    Op::Write => Kind::Write,
                    Op::Flush => Kind::Flush,
                },
                fua: record.fua,
                lba: record.sector,
                sectors: record.sectors,
            },
        );
        self.waiting += 1;
        self.under_way.push_back(UnderWay {
            record,
            issued: self.now,
            done: None,
        });
        Ok(())
    }

    /// Waits for the end of all requests.
    ///
    /// # Errors
    /// When the drive does not complete a request.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        while self.waiting > 0 {
            let Some(next) = self.drive.next() else {
                bail!("the model of the drive has lost a request; please report this");
            };
            self.now = self.now.max(next);
            self.advance();
        }
        Ok(())
    }

    /// The next answer, in the order of the trace, if it is there.
    pub fn answer(&mut self) -> Option<Answer> {
        let done = self.under_way.front()?.done?;
        let UnderWay { record, issued, .. } = self.under_way.pop_front()?;
        self.first += 1;
        Some(Answer {
            record,
            issued,
            response: done.since(issued),
        })
    }

    /// The time up to which the drive has run.
    pub fn now(&self) -> Nanos {
        self.now
    }

    fn advance(&mut self) {
        self.drive.advance(self.now, &mut self.done);
        for done in self.done.drain(..) {
            let index = done.id.wrapping_sub(self.first) as usize;
            if let Some(request) = self.under_way.get_mut(index) {
                self.waiting -= usize::from(request.done.is_none());
                request.done = Some(done.at);
            }
            self.last_done = self.last_done.max(done.at);
        }
    }
}
