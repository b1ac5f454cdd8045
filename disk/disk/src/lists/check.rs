//! Verifies all lists.

use super::area::Lists;
use super::bits::Bits;
use super::{BlockId, ListId};
use crate::disk::Disk;
use crate::error::DiskError;
use async_recursion::async_recursion as boxed;

/// Most problems that are reported.
const PROBLEMS_MAX: usize = 100;

/// The result of [`Disk::check_lists`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListsReport {
    /// Lists.
    pub lists: u64,
    /// Blocks on lists.
    pub blocks: u64,
    /// The problems, up to a hundred sentences.
    pub problems: Vec<String>,
}

impl ListsReport {
    fn problem(&mut self, text: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(text);
        }
    }
}

impl Disk {
    /// Verifies the committed lists: each allocated block is on one list, and each list is a chain in both directions
    /// with as many blocks as its record says. Nothing may be committed meanwhile. Takes a bit of memory for each block
    /// of the area.
    ///
    /// # Errors
    /// When a page cannot be read; damage is in the report.
    #[boxed(?Send)]
    pub async fn check_lists(&self) -> Result<ListsReport, DiskError> {
        let mut report = ListsReport::default();
        let mut seen = Bits::default();
        let lists = &self.core().lists;
        let zones = lists.zones;
        let zone_count = lists.pages.blocks().div_ceil(zones.blocks());
        for zone in 0..zone_count {
            for slot in 0..zones.records() {
                let list = zones.list(zone, slot);
                check_list(lists, list, &mut seen, &mut report).await?;
            }
        }
        for zone in 0..zone_count {
            for slot in 0..zones.records() {
                let block = zones.block(zone, slot);
                match lists.block(block).await {
                    Ok(Some(record)) if !seen.get(block) => {
                        let list = record.list;
                        report.problem(format!(
                            "block {block} says to be on list {list}, which does not have it"
                        ));
                    }
                    Ok(_) => {}
                    Err(DiskError::ListsDamaged(text)) => report.problem(text),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(report)
    }
}

async fn check_list(
    lists: &Lists,
    list: u64,
    seen: &mut Bits,
    report: &mut ListsReport,
) -> Result<(), DiskError> {
    let record = match lists.list(list).await {
        Ok(Some(record)) => record,
        Ok(None) => return Ok(()),
        Err(DiskError::ListsDamaged(text)) => {
            report.problem(text);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    report.lists += 1;
    let (mut at, mut before, mut count) = (record.first, 0, 0);
    while at != 0 {
        let found = match lists.block(at).await {
            Err(DiskError::ListsDamaged(_)) => None,
            found => found?,
        };
        let sound = found.filter(|found| found.list == list && found.prev == before);
        let Some(found) = sound.filter(|_| !seen.get(at)) else {
            let (list, at) = (ListId(list), BlockId(at));
            report.problem(format!("list {list} is broken at block {at}"));
            return Ok(());
        };
        seen.set(at);
        count += 1;
        (before, at) = (at, found.next);
    }
    report.blocks += count;
    if count != record.count || before != record.last {
        report.problem(format!(
            "list {list} has {count} blocks up to {before} and says {} up to {}",
            record.count, record.last
        ));
    }
    Ok(())
}
