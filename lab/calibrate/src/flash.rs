//! A drive without a platter: latencies, rates, and the number of commands that it serves at once.

use crate::error::Error;
use crate::probe::{Probe, SECTORS_MAX};
use tonearm_rt::Op;

/// Requests whose middle response counts.
const SAMPLES: usize = 41;
/// The same for a drive that needs longer than [`PATIENCE`] for them.
const SAMPLES_LEAST: usize = 5;
/// Time, in nanoseconds, in which responses are collected.
const PATIENCE: f64 = 1e9;
/// Sectors of a small request: 4 KiB.
const SMALL: u32 = 8;
/// Small reads that are sent at once.
const AT_ONCE: usize = 64;
/// Large writes before a flush.
const DIRTY: u64 = 64;
const SECTORS_PER_MIB: f64 = 2048.0;

/// The results for a drive without a platter. Times in ms.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Flash {
    /// A small read, without its transfer.
    pub read: f64,
    /// Transfer from the drive.
    pub read_mib_per_s: f64,
    /// Commands served at once, about.
    pub channels: u32,
    /// Results that need writes; `None` without permission to write.
    pub writes: Option<FlashWrites>,
}

/// The results that need writes. Times in ms.
#[derive(Clone, PartialEq, Debug)]
pub struct FlashWrites {
    /// A small write with FUA, without its transfer.
    pub durable: f64,
    /// A small plain write, without its transfer.
    pub plain: f64,
    /// Transfer to the drive.
    pub write_mib_per_s: f64,
    /// A flush of nothing.
    pub flush: f64,
    /// Time of a flush for each MiB that was written before.
    pub flush_per_mib: f64,
}

impl FlashWrites {
    /// Plain writes are taken by a cache.
    pub fn cached(&self) -> bool {
        self.durable > 1.5 * self.plain || self.flush_per_mib > 0.05
    }
}

impl Probe {
    /// The median response of requests of `sectors`, in ns.
    async fn response(&mut self, op: Op, sectors: u32) -> Result<f64, Error> {
        let mut responses = Vec::with_capacity(SAMPLES);
        let places = (self.region.end - self.region.start) / u64::from(SECTORS_MAX);
        let mut spent = 0.0;
        while responses.len() < SAMPLES_LEAST || (responses.len() < SAMPLES && spent < PATIENCE) {
            let place = self.random(places) * u64::from(SECTORS_MAX);
            let timed = self.io(op, self.region.start + place, sectors).await?;
            spent += timed.took();
            responses.push(timed.took());
        }
        responses.sort_by(f64::total_cmp);
        Ok(responses[responses.len() / 2])
    }

    /// Response of a small request without its transfer, in ns, and nanoseconds of a sector.
    async fn line(&mut self, op: Op) -> Result<(f64, f64), Error> {
        let small = self.response(op, SMALL).await?;
        let large = self.response(op, SECTORS_MAX).await?;
        // A thousandth of a nanosecond is faster than any link.
        let sector = ((large - small) / f64::from(SECTORS_MAX - SMALL)).max(0.001);
        Ok(((small - sector * f64::from(SMALL)).max(0.0), sector))
    }

    /// Latencies and rates.
    pub async fn flash(&mut self) -> Result<Flash, Error> {
        self.phase("latencies", 0.0);
        let rate = |sector: f64| 1e9 / sector / SECTORS_PER_MIB;
        let answer = self
            .ask("flash reads".into(), async |probe: &mut Self| {
                let (read, sector) = probe.line(Op::Read).await?;
                let channels = probe.channels(read + sector * f64::from(SMALL)).await?;
                Ok(vec![read, sector, channels])
            })
            .await?;
        let mut flash = Flash {
            read: answer[0] / 1e6,
            read_mib_per_s: rate(answer[1]),
            channels: answer[2] as u32,
            writes: None,
        };
        if !self.may_write {
            return Ok(flash);
        }
        self.phase("latencies", 0.5);
        let answer = self
            .ask("flash writes".into(), async |probe: &mut Self| {
                let (durable, _) = probe.line(Op::WriteDurable).await?;
                probe.io(Op::Flush, 0, 0).await?;
                let (plain, sector) = probe.line(Op::Write).await?;
                probe.io(Op::Flush, 0, 0).await?;
                let idle = probe.response(Op::Flush, 0).await?;
                let start = probe.region.start;
                let large = u64::from(SECTORS_MAX);
                let room = (probe.region.end - start) / large;
                let count = DIRTY.min(room);
                for index in 0..count {
                    let lba = start + index * large;
                    probe.io(Op::Write, lba, SECTORS_MAX).await?;
                }
                let full = probe.io(Op::Flush, 0, 0).await?.took();
                let mib = (count * large) as f64 / SECTORS_PER_MIB;
                Ok(vec![
                    durable,
                    plain,
                    sector,
                    idle,
                    ((full - idle) / mib).max(0.0),
                ])
            })
            .await?;
        flash.writes = Some(FlashWrites {
            durable: answer[0] / 1e6,
            plain: answer[1] / 1e6,
            write_mib_per_s: rate(answer[2]),
            flush: answer[3] / 1e6,
            flush_per_mib: answer[4] / 1e6,
        });
        Ok(flash)
    }

    /// Number of commands that are served at once, when one alone takes `one` nanoseconds.
    async fn channels(&mut self, one: f64) -> Result<f64, Error> {
        let took = self.read_at_once(AT_ONCE, SMALL).await?;
        Ok((AT_ONCE as f64 * one / took)
            .round()
            .clamp(1.0, AT_ONCE as f64))
    }
}
