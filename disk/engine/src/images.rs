//! What patches that recovery finds in the log go on from.

use crate::pinned::{Holds, Known, Pinned};
use std::cell::RefCell;
use std::collections::BTreeMap;
use tonearm_base::{Lsn, Slice};

/// Blocks that recovery has written home, each with the commit of its image. Patches that recovery finds later go on
/// from what is at home. Nothing is held: the log does not run yet.
#[derive(Default)]
pub(crate) struct Images(RefCell<BTreeMap<u64, Lsn>>);

/// What a patch goes on from.
pub(crate) enum Base {
    /// This content.
    Memory(Slice),
    /// What the block has at home.
    Home,
    /// Nothing: the patch is void. Its image is before the start of the log, so all up to the patch is at home or
    /// superseded (invariant 4 of `pinned`).
    None,
}

impl Holds for Images {
    fn hold(&self, _: Lsn) {}
    fn release(&self, _: Lsn) {}
    fn at_home(&self, block: u64, hold: Lsn) {
        self.0.borrow_mut().insert(block, hold);
    }
}

impl Images {
    /// What patches of `block` go on from.
    pub fn base(&self, pinned: &Pinned, block: u64) -> Base {
        match pinned.get(block) {
            Some(Known::Data(data)) => Base::Memory(data.clone()),
            // Behind a zeroing or a move the log has the whole block before it has patches.
            Some(Known::Zero | Known::Moved(_)) => Base::None,
            None if self.0.borrow().contains_key(&block) => Base::Home,
            None => Base::None,
        }
    }

    /// Takes what patches of commit `lsn` have made of `block`.
    pub fn put_patched(&self, pinned: &mut Pinned, lsn: Lsn, block: u64, data: Slice) {
        let image = self.0.borrow().get(&block).copied().unwrap_or(lsn);
        pinned.slot(block).put(image, lsn, data, None, self);
    }
}
