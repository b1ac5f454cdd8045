//! The oracle of an engine's run: it knows every acknowledged state and every possible state.
//!
//! Each version of a block has a unique stamp. A found block therefore shows which commit wrote it, and for which
//! prefixes of the commit order the block has this content.

use std::collections::BTreeMap;

/// Content of a block in the oracle: a stamp, or 0 for zeroes.
pub type Stamp = u64;

/// Why a recovered state is invalid.
#[derive(Clone, Debug)]
pub struct Violation(pub String);

/// History of one store since its image was taken.
#[derive(Clone, Default)]
pub struct Oracle {
    /// For each block its commits and stamps in ascending order. Commit 0 is the state at the start.
    history: BTreeMap<u64, Vec<(u64, Stamp)>>,
    /// Number of commits.
    last: u64,
    /// Last commit that was acknowledged as durable.
    durable: u64,
}

impl Oracle {
    /// Adds a commit. Returns its number.
    pub fn commit(&mut self, changes: &[(u64, Stamp)]) -> u64 {
        self.last += 1;
        for (block, stamp) in changes {
            let versions = self.history.entry(*block).or_insert_with(|| vec![(0, 0)]);
            match versions.last_mut() {
                // If a commit changes a block twice, the later change counts.
                Some(version) if version.0 == self.last => version.1 = *stamp,
                _ => versions.push((self.last, *stamp)),
            }
        }
        self.last
    }

    /// Number of commits so far.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// All commits up to `index` have been acknowledged as durable.
    pub fn acknowledge(&mut self, index: u64) {
        self.durable = self.durable.max(index);
    }

    /// Newest content of `block`.
    pub fn newest(&self, block: u64) -> Stamp {
        self.history
            .get(&block)
            .and_then(|versions| versions.last())
            .map_or(0, |version| version.1)
    }

    /// Finds a prefix that gives `found` (the contents of the blocks from `first` on), and makes it the oracle's new
    /// start.
    ///
    /// # Errors
    /// When no valid prefix does.
    pub fn match_prefix(&mut self, first: u64, found: &[Stamp]) -> Result<u64, Violation> {
        let fits = |prefix: u64| {
            found
                .iter()
                .enumerate()
                .all(|(index, stamp)| self.at(first + index as u64, prefix) == *stamp)
        };
        // The search begins with the latest prefix, because usually most writes are there.
        let Some(prefix) = (self.durable..=self.last)
            .rev()
            .find(|prefix| fits(*prefix))
        else {
            return Err(self.explain(first, found));
        };
        let start = found.iter().enumerate().filter(|(_, stamp)| **stamp != 0);
        let history = start
            .map(|(index, stamp)| (first + index as u64, vec![(0, *stamp)]))
            .collect();
        *self = Self {
            history,
            last: 0,
            durable: 0,
        };
        Ok(prefix)
    }

    fn at(&self, block: u64, prefix: u64) -> Stamp {
        let Some(versions) = self.history.get(&block) else {
            return 0;
        };
        let count = versions.partition_point(|(commit, _)| *commit <= prefix);
        if count == 0 { 0 } else { versions[count - 1].1 }
    }

    fn explain(&self, first: u64, found: &[Stamp]) -> Violation {
        let mismatches = |prefix: u64| {
            let wrong = found
                .iter()
                .enumerate()
                .map(|(index, stamp)| (first + index as u64, *stamp));
            wrong
                .filter(|(block, stamp)| self.at(*block, prefix) != *stamp)
                .collect::<Vec<_>>()
        };
        let best = (0..=self.last)
            .min_by_key(|prefix| mismatches(*prefix).len())
            .unwrap_or(0);
        let mut text = format!(
            "no prefix from {} (durable) to {} (last) fits; nearest is {best}, where",
            self.durable, self.last
        );
        for (block, stamp) in mismatches(best).into_iter().take(5) {
            let owner = self
                .history
                .get(&block)
                .and_then(|v| v.iter().find(|version| version.1 == stamp));
            let owner = owner.map_or("of no commit".to_string(), |version| {
                format!("of commit {}", version.0)
            });
            text += &format!(
                " block {block} has {stamp:x} ({owner}) in place of {:x};",
                self.at(block, best)
            );
        }
        Violation(text)
    }
}
