//! Changes of the tree: items are inserted, replaced and removed; pages are split, merged, taken and given back.
//!
//! A page that has no room is split in the middle. When the new item lies after all others of the tree, the left page
//! stays full and the new item gets a page of its own: so ascending keys fill their pages. A page that is less than a third
//! full is merged with a neighbour of the same parent if an eighth of the page stays free: so the next inserts do not
//! split it again. A page without items is given back.

use super::{Key, Pages, Path, Tree, TreeError, Wait, check_number, damaged, level_below};
use tonearm_format::{
    FormatError, TREE_LEVELS_MAX, TreeFreePage, TreeHeader, TreeNode, child_value, max_value,
};

/// What is inserted into a node: an item of a leaf, or a child that a split has made.
struct Item {
    key: Key,
    value: Vec<u8>,
}

/// Checks an insertion into a page that has room for it unless it is damaged.
fn must_fit(page: u64, fits: Result<bool, FormatError>) -> Result<(), TreeError> {
    if fits.map_err(damaged(page))? {
        return Ok(());
    }
    let why = format!("page {page} has less room than its header says");
    Err(TreeError::Damaged(why))
}

impl<P: Pages> Tree<'_, P> {
    /// A node that this operation has checked with [`Self::node`], or made.
    fn node_mut(&mut self, page: u64) -> Result<TreeNode<&mut [u8]>, TreeError> {
        TreeNode::open(self.0.page_mut(page)?).map_err(damaged(page))
    }

    /// A copy of a page, for items that move to another one.
    fn copy(&mut self, page: u64) -> Result<TreeNode<Vec<u8>>, TreeError> {
        TreeNode::open(self.0.page(page)?.to_vec()).map_err(damaged(page))
    }

    /// Inserts an item, or replaces the value of the key. A value that takes as many words as the old one changes in place.
    ///
    /// # Errors
    /// [`TreeError::TooLarge`] for a value longer than [`max_value`]; [`Wait::Full`] when no page is free; when a page is
    /// damaged, or not in memory.
    pub fn put(&mut self, key: Key, value: &[u8]) -> Result<(), TreeError> {
        if value.len() > max_value(self.0.page(0)?.len()) {
            return Err(TreeError::TooLarge);
        }
        let mut header = self.header()?;
        let path = self.path(&header, key)?;
        if path.found {
            let &(page, index) = path.steps.last().expect("a path ends in a leaf");
            let mut node = self.node_mut(page)?;
            if node.replace(index, value).map_err(damaged(page))? {
                return Ok(());
            }
            node.remove(index).map_err(damaged(page))?;
        } else {
            header.items += 1;
        }
        let value = value.to_vec();
        self.insert(&mut header, path, Item { key, value })?;
        self.save(&header)
    }

    /// Inserts an item at the end of a path. Splits the pages that have no room, from the leaf up.
    fn insert(
        &mut self,
        header: &mut TreeHeader,
        mut path: Path,
        mut item: Item,
    ) -> Result<(), TreeError> {
        while let Some((page, index)) = path.steps.pop() {
            let mut node = self.node_mut(page)?;
            let fits = node.insert(index, item.key, &item.value);
            if fits.map_err(damaged(page))? {
                return Ok(());
            }
            let behind_all = path.rightmost && index == node.count();
            item = self.split(header, page, index, item, behind_all)?;
            match path.steps.last_mut() {
                Some((_, index)) => *index += 1,
                None => return self.grow(header, item),
            }
        }
        Ok(())
    }

    /// Splits a page and inserts an item at `index`. Returns the item of the new page, which is right of the old one.
    fn split(
        &mut self,
        header: &mut TreeHeader,
        page: u64,
        index: usize,
        item: Item,
        behind_all: bool,
    ) -> Result<Item, TreeError> {
        let right = self.alloc(header)?;
        let old = self.copy(page)?;
        let middle = if behind_all {
            old.count()
        } else {
            let middle = old.middle(index, item.value.len());
            middle.map_err(damaged(page))?
        };
        let on_left = index < middle;
        let stay = middle - usize::from(on_left);
        // What stays on the left keeps its place in the page, so that few words change.
        let mut node = self.node_mut(page)?;
        node.truncate(stay).map_err(damaged(page))?;
        if on_left {
            must_fit(page, node.insert(index, item.key, &item.value))?;
        }
        let mut node = TreeNode::format(self.0.page_mut(right)?, old.level());
        for from in stay..old.count() {
            let (key, value) = old.item(from).map_err(damaged(page))?;
            must_fit(right, node.insert(from - stay, key, value))?;
        }
        if !on_left {
            must_fit(right, node.insert(index - stay, item.key, &item.value))?;
        }
        let (key, _) = node.item(0).map_err(damaged(right))?;
        let value = child_value(right).to_vec();
        Ok(Item { key, value })
    }

    /// Makes a root over the old one and the page that was split from it.
    fn grow(&mut self, header: &mut TreeHeader, right: Item) -> Result<(), TreeError> {
        if header.levels == TREE_LEVELS_MAX {
            let why = format!("it would need more than {TREE_LEVELS_MAX} levels");
            return Err(TreeError::Damaged(why));
        }
        let root = self.alloc(header)?;
        let mut node = TreeNode::format(self.0.page_mut(root)?, header.levels);
        must_fit(
            root,
            node.insert(0, Key::default(), &child_value(header.root)),
        )?;
        must_fit(root, node.insert(1, right.key, &right.value))?;
        header.root = root;
        header.levels += 1;
        Ok(())
    }

    /// Removes an item. `false` when there is none of this key.
    ///
    /// # Errors
    /// When a page is damaged, or not in memory.
    pub fn remove(&mut self, key: Key) -> Result<bool, TreeError> {
        let mut header = self.header()?;
        let mut path = self.path(&header, key)?;
        if !path.found {
            return Ok(false);
        }
        let items = header.items.checked_sub(1);
        header.items = items.ok_or(TreeError::Damaged("page 0 counts too few items".into()))?;
        while let Some((page, index)) = path.steps.pop() {
            let level = level_below(&header, path.steps.len());
            let mut node = self.node_mut(page)?;
            node.remove(index).map_err(damaged(page))?;
            let (count, sparse) = (node.count(), node.used() < node.room() / 3);
            let Some((parent, child)) = path.steps.last_mut() else {
                self.shrink(&mut header)?;
                break;
            };
            // The next pass removes the item of the page that was given back.
            if count == 0 {
                self.free(&mut header, page)?;
            } else if sparse && let Some(gone) = self.merge(&mut header, *parent, *child, level)? {
                *child = gone;
            } else {
                break;
            }
        }
        self.save(&header)?;
        Ok(true)
    }

    /// Merges a child of `parent` with the one before or after it, if both fit into one page. Returns the number of the
    /// child that was given back, and that `parent` still names.
    fn merge(
        &mut self,
        header: &mut TreeHeader,
        parent: u64,
        child: usize,
        level: u32,
    ) -> Result<Option<usize>, TreeError> {
        for right in [child, child + 1] {
            let node = self.node(header, parent, level + 1)?;
            if right == 0 || right == node.count() {
                continue;
            }
            let (separator, _) = node.item(right).map_err(damaged(parent))?;
            let left_page = node.child(right - 1).map_err(damaged(parent))?;
            let right_page = node.child(right).map_err(damaged(parent))?;
            let left_used = self.node(header, left_page, level)?.used();
            let node = self.node(header, right_page, level)?;
            if left_used + node.used() > node.room() - node.room() / 8 {
                continue;
            }
            let moved = self.copy(right_page)?;
            let mut node = self.node_mut(left_page)?;
            for from in 0..moved.count() {
                let (key, value) = moved.item(from).map_err(damaged(right_page))?;
                // The first key of an inner node has no meaning there, and gets one here.
                let key = if from == 0 && level > 0 {
                    separator
                } else {
                    key
                };
                must_fit(left_page, node.insert(node.count(), key, value))?;
            }
            self.free(header, right_page)?;
            return Ok(Some(right));
        }
        Ok(None)
    }

    /// Makes the only child of the root the root.
    fn shrink(&mut self, header: &mut TreeHeader) -> Result<(), TreeError> {
        while header.levels > 1 {
            let root = header.root;
            let node = self.node(header, root, header.levels - 1)?;
            if node.count() > 1 {
                break;
            }
            header.root = node.child(0).map_err(damaged(root))?;
            header.levels -= 1;
            self.free(header, root)?;
        }
        Ok(())
    }

    /// Takes a page that no node uses.
    fn alloc(&mut self, header: &mut TreeHeader) -> Result<u64, TreeError> {
        let free = header.free_count + (self.0.count() - header.used);
        if free <= self.0.kept() {
            return Err(Wait::Full.into());
        }
        let page = header.free_head;
        if page == 0 {
            header.used += 1;
            return Ok(header.used - 1);
        }
        check_number(header, page)?;
        let free = TreeFreePage::decode(self.0.page(page)?).map_err(damaged(page))?;
        let count = header.free_count.checked_sub(1);
        header.free_count = count.ok_or(TreeError::Damaged(format!(
            "the chain of free pages does not end at page {page}"
        )))?;
        header.free_head = free.next;
        Ok(page)
    }

    /// Gives a page back.
    fn free(&mut self, header: &mut TreeHeader, page: u64) -> Result<(), TreeError> {
        let next = header.free_head;
        TreeFreePage { next }.encode(self.0.page_mut(page)?);
        header.free_head = page;
        header.free_count += 1;
        Ok(())
    }
}
