//! The lead: how long before the passing of its first sector a write must be sent, for each kind of head movement. Also
//! the limit that a bus slower than the medium sets to the end of a write.
//!
//! Both are brackets: a write that came in time bounds the lead from above, and one that missed its turn bounds it from
//! below. The predictor aims at the middle of a wide bracket and at the upper end of a narrow one.

use super::lines::Lines;

/// How the head moves between the end of one request and the start of the next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It stays on its track.
    Same,
    /// Another track of the cylinder.
    Switch,
    /// The next cylinder.
    Cylinder,
    /// A seek over so many sectors.
    Far(u64),
}

/// A request, and the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// A write after a write.
    WriteAfterWrite,
    /// A write after a read.
    WriteAfterRead,
    /// A read after either.
    Read,
}

/// Classes of far seeks: half octaves of the distance in sectors, from 2^13 on.
const FAR: usize = 38;
/// A bracket that is narrower than this part of a revolution is narrow.
const NARROW: f64 = 1.0 / 1024.0;

/// The same after a read and before one: such requests are too rare for a narrow bracket.
const NARROW_READ: f64 = 1.0 / 128.0;
/// The lead of a read is first tried at that of a write, and this part of a revolution more.
const READ_MORE: f64 = 1.0 / 16.0;

/// Width of a bracket, as a part of a revolution, that is enough to decide whether a read should move the head.
const KNOWN: f64 = 1.0 / 16.0;

/// A missed seek raises the lead of its class by a revolution divided by this.
const SCATTER: f64 = 16.0;
/// A seek in time lowers it by so many times less.
const DESCENT: f64 = 24.0;
/// Sectors of a write that is more likely delayed by the bus than by its lead.
const LARGE: f64 = 48.0;

/// The bounds of one lead, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Bracket {
    /// Too short, as far as known.
    pub low: f64,
    /// Long enough.
    pub high: f64,
    /// Scatter: the largest distance of a hit and a miss that contradict each other.
    spread: f32,
    /// It has been met at least once.
    met: bool,
    /// The value follows the durations of seeks, instead of being narrowed.
    follows: bool,
}

impl Bracket {
    const fn new() -> Self {
        Self {
            low: 0.0,
            high: f64::INFINITY,
            spread: 0.0,
            met: false,
            follows: false,
        }
    }

    /// True when the lead is known to a small part of a revolution.
    pub fn is_known(&self, period: f64) -> bool {
        self.met && self.high - self.low <= period * KNOWN
    }

    fn narrow(&self, period: f64) -> f64 {
        (period * NARROW).max(f64::from(self.spread))
    }

    /// The lead to aim for.
    fn target(&self, period: f64) -> f64 {
        let high = self.high.min(self.low + period);
        if self.follows || high - self.low <= self.narrow(period) * 1.5 {
            return high;
        }
        self.low.midpoint(high)
    }

    fn made(&mut self, lead: f64, period: f64) {
        let narrow = self.narrow(period);
        self.met = true;
        if lead < self.low {
            // The miss that raised the lower end had another cause.
            self.low = lead / 2.0;
            self.high = lead;
        }
        // After contradictions of hits and misses one hit proves little.
        let spread = f64::from(self.spread);
        if spread > period * NARROW {
            self.high = self.high.min(lead.max(self.high - spread / 64.0));
        } else {
            self.high = self.high.min(lead);
        }
        self.spread *= 0.998;
        // Occasionally tries again what was too short long ago.
        self.low = (self.low - narrow / 2_000.0).max(0.0);
    }

    /// Notes that a seek over about this distance took `lead`, after a turn more than planned if `missed`. Such seeks
    /// scatter, so the lead is not bracketed. It rises at once and falls slowly.
    fn followed(&mut self, lead: f64, missed: bool, period: f64) {
        let step = period / SCATTER;
        if !self.met {
            self.met = true;
            self.follows = true;
            self.high = lead;
        } else if missed {
            self.high = self.high.max(lead - period) + step;
        } else {
            self.high -= step / DESCENT;
        }
        self.high = self.high.max(0.0);
        // A sector that passes earlier than this is missed.
        self.low = (self.high - period / 2.0).max(0.0);
    }

    fn missed(&mut self, lead: f64, period: f64) {
        if lead >= self.high {
            let spread = f64::from(self.spread) * 2.0;
            let spread = spread.clamp(period * NARROW, period / 16.0);
            self.spread = spread as f32;
            self.high = lead + spread;
        }
        self.low = self.low.max(lead);
    }
}

/// The result of one write.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// The movement of the head before it.
    pub step: Step,
    /// The kinds of the two requests.
    pub order: Order,
    /// Sectors, and nanoseconds from the passing of the first to the end of the last.
    pub end: (f64, f64),
    /// The same up to the sector that the bus is known to delay most.
    pub held: (f64, f64),
    /// Nanoseconds of the last skew on the way.
    pub skew: f64,
    /// Time from its sending to the passing of its first sector, as planned.
    pub lead: f64,
    /// Turns that it took more.
    pub turns: f64,
    /// Revolutions by which these were not whole.
    pub off: f64,
}

/// The lead of a seek, which follows the durations of such seeks. It takes half the memory of a bracket, because there
/// are many.
#[derive(Clone, Copy, Debug)]
struct Far {
    low: f32,
    /// Not finite before one was seen.
    high: f32,
}

impl Far {
    const UNKNOWN: Self = Self {
        low: 0.0,
        high: f32::INFINITY,
    };

    fn bracket(self) -> Bracket {
        let met = self.high.is_finite();
        Bracket {
            low: f64::from(self.low),
            high: f64::from(self.high),
            met,
            follows: met,
            ..Bracket::new()
        }
    }

    fn followed(&mut self, lead: f64, missed: bool, period: f64) {
        let mut bracket = self.bracket();
        bracket.followed(lead, missed, period);
        self.low = bracket.low as f32;
        self.high = bracket.high as f32;
    }
}

/// Classes of sizes. A drive that takes data slowly begins larger writes later, also where the bus does not limit their end.
const SIZES: usize = 4;

/// All leads of a drive.
#[derive(Clone, Debug)]
pub struct Leads {
    /// By the kinds of the requests, the step without a seek, and the size.
    near: [[[Bracket; SIZES]; 3]; 3],
    /// Each class of sizes has brackets of its own. Without a map the tracks are found from few writes, which must teach the leads of all sizes.
    by_size: bool,
    far: [Far; FAR],
    bus: Option<Lines>,
    /// Recent misses that no lead explains.
    evidence: f64,
    /// Recent bounds that contradict what was learned of the bus.
    strikes: f64,
}

const UNKNOWN: [[[Bracket; SIZES]; 3]; 3] = [[[Bracket::new(); SIZES]; 3]; 3];

fn far_class(distance: u64) -> usize {
    let octave = distance.max(1 << 13).ilog2();
    let half = (distance.max(1 << 13) >> (octave - 1)) & 1;
    (2 * (octave as usize - 13) + half as usize).min(FAR - 1)
}

impl Leads {
    /// No lead is known.
    pub fn new(by_size: bool) -> Self {
        Self {
            near: UNKNOWN,
            by_size,
            far: [Far::UNKNOWN; FAR],
            bus: None,
            evidence: 0.0,
            strikes: 0.0,
        }
    }

    /// Leads of which none is known any more.
    pub fn unlearned(&self) -> Self {
        Self::new(self.by_size)
    }

    fn size_class(&self, sectors: f64) -> usize {
        match sectors as u64 {
            _ if !self.by_size => 0,
            0..=1 => 0,
            2..=9 => 1,
            10..=40 => 2,
            _ => 3,
        }
    }

    /// The bracket of a step without a seek.
    fn bracket_mut(&mut self, seen: &Outcome) -> Option<&mut Bracket> {
        let step = match seen.step {
            Step::Same => 0,
            Step::Switch => 1,
            Step::Cylinder => 2,
            Step::Far(_) => return None,
        };
        let size = self.size_class(seen.end.0);
        Some(&mut self.near[seen.order as usize][step][size])
    }

    /// The bracket of the lead of `step` before `sectors` sectors. A step that was never observed is at least as long as an easier
    /// one, and a larger write needs at least as long as a smaller one.
    pub fn bracket(&self, step: Step, order: Order, sectors: f64) -> Bracket {
        let near = &self.near[order as usize];
        let size = self.size_class(sectors);
        let (index, own) = match step {
            Step::Same => (0, near[0][size]),
            Step::Switch => (1, near[1][size]),
            Step::Cylinder => (2, near[2][size]),
            Step::Far(distance) => (3, self.far[far_class(distance)].bracket()),
        };
        let low = match own.met {
            true => own.low,
            false => {
                let easier = near.iter().take(index + 1);
                let easier = easier.flat_map(|sizes| &sizes[..=size]).filter(|b| b.met);
                easier.fold(own.low, |low, b| low.max(b.low))
            }
        };
        // A lead that is enough for a harder step or a larger write is enough here, unless this one has shown the contrary.
        let harder = near.iter().skip(index);
        let harder = harder.flat_map(|sizes| &sizes[size..]).filter(|b| b.met);
        let high = harder.fold(own.high, |high, b| high.min(b.high));
        let high = if high < low { own.high.max(low) } else { high };
        Bracket { low, high, ..own }
    }

    /// The lead to aim at, and by how much it may be too long. A wide bracket is worth a try.
    pub fn lead(&self, step: Step, order: Order, sectors: f64, period: f64) -> (f64, f64) {
        let bracket = self.bracket(step, order, sectors);
        if order != Order::WriteAfterWrite {
            let write = self.bracket(step, Order::WriteAfterWrite, sectors);
            let is_near = bracket.high - bracket.low <= NARROW_READ * period;
            if is_near && !bracket.follows {
                return (bracket.high, 0.0);
            }
            if !bracket.met && bracket.low <= write.low && write.met {
                return (write.high + READ_MORE * period, 0.0);
            }
        }
        let target = bracket.target(period);
        (target, (target - bracket.low) / 2.0)
    }

    /// Time from sending until the bus has transferred `sectors` sectors and the head can have passed them; `None` if the
    /// bus is not known to be slower than the medium.
    pub fn bus(&self, sectors: f64, period: f64) -> Option<f64> {
        let (low, high) = self.bus.as_ref()?.range(sectors);
        if high - low <= period * NARROW * 2.0 {
            return Some(high);
        }
        Some(low.midpoint(high))
    }

    /// The bus is slower than the medium.
    pub fn is_slow(&self) -> bool {
        self.bus.is_some()
    }

    /// Learns from a write.
    pub fn learn(&mut self, seen: &Outcome, period: f64) {
        let taken = seen.lead + seen.turns * period;
        let before = self.bracket(seen.step, seen.order, seen.end.0);
        if let Step::Far(distance) = seen.step {
            let far = &mut self.far[far_class(distance)];
            far.followed(taken, seen.turns > 0.5, period);
        }
        if let Some(own) = self.bracket_mut(seen) {
            if !own.met {
                own.low = before.low;
            }
            own.made(taken, period);
        }
        if self.bus.is_none() && self.suspect(seen, taken, &before, period) {
            self.bus = Some(all_lines(period));
            // The bus may have caused the misses that raised the lower ends.
            self.near = UNKNOWN;
            return;
        }
        let bound = |point: (f64, f64)| (point.0, taken + point.1);
        self.bound_bus(
            |bus| {
                let (end, held) = (bound(seen.end), bound(seen.held));
                bus.at_most(end.0, end.1) && bus.at_most(held.0, held.1)
            },
            period,
        );
        if seen.turns < 0.5 {
            return;
        }
        // Either the lead was too short, or the bus too slow.
        let short = taken - period;
        let by_lead = part_above(short, (before.low, before.high.min(before.low + period)));
        let by_bus = self.bus.as_ref().map_or(0.0, |bus| {
            part_above(short + seen.end.1, bus.range(seen.end.0))
        });
        let ambiguous = by_bus <= 2.0 * by_lead && by_lead <= 2.0 * by_bus;
        let bus = match ambiguous {
            true => seen.end.0 > LARGE,
            false => by_bus > by_lead,
        };
        if bus && self.bus.is_some() {
            self.bound_bus(
                |bus| {
                    let (low, high) = bus.range(seen.end.0);
                    if high - low > period / 8.0 {
                        // The bus delayed the last sector, or one before the last skew.
                        bus.at_least(seen.end.0, short + seen.end.1 - seen.skew)
                    } else {
                        bus.at_least(seen.held.0, short + seen.held.1)
                    }
                },
                period,
            );
        } else if let Some(own) = self.bracket_mut(seen) {
            own.missed(short, period);
        }
    }

    /// True when recent writes took longer than any command takes, so that the bus must be slow.
    fn suspect(&mut self, seen: &Outcome, taken: f64, before: &Bracket, period: f64) -> bool {
        let near = !matches!(seen.step, Step::Far(_));
        let odd = seen.turns > 0.5
            && seen.step == Step::Same
            && taken - period > before.high + period / 8.0;
        if near && (taken > 2.0 * period || odd) {
            self.evidence += 1.0;
        } else {
            self.evidence = (self.evidence - 0.02).max(0.0);
        }
        self.evidence > 2.5
    }

    /// Adds a bound of the bus. Starts again when several recent bounds contradict what was learned.
    fn bound_bus(&mut self, bound: impl Fn(&mut Lines) -> bool, period: f64) {
        let Some(bus) = &mut self.bus else {
            return;
        };
        if bound(bus) {
            self.strikes = (self.strikes - 0.05).max(0.0);
            return;
        }
        self.strikes += 1.0;
        if self.strikes > 2.5 {
            self.strikes = 0.0;
            *bus = all_lines(period);
        }
    }
}

/// All possible buses: up to two revolutions until the transfer begins, and half a millisecond for a sector.
fn all_lines(period: f64) -> Lines {
    Lines::new((0.0, 2.0 * period), (0.0, 500_000.0))
}

/// The part of `range` that lies above `value`, from 0 to 1.
fn part_above(value: f64, range: (f64, f64)) -> f64 {
    if range.1 <= value || range.1 <= range.0 {
        return 0.0;
    }
    ((range.1 - value) / (range.1 - range.0)).min(1.0)
}
