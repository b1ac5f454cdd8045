//! The oracle of an engine's run: it knows every acknowledged state and every possible state.
//!
//! Each version of a block has a unique stamp, so a found block shows which commit wrote it.

use crate::history::{History, State};
use std::collections::{BTreeMap, BTreeSet};

/// Content of a block in the oracle: a stamp, or 0 for zeroes.
pub type Stamp = u64;

/// Stamps of the blocks that are not zero.
pub type Blocks = BTreeMap<u64, Stamp>;

/// The states of an engine's blocks.
pub type Oracle = History<Blocks>;

impl State for Blocks {
    fn differences(&self, found: &Self) -> Vec<String> {
        let numbers: BTreeSet<&u64> = self.keys().chain(found.keys()).collect();
        let pairs = numbers
            .into_iter()
            .map(|block| (block, self.get(block), found.get(block)));
        pairs
            .filter(|(_, expected, found)| expected != found)
            .map(|(block, expected, found)| {
                let (expected, found) = (expected.unwrap_or(&0), found.unwrap_or(&0));
                format!("block {block} has {found:x} in place of {expected:x}")
            })
            .collect()
    }
}

impl Oracle {
    /// Adds a commit. If it changes a block twice, the later change counts. Returns its number.
    pub fn change(&mut self, changes: &[(u64, Stamp)]) -> u64 {
        let mut blocks = (*self.now()).clone();
        blocks.extend(changes.iter().copied());
        blocks.retain(|_, stamp| *stamp != 0);
        self.commit(blocks)
    }

    /// Newest content of `block`.
    pub fn newest(&self, block: u64) -> Stamp {
        self.now().get(&block).copied().unwrap_or(0)
    }

    /// Number of the newest state that may be found and has these contents of the blocks from `first` on.
    ///
    /// # Errors
    /// When there is none.
    pub fn judge_from(&self, first: u64, found: &[Stamp]) -> Result<u64, String> {
        let found = (first..).zip(found.iter().copied());
        self.judge(&found.filter(|(_, stamp)| *stamp != 0).collect())
    }
}
