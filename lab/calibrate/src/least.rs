//! The least time between requests: from the sending of one to its end, with the platter at the best angle.
//!
//! A trial has two requests, one after the other. The second is sent after a wait that is chosen so that its sector
//! passes just when the drive could be ready for it, or is just missed. Bisection finds the shortest time in which the
//! drive is ready (MTBRC; Worthington and others, SIGMETRICS 1995, section 3.1).

use crate::error::Error;
use crate::layout::EstimatedLayout;
use crate::probe::{Method, Probe};
use tonearm_base::Nanos;
use tonearm_rt::Op;

/// Nanoseconds to which a least time is found.
const RESOLUTION: f64 = 1_500.0;
/// Trials of one least time.
pub(crate) const TRIALS_MAX: u32 = 20;

/// One of two requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    /// A request that shows the places of sectors: a write that is done when it is on the medium.
    Write,
    /// A read of a sector that is not in the buffer.
    Read,
}

/// The kinds of the two requests that are measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pair {
    pub first: Act,
    pub second: Act,
    /// Sectors of the second request.
    pub sectors: u32,
}

impl Pair {
    pub fn of(first: Act, second: Act) -> Self {
        Self {
            first,
            second,
            sectors: 1,
        }
    }
}

/// The answer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Least {
    /// From sending to end, in nanoseconds.
    pub time: f64,
    /// By how much longer after its sector's passing the second request ends than the first one, in nanoseconds; within
    /// half a revolution.
    pub later: f64,
}

impl Probe {
    /// The least time of the second of `pair`'s requests. `places` gives the sectors of a trial's two requests; for
    /// reads, other ones for each trial. `None` when the end of the second request does not depend on the platter.
    pub async fn least(
        &mut self,
        belief: &EstimatedLayout,
        pair: Pair,
        places: impl Fn(u64) -> (u64, u64),
    ) -> Result<Option<Least>, Error> {
        let (a, b) = places(0);
        let question = format!(
            "least {:?} {:?} {} {a} {b}",
            pair.first, pair.second, pair.sectors
        );
        let answer = self
            .ask(question, async |probe: &mut Self| {
                probe.anchor = None;
                let found = probe.search(belief, pair, places).await;
                probe.anchor = None;
                Ok(match found? {
                    Some(least) => vec![least.time, least.later],
                    None => vec![0.0, 0.0],
                })
            })
            .await?;
        Ok((answer[0] > 0.0).then_some(Least {
            time: answer[0],
            later: answer[1],
        }))
    }

    async fn act(&mut self, act: Act, lba: u64, sectors: u32) -> Result<(Nanos, Nanos), Error> {
        let timed = match (act, self.method) {
            (Act::Read, _) => self.io(Op::Read, lba, sectors).await?,
            (Act::Write, Method::Flushed) => self.sample(lba).await?,
            (Act::Write, _) => self.io(Op::WriteDurable, lba, sectors).await?,
        };
        Ok((timed.sent, timed.done))
    }

    async fn search(
        &mut self,
        belief: &EstimatedLayout,
        pair: Pair,
        places: impl Fn(u64) -> (u64, u64),
    ) -> Result<Option<Least>, Error> {
        let period = self.spindle.period;
        let resolution = RESOLUTION.max(self.spindle.noise / 2.0);
        let (mut low, mut high) = (0.0f64, f64::MAX);
        let mut later: Option<f64> = None;
        let mut aimed: Option<f64> = None;
        for trial in 0..TRIALS_MAX {
            let (a, b) = places(u64::from(trial));
            if let Method::Read(reads) = self.method {
                self.forget(reads).await?;
            }
            let (_, begun) = self.act(pair.first, a, 1).await?;
            // The expected passing of b's last sector.
            let turn = belief.turn(a, b + u64::from(pair.sectors) - 1) * period;
            let base = begun.0 as f64 + turn + later.unwrap_or(0.0);
            if let Some(aim) = aimed {
                let ready = begun.0 as f64 + 10_000.0 + aim;
                let pass = base + ((ready - base) / period).ceil() * period;
                self.rt.sleep_until(Nanos((pass - aim) as u64)).await;
            }
            let (sent, done) = self.act(pair.second, b, pair.sectors).await?;
            let took = done.0 as f64 - sent.0 as f64;
            let off = (done.0 as f64 - base) / period;
            let off = (off - off.round()) * period;
            let Some(_) = later else {
                later = Some(off);
                high = took;
                low = (took - period).max(0.0);
                aimed = Some(low.midpoint(high));
                continue;
            };
            if off.abs() > period / 20.0 + 8.0 * self.spindle.noise {
                return Ok(None);
            }
            // The intended passing, relative to the real time of sending.
            let aim = aimed.unwrap_or(took);
            let missed = ((took - aim) / period).round();
            let target = took - missed * period;
            if missed < 0.5 {
                high = high.min(target);
            } else {
                low = low.max(target);
            }
            if high - low < resolution {
                break;
            }
            aimed = Some(low.midpoint(high));
        }
        Ok(later.map(|later| Least {
            time: high,
            later: if pair.first == pair.second {
                0.0
            } else {
                later
            },
        }))
    }
}
