//! The drive's memory: whether FUA and flush wait for the medium, the write cache, the read buffer, the bus.

use crate::error::Error;
use crate::layout::Layout;
use crate::probe::{Method, Probe};
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_rt::Op;

/// Reads elsewhere after which no drive's buffer has the earlier sectors.
const FORGETS_MAX: u32 = 128;
/// A pause in which a drive finishes reading ahead.
const PAUSE: Nanos = Nanos(200_000_000);
/// Sectors of the longer of two requests whose difference gives the speed of the bus.
const LONG: u32 = 17;

/// The results for buffer and write cache. Times in ms.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Memory {
    /// A write with FUA waits for the medium; `None` when it was not tried.
    pub fua_honoured: Option<bool>,
    /// A flush waits for the medium; `None` when it was not tried.
    pub flush_honoured: Option<bool>,
    /// Plain writes end before they are on the medium.
    pub write_cache: Option<bool>,
    /// Time of a write into the cache, without its transfer.
    pub write_hit: Option<f64>,
    /// A flush of an empty cache.
    pub flush: Option<f64>,
    /// Approximate sectors that the write cache takes at once.
    pub cache_sectors: Option<u32>,
    /// The write cache takes only writes that continue its content.
    pub cache_sequential: bool,
    /// Time of a read from the buffer, without its transfer.
    pub read_hit: Option<f64>,
    /// A sector on the bus.
    pub read_sector: Option<f64>,
    /// A sector on the bus.
    pub write_sector: Option<f64>,
    /// Places that the buffer remembers, about.
    pub segments: u32,
    /// Sectors that the drive reads on by itself.
    pub read_ahead: u32,
}

/// The median, and the difference of the largest and smallest value.
fn spread(values: &mut [f64]) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    (values[last / 2], values[last] - values[0])
}

impl Probe {
    /// A place that was not used recently; near the start of a track, once tracks are known.
    fn cold(&mut self) -> u64 {
        let span = self.region.end - self.region.start - 16_384;
        let lba = self.region.start + 1 + self.random(span);
        match &self.belief {
            Some(belief) => belief.track_start(lba, self.region.start) + 1,
            None => lba,
        }
    }

    /// True when responses do not wait for the platter: they are close together then.
    fn is_quick(&self, spread: f64) -> bool {
        spread < 300_000.0
    }

    /// Finds how the places of sectors can be measured on this device, and the rotation of the platter; `None` without
    /// a rotation. Also whether FUA and flush wait.
    pub async fn find_method(&mut self) -> Result<Option<Memory>, Error> {
        let lba = self.region.start + 8;
        let mut memory = Memory::default();
        if self.may_write {
            for method in [Method::Durable, Method::Flushed] {
                self.method = method;
                let spindle = self.find_spindle(lba).await?;
                match method {
                    Method::Durable => memory.fua_honoured = Some(spindle.is_some()),
                    _ => memory.flush_honoured = Some(spindle.is_some()),
                }
                if let Some(spindle) = spindle {
                    self.spindle = spindle;
                    return Ok(Some(memory));
                }
            }
        }
        if !self.reads_show_turns().await? {
            return Ok(None);
        }
        let reads = self.segments().await?.max(1);
        // Some more than seem to be needed, because the buffer may not evict the oldest sectors first.
        let mut reads = reads + reads / 4 + 2;
        let mut found = None;
        for attempt in 1..=3 {
            self.method = Method::Read(reads);
            found = self.find_spindle(lba + 4096 * attempt).await?;
            if found.is_some() {
                break;
            }
            reads *= 2;
        }
        let Some(spindle) = found else {
            return Ok(None);
        };
        self.spindle = spindle;
        Ok(Some(memory))
    }

    /// Whether the buffer serves reads `ahead` sectors after one that was read before, with `between` reads elsewhere
    /// in between.
    async fn rereads(&mut self, ahead: u64, between: u32) -> Result<bool, Error> {
        let answer = self
            .ask(
                format!("reread {ahead} {between}"),
                async |probe: &mut Self| {
                    let mut responses = Vec::new();
                    for _ in 0..6 {
                        let lba = probe.cold();
                        // Some drives read ahead only when reads are sequential.
                        probe.io(Op::Read, lba - 1, 1).await?;
                        probe.io(Op::Read, lba, 1).await?;
                        probe.sleep(Nanos(PAUSE.0 / 2)).await;
                        probe.forget(between).await?;
                        let wait = probe.random(20_000_000);
                        probe.sleep(Nanos(wait)).await;
                        let timed = probe.io(Op::Read, lba + ahead, 1).await?;
                        responses.push(timed.took());
                    }
                    Ok(vec![spread(&mut responses).1])
                },
            )
            .await?;
        Ok(self.is_quick(answer[0]))
    }

    /// Places that the buffer remembers.
    async fn segments(&mut self) -> Result<u32, Error> {
        // The sectors that were sent may have left the buffer; those that were read ahead are still there.
        let ahead = if self.rereads(0, 0).await? {
            0
        } else if self.rereads(1, 0).await? {
            1
        } else {
            return Ok(0);
        };
        let (mut held, mut lost) = (0, 1);
        while lost < FORGETS_MAX && self.rereads(ahead, lost).await? {
            held = lost;
            lost *= 2;
        }
        while lost - held > 1 {
            let middle = lost.midpoint(held);
            if self.rereads(ahead, middle).await? {
                held = middle;
            } else {
                lost = middle;
            }
        }
        Ok(lost)
    }

    /// Number of sectors that the drive reads ahead after a read.
    async fn read_ahead(&mut self) -> Result<u32, Error> {
        let (mut held, mut lost) = (0u64, 1u64);
        while lost <= 4096 && self.rereads(lost, 0).await? {
            held = lost;
            lost *= 2;
        }
        while lost - held > 1 + held / 16 {
            let middle = lost.midpoint(held);
            if self.rereads(middle, 0).await? {
                held = middle;
            } else {
                lost = middle;
            }
        }
        Ok(held as u32)
    }

    /// A read of `sectors` that the drive has read ahead: its response, if it comes from the buffer.
    async fn read_hit(&mut self, sectors: u32) -> Result<Option<f64>, Error> {
        let mut responses = Vec::new();
        for _ in 0..6 {
            let lba = self.cold();
            // Some drives read ahead only when reads are sequential.
            for ahead in 0..3 {
                self.io(Op::Read, lba + ahead, 1).await?;
            }
            let wait = self.random(20_000_000);
            self.sleep(Nanos(PAUSE.0 + wait)).await;
            responses.push(self.io(Op::Read, lba + 3, sectors).await?.took());
        }
        let (middle, spread) = spread(&mut responses);
        Ok(self.is_quick(spread).then_some(middle))
    }

    /// A plain write of `sectors` into an empty cache: its response, if it does not wait for the medium.
    async fn write_hit(&mut self, sectors: u32) -> Result<Option<f64>, Error> {
        let mut responses = Vec::new();
        for _ in 0..6 {
            let lba = self.cold();
            self.io(Op::Flush, lba, 0).await?;
            let wait = self.random(20_000_000);
            self.sleep(Nanos(wait)).await;
            responses.push(self.io(Op::Write, lba, sectors).await?.took());
        }
        self.io(Op::Flush, 0, 0).await?;
        let (middle, spread) = spread(&mut responses);
        Ok(self.is_quick(spread).then_some(middle))
    }

    /// Scattered plain writes until one has to wait. Returns the sectors before that, and whether the second write
    /// already had to wait.
    async fn fill_cache(&mut self) -> Result<(u32, bool), Error> {
        const CHUNK: u32 = 64;
        let lba = self.cold();
        self.io(Op::Flush, lba, 0).await?;
        let first = self.io(Op::Write, lba, CHUNK).await?;
        let limit = first.took() + self.spindle.period / 4.0;
        let mut taken = CHUNK;
        while taken < 1 << 20 {
            let lba = self.cold();
            let timed = self.io(Op::Write, lba, CHUNK).await?;
            if timed.took() > limit {
                break;
            }
            taken += CHUNK;
        }
        self.io(Op::Flush, 0, 0).await?;
        // While the first is written the cache is empty again, so it takes the second, too.
        Ok((taken, taken <= 3 * CHUNK))
    }

    /// Buffer, write cache and bus.
    pub async fn memory(&mut self, mut memory: Memory, layout: &Layout) -> Result<Memory, Error> {
        self.phase("buffer and cache", 0.0);
        self.belief = Some(Rc::new(layout.belief()?));
        self.anchor = None;
        memory.segments = self.segments().await?;
        memory.read_ahead = self.read_ahead().await?;
        let answer = self
            .ask("read hits".into(), async |probe: &mut Self| {
                let short = probe.read_hit(1).await?;
                let long = probe.read_hit(LONG).await?;
                Ok(match short.zip(long) {
                    Some((short, long)) => vec![short, long],
                    None => vec![0.0, 0.0],
                })
            })
            .await?;
        if answer[0] > 0.0 {
            let sector = ((answer[1] - answer[0]) / f64::from(LONG - 1)).max(0.0);
            memory.read_sector = Some(sector / 1e6);
            memory.read_hit = Some((answer[0] - sector).max(0.0) / 1e6);
        }
        if !self.may_write {
            return Ok(memory);
        }
        let answer = self
            .ask("write hits".into(), async |probe: &mut Self| {
                let short = probe.write_hit(1).await?;
                let long = probe.write_hit(LONG).await?;
                let idle = probe.io(Op::Flush, 0, 0).await?.took();
                let idle = idle.min(probe.io(Op::Flush, 0, 0).await?.took());
                Ok(match short.zip(long) {
                    Some((short, long)) => {
                        let (taken, sequential) = probe.fill_cache().await?;
                        let sequential = f64::from(u8::from(sequential));
                        vec![idle, short, long, f64::from(taken), sequential]
                    }
                    None => vec![idle],
                })
            })
            .await?;
        memory.flush = Some(answer[0] / 1e6);
        memory.write_cache = Some(answer.len() > 1);
        if let [_, short, long, taken, sequential] = answer[..] {
            let sector = ((long - short) / f64::from(LONG - 1)).max(0.0);
            memory.write_sector = Some(sector / 1e6);
            memory.write_hit = Some((short - sector).max(0.0) / 1e6);
            memory.cache_sectors = Some(taken as u32);
            memory.cache_sequential = sequential > 0.0;
        }
        if memory.flush_honoured.is_none() && memory.write_cache == Some(true) {
            let method = std::mem::replace(&mut self.method, Method::Flushed);
            let found = self.find_spindle(self.region.start + 16).await?;
            self.method = method;
            memory.flush_honoured = Some(found.is_some());
        }
        self.anchor = None;
        Ok(memory)
    }
}
