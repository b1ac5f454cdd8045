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
    /// The commits from number `base` on, of which the first one has made the oldest state that is needed.
    commits: Vec<Commit>,
    base: u64,
    /// The last commit that was acknowledged as durable. It is counted like `base`.
    durable: u64,
    /// Number of reads under way, by the last commit before each.
    reads: BTreeMap<u64, u32>,
    /// Hashes of every content that a block has had. Only kept when drives may lie.
    history: Option<BTreeSet<u64>>,
    /// The first finding in the run itself, such as an invalid commit.
    violation: Option<String>,
}

/// A commit.
#[derive(Clone)]
struct Commit {
    /// The state after it.
    state: State,
    /// The volume that it has changed.
    volume: u8,
    /// The bytes that it has changed; `None` when it has changed more than bytes.
    touched: Option<Touched>,
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
        let start = Commit {
            state: State::with_main(main_bytes),
            volume: 0,
            touched: None,
        };
        Self {
            block,
            commits: vec![start],
            base: 0,
            durable: 0,
            reads: BTreeMap::new(),
            history: lies.then(BTreeSet::new),
            violation: None,
        }
    }

    /// The newest state.
    pub fn now(&self) -> &State {
        &self.commits[self.commits.len() - 1].state
    }

    /// Number of commits in this generation.
    pub fn last(&self) -> u64 {
        self.base + self.commits.len() as u64 - 1
    }

    /// Adds a commit that has just been made. Returns its number.
    pub fn commit(&mut self, effect: Effect) -> u64 {
        let mut state = self.now().clone();
        let touched = match state.apply(&effect, self.block) {
            Ok(touched) => Some(touched),
            Err(what) => {
                self.violate(what);
                None
            }
        };
        if let Some(touched) = &touched {
            self.remember(&state, touched);
        }
        self.commits.push(Commit {
            state,
            volume: effect.volume,
            touched: touched.filter(|_| !effect.is_administrative()),
        });
        self.last()
    }

    fn remember(&mut self, state: &State, touched: &Touched) {
        let Some(history) = &mut self.history else {
            return;
        };
        let Some(volume) = state.volumes.get(&touched.volume) else {
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
            self.commits.drain(..count as usize);
            self.base += count;
        }
    }

    /// Begins a read. Returns the number of the last commit before it.
    pub fn begin_read(&mut self) -> u64 {
        let since = self.last();
        *self.reads.entry(since).or_default() += 1;
        since
    }

    /// The states from that after commit `since` on.
    pub fn states_since(&self, since: u64) -> impl Iterator<Item = &State> {
        let commits = self.commits.iter().skip((since - self.base) as usize);
        commits.map(|commit| &commit.state)
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

    /// True when `bytes` are a valid result of a read that began after commit `since` and has ended now. Each byte must be that of
    /// one of the states between.
    pub fn explains(&self, since: u64, volume: u8, id: u64, offset: u64, found: &[u8]) -> bool {
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
        // Most often it is all of the newest state.
        for state in [self.now()].into_iter().chain(self.states_since(since)) {
            if left == 0 {
                break;
            }
            left -= close(state);
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
        let mut wrong = Wrong::default();
        let start = &self.commits[0].state;
        for volume in start.names().chain(found.volumes.keys().copied()) {
            wrong.look(start, found, volume, None, self.block);
        }
        let (mut fits, mut nearest) = (None, (usize::MAX, 0, String::new()));
        for (number, commit) in (self.base..).zip(&self.commits) {
            let state = &commit.state;
            if number > self.base {
                let touched = commit.touched.as_ref();
                wrong.look(state, found, commit.volume, touched, self.block);
            }
            if number >= self.durable || stale {
                if wrong.is_none() {
                    fits = Some(number);
                } else if wrong.count() < nearest.0 {
                    nearest = (
                        wrong.count(),
                        number,
                        wrong.describe(state, found, self.block),
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
        self.commits = vec![self.commits[(number - self.base) as usize].clone()];
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
