//! Timed reads and writes of a device, one at a time, within a region.
//!
//! Invariants:
//! 1. Nothing outside of the region is written, and nothing at all without permission to write.
//! 2. One request is under way at a time, except for reads of drives without a platter.
//! 3. Each question is asked once: answers go to the journal, and come from it after an interruption.

use crate::error::Error;
use crate::journal::Journal;
use crate::layout::EstimatedLayout;
use crate::spindle::Spindle;
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::{Buf, BufPool, Nanos};
use tonearm_device::Device;
use tonearm_rt::{Data, Op, Rt};

/// Bytes of a sector.
pub(crate) const SECTOR: u64 = 512;
/// Largest request, in sectors.
pub(crate) const SECTORS_MAX: u32 = 512;
/// Answers between two saves of the journal.
const SAVE_EVERY: usize = 500;

/// How the passing of a sector under the heads is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// A write that is done when it is on the medium (FUA).
    Durable,
    /// A write, then a flush.
    Flushed,
    /// A read, after so many reads elsewhere that it is no longer in the drive's buffer.
    Read(u32),
}

/// Progress of a calibration, for a progress bar.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Progress {
    /// The present step.
    pub phase: &'static str,
    /// Completed share, 0 to 1.
    pub done: f64,
    /// Requests sent so far.
    pub requests: u64,
}

impl Progress {
    /// Approximate completed share of the whole calibration. The layout takes most of the time.
    pub fn whole(&self) -> f64 {
        let (from, to) = match self.phase {
            "rotation" => (0.0, 0.02),
            "layout" => (0.02, 0.8),
            "heads" => (0.8, 0.81),
            "buffer and cache" => (0.81, 0.86),
            "seeks" => (0.86, 1.0),
            _ => (0.0, 1.0),
        };
        from + (to - from) * self.done.clamp(0.0, 1.0)
    }
}

/// State that the caller and the algorithms share.
pub struct Hooks {
    /// Asked before each request: true ends the calibration with [`Error::Interrupted`].
    pub stop: Box<dyn Fn() -> bool>,
    /// Reports the progress from time to time.
    pub progress: Box<dyn FnMut(Progress)>,
}

impl Default for Hooks {
    fn default() -> Self {
        Self {
            stop: Box::new(|| false),
            progress: Box::new(|_| {}),
        }
    }
}

/// A request and when it was sent and done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub sent: Nanos,
    pub done: Nanos,
}

impl Timed {
    pub fn took(&self) -> f64 {
        self.done.0.saturating_sub(self.sent.0) as f64
    }
}

/// A device that is looked at.
pub(crate) struct Probe {
    pub rt: Rt,
    device: Rc<dyn Device>,
    /// Sectors that may be written, or read.
    pub region: Range<u64>,
    pub may_write: bool,
    buf: Option<Buf>,
    pub journal: Journal,
    hooks: Hooks,
    pub requests: Rc<Cell<u64>>,
    pub method: Method,
    pub spindle: Spindle,
    /// The sector that was timed last as a reference, and its latest timings.
    pub anchor: Option<(u64, Vec<Nanos>)>,
    /// Least timings of a sector for an angle.
    pub repeats: u32,
    /// The layout, once it is known.
    pub belief: Option<Rc<EstimatedLayout>>,
    random: u64,
    progress: Progress,
}

impl Probe {
    pub fn new(
        rt: &Rt,
        device: Rc<dyn Device>,
        region: Range<u64>,
        may_write: bool,
        journal: Journal,
        hooks: Hooks,
    ) -> Self {
        let buf = BufPool::new(0).alloc_zeroed(SECTORS_MAX as usize * SECTOR as usize);
        Self {
            rt: rt.clone(),
            device,
            region,
            may_write,
            buf: Some(buf),
            journal,
            hooks,
            requests: Rc::default(),
            method: Method::Durable,
            spindle: Spindle::default(),
            anchor: None,
            repeats: 1,
            belief: None,
            random: 0x5eed,
            progress: Progress {
                phase: "",
                done: 0.0,
                requests: 0,
            },
        }
    }

    /// Sectors of the whole device.
    pub fn sectors(&self) -> u64 {
        self.device.size_bytes() / SECTOR
    }

    pub fn phase(&mut self, phase: &'static str, done: f64) {
        self.progress = Progress {
            phase,
            done,
            requests: self.requests.get(),
        };
        (self.hooks.progress)(self.progress);
    }

    /// A pseudorandom number below `bound`, for waits and places that must not be regular. No answer may depend on it.
    pub fn random(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound.max(1)
    }

    /// The answer to `question`, from an earlier run or from `measure`.
    pub async fn ask<F>(&mut self, question: String, measure: F) -> Result<Vec<f64>, Error>
    where
        F: AsyncFnOnce(&mut Self) -> Result<Vec<f64>, Error>,
    {
        if let Some(answer) = self.journal.recall(&question)? {
            return Ok(answer);
        }
        let answer = measure(self).await?;
        self.journal.note(question, answer.clone());
        if self.journal.unsaved() >= SAVE_EVERY {
            self.journal.save()?;
        }
        Ok(answer)
    }

    /// Sends a request and waits for its end.
    pub async fn io(&mut self, op: Op, lba: u64, sectors: u32) -> Result<Timed, Error> {
        if (self.hooks.stop)() {
            return Err(Error::Interrupted);
        }
        let writes = matches!(op, Op::Write | Op::WriteDurable);
        let end = lba + u64::from(sectors);
        if op != Op::Flush
            && (lba < self.region.start || end > self.region.end || (writes && !self.may_write))
        {
            return Err(Error::OutsideRegion {
                lba,
                start: self.region.start,
                end: self.region.end,
            });
        }
        self.requests.set(self.requests.get() + 1);
        if self.requests.get().is_multiple_of(64) {
            self.progress.requests = self.requests.get();
            (self.hooks.progress)(self.progress);
        }
        let data = match op {
            Op::Flush => Data::None,
            _ => {
                let buf = self.buf.take().expect("one request is under way at a time");
                Data::Buf(buf, 0..(u64::from(sectors) * SECTOR) as usize)
            }
        };
        let sent = self.rt.now();
        let (result, data) = self.device.io(op, lba * SECTOR, 0, data).await;
        let done = self.rt.now();
        if op != Op::Flush {
            self.buf = Some(data.into_buf());
        }
        let what = match op {
            Op::Flush => "flush its cache after",
            Op::Read => "read",
            _ => "write",
        };
        result.map_err(|source| Error::Io { what, lba, source })?;
        Ok(Timed { sent, done })
    }

    /// Sends `count` reads of `sectors` at once, to random places, and waits for all. Returns the nanoseconds.
    pub async fn read_at_once(&mut self, count: usize, sectors: u32) -> Result<f64, Error> {
        if (self.hooks.stop)() {
            return Err(Error::Interrupted);
        }
        let pool = BufPool::new(0);
        let places = (self.region.end - self.region.start) / u64::from(sectors);
        let sent = self.rt.now();
        let mut under_way = Vec::with_capacity(count);
        for _ in 0..count {
            let lba = self.region.start + self.random(places) * u64::from(sectors);
            let buf = pool.alloc(sectors as usize * SECTOR as usize);
            let data = Data::whole(buf);
            under_way.push((lba, self.device.io(Op::Read, lba * SECTOR, 0, data)));
        }
        self.requests.set(self.requests.get() + count as u64);
        for (lba, io) in under_way {
            let (result, _) = io.await;
            result.map_err(|source| Error::Io {
                what: "read",
                lba,
                source,
            })?;
        }
        Ok((self.rt.now().0 - sent.0) as f64)
    }

    /// Times one sector, with the method that shows its place.
    pub async fn sample(&mut self, lba: u64) -> Result<Timed, Error> {
        match self.method {
            Method::Durable => self.io(Op::WriteDurable, lba, 1).await,
            Method::Flushed => {
                let write = self.io(Op::Write, lba, 1).await?;
                let flush = self.io(Op::Flush, lba, 0).await?;
                Ok(Timed {
                    sent: write.sent,
                    done: flush.done,
                })
            }
            Method::Read(_) => self.io(Op::Read, lba, 1).await,
        }
    }

    /// Reads random places, so that the buffer loses its content of other places.
    pub async fn forget(&mut self, reads: u32) -> Result<(), Error> {
        let span = self.region.end - self.region.start;
        for _ in 0..reads {
            let lba = self.region.start + self.random(span);
            self.io(Op::Read, lba, 1).await?;
        }
        Ok(())
    }

    pub async fn sleep(&mut self, span: Nanos) {
        self.rt.sleep(span).await;
    }
}
