//! The content of a device, in pages. Pages of zeroes take no memory.
//!
//! Invariant: a clone shares all memory with its original; each write copies only the branch that it changes.

use crate::payload::{PAGE, Page};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

/// Pages of a leaf, and leaves of a node.
const LEAF: usize = 64;
const NODE: usize = 128;

#[derive(Clone)]
struct Leaf([Page; LEAF]);

#[derive(Clone)]
struct Node([Option<Rc<Leaf>>; NODE]);

/// The content of a device that is switched off.
#[derive(Clone, Default)]
pub struct DiskImage {
    /// Size in bytes.
    pub size: u64,
    nodes: Vec<Option<Rc<Node>>>,
    /// Sectors that cannot be read until they are rewritten.
    pub(crate) bad: BTreeSet<u64>,
}

struct Path {
    node: usize,
    leaf: usize,
    page: usize,
}

impl Path {
    fn of(page: u64) -> Self {
        let page = page as usize;
        Self {
            node: page / (LEAF * NODE),
            leaf: page / LEAF % NODE,
            page: page % LEAF,
        }
    }
}

impl DiskImage {
    /// A device of `size` zero bytes.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            nodes: Vec::new(),
            bad: BTreeSet::new(),
        }
    }

    /// Copies the bytes at `offset` into `out`. Bytes beyond the end are zeroes.
    pub fn read(&self, offset: u64, out: &mut [u8]) {
        for_pages(offset, out.len() as u64, |page, within, at| {
            let part = &mut out[at..at + within.len()];
            match self.page(page) {
                Some(content) => content.read(within, part),
                None => part.fill(0),
            }
        });
    }

    /// Overwrites the bytes at `offset`.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        for_pages(offset, data.len() as u64, |page, within, at| {
            let len = within.len();
            self.page_mut(page).write(within.start, &data[at..at + len]);
        });
    }

    /// Makes `len` bytes at `offset` read as zeroes.
    pub fn zero(&mut self, offset: u64, len: u64) {
        const ZEROES: [u8; PAGE] = [0; PAGE];
        let (mut at, end) = (offset, offset + len);
        while at < end {
            let leaf_bytes = (LEAF * PAGE) as u64;
            let path = Path::of(at / PAGE as u64);
            let node = self.nodes.get_mut(path.node).and_then(Option::as_mut);
            let stop = ((at / leaf_bytes + 1) * leaf_bytes).min(end);
            let Some(node) = node else {
                // No content up to the end of the node, or of the device.
                let node_bytes = leaf_bytes * NODE as u64;
                at = ((at / node_bytes + 1) * node_bytes).min(end);
                continue;
            };
            if node.0[path.leaf].is_some() {
                let leaf = &mut Rc::make_mut(node).0[path.leaf];
                if stop - at == leaf_bytes {
                    *leaf = None;
                } else if let Some(leaf) = leaf {
                    let leaf = Rc::make_mut(leaf);
                    for_pages(at, stop - at, |page, within, _| {
                        let page = &mut leaf.0[Path::of(page).page];
                        match page {
                            Page::Zero => {}
                            _ => page.write(within.start, &ZEROES[within]),
                        }
                    });
                }
            }
            at = stop;
        }
    }

    /// Inverts the bits of `mask` in the byte at `offset`.
    pub fn flip(&mut self, offset: u64, mask: u8) {
        let mut byte = [0];
        self.read(offset, &mut byte);
        self.write(offset, &[byte[0] ^ mask]);
    }

    /// Pages of 4 KiB that are not zero, in ascending order: their offsets in bytes.
    pub fn used_pages(&self) -> Vec<u64> {
        let mut used = Vec::new();
        for (n, node) in self.nodes.iter().enumerate() {
            for (l, leaf) in node.iter().flat_map(|node| node.0.iter().enumerate()) {
                for (p, page) in leaf.iter().flat_map(|leaf| leaf.0.iter().enumerate()) {
                    if !matches!(page, Page::Zero) {
                        used.push((((n * NODE + l) * LEAF + p) * PAGE) as u64);
                    }
                }
            }
        }
        used
    }

    pub(crate) fn put_page(&mut self, page: u64, content: Page) {
        *self.page_mut(page) = content;
    }

    fn page(&self, page: u64) -> Option<&Page> {
        let path = Path::of(page);
        let leaf = self.nodes.get(path.node)?.as_ref()?.0[path.leaf].as_ref()?;
        Some(&leaf.0[path.page])
    }

    fn page_mut(&mut self, page: u64) -> &mut Page {
        let path = Path::of(page);
        if self.nodes.len() <= path.node {
            self.nodes.resize(path.node + 1, None);
        }
        let node =
            self.nodes[path.node].get_or_insert_with(|| Rc::new(Node([const { None }; NODE])));
        let leaf = Rc::make_mut(node).0[path.leaf]
            .get_or_insert_with(|| Rc::new(Leaf([const { Page::Zero }; LEAF])));
        &mut Rc::make_mut(leaf).0[path.page]
    }
}

fn for_pages(offset: u64, len: u64, mut each: impl FnMut(u64, Range<usize>, usize)) {
    let (mut at, end) = (offset, offset + len);
    while at < end {
        let within = (at % PAGE as u64) as usize;
        let part = (PAGE - within).min((end - at) as usize);
        each(
            at / PAGE as u64,
            within..within + part,
            (at - offset) as usize,
        );
        at += part as u64;
    }
}

#[cfg(test)]
#[path = "image_test.rs"]
mod image_test;
