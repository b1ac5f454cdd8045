//! Which segments the cleaner takes (HyLog 4.3).

use crate::setup::Cleaning;
use crate::space::{Space, State};
use tonearm_layout::separation::cost;
use tonearm_layout::{Policy, choose};

/// The cleaner runs while there are fewer free segments.
pub(crate) const FREE_MIN: usize = 10;
/// Most bytes that one pass reads.
const PASS_BYTES: u64 = 20 << 20;
/// Pages for each disk that are plugged at a time.
pub(crate) const PLUGS_PER_DISK: u32 = 4;

/// A pass under way.
#[derive(Default)]
pub(crate) struct Pass {
    pub plug: bool,
    pub sources: Vec<u32>,
    /// Sources that have been read, or are being read.
    pub read: usize,
    /// The live pages of the sources, once all have been read; the oldest first.
    pub pages: Option<Vec<u32>>,
    /// Pages that have been moved.
    pub moved: usize,
    /// Segments with holes for plugging, the fullest last, of the hot and the cold partition.
    pub targets: [Vec<u32>; 2],
    /// Reads of sources, or writes of pages into holes.
    pub under_way: u32,
}

/// What the choice of a pass depends on.
pub(crate) struct Choice<'a> {
    pub space: &'a Space,
    pub cleaning: Cleaning,
    /// Page writes since the begin.
    pub now: u32,
    pub efficiency: f64,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// Buffers of the cleaner.
    pub buffers: usize,
}

/// A way to make free segments.
#[derive(Clone, Copy)]
struct Way {
    plug: bool,
    policy: Policy,
    cold: bool,
}

impl Choice<'_> {
    /// The cheapest pass, the most segments that it writes, and its number in [`crate::Counts::passes`]. None if nothing
    /// can be gained.
    pub fn best(&self) -> Option<(Pass, usize, usize)> {
        let way = |plug, policy| [false, true].map(|cold| Way { plug, policy, cold });
        let clean = |policy| way(false, policy);
        let plug = way(true, Policy::Greedy);
        let ways = match self.cleaning {
            Cleaning::Adaptive => [clean(Policy::CostAge), plug].concat(),
            Cleaning::CostAge => clean(Policy::CostAge).to_vec(),
            Cleaning::Greedy => clean(Policy::Greedy).to_vec(),
            Cleaning::Plugging => plug.to_vec(),
        };
        let mut best: Option<(f64, Way, Vec<u32>, u64)> = None;
        for way in ways {
            let (sources, live) = self.sources(way);
            let pages = live as f64 / f64::from(self.space.segment_pages);
            let count = sources.len() as f64;
            let cost = match way.plug {
                true if count > 0.0 => cost::plugging_pass(count, pages, self.efficiency),
                true => f64::INFINITY,
                false => cost::cleaning_pass(count, pages),
            };
            if cost.is_finite() && best.as_ref().is_none_or(|best| cost < best.0) {
                best = Some((cost, way, sources, live));
            }
        }
        let (_, way, sources, live) = best?;
        let outputs = match way.plug {
            true => 0,
            false => live.div_ceil(u64::from(self.space.segment_pages)) as usize,
        };
        let pass = Pass {
            plug: way.plug,
            sources,
            ..Pass::default()
        };
        let number = usize::from(way.plug) + 2 * usize::from(way.cold);
        Some((pass, outputs, number))
    }

    /// The segments that a pass would take, and their live pages.
    fn sources(&self, way: Way) -> (Vec<u32>, u64) {
        let capacity = u64::from(self.space.segment_pages);
        let mut most = (PASS_BYTES / self.segment_bytes).max(1);
        if way.plug {
            // Their holes are of no use, so all their slots must be found elsewhere.
            most = most.min(self.space.holes(way.cold) / capacity);
        }
        if most == 0 {
            return (Vec::new(), 0);
        }
        let segments = self.space.segments.iter().enumerate();
        let candidates = segments.filter_map(|(number, segment)| {
            let taken = segment.state == State::Used
                && segment.cold == way.cold
                && segment.live < self.space.segment_pages;
            let age = self.now.saturating_sub(segment.youngest);
            taken.then_some((number as u64, u64::from(segment.live), u64::from(age)))
        });
        let mut chosen = choose(way.policy, candidates, capacity, most as usize);
        let live_of = |number: &u64| u64::from(self.space.segments[*number as usize].live);
        let mut live: u64 = chosen.iter().map(live_of).sum();
        // The pass must be able to write all before its sources are free.
        let outputs = |live: u64| live.div_ceil(capacity) as usize + self.buffers - 1;
        while !way.plug && chosen.len() > 1 && outputs(live) > self.space.free() {
            live -= chosen.pop().as_ref().map_or(0, live_of);
        }
        (
            chosen.into_iter().map(|number| number as u32).collect(),
            live,
        )
    }

    /// Segments with holes, the fullest last, of the hot and the cold partition.
    pub fn targets(space: &Space) -> [Vec<u32>; 2] {
        [false, true].map(|cold| {
            let numbers = 0..space.segments.len() as u32;
            let mut targets: Vec<u32> = numbers
                .filter(|number| {
                    let segment = &space.segments[*number as usize];
                    let open = segment.live < space.segment_pages && !segment.draining;
                    segment.state == State::Used && segment.cold == cold && open
                })
                .collect();
            targets.sort_by_key(|number| space.segments[*number as usize].live);
            targets
        })
    }
}
