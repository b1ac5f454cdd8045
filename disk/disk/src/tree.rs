//! The pages of the file system's tree: a hidden volume that grows. The end of a recovery unit changes them.
//!
//! What a page means is the file system's matter. It changes pages in a function that has no await ([`TreeEdit`]). The
//! function runs over the committed pages. When one is not in memory, it stops, and runs again from the start once the page
//! is loaded. It also runs again when another unit has changed pages before this one ends. So operations on the tree are
//! serialised by the ends of their units, without locks.

use crate::core::Core;
use crate::error::DiskError;
use crate::pages::{Edits, Pages};
use std::rc::Rc;

/// Pages that are kept for changes that free space, beside one in so many.
const KEPT_PAGES: u64 = 16;
const KEPT_PART: u64 = 32;

/// Why a [`TreeEdit`] has stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeStop {
    /// This page is not in memory.
    Missing(u64),
    /// The tree has no free page.
    Full,
    /// The operation is not possible. The function keeps its reason for its caller.
    Refused,
}

/// A change of the tree. It may run several times, each time over pages without its earlier changes.
pub type TreeEdit = Box<dyn FnMut(&mut TreePages<'_>) -> Result<(), TreeStop>>;

/// The pages as one operation sees them.
pub struct TreePages<'a> {
    edits: &'a mut Edits,
    lists: &'a Pages,
    /// The change frees space.
    frees: bool,
}

impl TreePages<'_> {
    /// A page. Pages that were never written are zeroes.
    ///
    /// # Errors
    /// [`TreeStop::Missing`].
    pub fn page(&mut self, page: u64) -> Result<&[u8], TreeStop> {
        self.see(page)?;
        Ok(self.edits.get(page).expect("it has just been seen"))
    }

    /// A page, to be changed.
    ///
    /// # Errors
    /// [`TreeStop::Missing`].
    pub fn page_mut(&mut self, page: u64) -> Result<&mut [u8], TreeStop> {
        self.see(page)?;
        Ok(self.edits.change(page))
    }

    /// Pages that there are.
    pub fn count(&self) -> u64 {
        self.edits.pages().blocks()
    }

    /// Pages that this change must leave free: a change that frees space may need some itself.
    pub fn kept(&self) -> u64 {
        let count = self.count();
        if self.frees {
            0
        } else {
            KEPT_PAGES.min(count / 8) + count / KEPT_PART
        }
    }

    /// Behind the last block that can be on a list.
    pub fn list_blocks_end(&self) -> u64 {
        self.lists.blocks()
    }

    fn see(&mut self, page: u64) -> Result<(), TreeStop> {
        if self.edits.get(page).is_some() {
            return Ok(());
        }
        let known = self.edits.pages().known(page);
        let known = known.ok_or(TreeStop::Missing(page))?;
        self.edits.see(page, known);
        Ok(())
    }
}

/// Runs `edit` over the present pages, for the end of a unit. If it `frees` space, it may use the pages that are kept for that.
///
/// # Errors
/// When a page cannot be read, the store is full, or the function refuses.
pub(crate) async fn run(
    core: &Rc<Core>,
    frees: bool,
    mut edit: impl FnMut(&mut TreePages<'_>) -> Result<(), TreeStop>,
) -> Result<Edits, DiskError> {
    let mut edits = Edits::new(&core.tree);
    loop {
        let mut pages = TreePages {
            edits: &mut edits,
            lists: &core.lists.pages,
            frees,
        };
        match edit(&mut pages) {
            Ok(()) => return Ok(edits),
            Err(TreeStop::Missing(page)) if page < core.tree.blocks() => {
                core.tree.load(page).await?;
            }
            Err(TreeStop::Missing(page)) => return Err(DiskError::NoTreePage(page)),
            Err(TreeStop::Full) => core.grow_tree().await?,
            Err(TreeStop::Refused) => return Err(DiskError::Refused),
        }
        edits = Edits::new(&core.tree);
    }
}
