//! The separator: counts how often each page is written, and finds the hot share with the least cost (HyLog 4.2).

use crate::separation::cost::{self, Efficiency};

/// Values that a counter can have.
const VALUES: usize = 256;
/// Share of the cost that a separation saves at least. Blocks that become hot leave holes between cold ones, which
/// equation 8 does not have. With a uniform load it promises up to a fourth, for blocks that chance has made hot.
const GAIN_MIN: f64 = 0.1;

/// How the share of writes that go to the hottest pages is estimated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Estimate {
    /// As in the paper: the writes of an interval order the pages, and the same writes say how many go to the first
    /// ones. When pages are written a few times in an interval, chance makes some look hot, and the share comes out too
    /// large.
    SameWrites,
    /// The writes of earlier intervals, aged by half in each, order the pages. Those of the last interval say how many
    /// go to the first ones.
    #[default]
    LaterWrites,
}

/// What the decision depends on besides the counters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Inputs {
    /// Pages that have content.
    pub live_pages: u64,
    /// Share of the space that they take, from 0 to 1.
    pub utilisation: f64,
    /// Segment I/O efficiency, adjusted for disks and idleness.
    pub efficiency: Efficiency,
    /// The measured cost of appending all pages, divided by that of equation 4. The equation does not know that the arm
    /// moves between reads and writes of the cleaner, nor that the cleaner copies less of a skewed load.
    pub cleaning: f64,
}

/// The result of an interval.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Decision {
    /// Share of hot pages in the live ones.
    pub hot_share: f64,
    /// Share of writes that go to them.
    pub hot_writes: f64,
    /// Least count of a hot page; 0 when all are hot.
    pub threshold: u16,
    /// Expected cost of a write (equation 8).
    pub cost: f64,
    /// Expected cost when no page is hot.
    pub all_cold: f64,
    /// Expected cost when all are.
    pub all_hot: f64,
}

/// Counts writes and separates hot pages from cold ones. It takes two bytes of memory for each counter. When there are more
/// pages than counters, adjacent pages share one.
#[derive(Debug)]
pub struct Separator {
    estimate: Estimate,
    /// Pages of a counter, as a power of two.
    shift: u32,
    /// Counts by which pages are ordered. They change at the end of an interval only.
    order: Vec<u8>,
    /// Writes of this interval.
    current: Vec<u8>,
    /// Writes of this interval that no counter had room for.
    excess: u64,
    /// Pages are hot when their order count is at least this.
    threshold: u16,
}

impl Separator {
    /// All pages are hot until the first decision. The counters take at most `memory_bytes`, and at least two bytes.
    pub fn new(pages: u64, memory_bytes: usize, estimate: Estimate) -> Self {
        let most = (memory_bytes as u64 / 2).max(1);
        let mut shift = 0;
        while pages.div_ceil(1 << shift) > most {
            shift += 1;
        }
        let counters = pages.div_ceil(1 << shift) as usize;
        Self {
            estimate,
            shift,
            order: vec![0; counters],
            current: vec![0; counters],
            excess: 0,
            threshold: 0,
        }
    }

    /// Pages that share a counter.
    pub fn pages_per_counter(&self) -> u64 {
        1 << self.shift
    }

    /// Bytes of memory that the counters take.
    pub fn memory_bytes(&self) -> usize {
        self.order.len() + self.current.len()
    }

    /// Counts a write of `page` to the disk.
    ///
    /// # Panics
    /// When there is no such page.
    pub fn note_write(&mut self, page: u64) {
        let counter = &mut self.current[(page >> self.shift) as usize];
        match counter.checked_add(1) {
            Some(more) => *counter = more,
            None => self.excess += 1,
        }
    }

    /// True when `page` is to be appended, false when it is to be overwritten in place.
    ///
    /// # Panics
    /// When there is no such page.
    pub fn is_hot(&self, page: u64) -> bool {
        u16::from(self.order[(page >> self.shift) as usize]) >= self.threshold
    }

    /// How often `page` was written, by the counts that order the pages and this interval's. Larger is hotter.
    ///
    /// # Panics
    /// When there is no such page.
    pub fn frequency(&self, page: u64) -> u16 {
        let at = (page >> self.shift) as usize;
        u16::from(self.order[at]) + u16::from(self.current[at])
    }

    /// Ends an interval: finds the hot share with the least cost, and begins the next interval.
    pub fn decide(&mut self, inputs: Inputs) -> Decision {
        // Pages and writes for each count that orders them.
        let (mut pages, mut writes) = ([0_u64; VALUES], [0_u64; VALUES]);
        for (order, current) in self.order.iter().zip(&self.current) {
            let by = match self.estimate {
                Estimate::SameWrites => *current,
                Estimate::LaterWrites => *order,
            };
            pages[usize::from(by)] += 1;
            writes[usize::from(by)] += u64::from(*current);
        }
        // What a full counter has not counted belongs to the hottest pages.
        if let Some(top) = (0..VALUES).rev().find(|by| pages[*by] > 0) {
            writes[top] += self.excess;
        }
        let counted: u64 = pages[1..].iter().sum();
        let live = (inputs.live_pages >> self.shift).max(counted).max(1);
        // Counters of pages without content are not pages.
        pages[0] = live - counted;
        let (decision, count) = self.least(&pages, &writes, live, inputs);
        self.begin_interval();
        self.threshold = match self.estimate {
            Estimate::SameWrites => count,
            Estimate::LaterWrites => self.threshold_of(decision.hot_share, live),
        };
        Decision {
            threshold: self.threshold,
            ..decision
        }
    }

    /// Ends an interval with a hot share that is given, for studies of what another share costs.
    pub fn decide_share(&mut self, hot_share: f64, inputs: Inputs) -> Decision {
        let live = (inputs.live_pages >> self.shift).max(1);
        self.begin_interval();
        self.threshold = self.threshold_of(hot_share, live);
        Decision {
            hot_share,
            threshold: self.threshold,
            ..Decision::default()
        }
    }

    /// Lets the counts of the interval order the pages from now on.
    fn begin_interval(&mut self) {
        for (order, current) in self.order.iter_mut().zip(&mut self.current) {
            *order = match self.estimate {
                Estimate::SameWrites => *current,
                Estimate::LaterWrites => (*order / 2).saturating_add(*current),
            };
            *current = 0;
        }
        self.excess = 0;
    }

    /// The decision with the least cost, and the least count of its hot pages.
    fn least(
        &self,
        pages: &[u64; VALUES],
        writes: &[u64; VALUES],
        live: u64,
        inputs: Inputs,
    ) -> (Decision, u16) {
        let all = writes.iter().sum::<u64>().max(1) as f64;
        let cost = |hot: u64, hot_writes: u64| {
            let (hot_share, hot_writes) = (hot as f64 / live as f64, hot_writes as f64 / all);
            let efficiency = inputs.efficiency.at(hot_writes);
            // Equation 8 knows the skew of the pages that it separates.
            let cleaning = inputs.cleaning.max(1.0);
            let overwritten = (1.0 - hot_writes) * cost::overwrite(efficiency);
            let all = cost::hylog(hot_share, hot_writes, inputs.utilisation, efficiency);
            overwritten + cleaning * (all - overwritten)
        };
        let all_cold = cost(0, 0);
        let mut best = (all_cold, 0, 0, VALUES as u16);
        let (mut hot, mut hot_writes) = (0, 0);
        for by in (0..VALUES).rev() {
            if pages[by] == 0 {
                continue;
            }
            (hot, hot_writes) = (hot + pages[by], hot_writes + writes[by]);
            let cost = cost(hot, hot_writes);
            if cost < best.0 {
                best = (cost, hot, hot_writes, by as u16);
            }
        }
        let all_hot = inputs.cleaning * cost::appending(inputs.utilisation);
        if self.estimate == Estimate::LaterWrites
            && best.0 > (1.0 - GAIN_MIN) * all_cold.min(all_hot)
        {
            best = if all_cold <= all_hot {
                (all_cold, 0, 0, VALUES as u16)
            } else {
                (all_hot, live, all as u64, 0)
            };
        }
        let (least, hot, hot_writes, count) = best;
        let decision = Decision {
            hot_share: hot as f64 / live as f64,
            hot_writes: hot_writes as f64 / all,
            threshold: count,
            cost: least,
            all_cold,
            all_hot,
        };
        (decision, count)
    }

    /// The least count with which at most `hot_share` of `live` pages, and no fewer than with any larger count, are hot.
    fn threshold_of(&self, hot_share: f64, live: u64) -> u16 {
        if hot_share >= 1.0 {
            return 0;
        }
        let mut pages = [0_u64; VALUES];
        for order in &self.order {
            pages[usize::from(*order)] += 1;
        }
        let wanted = (hot_share * live as f64) as u64;
        let mut hot = 0;
        for by in (1..VALUES).rev() {
            hot += pages[by];
            if hot > wanted {
                // The count whose pages fit better: with those of `by`, or without.
                let without = hot - pages[by];
                return if hot - wanted <= wanted - without {
                    by as u16
                } else {
                    by as u16 + 1
                };
            }
        }
        1
    }
}
