//! The pages of a B+tree index, without its entries.
//!
//! A leaf knows the least key that belongs to it, the greatest key that it was given, and how many entries it has. That
//! is enough to say which pages an operation reads and writes, with little memory. Two things follow:
//! - A full leaf that gets a key above all its keys keeps its entries, and the new key begins a new leaf. Keys that
//!   ascend, such as the orders of a district, so fill leaves wholly.
//! - Any other full leaf is split in the middle of its range of keys, and half of the entries is taken to lie on each
//!   side. That is exact for keys that are spread evenly.
//!
//! Invariants:
//! 1. All leaves have the same depth. No page has more entries or children than its capacity.
//! 2. The ranges of the leaves follow each other without overlap; each leaf names its neighbours.
//! 3. A leaf that loses its last entry is removed, unless it is its parent's only child.

use super::options::{Index, TpccOptions};
use super::space::{Extents, Space};
use super::work::Work;

/// No node.
const NONE: u32 = u32::MAX;

struct Leaf {
    first: u64,
    last: u64,
    entries: u32,
    before: u32,
    after: u32,
}

/// The least key of each child, and the children.
#[derive(Default)]
struct Inner {
    keys: Vec<u64>,
    children: Vec<u32>,
}

enum Body {
    Leaf(Leaf),
    Inner(Inner),
}

struct Node {
    page: u64,
    body: Body,
}

/// The index.
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// Numbers of removed nodes.
    removed: Vec<u32>,
    root: u32,
    levels: u32,
    capacity: usize,
    entries: u64,
    extents: Extents,
    /// The inner nodes on the way to the leaf that was found last, and the child taken in each.
    path: Vec<(u32, usize)>,
}

/// Collects the entries of a tree in ascending order.
pub(super) struct Loader {
    name: &'static str,
    leaves: Vec<Leaf>,
    per_leaf: u32,
    capacity: usize,
    open: bool,
}

impl Loader {
    pub fn new(options: &TpccOptions, index: Index) -> Self {
        Self {
            name: index.name(),
            leaves: Vec::new(),
            per_leaf: options.entries_loaded_per_page(index),
            capacity: options.entries_per_page(index) as usize,
            open: false,
        }
    }

    pub fn push(&mut self, key: u64) {
        match self.leaves.last_mut() {
            Some(leaf) if self.open && leaf.entries < self.per_leaf => {
                leaf.entries += 1;
                leaf.last = key;
            }
            _ => {
                let number = self.leaves.len() as u32;
                self.leaves.push(Leaf {
                    first: key,
                    last: key,
                    entries: 1,
                    before: number.checked_sub(1).unwrap_or(NONE),
                    after: number + 1,
                });
                self.open = true;
            }
        }
    }

    /// The next key begins a leaf.
    pub fn end_run(&mut self) {
        self.open = false;
    }

    /// The tree, with its pages in one region: the leaves, then each inner level. At least one key was pushed.
    pub fn finish(mut self, space: &mut Space) -> Tree {
        let entries = self.leaves.iter().map(|leaf| u64::from(leaf.entries)).sum();
        if let Some(leaf) = self.leaves.last_mut() {
            leaf.after = NONE;
        }
        let mut level: Vec<(u64, u32)> = (0..)
            .zip(&self.leaves)
            .map(|(n, leaf)| (leaf.first, n))
            .collect();
        let mut bodies: Vec<Body> = self.leaves.into_iter().map(Body::Leaf).collect();
        let mut levels = 1;
        let per_inner = (self.per_leaf as usize).max(2);
        while level.len() > 1 {
            let mut above = Vec::new();
            for children in level.chunks(per_inner) {
                above.push((children[0].0, bodies.len() as u32));
                bodies.push(Body::Inner(Inner {
                    keys: children.iter().map(|child| child.0).collect(),
                    children: children.iter().map(|child| child.1).collect(),
                }));
            }
            level = above;
            levels += 1;
        }
        let (extents, first) = Extents::load(space, self.name, bodies.len() as u64);
        let nodes: Vec<Node> = (first..)
            .zip(bodies)
            .map(|(page, body)| Node { page, body })
            .collect();
        Tree {
            root: nodes.len() as u32 - 1,
            nodes,
            removed: Vec::new(),
            levels,
            capacity: self.capacity,
            entries,
            extents,
            path: Vec::new(),
        }
    }
}

impl Tree {
    /// Reads the way to the leaf of `key`.
    pub fn find(&mut self, key: u64, work: &mut Work) {
        self.descend(key, work);
    }

    /// Reads the way to the leaf of `from`, and the leaves after it up to that of `to`.
    pub fn scan(&mut self, from: u64, to: u64, work: &mut Work) {
        let first = self.descend(from, work);
        let mut leaf = self.leaf(first).after;
        while leaf != NONE && self.leaf(leaf).first <= to {
            work.read(self.nodes[leaf as usize].page);
            leaf = self.leaf(leaf).after;
        }
    }

    /// Inserts an entry.
    pub fn insert(&mut self, key: u64, space: &mut Space, work: &mut Work) {
        let number = self.descend(key, work);
        self.entries += 1;
        let capacity = self.capacity as u32;
        work.write(self.nodes[number as usize].page);
        let leaf = self.leaf_mut(number);
        // A leaf takes over the keys of a leaf before it that was removed.
        leaf.first = leaf.first.min(key);
        if leaf.entries < capacity {
            leaf.entries += 1;
            leaf.last = leaf.last.max(key);
            return;
        }
        let mut new = Leaf {
            first: key,
            last: key,
            entries: 1,
            before: number,
            after: leaf.after,
        };
        if key < leaf.last {
            new.first = leaf.first + (leaf.last - leaf.first) / 2 + 1;
            new.last = leaf.last;
            new.entries = leaf.entries / 2;
            leaf.entries -= new.entries;
            leaf.last = new.first - 1;
            let side = if key < new.first {
                &mut *leaf
            } else {
                &mut new
            };
            side.entries += 1;
        } else if key == leaf.last {
            // The entry with this key was removed.
            leaf.last = key - 1;
        }
        let (first, after) = (new.first, new.after);
        let new = self.add(Body::Leaf(new), space, work);
        self.leaf_mut(number).after = new;
        if after != NONE {
            self.leaf_mut(after).before = new;
        }
        self.insert_child(first, new, space, work);
    }

    /// Removes an entry, which exists.
    pub fn remove(&mut self, key: u64, work: &mut Work) {
        let number = self.descend(key, work);
        self.entries -= 1;
        work.write(self.nodes[number as usize].page);
        let leaf = self.leaf_mut(number);
        // After a split in the middle the count is an estimate.
        leaf.entries = leaf.entries.saturating_sub(1);
        let (entries, before, after) = (leaf.entries, leaf.before, leaf.after);
        let Some((parent, at)) = self.path.pop() else {
            return;
        };
        if entries > 0 || self.inner_mut(parent).children.len() == 1 {
            return;
        }
        let inner = self.inner_mut(parent);
        inner.keys.remove(at);
        inner.children.remove(at);
        work.write(self.nodes[parent as usize].page);
        if before != NONE {
            self.leaf_mut(before).after = after;
        }
        if after != NONE {
            self.leaf_mut(after).before = before;
        }
        self.extents.release(self.nodes[number as usize].page);
        self.removed.push(number);
    }

    pub fn entries(&self) -> u64 {
        self.entries
    }

    pub fn levels(&self) -> u32 {
        self.levels
    }

    pub fn pages(&self) -> u64 {
        self.extents.used()
    }

    /// Checks the invariants, and that the leaves have all entries. They seem to have more when a leaf whose estimate
    /// was too low has lost entries.
    pub fn check(&self) -> Result<(), String> {
        let mut level = vec![self.root];
        for _ in 1..self.levels {
            let mut below = Vec::new();
            for number in level {
                let Body::Inner(inner) = &self.nodes[number as usize].body else {
                    return Err("a leaf is above the other leaves".into());
                };
                let count = inner.children.len();
                if count == 0 || count > self.capacity || count != inner.keys.len() {
                    return Err(format!("an inner page has {count} children"));
                }
                below.extend_from_slice(&inner.children);
            }
            level = below;
        }
        let (mut entries, mut before, mut end) = (0, NONE, None);
        for number in level {
            let Body::Leaf(leaf) = &self.nodes[number as usize].body else {
                return Err("an inner page is below the leaves".into());
            };
            let follows = end.is_none_or(|end| leaf.first > end);
            if leaf.entries as usize > self.capacity || leaf.before != before || !follows {
                return Err(format!("the leaf that begins with {} is wrong", leaf.first));
            }
            if before != NONE && self.leaf(before).after != number {
                return Err(format!("the leaf before {} names another one", leaf.first));
            }
            entries += u64::from(leaf.entries);
            (before, end) = (number, Some(leaf.last.max(leaf.first)));
        }
        if entries < self.entries {
            return Err(format!("leaves have {entries} of {} entries", self.entries));
        }
        Ok(())
    }

    /// Reads the way to the leaf of `key` and keeps it in `path`.
    fn descend(&mut self, key: u64, work: &mut Work) -> u32 {
        self.path.clear();
        let mut number = self.root;
        loop {
            let node = &self.nodes[number as usize];
            work.read(node.page);
            match &node.body {
                Body::Leaf(_) => return number,
                Body::Inner(inner) => {
                    let at = inner
                        .keys
                        .partition_point(|first| *first <= key)
                        .saturating_sub(1);
                    self.path.push((number, at));
                    number = inner.children[at];
                }
            }
        }
    }

    /// Puts a new child after the one that the path takes; splits inner pages as far up as needed.
    fn insert_child(&mut self, key: u64, child: u32, space: &mut Space, work: &mut Work) {
        let (mut key, mut child) = (key, child);
        let capacity = self.capacity;
        while let Some((number, at)) = self.path.pop() {
            work.write(self.nodes[number as usize].page);
            let inner = self.inner_mut(number);
            inner.keys.insert(at + 1, key);
            inner.children.insert(at + 1, child);
            let count = inner.children.len();
            if count <= capacity {
                return;
            }
            // Children that come at the end leave a full page, as in leaves.
            let kept = if at + 2 == count {
                count - 1
            } else {
                count / 2
            };
            let new = Inner {
                keys: inner.keys.split_off(kept),
                children: inner.children.split_off(kept),
            };
            key = new.keys[0];
            child = self.add(Body::Inner(new), space, work);
        }
        let root = Inner {
            keys: vec![0, key],
            children: vec![self.root, child],
        };
        self.root = self.add(Body::Inner(root), space, work);
        self.levels += 1;
    }

    /// A node on a new page, which is written.
    fn add(&mut self, body: Body, space: &mut Space, work: &mut Work) -> u32 {
        let page = self.extents.allocate(space);
        work.write(page);
        let node = Node { page, body };
        match self.removed.pop() {
            Some(number) => {
                self.nodes[number as usize] = node;
                number
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    fn leaf(&self, number: u32) -> &Leaf {
        match &self.nodes[number as usize].body {
            Body::Leaf(leaf) => leaf,
            Body::Inner(_) => unreachable!("leaves name leaves"),
        }
    }

    fn leaf_mut(&mut self, number: u32) -> &mut Leaf {
        match &mut self.nodes[number as usize].body {
            Body::Leaf(leaf) => leaf,
            Body::Inner(_) => unreachable!("leaves name leaves"),
        }
    }

    fn inner_mut(&mut self, number: u32) -> &mut Inner {
        match &mut self.nodes[number as usize].body {
            Body::Inner(inner) => inner,
            Body::Leaf(_) => unreachable!("paths name inner pages"),
        }
    }
}

#[cfg(test)]
#[path = "tree_test.rs"]
mod tree_test;
