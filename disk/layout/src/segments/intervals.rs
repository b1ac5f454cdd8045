//! What is known of the writes of blocks, and what each interval of the separator measures (HyLog 4).

use crate::home::HotStats;
use crate::segments::SegmentsOptions;
use crate::separation::cost::{Efficiency, LEAST_HOT_WRITES};
use crate::separation::{Decision, Estimate, Inputs, Kind, Separator};
use std::collections::BTreeSet;
use tonearm_base::Nanos;
use tonearm_format::Placement;

/// The first interval after an opening is this part of the usual one. Each is twice as long as the one before.
const FIRST_INTERVAL: u64 = 16;
/// Memory for counters of writes.
const COUNTER_BYTES: usize = 32 << 20;

/// Blocks that the next call measures.
pub(crate) struct Sample {
    pub kind: Kind,
    pub overwritten: BTreeSet<u64>,
    pub appended: BTreeSet<u64>,
}

/// What each interval measures. WOLF overwrites nothing.
fn measured_by(placement: Placement) -> &'static [Kind] {
    match placement {
        Placement::Hylog => &[Kind::Many, Kind::Few],
        _ => &[],
    }
}

/// What is known of the blocks that are written.
pub(crate) struct Separation {
    pub placement: Placement,
    pub separator: Separator,
    /// When the interval ends, how long the next one is, and how long later ones are.
    pub ends: Nanos,
    next: Nanos,
    interval: Nanos,
    /// What this interval has still to measure.
    unmeasured: &'static [Kind],
    sample: Option<Sample>,
    /// See [`Inputs::cleaning`].
    pub cleaning: Option<f64>,
    /// The last decision, with the efficiency that it took.
    pub decision: Option<(Decision, Efficiency)>,
}

impl Separation {
    /// None where the placement does not depend on how often blocks are written.
    pub fn new(options: &SegmentsOptions, now: Nanos) -> Option<Self> {
        let needed = matches!(options.placement, Placement::Wolf | Placement::Hylog);
        let (first, interval) = (
            options.separation_interval.0 / FIRST_INTERVAL,
            options.separation_interval,
        );
        needed.then(|| Self {
            placement: options.placement,
            separator: Separator::new(options.size_blocks, COUNTER_BYTES, Estimate::LaterWrites),
            ends: Nanos(now.0 + first),
            next: Nanos(2 * first),
            interval,
            unmeasured: measured_by(options.placement),
            sample: None,
            cleaning: None,
            decision: None,
        })
    }

    /// Blocks that a round takes, of which those that are not overwritten are about `appended`. WOLF sorts the blocks
    /// of `portion`, so that each of its segments gets its own kind. For HyLog, the more blocks are overwritten in one
    /// sweep, the less time each of them takes.
    pub fn round_blocks(&self, appended: usize, portion: usize) -> usize {
        match (self.placement, self.decision) {
            (Placement::Wolf, _) => portion,
            (_, Some((decision, _))) => {
                let blocks = appended as f64 / decision.hot_writes.max(LEAST_HOT_WRITES);
                blocks as usize
            }
            (_, None) => appended,
        }
    }

    /// What the next call should measure, if it has no sample yet.
    pub fn unmeasured(&self) -> Option<Kind> {
        match self.sample {
            Some(_) => None,
            None => self.unmeasured.first().copied(),
        }
    }

    /// The next call measures `sample`.
    pub fn begin_sample(&mut self, sample: Sample) {
        self.sample = Some(sample);
        self.unmeasured = &self.unmeasured[1..];
    }

    /// The sample of this call.
    pub fn take_sample(&mut self) -> Option<Sample> {
        self.sample.take()
    }

    /// Ends an interval, at `now`.
    pub fn decide(&mut self, now: Nanos, inputs: Inputs) {
        let decision = self.separator.decide(inputs);
        self.decision = Some((decision, inputs.efficiency));
        self.unmeasured = measured_by(self.placement);
        self.ends = Nanos(now.0 + self.next.0);
        self.next = Nanos((2 * self.next.0).min(self.interval.0));
    }

    /// The last decision.
    pub fn stats(&self) -> HotStats {
        let Some((decision, efficiency)) = self.decision else {
            return HotStats::default();
        };
        let milli = |number: f64| (1000.0 * number).round() as u64;
        HotStats {
            share_permille: milli(decision.hot_share),
            writes_permille: milli(decision.hot_writes),
            threshold: decision.threshold.into(),
            efficiency_milli: milli(efficiency.many),
            write_cost_milli: milli(decision.cost),
        }
    }
}
