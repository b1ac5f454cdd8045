//! The model of volumes: the state after each commit, and the states that may be found after a power cut.
//!
//! 1. The state that is found is that after some prefix of the commits. The prefix contains every commit that was
//!    acknowledged as durable.
//! 2. Where a drive has lied and no store could detect it (see [`crate::Blame`]), each block may instead have any
//!    content that some block has had before, but no other content.

mod state;
mod wrong;

pub use state::{Change, Effect, State};

use crate::found::Found;
use state::Touched;
use std::collections::{BTreeMap, BTreeSet};
use wrong::Wrong;

/// History of one generation.
#[derive(Clone)]
pub struct Model {
    block: u64,
    /// The state after commit `base` of this generation.
    start: State,
    base: u64,
    /// The commits after `base`.
    effects: Vec<Effect>,
    now: State,
    /// The last commit that was acknowledged as durable. It is counted like `base`.
    durable: u64,
    /// Number of reads under way, by the last commit before each.
    reads: BTreeMap<u64, u32>,
    /// Hashes of every content that a block has had. Only kept when drives may lie.
    history: Option<BTreeSet<u64>>,
    /// The first finding in the run itself, such as an invalid commit.
    violation: Option<String>,
}

/// The result of comparing a found state with the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The state after this many commits.
    Prefix(u64),
    /// No prefix, but each block has a content that some block has had.
    Stale,
}

impl Model {
    /// The model of a store with the volume `main` of `main_bytes` bytes.
    pub fn new(block: u64, main_bytes: u64, lies: bool) -> Self {
        let start = State::with_main(main_bytes);
        Self {
            block,
            now: start.clone(),
            start,
            base: 0,
            effects: Vec::new(),
            durable: 0,
            reads: BTreeMap::new(),
            history: lies.then(BTreeSet::new),
            violation: None,
        }
    }

    /// The newest state.
    pub fn now(&self) -> &State {
        &self.now
    }

    /// Number of commits in this generation.
    pub fn last(&self) -> u64 {
        self.base + self.effects.len() as u64
    }

    /// Adds a commit that has just been made. Returns its number.
    pub fn commit(&mut self, effect: Effect) -> u64 {
        match self.now.apply(&effect, self.block) {
            Ok(touched) => self.remember(&touched),
            Err(what) => self.violate(what),
        }
        self.effects.push(effect);
        self.last()
    }

    fn remember(&mut self, touched: &Touched) {
        let Some(history) = &mut self.history else {
            return;
        };
        let Some(volume) = self.now.volumes.get(&touched.volume) else {
            return;
        };
        let mut bytes = vec![0; self.block as usize];
        for block in touched.from / self.block..touched.to.div_ceil(self.block) {
            volume.content.read(block * self.block, &mut bytes);
            history.insert(hash(&bytes));
        }
    }

    /// Records a finding. The first one is kept.
    pub fn violate(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// The recorded finding, if any.
    pub fn violation(&self) -> Option<String> {
        self.violation.clone()
    }

    /// All commits up to `number` have been acknowledged as durable.
    pub fn acknowledge(&mut self, number: u64) {
        self.durable = self.durable.max(number);
        if self.history.is_none() {
            // Earlier states are needed only for reads under way.
            let oldest = self.reads.keys().next().copied();
            let released = oldest.map_or(self.durable, |oldest| oldest.min(self.durable));
            let count = released.saturating_sub(self.base);
            for effect in self.effects.drain(..count as usize) {
                // An error was already recorded when the effect was committed.
                let _ = self.start.apply(&effect, self.block);
            }
            self.base += count;
        }
    }

    /// Begins a read. Returns the state before it and the number of its last commit.
    pub fn begin_read(&mut self) -> (State, u64) {
        let since = self.last();
        *self.reads.entry(since).or_default() += 1;
        (self.now.clone(), since)
    }

    /// Ends the read that began at `since`.
    pub fn end_read(&mut self, since: u64) {
        if let Some(count) = self.reads.get_mut(&since) {
            *count -= 1;
            if *count == 0 {
                self.reads.remove(&since);
            }
        }
    }

    /// True when `bytes` are a valid result of a read that began in the state `before` (of commit `since`) and has
    /// ended now. Each byte must be that of one of the states between.
    pub fn explains(
        &self,
        before: &State,
        since: u64,
        volume: u8,
        id: u64,
        offset: u64,
        found: &[u8],
    ) -> bool {
        let mut open: Vec<bool> = vec![true; found.len()];
        let mut left = found.len();
        let mut close = |state: &State| {
            let Some(volume) = state.volumes.get(&volume).filter(|volume| volume.id == id) else {
                return 0;
            };
            let mut expected = vec![0; found.len()];
            volume.content.read(offset, &mut expected);
            let there = volume.size.saturating_sub(offset).min(found.len() as u64) as usize;
            let mut closed = 0;
            for at in 0..there {
                if open[at] && expected[at] == found[at] {
                    open[at] = false;
                    closed += 1;
                }
            }
            closed
        };
        left -= close(&self.now);
        let mut state = before.clone();
        left -= if left > 0 { close(&state) } else { 0 };
        let from = since.saturating_sub(self.base) as usize;
        for effect in self.effects.iter().skip(from) {
            if left == 0 {
                break;
            }
            let _ = state.apply(effect, self.block);
            left -= close(&state);
        }
        left == 0
    }

    /// True when every whole block of `bytes` has once been the content of a block. `bytes` begin at a block.
    pub fn has_had(&self, bytes: &[u8]) -> bool {
        let Some(history) = &self.history else {
            return false;
        };
        let known = |block: &[u8]| {
            let mut whole = block.to_vec();
            whole.resize(self.block as usize, 0);
            whole.iter().all(|byte| *byte == 0) || history.contains(&hash(&whole))
        };
        bytes.chunks(self.block as usize).all(known)
    }

    /// The longest prefix that `found` may be. With `stale` it may instead consist of blocks of any age.
    ///
    /// # Errors
    /// When `found` is no valid state.
    pub fn judge(&self, found: &Found, stale: bool) -> Result<Verdict, String> {
        if stale && self.violation.is_some() {
            // The store has continued with an old volume table, which the model does not follow.
            return Ok(Verdict::Stale);
        }
        let mut state = self.start.clone();
        let mut wrong = Wrong::default();
        for volume in state.names().chain(found.volumes.keys().copied()) {
            wrong.look(&state, found, volume, None, self.block);
        }
        let (mut fits, mut nearest) = (None, (usize::MAX, 0, String::new()));
        for number in self.base..=self.last() {
            if number > self.base {
                let effect = &self.effects[(number - self.base - 1) as usize];
                let volume = effect.volume;
                let touched = state
                    .apply(effect, self.block)
                    .ok()
                    .filter(|_| !effect.is_administrative());
                wrong.look(&state, found, volume, touched.as_ref(), self.block);
            }
            if number >= self.durable || stale {
                if wrong.is_none() {
                    fits = Some(number);
                } else if wrong.count() < nearest.0 {
                    nearest = (
                        wrong.count(),
                        number,
                        wrong.describe(&state, found, self.block),
                    );
                }
            }
        }
        if let Some(number) = fits {
            return Ok(Verdict::Prefix(number));
        }
        if stale {
            return self.judge_stale(found);
        }
        Err(format!(
            "no prefix from {} (durable) to {} (last) fits; nearest is {}: {}",
            self.durable,
            self.last(),
            nearest.1,
            nearest.2
        ))
    }

    fn judge_stale(&self, found: &Found) -> Result<Verdict, String> {
        for (volume, content) in &found.volumes {
            let step = self.block as usize;
            for (index, bytes) in content.bytes.chunks(step).enumerate() {
                if !content.unreadable.contains(&(index as u64)) && !self.has_had(bytes) {
                    return Err(format!(
                        "block {index} of volume {volume} has a content that no block has ever had"
                    ));
                }
            }
        }
        Ok(Verdict::Stale)
    }

    /// The state after commit `number` becomes the start of a new generation.
    pub fn go_on(&mut self, number: u64) {
        for effect in self.effects.drain(..(number - self.base) as usize) {
            let _ = self.start.apply(&effect, self.block);
        }
        self.effects.clear();
        self.now = self.start.clone();
        (self.base, self.durable) = (0, 0);
        self.reads.clear();
    }
}

/// FNV-1a over words.
fn hash(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        (hash ^ u64::from_le_bytes(*word))
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(29)
    })
}
