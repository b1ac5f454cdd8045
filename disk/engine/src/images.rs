//! The content to which recovery applies the patches of the log.

use crate::pinned::{Known, LogRetention, Pinned};
use std::cell::RefCell;
use std::collections::BTreeMap;
use tonearm_base::{Lsn, Slice};

/// Blocks that recovery has written home, each with the commit of its image. Later patches apply to the content at
/// home. No commit is held, because the log does not run yet.
#[derive(Default)]
pub(crate) struct Images(RefCell<BTreeMap<u64, Lsn>>);

/// The content to which a patch applies.
pub(crate) enum Base {
    /// This content.
    Memory(Slice),
    /// What the block has at home.
    Home,
    /// No content: the patch is void. The block's image lies before the log start, so all changes up to the patch are
    /// at home or superseded (invariant 4 of `pinned`).
    None,
}

impl LogRetention for Images {
    fn hold(&self, _: Lsn) {}
    fn release(&self, _: Lsn) {}
    fn at_home(&self, block: u64, hold: Lsn) {
        self.0.borrow_mut().insert(block, hold);
    }
}

impl Images {
    /// The content to which patches of `block` apply.
    pub fn base(&self, pinned: &Pinned, block: u64) -> Base {
        match pinned.get(block) {
            Some(Known::Data(data)) => Base::Memory(data.clone()),
            // After a zeroing or a move, the log has an image of the block before it has patches.
            Some(Known::Zero | Known::Moved(_)) => Base::None,
            None if self.0.borrow().contains_key(&block) => Base::Home,
            None => Base::None,
        }
    }

    /// `block` is not written home any more.
    pub fn forget(&self, block: u64) {
        self.0.borrow_mut().remove(&block);
    }

    /// Takes the content of `block` after the patches of commit `lsn`.
    pub fn put_patched(&self, pinned: &mut Pinned, lsn: Lsn, block: u64, data: Slice) {
        let image = self.0.borrow().get(&block).copied().unwrap_or(lsn);
        pinned.slot(block).put(image, lsn, data, None, self);
    }
}
