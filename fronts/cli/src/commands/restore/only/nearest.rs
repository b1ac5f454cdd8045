//! The names that are suggested when there is none of a name.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use tonearm_fs::path_text;

/// Most names that are suggested.
const MOST: usize = 10;

/// The names that are most like one that is not there.
pub(super) struct Nearest {
    name: Vec<u8>,
    /// By how like they are.
    best: BTreeSet<(Reverse<usize>, Vec<u8>)>,
    count: usize,
}

impl Nearest {
    pub fn new(name: &[u8]) -> Self {
        Self {
            name: name.to_vec(),
            best: BTreeSet::new(),
            count: 0,
        }
    }

    /// There is this name.
    pub fn add(&mut self, name: &[u8]) {
        self.count += 1;
        self.best
            .insert((Reverse(likeness(&self.name, name)), name.to_vec()));
        if self.best.len() > MOST {
            self.best.pop_last();
        }
    }

    /// The rest of a sentence that says what there is: all names, when they are few.
    pub fn text(self, url: &str) -> String {
        let mut names: Vec<Vec<u8>> = self.best.into_iter().map(|(_, name)| name).collect();
        if self.count <= MOST {
            names.sort();
        }
        let names: Vec<String> = names.iter().map(|name| path_text(name)).collect();
        let joined = names.join(", ");
        match self.count {
            0 => "there is none at all".to_string(),
            1 => format!("there is {joined}"),
            2..=MOST => format!("there are {joined}"),
            _ => format!(
                "the names most like it are {joined} (`tonearm history {url} --names` lists all)"
            ),
        }
    }
}

/// How like names are: the bytes that they begin and end with in common.
fn likeness(one: &[u8], other: &[u8]) -> usize {
    let both = one.iter().zip(other);
    let first = both.take_while(|(one, other)| one == other).count();
    let ends = one[first..].iter().rev().zip(other[first..].iter().rev());
    first + ends.take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
#[path = "nearest_test.rs"]
mod nearest_test;
