//! Verification of a whole tree, for `tonearm check`.

use super::{Key, Pages, Tree, TreeError, check_number, damaged, level_below};
use tonearm_format::{TreeFreePage, TreeHeader};

/// What a verified tree consists of. All but the header page are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Levels of nodes.
    pub levels: u32,
    /// Pages that are inner nodes.
    pub inner: u64,
    /// Pages that are leaves.
    pub leaves: u64,
    /// Pages that are free.
    pub free: u64,
    /// Items in the leaves.
    pub items: u64,
    /// Bytes of the leaves that items and their slots take.
    pub used_bytes: u64,
}

/// The pages that were met, one bit each.
struct Met(Vec<u64>);

impl Met {
    fn has(&self, page: u64) -> bool {
        self.0[(page / 64) as usize] >> (page % 64) & 1 == 1
    }

    fn check_new(&self, page: u64) -> Result<(), TreeError> {
        if self.has(page) {
            Err(TreeError::Damaged(format!("page {page} is used twice")))
        } else {
            Ok(())
        }
    }

    fn meet(&mut self, page: u64) {
        self.0[(page / 64) as usize] |= 1 << (page % 64);
    }
}

/// A node on the way to the node that is verified.
struct Step {
    page: u64,
    /// The next child to verify.
    next: usize,
    /// No key below the node is smaller.
    from: Key,
    /// All keys below the node are smaller.
    to: Option<Key>,
}

/// A verification that is under way. It goes on where it was when a page was not in memory, so it needs memory for one bit of
/// each page and for few pages at a time.
pub struct Check {
    header: TreeHeader,
    met: Met,
    report: Report,
    steps: Vec<Step>,
    /// The node that is next, and the bounds of its keys.
    child: Option<(u64, Key, Option<Key>)>,
    /// The free page that is next.
    free: u64,
}

impl Check {
    /// Verifies one page more. Returns true when all is verified.
    ///
    /// # Errors
    /// [`TreeError::Damaged`] with the first fault; when a page is not in memory.
    pub fn step<P: Pages>(&mut self, tree: &mut Tree<'_, P>) -> Result<bool, TreeError> {
        if let Some((page, from, to)) = self.child {
            check_number(&self.header, page)?;
            self.met.check_new(page)?;
            let level = level_below(&self.header, self.steps.len());
            tree.check_node(&self.header, page, level, (from, to), &mut self.report)?;
            self.met.meet(page);
            self.child = None;
            if level > 0 {
                let next = 0;
                self.steps.push(Step {
                    page,
                    next,
                    from,
                    to,
                });
            }
            return Ok(false);
        }
        let above = self.steps.len().wrapping_sub(1);
        if let Some(step) = self.steps.last_mut() {
            let node = tree.node(&self.header, step.page, level_below(&self.header, above))?;
            if step.next == node.count() {
                self.steps.pop();
                return Ok(false);
            }
            let key = |index| {
                let item = node.item(index);
                item.map(|(key, _)| key).map_err(damaged(step.page))
            };
            let from = match step.next {
                0 => step.from,
                next => key(next)?,
            };
            let to = if step.next + 1 == node.count() {
                step.to
            } else {
                Some(key(step.next + 1)?)
            };
            let child = node.child(step.next).map_err(damaged(step.page))?;
            self.child = Some((child, from, to));
            step.next += 1;
            return Ok(false);
        }
        if self.free != 0 {
            let page = self.free;
            check_number(&self.header, page)?;
            self.met.check_new(page)?;
            let free = TreeFreePage::decode(tree.0.page(page)?).map_err(damaged(page))?;
            self.met.meet(page);
            self.report.free += 1;
            self.free = free.next;
            return Ok(false);
        }
        self.compare().map(|()| true)
    }

    /// What the tree consists of, as far as it is verified.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Compares what was met with the numbers in the header.
    fn compare(&self) -> Result<(), TreeError> {
        let (header, report) = (&self.header, &self.report);
        let reached = 1 + report.inner + report.leaves + report.free;
        let fault = if report.items != header.items {
            format!(
                "it has {} items, and page 0 counts {}",
                report.items, header.items
            )
        } else if report.free != header.free_count {
            let (found, count) = (report.free, header.free_count);
            format!("{found} pages are free, and page 0 counts {count}")
        } else if reached != header.used {
            let lost = (0..header.used).find(|page| !self.met.has(*page));
            let lost = lost.expect("fewer pages were met than there are");
            format!("page {lost} is neither in the tree nor free")
        } else {
            return Ok(());
        };
        Err(TreeError::Damaged(fault))
    }
}

impl<P: Pages> Tree<'_, P> {
    /// Begins to verify the whole tree: each page in use is a node that is reached once, or free; levels and the order of
    /// keys are right; the numbers in the header agree. Nothing may change meanwhile.
    ///
    /// # Errors
    /// When the header is damaged, or not in memory.
    pub fn begin_check(&mut self) -> Result<Check, TreeError> {
        let header = self.header()?;
        let mut met = Met(vec![0; header.used.div_ceil(64) as usize]);
        met.meet(0);
        Ok(Check {
            met,
            report: Report {
                levels: header.levels,
                ..Report::default()
            },
            steps: Vec::new(),
            child: Some((header.root, Key::default(), None)),
            free: header.free_head,
            header,
        })
    }

    /// Verifies the whole tree at once ([`Self::begin_check`]).
    ///
    /// # Errors
    /// [`TreeError::Damaged`] with the first fault; when a page is not in memory.
    pub fn check(&mut self) -> Result<Report, TreeError> {
        let mut check = self.begin_check()?;
        while !check.step(self)? {}
        Ok(check.report)
    }

    /// Verifies a node alone, and that its keys are within the bounds that its parent sets.
    fn check_node(
        &mut self,
        header: &TreeHeader,
        page: u64,
        level: u32,
        (from, to): (Key, Option<Key>),
        report: &mut Report,
    ) -> Result<(), TreeError> {
        let node = self.node(header, page, level)?;
        node.check().map_err(damaged(page))?;
        if level > 0 && page == header.root && node.count() == 1 {
            return Err(TreeError::Damaged(format!(
                "page {page} is a root of one child"
            )));
        }
        // The first key of an inner node has no meaning, and the second is above the bound.
        let first = usize::from(level > 0);
        for index in [first, node.count().saturating_sub(1)] {
            if index < first || index >= node.count() {
                continue;
            }
            let (key, _) = node.item(index).map_err(damaged(page))?;
            let above = key > from || key == from && level == 0;
            let below = to.is_none_or(|to| key < to);
            if !above || !below {
                let why = format!("page {page} has keys that do not belong there");
                return Err(TreeError::Damaged(why));
            }
        }
        if level > 0 {
            report.inner += 1;
        } else {
            report.leaves += 1;
            report.items += node.count() as u64;
            report.used_bytes += node.used() as u64;
        }
        Ok(())
    }
}
