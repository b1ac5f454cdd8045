//! The states that a store has had.

use super::BLOCK;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::{Lsn, crc32c};

/// CRC-32C of each block.
pub type Content = Rc<Vec<u32>>;

/// The content of a volume with these bytes.
pub fn digest(bytes: &[u8]) -> Content {
    Rc::new(bytes.chunks(BLOCK as usize).map(crc32c).collect())
}

/// States of the volume by commit; those of an operation of several commits may be the one before or after it.
#[derive(Clone, Default)]
pub struct Model<C = Content>(
    /// The states by commit.
    pub Rc<RefCell<BTreeMap<u64, Vec<C>>>>,
    /// The last commit that is known to be durable.
    pub Rc<Cell<Lsn>>,
);

impl<C: Clone + PartialEq> Model<C> {
    /// A copy that does not change with this one.
    pub fn copy(&self) -> Self {
        let states = self.0.borrow().clone();
        Self(
            Rc::new(RefCell::new(states)),
            Rc::new(Cell::new(self.1.get())),
        )
    }

    /// The last commit that is known.
    pub fn last(&self) -> Lsn {
        let states = self.0.borrow();
        Lsn(states.keys().next_back().copied().unwrap_or(0))
    }

    /// Commits after the known ones, up to `last`, have left one of the states `ways`, if there are some.
    pub fn extend(&self, last: Lsn, ways: &[C]) {
        let known = self.last();
        if !ways.is_empty() {
            let states = (known.0 + 1..=last.0).map(|lsn| (lsn, ways.to_vec()));
            self.0.borrow_mut().extend(states);
        }
    }

    /// An operation has made the commits after `before` up to `after`.
    pub fn note(&self, before: Lsn, after: Lsn, old: C, new: C) {
        if after <= before {
            return;
        }
        let mut states = self.0.borrow_mut();
        for lsn in before.0 + 1..after.0 {
            states.insert(lsn, vec![old.clone(), new.clone()]);
        }
        states.insert(after.0, vec![new]);
    }

    /// An opening has found this state. The last commits up to `last` may be its own: it frees what a unit had spilled.
    /// What was known to be durable is there. Returns the last commit that was recovered.
    ///
    /// # Panics
    /// When the store never had it, or commits that were durable are missing.
    pub fn opened(&self, last: Lsn, found: C, durable: Lsn) -> Lsn {
        let mut states = self.0.borrow_mut();
        states.retain(|lsn, _| *lsn <= last.0);
        let fits = |(_, states): &(&u64, &Vec<C>)| states.contains(&found);
        let recovered = states.iter().rev().find(fits).map_or(0, |(lsn, _)| *lsn);
        assert!(
            recovered >= durable.0,
            "recovery has commits up to {recovered}, and {durable} was durable; {last} is the last one"
        );
        states.retain(|lsn, _| *lsn <= recovered);
        states.extend((recovered + 1..=last.0).map(|lsn| (lsn, vec![found.clone()])));
        Lsn(recovered)
    }
}

impl Model {
    /// Compares a state that was restored.
    ///
    /// # Panics
    /// When the store never had it at this commit.
    pub fn expects(&self, lsn: Lsn, found: &Content) {
        let states = &self.0.borrow()[&lsn.0];
        let differences = |state: &Content| -> Vec<usize> {
            (0..found.len())
                .filter(|block| state[*block] != found[*block])
                .collect()
        };
        assert!(
            states.contains(found),
            "commit {lsn}: other blocks than there were: {:?}",
            states.iter().map(differences).collect::<Vec<_>>()
        );
    }
}
