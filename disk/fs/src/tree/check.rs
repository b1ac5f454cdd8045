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
    fn meet(&mut self, page: u64) -> Result<(), TreeError> {
        let (word, bit) = (&mut self.0[(page / 64) as usize], 1 << (page % 64));
        if *word & bit != 0 {
            return Err(TreeError::Damaged(format!("page {page} is used twice")));
        }
        *word |= bit;
        Ok(())
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

impl<P: Pages> Tree<'_, P> {
    /// Verifies the whole tree: each page in use is a node that is reached once, or free; levels and the order of keys are
    /// right; the numbers in the header agree. Needs memory for one bit of each page.
    ///
    /// # Errors
    /// [`TreeError::Damaged`] with the first fault; when a page is not in memory.
    pub fn check(&mut self) -> Result<Report, TreeError> {
        let header = self.header()?;
        let mut met = Met(vec![0; header.used.div_ceil(64) as usize]);
        met.meet(0)?;
        let mut report = Report {
            levels: header.levels,
            ..Report::default()
        };
        let mut steps: Vec<Step> = Vec::new();
        let mut child = Some((header.root, Key::default(), None));
        loop {
            if let Some((page, from, to)) = child.take() {
                check_number(&header, page)?;
                met.meet(page)?;
                let level = level_below(&header, steps.len());
                self.check_node(&header, page, level, (from, to), &mut report)?;
                if level > 0 {
                    let next = 0;
                    steps.push(Step {
                        page,
                        next,
                        from,
                        to,
                    });
                }
            }
            let above = steps.len().wrapping_sub(1);
            let Some(step) = steps.last_mut() else {
                break;
            };
            let node = self.node(&header, step.page, level_below(&header, above))?;
            if step.next == node.count() {
                steps.pop();
                continue;
            }
            let key = |index| {
                node.item(index)
                    .map(|(key, _)| key)
                    .map_err(damaged(step.page))
            };
            let from = if step.next == 0 {
                step.from
            } else {
                key(step.next)?
            };
            let to = if step.next + 1 == node.count() {
                step.to
            } else {
                Some(key(step.next + 1)?)
            };
            child = Some((node.child(step.next).map_err(damaged(step.page))?, from, to));
            step.next += 1;
        }
        self.check_free(&header, &mut met, &mut report)?;
        let reached = 1 + report.inner + report.leaves + report.free;
        let fault = if report.items != header.items {
            format!(
                "it has {} items, and page 0 counts {}",
                report.items, header.items
            )
        } else if reached != header.used {
            let lost =
                (0..header.used).find(|page| met.0[(page / 64) as usize] >> (page % 64) & 1 == 0);
            let lost = lost.expect("fewer pages were met than there are");
            format!("page {lost} is neither in the tree nor free")
        } else {
            return Ok(report);
        };
        Err(TreeError::Damaged(fault))
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

    /// Verifies the chain of free pages.
    fn check_free(
        &mut self,
        header: &TreeHeader,
        met: &mut Met,
        report: &mut Report,
    ) -> Result<(), TreeError> {
        let mut page = header.free_head;
        while page != 0 {
            check_number(header, page)?;
            met.meet(page)?;
            report.free += 1;
            let free = TreeFreePage::decode(self.0.page(page)?).map_err(damaged(page))?;
            page = free.next;
        }
        if report.free != header.free_count {
            let (found, count) = (report.free, header.free_count);
            let why = format!("{found} pages are free, and page 0 counts {count}");
            return Err(TreeError::Damaged(why));
        }
        Ok(())
    }
}
