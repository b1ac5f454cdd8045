//! The tree of a file system: a B+tree of items in pages of one block each. Format: `docs/format/tree.md`.
//!
//! The tree does no I/O and keeps nothing in memory. An operation reads and changes pages through [`Pages`]. When it needs a
//! page that is not in memory, or a page more than there are, it returns [`TreeError::Wait`]. The caller provides the
//! page or the space, and runs the operation again from the start.
//!
//! Invariants:
//! 1. An operation that returns an error may have changed pages. The caller discards these changes, so that an operation
//!    happens atomically.
//! 2. No content of a page causes a panic or an endless loop: each offset is checked before its use, a descent has as
//!    many steps as the tree has levels, and a scan ends where keys do not ascend.
//! 3. The same operations on the same pages change the same bytes.

mod change;
mod check;

pub use check::{Check, Report};
pub use tonearm_format::{Key, TREE_OWNER_WORDS as OWNER_WORDS, TreeHeader, max_value};

use tonearm_format::{FormatError, TreeNode};

/// Why an operation on pages has to wait. The caller loads the page or enlarges the space, and runs the operation again
/// from the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// This page is not in memory.
    Missing(u64),
    /// No free page is left.
    Full,
}

/// Why an operation of the tree has failed. The caller discards what the operation has changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TreeError {
    /// The caller runs the operation again later.
    #[error("the tree of the file system waits for a page or for space")]
    Wait(Wait),
    /// A page contradicts itself or another one.
    #[error("the tree of the file system is damaged: {0}; restore the store from a backup")]
    Damaged(String),
    /// The value is longer than [`max_value`].
    #[error("the value is too long for the tree of the file system")]
    TooLarge,
}

impl From<Wait> for TreeError {
    fn from(wait: Wait) -> Self {
        TreeError::Wait(wait)
    }
}

/// The pages of a tree. All have the length of a block of the store, 4096 to 65536 bytes.
pub trait Pages {
    /// The content of a page below [`Self::count`].
    ///
    /// # Errors
    /// When the page is not in memory.
    fn page(&mut self, page: u64) -> Result<&[u8], Wait>;

    /// The same, to be changed. The content of a page that was never used has no meaning.
    ///
    /// # Errors
    /// When the page is not in memory.
    fn page_mut(&mut self, page: u64) -> Result<&mut [u8], Wait>;

    /// Pages that exist, the header page (number 0) included.
    fn count(&self) -> u64;

    /// Pages that the operation leaves free, for those that free space.
    fn kept(&self) -> u64 {
        0
    }
}

/// Makes an empty tree: the header page, and a leaf without items as the root.
///
/// # Errors
/// [`TreeError::Wait`] with [`Wait::Full`] when there are fewer than two pages; and when a page is not in memory.
pub fn format(pages: &mut impl Pages, owner: [u64; OWNER_WORDS]) -> Result<(), TreeError> {
    if pages.count() < 2 {
        return Err(Wait::Full.into());
    }
    let header = TreeHeader {
        root: 1,
        levels: 1,
        used: 2,
        free_head: 0,
        free_count: 0,
        items: 0,
        owner,
    };
    let page = pages.page_mut(0)?;
    page.fill(0);
    header.encode(page);
    let page = pages.page_mut(header.root)?;
    page.fill(0);
    TreeNode::format(page, 0);
    Ok(())
}

/// A tree in pages.
pub struct Tree<'a, P: Pages>(pub &'a mut P);

/// The way from the root to an item of a leaf.
struct Path {
    /// Page and number of an item, for each level from the root down.
    steps: Vec<(u64, usize)>,
    /// The leaf has the key.
    found: bool,
    /// All steps but that in the leaf lead to the last child.
    rightmost: bool,
}

fn damaged(page: u64) -> impl Fn(FormatError) -> TreeError {
    move |cause| TreeError::Damaged(format!("page {page}: {cause}"))
}

/// The level of the node of a step, where `above` steps are above it.
fn level_below(header: &TreeHeader, above: usize) -> u32 {
    header.levels - 1 - above as u32
}

/// Checks that a page can be a node of the tree.
fn check_number(header: &TreeHeader, page: u64) -> Result<(), TreeError> {
    if (1..header.used).contains(&page) {
        return Ok(());
    }
    let used = header.used;
    Err(TreeError::Damaged(format!(
        "page {page} is named, and pages 1 to {} are in use",
        used - 1
    )))
}

impl<P: Pages> Tree<'_, P> {
    /// The header of the tree.
    ///
    /// # Errors
    /// When the header is damaged, or not in memory.
    pub fn header(&mut self) -> Result<TreeHeader, TreeError> {
        let count = self.0.count();
        TreeHeader::decode(self.0.page(0)?, count).map_err(damaged(0))
    }

    /// Replaces the owner's words in the header. The tree keeps the other fields.
    ///
    /// # Errors
    /// As [`Self::header`].
    pub fn set_header(&mut self, owner: [u64; OWNER_WORDS]) -> Result<(), TreeError> {
        let header = self.header()?;
        self.save(&TreeHeader { owner, ..header })
    }

    fn save(&mut self, header: &TreeHeader) -> Result<(), TreeError> {
        header.encode(self.0.page_mut(0)?);
        Ok(())
    }

    /// A node whose level is known.
    fn node(
        &mut self,
        header: &TreeHeader,
        page: u64,
        level: u32,
    ) -> Result<TreeNode<&[u8]>, TreeError> {
        check_number(header, page)?;
        let node = TreeNode::open(self.0.page(page)?).map_err(damaged(page))?;
        let found = node.level();
        let why = if found != level {
            format!("page {page} has level {found}, and {level} is expected")
        } else if node.count() == 0 && header.levels > 1 {
            format!("page {page} has no items")
        } else {
            return Ok(node);
        };
        Err(TreeError::Damaged(why))
    }

    /// The way to the item of `key`, or to the place that it would have in a leaf.
    fn path(&mut self, header: &TreeHeader, key: Key) -> Result<Path, TreeError> {
        let (mut page, mut rightmost) = (header.root, true);
        let mut steps = Vec::new();
        loop {
            let level = level_below(header, steps.len());
            let node = self.node(header, page, level)?;
            let place = node.search(key).map_err(damaged(page))?;
            let (Ok(index) | Err(index)) = place;
            if level == 0 {
                steps.push((page, index));
                let found = place.is_ok();
                return Ok(Path {
                    steps,
                    found,
                    rightmost,
                });
            }
            // The child is that of the last key that is not above `key`.
            let index = place.unwrap_or_else(|above| above - 1);
            rightmost &= index + 1 == node.count();
            steps.push((page, index));
            page = node.child(index).map_err(damaged(page))?;
        }
    }

    /// Leads a path to the first item of the next leaf, or the last item of the one before. `false` when there is none.
    fn turn(
        &mut self,
        header: &TreeHeader,
        path: &mut Path,
        forward: bool,
    ) -> Result<bool, TreeError> {
        let steps = &mut path.steps;
        steps.pop();
        let mut next = loop {
            let Some((page, index)) = steps.pop() else {
                return Ok(false);
            };
            let node = self.node(header, page, level_below(header, steps.len()))?;
            let beside = if forward {
                Some(index + 1).filter(|index| *index < node.count())
            } else {
                index.checked_sub(1)
            };
            if let Some(index) = beside {
                steps.push((page, index));
                break node.child(index).map_err(damaged(page))?;
            }
        };
        loop {
            let level = level_below(header, steps.len());
            let node = self.node(header, next, level)?;
            let index = if forward { 0 } else { node.count() - 1 };
            steps.push((next, index));
            if level == 0 {
                return Ok(true);
            }
            next = node.child(index).map_err(damaged(next))?;
        }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// When a page is damaged, or not in memory.
    pub fn get(&mut self, key: Key) -> Result<Option<Vec<u8>>, TreeError> {
        let header = self.header()?;
        let path = self.path(&header, key)?;
        if !path.found {
            return Ok(None);
        }
        Ok(Some(self.item(&header, &path)?.1))
    }

    /// The item at the end of a path.
    fn item(&mut self, header: &TreeHeader, path: &Path) -> Result<(Key, Vec<u8>), TreeError> {
        let &(page, index) = path.steps.last().expect("a path ends in a leaf");
        let node = self.node(header, page, 0)?;
        let (key, value) = node.item(index).map_err(damaged(page))?;
        Ok((key, value.to_vec()))
    }

    /// The first item whose key is `from` or greater.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn next(&mut self, from: Key) -> Result<Option<(Key, Vec<u8>)>, TreeError> {
        let mut found = None;
        self.scan(from, |key, value| {
            found = Some((key, value.to_vec()));
            false
        })?;
        Ok(found)
    }

    /// The last item whose key is `from` or smaller.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn previous(&mut self, from: Key) -> Result<Option<(Key, Vec<u8>)>, TreeError> {
        let header = self.header()?;
        let mut path = self.path(&header, from)?;
        if !path.found {
            let (_, index) = path.steps.last_mut().expect("a path ends in a leaf");
            match index.checked_sub(1) {
                Some(before) => *index = before,
                None if !self.turn(&header, &mut path, false)? => return Ok(None),
                None => {}
            }
        }
        let item = self.item(&header, &path)?;
        if item.0 > from {
            return Err(out_of_order(&path));
        }
        Ok(Some(item))
    }

    /// Calls `each` for the items from `from` on, in the order of their keys, until it returns `false`. When the scan runs
    /// again because it had to wait, it begins at `from` again.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn scan(
        &mut self,
        from: Key,
        mut each: impl FnMut(Key, &[u8]) -> bool,
    ) -> Result<(), TreeError> {
        let header = self.header()?;
        let mut path = self.path(&header, from)?;
        let mut last = None;
        loop {
            let &(page, first) = path.steps.last().expect("a path ends in a leaf");
            let node = self.node(&header, page, 0)?;
            for index in first..node.count() {
                let (key, value) = node.item(index).map_err(damaged(page))?;
                if key < from || last >= Some(key) {
                    return Err(out_of_order(&path));
                }
                last = Some(key);
                if !each(key, value) {
                    return Ok(());
                }
            }
            if !self.turn(&header, &mut path, true)? {
                return Ok(());
            }
        }
    }
}

fn out_of_order(path: &Path) -> TreeError {
    let (page, _) = path.steps.last().expect("a path ends in a leaf");
    TreeError::Damaged(format!("the keys of page {page} are out of order"))
}
