//! A predictor that learns from each completed write and needs no profile of the drive.
//!
//! The log's writes go to the medium, one at a time, so a write is done when its end passes under the head. Each
//! completion thus measures the angle of the platter, even if the write was expected elsewhere. From such measurements
//! the predictor learns the period ([`spindle`]), the angles of sectors ([`angles`]), and how long before the passing
//! of a sector its write must be sent ([`lead`]). The place of a write ([`place`]) is the free one that is expected to
//! end first.

mod angles;
mod bootstrap;
mod comb;
mod cylinders;
mod even;
mod grid;
mod lead;
mod learned;
mod lines;
mod pairs;
mod place;
mod ranges;
mod read_lag;
mod shorts;
mod spindle;
mod starts;

use crate::{Access, Head, Place, STALE, Span, TrackMap, first_fit};
use angles::{Angles, Stretch, step};
use bootstrap::{Bootstrap, Interval};
use lead::{Leads, Order, Outcome, Step};
use learned::Learned;
use place::{Choice, Position, QUARTER, View};
use read_lag::ReadLag;
use spindle::{Spindle, nearest};
use tonearm_base::Nanos;

/// If a smaller share of writes ends when expected, the predictor trusts none of what it has learned.
const LOST: f64 = 0.06;

/// Below the first share, the learned leads are in doubt; above the second, they are learned again.
const TRUST: (f64, f64) = (0.5, 0.85);

/// With a map: if a larger share of the last writes came a revolution late, everything is learned again, because
/// learned values may be consistent and wrong. Without a map this would cost more than it gains, since the tracks would
/// have to be found again each time.
const MISSED: f64 = 0.12;

/// Uncertainty of the phase, as a part of a revolution, from which on a read refreshes it.
const BLURRED: f64 = 1.0 / 64.0;

/// Writes before that, the first time and at most. The number doubles each time.
const PATIENCE: (u32, u32) = (250, 16_000);

/// The predictor.
pub struct Online {
    angles: Angles,
    phase: Phase,
    leads: Leads,
    position: Option<Position>,
    /// Share of the last writes that ended when they were expected to.
    confidence: f64,
    /// The confidence has been high since it was last low, so the learned leads are reliable.
    trusted: bool,
    /// End of the last write, and when it was done.
    last: Option<(u64, Nanos)>,
    /// Expected time of the last place that was returned.
    hoped: Option<Nanos>,
    /// Sectors of the last write.
    sectors: u32,
    /// By how much later reads end than writes.
    read_lag: ReadLag,
    /// Usual time from the end of a request to the next write, in nanoseconds; a long one counts as two revolutions.
    pause: f64,
    /// Share of the last writes that came a revolution late.
    missed: f64,
    /// Writes since everything was learned again, and how many must follow before that happens again.
    patience: (u32, u32),
}

enum Phase {
    Unknown(Box<Bootstrap>),
    Known(Spindle),
}

/// What the predictor has learned so far.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OnlineStatus {
    /// Time of a revolution; `None` before it is known.
    pub period: Option<Nanos>,
    /// Sectors of a revolution at the last write, if known.
    pub track_sectors: Option<f64>,
    /// How long before the passing of its first sector a write on the same track must be sent.
    pub lead: Option<Nanos>,
    /// Uncertainty of that time.
    pub margin: Nanos,
    /// Share of the last writes that ended when they were expected to, 0 to 1.
    pub confidence: f64,
}

impl Default for Online {
    fn default() -> Self {
        Self::new()
    }
}

impl Online {
    /// A predictor that knows nothing of the drive.
    pub fn new() -> Self {
        Self::with(Angles::Learned(Box::new(Learned::new())))
    }

    /// A predictor that knows where the tracks are.
    pub fn with_map(map: TrackMap) -> Self {
        Self::with(Angles::Map(map))
    }

    fn with(angles: Angles) -> Self {
        let by_size = matches!(angles, Angles::Map(_));
        Self {
            angles,
            phase: Phase::Unknown(Box::new(Bootstrap::new())),
            leads: Leads::new(by_size),
            confidence: 0.0,
            trusted: false,
            position: None,
            last: None,
            hoped: None,
            sectors: 1,
            read_lag: ReadLag::default(),
            pause: 0.0,
            missed: 0.0,
            patience: (0, PATIENCE.0),
        }
    }

    /// Notes whether a write ended when expected; starts again if too many do not.
    fn judge(&mut self, write: &Access) {
        let (Some(hoped), Phase::Known(spindle), Angles::Map(_)) =
            (self.hoped.take(), &self.phase, &self.angles)
        else {
            return;
        };
        let response = write.done.0 as f64 - write.sent.0 as f64;
        let missed = response - hoped.0 as f64 > spindle.period() / 2.0;
        self.missed += (f64::from(u8::from(missed)) - self.missed) / 64.0;
        self.patience.0 = self.patience.0.saturating_add(1);
        if self.missed < MISSED || self.patience.0 < self.patience.1 {
            return;
        }
        self.patience = (0, (2 * self.patience.1).min(PATIENCE.1));
        self.missed = 0.0;
        self.trusted = false;
        self.confidence = 0.0;
        self.phase = Phase::Unknown(Box::new(Bootstrap::new()));
        self.leads = self.leads.unlearned();
    }

    /// The best place, if enough is known.
    fn choose(&self, now: Nanos, sectors: u32, free: &[Span], order: Order) -> Option<Choice> {
        let (Phase::Known(spindle), Some(position)) = (&self.phase, &self.position) else {
            return None;
        };
        let view = View {
            spindle,
            angles: &self.angles,
            leads: &self.leads,
            position,
            order,
        };
        view.choose(now, sectors, free)
    }

    /// What has been learned so far.
    pub fn status(&self) -> OnlineStatus {
        let on = self.position.as_ref().map(|position| position.on);
        let mut status = OnlineStatus {
            period: None,
            track_sectors: on.map(|on| on.turn),
            lead: None,
            margin: Nanos(0),
            confidence: self.confidence,
        };
        if let Phase::Known(spindle) = &self.phase {
            let period = spindle.period();
            let bracket = self.leads.bracket(Step::Same, Order::WriteAfterWrite, 1.0);
            let high = bracket.high.min(bracket.low + period);
            status.period = Some(Nanos(period as u64));
            status.lead = Some(Nanos(high as u64));
            status.margin = Nanos((high - bracket.low) as u64);
        }
        status
    }

    fn start(&mut self, write: &Access) {
        let Phase::Unknown(bootstrap) = &mut self.phase else {
            return;
        };
        let end = write.end();
        let Some((before, done)) = self.last else {
            return;
        };
        let angle = |sector: u64| {
            let on = self.angles.find(sector - 1)?;
            Some(on.angle_of(sector))
        };
        let mapped = matches!(self.angles, Angles::Map(_));
        let turns = angle(before)
            .and_then(|from| Some(angle(end)? - from))
            .filter(|_| mapped);
        if mapped && turns.is_none() || end < before {
            return;
        }
        let interval = Interval {
            time: write.done.0 as f64 - done.0 as f64,
            sectors: (end - before) as f64,
            turns,
        };
        let Some(found) = bootstrap.learn(interval) else {
            return;
        };
        if let Angles::Learned(learned) = &mut self.angles {
            learned.begin(found.turn, end, 0.0);
        }
        let angle = self.angles.find(end - 1).map_or(0.0, |on| on.angle_of(end));
        self.phase = Phase::Known(Spindle::new(found.period, angle, write.done));
        self.confidence = 0.5;
        self.leads = self.leads.unlearned();
    }

    fn follow(&mut self, write: &Access) {
        let Phase::Known(spindle) = &mut self.phase else {
            return;
        };
        let position = self.position.as_ref();
        let order = order(position);
        let (outcome, expected) =
            compare(&self.leads, spindle, &self.angles, position, write, order);
        let fits = match &mut self.angles {
            Angles::Map(_) => expected.is_some_and(|angle| spindle.read(angle, write.done)),
            Angles::Learned(learned) => {
                let angle = spindle.angle(write.done);
                let before = self.last.map_or(write.sent, |(_, done)| done);
                let turns = spindle.turns(before, write.done);
                let time = turns * spindle.period();
                match learned.learn(write.end(), angle, time, turns) {
                    None => false,
                    Some(reading) => {
                        if let Some(angle) = reading.angle.filter(|_| reading.sure) {
                            spindle.read(angle, write.done);
                        }
                        if let Some(period) = reading.period {
                            spindle.set_period(period, write.done);
                        }
                        reading.angle.is_some()
                    }
                }
            }
        };
        self.confidence += (f64::from(u8::from(fits)) - self.confidence) / 32.0;
        if self.confidence > TRUST.1 && !self.trusted {
            // Leads that were learned while angles were wrong are wrong.
            self.trusted = true;
            self.leads = self.leads.unlearned();
        } else if self.confidence < TRUST.0 {
            self.trusted = false;
        }
        let mapped = matches!(self.angles, Angles::Map(_));
        if let Some((outcome, clear)) = outcome
            && (fits && clear || self.trusted && (mapped || clear && outcome.off < 0.03))
        {
            self.leads.learn(&outcome, spindle.period());
        }
        if self.confidence < LOST {
            // No platter turned with the assumed period.
            self.phase = Phase::Unknown(Box::new(Bootstrap::new()));
        }
    }
}

/// The kinds of a write and of the request before it.
fn order(position: Option<&Position>) -> Order {
    match position {
        Some(position) if position.read => Order::WriteAfterRead,
        _ => Order::WriteAfterWrite,
    }
}

/// Compares the duration of a write with the expected one. Returns the difference, and the angle at which the write
/// should end.
fn compare(
    leads: &Leads,
    spindle: &Spindle,
    angles: &Angles,
    position: Option<&Position>,
    write: &Access,
    order: Order,
) -> (Option<(Outcome, bool)>, Option<f64>) {
    let Some(on) = angles.find(write.first) else {
        return (None, None);
    };
    let period = spindle.period();
    let (mut held, mut need) = ((0.0, 0.0), f64::MIN);
    let walked = angles.walk(&on, write.first, write.sectors, |sectors, turns| {
        let bus = leads.bus(sectors, period).unwrap_or(0.0);
        if bus - turns * period >= need || !leads.is_slow() {
            need = bus - turns * period;
            held = (sectors, turns * period);
        }
    });
    let Some(walk) = walked else {
        return (None, None);
    };
    let angle = walk.angle;
    let is_sharp = spindle.doubt(write.sent) < period / 8.0;
    let Some(position) = position.filter(|position| is_sharp && position.is_certain()) else {
        return (None, Some(angle));
    };
    let step = step((position.end, &position.on), (write.first, &on));
    let least = leads.bracket(step, order, f64::from(write.sectors)).low;
    let start = Nanos(write.sent.0.saturating_add(least as u64));
    let lead = least + spindle.until(on.angle_of(write.first), start);
    let response = write.done.0 as f64 - write.sent.0 as f64;
    let late = response / period - lead / period - walk.turns;
    // A drive that begins in the middle of a write whose start it has missed is late by a part of a turn.
    let clear = nearest(late).abs() < 0.1;
    let turns = if clear { late.round() } else { late.ceil() };
    let outcome = Outcome {
        step,
        order,
        end: (f64::from(write.sectors), walk.turns * period),
        held,
        skew: walk.skew * period,
        lead,
        turns,
        off: nearest(late).abs(),
    };
    (
        (clear || late > 0.3).then_some((outcome, clear)),
        Some(angle),
    )
}

impl Head for Online {
    fn name(&self) -> &'static str {
        "online"
    }

    fn written(&mut self, write: &Access) {
        if write.sectors == 0 || write.done < write.sent {
            return;
        }
        self.judge(write);
        if let (Phase::Known(spindle), Some((_, done))) = (&self.phase, self.last) {
            let pause = write.sent.since(done).0 as f64;
            self.pause += (pause.min(2.0 * spindle.period()) - self.pause) / 8.0;
        }
        match &self.phase {
            Phase::Unknown(_) => self.start(write),
            Phase::Known(_) => self.follow(write),
        }
        let end = write.end();
        self.sectors = write.sectors;
        self.last = Some((end, write.done));
        self.position = self.angles.find(end - 1).map(|on| Position {
            end,
            on,
            read: false,
        });
    }

    fn read(&mut self, read: &Access) -> bool {
        if read.sectors == 0 || read.done < read.sent {
            return false;
        }
        if let (Phase::Known(spindle), Angles::Map(_)) = (&mut self.phase, &self.angles) {
            let Some(done) = self.read_lag.write_done(spindle, &self.angles, read) else {
                return false;
            };
            let as_write = Access { done, ..*read };
            let (outcome, expected) = compare(
                &self.leads,
                spindle,
                &self.angles,
                self.position.as_ref(),
                &as_write,
                Order::Read,
            );
            if let Some(angle) = expected.filter(|_| self.read_lag.is_known()) {
                spindle.read(angle, done);
            }
            if let Some((outcome, true)) = outcome
                && !matches!(outcome.step, Step::Far(_))
            {
                self.leads.learn(&outcome, spindle.period());
            }
        }
        let end = read.end();
        // The learned values hold only around the log.
        let known = match &self.angles {
            Angles::Map(_) => self.angles.find(end - 1),
            Angles::Learned(_) => None,
        };
        self.position = Some(Position {
            end,
            on: known.unwrap_or(Stretch::ELSEWHERE),
            read: true,
        });
        true
    }

    fn place(&mut self, now: Nanos, sectors: u32, free: &[Span]) -> Option<Place> {
        if let Some(choice) = self.choose(now, sectors, free, order(self.position.as_ref())) {
            let response = Some(Nanos(choice.response as u64));
            // After a seek to a refresh and back, a late write proves nothing.
            let read = self.position.as_ref().is_some_and(|position| position.read);
            self.hoped = response.filter(|_| !read);
            return Some(Place {
                sector: choice.sector,
                response,
            });
        }
        self.hoped = None;
        let skip = match &mut self.phase {
            Phase::Unknown(bootstrap) => bootstrap.skip(sectors),
            Phase::Known(_) => 0,
        };
        let start = free.first()?.start;
        let sector = first_fit(free, start.saturating_add(skip), sectors)?;
        Some(Place {
            sector,
            response: None,
        })
    }

    /// The head is moved if the next write, which would otherwise move it, gains more time than it waits for the read. If there is
    /// time, the sector is one of the first of the track, because the drive reads on after it, and the head should stay.
    fn reposition(&mut self, now: Nanos, track: Span) -> Option<u64> {
        let (Phase::Known(spindle), Angles::Map(_)) = (&self.phase, &self.angles) else {
            return None;
        };
        let (period, last) = (spindle.period(), self.position.as_ref()?);
        let to = self.angles.find(track.start)?;
        let step = step((last.end, &last.on), (track.start, &to));
        let size = f64::from(self.sectors);
        let order = order(Some(last));
        if !self.trusted || !self.leads.bracket(step, order, size).is_known(period) {
            return None;
        }
        let first = Span {
            start: track.start,
            end: track.start + track.len().div_ceil(QUARTER),
        };
        let choice = self.choose(now, 1, &[first], Order::Read)?;
        let lead = |step, order| self.leads.lead(step, order, size, period).0;
        let gain = lead(step, order) - lead(Step::Same, Order::WriteAfterRead);
        let wait = (choice.response - self.pause).max(0.0);
        // The first reads are worth more than their time.
        (gain > wait || !self.read_lag.is_known()).then_some(choice.sector)
    }

    /// Without a map reads teach nothing. With one they show the phase once their lag is known, which needs reads that come soon.
    fn stale_after(&self) -> Option<Nanos> {
        match (&self.phase, &self.angles) {
            (_, Angles::Learned(_)) => None,
            (Phase::Known(spindle), Angles::Map(_)) if self.read_lag.is_known() => {
                let steady = spindle.steady_for(spindle.period() * BLURRED, STALE.0 as f64);
                Some(Nanos(steady as u64))
            }
            // The log asks when it opens whether there is anything to refresh.
            _ => Some(STALE),
        }
    }

    fn memory_bytes(&self) -> usize {
        let first = match self.phase {
            Phase::Unknown(_) => size_of::<Bootstrap>(),
            Phase::Known(_) => 0,
        };
        size_of::<Self>() + first + self.angles.memory_bytes()
    }
}

#[cfg(test)]
#[path = "online_test.rs"]
mod online_test;
